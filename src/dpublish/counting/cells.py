"""Exact counting: rows of a source into counts of the cells of a domain.

Cells are numbered in mixed radix. Small domains are counted by indexing one 64-bit counter a cell;
large ones by sorting cell numbers and measuring runs, in pieces that are merged, so that memory
follows the number of occupied cells and not of rows. Every count is a 64-bit integer and every path
gives the same answer. Two or more threads share the work of large batches.
"""

from __future__ import annotations

import abc
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.counting.bound import keep_rows
from dpublish.counting.kernels import (
    DIGIT_BITS,
    DIGITS,
    count_union,
    digit_counts,
    extend_cells,
    extend_group,
    merge_counts,
    occupied,
    run_lengths,
    scatter,
    squeeze,
    start_cells,
    start_group,
    tally,
)
from dpublish.declare.domain import MAX_CELLS, Domain
from dpublish.declare.encode import CodeArray, EncodedBatch, Encoder
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import CellArray, CellCounts, CodedRows, IntArray, SparseCounts
from dpublish.errors import SchemaError
from dpublish.sources.sources import Source
from dpublish.sources.units import join_units

Progress = Callable[[int], None]

DIRECT_CELLS = 1 << 20
PIECE_ROWS = 1 << 25
_BLOCK = 1 << 14
_ROWS_A_THREAD = 1 << 17
_WORKERS = min(4, os.cpu_count() or 1)


def compute(
    statistic: CellCounts | CodedRows,
    source: Source,
    schema: Schema,
    *,
    key: bytes,
    progress: Progress | None = None,
) -> SparseCounts | list[CodeArray]:
    """The exact private numbers that a mechanism asked for."""
    answer = count_cells if isinstance(statistic, CellCounts) else coded_rows
    return answer(source, schema, statistic.domain, key=key, progress=progress)


def count_cells(
    source: Source, schema: Schema, domain: Domain, *, key: bytes, progress: Progress | None = None
) -> SparseCounts:
    """How many kept rows fall into each occupied cell. `key` chooses the rows of units that have
    too many.

    `progress` is called with 0 once a batch: a sign of life that tells nothing about how much is
    left.
    """
    builder = _CellBuilder(domain)
    with _Threads() as threads:
        if schema.unit.column is None:
            counter = _new_counter(domain, builder, threads, source.rows_hint())
            for batch, _ in _encoded(source, domain, None, progress):
                counter.add(batch.codes, batch.keep)
            return counter.finish()
        cells: list[CellArray] = []
        keeps: list[NDArray[np.bool_] | None] = []
        units: list[pl.Series] = []
        for batch, unit in _encoded(source, domain, schema.unit.column, progress):
            cells.append(builder.cells(batch.codes, threads))
            keeps.append(batch.keep)
            units.append(unit)
        keep = _bounded(units, keeps, schema.unit.max_rows, key)
        every = _joined(cells, np.uint64)
        return _sorted_counts(every[: squeeze(every, keep)], domain, threads)


def coded_rows(
    source: Source, schema: Schema, domain: Domain, *, key: bytes, progress: Progress | None = None
) -> list[CodeArray]:
    """The kept rows as codes, one array a column of the domain."""
    column = schema.unit.column
    table = _CodeColumns(Encoder(domain).dtypes, source.rows_hint())
    keeps: list[NDArray[np.bool_] | None] = []
    units: list[pl.Series] = []
    for batch, unit in _encoded(source, domain, column, progress):
        table.add(batch.codes if column is not None else batch.kept())
        if column is not None:
            keeps.append(batch.keep)
            units.append(unit)
    keep = None if column is None else _bounded(units, keeps, schema.unit.max_rows, key)
    return list(table.finish(keep))


class _CodeColumns:
    """Whole columns of codes from batches of them.

    Where the number of rows is known beforehand each batch goes straight to its place, so that the
    memory it came in can be used for the next one.
    """

    def __init__(self, dtypes: Sequence[type[np.unsignedinteger]], rows: int | None) -> None:
        self._dtypes = dtypes
        self._whole = None if rows is None else [np.empty(rows, dtype=kind) for kind in dtypes]
        self._parts: list[list[CodeArray]] = [[] for _ in dtypes]
        self._used = 0

    def add(self, codes: Sequence[CodeArray]) -> None:
        rows = codes[0].size
        if self._whole is not None and self._used + rows <= self._whole[0].size:
            for column, some in zip(self._whole, codes, strict=True):
                column[self._used : self._used + rows] = some
            self._used += rows
        else:
            for part, more in zip(self._parts, codes, strict=True):
                part.append(more)

    def finish(self, keep: NDArray[np.bool_] | None) -> Iterator[CodeArray]:
        """One column at a time, so that no second copy of the table exists."""
        for place, kind in enumerate(self._dtypes):
            parts = self._parts[place]
            if self._whole is not None:
                parts.insert(0, self._whole[place][: self._used])
            whole = parts[0] if len(parts) == 1 else _joined(parts, kind)
            parts.clear()
            yield whole if keep is None else whole[keep]


def _encoded(
    source: Source, domain: Domain, unit_column: str | None, progress: Progress | None
) -> Iterator[tuple[EncodedBatch, pl.Series]]:
    none = pl.Series([], dtype=pl.Null)
    for batch, unit in source.coded(Encoder(domain), unit_column):
        if progress is not None:
            progress(0)
        yield batch, none if unit is None else unit


def _bounded(
    units: list[pl.Series], keeps: list[NDArray[np.bool_] | None], most: int, key: bytes
) -> NDArray[np.bool_]:
    """Bounding comes first and sees all rows of a unit; rows that encoding drops are dropped from
    what it keeps."""
    lengths = [len(unit) for unit in units]
    keep = keep_rows(join_units(units), most, key)
    start = 0
    for length, encoded in zip(lengths, keeps, strict=True):
        if encoded is not None:
            keep[start : start + length] &= encoded
        start += length
    return keep


def _joined(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


class _Threads:
    """Runs one function over consecutive stretches of rows, on several threads when there are many
    rows."""

    _pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> _Threads:
        self._pool = ThreadPoolExecutor(_WORKERS) if _WORKERS > 1 else None
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    @staticmethod
    def stretches(rows: int) -> list[tuple[int, int]]:
        workers = max(1, min(_WORKERS, rows // _ROWS_A_THREAD))
        edges = [rows * i // workers for i in range(workers + 1)]
        return list(itertools.pairwise(edges))

    def run(self, task: Callable[..., None], calls: Sequence[tuple[Any, ...]]) -> None:
        if self._pool is None or len(calls) == 1:
            for call in calls:
                task(*call)
            return
        for future in [self._pool.submit(task, *call) for call in calls]:
            future.result()


class _CellBuilder:
    """Mixed-radix cell numbers, built in blocks that stay in cache.

    Neighbouring columns are first folded into 32-bit groups, because 32-bit products are several
    times faster.
    """

    def __init__(self, domain: Domain) -> None:
        if not domain.axes:
            raise SchemaError("Counting needs at least one column.")
        if domain.size > MAX_CELLS:
            raise SchemaError(
                f"The columns {', '.join(domain.names)} span more than 2^63 cells. Use fewer "
                f"columns or bins."
            )
        self._groups: list[list[tuple[int, int]]] = []
        self._sizes: list[int] = []
        for column, cardinality in enumerate(domain.shape):
            if self._groups and self._sizes[-1] * cardinality <= 1 << 32:
                self._groups[-1].append((column, cardinality))
                self._sizes[-1] *= cardinality
            else:
                self._groups.append([(column, cardinality)])
                self._sizes.append(cardinality)

    def fill(self, codes: Sequence[CodeArray], start: int, stop: int, out: CellArray) -> None:
        """Cells of rows start..stop into the same places of `out`."""
        scratch = np.empty(min(_BLOCK, stop - start), dtype=np.uint32)
        for low in range(start, stop, _BLOCK):
            high = min(stop, low + _BLOCK)
            group, cells = scratch[: high - low], out[low:high]
            for number, members in enumerate(self._groups):
                self._fold(members, codes, low, high, group)
                if number == 0:
                    start_cells(cells, group)
                else:
                    extend_cells(cells, group, np.uint64(self._sizes[number]))

    def tally(
        self,
        codes: Sequence[CodeArray],
        keep: NDArray[np.bool_] | None,
        start: int,
        stop: int,
        counts: IntArray,
    ) -> None:
        """Count rows start..stop of a domain that fits into one group."""
        scratch = np.empty(min(_BLOCK, stop - start), dtype=np.uint32)
        for low in range(start, stop, _BLOCK):
            high = min(stop, low + _BLOCK)
            group = scratch[: high - low]
            self._fold(self._groups[0], codes, low, high, group)
            tally(counts, group if keep is None else group[: squeeze(group, keep[low:high])])

    def cells(self, codes: Sequence[CodeArray], threads: _Threads) -> CellArray:
        out = np.empty(codes[0].size, dtype=np.uint64)
        threads.run(
            self.fill, [(codes, start, stop, out) for start, stop in threads.stretches(out.size)]
        )
        return out

    @staticmethod
    def _fold(
        members: list[tuple[int, int]],
        codes: Sequence[CodeArray],
        low: int,
        high: int,
        group: NDArray[np.uint32],
    ) -> None:
        first = members[0][0]
        start_group(group, codes[first][low:high])
        for column, cardinality in members[1:]:
            extend_group(group, codes[column][low:high], np.uint32(cardinality))


class _Counter(abc.ABC):
    @abc.abstractmethod
    def add(self, codes: Sequence[CodeArray], keep: NDArray[np.bool_] | None) -> None: ...

    @abc.abstractmethod
    def finish(self) -> SparseCounts: ...


def _new_counter(
    domain: Domain, builder: _CellBuilder, threads: _Threads, rows: int | None
) -> _Counter:
    if domain.size <= DIRECT_CELLS:
        return _DirectCounter(domain, builder, threads)
    return _SortingCounter(domain, builder, threads, rows)


class _DirectCounter(_Counter):
    """One counter a cell and thread."""

    def __init__(self, domain: Domain, builder: _CellBuilder, threads: _Threads) -> None:
        self._domain, self._builder, self._threads = domain, builder, threads
        self._counts: list[IntArray] = []

    def add(self, codes: Sequence[CodeArray], keep: NDArray[np.bool_] | None) -> None:
        stretches = self._threads.stretches(codes[0].size)
        while len(self._counts) < len(stretches):
            self._counts.append(np.zeros(self._domain.size, dtype=np.int64))
        calls = [
            (codes, keep, *stretch, counts)
            for stretch, counts in zip(stretches, self._counts, strict=False)
        ]
        self._threads.run(self._builder.tally, calls)

    def finish(self) -> SparseCounts:
        if not self._counts:
            return SparseCounts(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))
        total = self._counts[0]
        for more in self._counts[1:]:
            total += more
        distinct = int(np.count_nonzero(total))
        cells, counts = np.empty(distinct, dtype=np.uint64), np.empty(distinct, dtype=np.int64)
        occupied(total, cells, counts)
        return SparseCounts(cells, counts)


class _SortingCounter(_Counter):
    """Collects cells into a piece of bounded size; full pieces are sorted, counted and merged."""

    def __init__(
        self, domain: Domain, builder: _CellBuilder, threads: _Threads, rows: int | None
    ) -> None:
        self._domain, self._builder, self._threads = domain, builder, threads
        self._piece = np.empty(
            min(PIECE_ROWS, rows if rows is not None else _ROWS_A_THREAD), dtype=np.uint64
        )
        self._used = 0
        self._done: list[SparseCounts] = []

    def add(self, codes: Sequence[CodeArray], keep: NDArray[np.bool_] | None) -> None:
        rows = codes[0].size
        for start in range(0, rows, PIECE_ROWS):
            stop = min(rows, start + PIECE_ROWS)
            self._make_room(stop - start)
            target = self._piece[self._used : self._used + stop - start]
            part = codes if stop - start == rows else [column[start:stop] for column in codes]
            stretches = self._threads.stretches(stop - start)
            self._threads.run(
                self._builder.fill, [(part, *stretch, target) for stretch in stretches]
            )
            self._used += stop - start if keep is None else squeeze(target, keep[start:stop])

    def _make_room(self, rows: int) -> None:
        if self._used + rows > PIECE_ROWS:
            self._close_piece()
        if self._used + rows > self._piece.size:
            grown = np.empty(
                min(PIECE_ROWS, max(2 * self._piece.size, self._used + rows)), dtype=np.uint64
            )
            grown[: self._used] = self._piece[: self._used]
            self._piece = grown

    def _close_piece(self) -> None:
        found = _sorted_counts(self._piece[: self._used], self._domain, self._threads)
        # the piece is used again, so its results are copied out
        self._done.append(SparseCounts(found.cells.copy(), found.counts.copy()))
        self._used = 0
        # merging equals with equals touches each cell a logarithmic number of times
        while len(self._done) > 1 and self._done[-2].cells.size <= 2 * self._done[-1].cells.size:
            self._merge_last()

    def _merge_last(self) -> None:
        right, left = self._done.pop(), self._done.pop()
        self._done.append(_merged(left, right))

    def finish(self) -> SparseCounts:
        if not self._done:
            return _sorted_counts(self._piece[: self._used], self._domain, self._threads)
        if self._used:
            self._close_piece()
        self._piece = np.empty(0, dtype=np.uint64)
        while len(self._done) > 1:
            self._merge_last()
        return self._done[0]


def _merged(left: SparseCounts, right: SparseCounts) -> SparseCounts:
    distinct = count_union(left.cells, right.cells)
    cells, counts = np.empty(distinct, dtype=np.uint64), np.empty(distinct, dtype=np.int64)
    merge_counts(left.cells, left.counts, right.cells, right.counts, cells, counts)
    return SparseCounts(cells, counts)


def _sorted_counts(cells: CellArray, domain: Domain, threads: _Threads) -> SparseCounts:
    """Counts of unsorted cells, which are overwritten; the answer lives in their memory."""
    spare = np.empty(cells.size, dtype=np.uint64)
    stretches = threads.stretches(cells.size)
    tables = [np.zeros(DIGITS, dtype=np.int64) for _ in stretches]
    for shift in range(0, (domain.size - 1).bit_length(), DIGIT_BITS):
        by = np.uint64(shift)
        threads.run(
            digit_counts,
            [(cells[a:b], by, table) for (a, b), table in zip(stretches, tables, strict=True)],
        )
        total = np.sum(tables, axis=0)
        if int(total.max()) == cells.size:
            continue  # all cells agree in this digit
        place = np.cumsum(total) - total
        places = []
        for table in tables:
            places.append(place)
            place = place + table
        threads.run(
            scatter,
            [(cells[a:b], spare, by, at) for (a, b), at in zip(stretches, places, strict=True)],
        )
        cells, spare = spare, cells
    counts = spare.view(np.int64)
    distinct = run_lengths(cells, counts)
    if 2 * distinct < cells.size:  # do not hold on to much more memory than the answer needs
        return SparseCounts(cells[:distinct].copy(), counts[:distinct].copy())
    return SparseCounts(cells[:distinct], counts[:distinct])
