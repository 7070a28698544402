"""A table through DuckDB is the table: the same codes, and refusals that quote no row."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pytest

from dpublish.counting.cells import coded_rows
from dpublish.declare.schema import Schema
from dpublish.errors import InputError
from dpublish.sources.sources import SqlSource, open_source

SCHEMA = Schema.from_toml(
    """
    [dataset]
    name = "duck"
    neighbours = "add-remove-one"
    unit = "who"
    max_rows_per_unit = 2
    [columns.a]
    kind = "categorical"
    levels = ["1", "x", "2.5"]
    missing = true
    [columns."b c"]
    kind = "real"
    lower = 0
    upper = 10
    bins = 5
    outside = "clip"
    [columns.day]
    kind = "date"
    lower = 2020-01-01
    upper = 2020-12-31
    bins = 12
    missing = true
    """
)
ROWS = pl.DataFrame(
    {
        "a": ["1", " 1", "1.0", "x", None, "", "2.5", "?"] * 3,
        "b c": [0.0, -0.0, 9.99, float("inf"), float("nan"), None, -5.0, 1e300] * 3,
        "day": pl.Series(["2020-01-15", None, "2020-06-15", "2019-01-01"] * 6).str.to_date(),
        "who": ["u1", "u2", None, "u1"] * 6,
    }
)


@pytest.mark.parametrize("in_memory", [True, False])
def test_rows_of_duckdb_are_the_rows(tmp_path: Path, in_memory: bool) -> None:
    ROWS.write_parquet(tmp_path / "t.parquet")
    url, query = "duckdb://", f"select * from '{tmp_path}/t.parquet'"
    if not in_memory:
        url = f"duckdb:///{tmp_path}/t.db"
        with duckdb.connect(f"{tmp_path}/t.db") as made:
            made.execute(f"create table t as {query}")
        query = "select * from t;"
    source = open_source(SqlSource(url, query))
    domain = SCHEMA.domain(["a", "b c", "day"])
    assert source.columns() == ("a", "b c", "day", "who")
    assert (source.count_rows(), source.count_units("who")) == (24, 2)
    found, expected = (
        sorted(
            zip(*(c.tolist() for c in coded_rows(some, SCHEMA, domain, key=bytes(16))), strict=True)
        )
        for some in (source, open_source(ROWS))
    )
    assert found == expected


def test_what_duckdb_says_is_not_repeated(tmp_path: Path) -> None:
    for query in ("select * from nothing", "drop table secret", "select 1; select 2"):
        with pytest.raises(InputError, match="DuckDB refused") as caught:
            open_source(SqlSource("duckdb://", query))
        assert "secret" not in str(caught.value)
    with pytest.raises(InputError, match="DuckDB refused"):
        open_source(SqlSource(f"duckdb:///{tmp_path}/missing.db", "select 1"))


def test_files_whose_columns_would_be_guessed_are_refused(tmp_path: Path) -> None:
    """A letter in one row makes texts of the numbers of all others: 1e3 is 1000 no more."""
    (tmp_path / "t.csv").write_text("code\n" + "1e3\n" * 9)
    (tmp_path / "t.json").write_text('{"code": 1e3}\n' * 9)
    pl.DataFrame({"code": [1000]}).write_parquet(tmp_path / "t.parquet")
    named, stored = f"'{tmp_path}/t.csv'", f"'{tmp_path}/t.parquet'"
    for query in (
        f"select * from {named}",
        f"select * from read_csv({named}, all_varchar = true)",
        f"select * from '{tmp_path}/t.json'",
        f"select * from {stored} where code in (select code from {named})",
    ):
        with pytest.raises(InputError, match="guesses"):
            open_source(SqlSource("duckdb://", query))
    open_source(SqlSource("duckdb://", f"select code as READ_CSV from {stored}"))
