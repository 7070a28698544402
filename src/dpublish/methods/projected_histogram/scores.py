"""What makes a column worth choosing: scores with a proved sensitivity, for choosing columns one at
a time.

In: the partition of the private rows by the columns chosen so far. Out: one exact number a
candidate, and how far one privacy unit can move it. `selection_scores.proof.md` has the arguments.

    PairCount      pairs of rows with different labels that the candidate newly discerns (Vinterbo
                   2012); n must be public
    PairsPerRow    the same divided by the number of rows, which may then be private
    Purity         rows one expects to name correctly within the cells, each cell charged for being
                   there
    Contrast       rows whose label is not that of their class at large, less what chance gives
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpublish.errors import PrivateSideError
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.partition import (
    ContrastPartition,
    PairPartition,
    Partition,
    PurityPartition,
)

GRID = 64
"""Purity is counted in 64ths of a row; rounding down to them costs no sensitivity."""

CHANCE = Fraction(3, 20)
"""What Contrast is charged, times sqrt(cells * rows): sqrt(p (1 - p) / (2 pi)) is 0.2 for even
labels and 0.12 for a tenth. By `python -m benchmarks.defaults scores`."""


class SelectionScore(abc.ABC):
    """Scores the candidates of one step. `sensitivity` is the largest change of any score between
    neighbouring data."""

    name: ClassVar[str]

    @property
    @abc.abstractmethod
    def sensitivity(self) -> Fraction: ...

    @abc.abstractmethod
    def start(self, table: CodedTable) -> Partition:
        """The partition by no column at all, in the form that this score reads."""

    @abc.abstractmethod
    def of(
        self, partition: Partition, candidates: Sequence[int], *, more: int = 0
    ) -> list[Fraction]:
        """The score of each candidate, given the columns chosen so far; `more` is how many will be
        chosen after this one."""


@dataclass(frozen=True)
class PairCount(SelectionScore):
    """Pairs newly discerned, when one of `units` units, of at most `rows_per_unit` rows each, is
    replaced by another."""

    units: int
    rows_per_unit: int = 1

    name: ClassVar[str] = "discernibility"

    @property
    def sensitivity(self) -> Fraction:
        c = self.rows_per_unit
        # pairs of c rows with the rows of the other units, and among themselves; never 0, which
        # would be no choice at all
        return Fraction(max(1, c * c * (self.units - 1) + c * (c - 1) // 2))

    def start(self, table: CodedTable) -> Partition:
        """Refuses more rows than there can be: a row has as many pairs as there are others."""
        if table.rows > self.units * self.rows_per_unit:
            raise PrivateSideError()
        return PairPartition(table)

    def of(
        self, partition: Partition, candidates: Sequence[int], *, more: int = 0
    ) -> list[Fraction]:
        after = partition.after(candidates, more=more)
        now = partition.value()
        return [Fraction(now - left) for left in after]


@dataclass(frozen=True)
class PairsPerRow(SelectionScore):
    """Pairs newly discerned, less half of those that could be, divided by the number of rows.

    `labels` is the number of declared labels; `row_changes` is how many rows neighbouring data may
    differ by, removals and additions together. Subtracting what is the same for all candidates
    changes no choice, and centres the changes.
    """

    labels: int
    row_changes: int = 1

    name: ClassVar[str] = "discernibility"

    @property
    def sensitivity(self) -> Fraction:
        return self.row_changes * pair_rate_change(self.labels)

    def start(self, table: CodedTable) -> Partition:
        return PairPartition(table)

    def of(
        self, partition: Partition, candidates: Sequence[int], *, more: int = 0
    ) -> list[Fraction]:
        after = partition.after(candidates, more=more)
        now, rows = partition.value(), max(1, partition.rows)
        return [Fraction(now - 2 * left, 2 * rows) for left in after]


@dataclass(frozen=True)
class Purity(SelectionScore):
    """sum over cells of max(0, sum_y count_y^2 / count - charge), in rows, rounded down to the grid
    cell by cell.

    A column of pure noise gains less than one row for each cell it makes, and is charged `charge`
    rows for it.
    """

    charge: int
    row_changes: int = 1

    name: ClassVar[str] = "prediction"

    @property
    def sensitivity(self) -> Fraction:
        return Fraction(self.row_changes)

    def start(self, table: CodedTable) -> Partition:
        return PurityPartition(table, grid=GRID, charge=self.charge)

    def of(
        self, partition: Partition, candidates: Sequence[int], *, more: int = 0
    ) -> list[Fraction]:
        return [Fraction(value, GRID) for value in partition.after(candidates, more=more)]


@dataclass(frozen=True)
class Contrast(SelectionScore):
    """Half of sum over classes, labels and levels of max(0, count - rows of the level * share of
    the label in the class), rounded down to the grid class by class, less a public charge for the
    number of cells.

    Linear in how far shares differ, where purity is quadratic: rare labels and weak effects stand
    out from the noise of a choice. `rows` is the public number of rows, for the charge: a column
    of pure noise has about sqrt(cells * rows * p (1 - p) / (2 pi)) rows of contrast.
    """

    rows: int
    row_changes: int = 1

    name: ClassVar[str] = "contrast"

    @property
    def sensitivity(self) -> Fraction:
        return Fraction(self.row_changes)

    def charge(self, cells: int) -> int:
        """CHANCE * sqrt(cells * rows), in units of the grid, rounded down."""
        return math.isqrt(int(CHANCE**2 * GRID**2 * min(cells, self.rows) * self.rows))

    def start(self, table: CodedTable) -> Partition:
        return ContrastPartition(table, grid=GRID)

    def of(
        self, partition: Partition, candidates: Sequence[int], *, more: int = 0
    ) -> list[Fraction]:
        assert isinstance(partition, ContrastPartition), "made by start"
        return [
            Fraction(value - self.charge(partition.cells_after(column)), GRID)
            for column, value in zip(
                candidates, partition.after(candidates, more=more), strict=True
            )
        ]


def pair_rate_change(labels: int) -> Fraction:
    """How far one added or removed row moves (h - u/2) / n, for discordant pairs h among u, with
    this many labels."""
    labels = max(2, labels)
    return Fraction(3 * labels - 4, 4 * (labels - 1))
