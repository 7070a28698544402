"""How like the denser neighbour the edge of a bin is: means of numeric columns and counts below a
value, by the constant `NEAR` of `models/bin_shapes.py`, beside even bins.

    python benchmarks/joined_tuning/bin_shapes.py --seeds 3

The ten columns of quantiles.py and eight that are not skewed, or to the other side; 10,000 rows,
one row replaced, epsilon 1, pure and with delta = 1e-9. `mean` is the error over the mean
(which a few rows of noise near the upper bound decide: `off` is how often it is above a half),
`cut` the error of the share of rows below 60 values near random rows, `log` below 60 values on a
logarithmic scale.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from quantiles import ROWS, Numbers, numbers

Floats = NDArray[np.float64]
CASES = list[tuple[Floats, Floats, float, Floats, Floats]]


def columns(seed: int) -> Numbers:
    rng = np.random.default_rng(seed + 1000)
    made = numbers(seed)
    made["normal"] = rng.normal(4e5, 5e4, ROWS)
    made["uniform"], made["narrow"] = rng.uniform(0, 1e6, ROWS), rng.uniform(0, 2e5, ROWS)
    made["gamma"], made["exponential"] = rng.gamma(2, 3e4, ROWS), rng.exponential(2e4, ROWS)
    first = rng.random(ROWS) < 0.5
    made["bimodal"] = np.where(first, rng.normal(1e5, 1e4, ROWS), rng.normal(7e5, 4e4, ROWS))
    made["rising"], made["left"] = 1e6 * rng.beta(5, 1, ROWS), 1e6 - rng.lognormal(9, 1, ROWS)
    return {name: np.clip(values, 0, 1e6) for name, values in made.items()}


def released(seed: int, cost: Any) -> CASES:
    """Of every column: edges, widths, noise, fitted counts and the true values in order."""
    import dpublish as dp
    from dpublish.models.junction_tree.measured import read_measured
    from dpublish.noise.source import SeededNoise

    made = columns(seed)
    text = f'[dataset]\nname = "numbers"\nsize = {ROWS}\n'
    for name in made:
        text += f'[columns.{name}]\nkind = "real"\nlower = 0.0\nupper = 1000000.0\n'
    method = dp.JoinedHistograms()
    plan = method.plan(dp.Schema.from_toml(text), cost)
    codes = [
        np.minimum(np.searchsorted(axis.edges, made[axis.name], side="right") - 1, axis.base - 1)
        for axis in method.statistic(plan).domain.axes
    ]
    output = method.run(SeededNoise(seed), codes, plan)
    domain = output.domain or plan.settings.domain
    found: CASES = []
    for axis, one in zip(
        domain.axes, read_measured(domain, output.facts, output.tables).columns, strict=True
    ):
        assert one is not None
        counts = np.maximum(one.counts.sum(axis=1)[: axis.base], 0.0)
        edges = np.array(axis.edges, dtype=np.float64)
        noise = float(np.sqrt(one.variance))
        found.append((edges, np.array(one.widths), noise, counts, np.sort(made[axis.name])))
    return found


def errors(case: tuple[Floats, Floats, float, Floats, Floats], *, even: bool) -> list[float]:
    from dpublish.models.bin_shapes import learn_tilts, mean_place, share_below

    edges, widths, noise, counts, true = case
    tilts = np.zeros(len(counts)) if even else learn_tilts(widths, counts, noise)
    step, total = np.diff(edges), counts.sum()
    mean = float((counts * (edges[:-1] + step * mean_place(tilts))).sum() / total)
    rng = np.random.default_rng(1)
    near = np.clip(true[rng.integers(0, len(true), 60)] * rng.uniform(0.8, 1.25, 60), 0, 1e6)
    out = [abs(mean / float(true.mean()) - 1)]
    for values in (near, np.geomspace(10, 9e5, 60)):
        code = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(counts) - 1)
        place = np.clip((values - edges[code]) / step[code], 0, 1)
        below = np.concatenate([[0.0], np.cumsum(counts)])[code]
        share = (below + counts[code] * share_below(tilts[code], place)) / total
        out.append(float(np.abs(share - np.searchsorted(true, values) / len(true)).mean()))
    return out


def main() -> None:
    import dpublish.models.bin_shapes as shapes
    from dpublish.privacy.cost import Cost

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    costs = (Cost.pure(1), Cost.approximate(1, "1e-9"))
    seeds = range(given.first, given.first + given.seeds)
    cases = [case for seed in seeds for cost in costs for case in released(seed, cost)]
    for near in (None, 0.5, 0.7, 0.8, 0.9, 1.0):
        shapes.NEAR = near or 0.0
        found = np.array([errors(case, even=near is None) for case in cases])
        words = [
            f"{name} {mean:.4f} (median {middle:.4f})"
            for name, mean, middle in zip(
                ("mean", "cut", "log"), found.mean(axis=0), np.median(found, axis=0), strict=True
            )
        ]
        words.append(f"off {np.mean(found[:, 0] > 0.5):.3f}")
        print("even bins" if near is None else f"NEAR = {near}", *words, sep="  ", flush=True)


if __name__ == "__main__":
    main()
