"""Cost against the optimum for every solver: `python -m benchmarks.papers.roth2010_optimize --data
DIR --out DIR [--quick]`.

DIR holds orlib_pmed.tar.gz, orlib_scp.tar.gz, graph_ego_facebook.txt.gz, graph_ca_grqc.txt.gz and
retail.txt.gz. A point is the mean of a few seeded runs; results.json has all of them, with the
theorem's bound and the lower bound of each plan. It is written after every instance, and a run that
was stopped goes on where it was; remove the file to start again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.papers.pages import stamp
from benchmarks.papers.roth2010_optimize.draw import draw_figure, write_page
from benchmarks.papers.roth2010_optimize.instances import (
    baskets,
    best_found,
    graph,
    largest_component,
    optima,
    unpacked,
)

from dpublish.counting.graphs import read_pmed, read_scp
from dpublish.declare.schema import Schema
from dpublish.methods.solvers.inputs import Edges, Lists, edges_of
from dpublish.methods.solvers.k_median.mechanism import KMedian
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.methods.solvers.min_cut.kernels import smallest_cut
from dpublish.methods.solvers.min_cut.mechanism import MinCut
from dpublish.methods.solvers.public_projects.mechanism import PublicProjects
from dpublish.methods.solvers.set_cover.mechanism import SetCover
from dpublish.methods.solvers.vertex_cover.mechanism import VertexCover, double_cover_matching
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

EPSILONS = ("0.1", "0.3", "1", "3", "10")
DENSITIES = (10, 100, 1000)
SCHEMA = Schema(name="bench", neighbours="add-remove-one")
DELTA = "1e-6"
Cases = Iterator[tuple[str, dict[str, Any]]]
Done = frozenset[str]


def sweep(
    mechanism: Any,
    numbers: Any,
    best: float,
    measure: Callable[[Any], float],
    runs: int,
    *,
    delta: bool = False,
    larger: bool = False,
    epsilons: Sequence[str] = EPSILONS,
) -> dict[str, Any]:
    """Mean of cost / best over `runs` seeds for every epsilon, with the ratios that the plan's two
    bounds amount to."""
    out: dict[str, Any] = {
        "epsilon": list(epsilons),
        "runs": runs,
        "ratio": [],
        "spread": [],
        "bound": [],
        "lower": [],
        "best": best,
    }
    for text in epsilons:
        plan = mechanism.plan(SCHEMA, Cost.approximate(text, DELTA) if delta else Cost.pure(text))
        ratios = [
            measure(mechanism.run(SeededNoise(seed), numbers, plan).tables) / best
            for seed in range(runs)
        ]
        out["ratio"].append(float(np.mean(ratios)))
        out["spread"].append(float(np.std(ratios)))
        for key, fact in (("bound", "bound"), ("lower", "lower_bound")):
            stated = plan.facts[fact]
            value = stated["factor"] + stated["additive"] / best
            out[key].append(max(0.0, value) if larger else value)
    return out


def densities_of(k: int) -> tuple[int, ...]:
    """Large k takes many steps, each with many swaps: fewer densities there."""
    return DENSITIES if k <= 30 else DENSITIES[::2] if k < 60 else DENSITIES[-1:]


def k_medians(data: Path, quick: bool, done: Done) -> Cases:
    """Demand points drawn uniformly over the vertices, so many a vertex on average; the reference
    is a search without noise."""
    with tempfile.TemporaryDirectory() as folder:
        files = unpacked(data / "orlib_pmed.tar.gz", Path(folder))
        known = optima(files, "pmed_optima")
        loaded = {
            number: read_pmed(files[f"pmed{number}"])
            for number in ((1, 6) if quick else range(1, 41))
        }
        # those that take longest come last
        for number, (distances, k) in sorted(
            loaded.items(), key=lambda item: item[1][1] ** 2 * len(item[1][0])
        ):
            names = {density: f"pmed{number}, {density} a vertex" for density in densities_of(k)}
            if done.issuperset(names.values()):
                continue
            size = len(distances)
            metric = Metric.matrix(distances)
            mechanism = KMedian(k=k, metric=metric, rule="search")
            # how good the reference is where the optimum is known: one demand point at every vertex
            once = best_found(metric, k, np.ones(size, dtype=np.int64)) / known[f"pmed{number}"]
            for density, name in names.items():
                demand = (
                    np.random.default_rng(number)
                    .multinomial(density * size, np.full(size, 1 / size))
                    .astype(np.int64)
                )
                measure = lambda t, d=distances, w=demand: float(  # noqa: E731
                    (w * d[:, t["chosen"]["site"]].min(axis=1)).sum()
                )
                case = sweep(
                    mechanism,
                    demand,
                    best_found(metric, k, demand),
                    measure,
                    3 if k <= 10 else 1,
                )
                yield name, case | {"k": k, "density": density, "reference": once}


def set_covers(data: Path, quick: bool, done: Done) -> Cases:
    with tempfile.TemporaryDirectory() as folder:
        files = unpacked(data / "orlib_scp.tar.gz", Path(folder))
        known = optima(files, "scp_optima")
        for name in (
            ["scp41", "scpa1"] if quick else sorted(name for name in known if name in files)
        ):
            if name in done:
                continue
            sets, costs, count = read_scp(files[name])
            prices = np.array([float(c) for c in costs])
            present = np.ones(count, dtype=np.int64)
            measure = lambda t, s=sets, p=prices, n=count: cover_price(s, p, n, t["order"]["set"])  # noqa: E731
            case = sweep(
                SetCover(sets=sets, elements=count, costs=costs, rule="weighted"),
                present,
                known[name],
                measure,
                2,
                delta=True,
            )
            draw = np.random.default_rng(0)
            blind = [
                cover_price(sets, prices, count, np.lexsort((draw.random(len(prices)), prices)))
                for _ in range(5)
            ]
            yield (
                name,
                case
                | {"by public cost alone": float(np.mean(blind)) / known[name], "family": name[3]},
            )


def cover_price(sets: Lists, prices: Any, count: int, order: Any) -> float:
    left, total = np.ones(count, dtype=bool), 0.0
    for number in order.tolist():
        held = sets.items[sets.starts[number] : sets.starts[number + 1]]
        if left[held].any():
            total += prices[number]
            left[held] = False
    return total


def covered_by(edges: Edges, count: int, order: Any) -> float:
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    return float(
        len(np.unique(np.where(place[edges.heads] < place[edges.tails], edges.heads, edges.tails)))
    )


def vertex_covers(data: Path, quick: bool, done: Done) -> Cases:
    for name in ("ego_facebook", "ca_grqc"):
        edges, count = graph(data / f"graph_{name}.txt.gz")
        floor = double_cover_matching(edges, count) / 2  # the smallest cover is at least this
        draw = np.random.default_rng(0)
        blind = (
            float(np.mean([covered_by(edges, count, draw.permutation(count)) for _ in range(5)]))
            / floor
        )
        for rule in ("schedule", "two-phase"):
            measure = lambda t, e=edges, n=count: covered_by(e, n, t["order"]["vertex"])  # noqa: E731
            case = sweep(
                VertexCover(vertices=count, rule=rule), edges, floor, measure, 3 if quick else 10
            )  # type: ignore[arg-type]
            yield f"{name}, {rule}", case | {"random order": blind}


def min_cuts(data: Path, quick: bool, done: Done) -> Cases:
    cases: dict[str, tuple[Edges, int]] = {}
    for half, chance, across in (
        ((150, 0.8, 5),) if quick else ((150, 0.8, 5), (150, 0.8, 40), (400, 0.5, 20))
    ):
        draw = np.random.default_rng(1)
        pairs = np.array(list(itertools.combinations(range(2 * half), 2)))
        inside = (pairs[:, 0] < half) == (pairs[:, 1] < half)
        pairs = pairs[inside & (draw.random(len(pairs)) < chance)]
        bridge = [(i, half + i) for i in range(across)]
        cases[f"planted {across}, two halves of {half}"] = (
            edges_of(np.concatenate([pairs, np.array(bridge)])),
            2 * half,
        )
    if not quick:
        for name in ("ego_facebook", "ca_grqc"):
            cases[f"{name}, largest component"] = largest_component(
                *graph(data / f"graph_{name}.txt.gz")
            )
    for name, (edges, count) in cases.items():
        if name in done:
            continue
        measure = lambda t, e=edges: float(  # noqa: E731
            (t["sides"]["side"][e.heads] != t["sides"]["side"][e.tails]).sum()
        )
        best = smallest_cut(
            count, edges.heads, edges.tails, np.ones(len(edges), dtype=np.int64), 1 << 40
        )
        degree = np.bincount(np.concatenate([edges.heads, edges.tails]), minlength=count)
        case = sweep(
            MinCut(vertices=count, rule="near-minimum" if count > 18 else "exact"),
            edges,
            float(best),
            measure,
            3 if count < 2000 else 2,
            delta=True,
        )
        yield name, case | {"random single vertex": float(degree.mean()) / float(best)}


def coverage(data: Path, quick: bool, done: Done) -> Cases:
    agents, count = baskets(data / "retail.txt.gz")
    rows = np.repeat(np.arange(len(agents)), np.diff(agents.starts))
    measure = lambda t: float(len(np.unique(rows[np.isin(agents.items, t["chosen"]["resource"])])))  # noqa: E731
    for k in (20,) if quick else (5, 20, 100):
        mechanism = PublicProjects(k=k, resources=count, cost_share=0)
        # so much epsilon that greedy is exact
        greedy = measure(
            mechanism.run(
                SeededNoise(0), agents, mechanism.plan(SCHEMA, Cost.pure(Fraction(10**6)))
            ).tables
        )
        for delta in (False, True):
            name = f"retail, k = {k}" + (", delta = 1e-6" if delta else "")
            if name not in done:
                yield (
                    name,
                    sweep(
                        mechanism,
                        agents,
                        greedy,
                        measure,
                        3 if quick else 5,
                        delta=delta,
                        larger=True,
                    ),
                )


PROBLEMS: dict[str, Callable[[Path, bool, Done], Cases]] = {
    "vertex cover": vertex_covers,
    "public projects": coverage,
    "minimum cut": min_cuts,
    "set cover": set_covers,
    "k-median": k_medians,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--only", action="append", choices=PROBLEMS, help="run this problem alone (may be repeated)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="two instances of each library, fewer runs"
    )
    parser.add_argument(
        "--draw",
        action="store_true",
        help="only draw the figure and the page again from results.json",
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "results.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for problem in [] if given.draw else given.only or list(PROBLEMS):
        cases = results.setdefault(problem, {})
        used = time.process_time()
        for name, case in PROBLEMS[problem](given.data, given.quick, frozenset(cases)):
            cases[name] = case | {"cpu_seconds": round(time.process_time() - used, 2)}
            used = time.process_time()
            print(
                f"{problem}: {name}: {cases[name]['cpu_seconds']} s of processor time", flush=True
            )
            path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if not given.draw and not given.only and not given.quick:
        stamp(given.out, Path(__file__).parent, "results.json")
    draw_figure(results, given.out / "figure.png")
    write_page(results, given.out / "README.md")


if __name__ == "__main__":
    main()
