"""Statistics: what a mechanism may ask of rows.

A mechanism names the exact numbers it wants; the private side (`counting/compute.py`) computes them
from rows. Nothing here reads a row or draws noise, so a worker of a cluster may import it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpublish.arrays import Ints, Words
from dpublish.declare.domain import Axis, Domain
from dpublish.declare.grid import TreeShape


class Private:
    """Holds private numbers or rows, and shows none of them: a repr ends up in tracebacks and
    logs. A dataclass of this kind has none of its own."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private)"


class Statistic:
    """A kind of exact private numbers. The private side knows for each kind how to get it from rows
    (`counting/compute.py`)."""


@dataclass(frozen=True)
class CellCounts(Statistic):
    """A statistic: how many kept rows fall into each cell of `domain`. Answered by
    `SparseCounts`."""

    domain: Domain


@dataclass(frozen=True)
class CodedRows(Statistic):
    """A statistic: the kept rows themselves as codes of `domain`, one array per column. Answered by
    a list of code arrays. `ordered`: the last bits of what is made of them follow their order."""

    domain: Domain
    ordered: bool = False


@dataclass(frozen=True, repr=False)
class SparseCounts(Private):
    """Exact counts of the occupied cells, sorted by cell."""

    cells: Words
    counts: Ints

    @classmethod
    def none(cls) -> SparseCounts:
        return cls(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))

    @classmethod
    def summed(cls, cells: Words, counts: Ints) -> SparseCounts:
        """From cells in any order, which may occur more than once."""
        distinct, place = np.unique(cells, return_inverse=True)
        sums = np.zeros(distinct.size, dtype=np.int64)
        np.add.at(sums, place, counts)
        return cls(distinct, sums)

    @property
    def total(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True)
class ContingencyTables(Statistic):
    """A statistic: how many kept rows fall into each cell of several tables, each over some columns
    of `domain`, given by their places. Answered by `TableCounts`. `groups` gives every level of
    some columns a group, which is then counted in its place."""

    domain: Domain
    tables: tuple[tuple[int, ...], ...]
    groups: Mapping[int, Ints] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many levels, or groups of them, each column has."""
        return tuple(
            int(self.groups[place].max()) + 1 if place in self.groups else size
            for place, size in enumerate(self.domain.shape)
        )


@dataclass(frozen=True, repr=False)
class TableCounts(Private):
    """Exact counts of several tables by their columns, each shaped by the levels of these."""

    tables: Mapping[tuple[int, ...], Ints]


@dataclass(frozen=True)
class Tabulation(Statistic):
    """A statistic: contingency tables over `domain`, for a mechanism that asks for some, and for
    others when it has seen what it published of those. Answered by a `Tabulator`."""

    domain: Domain


@dataclass(frozen=True, repr=False)
class Tabulator(Private):
    """Counts tables over groups of levels, as often as it is asked: one pass over the rows each;
    or all cells of a domain whose bins are made of those of this one."""

    count: Callable[[ContingencyTables], TableCounts]
    domain: Domain
    cells: Callable[[Domain], SparseCounts]

    def tables(
        self, tables: Sequence[tuple[int, ...]], groups: Mapping[int, Ints]
    ) -> Mapping[tuple[int, ...], Ints]:
        return self.count(ContingencyTables(self.domain, tuple(tables), groups)).tables


@dataclass(frozen=True)
class GridPoints(Statistic):
    """A statistic: the codes of the kept rows in a grid, counted. Answered by `SparseCounts` over
    codes. With `absent`, rows that lack a value of a column that may be missing, and are inside
    the bounds of the others, are kept under the code `shape.absent`."""

    shape: TreeShape
    absent: bool = False


@dataclass(frozen=True)
class ColumnValues(Statistic):
    """A statistic: what single columns hold, for a mechanism that finds that out. Answered by a
    `ColumnReader`."""

    columns: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class ColumnReader(Private):
    """Looks at one column, as often as it is asked: one pass over the rows each.

    `texts` gives the sorted texts of a column and how many units have each, where a unit counts
    for at most as many texts as it may have rows. `counts` gives the kept rows by code of an axis.
    """

    texts: Callable[[str], tuple[tuple[str, ...], Ints]]
    counts: Callable[[Axis], Ints]
