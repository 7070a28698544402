"""Rows of a query that DuckDB runs, in a file of its own or over other files; streamed as Arrow."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import polars as pl

from dpublish.errors import InputError
from dpublish.sources.arrow import ArrowSource, ArrowTable
from dpublish.sources.databases import (
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    EXACT_DIGITS,
    ROWS,
    SINGLE,
    TEXT,
    TIME,
    WHOLE,
    SqlRows,
    Template,
    may_fail,
)
from dpublish.sources.sources import SqlSource

PREFIX = "duckdb:"
_BATCH_ROWS = 1 << 17
_TYPES = {
    "BOOLEAN": BOOLEAN,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), WHOLE),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER"), WHOLE),
    "FLOAT": SINGLE,
    "DOUBLE": DOUBLE,
    "VARCHAR": TEXT,
    "DATE": DATE,
    "TIMESTAMP": TIME,
    **{f"DECIMAL({p},{s})": DECIMAL for p in range(1, EXACT_DIGITS + 1) for s in range(p + 1)},
}

_GUESSING = ("READ_CSV", "READ_JSON", "READ_NDJSON", "READ_XLSX")
"""Steps of a plan that make columns, and types of them, of what the rows happen to hold."""


class DuckRows(ArrowSource, SqlRows):
    """The query of a `SqlSource` whose URL is duckdb:///FILE, or duckdb:// for one in memory, whose
    query names files: select * from 'visits/*.parquet'."""

    engine = "sql"
    dialect = "duckdb"

    def __init__(self, source: SqlSource) -> None:
        self._held: Any = None
        self.counts = source.count_there is True
        self.told = may_fail(source.query)
        try:
            import duckdb
        except ImportError:
            raise InputError("DuckDB is not installed: install dpublish[duckdb].") from None
        self._query = source.query.strip().rstrip(";").rstrip()
        file = source.url.removeprefix(PREFIX).removeprefix("//").removeprefix("/")
        kind, guesses = "", False
        try:
            self._open: Any = duckdb.connect(file or ":memory:", read_only=bool(file))
            self._open.execute("SET enable_progress_bar = false")  # notebooks have it on
            # one statement that gives rows: anything else cannot stand in parentheses
            none = self._open.sql(f"SELECT * FROM (\n{self._query}\n) LIMIT 0")
            super().__init__(none.to_arrow_table().schema)
            kinds = zip(none.columns, map(str, none.types), strict=True)
            self.types = {name: _TYPES[kind] for name, kind in kinds if kind in _TYPES}
            plan = self._open.execute(f"EXPLAIN (FORMAT json) SELECT * FROM (\n{self._query}\n)")
            guesses = any(_guesses(json.loads(text)) for _, text in plan.fetchall())
        except duckdb.Error as error:  # whose words may quote what it read
            kind = type(error).__name__
        if kind:
            raise InputError(
                f"DuckDB refused the file or the query ({kind}). The query must be one SELECT; try "
                "it as SELECT * FROM (query) LIMIT 0 in its own shell."
            )
        if guesses:
            raise InputError(
                "DuckDB guesses the columns of a CSV or JSON file, and their types, from its rows, "
                "so that one row could change how all others are read. Give the path of the file "
                "itself, or keep the rows as Parquet or in a table with declared types."
            )

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """One transaction. Files that the query names are not part of it."""
        self._held = self._open.cursor()
        self._held.begin()
        try:
            yield
        finally:
            with suppress(Exception):
                self._held.close()
            self._held = None

    def _cursor(self) -> Any:
        return self._open.cursor() if self._held is None else self._held

    def _record_batches(self, places: Sequence[int]) -> Iterator[Any]:
        quoted = ", ".join('"' + self._names[i].replace('"', '""') + '"' for i in places)
        chosen = self._cursor().sql(f"SELECT {quoted} FROM (\n{self._query}\n)")
        yield from chosen.to_arrow_reader(_BATCH_ROWS)

    def selected(self, query: Template, cells: Collection[str]) -> Iterator[pl.DataFrame]:
        table = self._cursor().sql(query(f"(\n{self._query}\n) AS {ROWS}")).to_arrow_table()
        yield from ArrowTable(table).batches(table.column_names)

    def count_rows(self) -> int:
        counted = self._cursor().sql(f"SELECT count(*) FROM (\n{self._query}\n)")
        return int(counted.fetchall()[0][0])


def _guesses(steps: Any) -> bool:
    """Whether a plan reads a file whose columns are guessed."""
    return any(
        step["name"].strip().startswith(_GUESSING) or _guesses(step.get("children", ()))
        for step in steps
    )
