"""Tables in several files: a folder, or the files that a pattern such as data/*.parquet names.

Which files there are is found out when the table is opened, once, and by their names alone; all
passes of a release read those, one after the other, in the order of their names. All must have the
columns of the first one. Folders called name=value, as Hive and Spark write them, make a column of
texts. One file is read at a time, so memory does not follow their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import polars as pl

from dpublish.declare.encode import EncodedBatch, Encoder
from dpublish.errors import InputError
from dpublish.sources.sources import Source

MARKS = "*?["
_NOTHING = "__HIVE_DEFAULT_PARTITION__"


def is_many(path: Path) -> bool:
    """Whether a path names several files."""
    return path.is_dir() or (any(mark in str(path) for mark in MARKS) and not path.exists())


def open_many(path: Path, open_file: Callable[[Path], Source], endings: Sequence[str]) -> Source:
    """The table in these files. Reads what describes the rows of each, and none of them."""
    if path.is_dir():
        base, found = path, (one for one in path.rglob("*") if one.is_file())
    else:
        first = next(i for i, part in enumerate(path.parts) if any(mark in part for mark in MARKS))
        base = Path(*path.parts[:first])
        found = (one for one in base.glob(str(Path(*path.parts[first:]))) if one.is_file())
    # names that start with a dot or an underscore are notes of the program that wrote the files
    files = sorted(
        one
        for one in found
        if one.name.lower().endswith(tuple(endings))
        and not any(part.startswith((".", "_")) for part in one.relative_to(base).parts)
    )
    if not files:
        what = "is a folder without a file" if path.is_dir() else "is a pattern that names no file"
        raise InputError(f"'{path}' {what} with rows. Known endings: {', '.join(endings)}.")
    return Folder(
        [(open_file(one), _values(one.relative_to(base).parent)) for one in files], str(path)
    )


def _values(folder: Path) -> dict[str, str | None]:
    pairs = [part.partition("=") for part in folder.parts if "=" in part]
    return {name: None if value == _NOTHING else unquote(value) for name, _, value in pairs}


class Folder(Source):
    """Several sources with the same columns, and values that hold for all rows of one of them."""

    def __init__(self, parts: Sequence[tuple[Source, dict[str, str | None]]], name: str) -> None:
        self._parts = parts
        self.stamps = tuple(stamp for part, _ in parts for stamp in part.stamps)
        first, values = parts[0]
        self.names_are_metadata, self.texts_only = first.names_are_metadata, first.texts_only
        self.reads_format = all(part.reads_format for part, _ in parts)
        self._names = (*first.columns(), *(name for name in values if name not in first.columns()))
        same = all(
            set(part.columns()) == set(first.columns()) and set(fixed) == set(values)
            for part, fixed in parts
        )
        if not same:  # named by no name of a column: the first line of a text file may be a row
            raise InputError(f"The files of '{name}' do not all have the same columns.")
        self._fixed = set(values)

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        stored = [name for name in columns if name not in self._fixed]
        for part, fixed in self._parts:
            texts = [pl.lit(text, pl.String).alias(name) for name, text in fixed.items()]
            for frame in part.batches(stored or part.columns()[:1]):
                yield frame.with_columns(texts).select(columns)

    def coded(
        self, encoder: Encoder, unit: str | None = None
    ) -> Iterator[tuple[EncodedBatch, pl.Series | None]]:
        if self._fixed & {*encoder.domain.names, unit}:
            yield from super().coded(encoder, unit)
            return
        for part, _ in self._parts:
            yield from part.coded(encoder, unit)

    def kind(self, name: str) -> pl.DataType | str | None:
        if name in self._fixed:
            return None
        kinds = [part.kind(name) for part, _ in self._parts]
        return next((kind for kind in kinds if isinstance(kind, str)), kinds[0])

    def repeats(self, name: str) -> bool:
        return any(part.repeats(name) for part, _ in self._parts)

    def count_rows(self) -> int:
        return sum(part.count_rows() for part, _ in self._parts)

    def rows_hint(self) -> int | None:
        hints = [part.rows_hint() for part, _ in self._parts]
        known = [hint for hint in hints if hint is not None]
        return sum(known) if len(known) == len(hints) else None
