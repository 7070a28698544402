"""When a histogram drowns in its noise, and whether its plan says so beforehand.

    python -m benchmarks.defaults.drowned [--runs 3]

Generated tables of two to four columns with even or skewed levels, of 100 to 100,000 rows, at three
epsilons, one or five rows a unit. Of each release: the total variation distance between the shares
of its cells and the true ones, 0 to 1. Half of all rows in the wrong cell is called drowned. A
warning is right where the release is drowned, and harmful where the distance is below a quarter.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.columns import read_column
from dpublish.declare.schema import PrivacyUnit, Schema
from dpublish.declare.statistic import SparseCounts
from dpublish.methods.histogram.mechanism import Histogram
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

SHAPES = ((8, 4), (6, 5, 4), (10, 8, 5, 3), (12, 10, 8, 8))
ROWS = (100, 300, 1_000, 5_000, 20_000, 100_000)
EPSILONS = ("1/10", "1/2", "2")
DROWNED, FINE = 0.5, 0.25


def table(shape: tuple[int, ...], rows: int, skew: float, seed: int) -> NDArray[np.int64]:
    """Cells of rows whose columns hang together."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=rows)
    cells = np.zeros(rows, dtype=np.int64)
    for levels in shape:
        weights = np.arange(1, levels + 1) ** -skew
        ends = np.quantile(rng.normal(size=4_000), np.cumsum(weights / weights.sum())[:-1])
        hidden = 0.5 * common + np.sqrt(0.75) * rng.normal(size=rows)
        cells = cells * levels + np.searchsorted(ends, hidden)
    return cells


def schema_of(shape: tuple[int, ...], rows: int, each: int) -> Schema:
    columns = {
        f"c{i}": read_column(
            f"c{i}",
            {"kind": "categorical", "levels": [f"v{j}" for j in range(n)], "outside": "drop"},
        )
        for i, n in enumerate(shape)
    }
    unit = PrivacyUnit(column="who" if each > 1 else None, max_rows=each)
    return Schema(name="made-up", columns=columns, unit=unit).with_size(rows // each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    told: dict[bool, list[float]] = {True: [], False: []}
    for shape, rows, epsilon, each, skew in product(SHAPES, ROWS, EPSILONS, (1, 5), (0.0, 1.5)):
        schema, method = schema_of(shape, rows, each), Histogram()
        plan = method.plan(schema, Cost.pure(epsilon))
        warns = any("drown" in one for one in plan.warnings)
        found = []
        for seed in range(runs):
            cells, counts = np.unique(table(shape, rows, skew, seed), return_counts=True)
            truth = np.zeros(plan.settings.domain.size)
            truth[cells] = counts / rows
            numbers = SparseCounts(cells=cells.astype(np.uint64), counts=counts.astype(np.int64))
            out = method.run(SeededNoise(seed), numbers, plan).tables["cells"]
            shares = np.zeros_like(truth)
            shares[out["cell"].astype(np.int64)] = out["count"]
            whole = shares.sum()
            guess = shares / whole if whole else np.full_like(truth, 1 / len(truth))
            found.append(0.5 * float(np.abs(guess - truth).sum()))
        told[warns].append(float(np.mean(found)))
        print(
            f"{'x'.join(map(str, shape))} cells, {rows} rows, epsilon {epsilon}, {each} a unit, "
            f"skew {skew}: distance {told[warns][-1]:.2f}{', warned' if warns else ''}",
            flush=True,
        )
    warned, silent = np.array(told[True]), np.array(told[False])
    print(
        f"{(warned > DROWNED).sum()} of {len(warned)} warnings are right, "
        f"{(warned < FINE).sum()} harmful; {(silent > DROWNED).sum()} of {len(silent)} plans "
        "without one drown"
    )


if __name__ == "__main__":
    main()
