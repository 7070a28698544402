"""One table, and every method that can be published from rows that lie elsewhere: the cases in
which a release must be the same, whatever counted it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

import dpublish as dp

SCHEMA: Final = """
[dataset]
name = "visits"
neighbours = "{neighbours}"
target = "ill"
{unit}
[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 10
[columns.place]
kind = "categorical"
levels = ["north", "south", "east"]
missing = true
[columns.ill]
kind = "boolean"
"""
SETS: Final = """
[dataset]
name = "baskets"
neighbours = "{neighbours}"
{unit}
[items]
universe = ["a", "b", "c", "d", "e"]
"""
UNIT: Final = 'unit = "who"\nmax_rows_per_unit = 2'
RELATIONS: Final = ("add-remove-one", "replace-one")

TABLES: Final[dict[str, Callable[[], Any]]] = {
    "histogram": lambda: dp.Histogram(columns=["age", "place"]),
    "projected-histogram": lambda: dp.ProjectedHistogram(target="ill", k=1),
    "joined-histograms": lambda: dp.JoinedHistograms(),
    "generalized-table": lambda: dp.GeneralizedTable(),
    "interval-tree": lambda: dp.IntervalTree(columns=["age"]),
    "importance-weights": lambda: dp.ImportanceWeights(public="uniform", public_size=200),
    "net": lambda: dp.Net(columns=["place", "ill"], queries="marginals:1", points=3),
    "multiplicative-weights": lambda: dp.MultiplicativeWeights(columns=["age", "ill"], rounds=3),
    "online-multiplicative-weights": lambda: dp.OnlineMultiplicativeWeights(columns=["place"]),
}
BASKETS: Final[dict[str, Callable[[], Any]]] = {
    "set-partition": lambda: dp.SetPartition(column="items"),
    "basic-itemsets": lambda: dp.BasicItemsets(column="items"),
    "frequent-itemsets": lambda: dp.FrequentItemsets(column="items", keep=5, pairs=3, larger=0),
}
METHODS: Final = {**TABLES, **BASKETS}
CASES: Final = tuple(itertools.product(METHODS, RELATIONS, (False, True)))
"""Method, relation, and whether a unit owns several rows."""

FEW: Final = tuple(
    (method, RELATIONS[place % 2], place % 4 < 2) for place, method in enumerate(METHODS)
)
"""Every method once, with both relations and both kinds of unit among them."""


def people(rows: int = 3_000) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    return pl.DataFrame(
        {
            "age": rng.integers(-2, 105, rows),
            "place": rng.choice(["north", " south", "east", "west", "", None], rows),
            "ill": rng.choice([True, False], rows, p=[0.2, 0.8]),
            "who": rng.choice([f"u{i}" for i in range(900)], rows),
            "items": [
                " ".join(rng.choice(list("abcdefg"), rng.integers(0, 5))) for _ in range(rows)
            ],
        }
    )


def schema_of(neighbours: str, unit: bool, schema: str = SCHEMA) -> str:
    size = "nominal_size = 3000\n" if neighbours == "add-remove-one" else ""
    return schema.format(neighbours=neighbours, unit=size + (UNIT if unit else ""))


def published(data: Any, schema: str, method: Any, folder: Path, **amount: Any) -> Any:
    """All that a release says but when it was paid, with seeded noise."""
    folder.mkdir()
    path = folder / "s.toml"
    path.write_text(schema, encoding="utf-8")
    curator = dp.Curator(data, path, ledger=folder / "l.db", budget=dp.Budget(epsilon=100))
    if isinstance(method, dp.OnlineMultiplicativeWeights):
        session = curator.answer_online(method, epsilon=2, seed=7)
        told = [session.ask(f"place = '{place}'") for place in ("north", "south", "east")]
        session.close()
        return [str(one) for one in told]
    release = curator.publish(method, **(amount or {"epsilon": 2}), seed=7)
    facts = {k: v for k, v in release.manifest.items() if k not in ("receipt", "created")}
    frames = {name: frame.to_dict(as_series=False) for name, frame in release.tables.items()}
    return facts, frames


def case(data: Any, method: str, neighbours: str, unit: bool, folder: Path) -> Any:
    schema = schema_of(neighbours, unit, SETS if method in BASKETS else SCHEMA)
    return published(data, schema, METHODS[method](), folder)
