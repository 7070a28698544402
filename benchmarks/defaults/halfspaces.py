"""Which release answers linear conditions best: an interval tree, joined histograms or sectors.

    python -m benchmarks.defaults.halfspaces [--seed 1] [--queries 12] [--json FILE]

Made-up tables of two to ten columns (correlated normal, skewed and clustered ones) of several
sizes are published by each at several epsilons; the figures are mean errors of random halfspaces as
a share of the rows. At the end stand the power laws that `methods/halfspaces/forecast.py` works
with: how the error falls with rows times epsilon, for each number of columns. No real data is read
here.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dpublish as dp

COLUMNS, ROWS, EPSILONS = (2, 3, 4, 6, 8), (2_000, 20_000, 150_000), (0.1, 1.0, 5.0)
SHAPES = ("normal", "skewed", "clusters")
TOP = 100


def made_up(shape: str, columns: int, rows: int, seed: int) -> np.ndarray[Any, Any]:
    """Whole numbers from 0 to 100."""
    draw = np.random.default_rng(seed)
    mix = draw.normal(size=(columns, columns)) + 1.5 * np.eye(columns)
    values = draw.normal(size=(rows, columns)) @ mix.T
    values /= values.std(axis=0)
    if shape == "skewed":
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
    with tempfile.TemporaryDirectory() as folder:
        owner = dp.Curator(
            pl.DataFrame(rows, schema=[f"c{i}" for i in range(rows.shape[1])]),
            schema_of(rows.shape[1], len(rows)),
            ledger=Path(folder) / "l",
            budget=dp.Budget(epsilon=epsilon),
            store=Path(folder) / "s",
        )
        return owner.publish(method, epsilon=epsilon, seed=seed)


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
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", type=int, default=12)
    parser.add_argument("--columns", type=int, nargs="+", default=COLUMNS)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: list[dict[str, Any]] = []
    for columns, rows, epsilon in itertools.product(given.columns, ROWS, EPSILONS):
        for shape in SHAPES:
            table = made_up(shape, columns, rows, given.seed)
            questions = asked(table, given.queries, given.seed)
            line: dict[str, Any] = {"columns": columns, "rows": rows, "epsilon": epsilon}
            for by in ("tree", "joined", "sectors"):
                if (by == "tree" and columns > 6) or (by == "sectors" and shape != "normal"):
                    continue
                release = released(table, dp.Halfspaces(by=by), epsilon, given.seed)
                errors = [abs(release.estimate(text).value - true) for text, true in questions]
                line[by] = float(np.mean(errors)) / rows
            found.append({**line, "shape": shape})
            print(found[-1], flush=True)
    for by in ("tree", "joined", "sectors"):
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
