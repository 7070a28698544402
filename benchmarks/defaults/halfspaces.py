"""Which release answers linear conditions best: an interval tree, joined histograms or sectors.

    python -m benchmarks.defaults.halfspaces [--seed 31] [--queries 4] [--columns 3 4 6]

Made-up tables of two to eight columns are published by each in several sizes and at several
epsilons; the figures are mean errors of random halfspaces as a share of the rows. Columns depend on
each other ("normal", "clusters") or hardly do ("apart", "apart skewed"): joined histograms miss
what no chosen pair of columns tells, a tree pays for every column. At the end stand the power laws
that `methods/halfspaces/mechanism.py` works with: how the error falls with rows times epsilon, for
each number of columns. No real data is read here.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dpublish as dp
from dpublish.curator.rehearse import release_of
from dpublish.privacy.cost import Cost
from dpublish.sources.sources import open_source

COLUMNS = (3, 4, 6)
SIZES = ((20_000, 1.0), (2_000, 1.0), (60_000, 3.0))
"""Rows and epsilon."""
SHAPES = ("normal", "apart", "clusters", "apart skewed")
SHARED = 0.3
"""Of what a column that is "apart" varies by itself: what it varies with the others."""
TOP = 100


def made_up(shape: str, columns: int, rows: int, seed: int) -> np.ndarray[Any, Any]:
    """Whole numbers from 0 to 100."""
    draw = np.random.default_rng(seed)
    if shape.startswith("apart"):
        values = draw.normal(size=(rows, columns)) + SHARED * draw.normal(size=(rows, 1))
    else:
        mix = draw.normal(size=(columns, columns)) + 1.5 * np.eye(columns)
        values = draw.normal(size=(rows, columns)) @ mix.T
    values /= values.std(axis=0)
    if shape.endswith("skewed"):
        values = np.exp(0.7 * values)
        values = 12 * values
    elif shape == "clusters":
        centres = draw.uniform(15, 85, (4, columns))
        values = centres[draw.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])] + 5 * values
    else:
        values = 50 + 15 * values
    return np.clip(values, 0, TOP).astype(np.int64)


def schema_of(columns: int, rows: int) -> dp.Schema:
    named = "".join(
        f'[columns.c{i}]\nkind = "integer"\nlower = 0\nupper = {TOP}\n' for i in range(columns)
    )
    return dp.Schema.from_toml(
        f'[dataset]\nname = "h"\nneighbours = "replace-one"\nsize = {rows}\n{named}'
    )


def released(rows: np.ndarray[Any, Any], method: Any, epsilon: float, seed: int) -> Any:
    frame = pl.DataFrame(rows, schema=[f"c{i}" for i in range(rows.shape[1])])
    plan = method.plan(schema_of(rows.shape[1], len(rows)), Cost.pure(epsilon))
    return release_of(method, plan, open_source(frame), seed)


def asked(rows: np.ndarray[Any, Any], count: int, seed: int) -> list[tuple[str, int]]:
    """Halfspaces through random rows, and how many rows each holds."""
    draw = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        weights = np.round(draw.normal(size=rows.shape[1]) / rows.std(axis=0), 5)
        bound = round(float(weights @ rows[draw.integers(len(rows))]), 4)
        terms = " + ".join(f"({w:.5f}) * c{i}" for i, w in enumerate(weights))
        out.append((f"{terms} >= {bound:.4f}", int((rows @ weights >= bound - 1e-9).sum())))
    return out


def main() -> None:
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--queries", type=int, default=4)
    parser.add_argument("--columns", type=int, nargs="+", default=COLUMNS)
    parser.add_argument("--by", nargs="+", default=("tree", "joined"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: list[dict[str, Any]] = []
    for (rows, epsilon), columns in itertools.product(SIZES, given.columns):
        for shape in SHAPES:
            table = made_up(shape, columns, rows, given.seed)
            questions = asked(table, given.queries, given.seed)
            line: dict[str, Any] = {"columns": columns, "rows": rows, "epsilon": epsilon}
            for by in given.by:
                if by == "tree" and columns > 6:
                    continue
                release = released(table, dp.Halfspaces(by=by), epsilon, given.seed)
                errors = [abs(release.estimate(text).value - true) for text, true in questions]
                line[by] = float(np.mean(errors)) / rows
            found.append({**line, "shape": shape})
            print(found[-1], flush=True)
    for by in given.by:
        for columns in given.columns:
            some = [one for one in found if by in one and one["columns"] == columns]
            if some:
                size = np.log([one["rows"] * one["epsilon"] for one in some])
                fit = np.polyfit(size, np.log([one[by] for one in some]), 1)
                print(f"{by}, {columns} columns: {np.exp(fit[1]):.3g} (n epsilon)^{fit[0]:.3f}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
