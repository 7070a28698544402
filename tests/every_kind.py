"""One small release of every kind, for tests of what all kinds have in common."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dpublish as dp

ROWS = 600
TABLE = f"""
[dataset]
name = "demo"
neighbours = "replace-one"
size = {ROWS}
[columns.a]
kind = "categorical"
levels = ["x", "y"]
[columns.b]
kind = "categorical"
levels = ["no", "yes"]
[columns.income]
kind = "integer"
lower = 0
upper = 1000
bins = 8
[columns.height]
kind = "real"
lower = 0
upper = 2
bins = 4
"""
START = TABLE.replace('["x", "y"]', '["x", "y"]\ndiscover = true').replace(
    "upper = 1000", "upper = 1000\ndiscover = true"
)
"""The same, with columns of which paid discovery finds the levels and the bounds."""
BASKETS = """
[dataset]
name = "baskets"
neighbours = "add-remove-one"
nominal_size = 600
[items]
universe = ["bread", "milk", "beer", "wine"]
"""
NAMES = (
    *(
        "histogram",
        "projected",
        "joined",
        "generalized",
        "weighted",
        "linear",
        "tree",
        "plane",
        "halfspaces",
        "synthetic",
        "workload",
    ),
    *("discovery", "itemsets", "basic", "supports", "solution"),
)


def rows(number: int = ROWS, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    a = rng.choice(["x", "y"], number)
    b = np.where(rng.random(number) < np.where(a == "x", 0.8, 0.3), "yes", "no")
    income = np.clip(rng.normal(400, 200, number), 0, 1000).astype(int)
    return pl.DataFrame({"a": a, "b": b, "income": income, "height": rng.random(number) * 2})


@functools.cache
def every_kind() -> dict[str, Any]:
    """Releases by what they are called here, seeded; every kind of release is there at least
    once."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        return {**_tables(folder), **_sets(folder), "solution": _solution(folder)}


def _tables(folder: Path) -> dict[str, Any]:
    budget = dp.Budget(epsilon=1000)
    schema = dp.Schema.from_toml(TABLE)
    curator = dp.Curator(
        rows(), schema, ledger=folder / "a.ledger", budget=budget, store=folder / "store"
    )
    methods = {
        "histogram": dp.Histogram(columns=["a", "b", "income"]),
        "projected": dp.ProjectedHistogram(target="b", k=1),
        "joined": dp.JoinedHistograms(target="b"),
        "generalized": dp.GeneralizedTable(columns=["a", "b", "income"]),
        "weighted": dp.ImportanceWeights(public=rows(400, seed=2)),
        "linear": dp.PrivateClassifier(target="b"),
        "tree": dp.IntervalTree(columns=["income"]),
        "plane": dp.IntervalTree(columns=["income", "height"]),
        "halfspaces": dp.Halfspaces(by="sectors", columns=["income", "height"]),
        "synthetic": dp.MultiplicativeWeights(columns=["a", "b"]),
        "workload": dp.Workload(columns=["a", "b", "income"], answer="direct"),
    }
    made = {name: curator.publish(method, epsilon=4, seed=1) for name, method in methods.items()}
    start = dp.Schema.from_toml(START)
    curator = dp.Curator(rows(), start, ledger=curator.ledger, store=folder / "store")
    return made | {"discovery": curator.publish(dp.Discovery(edges=4), epsilon=4, seed=1)}


def _sets(folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    names = np.array(["bread", "milk", "beer", "wine"])
    held = rng.random((ROWS, names.size)) < [0.6, 0.4, 0.2, 0.1]
    held[~held.any(axis=1), 0] = True
    baskets = pl.DataFrame({"items": [names[one].tolist() for one in held]})
    schema = dp.Schema.from_toml(BASKETS)
    budget = dp.Budget(epsilon=1000)
    curator = dp.Curator(
        baskets, schema, ledger=folder / "b.ledger", budget=budget, store=folder / "store-b"
    )
    methods = {
        "itemsets": dp.SetPartition(),
        "basic": dp.BasicItemsets(),
        "supports": dp.FrequentItemsets(),
    }
    return {name: curator.publish(method, epsilon=4, seed=1) for name, method in methods.items()}


def _solution(folder: Path) -> Any:
    budget = dp.Budget(epsilon=1000)
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    return dp.optimize.vertex_cover(
        edges,
        vertices=4,
        epsilon=4,
        seed=1,
        ledger=folder / "c.ledger",
        budget=budget,
        store=folder / "store-c",
    )
