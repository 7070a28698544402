"""The defaults of min-cut, on generated graphs alone.

    python -m benchmarks.defaults.min_cut [--graphs 20] [--runs 5] [--only WORD] [--vertices 40]

*handicap*: up to 18 vertices one of all cuts is chosen, and a cut is the less likely beforehand the
more vertices its smaller side has; what each further vertex costs is moved as a multiple of
ln n / epsilon. *either*: with a delta, in larger graphs, "either" beside parting one vertex
("vertex", the default without a delta), the thesis's way ("near-minimum", the default with a delta
before), and the vertex with the least noisy degree. Graphs are of three kinds: two crowds with few
edges between, random ones, and ones with a thinly tied group of four. Figures are edges cut beyond
the smallest cut, means over graphs, and CPU seconds of a run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.methods.solvers.inputs import Edges, edges_of
from dpublish.methods.solvers.min_cut import contraction
from dpublish.methods.solvers.min_cut.contraction import crossing
from dpublish.methods.solvers.min_cut.kernels import smallest_cut
from dpublish.methods.solvers.min_cut.mechanism import MinCut
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

SCHEMA = Schema(name="bench", neighbours="add-remove-one")
KINDS = ("two crowds", "random", "a group of four")
MULTIPLES = (0.0, 0.25, 0.5, 1.0, 2.0)
EPSILONS = ("1/2", "1", "3")
DELTA = "1e-6"


def graph(kind: str, count: int, draw: np.random.Generator) -> Edges:
    side = np.zeros(count, dtype=np.int64)
    inside, across = float(draw.uniform(0.4, 0.9)), 0.0
    if kind != "random":
        side[draw.permutation(count)[: count // 2 if kind == "two crowds" else 4]] = 1
        across = float(draw.uniform(0, 1)) / count
    one, other = np.triu_indices(count, 1)
    chance = np.where(side[one] == side[other], inside, across)
    kept = draw.random(len(one)) < chance
    return edges_of(np.stack([one[kept], other[kept]], axis=1))


def beyond(edges: Edges, count: int, side: Any) -> float:
    ones = np.ones(len(edges), dtype=np.int64)
    least = smallest_cut(count, edges.heads, edges.tails, ones, 1 << 60)
    return float(crossing(edges, np.asarray(side)) - least)


def solved(edges: Edges, count: int, cost: Cost, rule: Any, seed: int) -> float:
    solver = MinCut(vertices=count, rule=rule)
    out = solver.run(SeededNoise(seed), edges, solver.plan(SCHEMA, cost))
    return beyond(edges, count, np.asarray(out.tables["sides"]["side"], dtype=np.bool_))


def noisy_degree(edges: Edges, count: int, epsilon: Fraction, seed: int) -> float:
    """An edge is in two degrees: a scale of 2 / epsilon."""
    degree = np.bincount(np.concatenate([edges.heads, edges.tails]), minlength=count)
    noise = np.random.default_rng(seed).laplace(scale=2 / float(epsilon), size=count)
    return beyond(edges, count, np.arange(count) == np.argmin(degree + noise))


def compare(
    ways: dict[str, Callable[[Edges, int], float]], count: int, graphs: int, runs: int, words: str
) -> None:
    for kind in KINDS:
        draw = np.random.default_rng([4, count])
        made = [graph(kind, count, draw) for _ in range(graphs)]
        said = []
        for name, way in ways.items():
            begun = time.process_time()
            each = [np.mean([way(edges, seed) for seed in range(runs)]) for edges in made]
            spent = (time.process_time() - begun) / (graphs * runs)
            error = float(np.std(each, ddof=1)) / graphs**0.5
            said.append(f"{name} {np.mean(each):.2f} +- {error:.2f} ({spent:.3f} s)")
        print(f"{words}, {kind}: {'; '.join(said)}", flush=True)


def handicap(graphs: int, runs: int) -> None:
    kept = contraction.handicaps
    for epsilon in EPSILONS:
        cost = Cost.pure(epsilon)
        ways: dict[str, Callable[[Edges, int], float]] = {}
        for multiple in MULTIPLES:

            def way(
                edges: Edges, seed: int, multiple: float = multiple, cost: Cost = cost
            ) -> float:
                contraction.handicaps = lambda count, share: np.ceil(
                    multiple * kept(count, share)
                ).astype(np.int64)
                try:
                    return solved(edges, 14, cost, "all", seed)
                finally:
                    contraction.handicaps = kept

            ways[f"{multiple:g} times"] = way
        ways["least noisy degree"] = lambda edges, seed, cost=cost: noisy_degree(
            edges, 14, cost.epsilon, seed
        )
        compare(ways, 14, graphs, runs, f"14 vertices, epsilon {epsilon}")


def either(graphs: int, runs: int, count: int) -> None:
    for epsilon in EPSILONS:
        cost, pure = Cost.approximate(epsilon, DELTA), Cost.pure(epsilon)
        ways: dict[str, Callable[[Edges, int], float]] = {
            rule: lambda edges, seed, rule=rule, cost=cost, pure=pure: solved(  # type: ignore[misc]
                edges, count, pure if rule == "vertex" else cost, rule, seed
            )
            for rule in ("either", "vertex", "near-minimum")
        }
        ways["least noisy degree"] = lambda edges, seed, pure=pure: noisy_degree(
            edges, count, pure.epsilon, seed
        )
        compare(ways, count, graphs, runs, f"{count} vertices, epsilon {epsilon}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=("handicap", "either"))
    parser.add_argument("--vertices", type=int, default=40)
    given = parser.parse_args()
    if given.only != "either":
        handicap(given.graphs, given.runs)
    if given.only != "handicap":
        either(given.graphs, given.runs, given.vertices)


if __name__ == "__main__":
    main()
