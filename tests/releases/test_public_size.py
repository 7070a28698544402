"""Where the number of rows is public, no kind of release says that more of them meet a condition,
or less than none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.declare.schema import Schema
from every_kind import TABLE, every_kind, rows

ROWS = 40
METHODS: dict[str, Callable[[], Any]] = {
    "histogram": lambda: dp.Histogram(columns=["a", "b"]),
    "joined": lambda: dp.JoinedHistograms(columns=["a", "b"], target="b"),
    "generalized": lambda: dp.GeneralizedTable(columns=["a", "b"]),
    "tree": lambda: dp.IntervalTree(columns=["income"]),
    "halfspaces": lambda: dp.Halfspaces(by="sectors", columns=["income", "height"]),
}
CONDITIONS = {
    "halfspaces": ("income >= 0", "income + height >= 2000", "income >= 400"),
    "tree": ("income >= 0", "income >= 400", "true"),
}


@pytest.mark.parametrize("name", METHODS)
def test_no_count_passes_the_public_number(tmp_path: Path, name: str) -> None:
    """Noise of about the size of the data, so that most seeds would pass it."""
    schema = Schema.from_toml(TABLE.replace("size = 600", f"size = {ROWS}"))
    pay = {
        "ledger": tmp_path / "a.ledger",
        "budget": dp.Budget(epsilon=90),
        "store": tmp_path / "store",
    }
    curator = dp.Curator(rows(ROWS), schema, **pay)
    for seed in range(8):
        release = curator.publish(METHODS[name](), epsilon="1/10", seed=seed)
        assert release.max_rows == ROWS
        assert release.rows <= ROWS
        for condition in CONDITIONS.get(
            name, ("true", "a = 'x'", "not a = 'x'", "a = 'x' or b = 'no'")
        ):
            found = release.estimate(condition)
            assert 0 <= found.low <= found.value <= found.high <= ROWS, condition
        if "marginal" in release.offers():
            table = release.marginal("income" if name == "tree" else "a")
            assert table["low"].min() >= 0
            assert table["high"].max() <= ROWS


def test_no_bound_where_the_number_is_private() -> None:
    assert every_kind()["basic"].max_rows == float("inf")
    assert every_kind()["halfspaces"].max_rows == 600


@pytest.mark.parametrize(
    "method", [dp.MedianMechanism, dp.OnlineMultiplicativeWeights], ids=lambda one: one.method
)
def test_no_answer_of_a_desk_passes_the_public_number(tmp_path: Path, method: Any) -> None:
    size = 3000
    column = '[columns.v]\nkind = "integer"\nlower = 0\nupper = 7\nbins = 8\noutside = "drop"\n'
    text = f'[dataset]\nname = "d"\nsize = {size}\n{column}'
    frame = pl.DataFrame({"v": np.arange(size) % 8})
    for attempt in range(6):
        pay = {
            "ledger": tmp_path / f"{attempt}.ledger",
            "budget": dp.Budget(epsilon=2),
            "store": tmp_path / f"s{attempt}",
        }
        desk = dp.Curator(frame, Schema.from_toml(text), **pay).answer_online(
            method(max_hard=2), epsilon=2, folder=tmp_path / f"desk{attempt}", seed=attempt
        )
        assert desk.header["public"]["total_high"] <= size
        for condition in ("v >= 0", "v >= 1"):
            found = desk.ask(condition).estimate
            assert 0 <= found.low <= found.value <= found.high <= size
