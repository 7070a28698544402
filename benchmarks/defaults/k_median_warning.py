"""When k-median's plan should send people to the public sites, checked on generated places.

    python -m benchmarks.defaults.k_median_warning [--seed 1] [--runs 4] [--losses]

For a grid of places, spreads of demand, k, epsilons and numbers of rows: the mean cost of the
sites that are taken by default beside that of the public ones, and whether the plan warns. A
warning is right where the data save less than 2%, and harmful where they save 5%. With `--losses`
the cases in which the default is more than 2% worse are listed. The rule and the margin were
chosen with seed 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.methods.solvers.k_median.demand import reach_of
from dpublish.methods.solvers.k_median.mechanism import KMedian
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

SCHEMA = Schema(name="bench", neighbours="add-remove-one")
SIZES, KS, EPSILONS = (60, 300, 1200), (2, 8), ("1/10", "1")
ROWS = (20, 60, 200, 600, 2000, 6000)
SPREADS = ("lognormal 0.5", "lognormal 1.5", "one corner", "few places")


def places(draw: np.random.Generator) -> Iterator[tuple[str, Metric, Any]]:
    """Places spread evenly or in towns, and shares of the demand."""
    for size, towns in product(SIZES, (False, True)):
        at = draw.random((size, 2)) * 1000
        if towns:
            middles = draw.random((max(3, size // 15), 2)) * 1000
            at = middles[draw.integers(0, len(middles), size)] + draw.normal(0, 20, (size, 2))
        metric = Metric.euclidean(at)
        for spread in SPREADS:
            if spread.startswith("lognormal"):
                weights = draw.lognormal(0, float(spread.split()[1]), size)
            elif spread == "one corner":
                weights = (at.sum(axis=1) < 700) + 0.05
            else:
                weights = np.full(size, 0.1 / size)
                weights[draw.integers(0, size, 4)] += 1
            name = f"{size} places {'in towns' if towns else 'spread'}, {spread}"
            yield name, metric, weights / weights.sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--losses", action="store_true")
    given = parser.parse_args()
    draw = np.random.default_rng(given.seed)
    cases = warned = right = harmful = losses = 0
    for (name, metric, shares), k, epsilon in product(places(draw), KS, EPSILONS):
        cost = Cost.pure(Fraction(epsilon))
        plan = KMedian(k=k, metric=metric).plan(SCHEMA, cost)
        for rows in ROWS:
            solver = KMedian(k=k, metric=metric, nominal_size=rows)
            sums = np.zeros(2)
            for _ in range(given.runs):
                demand = draw.multinomial(rows, shares)
                out = solver.run(SeededNoise(int(draw.integers(1 << 30))), demand, plan)
                sites = [np.asarray(out.tables[which]["site"]) for which in ("chosen", "public")]
                sums += [float(demand @ reach_of(metric, one)) for one in sites]
            ratio = sums[0] / max(sums[1], 1e-9)
            warns = rows < plan.settings.telling_rows
            cases += 1
            warned += warns
            right += warns and ratio > 0.98
            harmful += warns and ratio < 0.95
            losses += ratio > 1.02
            if given.losses and ratio > 1.02:
                print(f"{name}, k {k}, epsilon {epsilon}, {rows} rows: {ratio:.3f}", flush=True)
    print(f"{cases} cases: {right} of {warned} warnings right, {harmful} where the data save 5%;")
    print(f"more than 2% above the public sites in {losses} (means of {given.runs} runs)")


if __name__ == "__main__":
    main()
