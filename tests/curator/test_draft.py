"""Guessing a schema from rows: readable back, stamped, and with a second look asked for where it is
due."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import tomllib
from pathlib import Path

import polars as pl
import pytest

from dpublish.curator.check import check_data
from dpublish.curator.draft import MAX_LEVELS, draft, draft_schema
from dpublish.declare.columns import Column
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
    "seen": "timestamp",
    "nothing": "categorical",
    "odd name!": "categorical",
}


def test_kinds_levels_and_bounds_are_guessed() -> None:
    schema = draft_schema(FRAME, name="d")
    assert {name: column.kind for name, column in schema.columns.items()} == KINDS
    assert "holds lists" in draft(FRAME, name="d").left_out["tags"]
    assert schema.draft
    assert schema.size == 3
    columns = schema.columns
    assert (columns["age"].lower, columns["age"].upper) == (0, 120)
    assert (columns["weight"].lower, columns["weight"].upper) == (-2.0, 2.0)
    assert columns["job"].levels == ("clerk", "smith")
    assert columns["born"].upper == dt.date(2001, 12, 31)
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


def test_many_texts_are_capped_with_a_remark() -> None:
    names = [f"town {i % 150}" for i in range(3_000)] + ["town 7"] * 5
    drafted = draft(pl.DataFrame({"town": names, "n": range(3_005)}), name="d")
    column = drafted.schema.columns["town"]
    assert len(column.levels) == MAX_LEVELS
    assert "town 7" in column.levels
    assert column.outside == "other"
    assert "[columns.town]\n# More than 100 different texts" in drafted.to_toml()
    assert Schema.from_toml(drafted.to_toml()) == drafted.schema


def guess(values: list[object], name: str = "x") -> Column:
    return draft_schema(pl.DataFrame({name: values, "y": [0.5] * len(values)}), name="d").columns[
        name
    ]


def test_marks_for_missing_values_are_no_levels() -> None:
    drafted = draft(
        pl.DataFrame({"bp": ["120", "?", "80", "95"], "w": ["a", "?", "b", "a"]}), name="d"
    )
    bp, ward = drafted.schema.columns["bp"], drafted.schema.columns["w"]
    assert (bp.kind, bp.missing, bp.lower, bp.upper) == ("integer", True, 80, 120)
    assert ward.levels == ("a", "b")
    assert ward.missing
    assert drafted.schema.source is not None
    assert drafted.schema.source.missing == ("?",)
    assert guess(["Y", "N"] * 20).kind == "boolean"


def test_few_whole_numbers_are_codes_without_gaps() -> None:
    assert guess(["1", "2"] * 20).levels == ("1", "2")
    codes = guess([1, 2, 5] * 20)
    assert (codes.kind, codes.levels) == ("categorical", ("1", "2", "3", "4", "5"))
    assert guess(list(range(1, 13)) * 10).kind == "ordinal"
    assert guess([0] * 50 + [1] * 30 + [2] * 10 + [3] * 5).kind == "ordinal"
    assert guess(list(range(200))).kind == "integer"


@pytest.mark.parametrize(
    ("levels", "kind"),
    [
        (["item 2", "item 11", "item 100"], "categorical"),
        (["<20", "20-39", "40-59", "60+"], "ordinal"),
        (["mild", "Moderate", "severe"], "ordinal"),
        (["25-00503", "25-00703", "25-01000"], "categorical"),
    ],
)
def test_levels_stand_in_their_natural_order(levels: list[str], kind: str) -> None:
    found = guess([*reversed(levels)] * 10)
    assert (found.kind, found.levels) == (kind, tuple(levels))


@pytest.mark.parametrize(
    ("values", "name", "words"),
    [
        ([f"p{i}" for i in range(60)], "x", "identifier"),
        (list(range(60)), "patient_id", "identifier"),
        ([f"said {i % 50} things at length" * 3 for i in range(60)] * 3, "note", ""),
        ([f"a long remark about case {i}, in words" for i in range(150)] * 2, "note", "free text"),
        ([100 + i % 70 for i in range(200)], "fnlwgt", "survey weights"),
    ],
)
def test_what_does_not_belong_in_a_release_is_left_out(
    values: list[object], name: str, words: str
) -> None:
    drafted = draft(pl.DataFrame({name: values, "y": [0.5] * len(values)}), name="d")
    assert (name in drafted.left_out) == bool(words)
    if words:
        assert words in drafted.left_out[name]
        assert words in drafted.to_toml()
        assert name not in drafted.schema.columns


def test_the_privacy_unit_is_proposed() -> None:
    people = [f"p{i // 3}" for i in range(90)]
    drafted = draft(pl.DataFrame({"patient": people, "age": list(range(90))}), name="d")
    assert drafted.schema.unit.column == "patient"
    assert drafted.schema.unit.max_rows == 3
    assert "looks like the privacy unit" in drafted.to_toml()
    assert Schema.from_toml(drafted.to_toml()) == drafted.schema


def test_dates_and_numbers_of_other_countries_are_known_as_such() -> None:
    frame = pl.DataFrame({"d": ["31.12.2020", "01.02.2021"] * 20, "x": ["1,5", "22,75"] * 20})
    drafted = draft(frame, name="d")
    day, number = drafted.schema.columns["d"], drafted.schema.columns["x"]
    assert (day.kind, day.lower) == ("date", dt.date(2020, 1, 1))
    assert "dd.mm.yyyy" in drafted.remarks["d"]
    assert number.kind == "real"
    assert "decimal comma" in drafted.remarks["x"]


def test_digits_of_other_kinds_are_no_numbers() -> None:
    drafted = draft(pl.DataFrame({"x": ["1,5", "³"] * 20}), name="d")
    assert Schema.from_toml(drafted.to_toml()) == drafted.schema
    assert drafted.schema.columns["x"].kind == "categorical"


def test_the_draft_says_how_the_file_is_written(tmp_path: Path) -> None:
    lines = ["Ort;Tag;Wert;Art"]
    lines += [f"Zürich;{1 + i % 28:02}.03.2021;{i},5;{'a?b'[i % 3]}" for i in range(60)]
    (tmp_path / "a.csv").write_bytes("\n".join([*lines, ""]).encode("latin-1"))
    drafted = draft(tmp_path / "a.csv", name="d")
    written = drafted.schema.source
    assert written is not None
    assert (written.delimiter, written.decimal) == (";", ",")
    assert (written.dates, written.missing) == (("%d.%m.%Y",), ("?",))
    assert drafted.schema.columns["Art"].levels == ("a", "b")
    assert drafted.schema.columns["Art"].missing
    again = Schema.from_toml(drafted.to_toml())
    assert list(again.columns) == ["Ort", "Tag", "Wert", "Art"]
    found = check_data(tmp_path / "a.csv", again)
    assert found.problems == ()
    assert found.dropped_rows == 0


def test_baskets_become_a_universe_of_items(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("10 2\n1 2\n\n")
    drafted = draft(tmp_path / "b.txt", name="b")
    assert drafted.schema.items is not None
    assert drafted.schema.items.items == ("1", "2", "10")
    assert Schema.from_toml(drafted.to_toml()) == drafted.schema


def test_every_bound_and_level_set_says_that_it_was_read_off_the_rows() -> None:
    columns = draft_schema(FRAME, name="d").columns.values()
    assert {c.wording.source for c in columns if c.kind != "boolean"} == {"taken from the rows"}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2", "x"], "categorical"),
        (["1", "2.5"], "real"),
        (["1", "2.0", "nan", ""], "integer"),
        (["2020-01-01", "2020-02-30"], "categorical"),
        (["2020-01-01", "2020-01-02T03:04"], "timestamp"),
        (["2020-01-01", "2020-01-02T00:00"], "date"),
        (["8:05", "23:59:59"], "time"),
        (["8:05", "2020-01-01"], "categorical"),
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
        levels = draft_schema(pl.DataFrame({"x": values}), name="d").columns["x"].levels
        assert sorted(levels) == sorted(values)
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


def test_an_id_that_comes_again_is_the_unit_whatever_it_is_called() -> None:
    """Rows of one person have one sex; rows with one income do not."""
    draw = random.Random(2)
    people = [(125_024 + 7 * i, draw.choice("mf"), draw.choice("abc")) for i in range(400)]
    rows = [
        (zper, year, sex, town if draw.random() < 0.9 else "d", draw.randrange(300) * 100)
        for zper, sex, town in people
        for year in range(1, draw.randint(3, 6))
    ]
    frame = pl.DataFrame(rows, schema=["zper", "year", "sex", "town", "income"], orient="row")
    drafted = draft(frame, name="d")
    assert drafted.schema.unit.column == "zper"
    assert drafted.schema.unit.max_rows == 5
    assert "privacy unit" in drafted.left_out["zper"]
    assert drafted.schema.columns["income"].kind == "integer"
    alone = draft(frame.drop("zper"), name="d").schema
    assert alone.unit.column is None, "an income is nobody"


@pytest.mark.parametrize("beside", [{}, {"id": 7}, {"basket": "x"}])
def test_lists_of_json_are_baskets(tmp_path: Path, beside: dict[str, object]) -> None:
    path = tmp_path / "a.jsonl"
    lists = [["bread", "milk"], [], ["beer"]] * 10
    path.write_text("\n".join(json.dumps({**beside, "bought": one}) for one in lists))
    drafted = draft(path, name="d")
    assert drafted.schema.items is not None
    assert drafted.schema.items.items == ("beer", "bread", "milk")
    assert "'bought'" in drafted.to_toml()
    assert drafted.schema.unit.column == (next(iter(beside)) if beside else None)
    frame = pl.DataFrame({"items": lists})
    assert draft(frame, name="d").schema.items == drafted.schema.items


def test_times_of_other_countries_are_declared_in_the_source() -> None:
    frame = pl.DataFrame(
        {
            "seen": ["31.12.2023 08:05", "01.02.2024 17:30"] * 20,
            "clock": ["8:05 AM", "11:30 PM"] * 20,
            "zoned": ["2024-05-06T07:08:09+02:00", "2024-05-07T07:08:09Z"] * 20,
        }
    )
    drafted = draft(frame, name="d")
    assert {name: column.kind for name, column in drafted.schema.columns.items()} == {
        "seen": "timestamp",
        "clock": "time",
        "zoned": "timestamp",
    }
    written = drafted.schema.source
    assert written is not None
    assert "%d.%m.%Y %H:%M" in written.timestamps
    assert "iso" in written.timestamps, "the usual ones have to be listed too"
    assert written.times == ("%I:%M %p",)
    assert "offset" in drafted.remarks["zoned"]
    days = draft(pl.DataFrame({"day": ["2024-01-05", "2024-02-28"] * 20}), name="d")
    assert "offset" not in days.remarks.get("day", ""), "the day of a month is no offset"
    found = check_data(frame, drafted.schema)
    assert [column.part for column in found.columns] == [1.0, 1.0, 1.0]
