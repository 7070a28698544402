"""A clinic's table, and a curator with a ledger of its own."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

import dpublish as dp

CANARY = "canary-7f3a"
SCHEMA = """
[dataset]
name = "clinic"
[columns.ward]
kind = "categorical"
levels = ["north", "south"]
[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 5
"""


@pytest.fixture
def frame() -> pl.DataFrame:
    return pl.DataFrame(
        {"ward": ["north", "south", CANARY, None] * 250, "age": [1, 50, 500, None] * 250}
    )


@pytest.fixture
def curator(frame: pl.DataFrame, tmp_path: Path) -> dp.Curator:
    return dp.Curator(
        frame,
        dp.Schema.from_toml(SCHEMA),
        ledger=tmp_path / "c.ledger",
        budget=dp.Budget(epsilon=3),
    )


def spent(curator: dp.Curator) -> Fraction:
    return curator.ledger.status().spent.epsilon
