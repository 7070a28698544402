"""Times of day and timestamps: one cell has one code, whatever file, frame, database or cluster it
comes from, and no cell ends the reading of the others."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pyreadstat
import pytest
import xlsxwriter
from tests.pg import Postgres, shared_postgres

import dpublish as dp
from dpublish.counting.cells import coded_rows
from dpublish.counting.points import positions_of
from dpublish.declare.calendar import (
    LAST,
    moment_of,
    number_of,
    numbers_of,
    series_of,
    spelled,
    step_edges,
)
from dpublish.declare.grid import grid_of
from dpublish.declare.schema import Schema
from dpublish.errors import QueryError, SchemaError
from dpublish.sources.sources import SqlSource, open_source

SCHEMA = """
[dataset]
name = "arrivals"
neighbours = "add-remove-one"
{source}
[columns.arrival]
kind = "timestamp"
lower = 2024-01-01
upper = 2024-12-31T23:59:59
bins = "month"
missing = true
outside = "other"
[columns.clock]
kind = "time"
bins = "hour"
missing = true
[columns.day]
kind = "date"
lower = 2024-01-01
upper = 2024-12-31
bins = "quarter"
missing = true
"""
MOMENTS = [
    dt.datetime(2024, 1, 1),
    dt.datetime(2024, 1, 31, 23, 59, 59, 999_999),
    dt.datetime(2024, 2, 1),
    dt.datetime(2024, 12, 31, 23, 59, 59),
    dt.datetime(2025, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 500_000),
    None,
]
CLOCKS = [
    dt.time(0, 0),
    dt.time(7, 59, 59, 999_999),
    dt.time(8, 0),
    dt.time(23, 59, 59),
    dt.time(12, 30),
    dt.time(12, 0),
    None,
]
EXPECTED = [
    [0, 0, 1, 11, 12, 12, 13],
    [0, 7, 8, 23, 12, 12, 24],
    [0, 0, 0, 3, 3, 0, 4],
]


def schema_of(source: str = "") -> Schema:
    return Schema.from_toml(SCHEMA.format(source=source))


def codes(data: Any, source: str = "") -> list[list[int]]:
    schema = schema_of(source)
    domain = schema.domain(["arrival", "clock", "day"])
    opened = open_source(data, schema)
    opened.require(domain.names, schema_name="arrivals")
    return [c.tolist() for c in coded_rows(opened, schema, domain, key=bytes(16))]


def frame(unit: str = "us") -> pl.DataFrame:
    cells = pl.Series(MOMENTS, dtype=pl.Datetime("us")).dt.cast_time_unit(unit)  # type: ignore[arg-type]
    return pl.DataFrame({"arrival": cells, "clock": pl.Series(CLOCKS, dtype=pl.Time), "day": cells})


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_frames_and_columnar_files(tmp_path: Path, unit: str) -> None:
    made = frame(unit)
    made.write_parquet(tmp_path / "a.parquet")
    made.write_ipc(tmp_path / "a.arrow")
    for data in (made, made.lazy(), made.to_arrow(), tmp_path / "a.parquet", tmp_path / "a.arrow"):
        assert codes(data) == EXPECTED


def test_texts_of_any_kind(tmp_path: Path) -> None:
    texts = frame().select(
        pl.col("arrival").dt.strftime("%Y-%m-%dT%H:%M:%S%.f"),
        pl.col("clock").cast(pl.String),
        pl.col("day").dt.strftime("%Y-%m-%d %H:%M"),
    )
    texts.write_csv(tmp_path / "a.csv")
    texts.write_ndjson(tmp_path / "a.jsonl")
    assert codes(texts) == codes(tmp_path / "a.csv") == codes(tmp_path / "a.jsonl") == EXPECTED


def test_objects_of_pandas() -> None:
    made = pd.DataFrame({"arrival": MOMENTS, "clock": CLOCKS, "day": MOMENTS}, dtype=object)
    assert codes(made) == EXPECTED
    assert codes(made.assign(arrival=pd.to_datetime(made["arrival"]))) == EXPECTED


def test_a_workbook_holds_parts_of_a_day(tmp_path: Path) -> None:
    """Excel stores 08:00 as the double next to a third, so times are rounded to its millisecond."""
    path = tmp_path / "a.xlsx"
    moments = [m.replace(microsecond=0) if m and m.year > 1970 else None for m in MOMENTS[:6]]
    clocks = [c.replace(microsecond=0) if c else None for c in CLOCKS[:6]]
    minutes = [dt.time(h, m) for h in range(24) for m in range(0, 60, 7)]
    with xlsxwriter.Workbook(str(path)) as book:
        page = book.add_worksheet("Data")
        both = book.add_format({"num_format": "dd.mm.yyyy hh:mm"})
        clock = book.add_format({"num_format": "hh:mm:ss"})
        page.write_row(0, 0, ["arrival", "clock", "day"])
        days = [dt.datetime.combine(dt.date(2024, 3, 31), one) for one in minutes]
        for row, (moment, time) in enumerate(
            [*zip(moments, clocks, strict=True), *zip(days, minutes, strict=True)], start=1
        ):
            if moment is not None:
                page.write_datetime(row, 0, moment, both)
                page.write_datetime(row, 2, moment, both)
            if time is not None:
                page.write_datetime(row, 1, time, clock)
    found = codes(path)
    assert found[0][:6] == [0, 0, 1, 11, 12, 13]
    assert found[1] == [*EXPECTED[1][:6], *(one.hour for one in minutes)]
    assert set(found[0][6:]) == {2}, "the last minute of March is in March"


def test_files_of_statistics(tmp_path: Path) -> None:
    made = pd.DataFrame({"arrival": MOMENTS[:5], "clock": CLOCKS[:5], "day": MOMENTS[:5]})
    pyreadstat.write_sav(made, str(tmp_path / "a.sav"))
    assert codes(tmp_path / "a.sav") == [column[:5] for column in EXPECTED]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with shared_postgres() as found:
        yield found


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_databases(kind: str, there: bool, request: pytest.FixtureRequest) -> None:
    url = "duckdb://" if kind == "duckdb" else request.getfixturevalue("postgres").url()
    texts = [
        f"('{m}'::timestamp, '{c}'::time, '{m}'::timestamp)" if m and c else "(NULL, NULL, NULL)"
        for m, c in zip(MOMENTS, CLOCKS, strict=True)
    ]
    query = f"SELECT * FROM (VALUES {', '.join(texts)}) AS v(arrival, clock, day)"
    found = codes(SqlSource(url, query, count_there=there))
    assert sorted(zip(*found, strict=True)) == sorted(zip(*EXPECTED, strict=True))


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_a_day_that_has_a_24th_hour_is_missing(kind: str, request: pytest.FixtureRequest) -> None:
    url = "duckdb://" if kind == "duckdb" else request.getfixturevalue("postgres").url()
    query = "SELECT NULL::timestamp AS arrival, '24:00:00'::time AS clock, NULL::date AS day"
    assert codes(SqlSource(url, query)) == [[13], [24], [4]]


ZONED = [
    ("2024-03-31T23:30:00Z", 3, 1),
    ("2024-03-31 23:30:00+02:00", 2, 23),
    ("2024-06-30T22:30:00-00:30", 6, 1),
    ("2024-01-31 23:59", 0, 23),
]
"""In Berlin it is April at the first; the second is written there; the last names no zone."""


def test_a_declared_zone_is_whose_clock_is_read(tmp_path: Path, postgres: Postgres) -> None:
    source = '[source]\nzone = "Europe/Berlin"'
    texts = [text for text, _, _ in ZONED]
    moments = [dt.datetime.fromisoformat(text) for text in texts]
    aware = [
        one if one.tzinfo else one.replace(tzinfo=ZoneInfo("Europe/Berlin")) for one in moments
    ]
    expected = [[month for _, month, _ in ZONED], [hour for _, _, hour in ZONED]]
    columns = dict.fromkeys(("arrival", "clock", "day"), texts)
    pl.DataFrame(columns).write_csv(tmp_path / "a.csv")
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps(dict.fromkeys(columns, text)) for text in texts)
    )
    typed = pl.Series([one.astimezone(dt.UTC) for one in aware], dtype=pl.Datetime("us", "UTC"))
    values = ", ".join(f"('{one.isoformat()}'::timestamptz)" for one in aware)
    query = f"SELECT c AS arrival, c AS clock, c AS day FROM (VALUES {values}) AS v(c)"
    for data in (
        tmp_path / "a.csv",
        tmp_path / "a.jsonl",
        pl.DataFrame(dict.fromkeys(columns, typed)),
        pd.DataFrame(dict.fromkeys(columns, aware), dtype=object),
        SqlSource(postgres.url(), query),
        SqlSource("duckdb://", query),
    ):
        assert codes(data, source)[:2] == expected, data
    # without it, a cell is read by the clock it was written by
    assert codes(tmp_path / "a.csv")[1] == [23, 23, 22, 23]


def test_formats_of_other_countries() -> None:
    source = '[source]\ntimestamps = ["%d.%m.%Y %H:%M"]\ntimes = ["%I:%M %p", "%H.%M"]'
    made = pl.DataFrame(
        {
            "arrival": ["31.12.2024 23:59", "2024-12-31 23:59", "", "32.12.2024 00:00"],
            "clock": ["08:05 PM", "20.05", "20:05", None],
            "day": ["2024-07-01"] * 4,
        }
    )
    assert codes(made, source) == [[11, 13, 13, 13], [20, 20, 24, 24], [2, 2, 2, 2]]


@pytest.mark.parametrize(
    ("cell", "timestamp", "time"),
    [
        (" 2024-05-06 7:08 ", "2024-05-06 07:08:00", "07:08:00"),
        ("2024-05-06T07:08:09.999999999", "2024-05-06 07:08:09", "07:08:09"),
        ("2024-05-06 07:08:09,5 +0200", "2024-05-06 07:08:09", "07:08:09"),
        ("2024-05-06", "2024-05-06 00:00:00", None),
        ("07:08", None, "07:08:00"),
        ("23:59:60", None, "23:59:59"),
        ("9999-12-31 23:59:60", "9999-12-31 23:59:59", "23:59:59"),
        ("0000-01-01 00:00", None, "00:00:00"),
        ("2024-02-30 07:08", None, "07:08:00"),
        ("24:00", None, None),
        ("07:60", None, None),
        ("07:08:61", None, None),
        ("2024-05-06 07", None, None),
        ("20240506 0708", None, None),
        ("1714979289", None, None),
        ("07:08 PM", None, None),
        ("٠٧:٠٨", None, None),
        ("\x00", None, None),
        ("2024-05-06 07:08\n07:09", None, None),
        ("9" * 5000, None, None),
    ],
)
def test_how_texts_are_read(cell: str, timestamp: str | None, time: str | None) -> None:
    for kind, expected in (("timestamp", timestamp), ("time", time)):
        values, holes = numbers_of(kind, pl.Series([cell, None])) or (None, None)
        assert values is not None
        assert holes is not None
        assert holes.tolist() == [expected is None, True]
        assert expected is None or spelled(kind, int(values[0])) == expected


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata", "America/St_Johns"])
def test_times_beyond_the_calendar_are_moved_into_it(unit: str, zone: str | None) -> None:
    """Whatever 64 bits hold is read, and lies outside every bound or at the end of the calendar."""
    ends = [-(1 << 63) + 1, (1 << 63) - 1, 0, None]
    cells = pl.Series(ends, dtype=pl.Int64).cast(pl.Datetime(unit, zone))  # type: ignore[arg-type]
    for kind in ("date", "time", "timestamp"):
        values, holes = numbers_of(kind, cells) or (None, None)
        assert values is not None
        assert holes is not None
        assert holes.tolist() == [False, False, False, True]
        assert all(0 <= value <= LAST[kind] for value in values[:3].tolist())


def test_types_that_hold_no_time_are_missing_cell_by_cell() -> None:
    for cells in (
        pl.Series([1, 2]),
        pl.Series([True]),
        pl.Series([dt.timedelta(1)]),
        pl.Series([0.5]),
    ):
        assert numbers_of("timestamp", cells) is None
        assert numbers_of("time", cells) is None
    assert numbers_of("time", pl.Series([dt.date(2024, 1, 1)])) is None


def test_positions_of_a_tree_are_seconds() -> None:
    schema = schema_of()
    clock = grid_of(schema.column("clock"), schema_name="arrivals")
    arrival = grid_of(schema.column("arrival"), schema_name="arrivals")
    assert (clock.positions, arrival.positions) == (86_400, 366 * 86_400)
    found, _, holes = positions_of(frame()["clock"], clock)
    assert found[:3].tolist() == [0, 28_799, 28_800]
    assert holes is not None
    assert positions_of(pa_series(), clock)[0].tolist() == [61]


def pa_series() -> pl.Series:
    return pl.Series(pl.from_arrow(pa.array([61], type=pa.time32("s"))))


@pytest.mark.parametrize("kind", ["date", "time", "timestamp"])
def test_numbers_and_moments_are_inverse(kind: str) -> None:
    for number in (0 if kind == "time" else 86_400, 12_345 + 86_400 * (kind != "time"), LAST[kind]):
        assert number_of(moment_of(kind, number)) == number
        values, _ = numbers_of(kind, series_of(kind, pl.Series([number]).to_numpy())) or (None, 0)
        assert values is not None
        assert values.tolist() == [number]


@pytest.mark.parametrize(
    ("kind", "step", "low", "high", "inner"),
    [
        ("date", "week", dt.date(2024, 1, 3), dt.date(2024, 1, 15), ["2024-01-08"]),
        ("date", "year", dt.date(2023, 1, 1), dt.date(2024, 5, 1), ["2024-01-01"]),
        ("timestamp", "quarter", dt.datetime(2024, 2, 1), dt.datetime(2024, 7, 1),
         ["2024-04-01 00:00:00"]),
        ("timestamp", "week", dt.datetime(2024, 1, 8), dt.datetime(2024, 1, 16),
         ["2024-01-15 00:00:00"]),
        ("time", "hour", dt.time(8, 30), dt.time(10, 30), ["09:00:00", "10:00:00"]),
    ],
)  # fmt: skip
def test_bins_that_have_a_name(kind: str, step: str, low: Any, high: Any, inner: list[str]) -> None:
    edges = step_edges(kind, step, number_of(low), number_of(high))
    assert [spelled(kind, edge) for edge in edges[1:-1]] == inner


def test_the_schema_is_read_back() -> None:
    schema = schema_of()
    assert Schema.from_toml(schema.to_toml()) == schema
    assert 'bins = "month"' in schema.to_toml()
    assert schema.column("clock").upper == dt.time(23, 59, 59), "a day has its bounds"
    axis = schema.domain(["clock"]).axes[0]
    assert axis.label(8) == "08:00:00..08:59:59"


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('kind = "time"\nbins = "month"', "minute, hour"),
        ('kind = "time"\nlower = 08:00:00+02:00', "not valid TOML"),
        ('kind = "timestamp"\nlower = 2024-01-01T00:00:00Z\nupper = 2025-01-01', "without a zone"),
        (
            'kind = "timestamp"\nlower = 2024-01-01T00:00:00.5\nupper = 2025-01-01',
            "part of a second",
        ),
        ('kind = "timestamp"\nbins = "day"', "needs a lower and an upper"),
        (
            'kind = "timestamp"\nlower = 1900-01-01\nupper = 2024-01-01\nbins = "minute"',
            "more than",
        ),
        ('kind = "timestamp"\nlower = 5\nupper = 6', "must be a timestamp such as"),
        ('kind = "integer"\nlower = 5\nupper = 6\nbins = "month"', "whole number"),
    ],
)
def test_mistakes_are_named(line: str, match: str) -> None:
    with pytest.raises(SchemaError, match=match):
        Schema.from_toml(f'[dataset]\nname = "x"\n[columns.c]\n{line}\n')


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("moments")
    rows = 20_000
    seconds = pl.Series(range(rows)).to_numpy() * 1500
    arrival = series_of("timestamp", number_of(dt.datetime(2024, 1, 1)) + seconds)
    clock = series_of("time", seconds % 86_400)
    data = pl.DataFrame({"arrival": arrival, "clock": clock, "day": arrival.dt.date()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPUBLISH_STATE", str(folder / "state"))
        schema = schema_of()
        curator = dp.Curator(
            data, schema, ledger=folder / "l.ledger", budget=dp.Budget(epsilon=200)
        )
        yield {
            "histogram": curator.publish(
                dp.Histogram(columns=["arrival", "clock"]), epsilon=50, key="a"
            ),
            "tree": curator.publish(dp.IntervalTree(columns=["arrival"]), epsilon=50, key="b"),
            "joined": curator.publish(dp.JoinedHistograms(), epsilon=50, key="c"),
        }


@pytest.mark.parametrize(
    ("kind", "condition", "count"),
    [
        ("histogram", "arrival < '2024-02-01'", 1786),
        ("histogram", "arrival between '2024-02-01 00:00' and '2024-02-29T23:59:59'", 1670),
        ("histogram", "clock >= '08:00' and clock < time '12:00'", 3334),
        ("histogram", "arrival >= timestamp '2024-12-01'", 705),
        ("joined", "clock >= '8:00' and clock < '12:00:00'", 3334),
        ("joined", "arrival < '2024-02-01' and clock < '12:00'", 893),
        ("tree", "arrival < '2024-01-02 12:00'", 87),
    ],
)
def test_conditions(release: dict[str, Any], kind: str, condition: str, count: int) -> None:
    found = release[kind].estimate(condition)
    assert abs(found.value - count) < 60
    assert found.low - 60 <= count <= found.high + 60


def test_sql_and_rows_have_times(release: dict[str, Any]) -> None:
    one = release["histogram"]
    found = one.sql(
        "select clock, count(*) as n from release where clock >= '08:00' group by clock"
    )
    assert found.schema["clock"] == pl.Time
    assert found.height == 16
    late = one.sql(
        "select count(*) as n from release where arrival >= timestamp '2024-07-01 00:00'"
    )
    assert abs(late["n"][0] - 9517) < 60
    rows = release["joined"].sample(200, seed=1)
    assert rows.schema["arrival"] == pl.Datetime("us")
    assert rows.schema["clock"] == pl.Time
    median = release["tree"].quantile(0.5)
    assert abs(median - dt.datetime(2024, 6, 22, 14)) < dt.timedelta(days=3)


def test_what_is_no_time_is_refused_in_words(release: dict[str, Any]) -> None:
    for condition, words in (
        ("arrival > 5", "holds timestamps; write one as '2020-01-31 08:30:00'"),
        ("clock > 'noon'", "holds times of day; write one as '08:30:00'"),
        ("arrival > '2024-01-01T00:00:00Z'", "holds timestamps"),
    ):
        with pytest.raises(QueryError, match=words):
            release["histogram"].estimate(condition)


def test_page_and_report_show_them(release: dict[str, Any], tmp_path: Path) -> None:
    for kind, one in release.items():
        page = one.page(tmp_path / f"{kind}.html").read_text()
        report = one.report(tmp_path / f"{kind} report.html").read_text()
        assert "2024-01-01 00:00:00" in page, kind
        assert "2024-01-01 00:00:00" in report, kind
        assert not re.search(r"6[34][0-9],?[0-9]{3},?[0-9]{3},?[0-9]{3}", report), "seconds"
