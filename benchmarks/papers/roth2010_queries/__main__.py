"""Range queries, halfspaces and many queries at once (Roth 2010, chapters 3 and 5) beside simpler methods.

    python benchmarks/papers/roth2010_queries --data DIR [--out DIR] [--only ranges|boxes|halfspaces|queries] [--seeds 3]

DIR holds dpbench_1d.csv.gz and dpbench_2d.csv.gz. Writes a JSON and a PNG a part.
"""

from __future__ import annotations

import argparse
import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from contest import CONTESTANTS, Task, scaled_error
from figures import draw_halfspaces, draw_queries, draw_ranges

from dpublish.cost import Cost
from dpublish.mechanisms.base import SparseCounts
from dpublish.mechanisms.queries.halfspaces import Halfspaces
from dpublish.mechanisms.queries.multiplicative_weights import MultiplicativeWeights
from dpublish.noise.source import SeededNoise
from dpublish.query_classes import LinearQueries
from dpublish.schema import Schema

SETTINGS = [(10_000, "1"), (100_000, "1"), (100_000, "1/10"), (1_000_000, "1/10"), (1_000_000, "1/100"), (10_000_000, "1/10")]
SQUARES = [(100_000, "1/10"), (1_000_000, "1/10")]


def ranges(data: Path, seeds: int) -> list[dict[str, Any]]:
    """Data sets are drawn anew with n rows from the shape of each DPBench histogram, as DPBench does."""
    found = []
    lines = pl.read_csv(data / "dpbench_1d.csv.gz")
    for name in lines.columns[1:]:
        found += _contest(name, lines[name].to_numpy(), SETTINGS, 2000, seeds, list(CONTESTANTS))
    return found


def squares(data: Path, sets: int) -> list[dict[str, Any]]:
    """The same for boxes of the 256 x 256 grids."""
    found = []
    grids = pl.read_csv(data / "dpbench_2d.csv.gz").partition_by("dataset", as_dict=True, maintain_order=True)
    for key, part in list(grids.items())[:sets]:
        table = np.zeros((256, 256), dtype=np.int64)
        table[part["i"].to_numpy(), part["j"].to_numpy()] = part["count"].to_numpy()
        found += _contest(str(key[0]), table, SQUARES, 200, 1, [name for name in CONTESTANTS if name != "auto"])
    return found


def _contest(
    name: str, histogram: np.ndarray, settings: list[tuple[int, str]], queries: int, seeds: int, names: list[str]
) -> list[dict[str, Any]]:
    rng = np.random.default_rng(7)
    shares = histogram.reshape(-1) / histogram.sum()
    out = []
    for n, epsilon in settings:
        task = Task.of(rng.multinomial(n, shares).reshape(histogram.shape), queries, 1)
        errors = {contestant: scaled_error(contestant, task, Fraction(epsilon), seeds) for contestant in names}
        out.append({"data": name, "dimensions": histogram.ndim, "n": n, "epsilon": epsilon, "errors": errors})
    return out


def halfspaces(seeds: int) -> list[dict[str, Any]]:
    """Error of halfspace answers on Gaussian rows by distance of the hyperplane from the middle, for 2 and 5 columns."""
    out = []
    for columns in (2, 5):
        text = "".join(f'[columns.c{i}]\nkind = "real"\nlower = -1\nupper = 1\n' for i in range(columns))
        schema = Schema.from_toml(f'[dataset]\nname = "h"\nsize = 20000\n{text}')
        rng = np.random.default_rng(1)
        rows = np.clip(rng.normal(0, 0.3, (20_000, columns)), -0.999, 0.999)
        for k, cells in ((2, 32), (3, 200)):
            mechanism = Halfspaces(k=k, cells=cells)
            plan = mechanism.plan(schema, Cost.pure(1))
            sectors = mechanism.needs(plan).sectors
            counts = sectors.counts([np.floor((rows[:, i] + 1) / 2 * (1 << 20)).astype(np.int64) for i in range(columns)])
            for distance in (0.0, 0.1, 0.2, 0.3, 0.5, 0.8):
                errors = []
                for seed in range(seeds):
                    noisy = np.asarray(mechanism.run(SeededNoise(seed), counts, plan).tables["counts"]["count"])
                    for turn in range(20):
                        normal = np.random.default_rng(turn).normal(size=columns)
                        normal /= np.linalg.norm(normal)
                        truth = int((rows @ normal >= distance).sum())
                        shares = sectors.shares(sectors.direction(normal.tolist(), distance))
                        errors.append(abs(float(np.median((shares * noisy.reshape(shares.shape)).sum(axis=1))) - truth))
                out.append(
                    {"columns": columns, "k": k, "cells": cells, "distance": distance, "error": float(np.mean(errors)) / 20_000}
                )
    return out


def many_queries() -> list[dict[str, Any]]:
    """The largest error over k random queries on 1,024 cells: multiplicative weights beside independent Laplace noise."""
    rng = np.random.default_rng(3)
    universe, n = 1024, 100_000
    counts = rng.multinomial(n, rng.dirichlet(np.full(universe, 0.05)))
    cells = np.flatnonzero(counts)
    numbers = SparseCounts(cells.astype(np.uint64), counts[cells].astype(np.int64))
    schema = Schema.from_toml(
        f'[dataset]\nname = "q"\nsize = {n}\n[columns.x]\nkind = "integer"\nlower = 0\nupper = 1023\nbins = 1024\n'
    )
    out = []
    for k in (10, 100, 1000, 10_000):
        table = rng.integers(0, 2, (k, universe))
        mechanism = MultiplicativeWeights(queries=LinearQueries(table))
        plan = mechanism.plan(schema, Cost.pure("1/10"))
        weights = np.asarray(mechanism.run(SeededNoise(1), numbers, plan).tables["cells"]["weight"])
        truth = table @ counts
        laplace = SeededNoise(1).laplace(truth, sensitivity=Fraction(k), epsilon=Fraction(1, 10)) - truth
        out.append(
            {
                "queries": k,
                "rounds": plan.facts["rounds"],
                "multiplicative weights": float(np.abs(table @ weights - truth).max()) / n,
                "independent Laplace": float(np.abs(laplace).max()) / n,
            }
        )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("build/roth2010_queries"))
    parser.add_argument("--only", choices=["ranges", "boxes", "halfspaces", "queries"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", type=int, default=10, help="how many of the 2-D data sets")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    parts = {
        "ranges": (lambda: ranges(args.data, args.seeds), draw_ranges),
        "boxes": (lambda: squares(args.data, args.sets), draw_ranges),
        "halfspaces": (lambda: halfspaces(args.seeds), draw_halfspaces),
        "queries": (many_queries, draw_queries),
    }
    for name, (measure, draw) in parts.items():
        if args.only in (None, name):
            found = measure()
            (args.out / f"{name}.json").write_text(json.dumps({"load": os.getloadavg()[0], "results": found}, indent=0))
            draw(found, args.out / f"{name}.png")
            print(f"{name}: {len(found)} results in {args.out}")


if __name__ == "__main__":
    main()
