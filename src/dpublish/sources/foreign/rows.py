"""Workbooks and files of statistics programs as sources of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl

from dpublish.declare.source_format import SourceFormat
from dpublish.errors import InputError
from dpublish.sources.files import WORKBOOKS
from dpublish.sources.foreign.child import batches_of, head_of
from dpublish.sources.sources import Source
from dpublish.sources.texts import pieces

_KINDS: Mapping[str, pl.DataType] = {
    "text": pl.String(),
    "doubles": pl.Float64(),
    "singles": pl.Float32(),
    "wholes": pl.Int64(),
    "days": pl.Date(),
    "times": pl.Time(),
    "stamps": pl.Datetime("ms"),
}


def open_foreign(path: Path, written: SourceFormat, kinds: Mapping[str, str]) -> Source:
    """A workbook or a file of SPSS, Stata or SAS. `kinds` are those of declared columns."""
    if path.suffix.lower() in WORKBOOKS:
        return Workbook(path, written, kinds)
    return Statistical(path, written)


def _needs(library: str, path: Path) -> None:
    if find_spec(library) is None:
        raise InputError(
            f"Reading '{path}' needs the package {library}: pip install 'dpublish[files]'."
        )


class _Foreign(Source):
    def __init__(self, path: Path, asked: dict[str, Any]) -> None:
        self._asked = asked | {"path": str(path)}
        self._head = head_of(self._asked)
        self._names = tuple(str(name) for name in self._head["names"])

    def _record_batches(self, columns: Sequence[str]) -> Iterator[Any]:
        return batches_of(self._asked | {"places": [self._names.index(name) for name in columns]})

    def count_rows(self) -> int:
        return sum(batch.num_rows for batch in self._record_batches(self._names[:1]))


class Workbook(_Foreign):
    """A sheet. What [source] says about how cells are written holds for texts alone: numbers and
    dates are not written in a workbook, they are there."""

    names_are_metadata = False  # the first row may be somebody's
    reads_format = True

    def __init__(self, path: Path, written: SourceFormat, kinds: Mapping[str, str]) -> None:
        _needs("python_calamine", path)
        super().__init__(path, {"reader": "workbook", "sheet": written.sheet})
        self._written, self._kinds = written, kinds

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        for batch in self._record_batches(columns):
            found = []
            for place, name in enumerate(columns):
                native, texts = (
                    pl.Series(pl.from_arrow(batch.column(2 * place + i))) for i in range(2)
                )
                if self._written.about_cells:
                    texts = self._written.rewritten(texts, self._kinds.get(name))
                    native = self._written.rewritten(native, None)
                found.append(pl.select(pl.coalesce(native, texts)).to_series().alias(name))
            yield from pieces(pl.DataFrame(found))


class Statistical(_Foreign):
    """A file that declares the type of each column before its rows."""

    def __init__(self, path: Path, written: SourceFormat) -> None:
        _needs("pyreadstat", path)
        super().__init__(path, {"reader": "statistical", "encoding": written.encoding})

    def kind(self, name: str) -> pl.DataType | str | None:
        return _KINDS[self._head["kinds"][self._names.index(name)]]

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        for batch in self._record_batches(columns):
            found = [
                pl.Series(pl.from_arrow(batch.column(place))).alias(name)
                for place, name in enumerate(columns)
            ]
            yield from pieces(pl.DataFrame(found))
