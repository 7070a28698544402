"""No row ends a count, whatever its cells hold, and whatever format that was tried Spark reads."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.counting.test_engines import assert_equal
from tests.counting.test_sql import AXES, KEEPING, schema_of
from tests.same_release import TABLES, people, published, schema_of as people_schema

import dpublish as dp
from dpublish.counting.compute import compute
from dpublish.counting.engines.spark import Spark
from dpublish.declare.statistic import CodedRows, ContingencyTables, Statistic
from dpublish.errors import InputError, SchemaError
from dpublish.sources.sources import open_source
from dpublish.sources.spark import SparkSource, SparkTable, open_spark
from dpublish.sources.texts import LONGEST_TEXT

KEY = bytes(16)
MOMENTS = [0, 1, -1, 2**62, -(2**62), 253_402_300_799_999_999, -62_135_596_800_000_001]
LONG = ["x" * LONGEST_TEXT, "x" * (LONGEST_TEXT + 1), " " * 3_000_000 + "x", "9" * 5_000]
LONG += ["é" * (LONGEST_TEXT // 2), "é" * (LONGEST_TEXT // 2 + 1)]
ODD = ["x", "1", "\0", "\ufffd", "1e999999", "2020-02-30", "99999-01-01", None]
HOSTILE: dict[str, pl.Series] = {
    "texts": pl.Series([*LONG, *ODD]),
    "fine decimals": pl.Series(
        [Decimal("0." + "9" * 38), Decimal("-0." + "0" * 37 + "1"), Decimal(0), None],
        dtype=pl.Decimal(38, 38),
    ),
    "coarse decimals": pl.Series(
        [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(10), Decimal(1), None],
        dtype=pl.Decimal(38, 0),
    ),
    "clocks": pl.Series([*MOMENTS, None], dtype=pl.Int64).cast(pl.Datetime("us")),
    "moments": pl.Series([*MOMENTS, None], dtype=pl.Int64).cast(pl.Datetime("us", "UTC")),
    "days": pl.Series([2**31 - 1, -(2**31), 0, None], dtype=pl.Int32).cast(pl.Date),
    "reals": pl.Series([float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1e308, None]),
    "bytes": pl.Series([b"\xff\xfe", b"x", b"", None]),
    "lists": pl.Series([["x"], [], None, ["1", None]]),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_cell_ends_a_count(session: Any, kind: str) -> None:
    cells = HOSTILE[kind]
    names = list(AXES)
    frame = pl.DataFrame(dict.fromkeys(names, cells))
    schema = schema_of({name: f"{axis}\n{KEEPING}" for name, axis in AXES.items()})
    source = SparkTable(session.createDataFrame(frame.to_arrow()).repartition(2))
    asked: Statistic = CodedRows(schema.domain(names))
    assert_equal(
        asked,
        Spark(source, schema, KEY).answer(asked),
        compute(asked, open_source(frame), schema, key=KEY),
    )


def test_a_unit_may_have_any_name(session: Any) -> None:
    who = ["a", "a" * 2_000_000, "a" * 2_000_000, None, "", "\0", "a"]
    frame = pl.DataFrame({"flag": [True] * 7, "who": who})
    schema = schema_of({"flag": AXES["flag"]}, 'unit = "who"\nmax_rows_per_unit = 1')
    asked = ContingencyTables(schema.domain(["flag"]), ((0,),))
    source = SparkTable(session.createDataFrame(frame.to_arrow()).repartition(2))
    assert_equal(
        asked,
        Spark(source, schema, KEY).answer(asked),
        compute(asked, open_source(frame), schema, key=KEY),
    )


@pytest.mark.parametrize(
    "sql",
    [
        "named_struct('a', 1)",
        "map('a', 1)",
        "parse_json('1')",
        "interval 1 day",
        "interval 1 month",
    ],
)
def test_types_that_hold_no_cells_are_refused_before_payment(
    session: Any, tmp_path: Path, sql: str
) -> None:
    data = session.sql(f"select {sql} as age, 'north' as place, true as ill")
    with pytest.raises((SchemaError, InputError)):
        published(
            data, people_schema("add-remove-one", False), TABLES["histogram"](), tmp_path / "a"
        )
    assert not (tmp_path / "a" / "l.db.d").exists()


CLOCKS = {
    "arrival": 'kind = "timestamp"\nlower = 2020-01-01\nupper = 2020-12-31\nbins = "month"',
    "late": 'kind = "timestamp"\nlower = 2020-03-07T12:00:00\nupper = 2020-03-09\nbins = "hour"',
    "hour": 'kind = "time"\nbins = "hour"',
}
# around both changes of New York's clocks, the ends of a year there and in UTC, and of all years
READ = [1_583_650_799, 1_583_650_800, 1_604_206_800, 1_604_210_400, 1_577_854_799, 1_577_854_800]
READ += [1_577_836_799, 1_577_836_800, 1_609_459_200, -1, -3_000_000_000]
TICKS = [*(at * 1_000_000 + 999_999 for at in READ), *MOMENTS, None]
SPELLED = ["2020-06-15 08:30", "2020-03-08T02:30:59.9", "2020-06-15T08:30:00+02:00", "2020-06-15"]
SPELLED += [" 2020-06-15 23:59:60 ", "2020-06-15T08:30Z", "8:30", "08:30:15,25", "07:08+02:00"]
SPELLED += ["24:00", "2020-06-15 08:61", "2020-02-30 08:00", "8 pm", "1592209800", "", "x", None]
ZONE = "America/New_York"


@pytest.mark.parametrize("stored", ["timestamp", "timestamp_ntz", "string"])
def test_clocks_are_read_as_here(session: Any, stored: str) -> None:
    """Moments by the clock of the session, everything else as it is written; a cell that says no
    time is missing, and no other cell is."""
    session = session.newSession()
    session.conf.set("spark.sql.session.timeZone", ZONE)
    ticks = pl.Series("c", TICKS, dtype=pl.Int64)
    cells, sql = {
        "timestamp": (ticks.cast(pl.Datetime("us", ZONE)), "timestamp_micros(c)"),
        "timestamp_ntz": (
            ticks.cast(pl.Datetime("us")),
            "timestampadd(microsecond, c, timestamp_ntz'1970-01-01')",
        ),
        "string": (pl.Series("c", SPELLED), "c"),
    }[stored]
    given = cells if stored == "string" else ticks
    data = session.createDataFrame(given.to_frame().to_arrow()).repartition(2)
    data = data.selectExpr([f"{sql} AS {name}" for name in CLOCKS])
    assert {kind for _, kind in data.dtypes} == {stored}
    frame = pl.DataFrame(dict.fromkeys(CLOCKS, cells))
    schema = schema_of({name: f"{axis}\n{KEEPING}" for name, axis in CLOCKS.items()})
    source = SparkTable(data)
    source.require(CLOCKS, schema_name="clocks")
    asked: Statistic = CodedRows(schema.domain(list(CLOCKS)))
    here = compute(asked, open_source(frame), schema, key=KEY)
    assert_equal(asked, Spark(source, schema, KEY).answer(asked), here)
    assert isinstance(here, list)
    missing = 25  # after 24 hours and what lies outside
    assert here[2].tolist().count(missing) == (8 if stored == "string" else 1)


@pytest.mark.parametrize("zone", ["+05:30", "PST", "Z"])
def test_a_clock_that_is_not_known_is_refused_before_payment(
    session: Any, tmp_path: Path, zone: str
) -> None:
    session = session.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    data = session.sql("select now() as hour")
    schema = (
        f'[dataset]\nname = "a"\nneighbours = "add-remove-one"\n[columns.hour]\n{CLOCKS["hour"]}\n'
    )
    with pytest.raises(InputError, match=r"session\.timeZone = .* is no zone.*Nothing was spent"):
        published(data, schema, dp.Histogram(columns=["hour"]), tmp_path / "a")
    assert not (tmp_path / "a" / "l.db.d").exists()


def test_paths_of_text_files_are_refused(session: Any, tmp_path: Path) -> None:
    for name in ("a.csv", "a.json", "a.csv.gz", "folder/*.JSONL"):
        with pytest.raises(InputError, match=r"readers of text files.*Nothing was spent"):
            open_spark(SparkSource(f"{tmp_path}/{name}", "local[2]"))
    people(20).select("age").write_csv(tmp_path / "a.csv")
    told = SparkTable(session.read.csv(str(tmp_path / "a.csv"), header=True)).shown()
    assert any("text files" in line for line in told)


def test_orc_is_published_like_a_frame(session: Any, tmp_path: Path) -> None:
    frame = people()
    path = tmp_path / "visits.orc"
    session.createDataFrame(frame.to_arrow()).repartition(3).write.orc(str(path))
    schema = people_schema("add-remove-one", True)
    here = published(frame, schema, TABLES["joined-histograms"](), tmp_path / "here")
    source = SparkSource(str(path), "local[2]")
    assert not open_spark(source).shown()
    there = published(source, schema, TABLES["joined-histograms"](), tmp_path / "there")
    assert there == here


def test_a_database_through_jdbc_is_published_like_a_frame(session: Any, tmp_path: Path) -> None:
    """Derby, whose driver comes with Spark."""
    session._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "log"))
    frame = people().drop("items")
    url = "jdbc:derby:memory:visits;create=true"
    session.createDataFrame(frame.to_arrow()).repartition(1).write.jdbc(url, "visits")
    data = session.read.jdbc(url, "visits")
    schema = people_schema("add-remove-one", True)
    here = published(frame, schema, TABLES["histogram"](), tmp_path / "here")
    assert published(data, schema, TABLES["histogram"](), tmp_path / "there") == here
    (told,) = SparkTable(data).shown()
    assert "a change between two passes is not seen" in told


def test_a_plan_reports_what_a_session_shows(session: Any) -> None:
    class Conf:
        def get(self, name: str, usual: str) -> str:
            return "TRUE" if name.startswith("spark.eventLog") else usual

    data = session.createDataFrame(people(20).to_arrow())
    frame = type(
        "Frame",
        (),
        {"inputFiles": data.inputFiles, "sparkSession": type("S", (), {"conf": Conf()})},
    )
    told = SparkTable(frame()).shown()
    assert [line.split(" is on ")[0] for line in told[1:]] == [
        "Spark's web page",
        "Spark's event log",
    ]
