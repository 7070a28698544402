"""Text files with one transaction a line and no header."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from dpublish.errors import InputError
from dpublish.sources.files import existing_file, open_plain, text_lines
from dpublish.sources.sources import Source

LINE_COLUMN = "items"
"""The one column of a file with a transaction a line."""

_CHUNK = 1 << 25
_LINE_COST = 64  # of an empty line, in bytes


class TransactionLines(Source):
    """A text file with one transaction a line and no header, plain or gzipped; its one column is
    called 'items'."""

    texts_only = True

    def __init__(self, path: str | Path) -> None:
        self._path = existing_file(path)
        if not self._opens():  # raised where no handler holds what was read
            raise InputError(f"The file '{self._path}' cannot be read. Is it complete?")

    def columns(self) -> tuple[str, ...]:
        return (LINE_COLUMN,)

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        lines, size = [], 0
        for line in text_lines(self._path):
            lines.append(line)
            size += len(line) + _LINE_COST
            if size > _CHUNK:
                yield _frame(lines, columns)
                lines, size = [], 0
        if lines:
            yield _frame(lines, columns)

    def count_rows(self) -> int:
        return sum(1 for _ in text_lines(self._path))

    def _opens(self) -> bool:
        try:
            with open_plain(self._path) as file:
                file.read(1)
        except (OSError, EOFError, zlib.error):
            return False
        return True


def _frame(lines: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame({LINE_COLUMN: pl.Series(lines, dtype=pl.String)}).select(list(columns))
