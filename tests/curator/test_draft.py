"""Guessing a schema from rows: readable back, stamped, and with a second look asked for where it is
due."""

from __future__ import annotations

import datetime as dt
import math
import tomllib
from pathlib import Path

import polars as pl
import pytest

from dpublish.curator.draft import MAX_LEVELS, draft, draft_schema
from dpublish.declare.encode import encode_frame
from dpublish.declare.schema import Schema
from dpublish.errors import InputError

FRAME = pl.DataFrame(
    {
        "age": [17, 90, None],
        "weight": [1.5, -2.0, math.nan],
        "count": [1.0, 2.0, None],
        "flag": [True, False, None],
        "said": ["yes", "NO", None],
        "job": ["clerk", " smith ", ""],
        "born": [dt.date(1960, 1, 2), dt.date(2001, 5, 6), None],
        "seen": [dt.datetime(2020, 1, 2, 3), dt.datetime(2021, 1, 2), None],
        "tags": [["a"], ["b"], None],
        "nothing": [None, None, None],
        "odd name!": ["1", "2", "x"],
    }
)
KINDS = {
    "age": "integer",
    "weight": "real",
    "count": "integer",
    "flag": "boolean",
    "said": "boolean",
    "job": "categorical",
    "born": "date",
    "seen": "date",
    "tags": "categorical",
    "nothing": "categorical",
    "odd name!": "categorical",
}


def test_kinds_levels_and_bounds_are_guessed() -> None:
    schema = draft_schema(FRAME, name="d")
    assert {name: column.kind for name, column in schema.columns.items()} == KINDS
    assert schema.draft
    assert schema.size == 3
    columns = schema.columns
    assert (columns["age"].lower, columns["age"].upper) == (17, 90)
    assert (columns["weight"].lower, columns["weight"].upper) == (-2.0, 1.5)
    assert columns["job"].levels == ("clerk", "smith")
    assert columns["born"].upper == dt.date(2001, 5, 6)
    assert columns["odd name!"].levels == ("1", "2", "x")
    assert all(column.missing for name, column in columns.items() if name != "odd name!")


def test_text_files_give_the_same_guess(tmp_path: Path) -> None:
    frame = FRAME.drop("tags")
    frame.write_csv(tmp_path / "d.csv")
    frame.write_parquet(tmp_path / "d.parquet")
    assert draft_schema(tmp_path / "d.csv", name="d") == draft_schema(
        tmp_path / "d.parquet", name="d"
    )


def test_the_text_is_valid_stamped_and_keeps_every_row() -> None:
    text = draft(FRAME, name="d").to_toml()
    assert text.startswith("# ---")
    assert "DERIVED FROM ROWS" in text
    again = Schema.from_toml(text)
    assert again == draft_schema(FRAME, name="d")
    assert tomllib.loads(text)["draft"] == {"derived_from_rows": True}
    assert encode_frame(FRAME, again.domain(list(again.columns), bins=4)).keep is None


def test_identifiers_are_capped_with_a_remark() -> None:
    names = [f"person {i}" for i in range(1_000)] + ["person 7"] * 5
    drafted = draft(pl.DataFrame({"name": names, "n": range(1_005)}), name="d")
    column = drafted.schema.columns["name"]
    assert len(column.levels) == MAX_LEVELS
    assert "person 7" in column.levels
    assert column.outside == "other"
    assert "[columns.name]\n# More than 100 different texts" in drafted.to_toml()
    assert Schema.from_toml(drafted.to_toml()) == drafted.schema


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2", "x"], "categorical"),
        (["1", "2.5"], "real"),
        (["1", "2.0", "nan", ""], "integer"),
        (["2020-01-01", "2020-02-30"], "categorical"),
        (["2020-01-01", "2020-01-02T03:04"], "date"),
        (["2020-01-01", "5"], "categorical"),
        (["0", "1"], "boolean"),
        (["inf", "-inf"], "categorical"),
        (["5"], "integer"),
        (["0.5"], "real"),
        (["9" * 30, "-5"], "integer"),
        ([math.inf, 1.5], "real"),
        ([2**64 - 1, 5], "integer"),
        (["x", "(other)", "(missing)", ""], "categorical"),
        (["(other)"], "categorical"),
    ],
)
def test_edges_of_guessing_can_be_read_back(values: list[object], kind: str) -> None:
    drafted = draft(pl.DataFrame({"x": values}), name="d")
    assert drafted.schema.columns["x"].kind == kind
    assert Schema.from_toml(drafted.to_toml()) == drafted.schema


def test_kinds_that_change_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpublish.sources.sources._BATCH_ROWS", 2)
    for values in (
        ["1", "2", "a", "b"],
        ["a", "b", "1", "2"],
        ["2020-01-01", "2020-01-02", "3", "4"],
        ["3", "4", "2020-01-01", "2020-01-02"],
    ):
        assert draft_schema(pl.DataFrame({"x": values}), name="d").columns["x"].levels == tuple(
            sorted(values)
        )
    assert (
        draft_schema(pl.DataFrame({"x": [1.0, 2.0, 0.5, 3.0]}), name="d").columns["x"].kind
        == "real"
    )


def test_nothing_to_draft_from() -> None:
    with pytest.raises(InputError, match="no named column"):
        draft_schema(pl.DataFrame(), name="d")
    assert draft_schema(pl.DataFrame({"x": []}), name="d").size is None


def test_a_file_with_a_header_only_says_nothing_about_the_size(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("age,city\n")
    guessed = draft(path, name="empty")
    assert guessed.schema.size is None
    assert "size" not in tomllib.loads(guessed.to_toml())["dataset"]
    assert list(guessed.schema.columns) == ["age", "city"]
