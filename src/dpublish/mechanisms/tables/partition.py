"""Coded rows, and the partition of them that a set of chosen columns induces.

In: code arrays of several columns and of a label column (private). Out: exact integer scores of what one more column would do
to the partition, all candidates at once, in time proportional to rows times candidates.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpublish.domain import Domain
from dpublish.errors import PrivateSideError
from dpublish.mechanisms.base import SparseCounts
from dpublish.mechanisms.tables.contingency import Table, cell_dtype, count_product, count_tables, renumber

Codes = NDArray[Any]
T = TypeVar("T")

MAX_ROWS = (1 << 31) - 1
"""Squares of counts, and their sums, must fit 64 bits."""

PAIRS, PURITY = 0, 1  # as in dpublish.mechanisms.kernels.partition, which is imported when it is needed
_TABLE_ENTRIES = 1 << 19
_AHEAD_ENTRIES = 1 << 17
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
        from dpublish.mechanisms.kernels.partition import add_digit

        digits = [*((self.columns[i], self.levels[i]) for i in chosen), (self.labels_of, self.labels)]
        size = math.prod(levels for _, levels in digits)
        if size <= _DIRECT_CELLS:
            return count_product(digits, size)
        cells = np.zeros(self.rows, dtype=np.uint64)
        for codes, levels in digits:
            add_digit(cells, codes, levels)
        distinct, held = np.unique(cells, return_counts=True)
        return SparseCounts(cells=distinct, counts=held.astype(np.int64))


@dataclass(frozen=True)
class _Ahead:
    """What the partition will be if `column` is chosen: class * labels + label of each row, and tables of the others."""

    column: int
    base: Codes
    tables: dict[int, Table]

    def __repr__(self) -> str:
        return "Ahead(private)"


class Partition(abc.ABC):
    """The classes of rows that agree on all columns chosen so far; at first, one class. Private.

    A subclass gives each class a value that its label counts determine; the value of the partition is the sum. Rows of classes
    whose value is 0, and stays 0 under any refinement, may be forgotten on the way.

    As long as all contingency tables are small, rows are not moved: each has the number class * labels + label, and candidates
    are scored from tables. Tables are made over one column more than is asked for, the one most likely to be chosen: if it is,
    the next candidates have been counted already. That saves time and changes no score. Later the rows are sorted by class.
    """

    mode: ClassVar[int]
    mixed: ClassVar[bool]
    """Whether classes with a single label have the value 0."""

    grid: int = 1
    charge: int = 0
    _guess: int | None = None

    def __init__(self, table: CodedTable) -> None:
        self.rows = table.rows
        self.classes = min(1, table.rows)
        self._labels, self._levels = table.labels, table.levels
        self._columns: dict[int, Codes] = dict(enumerate(table.columns))
        self._labels_of = table.labels_of
        self._group = np.zeros(0, dtype=np.uint32)
        self._base: Codes = np.zeros(0, dtype=np.uint16)
        self._starts: NDArray[np.int64] | None = None
        self._value: int | None = None
        self._after: dict[int, int] = {}
        self._tables: dict[int, Table] = {}
        self._ahead: _Ahead | None = None
        if self._tables_are_small():
            self._base = table.labels_of.astype(cell_dtype(table.labels))
        else:
            self._group = np.zeros(table.rows, dtype=np.uint32)
            self._starts = np.array([0, table.rows][: self.classes + 1], dtype=np.int64)

    def __repr__(self) -> str:
        return "Partition(private)"

    def value(self) -> int:
        """The value of the partition as it is."""
        if self._value is None:
            if self._starts is None:
                self._value = self._table_value(self._label_counts())
            else:
                self._value = self._score_by_class(self._starts, _nothing(self._group.size), 1)
        return self._value

    def _label_counts(self) -> Table:
        """Counts [class * labels + label], as a table of one level; from those of any column that was counted."""
        for table in self._tables.values():
            return np.asarray(table.sum(axis=1, dtype=np.uint32, keepdims=True))
        (table,) = count_tables(self._base, self.classes * self._labels, [_nothing(self._base.size)], [1])
        return table

    def after(self, candidates: Sequence[int], *, more: bool = False) -> list[int]:
        """The value that refining by each of the candidates would give. A column can be refined by once.

        `more` says that the same will be asked again after refining by one of the candidates.
        """
        starts = self._starts
        if starts is None:
            values = self._after_by_table(candidates, more)
        else:

            def some(part: Sequence[int]) -> list[int]:
                return [self._score_by_class(starts, self._columns[i], self._levels[i]) for i in part]

            values = _in_threads(some, candidates, self._group.size)
        self._after = dict(zip(candidates, values, strict=True))
        return values

    def refine(self, column: int) -> None:
        """Split every class by the values of one more column."""
        from dpublish.mechanisms.kernels.partition import split_by_class

        codes, levels = self._columns.pop(column), self._levels[column]
        value, self._value = self._after.get(column), None
        ahead, self._ahead = self._ahead, None
        tables, self._tables = self._tables, {}
        if self._starts is not None:
            self.classes = split_by_class(self._starts, codes, levels, self._group)
            self._sort()
        elif ahead is not None and ahead.column == column:
            self.classes *= levels
            self._base, self._tables = ahead.base, ahead.tables
        else:
            self._split(codes, levels, tables.get(column))
        self._value = value  # known already if the column was a candidate
        self._guess = self._best_but(column)
        self._after = {}

    def _split(self, codes: Codes, levels: int, table: Table | None) -> None:
        """Refine by one column and number the classes that occur densely."""
        if table is None:
            (table,) = count_tables(self._base, self.classes * self._labels, [codes], [levels])
        occurs = table.reshape(self.classes, self._labels, levels).any(axis=1)
        number = np.cumsum(occurs, dtype=np.uint32).reshape(occurs.shape) - np.uint32(1)
        self.classes = int(np.count_nonzero(occurs))
        self._base = self._renumbered(codes, levels, number, self.classes)
        if not self._tables_are_small():
            self._group = np.asarray(self._base // np.uint32(self._labels), dtype=np.uint32)
            self._sort()

    def _renumbered(self, codes: Codes, levels: int, number: NDArray[np.uint32], classes: int) -> Codes:
        """class' * labels + label of each row, where number[class, level] is the new class'."""
        labels = np.arange(self._labels, dtype=np.uint32)[None, :, None]
        new = number[:, None, :] * np.uint32(self._labels) + labels
        return renumber(self._base, codes, levels, new.reshape(-1), classes * self._labels)

    def _after_by_table(self, candidates: Sequence[int], more: bool) -> list[int]:
        known = self._tables
        missing = [i for i in candidates if i not in known]
        ahead = self._look_ahead(candidates) if more and len(missing) == len(candidates) else None
        if ahead is not None:
            self._ahead = ahead
            levels = self._levels[ahead.column]
            for i, table in ahead.tables.items():
                shape = (self.classes, levels, self._labels * self._levels[i])
                known[i] = table.reshape(shape).sum(axis=1, dtype=np.uint32).reshape(-1, self._levels[i])
            any_one = next(iter(ahead.tables.values()))
            by_level = any_one.sum(axis=1, dtype=np.uint32).reshape(self.classes, levels, self._labels)
            known[ahead.column] = by_level.transpose(0, 2, 1).reshape(-1, levels)
        else:
            columns = [self._columns[i] for i in missing]
            tables = count_tables(self._base, self.classes * self._labels, columns, [self._levels[i] for i in missing])
            known.update(zip(missing, tables, strict=True))
        return [self._table_value(known[i]) for i in candidates]

    def _look_ahead(self, candidates: Sequence[int]) -> _Ahead | None:
        """Tables of the partition that follows if the likeliest candidate is chosen.

        None if they would be so large that counting takes longer than it does without: a wrong guess should cost little.
        """
        likely = (
            self._guess if self._guess in candidates else max(candidates, key=lambda i: (self._levels[i], -i), default=None)
        )
        others = [i for i in candidates if i != likely]
        if likely is None or not others:
            return None
        levels = self._levels[likely]
        classes = self.classes * levels
        if classes * self._labels * max(self._levels[i] for i in others) > _AHEAD_ENTRIES:
            return None
        number = np.arange(classes, dtype=np.uint32).reshape(self.classes, levels)
        base = self._renumbered(self._columns[likely], levels, number, classes)
        columns = [self._columns[i] for i in others]
        tables = count_tables(base, classes * self._labels, columns, [self._levels[i] for i in others])
        return _Ahead(likely, base, dict(zip(others, tables, strict=True)))

    def _best_but(self, column: int) -> int | None:
        """The best other candidate of the last round: the likeliest to be chosen in the next one."""
        others = [i for i in self._after if i != column]
        best = min if self.mode == PAIRS else max
        return best(others, key=lambda i: self._after[i], default=None)

    def _tables_are_small(self) -> bool:
        widest = max((self._levels[i] for i in self._columns), default=1)
        return self.classes * self._labels * widest <= _TABLE_ENTRIES

    def _table_value(self, table: Table) -> int:
        """The value that the counts [class * labels + label, level] give."""
        from dpublish.mechanisms.kernels.partition import table_score

        how = (self.mode, self.grid, self.charge)
        return int(table_score(table.reshape(-1), table.shape[1], self.classes, self._labels, *how))

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


def _nothing(rows: int) -> Codes:
    """A column with a single level."""
    return np.zeros(rows, dtype=np.uint8)


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
