"""Workbooks, files of statistics programs and JSON lines: a cell means what it means in a CSV file,
no row has a say in another, and no file takes the machine."""

from __future__ import annotations

import datetime as dt
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyreadstat
import pytest
import xlsxwriter

from dpublish.counting.cells import coded_rows
from dpublish.curator.check import check_data
from dpublish.curator.draft import draft_schema
from dpublish.declare.schema import Schema
from dpublish.errors import InputError
from dpublish.sources.foreign import child
from dpublish.sources.sources import open_source

SCHEMA = """
[dataset]
name = "visits"
neighbours = "add-remove-one"
{source}
[columns.cost]
kind = "real"
lower = 0
upper = 2000
bins = 4
missing = true
[columns.day]
kind = "date"
lower = 2020-01-01
upper = 2020-12-31
bins = 12
missing = true
[columns.town]
kind = "categorical"
levels = ["Köln", "Bonn", "1"]
missing = true
"""
ROWS: list[tuple[Any, Any, Any]] = [
    (1234.5, dt.date(2020, 1, 15), "Köln"),
    (12.0, dt.date(2020, 12, 15), "Bonn"),
    (None, None, " 1 "),
    (99999.25, dt.date(2031, 6, 15), "Ulm"),
]
EXPECTED = [[2, 0, 4, 3], [0, 11, 12, 11], [0, 1, 2, 3]]


def schema_of(source: str = "") -> Schema:
    return Schema.from_toml(SCHEMA.format(source=source))


def codes(data: Any, schema: Schema | None = None) -> list[list[int]]:
    schema = schema or schema_of()
    domain = schema.domain(["cost", "day", "town"])
    source = open_source(data, schema)
    source.require(domain.names, schema_name="visits")
    return [c.tolist() for c in coded_rows(source, schema, domain, key=bytes(16))]


def sheet(path: Path, rows: list[Any], name: str = "Data", more: tuple[str, ...] = ()) -> Path:
    with xlsxwriter.Workbook(str(path)) as book:
        page = book.add_worksheet(name)
        day = book.add_format({"num_format": "dd.mm.yyyy"})
        for place, cells in enumerate([("cost", "day", "town"), *rows]):
            for column, cell in enumerate(cells):
                form = [day] if isinstance(cell, dt.date) else []
                if cell is not None:
                    page.write(place, column, cell, *form)
        for one in more:
            book.add_worksheet(one)
    return path


def json_lines(path: Path, rows: list[Any]) -> Path:
    keys = ("cost", "day", "town")
    lines = [json.dumps(dict(zip(keys, row, strict=True)), default=str) for row in rows]
    path.write_text("\n\n".join(lines), encoding="utf-8")
    return path


def statistics(path: Path, rows: list[Any]) -> Path:
    frame = pd.DataFrame(rows, columns=["cost", "day", "town"])
    writers = {".sav": "write_sav", ".dta": "write_dta", ".xpt": "write_xport"}
    getattr(pyreadstat, writers[path.suffix])(frame, str(path))
    return path


@pytest.mark.parametrize(
    ("ending", "write"),
    [
        (".xlsx", sheet),
        (".jsonl", json_lines),
        (".sav", statistics),
        (".dta", statistics),
        (".xpt", statistics),
    ],
)
def test_every_format_is_read_as_the_same_rows(
    tmp_path: Path, ending: str, write: Callable[[Path, list[Any]], Path]
) -> None:
    path = write(tmp_path / f"a{ending}", ROWS)
    assert codes(path) == EXPECTED
    assert open_source(path, schema_of()).count_rows() == 4
    drafted = draft_schema(path, name="visits")
    assert drafted.draft
    assert {c: drafted.columns[c].kind for c in ("cost", "day")} == {"cost": "real", "day": "date"}
    found = check_data(path, schema_of(), at_least=0.5)
    assert found.rows == 4
    assert found.ok


def test_no_row_of_a_workbook_has_a_say_in_another(tmp_path: Path) -> None:
    odd = [("text", "no day", 7), ("#N/A", True, False), (dt.time(13, 4), -5, dt.date(2020, 1, 1))]
    plain = codes(sheet(tmp_path / "a.xlsx", ROWS))
    mixed = codes(sheet(tmp_path / "b.xlsx", [*odd, *ROWS, *odd]))
    assert [column[3:7] for column in mixed] == plain
    lines = codes(json_lines(tmp_path / "b.jsonl", [*ROWS, ("x", [1], {"a": 2}), *ROWS]))
    assert [column[:4] for column in lines] == plain == [column[5:] for column in lines]


def test_what_is_said_of_writing_holds_for_texts_of_a_workbook_alone(tmp_path: Path) -> None:
    rows = [*ROWS[:2], ("1.234,5", "15.01.2020", "Köln"), (-9, "15/01/2020", "k.A.")]
    source = '[source]\ndecimal = ","\nthousands = "."\ndates = ["%d.%m.%Y"]\n'
    schema = schema_of(source + 'missing = ["k.A.", "-9"]')
    found = codes(sheet(tmp_path / "a.xlsx", rows), schema)
    assert found == [[2, 0, 2, 4], [0, 11, 0, 12], [0, 1, 0, 4]]
    numbers = codes(json_lines(tmp_path / "a.jsonl", [(1234.5, "15.01.2020", "Köln")]), schema)
    assert numbers == [[2], [0], [0]]


def test_the_sheet_is_declared_where_there_are_several(tmp_path: Path) -> None:
    path = sheet(tmp_path / "a.xlsx", ROWS, "2024", ("Notes",))
    with pytest.raises(InputError, match=r"2 sheets.*sheet = .*'2024', 'Notes'"):
        open_source(path, schema_of())
    with pytest.raises(InputError, match=r"no sheet '2025'.*Did you mean '2024'"):
        open_source(path, schema_of('[source]\nsheet = "2025"'))
    assert codes(path, schema_of('[source]\nsheet = "2024"')) == EXPECTED
    drafted = draft_schema(path, name="visits", sheet="2024")
    assert drafted.source is not None
    assert drafted.source.sheet == "2024"


def test_long_numbers_of_a_workbook_are_no_ids_and_long_texts_are(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    with xlsxwriter.Workbook(str(path)) as book:
        page = book.add_worksheet()
        for place, cell in enumerate(["id", "9007199254740993", 9007199254740993, 7.0, "7"]):
            page.write_string(place, 0, cell) if isinstance(cell, str) else page.write_number(
                place, 0, cell
            )
    assert open_source(path).count_units("id") == 2  # the text, and 7


def test_json_numbers_are_taken_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"v": 9007199254740993, "w": ["a", 1.50]}\r\n'
        b'{"v": 1e400}\n  \n[1]\n{"v": "\\ud800"}\n{"v": \xff}\n' + b"[" * 100_000 + b"\n"
        b'{"v": true, "w": "a b"}'
    )
    source = open_source(path)
    assert source.columns() == ("v", "w")
    bad = "\ufffd"
    cells = pl.concat(source.batches(["v"])).get_column("v").to_list()
    assert cells == ["9007199254740993", "1e400", bad, bad * 3, bad, bad, "true"]
    lists = pl.concat(source.cutting("w", str.split).batches(["w"])).get_column("w").to_list()
    assert lists == [["a", "1.50"], [], [bad], [], [bad], [bad], ["a", "b"]]


def test_lists_of_json_lines_are_items(tmp_path: Path) -> None:
    head = '[dataset]\nname = "shop"\nneighbours = "add-remove-one"\nnominal_size = 4\n'
    schema = Schema.from_toml(head + '[items]\nuniverse = ["bread", "milk"]\n')
    path = tmp_path / "a.jsonl"
    path.write_text('{"items": ["bread", "milk"]}\n{"items": ["milk", "beer"]}\n{"items": []}\n')
    found = check_data(path, schema, at_least=0.5)
    assert found.ok
    assert (found.columns[0].read, found.columns[0].outside) == (3, 1)
    path.write_text('{"item": ["bread"]}\n')
    assert check_data(path, schema).problems == ("No row lists an item in column 'items'.",)


def test_bytes_and_dates_that_mean_nothing_end_no_reading(tmp_path: Path) -> None:
    frame = pd.DataFrame({"t": ["abcd", "Köln"], "d": [dt.date(2020, 1, 31)] * 2})
    path = tmp_path / "a.dta"
    pyreadstat.write_dta(frame, str(path))
    broken = path.read_bytes().replace(b"abcd", b"ab\xff\xfe")
    far = pd.DataFrame({"x": [21945.0]})["x"].to_numpy().tobytes()
    whole = far if far in broken else (21945).to_bytes(4, "little")
    assert whole in broken
    path.write_bytes(
        broken.replace(
            whole, b"\x00" * 6 + b"\x00\x42" if len(whole) == 8 else b"\xff\xff\xff\x6f", 1
        )
    )
    frame = pl.concat(open_source(path).batches(["t", "d"]))
    assert frame.get_column("t").to_list() == ["ab\ufffd\ufffd", "Köln"]
    assert frame.get_column("d").to_list()[1] == dt.date(2020, 1, 31)


@pytest.mark.parametrize("ending", [".xlsx", ".sav", ".dta", ".sas7bdat", ".xpt", ".por", ".xls"])
def test_a_damaged_file_is_refused_when_it_is_opened(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(b"PK\x03\x04 is not enough" * 50)
    with pytest.raises(InputError, match="cannot be read"):
        open_source(path)


SHEET = "xl/worksheets/sheet1.xml"


@pytest.mark.parametrize("bomb", ["far", "strings"])
def test_a_workbook_that_stands_for_gigabytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bomb: str
) -> None:
    monkeypatch.setattr(child, "MEMORY", 1 << 29)
    small, path = sheet(tmp_path / "small.xlsx", ROWS), tmp_path / "bomb.xlsx"
    with (
        zipfile.ZipFile(small) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        for name in old.namelist():
            text = old.read(name)
            if bomb == "far" and name == SHEET:
                far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
                text = text.replace(b"</sheetData>", far)
            if bomb == "strings" and name == "xl/sharedStrings.xml":
                text = text.replace(b"</sst>", b"<si><t>" + b"a" * (1 << 30) + b"</t></si></sst>")
            new.writestr(name, text)
    assert path.stat().st_size < 1 << 23
    with pytest.raises(InputError, match="cannot be read: it is damaged, or needs more than"):
        open_source(path)


def test_a_cell_far_down_adds_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    rows: list[Any] = [*ROWS, *[(None, None, None)] * 500, ROWS[0]]
    assert codes(sheet(path, rows)) == [[*column, column[0]] for column in EXPECTED]


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpublish.sources.foreign.rows.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'dpublish\[files\]'"):
        open_source(sheet(tmp_path / "a.xlsx", ROWS))
