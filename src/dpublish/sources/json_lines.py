"""Rows of JSON lines: one object per line, plain or packed.

There is no header, and a key may be missing from any line, so the columns are those that are asked
for: the declared ones. A line is read by itself. Numbers are taken as they are written, as in a
text file; true, false and null mean what they say; lists are lists where lists are wanted, and
like objects nothing elsewhere. Of a line that holds no object, or more than `LONGEST_ROW` bytes,
nothing can be read, and blank lines are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from dpublish.declare.source_format import SourceFormat
from dpublish.declare.spelling import MARK
from dpublish.errors import InputError, SchemaError, refuse
from dpublish.sources.files import open_packed, opens
from dpublish.sources.sources import Source
from dpublish.sources.texts import LONGEST_ROW, UNREADABLE, pieces, plain_text

_BLOCK_BYTES = 1 << 24
_BLOCK_ROWS = 1 << 15


class JsonLines(Source):
    """`names` are the declared columns; without them, the keys that occur."""

    names_are_metadata = False

    def __init__(
        self, path: Path, *, packed: str, names: Sequence[str] | None, written: SourceFormat
    ) -> None:
        self._path, self._packed, self._written = path, packed, written
        self._point = written.decimal
        self._lists: str | None = None
        self._cut: Callable[[str], list[str]] | None = None
        refuse(
            InputError,
            (
                not opens(partial(open_packed, path, packed)),
                f"The file '{path}' cannot be read. Is it complete?",
            ),
            (
                written.encoding not in (None, "utf-8", "utf-8-sig"),
                f"The file '{path}' is JSON, which is UTF-8: leave encoding out.",
            ),
        )
        self._names = tuple(self._keys() if names is None else dict.fromkeys(names))

    def require(self, names: Any, *, schema_name: str) -> None:
        """Any name may be a key: which ones are, only the rows say."""
        if "" in names:
            raise SchemaError(f"Schema '{schema_name}' declares a column without a name.")

    def repeats(self, name: str) -> bool:
        return False

    def cutting(self, column: str, cut: Callable[[str], list[str]]) -> Source:
        other = JsonLines(
            self._path, packed=self._packed, names=(*self._names, column), written=self._written
        )
        other._lists, other._cut = column, cut
        return other

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        for block in self._blocks():
            yield from pieces(pl.DataFrame([self._column(block, name) for name in columns]))

    def _column(self, block: Sequence[dict[str, Any] | None], name: str) -> pl.Series:
        cells = [UNREADABLE if row is None else row.get(name) for row in block]
        if name == self._lists:
            return pl.Series(name, [self._items(cell) for cell in cells], dtype=pl.List(pl.String))
        return pl.Series(name, [self._text(cell) for cell in cells], dtype=pl.String)

    def _items(self, cell: Any) -> list[str | None]:
        if isinstance(cell, list):
            return [self._text(item) for item in cell]
        text = self._text(cell)
        cut = self._cut if type(cell) is str else None
        return [] if text is None else [*cut(text)] if cut is not None else [text]

    def _text(self, cell: Any) -> str | None:
        if isinstance(cell, _Number) and self._point != ".":
            cell = cell.replace(".", self._point)
        if isinstance(cell, str):
            return plain_text(str(cell))
        if isinstance(cell, bool):
            return "true" if cell else "false"
        return None

    def lists(self) -> list[str]:
        return self._keys(lambda value: isinstance(value, list))

    def count_rows(self) -> int:
        return sum(len(block) for block in self._blocks())

    def _keys(self, wanted: Callable[[Any], bool] = lambda _: True) -> list[str]:
        """The keys of which some value is wanted, in the order in which they come."""
        rows = (row or {} for block in self._blocks() for row in block)
        return list(dict.fromkeys(k for row in rows for k, value in row.items() if wanted(value)))

    def _blocks(self) -> Iterator[list[dict[str, Any] | None]]:
        rows: list[dict[str, Any] | None] = []
        size = 0
        with open_packed(self._path, self._packed) as file:
            while line := file.readline(LONGEST_ROW + 2):
                long = len(line.rstrip(b"\r\n")) > LONGEST_ROW
                rest = line
                while rest and not rest.endswith(b"\n"):
                    rest = file.readline(_BLOCK_BYTES)
                if not long and not line.strip():
                    continue
                rows.append(None if long else _row(line))
                size += min(len(line), LONGEST_ROW)
                if len(rows) >= _BLOCK_ROWS or size > _BLOCK_BYTES:
                    yield rows
                    rows, size = [], 0
        if rows:
            yield rows


class _Number(str):
    """A number as it is written."""


_DECODER = json.JSONDecoder(
    parse_float=_Number, parse_int=_Number, parse_constant=_Number, strict=False
)


def _row(line: bytes) -> dict[str, Any] | None:
    """The object of a line, None where there is none."""
    try:
        found = _DECODER.decode(line.decode("utf-8", "replace").removeprefix(MARK).strip())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
