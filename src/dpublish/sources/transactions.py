"""Text files with one transaction a line and no header."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import polars as pl

from dpublish.declare.spelling import MARK
from dpublish.errors import InputError
from dpublish.sources.sources import Source

LINE_COLUMN = "items"
"""The one column of a file with a transaction a line."""

_CHUNK = 1 << 25


class TransactionLines(Source):
    """A text file with one transaction a line and no header, plain or gzipped; its one column is called 'items'."""

    texts_only = True

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        if not self._path.is_file():
            raise InputError(f"There is no file '{self._path}'.")
        try:
            with self._open() as file:
                file.read(1)
        except (OSError, EOFError):
            raise InputError(f"The file '{self._path}' cannot be read. Is it complete?") from None

    def columns(self) -> tuple[str, ...]:
        return (LINE_COLUMN,)

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        for chunk in self._chunks():
            yield pl.DataFrame({LINE_COLUMN: _lines(chunk)}).select(list(columns))

    def count_rows(self) -> int:
        return sum(chunk.count(b"\n") for chunk in self._chunks())

    def _open(self) -> IO[bytes]:
        return cast(IO[bytes], gzip.open(self._path, "rb")) if self._path.suffix == ".gz" else self._path.open("rb")

    def _chunks(self) -> Iterator[bytes]:
        """Pieces that end with a line."""
        held = b""
        with self._open() as file:
            while data := file.read(_CHUNK):
                whole, newline, held = (held + data).rpartition(b"\n")
                if newline:
                    yield whole + newline
        if held:
            yield held + b"\n"


def _lines(chunk: bytes) -> pl.Series:
    # a line ends with a newline and nothing else: splitlines would also cut at characters that items may hold
    lines = pl.Series(chunk.decode("utf-8", "replace").split("\n")[:-1], dtype=pl.String)
    return lines.str.strip_prefix(MARK)
