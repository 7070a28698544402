"""Rows of a query that DuckDB runs, in a file of its own or over other files; streamed as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpublish.errors import InputError
from dpublish.sources.arrow import ArrowSource
from dpublish.sources.databases import SqlSource

PREFIX = "duckdb:"
_BATCH_ROWS = 1 << 17


class DuckRows(ArrowSource):
    """The query of a `SqlSource` whose URL is duckdb:///FILE, or duckdb:// for one in memory, whose
    query names files: select * from 'visits/*.parquet'."""

    def __init__(self, source: SqlSource) -> None:
        try:
            import duckdb
        except ImportError:
            raise InputError("DuckDB is not installed: install dpublish[duckdb].") from None
        self._query = source.query.strip().rstrip(";").rstrip()
        file = source.url.removeprefix(PREFIX).removeprefix("//").removeprefix("/")
        kind = ""
        try:
            self._open: Any = duckdb.connect(file or ":memory:", read_only=bool(file))
            # one statement that gives rows: anything else cannot stand in parentheses
            none = self._open.sql(f"SELECT * FROM (\n{self._query}\n) LIMIT 0")
            super().__init__(none.to_arrow_table().schema)
        except duckdb.Error as error:  # whose words may quote what it read
            kind = type(error).__name__
        if kind:
            raise InputError(
                f"DuckDB refused the file or the query ({kind}). The query must be one SELECT; try "
                "it as SELECT * FROM (query) LIMIT 0 in its own shell."
            )

    def _record_batches(self, places: Sequence[int]) -> Iterator[Any]:
        names = [self._names[place] for place in places]
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        chosen = self._open.cursor().sql(f"SELECT {quoted} FROM (\n{self._query}\n)")
        yield from chosen.to_arrow_reader(_BATCH_ROWS)

    def count_rows(self) -> int:
        counted = self._open.cursor().sql(f"SELECT count(*) FROM (\n{self._query}\n)")
        return int(counted.fetchall()[0][0])
