"""Coded rows, and the partition of them that a set of chosen columns induces.

In: code arrays of several columns and of a label column (private). Out: exact integer scores of what one more column would do
to the partition, all candidates at once, in time proportional to rows times candidates.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpublish.domain import Domain
from dpublish.errors import PrivateSideError
from dpublish.mechanisms.base import SparseCounts

Codes = NDArray[Any]
T = TypeVar("T")

MAX_ROWS = (1 << 31) - 1
"""Squares of counts, and their sums, must fit 64 bits."""

PAIRS, PURITY = 0, 1  # as in dpublish.mechanisms.kernels.partition, which is imported when it is needed
_TABLE_ENTRIES = 1 << 19
_SPLIT_ENTRIES = 1 << 24
_CLASS_ENTRIES = 1 << 22
_LABELS = -1
_WORTH_THREADS = 1 << 20
_DIRECT_CELLS = 1 << 24


class CodedTable:
    """Rows as codes: one array a column with its number of levels, and the label of each row. Private."""

    def __init__(self, columns: Sequence[Codes], levels: Sequence[int], labels_of: Codes, labels: int) -> None:
        self.rows = int(labels_of.size)
        if self.rows > MAX_ROWS or any(column.size != self.rows for column in columns):
            raise PrivateSideError()
        self.columns = [_narrow(column, count) for column, count in zip(columns, levels, strict=True)]
        self.levels = [int(count) for count in levels]
        self.labels_of = _narrow(labels_of, labels)
        self.labels = int(labels)

    def __repr__(self) -> str:  # a repr ends up in tracebacks and logs
        return "CodedTable(private)"

    @classmethod
    def from_codes(cls, codes: Sequence[Codes], domain: Domain) -> CodedTable:
        """The rows of a domain whose last axis is the label."""
        *columns, labels_of = codes
        *levels, labels = domain.shape
        return cls(columns, levels, labels_of, labels)

    def take(self, kept: NDArray[np.bool_]) -> CodedTable:
        """The rows where `kept` is true."""
        return CodedTable([column[kept] for column in self.columns], self.levels, self.labels_of[kept], self.labels)

    def count_cells(self, chosen: Sequence[int]) -> SparseCounts:
        """Exact counts over the chosen columns, in that order, and the label last."""
        from dpublish.mechanisms.kernels.partition import add_digit, count_into

        cells = np.zeros(self.rows, dtype=np.uint64)
        size = 1
        for codes, levels in (*((self.columns[i], self.levels[i]) for i in chosen), (self.labels_of, self.labels)):
            add_digit(cells, codes, levels)
            size *= levels
        if size <= _DIRECT_CELLS:
            counts = np.zeros(size, dtype=np.int64)
            count_into(cells, counts)
            occupied = np.flatnonzero(counts)
            return SparseCounts(cells=occupied.astype(np.uint64), counts=counts[occupied])
        distinct, held = np.unique(cells, return_counts=True)
        return SparseCounts(cells=distinct, counts=held.astype(np.int64))


class Partition(abc.ABC):
    """The classes of rows that agree on all columns chosen so far; at first, one class. Private.

    A subclass gives each class a value that its label counts determine; the value of the partition is the sum. Rows of classes
    whose value is 0, and stays 0 under any refinement, may be forgotten on the way. Either all contingency tables are small,
    or the rows are sorted by class.
    """

    mode: ClassVar[int]
    mixed: ClassVar[bool]
    """Whether classes with a single label have the value 0."""

    grid: int = 1
    charge: int = 0

    def __init__(self, table: CodedTable) -> None:
        self.rows = table.rows
        self.classes = min(1, table.rows)
        self._labels, self._levels = table.labels, table.levels
        self._columns: dict[int, Codes] = dict(enumerate(table.columns))
        self._labels_of = table.labels_of
        self._group = np.zeros(table.rows, dtype=np.uint32)
        self._base = table.labels_of.astype(np.uint32)
        self._starts: NDArray[np.int64] | None = None
        self._value: int | None = None
        self._after: dict[int, int] = {}
        if not self._tables_are_small():
            self._starts = np.array([0, table.rows][: self.classes + 1], dtype=np.int64)

    def __repr__(self) -> str:
        return "Partition(private)"

    def value(self) -> int:
        """The value of the partition as it is."""
        if self._value is None:
            self._value = self._scores([np.zeros(self._group.size, dtype=np.uint8)], [1])[0]
        return self._value

    def after(self, candidates: Sequence[int]) -> list[int]:
        """The value that refining by each of the candidates would give. A column can be refined by once."""

        def some(part: Sequence[int]) -> list[int]:
            return self._scores([self._columns[i] for i in part], [self._levels[i] for i in part])

        values = _in_threads(some, candidates, self._group.size)
        self._after = dict(zip(candidates, values, strict=True))
        return values

    def refine(self, column: int) -> None:
        """Split every class by the values of one more column."""
        from dpublish.mechanisms.kernels.partition import split_by_class, split_by_table

        codes, levels = self._columns.pop(column), self._levels[column]
        self._value = self._after.get(column)  # known already if the column was a candidate
        self._after = {}
        if self._starts is not None:
            self.classes = split_by_class(self._starts, codes, levels, self._group)
            self._sort()
            return
        work = np.empty(self.classes * levels, dtype=np.uint32)
        self.classes = split_by_table(self._group, codes, levels, self.classes, work)
        if self._tables_are_small():
            self._base = self._group * np.uint32(self._labels) + self._labels_of
        else:
            self._sort()

    def _tables_are_small(self) -> bool:
        widest = max((self._levels[i] for i in self._columns), default=1)
        return self.classes * self._labels * widest <= _TABLE_ENTRIES

    def _sort(self) -> None:
        """Sort all rows by class, leaving out the classes that no longer matter."""
        from dpublish.mechanisms.kernels.partition import gather, sort_by_class

        before = self._group.size
        order = np.empty(before, dtype=np.uint32)
        self._starts = sort_by_class(self._group, self.classes, self._labels_of, self.mixed, self.charge, order)
        rows = int(self._starts[-1])
        order, self.classes = order[:rows], self._starts.size - 1

        before_sorting = {**self._columns, _LABELS: self._labels_of}
        sorted_codes = _blocks(before_sorting, rows)

        def some(part: Sequence[int]) -> list[None]:
            for name in part:
                gather(before_sorting[name], order, sorted_codes[name])
            return [None] * len(part)

        _in_threads(some, list(before_sorting), before)
        self._labels_of = sorted_codes.pop(_LABELS)
        self._columns = sorted_codes
        self._group = np.repeat(np.arange(self.classes, dtype=np.uint32), np.diff(self._starts))

    def _scores(self, columns: Sequence[Codes], levels: Sequence[int]) -> list[int]:
        starts = self._starts
        if starts is None:
            return self._scores_by_table(columns, levels)
        return [self._score_by_class(starts, codes, count) for codes, count in zip(columns, levels, strict=True)]

    def _scores_by_table(self, columns: Sequence[Codes], levels: Sequence[int]) -> list[int]:
        """From contingency tables, two columns at a time."""
        from dpublish.mechanisms.kernels.partition import count_one, count_two, table_score

        scores: list[int] = []
        sizes = [self.classes * self._labels * count for count in levels]
        for i in range(0, len(columns), 2):
            tables = [np.zeros(size, dtype=np.uint32) for size in sizes[i : i + 2]]
            if len(tables) == 2:
                count_two(self._base, columns[i], levels[i], tables[0], columns[i + 1], levels[i + 1], tables[1])
            else:
                count_one(self._base, columns[i], levels[i], tables[0])
            for table, count in zip(tables, levels[i : i + 2], strict=True):
                how = (self.mode, self.grid, self.charge)
                scores.append(int(table_score(table, count, self.classes, self._labels, *how)))
        return scores

    def _score_by_class(self, starts: NDArray[np.int64], codes: Codes, levels: int) -> int:
        from dpublish.mechanisms.kernels.partition import score_by_class

        if levels * self._labels > _CLASS_ENTRIES:
            return self._score_by_sorting(codes, levels)
        how = (self.mode, self.grid, self.charge)
        return int(score_by_class(starts, self._labels_of, codes, levels, self._labels, *how))

    def _score_by_sorting(self, codes: Codes, levels: int) -> int:
        """For columns so wide, with so many labels, that even the table of one class would be large."""
        from dpublish.mechanisms.kernels.partition import score_by_class

        _, cells = np.unique(self._group.astype(np.uint64) * np.uint64(levels) + codes, return_inverse=True)
        order = np.argsort(cells, kind="stable")
        starts = np.concatenate(([0], np.cumsum(np.bincount(cells)))).astype(np.int64)
        # each (class, level) cell as a class of its own, with one level
        one = np.zeros(cells.size, dtype=np.uint8)
        how = (self.mode, self.grid, self.charge)
        return int(score_by_class(starts, self._labels_of[order], one, 1, self._labels, *how))


class PairPartition(Partition):
    """Value of a class: its pairs of rows whose labels differ, which the chosen columns leave undiscerned."""

    mode = PAIRS
    mixed = True


class PurityPartition(Partition):
    """Value of a class: max(0, floor(grid * sum_y count_y^2 / count) - grid * charge).

    sum_y count_y^2 / count is how many rows of the class one expects to name correctly by naming labels at the rate at which
    they occur in it. It is at most count, so that classes of at most `charge` rows are worth nothing, whatever splits them.
    """

    mode = PURITY
    mixed = False

    def __init__(self, table: CodedTable, *, grid: int, charge: int) -> None:
        super().__init__(table)
        self.grid, self.charge = grid, charge


def equal_rows(table: CodedTable) -> tuple[NDArray[np.uint32], int]:
    """A number for each row, the same for rows that agree in all columns and the label, and how many numbers there are."""
    from dpublish.mechanisms.kernels.partition import split_by_table

    group = np.zeros(table.rows, dtype=np.uint32)
    classes = min(1, table.rows)
    for codes, levels in (*zip(table.columns, table.levels, strict=True), (table.labels_of, table.labels)):
        if classes * levels <= _SPLIT_ENTRIES:
            classes = split_by_table(group, codes, levels, classes, np.empty(classes * levels, dtype=np.uint32))
        else:
            cells, where = np.unique(group.astype(np.uint64) * np.uint64(levels) + codes, return_inverse=True)
            group, classes = where.astype(np.uint32), cells.size
    return group, classes


def _blocks(columns: Mapping[int, Codes], rows: int) -> dict[int, Codes]:
    """Room for `rows` codes of each column. One block of memory a width: many small ones cost more than filling them."""
    room: dict[int, Codes] = {}
    for kind in {column.dtype for column in columns.values()}:
        names = [name for name, column in columns.items() if column.dtype == kind]
        room.update(zip(names, np.empty((len(names), rows), dtype=kind), strict=True))
    return {name: room[name] for name in columns}


def _in_threads(some: Callable[[Sequence[int]], list[T]], names: Sequence[int], rows: int) -> list[T]:
    """`some` of all names; when that is much work, the even and the odd ones side by side (kernels release the lock)."""
    if rows * len(names) < _WORTH_THREADS or len(names) < 2:
        return some(names)
    with ThreadPoolExecutor(max_workers=1) as pool:
        odd = pool.submit(some, names[1::2])
        answers = [*some(names[0::2]), *odd.result()]
    half = (len(names) + 1) // 2
    return [answers[i // 2 + half * (i % 2)] for i in range(len(names))]


def _narrow(codes: Codes, levels: int) -> Codes:
    """The smallest unsigned type that holds the codes, so that one compiled kernel a width is enough."""
    kind = np.uint8 if levels <= 1 << 8 else np.uint16 if levels <= 1 << 16 else np.uint32
    return np.ascontiguousarray(codes, dtype=kind)
