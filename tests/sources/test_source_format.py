"""Files as they come: what the [source] table says is read exactly, cell by cell."""

from __future__ import annotations

from encodings.aliases import aliases
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from dpublish.counting.cells import coded_rows
from dpublish.declare.schema import Schema
from dpublish.declare.source_format import SourceFormat
from dpublish.errors import InputError, SchemaError
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
[columns.day]
kind = "date"
lower = 2020-01-01
upper = 2020-12-31
bins = 12
[columns.town]
kind = "categorical"
levels = ["Köln", "Bonn"]
missing = true
"""
GERMAN = """
[source]
delimiter = ";"
encoding = "latin-1"
decimal = ","
thousands = "."
dates = ["%d.%m.%Y"]
missing = ["k.A.", "-9"]
"""
LINES = "cost;day;town\n1.234,5;15.01.2020;Köln\n12,0;15.12.2020;k.A.\n 700 ;15.06.2020; Bonn\n"


def schema_of(source: str) -> Schema:
    return Schema.from_toml(SCHEMA.format(source=source))


def codes(data: Any, schema: Schema) -> list[list[int]]:
    domain = schema.domain(["cost", "day", "town"])
    source = open_source(data, schema)
    return [c.tolist() for c in coded_rows(source, schema, domain, key=bytes(16))]


EXPECTED = [[2, 0, 1], [0, 11, 5], [0, 3, 1]]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".csv.zst"])
def test_a_file_is_read_as_it_is_declared(tmp_path: Path, encoding: str, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    with pa.output_stream(str(path), compression={".csv": None}.get(ending, "detect")) as file:
        file.write(LINES.encode(encoding))
    schema = schema_of(GERMAN.replace("latin-1", encoding))
    assert codes(path, schema) == EXPECTED
    assert Schema.from_toml(schema.to_toml()) == schema
    assert schema.digest != schema_of("").digest


def test_frames_are_read_by_the_same_rules() -> None:
    rows = [line.split(";") for line in LINES.strip().split("\n")[1:]]
    frame = pl.DataFrame(rows, schema=["cost", "day", "town"], orient="row")
    assert codes(frame, schema_of(GERMAN)) == EXPECTED
    assert codes(frame.to_pandas(), schema_of(GERMAN)) == EXPECTED
    assert codes(frame.cast(pl.Categorical).to_arrow(), schema_of(GERMAN)) == EXPECTED


def test_what_is_not_written_as_declared_is_no_number_and_no_date() -> None:
    german = SourceFormat(decimal=",", thousands=".", dates=("%d.%m.%Y",), missing=("-9", "?"))
    cells = pl.Series(
        ["1,5", "1.5", "1.500", "1.50,0", "12.345.678,25", "1e3", "true", "inf", " ?", ""]
    )
    assert german.rewritten(cells, "real").to_list() == [
        "1.5", "\ufffd", "1500", "\ufffd", "12345678.25", "1e3", "true", "inf", None, "",
    ]  # fmt: skip
    strict = SourceFormat(decimal=",")
    assert strict.rewritten(pl.Series(["1.5", "1,5", "7"]), "integer").to_list() == [
        "\ufffd",
        "1.5",
        "7",
    ]
    days = pl.Series(["01.02.2020", "2020-02-01", "30.02.2020", None, "?"])
    assert german.rewritten(days, "date").to_list() == [
        "2020-02-01",
        "\ufffd",
        "\ufffd",
        None,
        None,
    ]
    assert german.rewritten(pl.Series(["1,5", "?"]), "categorical").to_list() == ["1,5", None]
    assert german.rewritten(pl.Series([-9, 3]), "integer").to_list() == [None, 3]
    assert german.rewritten(pl.Series([-9.0, 3.5]), "real").to_list() == [None, 3.5]
    timed = SourceFormat(dates=("%m/%d/%Y %H:%M", "%Y%m%d"))
    assert timed.rewritten(pl.Series(["12/31/2020 10:15", "20200102"]), "date").to_list() == [
        "2020-12-31",
        "2020-01-02",
    ]


def test_a_cell_means_the_same_whatever_the_others_are() -> None:
    german = SourceFormat(decimal=",", thousands=" ", dates=("%d.%m.%y",), missing=("?",))
    cells = ["1 234", "1,5", "?", " x", None, "01.02.20", "1.5", ""]
    for kind in ("real", "integer", "date", "categorical", None):
        alone = [german.rewritten(pl.Series([c], dtype=pl.String), kind)[0] for c in cells]
        assert german.rewritten(pl.Series(cells), kind).to_list() == alone


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('delimiter = "ab"', "one character"),
        ('decimal = "5"', "one character"),
        ('decimal = ","\nthousands = ","', "different"),
        ('encoding = "klingon"', "not known"),
        ('dates = ["%d.%m"]', "year, month and day"),
        ('dates = ["%Q"]', "'%Q'"),
        ('dates = "%d.%m.%Y"', "list of texts"),
        ('dates = ["%d.%m.%Y %H"]', "cannot be read"),
        ('dates = ["%d.%m.%Y %M"]', "cannot be read"),
        ('dates = ["%d.%m.%Y %S"]', "cannot be read"),
        ('dates = ["%d.%m.%Y %I:%M"]', "must say %p"),
        ('dates = ["%d.%m.%Y %p"]', "cannot be read"),
        ('missing = ["Bonn"]', "calls missing"),
        ('delimeter = ";"', "Did you mean 'delimiter'"),
    ],
)
def test_mistakes_in_the_table_are_named(line: str, match: str) -> None:
    with pytest.raises(SchemaError, match=match):
        schema_of(f"[source]\n{line}\n")


def test_hints_come_from_the_mark_and_from_declared_names_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    names = ["cost", "day", "town"]
    path.write_text(LINES, encoding="utf-8")
    with pytest.raises(SchemaError, match="separated by ';'"):
        open_source(path).require(names, schema_name="visits")
    path.write_bytes(LINES.replace(";", ",").encode("utf-16"))
    with pytest.raises(SchemaError, match='encoding = "utf-16"'):
        open_source(path).require(names, schema_name="visits")
    path.write_text("secret;row;of;somebody\n1;2;3;4\n", encoding="utf-8")
    with pytest.raises(SchemaError) as caught:
        open_source(path).require(names, schema_name="visits")
    assert "secret" not in str(caught.value)
    assert "separated by ';'" not in str(caught.value)


def test_cells_of_a_cluster_are_not_rewritten() -> None:
    from dpublish.sources.spark import SparkTable

    with pytest.raises(InputError, match="workers of a cluster"):
        open_source(SparkTable(None), schema_of(GERMAN))


@pytest.mark.parametrize("form", ["%F %T", "%d.%m.%Y %H:%M", "%m/%d/%y %I:%M %p", "%e %b %Y %f"])
def test_times_that_can_be_read_may_be_declared(form: str) -> None:
    assert schema_of(f'[source]\ndates = ["{form}"]\n').source.dates == (form,)


def test_no_encoding_lets_one_row_change_another() -> None:
    stateful = ["hz", "iso2022_jp", "iso2022_kr", "utf-7", "punycode", "idna", "undefined", "gbk"]
    for name in stateful:
        with pytest.raises(SchemaError, match=f'"{name}" is not read'):
            schema_of(f'[source]\nencoding = "{name}"\n')
    taken = 0
    singles = [bytes([one]) for one in range(256)]
    for name in sorted({*aliases.values(), "koi8_u", "mac_croatian", "cp720"} - {"mbcs", "oem"}):
        try:
            schema_of(f'[source]\nencoding = "{name}"\n')
        except SchemaError:
            continue
        if not name.startswith("utf"):
            alone = [one.decode(name, "replace") for one in singles]
            assert {len(one) for one in alone} == {1}, name
            pairs = b"".join(one + other for one in singles for other in singles)
            assert pairs.decode(name, "replace") == "".join(
                one + other for one in alone for other in alone
            )
            taken += 1
    assert taken > 50


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_file_without_its_byte_order_mark_is_refused_when_it_is_opened(
    tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(LINES.encode(f"{encoding}-le"))
    with pytest.raises(InputError, match=f'"{encoding}-le"'):
        open_source(path, schema_of(GERMAN.replace("latin-1", encoding)))
    assert codes(path, schema_of(GERMAN.replace("latin-1", f"{encoding}-le"))) == EXPECTED
