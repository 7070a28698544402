"""Exact counting: rows of a source into counts of the cells of a domain.

Cells are numbered in mixed radix. Small domains are counted by indexing one 64-bit counter a cell;
large ones by sorting cell numbers and measuring runs, in pieces that are merged, so that memory
follows the number of occupied cells and not of rows. Every count is a 64-bit integer and every path
gives the same answer. Two or more threads share the work of large batches.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Ints, Words
from dpublish.counting.bound import (
    Columns,
    Progress,
    bounded_rows,
    codes_said,
    joined,
    numbers_said,
    reported,
)
from dpublish.counting.kernels import (
    DIGIT_BITS,
    DIGITS,
    count_tables,
    count_union,
    digit_counts,
    extend_cells,
    extend_group,
    merge_counts,
    run_lengths,
    scatter,
    squeeze,
    tally,
)
from dpublish.declare.domain import MAX_CELLS, Domain
from dpublish.declare.encode import CodeArray, Encoder, code_dtype
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import ContingencyTables, SparseCounts, TableCounts
from dpublish.errors import SchemaError, refuse
from dpublish.sources.sources import Source

DIRECT_CELLS = 1 << 20
PIECE_ROWS = 1 << 25
MAX_TABLE_CELLS = 1 << 27
"""Cells of all tables that are counted in one pass."""
_BLOCK = 1 << 14
_ROWS_A_THREAD = 1 << 17
_WORKERS = min(4, os.cpu_count() or 1)


def count_cells(
    source: Source, schema: Schema, domain: Domain, *, key: bytes, progress: Progress | None = None
) -> SparseCounts:
    """How many kept rows fall into each occupied cell. `key` chooses the rows of units that have
    too many.

    `progress` is called with 0 once a batch: a sign of life that tells nothing about how much is
    left.
    """
    builder = _CellBuilder(domain)
    with Threads() as threads:
        column = schema.unit.column
        if column is None:
            counter = (
                _DirectCounter(domain, builder, threads)
                if domain.size <= DIRECT_CELLS
                else _SortingCounter(domain, builder, threads, source.rows_hint())
            )
            for batch, _ in reported(source.coded(Encoder(domain)), progress):
                counter.add(batch.codes, batch.keep)
            return counter.finish()

        def read() -> Iterator[tuple[Columns, pl.Series]]:
            for codes, units in _kept(source, domain, column, progress):
                yield [builder.cells(codes, threads)], units

        total = SparseCounts.none()
        for (cells,) in bounded_rows(
            read, lambda held: numbers_said(held[0]), schema.unit.max_rows, key
        ):
            total = merged(total, _sorted_counts(cells, domain, threads))
        return total


def coded_rows(
    source: Source, schema: Schema, domain: Domain, *, key: bytes, progress: Progress | None = None
) -> list[CodeArray]:
    """The kept rows as codes, one array per column of the domain."""
    rows = source.rows_hint() if schema.unit.column is None else None
    table = _CodeColumns(Encoder(domain).dtypes, rows)
    for codes in _kept_codes(source, schema, domain, key, progress, at_once=True):
        table.add(codes)
    return list(table.finish())


def count_in_tables(
    asked: ContingencyTables,
    source: Source,
    schema: Schema,
    *,
    key: bytes,
    progress: Progress | None = None,
) -> TableCounts:
    """How many kept rows fall into each cell of each table: one pass, whatever their number."""
    with Threads() as threads:
        counter = TableCounter(asked, threads)
        for codes in _kept_codes(source, schema, asked.domain, key, progress):
            counter.add(codes)
        return counter.finish()


def _kept_codes(
    source: Source,
    schema: Schema,
    domain: Domain,
    key: bytes,
    progress: Progress | None,
    *,
    at_once: bool = False,
) -> Iterator[Sequence[CodeArray]]:
    """The codes of the kept rows, a batch at a time."""
    column, shape = schema.unit.column, domain.shape
    if column is None:
        for batch, _ in reported(source.coded(Encoder(domain)), progress):
            yield batch.kept()
        return
    yield from bounded_rows(
        lambda: _kept(source, domain, column, progress),
        lambda held: codes_said(held, shape),
        schema.unit.max_rows,
        key,
        at_once=at_once,
    )


def _kept(
    source: Source, domain: Domain, column: str, progress: Progress | None
) -> Iterator[tuple[Columns, pl.Series]]:
    """The codes of the rows that no column drops, and their units."""
    for batch, units in reported(source.coded(Encoder(domain), column), progress):
        assert units is not None
        yield batch.kept(), units if batch.keep is None else units.filter(pl.Series(batch.keep))


class TableCounter:
    """Counts of many tables at once, from codes. The columns of a table after the first are folded
    into one number per row, which tables share; then every table is one of pairs."""

    def __init__(self, asked: ContingencyTables, threads: Threads) -> None:
        self._threads, self._asked, tables = threads, asked, asked.tables
        self._shape = shape = asked.shape
        self._groups = {
            place: group_of.astype(code_dtype(shape[place]))
            for place, group_of in asked.groups.items()
        }
        self._shapes = [tuple(shape[column] for column in table) for table in tables]
        sizes = [math.prod(levels) for levels in self._shapes]
        if sum(sizes) > MAX_TABLE_CELLS:
            raise SchemaError(
                f"The tables have more than {MAX_TABLE_CELLS:,} cells together. Use fewer columns "
                "or bins."
            )
        self._folds = sorted({tuple(table[1:]) for table in tables})
        places = {fold: place for place, fold in enumerate(self._folds)}
        self._tables = np.array(
            [
                (table[0], places[tuple(table[1:])], math.prod(levels[1:]))
                for table, levels in zip(tables, self._shapes, strict=True)
            ],
            dtype=np.int64,
        ).reshape(-1, 3)
        self._starts = np.append(np.int64(0), np.cumsum(np.array(sizes, dtype=np.int64)))
        self._counts = np.zeros(int(self._starts[-1]), dtype=np.int64)
        self._kind = np.uint16 if max(shape, default=1) <= 1 << 16 else np.uint32

    def add(self, codes: Sequence[CodeArray]) -> None:
        rows = codes[0].size
        edges = [len(self._tables) * i // _WORKERS for i in range(_WORKERS + 1)]
        shares = [slice(*ends) for ends in itertools.pairwise(edges) if ends[0] < ends[1]]
        for low in range(0, rows, _BLOCK):
            block = np.empty((len(codes), min(rows, low + _BLOCK) - low), dtype=self._kind)
            for place, some in enumerate(codes):
                part = some[low : low + _BLOCK]
                grouped = self._groups.get(place)
                block[place] = part if grouped is None else grouped[part]
            folded = np.zeros((len(self._folds), block.shape[1]), dtype=np.uint32)
            for place, fold in enumerate(self._folds):
                for column in fold:
                    extend_group(folded[place], block[column], np.uint32(self._shape[column]))
            self._threads.run(
                count_tables,
                [
                    (block, folded, self._tables[share], self._starts[share], self._counts)
                    for share in shares
                ],
            )

    def finish(self) -> TableCounts:
        ends = itertools.pairwise(self._starts)
        asked = zip(self._asked.tables, self._shapes, ends, strict=True)
        return TableCounts(
            {
                table: self._counts[start:stop].reshape(shape)
                for table, shape, (start, stop) in asked
            }
        )


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

    def finish(self) -> Iterator[CodeArray]:
        """One column at a time, so that no second copy of the table exists."""
        for place, kind in enumerate(self._dtypes):
            parts = self._parts[place]
            if self._whole is not None:
                parts.insert(0, self._whole[place][: self._used])
            whole = parts[0] if len(parts) == 1 else joined(parts, kind)
            parts.clear()
            yield whole


class Threads:
    """Runs one function over consecutive stretches of rows, on several threads when there are many
    rows."""

    _pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Threads:
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
        refuse(
            SchemaError,
            (not domain.axes, "Counting needs at least one column."),
            (
                domain.size > MAX_CELLS,
                f"The columns {', '.join(domain.names)} span more than 2^63 cells. Use fewer "
                "columns or bins.",
            ),
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

    def fill(self, codes: Sequence[CodeArray], start: int, stop: int, out: Words) -> None:
        """Cells of rows start..stop into the same places of `out`."""
        scratch = np.empty(min(_BLOCK, stop - start), dtype=np.uint32)
        for low in range(start, stop, _BLOCK):
            high = min(stop, low + _BLOCK)
            group, cells = scratch[: high - low], out[low:high]
            for number, members in enumerate(self._groups):
                self._fold(members, codes, low, high, group)
                if number == 0:
                    cells[:] = group
                else:
                    extend_cells(cells, group, np.uint64(self._sizes[number]))

    def tally(
        self,
        codes: Sequence[CodeArray],
        keep: NDArray[np.bool_] | None,
        start: int,
        stop: int,
        counts: Ints,
    ) -> None:
        """Count rows start..stop of a domain that fits into one group."""
        scratch = np.empty(min(_BLOCK, stop - start), dtype=np.uint32)
        for low in range(start, stop, _BLOCK):
            high = min(stop, low + _BLOCK)
            group = scratch[: high - low]
            self._fold(self._groups[0], codes, low, high, group)
            tally(counts, group if keep is None else group[: squeeze(group, keep[low:high])])

    def cells(self, codes: Sequence[CodeArray], threads: Threads) -> Words:
        out = np.empty(codes[0].size, dtype=np.uint64)
        self.fill_all(codes, out, threads)
        return out

    def fill_all(self, codes: Sequence[CodeArray], out: Words, threads: Threads) -> None:
        threads.run(self.fill, [(codes, *ends, out) for ends in threads.stretches(out.size)])

    @staticmethod
    def _fold(
        members: list[tuple[int, int]],
        codes: Sequence[CodeArray],
        low: int,
        high: int,
        group: NDArray[np.uint32],
    ) -> None:
        group[:] = codes[members[0][0]][low:high]
        for column, cardinality in members[1:]:
            extend_group(group, codes[column][low:high], np.uint32(cardinality))


class _DirectCounter:
    """One counter a cell and thread."""

    def __init__(self, domain: Domain, builder: _CellBuilder, threads: Threads) -> None:
        self._domain, self._builder, self._threads = domain, builder, threads
        self._counts: list[Ints] = []

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
            return SparseCounts.none()
        total = self._counts[0]
        for more in self._counts[1:]:
            total += more
        cells = np.flatnonzero(total)
        return SparseCounts(cells.astype(np.uint64), total[cells])


class _SortingCounter:
    """Collects cells into a piece of bounded size; full pieces are sorted, counted and merged."""

    def __init__(
        self, domain: Domain, builder: _CellBuilder, threads: Threads, rows: int | None
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
            self._builder.fill_all(part, target, self._threads)
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
        self._done.append(merged(left, right))

    def finish(self) -> SparseCounts:
        if not self._done:
            return _sorted_counts(self._piece[: self._used], self._domain, self._threads)
        if self._used:
            self._close_piece()
        self._piece = np.empty(0, dtype=np.uint64)
        while len(self._done) > 1:
            self._merge_last()
        return self._done[0]


def merged(left: SparseCounts, right: SparseCounts) -> SparseCounts:
    distinct = count_union(left.cells, right.cells)
    cells, counts = np.empty(distinct, dtype=np.uint64), np.empty(distinct, dtype=np.int64)
    merge_counts(left.cells, left.counts, right.cells, right.counts, cells, counts)
    return SparseCounts(cells, counts)


def _sorted_counts(cells: Words, domain: Domain, threads: Threads) -> SparseCounts:
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
