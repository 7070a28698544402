"""How far one unit can move what is counted: the one stability map.

A privacy claim is about neighbouring data sets, and the schema says which are neighbours: under
`add-remove-one` one unit is there or not, under `replace-one` its rows are exchanged for those of
another. A unit owns at most `max_rows` rows, because more are cut off before anything is counted.
From these two facts follows how far the counts of a partition of the rows (a histogram, a marginal,
one level of a tree) lie apart at most. Let a unit own c rows:

    =============== ============== ==============
    distance        add-remove-one replace-one
    =============== ============== ==============
    rows, and L1    c              2 c
    L2              c              sqrt(2) c
    L-infinity      c              c
    =============== ============== ==============

L1: every changed row moves one count by one. L-infinity: no count gains or loses more than c, since
rows that leave lower it and rows that come raise it. L2: the gains and the losses are non-negative
vectors g and l with sums of at most c each, and g - l has squared length at most
|g|^2 + |l|^2 <= c^2 + c^2; under add-remove-one one of the two is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Neighbours = Literal["replace-one", "add-remove-one"]

ROOT_TWO = Fraction(1_414_214, 1_000_000)
"""A rational above the square root of 2, by four parts in ten million: its square is above
2.000001."""


@dataclass(frozen=True)
class Relation:
    """The neighbour relation of a schema, with the most rows that a unit owns.

    >>> Relation("replace-one", max_rows=3).l1
    Fraction(6, 1)
    """

    neighbours: Neighbours
    max_rows: int

    @property
    def replaces(self) -> bool:
        """Whether a unit is exchanged for another, so that the number of units is public."""
        return self.neighbours == "replace-one"

    @property
    def rows(self) -> int:
        """Rows by which neighbouring data differ, those that leave and those that come together."""
        return self.max_rows * (2 if self.replaces else 1)

    @property
    def l1(self) -> Fraction:
        """How far the counts of a partition of the rows move, in L1."""
        return Fraction(self.rows)

    @property
    def l2(self) -> Fraction:
        """The same in L2, rounded up."""
        return self.max_rows * (ROOT_TWO if self.replaces else Fraction(1))

    @property
    def linf(self) -> Fraction:
        """The same for the count that moves most."""
        return Fraction(self.max_rows)
