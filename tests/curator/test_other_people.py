"""Private rows are no public table: weighted public rows would publish them as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import dpublish as dp
from dpublish.errors import InputError
from dpublish.ledger.state import remember
from dpublish.requests.curator import Release
from dpublish.requests.plans import Plan, Rehearse

SCHEMA = """
[dataset]
name = "people"
size = 400
target = "ill"
[columns.sex]
kind = "categorical"
levels = ["f", "m"]
[columns.ill]
kind = "boolean"
"""
ROWS = pl.DataFrame({"sex": ["f", "m"] * 200, "ill": [True, True, False, False] * 100})
METHODS: dict[str, Callable[[object], dp.Mechanism]] = {
    "importance-weights": lambda table: dp.ImportanceWeights(public=table),
    "alternatives": lambda table: dp.ImportanceWeights(public="uniform", alternatives=[table]),
    "joined-histograms": lambda table: dp.JoinedHistograms(public=table),
    "projected-histogram": lambda table: dp.ProjectedHistogram(
        choose_k="public", public_data=table
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(SCHEMA)
    for name in ("people.csv", "others.csv"):
        ROWS.write_csv(tmp_path / name)
    (tmp_path / "link.csv").symlink_to(tmp_path / "people.csv")
    return tmp_path


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("table", ["people.csv", "./people.csv", "link.csv"])
def test_the_rows_to_be_released_are_no_public_table(folder: Path, method: str, table: str) -> None:
    curator = dp.Curator(
        "people.csv", "people.toml", ledger="people.ledger", budget=dp.Budget(epsilon=9)
    )
    for ask in (curator.publish, curator.plan):
        with pytest.raises(InputError, match="is the file that is to be released"):
            ask(METHODS[method](table), epsilon=1)  # type: ignore[operator]
    assert curator.ledger.status().debits == 0


def test_the_frame_to_be_released_is_no_public_table(folder: Path) -> None:
    curator = dp.Curator(ROWS, "people.toml", ledger="people.ledger", budget=dp.Budget(epsilon=9))
    with pytest.raises(InputError, match="is the table that is to be released"):
        curator.publish(dp.ImportanceWeights(public=ROWS), epsilon=1)
    curator.publish(dp.ImportanceWeights(public=ROWS.clone()), epsilon=1, seed=1)


def test_a_file_that_was_paid_for_is_no_public_table(folder: Path) -> None:
    given = {"public": "others.csv"}
    asked = Plan(
        schema=folder / "people.toml", epsilon="1", method="importance-weights", settings=given
    )
    assert asked.run().plans
    remember("others.csv")
    with pytest.raises(InputError, match="is private"):
        asked.run()
    rehearsed = Rehearse(
        schema=folder / "people.toml", epsilon="1", method="joined-histograms", settings=given
    )
    with pytest.raises(InputError, match="is private"):
        rehearsed.run()
    released = Release(
        data="people.csv",
        schema=folder / "people.toml",
        epsilon="1",
        method="importance-weights",
        settings=given,
        ledger="new.ledger",
        budget="1",
        out=folder / "people.dpr",
    )
    with pytest.raises(InputError, match="is private"):
        released.run()
    assert not (folder / "new.ledger").exists()
