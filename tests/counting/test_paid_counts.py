"""Rows in a database or file, and the budget: nothing is counted before it is paid for, what
changes meanwhile ends the release, and a query that may fail on a row is warned of."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dpublish as dp
from dpublish.counting.engines.local import Local
from dpublish.errors import PrivateSideError
from dpublish.ledger import crashpoints, open_ledger
from dpublish.sources import databases
from dpublish.sources.duck import DuckRows

SqlSource = partial(databases.SqlSource, count_there=True)
SCHEMA = """
[dataset]
name = "d"
neighbours = "add-remove-one"
[columns.n]
kind = "integer"
lower = 0
upper = 10
bins = 11
"""


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_rows_that_come_to_sqlite_after_the_units_were_counted(tmp_path: Path, mode: str) -> None:
    """What a row moves may follow from the number of units: pairs of rows do. A log keeps writers
    apart; without one they are let in, and end the release."""
    with closing(sqlite3.connect(tmp_path / "t.db")) as base:
        base.execute(f"PRAGMA journal_mode = {mode}")
        base.execute("CREATE TABLE t (a TEXT, b TEXT, y TEXT)")
        base.executemany("INSERT INTO t VALUES (?, ?, ?)", ["000", "111", "010", "101"])
        base.commit()

        def more(reached: str) -> None:
            if reached == "gate:debited":
                base.executemany("INSERT INTO t VALUES (?, ?, ?)", ["000", "111"] * 30)
                base.commit()

        columns = "".join(
            f'[columns.{name}]\nkind = "categorical"\nlevels = ["0", "1"]\noutside = "drop"\n'
            for name in "aby"
        )
        curator = dp.Curator(
            SqlSource(f"sqlite:///{tmp_path / 't.db'}", "select * from t"),
            dp.Schema.from_toml(f'[dataset]\nname = "d"\ntarget = "y"\n{columns}'),
            ledger=tmp_path / "l.db",
            budget=dp.Budget(epsilon=9),
        )
        pairs = dp.ProjectedHistogram(score="discernibility", k=1, gamma="1/2")
        curator.publish(pairs, epsilon=1, seed=1)
        with crashpoints.armed(more):
            if mode == "wal":
                made = curator.publish(pairs, epsilon=1, seed=2)
                assert made.manifest["facts"]["k"] == 1
            else:
                with pytest.raises(PrivateSideError):
                    curator.publish(pairs, epsilon=1, seed=2)
        assert base.execute("SELECT count(*) FROM t").fetchone() == (64,)


def test_nothing_is_counted_before_it_is_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = dp.Schema.from_toml(SCHEMA)
    ledger = tmp_path / "l.db"
    debits: list[int] = []
    proper = DuckRows.selected

    def watched(self: Any, *asked: Any) -> Any:
        debits.append(sum(entry.kind == "debit" for entry in open_ledger(ledger).history()))
        return proper(self, *asked)

    monkeypatch.setattr(DuckRows, "selected", watched)
    curator = dp.Curator(
        SqlSource("duckdb://", "select 3 as n"), schema, ledger=ledger, budget=dp.Budget(epsilon=9)
    )
    curator.plan(dp.Histogram(columns=["n"]), epsilon=1)
    assert not debits
    curator.publish(dp.Histogram(columns=["n"]), epsilon=1, seed=1)
    assert debits == [1]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "folder"])
def test_files_that_change_while_they_are_counted_end_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    schema = dp.Schema.from_toml(SCHEMA)
    data = tmp_path / name
    file = data / "a.csv" if name == "folder" else data
    file.parent.mkdir(exist_ok=True)
    rows = pl.DataFrame({"n": [1, 2, 3]})

    def write(frame: pl.DataFrame) -> None:
        if file.suffix == ".csv":
            frame.write_csv(file)
        else:
            frame.write_parquet(file)

    write(rows)
    proper = Local.cells

    def later(self: Any, domain: Any) -> Any:
        found = proper(self, domain)
        write(rows[:2])
        return found

    curator = dp.Curator(data, schema, ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=9))
    curator.publish(dp.Histogram(columns=["n"]), epsilon=1, seed=1)
    monkeypatch.setattr(Local, "cells", later)
    with pytest.raises(PrivateSideError):
        curator.publish(dp.Histogram(columns=["n"]), epsilon=1, seed=2)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("select a, b as c from t where a > 1 and b in ('x', 'y')", None),
        ("select t.*, case when a = 1 then 'x' end as d from t join u on t.a = u.a", None),
        ("select 1 / a as a from t", "div"),
        ("select cast(b as integer) as b from t", "cast"),
        ("select * from t where sqrt(a) > 1", "sqrt"),
        ("select select", "something that could not be parsed"),
    ],
)
def test_a_query_that_may_fail_on_a_row_is_warned_of(query: str, named: str | None) -> None:
    told = databases.may_fail(query)
    assert bool(told) == (named is not None)
    assert named is None or named in told[0]


def test_the_plan_warns_of_such_a_query_before_anything_is_paid(tmp_path: Path) -> None:
    facts = dp.Schema.from_toml(SCHEMA.replace("columns.n", "columns.a"))
    for query, count in (("select 1 as a", 0), ("select 10 / 5 as a", 1)):
        source = SqlSource("duckdb://", query)
        curator = dp.Curator(
            source, facts, ledger=tmp_path / f"{count}.ledger", budget=dp.Budget(epsilon=1)
        )
        warned = [
            one for one in curator.plan(dp.Histogram(), epsilon=1).warnings if "computes" in one
        ]
        assert len(warned) == count
