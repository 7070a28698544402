"""Counting in a database gives what reading its rows gives, cell by awkward cell."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from tests.pg import Postgres, shared_postgres

import dpublish as dp
from dpublish.counting.compute import place_of
from dpublish.counting.engines import sql
from dpublish.counting.engines.local import Local
from dpublish.counting.engines.sql import Sql, why_read
from dpublish.declare.domain import Domain
from dpublish.declare.grid import TreeShape, grid_of
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import (
    CellCounts,
    CodedRows,
    ContingencyTables,
    GridPoints,
    TableCounts,
)
from dpublish.errors import PrivateSideError
from dpublish.sources import databases
from dpublish.sources.sources import open_source

KEY = bytes(16)
SqlSource = partial(databases.SqlSource, count_there=True)

WHOLES = [0, 1, -1, 5, 9, 10, 11, 99, 127, -128, None]
LONG = [*WHOLES, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63), 32_767]
DOUBLES = ["0", "-0.0", "1", "1.0", "2.5", "9.999999999999998", "10", "10.000000000000002"]
DOUBLES += ["0.1", "0.30000000000000004", "1e300", "-1e300", "5e-324", "9007199254740993"]
DOUBLES += ["NaN", "Infinity", "-Infinity", "0.99999999999999989", "-0.5", "1e22"]
SINGLES = ["0", "-0.0", "0.1", "2.5", "16777217", "3.4e38", "1e-45", "NaN", "Infinity"]
SINGLES += ["-Infinity", "9.999999", "10", "0.3"]
DECIMALS = ["0", "0.1", "0.10", "1", "1.000", "9.999", "10", "-0.001", "99999999.999", "2.5"]
DAYS = ["2020-01-01", "2019-12-31", "2020-12-31", "2021-01-01", "0001-01-01", "9999-12-31"]
DAYS += ["infinity", "-infinity", "10000-01-01", "2020-02-29"]
TIMES = [*(f"{day} 23:59:59.999999" for day in DAYS[:6]), "infinity", "-infinity"]
TIMES += ["2020-06-15 00:00:00", "9999-12-31 00:00:00", "20000-01-01 12:00:00"]
TEXTS = ["1", "1.0", " 1", "1 ", "+1.00", "01", "1.", "1.5", "-0.0", "-0", "0", "x", "X", "x ", "y"]
TEXTS += [
    "",
    " ",
    "\t\n",
    "\u00a0x\u00a0",
    "\u2003x",
    "é",
    "e\u0301",
    "É",
    "?",
    "NA",
    "true",
    "True",
]
TEXTS += ["TRUE", "yes", "No", "t", "\ufffd", "it's", 'a"b', "a\\b", "a:b", "a%b", "%s", "x\ny"]
TEXTS += [
    "x" * 2_000,
    "日本",
    "1e0",
    "inf",
    "2.5",
    "2.50",
    "1.0\n",
    "ß",
    "ss",
]
CLOCKS = ["00:00:00", "07:59:59.999999", "08:00:00", "23:59:59.999999", "24:00:00"]
BY_TYPE: dict[str, list[Any]] = {
    "smallint": WHOLES,
    "integer": [*WHOLES, 2**31 - 1, -(2**31)],
    "bigint": LONG,
    "double precision": DOUBLES,
    "real": SINGLES,
    "decimal(11, 3)": DECIMALS,
    "boolean": [True, False],
    "date": DAYS,
    "timestamp": TIMES,
    "time": CLOCKS,
    "varchar": TEXTS,
}
AXES = {
    "narrow": 'kind = "integer"\nlower = 0\nupper = 10\nbins = 11',
    "wide": 'kind = "integer"\nlower = -100\nupper = 1000000\nbins = 7',
    "huge": 'kind = "integer"\nlower = -4000000000000000000\nupper = 4000000000000000000\nbins = 3',
    "unit": 'kind = "integer"\nlower = 0\nupper = 1\nbins = 2',
    "real": 'kind = "real"\nlower = 0.0\nupper = 10.0\nbins = 5',
    "thirds": 'kind = "real"\nlower = 0.1\nupper = 1.0\nbins = 3',
    "days": 'kind = "date"\nlower = 2020-01-01\nupper = 2020-12-31\nbins = 12',
    "all days": 'kind = "date"\nlower = 0001-01-01\nupper = 9999-12-31\nbins = 5',
    "seconds": 'kind = "timestamp"\nlower = 2020-01-01T12:00:00\nupper = 2020-12-31\nbins = 7',
    "months": 'kind = "timestamp"\nlower = 2019-12-31\nupper = 2020-12-31\nbins = "month"',
    "all seconds": 'kind = "timestamp"\nlower = 0001-01-01\nupper = 9999-12-31T23:59:59\nbins = 5',
    "clock": 'kind = "time"\nbins = "hour"',
    "labels": 'kind = "categorical"\nlevels = ["1", "x", "é", "it\'s", "a\\\\b", "a:b", "日本"]',
    "truth words": 'kind = "categorical"\nlevels = ["true", "FALSE", "-0.0x", "0", "2.5"]',
    "numbers": 'kind = "categorical"\nlevels = ["0", "-1", "9007199254740992", "0.1", "inf", "10"]',
    "unreadable": 'kind = "categorical"\nlevels = ["\ufffd", "x", "ss", "No"]',
    "zero fraction": 'kind = "categorical"\nlevels = ["1.0", "1", "x"]',
    "flag": 'kind = "boolean"',
}
KEEPING = 'missing = true\noutside = "other"'
RULES = ["", 'outside = "drop"', "missing = true"]
NUMBERS, DATES = ("narrow", "wide", "unit", "real", "thirds"), ("days", "all days")
LABELS = ("labels", "truth words", "numbers", "unreadable", "flag")
ALL_LABELS = {*LABELS, "zero fraction"}
COUNTED: dict[str, set[str]] = {
    **{kind: {*NUMBERS, "huge", *ALL_LABELS} for kind in ("smallint", "integer", "bigint")},
    "double precision": {*NUMBERS, *ALL_LABELS},
    **{kind: {*NUMBERS} for kind in ("real", "decimal(11, 3)")},
    "boolean": {*AXES},
    "date": {*DATES},
    "timestamp": {*DATES, "seconds", "months", "all seconds"},
    "time": set(),
    "varchar": {*LABELS},
}
"""Which axes a database counts in a column of which type; the others are read row by row."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with shared_postgres() as found:
        yield found


@pytest.fixture(params=["duckdb", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "duckdb":
        return "duckdb://"
    found: Postgres = request.getfixturevalue("postgres")
    return found.url()


def schema_of(columns: dict[str, str], extra: str = "") -> Schema:
    text = f'[dataset]\nname = "awkward"\nneighbours = "add-remove-one"\n{extra}\n'
    for name, facts in columns.items():
        text += f'[columns."{name}"]\n{facts}\n'
    return Schema.from_toml(text)


def cells_of(kind: str) -> str:
    """A query whose column c has the type and its awkward cells, some more often than others."""
    rows = []
    for place, cell in enumerate([*BY_TYPE[kind], None]):
        literal = "'" + str(cell).replace("'", "''") + "'"
        rows += ["(NULL)" if cell is None else f"({literal})"] * (1 + place % 4)
    return f"SELECT CAST(c AS {kind}) AS c FROM (VALUES {', '.join(rows)}) AS v(c)"


def renamed(query: str, axes: Sequence[str]) -> str:
    names = ", ".join(f'c AS "{name}"' for name in axes)
    return f"SELECT {names} FROM ({query}) AS cells"


def answers(source: Any, schema: Schema, asked: Any) -> tuple[Any, Any]:
    """What the database counts, and what is counted of its rows."""
    return tuple(
        plain(engine(source, schema, KEY).answer(asked))  # type: ignore[return-value]
        for engine in (Sql, Local)
    )


def plain(found: Any) -> Any:
    if isinstance(found, list):
        return sorted(zip(*(column.tolist() for column in found), strict=True))
    if isinstance(found, TableCounts):
        return {table: counts.tolist() for table, counts in found.tables.items()}
    return found.cells.tolist(), found.counts.tolist()


def every(domain: Domain) -> list[Any]:
    places = tuple(range(len(domain.axes)))
    groups = {place: np.arange(domain.shape[place]) // 2 for place in places[:1]}
    tables = tuple((place,) for place in places)
    pairs = tuple(itertools.permutations(places, 2))[:6]
    some = [ContingencyTables(domain, tables), ContingencyTables(domain, tables + pairs, groups)]
    return [*some, *([CellCounts(domain), CodedRows(domain)] if domain.size < 1 << 63 else [])]


@pytest.mark.parametrize("kind", BY_TYPE)
def test_awkward_cells_count_as_if_they_were_read(url: str, kind: str) -> None:
    if not (axes := sorted(COUNTED[kind])):
        return
    source: Any = open_source(SqlSource(url, renamed(cells_of(kind), axes)))
    with source.pinned():
        # a row that one axis drops is in no table, so those that drop are tried one by one
        whole = schema_of({name: AXES[name] + "\n" + KEEPING for name in axes})
        for asked in every(whole.domain(axes)):
            assert why_read(asked, source, whole) is None
            found, expected = answers(source, whole, asked)
            assert found == expected
        for name, rule in itertools.product(axes, RULES):
            facts = schema_of({name: f"{AXES[name]}\n{rule}"})
            found, expected = answers(source, facts, CellCounts(facts.domain([name])))
            assert found == expected, (name, rule)


@pytest.mark.parametrize("kind", BY_TYPE)
def test_what_cannot_be_said_is_read(url: str, kind: str) -> None:
    axes = sorted(AXES.keys() - COUNTED[kind])
    if not axes:
        return
    source: Any = open_source(SqlSource(url, renamed(cells_of(kind), axes)))
    for name in axes:
        facts = schema_of({name: AXES[name]})
        asked = CellCounts(facts.domain([name]))
        assert "column" in str(why_read(asked, source, facts))
        assert "counted here" in str(place_of(asked, source, facts))


def test_types_of_the_servers_own_are_read(postgres: Postgres) -> None:
    odd = ["numeric", "numeric(16, 2)", "timestamptz", "interval", "time", "jsonb", "uuid", "bytea"]
    odd += ["numeric(5, 400)", "numeric(5, -400)"]  # a cell of these may be no double
    query = ", ".join(f'CAST(NULL AS {kind}) AS "{kind}"' for kind in [*odd, "text[]"])
    source: Any = open_source(SqlSource(postgres.url(), f"SELECT {query}"))
    assert source.types == {}
    duck: Any = open_source(
        SqlSource("duckdb://", "SELECT 1::hugeint a, 1::ubigint b, '1'::enum('1') c, now() d")
    )
    assert duck.types == {}


def test_padded_and_collated_texts(postgres: Postgres) -> None:
    name = postgres.fresh_database()
    with postgres.admin(name) as connection:
        connection.execute('CREATE TABLE t (padded char(5), plain text, posix text COLLATE "C")')
        for text in ("x", "X", " x", "é", "e", "x\t", "1.0", "ss", "ß", ""):
            connection.execute("INSERT INTO t VALUES (%s, %s, %s)", (text, text, text))
        connection.execute("CREATE DOMAIN short AS varchar(9)")
        connection.execute("ALTER TABLE t ADD COLUMN own short DEFAULT 'x '")
    columns = ["padded", "plain", "posix", "own"]
    facts = schema_of(dict.fromkeys(columns, AXES["labels"] + "\n" + KEEPING))
    source: Any = open_source(SqlSource(postgres.url(name), "select * from t"))
    assert set(source.types) == set(columns)
    for asked in every(facts.domain(columns)):
        assert why_read(asked, source, facts) is None
        found, expected = answers(source, facts, asked)
        assert found == expected
    with duckdb.connect() as _:
        made = "select c collate nocase.noaccent as c from (values ('x'), ('X'), ('é'), ('e')) v(c)"
        source = open_source(SqlSource("duckdb://", made))
        facts = schema_of({"c": AXES["labels"] + "\n" + KEEPING})
        found, expected = answers(source, facts, CellCounts(facts.domain(["c"])))
        assert found == expected


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_texts_of_other_encodings_are_read(postgres: Postgres, encoding: str) -> None:
    name = f"e_{encoding.lower()}"
    with postgres.admin() as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 "
            "LC_COLLATE 'C' LC_CTYPE 'C'".encode()
        )
    with postgres.admin(name) as connection:
        connection.execute("CREATE TABLE t (c text, n int)")
        connection.execute("SET client_encoding TO 'SQL_ASCII'")
        connection.execute(b"INSERT INTO t VALUES ('\xe9', 1), ('x', 2)")
    source: Any = open_source(SqlSource(postgres.url(name), "select * from t"))
    assert source.types == {"n": "whole"}
    facts = schema_of({"c": AXES["labels"] + "\n" + KEEPING})
    asked = CellCounts(facts.domain(["c"]))
    assert why_read(asked, source, facts) is not None
    found, expected = answers(source, facts, asked)
    assert found == expected


def test_texts_that_are_too_long_are_no_level(url: str) -> None:
    query = "select 'x' || repeat(' ', n) as c from (values (0), (1048575), (1048576)) as v(n)"
    source: Any = open_source(SqlSource(url, query))
    for axis in ("labels", "unreadable"):
        facts = schema_of({"c": f"{AXES[axis]}\n{KEEPING}"})
        found, expected = answers(source, facts, CellCounts(facts.domain(["c"])))
        assert found == expected
        assert found[1] == ([1, 2] if axis == "unreadable" else [2, 1])


def test_columns_may_have_any_name(url: str) -> None:
    names = ["t0", "c0", "v0", "w0", sql.COUNT, "n", "dpublish_rows", "coded", "prepared"]
    stored = ", ".join(f"{place} AS {name}" for place, name in enumerate(names[:-1]))
    source: Any = open_source(SqlSource(url, f"SELECT {stored}, 'x' AS prepared"))
    facts = schema_of(
        {name: AXES["labels" if name == "prepared" else "narrow"] for name in names[::-1]}
    )
    domain = facts.domain(names[::-1])
    for asked in every(domain):
        found, expected = answers(source, facts, asked)
        assert found == expected
    assert plain(Sql(source, facts, KEY).answer(CodedRows(domain)))[0][1:] == (
        7,
        6,
        *range(5, -1, -1),
    )
    for name in names[:-1]:
        shape = TreeShape.over([grid_of(facts.columns[name], schema_name="awkward")])
        found, expected = answers(source, facts, GridPoints(shape))
        assert found == expected


def test_who_counts_can_be_said(postgres: Postgres) -> None:
    facts = schema_of({"n": AXES["narrow"]})
    asked = CellCounts(facts.domain(["n"]))
    for url, usual in (("duckdb://", False), (postgres.url(), True)):
        for said, there in ((None, usual), (True, True), (False, False)):
            source: Any = open_source(databases.SqlSource(url, "select 3 as n", said))
            assert (why_read(asked, source, facts) is None) == there
            found, expected = answers(source, facts, asked)
            assert found == expected


def test_units_of_several_rows_are_read(url: str) -> None:
    query = "select * from (values (1, 'a'), (1, 'a'), (2, 'b'), (3, 'a')) as v(n, who)"
    source: Any = open_source(SqlSource(url, query))
    facts = schema_of({"n": AXES["narrow"]}, 'unit = "who"\nmax_rows_per_unit = 2')
    asked = CellCounts(facts.domain(["n"]))
    assert "keyed hash" in str(place_of(asked, source, facts))
    found, expected = answers(source, facts, asked)
    assert found == expected
    assert sum(found[1]) == 3


def test_positions_of_whole_numbers_and_days(url: str) -> None:
    numbers = ", ".join(f"({n})" for n in [*range(-5, 40), 3, 3, 7, "NULL"])
    query = (
        "select n, cast('2020-01-01' as date) + cast(n as integer) as d "
        f"from (values {numbers}) as v(n)"
    )
    source: Any = open_source(SqlSource(url, query))
    for outside in ('outside = "clip"', 'outside = "drop"'):
        facts = schema_of(
            {
                "n": f'kind = "integer"\nlower = 0\nupper = 31\nmissing = true\n{outside}',
                "d": f'kind = "date"\nlower = 2020-01-01\nupper = 2020-01-16\n{outside}',
            }
        )
        for names in (["n"], ["d"], ["n", "d"]):
            grids = [grid_of(facts.columns[name], schema_name="awkward") for name in names]
            for absent in (False, True):
                asked = GridPoints(TreeShape.over(grids), absent=absent)
                assert why_read(asked, source, facts) is None
                found, expected = answers(source, facts, asked)
                assert found == expected


def made_up(seed: int) -> tuple[str, Schema]:
    """A table of columns of types, and a schema of axes, that vary with the seed."""
    rng = np.random.default_rng(seed)
    chosen: dict[str, str] = {}
    columns = []
    for number in range(int(rng.integers(1, 5))):
        kind = str(rng.choice([kind for kind in BY_TYPE if COUNTED[kind]]))
        name = f"{number}'\" %s:{kind}"
        axis = AXES[str(rng.choice(sorted(COUNTED[kind])))]
        chosen[name] = f"{axis}\n{rng.choice([*RULES, KEEPING, KEEPING])}"
        cells = [cell for cell in [*BY_TYPE[kind], None] if len(str(cell)) < 3_000]
        columns.append((name, kind, [cells[i] for i in rng.integers(0, len(cells), 60)]))
    rows = [
        "("
        + ", ".join("NULL" if c is None else "'" + str(c).replace("'", "''") + "'" for c in row)
        + ")"
        for row in zip(*(cells for _, _, cells in columns), strict=True)
    ]
    names = [name.replace('"', '""') for name, _, _ in columns]
    picked = ", ".join(
        f'CAST(c{i} AS {kind}) AS "{names[i]}"' for i, (_, kind, _) in enumerate(columns)
    )
    places = ", ".join(f"c{i}" for i in range(len(columns)))
    query = f"SELECT {picked} FROM (VALUES {', '.join(rows)}) AS v({places})"
    text = '[dataset]\nname = "made up"\nneighbours = "add-remove-one"\n'
    for name, facts in chosen.items():
        text += f"[columns.{json.dumps(name)}]\n{facts}\n"
    return query, Schema.from_toml(text)


def check_made_up(url: str, seed: int) -> None:
    query, facts = made_up(seed)
    source: Any = open_source(SqlSource(url, query))
    with source.pinned():
        for asked in every(facts.domain(list(facts.columns))):
            assert why_read(asked, source, facts) is None
            found, expected = answers(source, facts, asked)
            assert found == expected, seed


def test_made_up_tables(url: str) -> None:
    for seed in range(25):
        check_made_up(url, seed)


@pytest.mark.nightly
def test_a_thousand_made_up_tables(url: str) -> None:
    for seed in range(25, 1_000):
        check_made_up(url, seed)


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ("nan", "double precision"),
        ("upper edge", "double precision"),
        ("bytes", "varchar"),
        ("blanks", "varchar"),
        ("zero fraction", "varchar"),
        ("years", "timestamp"),
    ],
)
def test_each_rule_of_the_translation_is_needed(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, part: str, kind: str
) -> None:
    """A translation with one rule left out counts otherwise, and the tests above say so."""
    monkeypatch.setattr(sql._Query, "_sql", broken(part, sql._Query._sql))
    with pytest.raises(AssertionError):
        test_awkward_cells_count_as_if_they_were_read(postgres.url(), kind)


def broken(part: str, proper: Any) -> Any:
    wrong: dict[str, tuple[str, str]] = {
        "nan": ("'nan'", "'0.25'"),
        "upper edge": (r"> CAST\('10.0'", ">= CAST('10.0'"),
        "bytes": ("c3a9", "c389"),
        "blanks": ("20090a0d0b0cc2a0", "20"),
        "zero fraction": (r"'\.0'", "'!'"),
        "years": (r"greatest\(least", "greatest(greatest"),
    }

    def text(self: Any, expression: Any) -> str:
        before, after = wrong[part]
        return re.sub(before, after, proper(self, expression), flags=re.IGNORECASE)

    return text


def test_a_server_that_fails_says_a_constant_text(postgres: Postgres, tmp_path: Path) -> None:
    schema = tmp_path / "s.toml"
    schema.write_text(
        '[dataset]\nname = "d"\nneighbours = "add-remove-one"\n[columns.n]\n' + AXES["narrow"]
    )
    name = postgres.fresh_database()
    with postgres.admin(name) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS n")
    curator = dp.Curator(
        SqlSource(postgres.url(name), "select 1 / (n - 1) as n from t"),
        schema,
        ledger=tmp_path / "l.db",
        budget=dp.Budget(epsilon=9),
    )
    histogram = dp.Histogram(columns=["n"])
    assert "counted in the database" in " ".join(curator.plan(histogram, epsilon=1).sentences)
    with pytest.raises(PrivateSideError) as caught:
        curator.publish(histogram, epsilon=1)
    assert "zero" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_all_passes_see_one_snapshot(postgres: Postgres, tmp_path: Path) -> None:
    name = postgres.fresh_database()
    with postgres.admin(name) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS n")
        source: Any = open_source(SqlSource(postgres.url(name), "select n from t"))
        with source.pinned():
            connection.execute("INSERT INTO t VALUES (2)")
            assert source.count_rows() == 1
            assert [frame.height for frame in source.batches(["n"])] == [1]
        assert source.count_rows() == 2
    with duckdb.connect(str(tmp_path / "d.db")) as made:
        made.execute("create table t as select 1 as n")
    duck: Any = open_source(SqlSource(f"duckdb:///{tmp_path}/d.db", "select n from t"))
    with duck.pinned():
        assert duck.count_rows() == 1
        assert [frame.height for frame in duck.batches(["n"])] == [1]
