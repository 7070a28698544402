"""Where rows come from: files, frames and databases behind one small interface.

Opening a source and asking for its column names reads no row. Everything that can be wrong with
what the user named (a missing file, an unknown format, an absent column) is said then, before
anything is spent. Reading rows never prints, logs or warns; what it raises is for the gate to
replace by a text without content.
"""

from __future__ import annotations

import abc
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Flags
from dpublish.declare.encode import EXACT_WHOLE, CodeArray, EncodedBatch, Encoder
from dpublish.declare.schema import Schema
from dpublish.declare.source_format import SourceFormat
from dpublish.declare.statistic import Private
from dpublish.errors import InputError, SchemaError, did_you_mean
from dpublish.sources.files import (
    JSON_LINES,
    PACKED,
    STATISTICAL,
    WORKBOOKS,
    Stamp,
    existing_file,
    open_plain,
    opens,
    stamp_of,
    text_lines,
)
from dpublish.sources.objects import list_from_object, rounded_wholes, series_from_objects
from dpublish.sources.texts import pieces
from dpublish.sources.units import join_units, unit_values

__all__ = ["Source", "SqlSource", "open_source"]

_BATCH_ROWS = 1 << 18  # larger frames come in several pieces, and joining those costs a copy
_OBJECT_ROWS = 1 << 17
_DELIMITED = {".csv": ",", ".tsv": "\t"}
_COLUMNAR = (".parquet", ".arrow", ".feather", ".ipc")
LINE_COLUMN = "items"
Cut = Callable[[str], list[str]]
"""The one column of a file with a transaction per line."""

_LINES_BYTES = 1 << 25
_LINE_COST = 64  # of an empty line, in bytes
_LINES = (".txt", ".dat", ".basket")
_TEXTS = (*_DELIMITED, *_LINES, *JSON_LINES)
_WHOLE = (*_COLUMNAR, *WORKBOOKS, *STATISTICAL)


@dataclass(frozen=True)
class SqlSource:
    """The rows that `query` selects in the database at `url` (an SQLAlchemy URL such as
    postgresql://host/name). `count_there`: whether the database is to count by itself where that
    gives the same answer; None leaves it to PostgreSQL, and not to DuckDB, which runs in this
    process.

    >>> SqlSource("sqlite:///visits.db", "select age from visits")  # hides the URL
    SqlSource(query='select age from visits', count_there=None)
    """

    url: str = field(repr=False)  # may hold a password
    query: str
    count_there: bool | None = None


class Source(Private, abc.ABC):
    """Rows that can be read once or more, in batches of bounded size."""

    names_are_metadata = True
    """Whether column names are kept apart from rows, so that quoting one cannot quote a row."""

    texts_only = False
    """Whether every cell is a text, so that a list can only be written as a text that is cut."""

    reads_format = False
    """Whether the source itself reads cells as [source] says."""

    engine = "local"
    """Which engine of `counting/engines` counts the rows."""

    stamps: tuple[Stamp, ...] = ()
    """The files that hold the rows, as they were before they were opened."""

    length_is_stored = False
    """Whether the number of rows is known without reading any."""

    _names: tuple[str, ...] = ()

    def columns(self) -> tuple[str, ...]:
        """Names only."""
        return self._names

    @abc.abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The rows, with exactly `columns`."""

    def coded(
        self, encoder: Encoder, unit: str | None = None
    ) -> Iterator[tuple[EncodedBatch, pl.Series | None]]:
        """The rows in the coding of `encoder`, and beside them the column `unit`, if one is asked
        for."""
        names = encoder.domain.names
        extra = [unit] if unit is not None and unit not in names else []
        for frame in self.batches([*names, *extra]):
            yield encoder.encode(frame), None if unit is None else frame.get_column(unit)

    @abc.abstractmethod
    def count_rows(self) -> int:
        """How many rows there are. Private, unless the number of units is public."""

    def rows_hint(self) -> int | None:
        """How many rows to make room for, when that is known without reading any. Private."""
        return self.count_rows() if self.length_is_stored else None

    def require(self, names: Iterable[str], *, schema_name: str) -> None:
        """Refuse columns that are not there. The first line of a text file may be a row, so only
        other sources give a hint."""
        for name in names:
            if (
                name not in self.columns()
            ):  # kept in no variable: a traceback would show it, and the first line may be a row
                raise SchemaError(
                    f"Schema '{schema_name}' declares column '{name}', but the data has none of "
                    f"that name."
                    f"{did_you_mean(name, self.columns()) if self.names_are_metadata else ''} "
                    f"Names must agree exactly. A text "
                    "file names its columns in its first line, with commas between them (.csv) or "
                    "tabs (.tsv), and is UTF-8."
                )
            if self.repeats(name):
                raise SchemaError(
                    f"Schema '{schema_name}' declares column '{name}', and the data has more than "
                    f"one of that name. Which one "
                    "is meant cannot be told: rename or remove the others."
                )
            unknown = self.kind(name)
            if isinstance(unknown, str):
                raise SchemaError(
                    f"Schema '{schema_name}' declares column '{name}', which the data holds as "
                    f"{unknown}. Cells of that type "
                    "cannot be read: store them as text, or as numbers, truths, dates or times of "
                    "at most 128 bits."
                )

    def kind(self, name: str) -> pl.DataType | str | None:
        """The type that a column has whatever its rows are; a text names one whose cells cannot be
        read. None: cells decide."""
        return None

    def repeats(self, name: str) -> bool:
        """Whether more than one column has this name."""
        return self.columns().count(name) > 1

    def cutting(self, column: str, cut: Callable[[str], list[str]]) -> Source:
        """The same rows, with `column` as lists where the library that holds it has no type for
        lists; `cut` cuts texts."""
        return self

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """All passes inside read the same rows, as far as the source can hold them."""
        yield

    def changed(self) -> bool:
        """Whether the rows are no longer those that were there when the source was opened."""
        return any(stamp_of(path) != stamp for path, stamp in self.stamps)

    told: tuple[str, ...] = ()

    def lists(self) -> list[str]:
        """Columns that hold lists of items, for drafts: some sources look at all rows."""
        kinds = {name: self.kind(name) for name in self.columns()}
        return [name for name, kind in kinds.items() if isinstance(kind, pl.List | pl.Array)]

    def shown(self) -> tuple[str, ...]:
        """What reading this source shows to others than the curator, in sentences for a plan."""
        return self.told

    def count_units(self, unit_column: str | None) -> int:
        """How many units there are: rows, or distinct values of the unit column. Asked only where
        that is public."""
        if unit_column is None:
            return self.count_rows()
        seen = [
            unit_values(batch.get_column(unit_column)).unique()
            for batch in self.batches([unit_column])
        ]
        return join_units(seen).drop_nulls().n_unique()


def open_source(data: object, schema: Schema | None = None) -> Source:
    """A source for a path, a polars, pandas, pyarrow or Spark table, a `SqlSource`, or a source.
    What the schema says about how cells are written holds for it."""
    written = None if schema is None else schema.source
    source = _opened(data, written or SourceFormat(), schema)
    if schema is None or written is None or not written.about_cells or source.reads_format:
        return source
    if source.engine == "spark":
        raise InputError(
            "[source] says how cells are written, which workers of a cluster do not read. Let the "
            "cluster hand over numbers, dates and nulls."
        )
    return Formatted(source, schema, written)


def _opened(data: object, written: SourceFormat, schema: Schema | None) -> Source:
    if isinstance(data, Source):
        return data
    if isinstance(data, SqlSource) and data.url.startswith("duckdb:"):
        from dpublish.sources.duck import DuckRows

        return DuckRows(data)
    if isinstance(data, SqlSource):
        from dpublish.sources.databases import Database

        return Database(data, written.zone)
    if type(data).__module__.startswith("pyspark.sql") and type(data).__name__ == "DataFrame":
        from dpublish.sources.spark import SparkTable

        return SparkTable(data)
    if type(data).__name__ == "SparkSource":
        from dpublish.sources.spark import SparkSource, open_spark

        if isinstance(data, SparkSource):
            return open_spark(data)
    if isinstance(data, str | Path):
        return _open_file(Path(data), written, schema)
    if isinstance(data, pl.DataFrame):
        return _Frame(data)
    if isinstance(data, pl.LazyFrame):
        return _Lazy(data)
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if library == "pandas" and kind == "DataFrame":
        return _Pandas(data, zone=written.zone)
    if library == "pyarrow" and kind in ("Table", "RecordBatch"):
        from dpublish.sources.arrow import ArrowTable

        return ArrowTable(data)
    raise InputError(
        f"Rows cannot be read from a {library}.{kind}. Give the path of a CSV, JSON lines, "
        f"Parquet, Arrow, Excel, SPSS, Stata or SAS file, a polars or pandas "
        "DataFrame, a pyarrow Table, a Spark DataFrame, or SqlSource(url, query)."
    )


def _open_file(path: Path, written: SourceFormat, schema: Schema | None) -> Source:
    from dpublish.sources.folders import is_many, open_many

    if path != Path() and is_many(path):  # an empty text is no folder
        endings = [*_TEXTS, *(end + packed for end in _TEXTS for packed in PACKED), *_WHOLE]
        return open_many(path, lambda one: _open_one(one, written, schema), endings)
    return _open_one(path, written, schema)


def _open_one(path: Path, written: SourceFormat, schema: Schema | None) -> Source:
    stamp = stamp_of(path)
    source = _open_by_ending(path, written, schema)
    source.stamps = ((path, stamp),)
    return source


def _open_by_ending(path: Path, written: SourceFormat, schema: Schema | None) -> Source:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes.pop() if suffixes[-1:] and suffixes[-1] in PACKED else ""
    ending = "".join(suffixes[-1:])
    if ending not in _TEXTS and (packed or ending not in _WHOLE):
        known = ", ".join([*_TEXTS, *(f"{end}.gz" for end in _TEXTS), *_WHOLE])
        raise InputError(
            f"The format of '{path}' is not known by its ending '{ending}{packed}'. Known endings: "
            f"{known} (.zst as .gz)."
        )
    existing_file(path)
    if ending in _LINES:  # one transaction per line
        return TransactionLines(path)
    if ending in JSON_LINES:
        from dpublish.sources.json_lines import JsonLines

        return JsonLines(path, packed=packed, names=_declared(schema), written=written)
    if ending in _DELIMITED:
        from dpublish.sources.csv.delimited import DelimitedFile

        separator = written.delimiter or _DELIMITED[ending]
        return DelimitedFile(path, separator=separator, packed=packed, encoding=written.encoding)
    if ending in (*WORKBOOKS, *STATISTICAL):
        from dpublish.sources.foreign.rows import open_foreign

        columns = {} if schema is None else schema.columns
        return open_foreign(path, written, {name: c.kind for name, c in columns.items()})
    from dpublish.sources.arrow import open_columnar

    return open_columnar(path)


def _declared(schema: Schema | None) -> list[str] | None:
    """The columns that a schema speaks of, None where it speaks of none."""
    if schema is None or not (schema.columns or schema.items):
        return None
    unit = [schema.unit.column] if schema.unit.column else []
    return [*(schema.columns or [LINE_COLUMN]), *unit]


class Formatted(Source):
    """A source whose cells are written as the [source] table of a schema says."""

    def __init__(self, source: Source, schema: Schema, written: SourceFormat) -> None:
        self._source, self._schema, self._written, self.told = source, schema, written, source.told
        self._names = source.columns()
        self._kinds = {name: column.kind for name, column in schema.columns.items()}
        self.names_are_metadata, self.texts_only = source.names_are_metadata, source.texts_only

    @contextmanager
    def pinned(self) -> Iterator[None]:
        with self._source.pinned():
            yield

    def changed(self) -> bool:
        return self._source.changed()

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        for frame in self._source.batches(columns):
            yield pl.DataFrame([self._rewritten(name, frame.get_column(name)) for name in columns])

    def coded(
        self, encoder: Encoder, unit: str | None = None
    ) -> Iterator[tuple[EncodedBatch, pl.Series | None]]:
        for batch, units in self._source.coded(_Rewriting(encoder, self._rewritten), unit):
            if unit is None or units is None:
                yield batch, None
            else:
                yield batch, self._rewritten(unit, units)

    def cutting(self, column: str, cut: Callable[[str], list[str]]) -> Source:
        inner = self._source.cutting(column, cut)
        return self if inner is self._source else Formatted(inner, self._schema, self._written)

    def _rewritten(self, name: str, cells: pl.Series) -> pl.Series:
        return self._written.rewritten(cells, self._kinds.get(name))

    def count_rows(self) -> int:
        return self._source.count_rows()

    def rows_hint(self) -> int | None:
        return self._source.rows_hint()

    def require(self, names: Iterable[str], *, schema_name: str) -> None:
        self._source.require(names, schema_name=schema_name)

    def kind(self, name: str) -> pl.DataType | str | None:
        return self._source.kind(name)

    def lists(self) -> list[str]:
        return self._source.lists()

    def repeats(self, name: str) -> bool:
        return self._source.repeats(name)


class _Rewriting(Encoder):
    """Encodes cells as they are after rewriting."""

    def __init__(self, encoder: Encoder, rewrite: Callable[[str, pl.Series], pl.Series]) -> None:
        self.domain, self._encoder, self._rewrite = encoder.domain, encoder, rewrite

    def encode_column(self, place: int, series: pl.Series) -> tuple[CodeArray, Flags | None]:
        return self._encoder.encode_column(place, self._rewrite(self.domain.names[place], series))

    def batch(self, codes: list[CodeArray], keep: Flags | None) -> EncodedBatch:
        return self._encoder.batch(codes, keep)

    def encode(self, frame: pl.DataFrame) -> EncodedBatch:
        return self._encoder.encode(
            frame.with_columns(
                self._rewrite(name, frame.get_column(name)) for name in self.domain.names
            )
        )


class _Lazy(Source):
    """Anything that polars scans."""

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._frame = frame
        self._schema = frame.collect_schema()
        self._names = tuple(self._schema.names())

    def kind(self, name: str) -> pl.DataType | str | None:
        return self._schema[name]

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        chosen = self._frame.select(list(columns))
        for frame in chosen.collect_batches(
            chunk_size=_BATCH_ROWS, maintain_order=True, engine="streaming"
        ):
            yield from pieces(frame)

    def count_rows(self) -> int:
        return int(self._frame.select(pl.len()).collect(engine="streaming").item())


class _Frame(Source):
    length_is_stored = True

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame, self._names = frame, tuple(frame.columns)

    def kind(self, name: str) -> pl.DataType | str | None:
        return self._frame.schema[name]

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        chosen = self._frame.select(list(columns))
        for start in range(0, chosen.height, _BATCH_ROWS):
            yield from pieces(chosen.slice(start, _BATCH_ROWS))

    def count_rows(self) -> int:
        return self._frame.height


class _Pandas(Source):
    length_is_stored = True

    def __init__(
        self, frame: Any, cuts: dict[str, Cut] | None = None, zone: str | None = None
    ) -> None:
        self._frame, self._zone = frame, zone
        self._names = tuple(str(name) for name in frame.columns)
        self._cuts = cuts or {}

    def cutting(self, column: str, cut: Callable[[str], list[str]]) -> Source:
        lists = self._frame.iloc[:, self._names.index(column)].dtype.kind == "O"
        return _Pandas(self._frame, {column: cut}, self._zone) if lists else self

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        places = [self._names.index(name) for name in columns]
        for start in range(0, len(self._frame), _OBJECT_ROWS):
            part = self._frame.iloc[start : start + _OBJECT_ROWS]
            yield from pieces(
                pl.DataFrame(
                    [self._column(part, place).alias(self._names[place]) for place in places]
                )
            )

    def _column(self, part: Any, place: int) -> pl.Series:
        cut = self._cuts.get(self._names[place])
        if cut is None:
            return _from_pandas(part.iloc[:, place], self._zone)
        cells = rounded_wholes(part.iloc[:, place].tolist())
        return pl.Series([list_from_object(cell, cut) for cell in cells], dtype=pl.List(pl.String))

    def count_rows(self) -> int:
        return len(self._frame)


def _from_pandas(column: Any, zone: str | None = None) -> pl.Series:
    """A column whose cells mean the same whatever type pandas chose for it: that choice depends on
    all rows."""
    with warnings.catch_warnings(action="ignore"):  # libraries like to quote values in them
        if column.dtype.kind in "iufb" and not hasattr(column.dtype, "na_value"):
            return _from_numpy(column.to_numpy())
        if hasattr(column, "cat"):
            return _from_categories(column)
        if column.dtype != object:
            try:
                return pl.Series(pl.from_pandas(column.reset_index(drop=True)))
            except (KeyboardInterrupt, SystemExit):
                raise
            # a library's panic too: whatever it says about a column, cells can be read one by one
            except BaseException:
                pass
        return series_from_objects(rounded_wholes(column.tolist()), zone)


def _from_categories(column: Any) -> pl.Series:
    """The type of the categories is chosen by looking at all of them, so each is spelled by itself,
    as a cell of objects is."""
    names = series_from_objects(rounded_wholes(column.cat.categories.tolist()))
    places = pl.Series(column.cat.codes.to_numpy()).cast(pl.Int64)
    return names.gather(places.set(places < 0, None))


def _from_numpy(values: NDArray[Any]) -> pl.Series:
    """One missing cell makes doubles of whole numbers and singles, so what a double cannot hold is
    rounded without one too."""
    beyond = (
        values.dtype.kind in "iu"
        and values.size
        and max(int(values.max()), -int(values.min())) >= EXACT_WHOLE
    )
    doubles = beyond or values.dtype.kind == "f"
    return pl.Series(values.astype(np.float64) if doubles else values)


class TransactionLines(Source):
    """A text file with one transaction per line and no header, plain or gzipped; its one column is
    called 'items'."""

    texts_only = True
    _names = (LINE_COLUMN,)

    def __init__(self, path: str | Path) -> None:
        self._path = existing_file(path)
        if not opens(partial(open_plain, self._path)):  # raised where nothing holds what was read
            raise InputError(f"The file '{self._path}' cannot be read. Is it complete?")

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        lines, size = [], 0
        for line in text_lines(self._path):
            lines.append(line)
            size += len(line) + _LINE_COST
            if size > _LINES_BYTES:
                yield _lines_frame(lines, columns)
                lines, size = [], 0
        if lines:
            yield _lines_frame(lines, columns)

    def count_rows(self) -> int:
        return sum(1 for _ in text_lines(self._path))


def _lines_frame(lines: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame({LINE_COLUMN: pl.Series(lines, dtype=pl.String)}).select(list(columns))
