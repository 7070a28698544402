"""What can be measured of a list of queries, and how far one unit moves it: the sensitivities that
workload.proof.md proves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpublish.models.residuals import Form, Grouping, Resolution
from dpublish.privacy.budget_split import BudgetSplit, noise_variance

if TYPE_CHECKING:
    from dpublish.workloads.query_classes import Table

MAX_COMPARED = 1 << 26
"""Values that are compared to find the largest distance of two columns of a list."""


@dataclass(frozen=True)
class Measurement:
    """One thing to measure, and its share of the budget."""

    form: Form
    at: Resolution
    share: Fraction

    def sensitivity(self, grouping: Grouping, budget: BudgetSplit) -> Fraction:
        """How far a unit moves it, in the norm of the budget's noise (workload.proof.md, lemmas 1
        and 2)."""
        if self.form == "table":
            return budget.sensitivity
        return residual_sensitivity(grouping.radices(self.at), budget)

    def scale(self, grouping: Grouping, budget: BudgetSplit) -> Fraction:
        """The scale of Laplace noise, or the square of sigma of Gaussian noise."""
        return budget.scale_for(self.sensitivity(grouping, budget), self.share)

    def variance(self, grouping: Grouping, budget: BudgetSplit) -> float:
        return noise_variance(self.scale(grouping, budget), budget.law)


def residual_sensitivity(radices: Sequence[int], budget: BudgetSplit) -> Fraction:
    """How far a unit moves a residual that is multiplied by the product of its radices b.

    One row moves it by the product of 2 (b - 1) in L1 and by the root of the product of b (b - 1)
    in L2. Two rows, one that leaves and one that comes, by twice the former, and by the root of 2
    (product of b (b - 1)) m / (m - 1) with m the least radix.
    """
    rows, whole = budget.relation.max_rows, math.prod(radices)
    replaced = budget.relation.replaces and bool(radices)
    if budget.law == "laplace":
        each = math.prod(2 * (radix - 1) for radix in radices)
        return Fraction(rows * each * (2 if replaced else 1))
    square = Fraction(whole * math.prod(radix - 1 for radix in radices))
    if replaced:
        least = min(radices)
        square = 2 * square * Fraction(least, least - 1)
    return rows * root_above(square)


def root_above(value: Fraction) -> Fraction:
    """A rational at least the square root, by less than two parts in a million."""
    grid = 10**6
    root = math.isqrt(value.numerator * value.denominator * grid * grid)
    exact = root * root == value.numerator * value.denominator * grid * grid
    return Fraction(root if exact else root + 1, value.denominator * grid)


def list_sensitivity(table: Table, budget: BudgetSplit) -> Fraction:
    """How far a unit moves all answers of a list together, in the norm of the noise (lemma 3 of
    workload.proof.md). `table` has one row per query, one column per cell."""
    power = 1 if budget.law == "laplace" else 2
    single = _largest_norm(table, power)
    moved = single
    if budget.relation.replaces:
        if table.shape[0] * table.shape[1] ** 2 <= MAX_COMPARED:
            wide = table.astype(np.int64)
            pair = max(
                int((np.abs(wide - wide[:, [place]]) ** power).sum(axis=0).max())
                for place in range(table.shape[1])
            )
        else:
            ranges = table.max(axis=1).astype(np.int64) - table.min(axis=1)
            pair = min(2**power * single, int((ranges**power).sum()))
        moved = max(single, pair)
    root = Fraction(moved) if power == 1 else root_above(Fraction(moved))
    return budget.relation.max_rows * root


def _largest_norm(table: Table, power: int) -> int:
    """The largest sum of |value|^power of a column."""
    total = np.zeros(table.shape[1], dtype=np.int64)
    for row in table:
        total += row.astype(np.int64) ** power
    return int(total.max())


def padded(values: NDArray[Any], grouping: Grouping, at: Resolution) -> NDArray[Any]:
    """Values over codes as values over leaves: codes that are not there count nothing."""
    lead = values.ndim - len(at)
    room = zip(grouping.shape(at), values.shape[lead:], strict=True)
    return np.pad(values, [(0, 0)] * lead + [(0, leaves - codes) for leaves, codes in room])
