"""The partition of coded rows that a set of chosen columns induces.

In: code arrays of several columns and of a label column (private). Out: exact integer scores of
what one more column would do to the partition, all candidates at once, in time proportional to rows
times candidates.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Codes
from dpublish.declare.statistic import Private
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.contingency import (
    Digit,
    Table,
    count_passes,
    count_tables,
    join_digits,
    renumber,
)

T = TypeVar("T")

PAIRS, PURITY = (
    0,
    1,
)  # as in dpublish.methods.projected_histogram.kernels, which is imported when it is needed
_TABLE_ENTRIES = 1 << 19
_AHEAD_ENTRIES = 1 << 19
_ROWS_AN_ENTRY = 8
_SCOUT_ROWS = 1 << 17
_SCOUT_SHARE = 64
_SCOUT_LEAST = 1 << 10
_SPLIT_ENTRIES = 1 << 24
_CLASS_ENTRIES = 1 << 22
_LABELS = -1
_WORTH_THREADS = 1 << 20


class Partition(abc.ABC):
    """The classes of rows that agree on all columns chosen so far; at first, one class. Private.

    A subclass gives each class a value that its label counts determine; the value of the partition
    is the sum. Rows of classes whose value is 0, and stays 0 under any refinement, may be forgotten
    on the way.

    As long as all contingency tables are small, rows are not moved: the class of a row is a number
    in mixed radix, and candidates are scored from tables. Tables are made over more columns than
    are asked for, those most likely to be chosen next: if they are, the next candidates have been
    counted already. That saves time and changes no score. Later the rows are sorted by class.
    """

    mode: ClassVar[int]
    mixed: ClassVar[bool]
    """Whether classes with a single label have the value 0."""

    grid: int = 1
    charge: int = 0

    def __init__(self, table: CodedTable) -> None:
        self.rows = table.rows
        self.classes = min(1, table.rows)
        self._table = table
        self._chosen: list[int] = []
        self._labels, self._levels = table.labels, table.levels
        self._columns: dict[int, Codes] = dict(enumerate(table.columns))
        self._labels_of = table.labels_of
        self._digits: list[Digit] = []
        self._dense = False
        self._group = np.zeros(0, dtype=np.uint32)
        self._starts: NDArray[np.int64] | None = None
        self._value: int | None = None
        self._after: dict[int, int] = {}
        self._tables: dict[int, Table] = {}
        self._ahead: Forecast | None = None
        self._passed = 0
        self._next_best: int | None = None
        if not self._tables_are_small():
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
        """Counts [class * labels + label], as a table of one level; from those of any column that
        was counted."""
        for table in self._tables.values():
            return np.asarray(table.sum(axis=1, dtype=np.uint32, keepdims=True))
        return self._count([_nothing(self.rows)], [1])[0]

    def _count(
        self, columns: Sequence[Codes], levels: Sequence[int], path: Sequence[int] = ()
    ) -> list[Table]:
        """Tables [class * labels + label, level] of columns, when the classes are split by the
        columns of `path` as well."""
        digits = [*self._digits, *((self._columns[i], self._levels[i]) for i in path)]
        cells = self.classes * math.prod(self._levels[i] for i in path) * self._labels
        return count_tables(
            join_digits([*digits, (self._labels_of, self._labels)], cells), cells, columns, levels
        )

    def after(self, candidates: Sequence[int], *, more: int = 0) -> list[int]:
        """The value that refining by each of the candidates would give. A column can be refined by
        once.

        `more` says how many times the same will be asked again, each time after refining by one of
        the candidates.
        """
        starts = self._starts
        if starts is None:
            values = self._after_by_table(candidates, more)
        else:

            def some(part: Sequence[int]) -> list[int]:
                return [
                    self._score_by_class(starts, self._columns[i], self._levels[i]) for i in part
                ]

            values = _in_threads(some, candidates, self._group.size)
        self._after = dict(zip(candidates, values, strict=True))
        return values

    def refine(self, column: int) -> None:
        """Split every class by the values of one more column."""
        from dpublish.methods.projected_histogram.kernels import split_by_class

        codes, levels = self._columns.pop(column), self._levels[column]
        value = self._after.get(column)
        ahead, self._ahead = self._ahead, None
        tables, self._tables = self._tables, {}
        if self._starts is not None:
            self.classes = split_by_class(self._starts, codes, levels, self._group)
            self._sort()
        elif ahead is not None and ahead.path[self._passed : self._passed + 1] == (column,):
            self._ahead, self._passed = ahead, self._passed + 1
            self._tables = ahead.tables(self._passed)
            self._digits.append((codes, levels))
            self.classes *= levels
        else:
            self._split(codes, levels, tables.get(column))
        self._value = value  # known already if the column was a candidate
        others = [i for i in self._after if i != column]
        self._next_best = self._best(others, [self._after[i] for i in others]) if others else None
        self._after = {}
        self._chosen.append(column)

    def keep_counts(self, column: int) -> None:
        """Leave the counts over all columns chosen and one more with the table, if they happen to
        be known."""
        counts = self._tables.get(column)
        if (
            counts is not None and self.rows and not self._dense
        ):  # without rows there is no class either
            levels = [self._levels[i] for i in self._chosen]
            shaped = counts.reshape(*levels, self._labels, self._levels[column])
            self._table.keep_counts((*self._chosen, column), shaped.swapaxes(-1, -2))

    def _split(self, codes: Codes, levels: int, table: Table | None) -> None:
        """Refine by one column and number the classes that occur densely."""
        if table is None:
            (table,) = self._count([codes], [levels])
        occurs = table.reshape(self.classes, self._labels, levels).any(axis=1)
        number = np.cumsum(occurs, dtype=np.uint32) - np.uint32(1)
        self.classes = int(np.count_nonzero(occurs))
        group = renumber([*self._digits, (codes, levels)], number, self.classes)
        self._digits, self._dense = [(group, self.classes)], True
        if not self._tables_are_small():
            self._group = np.asarray(group, dtype=np.uint32)
            self._sort()

    def _after_by_table(self, candidates: Sequence[int], more: int) -> list[int]:
        known = self._tables
        missing = [i for i in candidates if i not in known]
        path = self._likely(candidates, more) if len(missing) == len(candidates) else []
        counted = [i for i in missing if i not in path]
        levels = [self._levels[i] for i in counted]
        tables = self._count([self._columns[i] for i in counted], levels, path) if counted else []
        found = dict(zip(counted, tables, strict=True))
        if path:
            widths = [self._levels[i] for i in path]
            self._ahead, self._passed = Forecast(path, widths, self.classes, self._labels, found), 0
            found = self._ahead.tables(0)
        known.update(found)

        def some(part: Sequence[int]) -> list[int]:
            return [self._table_value(known[i]) for i in part]

        return _in_threads(some, candidates, max((known[i].size for i in candidates), default=0))

    def _likely(self, candidates: Sequence[int], more: int) -> list[int]:
        """Columns that will probably be chosen one after the other, as far as it pays to count over
        them at once.

        After a first choice, the one that was next best then; before it, those that are best on
        small parts of the rows.
        """
        if more < 1:
            return []
        if not self._chosen:
            return self._scouted(candidates, more)
        guesses = [i for i in candidates if i == self._next_best and len(candidates) > 1]
        return [i for i in guesses if self._fits(self.classes * self._labels, candidates, i)]

    def _scouted(self, candidates: Sequence[int], more: int) -> list[int]:
        """Where two parts of the rows agree on the best, it is foreseen; where not, a guess only if
        it takes little longer."""
        path: list[int] = []
        sampled = min(_SCOUT_ROWS, self.rows // _SCOUT_SHARE)
        if sampled < _SCOUT_LEAST:
            return path
        scouts = [self._scout(part) for part in self._table.samples(2, sampled)]
        left, cells, agreed = list(candidates), self._labels, True
        while (
            agreed
            and len(path) < more
            and len(left) > 1
            and any(self._fits(cells, left, i) for i in left)
        ):
            guess, other = (self._best(left, scout.after(left)) for scout in scouts)
            agreed = guess == other
            levels = [self._levels[i] for i in left if i != guess]
            passes = count_passes(cells, [*levels, self._levels[guess]], self.rows)
            longer = 2 * count_passes(cells * self._levels[guess], levels, self.rows) > 3 * passes
            if (longer and not agreed) or not self._fits(cells, left, guess):
                break
            path.append(guess)
            left.remove(guess)
            cells *= self._levels[guess]
            for scout in scouts:
                scout.refine(guess)
        return path

    def _fits(self, cells: int, candidates: Sequence[int], guess: int) -> bool:
        """Whether the tables over one more column, in as many as `cells` cells so far, are small
        for the number of rows."""
        widest = max(self._levels[i] for i in candidates if i != guess)
        return cells * self._levels[guess] * widest <= min(
            _AHEAD_ENTRIES, self.rows // _ROWS_AN_ENTRY
        )

    def _best(self, candidates: Sequence[int], values: Sequence[int]) -> int:
        best = min(values) if self.mode == PAIRS else max(values)
        return candidates[values.index(best)]

    @abc.abstractmethod
    def _scout(self, table: CodedTable) -> Partition:
        """A partition of the same kind, of a sample of the rows."""

    @property
    def _how(self) -> tuple[int, int, int]:
        """What the kernels have to know of the value of a class."""
        return self.mode, self.grid, self.charge

    def _tables_are_small(self) -> bool:
        widest = max((self._levels[i] for i in self._columns), default=1)
        return self.classes * self._labels * widest <= _TABLE_ENTRIES

    def _table_value(self, table: Table) -> int:
        """The value that the counts [class * labels + label, level] give."""
        from dpublish.methods.projected_histogram.kernels import table_score

        return int(
            table_score(table.reshape(-1), table.shape[1], self.classes, self._labels, *self._how)
        )

    def _sort(self) -> None:
        """Sort all rows by class, leaving out the classes that no longer matter."""
        from dpublish.methods.projected_histogram.kernels import gather, sort_by_class

        before = self._group.size
        order = np.empty(before, dtype=np.uint32)
        self._starts = sort_by_class(
            self._group, self.classes, self._labels_of, self.mixed, self.charge, order
        )
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
        from dpublish.methods.projected_histogram.kernels import score_by_class

        if levels * self._labels > _CLASS_ENTRIES:
            return self._score_by_sorting(codes, levels)
        return int(score_by_class(starts, self._labels_of, codes, levels, self._labels, *self._how))

    def _score_by_sorting(self, codes: Codes, levels: int) -> int:
        """For columns so wide, with so many labels, that even the table of one class would be
        large."""
        from dpublish.methods.projected_histogram.kernels import score_by_class

        _, cells = np.unique(
            self._group.astype(np.uint64) * np.uint64(levels) + codes, return_inverse=True
        )
        order = np.argsort(cells, kind="stable")
        starts = np.concatenate(([0], np.cumsum(np.bincount(cells)))).astype(np.int64)
        # each (class, level) cell as a class of its own, with one level
        one = np.zeros(cells.size, dtype=np.uint8)
        return int(score_by_class(starts, self._labels_of[order], one, 1, self._labels, *self._how))


class PairPartition(Partition):
    """Value of a class: its pairs of rows whose labels differ, which the chosen columns leave
    undiscerned."""

    mode = PAIRS
    mixed = True

    def _scout(self, table: CodedTable) -> Partition:
        return PairPartition(table)


class PurityPartition(Partition):
    """Value of a class: max(0, floor(grid * sum_y count_y^2 / count) - grid * charge).

    sum_y count_y^2 / count is how many rows of the class one expects to name correctly by naming
    labels at the rate at which they occur in it. It is at most count, so that classes of at most
    `charge` rows are worth nothing, whatever splits them.
    """

    mode = PURITY
    mixed = False

    def __init__(self, table: CodedTable, *, grid: int, charge: int) -> None:
        super().__init__(table)
        self.grid, self.charge = grid, charge

    def _scout(self, table: CodedTable) -> Partition:
        return PurityPartition(table, grid=self.grid, charge=self.charge * table.rows // self.rows)


class ContrastPartition(Partition):
    """Value of a class that a column splits: floor(grid * sum over labels and levels of max(0,
    count - rows of the level * share of the label in the class) / 2).

    That is half of how many rows of the class have another label than they would if all levels had
    the shares of the class. A class of one label has no such row, whatever splits it.
    """

    mode = PURITY
    mixed = True

    def __init__(self, table: CodedTable, *, grid: int) -> None:
        super().__init__(table)
        self.grid = grid

    def cells_after(self, column: int) -> int:
        """How many cells the columns chosen so far and one more span."""
        return math.prod(self._levels[i] for i in (*self._chosen, column))

    def _scout(self, table: CodedTable) -> Partition:
        return ContrastPartition(table, grid=self.grid)

    def _table_value(self, table: Table) -> int:
        from dpublish.methods.projected_histogram.kernels import table_contrast

        return int(
            table_contrast(table.reshape(-1), table.shape[1], self.classes, self._labels, self.grid)
        )

    def _score_by_class(self, starts: NDArray[np.int64], codes: Codes, levels: int) -> int:
        from dpublish.methods.projected_histogram.kernels import contrast_by_class

        entries, cells = levels * self._labels, np.zeros(0, dtype=np.int64)
        if entries > _CLASS_ENTRIES:
            # levels and cells that occur, numbered densely: as many as there are rows at the most
            found, codes = np.unique(codes, return_inverse=True)
            levels = found.size
            cells = codes.astype(np.int64) * self._labels + self._labels_of
            found, cells = np.unique(cells, return_inverse=True)
            entries = found.size
        return int(
            contrast_by_class(
                starts, self._labels_of, codes, cells, levels, self._labels, entries, self.grid
            )
        )


class Forecast(Private):
    """Tables of a partition, and of those that follow if the columns of `path` are chosen one after
    the other. Private.

    `tables[i]` holds the counts [class * levels of the path * labels, level] of a column i that is
    not on the path; `classes` and `labels` are the numbers of classes and labels, `levels` those of
    the columns on the path.
    """

    def __init__(
        self,
        path: Sequence[int],
        levels: Sequence[int],
        classes: int,
        labels: int,
        tables: Mapping[int, Table],
    ) -> None:
        self.path, self._levels, self._classes, self._labels = (
            tuple(path),
            tuple(levels),
            classes,
            labels,
        )
        self._tables = [dict(tables)]
        for depth in reversed(range(len(self.path))):
            self._tables.insert(
                0, {i: self._without(depth, table) for i, table in self._tables[0].items()}
            )
        self._add_path()

    def tables(self, depth: int) -> dict[int, Table]:
        """The tables [class * labels + label, level] of the columns left once the first `depth` of
        the path are chosen."""
        return dict(self._tables[depth])

    def _without(self, depth: int, table: Table) -> Table:
        """The margin of a table over the first depth + 1 columns of the path when the last of them
        is summed out."""
        cells, levels = self._classes * math.prod(self._levels[:depth]), table.shape[1]
        shape = (cells, self._levels[depth], self._labels * levels)
        return np.asarray(table.reshape(shape).sum(axis=1, dtype=np.uint32).reshape(-1, levels))

    def _add_path(self) -> None:
        """The columns of the path are candidates too, until they are chosen."""
        any_table = next(iter(self._tables[-1].values()))
        counts = any_table.sum(axis=1, dtype=np.uint32).reshape(
            self._classes, *self._levels, self._labels
        )
        for depth in range(len(self.path)):
            for place in range(depth, len(self.path)):
                others = tuple(1 + i for i in range(depth, len(self.path)) if i != place)
                margin = np.moveaxis(counts.sum(axis=others, dtype=np.uint32), 1 + depth, -1)
                self._tables[depth][self.path[place]] = np.ascontiguousarray(margin).reshape(
                    -1, self._levels[place]
                )


def equal_rows(table: CodedTable) -> tuple[NDArray[np.uint32], int]:
    """A number for each row, the same for rows that agree in all columns and the label, and how
    many numbers there are."""
    from dpublish.methods.projected_histogram.kernels import split_by_table

    group = np.zeros(table.rows, dtype=np.uint32)
    classes = min(1, table.rows)
    for codes, levels in (
        *zip(table.columns, table.levels, strict=True),
        (table.labels_of, table.labels),
    ):
        if classes * levels <= _SPLIT_ENTRIES:
            classes = split_by_table(
                group, codes, levels, classes, np.empty(classes * levels, dtype=np.uint32)
            )
        else:
            cells, where = np.unique(
                group.astype(np.uint64) * np.uint64(levels) + codes, return_inverse=True
            )
            group, classes = where.astype(np.uint32), cells.size
    return group, classes


def _nothing(rows: int) -> Codes:
    """A column with a single level."""
    return np.zeros(rows, dtype=np.uint8)


def _blocks(columns: Mapping[int, Codes], rows: int) -> dict[int, Codes]:
    """Room for `rows` codes of each column. One block of memory a width: many small ones cost more
    than filling them."""
    room: dict[int, Codes] = {}
    for kind in {column.dtype for column in columns.values()}:
        names = [name for name, column in columns.items() if column.dtype == kind]
        room.update(zip(names, np.empty((len(names), rows), dtype=kind), strict=True))
    return {name: room[name] for name in columns}


def _in_threads(
    some: Callable[[Sequence[int]], list[T]], names: Sequence[int], rows: int
) -> list[T]:
    """`some` of all names; when that is much work, the even and the odd ones side by side (kernels
    release the lock)."""
    if rows * len(names) < _WORTH_THREADS or len(names) < 2:
        return some(names)
    with ThreadPoolExecutor(max_workers=1) as pool:
        odd = pool.submit(some, names[1::2])
        answers = [*some(names[0::2]), *odd.result()]
    half = (len(names) + 1) // 2
    return [answers[i // 2 + half * (i % 2)] for i in range(len(names))]
