"""Generated tables that defaults are chosen on: correlated columns, some of which move the label.

A table is coded: categorical columns as codes and a number of levels, numbers scaled to [0, 1].
Nothing here resembles a table that results are reported for; those are never used to choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.columns import read_column
from dpublish.declare.schema import Schema

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    values: NDArray[Any]
    levels: int | None = None
    """None for a number in [0, 1]."""


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    labels: NDArray[np.int64]

    def schema(self, rows: int) -> Schema:
        declared: dict[str, dict[str, Any]] = {}
        for i, column in enumerate(self.columns):
            levels = [str(level) for level in range(column.levels or 0)]
            declared[f"c{i}"] = (
                {"kind": "real", "lower": 0, "upper": 1}
                if column.levels is None
                else {"kind": "categorical", "levels": levels, "outside": "drop"}
            )
        declared["y"] = {"kind": "categorical", "levels": ["0", "1"], "outside": "drop"}
        columns = {name: read_column(name, keys) for name, keys in declared.items()}
        return Schema(name="generated", target="y", columns=columns).with_size(rows)

    def split(self, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        order = np.random.default_rng(1000 + seed).permutation(self.labels.size)
        cut = self.labels.size // 4
        return order[cut:], order[:cut]


def generate(
    name: str,
    seed: int,
    *,
    rows: int,
    levels: tuple[int, ...] = (),
    numbers: int = 0,
    informative: int,
    strength: float,
    base: float = 0.0,
    centre: float | None = 0.5,
    spread: float = 0.15,
    skew: float = 0.0,
) -> Table:
    """Two common factors tie all columns together; `informative` of them add up to the logit, which
    has standard deviation `strength` around `base`. With `skew` numbers are log-normal, and the
    bound is far above most of them, as with incomes."""
    rng = np.random.default_rng(seed)
    count = len(levels) + numbers
    factors = rng.normal(size=(rows, 2))
    chosen = set(rng.permutation(count)[:informative].tolist())
    logit = np.zeros(rows)
    columns = []
    for i in range(count):
        hidden = 0.4 * factors @ rng.normal(size=2) + rng.normal(size=rows)
        if i in chosen:
            logit += rng.normal() * hidden
        if i < len(levels):
            cuts = np.quantile(hidden, np.cumsum(rng.dirichlet(np.full(levels[i], 2.0)))[:-1])
            codes = rng.permutation(levels[i])[np.searchsorted(cuts, hidden)]
            columns.append(Column(codes, levels[i]))
        else:
            middle = rng.uniform(0.2, 0.8) if centre is None else centre
            number = np.exp(skew * (hidden - 4)) if skew else middle + spread * hidden
            columns.append(Column(np.clip(number, 0, 1)))
    logit = strength * (logit - logit.mean()) / max(float(logit.std()), 1e-9) + base
    labels = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    return Table(name, tuple(columns), labels)


GRID: dict[str, dict[str, Any]] = {
    "267 x 44 numbers": {
        "rows": 267,
        "numbers": 44,
        "informative": 10,
        "strength": 2,
        "centre": None,
    },
    "500 x 6 mixed": {
        "rows": 500,
        "levels": (2, 3, 4, 2),
        "numbers": 2,
        "informative": 3,
        "strength": 1.5,
    },
    "1,000 x 10 mixed": {
        "rows": 1000,
        "levels": (2, 3, 6, 2, 3),
        "numbers": 5,
        "informative": 4,
        "strength": 1.5,
    },
    "1,700 x 111 mixed": {
        "rows": 1700,
        "levels": (2, 2, 3, 2, 5) * 20,
        "numbers": 11,
        "informative": 15,
        "strength": 1,
        "base": -1.2,
    },
    "2,000 x 18 levels": {
        "rows": 2000,
        "levels": (2, 2, 5, 3, 2, 12) * 3,
        "informative": 5,
        "strength": 1.2,
    },
    "3,000 x 30 numbers": {
        "rows": 3000,
        "numbers": 30,
        "informative": 8,
        "strength": 1.5,
        "centre": 0.3,
        "spread": 0.1,
    },
    "6,000 x 36 numbers": {
        "rows": 6000,
        "numbers": 36,
        "informative": 20,
        "strength": 2.5,
        "spread": 0.2,
    },
    "9,000 x 16 levels": {
        "rows": 9000,
        "levels": (2, 3, 5, 8, 2, 18, 2, 3) * 2,
        "informative": 6,
        "strength": 1,
        "base": -1.5,
    },
    "9,000 x 16 levels, rare label": {
        "rows": 9000,
        "levels": (2, 2, 2, 8, 2, 4, 2, 2) * 2,
        "informative": 3,
        "strength": 1,
        "base": -2.5,
    },
    "30,000 x 14 mixed": {
        "rows": 30000,
        "levels": (2, 7, 16, 14, 5, 40, 2, 7, 16),
        "numbers": 5,
        "informative": 7,
        "strength": 1.5,
        "base": -1.2,
        "centre": 0.3,
    },
}


def tables(seed: int) -> Iterator[Table]:
    for name, made in GRID.items():
        yield generate(name, seed, **made)
