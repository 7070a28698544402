"""Rows of Arrow tables, Parquet files and Arrow files, streamed.

Texts are taken as bytes and decoded cell by cell (`texts`), because a reader that decodes for us
ends with the first bad one. Where a file or a table says each text once and then only which one a
row has, that is kept: such a column is coded once for each text, and is spelled out, where it has
to be, in pieces. So memory follows what is stored and not what it stands for.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from dpublish.arrays import Flags
from dpublish.declare.encode import CodeArray, EncodedBatch, Encoder
from dpublish.errors import InputError
from dpublish.quiet import quiet_native_code
from dpublish.sources.sources import Source
from dpublish.sources.texts import (
    LONGEST_ROW,
    UNREADABLE,
    Weights,
    decoded,
    list_bytes,
    stretches,
    text_bytes,
)

_BATCH_ROWS = 1 << 18
_FEW_ROWS = 1 << 4
_READ_BYTES = 1 << 24  # several copies of what is read at once exist for a moment
_MAGIC = b"ARROW1"
_SHARED = "DELTA_BYTE_ARRAY"


class ArrowSource(Source):
    """Record batches with one schema."""

    def __init__(self, schema: Any) -> None:
        self._names = tuple(str(name) for name in schema.names)
        self._types = tuple(schema.types)
        self._kinds = tuple(_kind(kind) for kind in self._types)

    def kind(self, name: str) -> pl.DataType | str | None:
        place = self._names.index(name)
        found = self._kinds[place]
        return str(self._types[place]) if found is None else found

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        for parts in self._columns(columns):
            for start, stop in stretches([part.weights() for part in parts], len(parts[0])):
                named = zip(columns, parts, strict=True)
                yield pl.DataFrame([part.spelled(start, stop).alias(name) for name, part in named])

    def coded(
        self, encoder: Encoder, unit: str | None = None
    ) -> Iterator[tuple[EncodedBatch, pl.Series | None]]:
        names = encoder.domain.names
        extra = [unit] if unit is not None and unit not in names else []
        for parts in self._columns([*names, *extra]):
            batch = encoder.joined(parts[i].coded(encoder, i) for i in range(len(names)))
            who = None if unit is None else parts[[*names, *extra].index(unit)]
            yield batch, None if who is None else who.spelled(0, len(who))

    def _columns(self, columns: Sequence[str]) -> Iterator[list[_Column]]:
        places = [self._names.index(name) for name in columns]
        read = sorted(set(places))
        for batch in self._record_batches(read):
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                part = batch.slice(start, _BATCH_ROWS)
                yield [
                    _column(part.column(read.index(place)), self._kinds[place]) for place in places
                ]

    @abc.abstractmethod
    def _record_batches(self, places: Sequence[int]) -> Iterator[Any]:
        """Record batches with the columns at these places, in this order."""


class ArrowTable(ArrowSource):
    length_is_stored = True

    def __init__(self, table: Any) -> None:
        super().__init__(table.schema)
        self._table = pa.table(table) if isinstance(table, pa.RecordBatch) else table

    def _record_batches(self, places: Sequence[int]) -> Iterator[Any]:
        yield from self._table.select(list(places)).to_batches()

    def count_rows(self) -> int:
        return int(self._table.num_rows)


@dataclass(frozen=True)
class _Run:
    """Consecutive row groups of a Parquet file, the columns whose texts are stored as choices, and
    how much is read at once."""

    groups: list[int]
    chosen: list[str]
    rows_at_once: int
    size: int


class ParquetRows(ArrowSource):
    length_is_stored = True

    def __init__(self, path: Path) -> None:
        self._path = path
        with pq.ParquetFile(path) as file:
            super().__init__(file.schema_arrow)
            self._metadata = file.metadata
            leaves = [file.schema.column(place) for place in range(len(file.schema))]
        self._texts = [
            (place, leaf.path)
            for place, leaf in enumerate(leaves)
            if leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type in ("STRING", "NONE")
        ]

    def _record_batches(self, places: Sequence[int]) -> Iterator[Any]:
        names = [self._names[place] for place in places]
        for run in self._runs():
            with pq.ParquetFile(
                self._path, metadata=self._metadata, read_dictionary=run.chosen, pre_buffer=False
            ) as file:
                for batch in file.iter_batches(
                    run.rows_at_once, row_groups=run.groups, columns=names
                ):
                    yield batch.select(names)

    def _runs(self) -> Iterator[_Run]:
        """Row groups that are read together, by what the file's footer says of their sizes and of
        how texts are stored.

        Asked for as choices, texts that are stored row by row would all be held until the run ends.
        Texts that are stored by what they share with the one before may be of any size, so a few
        rows at a time are read.
        """
        run: _Run | None = None
        for place in range(self._metadata.num_row_groups):
            group = self._metadata.row_group(place)
            stored = [(path, group.column(leaf)) for leaf, path in self._texts]
            chosen = [path for path, chunk in stored if chunk.has_dictionary_page]
            shared = any(_SHARED in chunk.encodings for _, chunk in stored)
            fitting = group.num_rows * _READ_BYTES // max(1, group.total_byte_size)
            rows = _FEW_ROWS if shared else max(_FEW_ROWS, min(_BATCH_ROWS, fitting))
            if (
                run is None
                or run.chosen != chosen
                or run.size + group.total_byte_size > _READ_BYTES
            ):
                if run is not None:
                    yield run
                run = _Run([], chosen, rows, 0)
            run = _Run(
                [*run.groups, place],
                chosen,
                min(run.rows_at_once, rows),
                run.size + group.total_byte_size,
            )
        if run is not None:
            yield run

    def count_rows(self) -> int:
        return int(self._metadata.num_rows)


class IpcRows(ArrowSource):
    """An Arrow file or stream."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._seekable = file.read(len(_MAGIC)) == _MAGIC
        with self._open(None) as reader:
            super().__init__(reader.schema)

    def _open(self, places: Sequence[int] | None) -> Any:
        options = pa.ipc.IpcReadOptions(included_fields=None if places is None else list(places))
        opened: Callable[..., Any] = pa.ipc.open_file if self._seekable else pa.ipc.open_stream
        return opened(pa.memory_map(str(self._path)), options=options)

    def _record_batches(self, places: Sequence[int]) -> Iterator[Any]:
        with self._open(places) as reader:
            found = (
                (reader.get_batch(i) for i in range(reader.num_record_batches))
                if self._seekable
                else reader
            )
            for batch in found:
                batch.validate()
                yield batch

    def count_rows(self) -> int:
        return sum(batch.num_rows for batch in self._record_batches([0] if self._names else []))


def open_columnar(path: Path) -> Source:
    """A Parquet or Arrow file, by its ending. Reads what describes the rows and none of them."""
    ending = path.suffix.lower()
    with suppress(OSError, pa.ArrowException, NotImplementedError):
        return ParquetRows(path) if ending == ".parquet" else IpcRows(path)
    raise InputError(
        f"The file '{path}' cannot be read as {ending.removeprefix('.')}. Is it complete?"
    )


class _Column(abc.ABC):
    """One column of a batch."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def weights(self) -> Weights | None:
        """Bytes of text that each row takes when it is spelled out."""

    @abc.abstractmethod
    def spelled(self, start: int, stop: int) -> pl.Series: ...

    def coded(self, encoder: Encoder, place: int) -> tuple[CodeArray, Flags | None]:
        return encoder.encode_column(place, self.spelled(0, len(self)))


@dataclass(frozen=True)
class _Plain(_Column):
    cells: pl.Series

    def __len__(self) -> int:
        return len(self.cells)

    def weights(self) -> Weights | None:
        return text_bytes(self.cells)

    def spelled(self, start: int, stop: int) -> pl.Series:
        return self.cells.slice(start, stop - start)


@dataclass(frozen=True)
class _Chosen(_Column):
    """Each row has one of `texts`, or none."""

    texts: pl.Series
    places: pl.Series

    def __len__(self) -> int:
        return len(self.places)

    def weights(self) -> Weights | None:
        sizes = text_bytes(self.texts)
        return None if sizes is None else np.append(sizes, 0)[self._or_null()]

    def spelled(self, start: int, stop: int) -> pl.Series:
        return self.texts.gather(self.places.slice(start, stop - start))

    def coded(self, encoder: Encoder, place: int) -> tuple[CodeArray, Flags | None]:
        codes, keep = encoder.encode_column(place, self.texts.extend_constant(None, 1))
        rows = self._or_null()
        return codes[rows], None if keep is None else keep[rows]

    def _or_null(self) -> Any:
        return self.places.fill_null(len(self.texts)).to_numpy()


@dataclass(frozen=True)
class _ChosenLists(_Column):
    """Each row has a list of some of `texts`: `lengths` of them, null where there is no list, out
    of `places` in order."""

    texts: pl.Series
    lengths: pl.Series
    places: pl.Series

    def __len__(self) -> int:
        return len(self.lengths)

    def weights(self) -> Weights | None:
        sizes = self._sizes()
        return np.where(sizes > LONGEST_ROW, 0, sizes)

    def spelled(self, start: int, stop: int) -> pl.Series:
        counts = self.lengths.fill_null(0).cast(pl.Int64).to_numpy()
        first = int(counts[:start].sum())
        counts = counts[start:stop]
        places = self.places.slice(first, int(counts.sum()))
        heavy = self._sizes()[start:stop] > LONGEST_ROW
        texts = self.texts
        if heavy.any():
            texts = pl.concat([texts, pl.Series([UNREADABLE], dtype=pl.String)])
            light = np.repeat(~heavy, counts)
            at = np.repeat(np.arange(counts.size), counts)[light]
            kept = pl.DataFrame(
                {"row": at, "place": places.filter(pl.Series(light)).cast(pl.Int64)}
            )
            lost = pl.DataFrame(
                {"row": np.flatnonzero(heavy), "place": np.full(int(heavy.sum()), len(self.texts))}
            )
            places = pl.concat([kept, lost]).sort("row", maintain_order=True).get_column("place")
            counts = np.where(heavy, 1, counts)
        offsets = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))
        missing = self.lengths.slice(start, stop - start).is_null().to_numpy()
        items = texts.gather(places).to_arrow().cast(pa.large_string())
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), items, mask=pa.array(missing))
        return pl.Series(pl.from_arrow(lists))

    def _sizes(self) -> Weights:
        return list_bytes(self.lengths, self.texts.str.len_bytes().gather(self.places))


def _column(array: Any, kind: pl.DataType | None) -> _Column:
    if kind is None:
        return _Plain(pl.Series([None] * len(array), dtype=pl.Null))
    if pa.types.is_dictionary(array.type) and kind in (pl.String, pl.Binary):
        return _Chosen(_series(array.dictionary, kind), _numbers(array.indices))
    if kind == pl.List(pl.String) and pa.types.is_dictionary(array.type.value_type):
        items = array.flatten()
        return _ChosenLists(
            _series(items.dictionary, pl.String()),
            pl.Series(pl.from_arrow(array.value_lengths())),
            _numbers(items.indices),
        )
    return _Plain(_series(array, kind))


def _series(array: Any, kind: pl.DataType) -> pl.Series:
    cells = pl.Series(pl.from_arrow(array.cast(_stored(array.type, texts=False))))
    return cells if cells.dtype == kind else decoded(cells, kind)


def _numbers(places: Any) -> pl.Series:
    return pl.Series(pl.from_arrow(places)).cast(pl.UInt32)


def _kind(kind: Any) -> pl.DataType | None:
    """The type that a column of this type is read as; None where it cannot be read. By the type
    alone."""
    stored = _stored(kind, texts=True)
    if stored is None:
        return None
    try:
        with quiet_native_code():
            found = pl.Series(pl.from_arrow(pa.array([], type=stored))).dtype
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of native code is not an Exception
        return None
    return pl.List(pl.String) if isinstance(found, pl.Array) and found.inner == pl.String else found


def _stored(kind: Any, *, texts: bool) -> Any:
    """The type with values in place of choices among them, and bytes in place of texts if those are
    not wanted.

    None for a type that is none of those listed here: a newer library may hold more than an older
    one takes over.
    """
    known = pa.types
    if known.is_dictionary(kind):
        return _stored(kind.value_type, texts=texts)
    if known.is_list(kind) or known.is_large_list(kind) or known.is_fixed_size_list(kind):
        inner = _stored(kind.value_type, texts=texts)
        if inner is None:
            return None
        if known.is_fixed_size_list(kind):
            return pa.list_(inner, kind.list_size)
        return pa.large_list(inner) if known.is_large_list(kind) else pa.list_(inner)
    if known.is_struct(kind):
        fields = [(field.name, _stored(field.type, texts=texts)) for field in kind]
        return None if any(inner is None for _, inner in fields) else pa.struct(fields)
    for is_text, plain in _TEXTS:
        if is_text(kind):
            return kind if texts else plain
    if known.is_decimal(kind):
        return (
            kind
            if kind.bit_width <= _WIDEST_DECIMAL and 0 <= kind.scale <= kind.precision
            else None
        )
    return kind if any(is_known(kind) for is_known in _KNOWN) else None


_WIDEST_DECIMAL = 128
_TEXTS = (
    (pa.types.is_string, pa.binary()),
    (pa.types.is_large_string, pa.large_binary()),
    (pa.types.is_string_view, pa.binary_view()),
)
_KNOWN = (
    *(pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating),
    *(pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration),
    *(
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    ),
)
