"""How a joined histogram spends: one interface over pure epsilon (discrete Laplace) and zCDP (discrete Gaussian).

A `Purse` holds the whole budget. Every step names its exact share of it; the shares of all steps add up to at most one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.models.junction_tree.measured import laplace_variance
from dpublish.noise.base import IntArray, Noise

NoiseName = Literal["laplace", "gaussian"]

ROOT_TWO = Fraction(99, 70)
"""A rational above the square root of 2, by five parts in a hundred thousand."""

_ROOT_GRID = 10**12
_WEIGHT_GRID = 64
_WORD = 1 << 62


@dataclass(frozen=True)
class Purse:
    """`amount` is epsilon for Laplace noise and rho for Gaussian noise."""

    noise: NoiseName
    amount: Fraction
    rows_per_unit: int
    replace: bool

    @classmethod
    def for_schema(cls, noise: NoiseName, amount: Fraction, schema: Schema) -> Purse:
        return cls(noise, amount, schema.unit.max_rows, schema.neighbours == "replace-one")

    @property
    def row_changes(self) -> int:
        """Rows by which neighbouring data differ, removals and additions together: the L1 distance of any table."""
        return self.rows_per_unit * (2 if self.replace else 1)

    @property
    def table_sensitivity(self) -> Fraction:
        """Of one table of counts: in L1 for Laplace noise, in L2 for Gaussian noise."""
        if self.noise == "laplace":
            return Fraction(self.row_changes)
        return self.rows_per_unit * (ROOT_TWO if self.replace else Fraction(1))

    def count(self, noise: Noise, counts: IntArray, share: Fraction, label: str) -> IntArray:
        """A table of counts with noise, for `share` of the purse."""
        if self.noise == "laplace":
            return noise.laplace(counts, sensitivity=self.table_sensitivity, epsilon=self.amount * share, label=label)
        return noise.gaussian(counts, sensitivity=self.table_sensitivity, rho=self.amount * share, label=label)

    def choose(self, noise: Noise, scores: Sequence[int] | IntArray, weight: int, share: Fraction, label: str) -> int:
        """One index, for `share` of the purse. Scores move by at most `weight` a changed row."""
        sensitivity = Fraction(self.row_changes * weight)
        if max(abs(score) for score in scores) < _WORD:
            scores = np.array(scores, dtype=np.int64)  # the same choice, made faster
        if self.noise == "laplace":
            return noise.choose(scores, sensitivity=sensitivity, epsilon=self.amount * share, label=label)
        # an exponential mechanism of epsilon has range epsilon, and so is (epsilon^2 / 8)-zCDP; permute-and-flip is not
        epsilon = root_below(8 * self.amount * share)
        return noise.choose(scores, sensitivity=sensitivity, epsilon=epsilon, rule="exponential", label=label)

    def can_choose(self, share: Fraction) -> bool:
        """Whether `share` is enough for a choice at all: roots are rounded down, and may come to nothing."""
        return self.noise == "laplace" or root_below(8 * self.amount * share) > 0

    def scale(self, share: Fraction) -> Fraction:
        """What the release states of the noise of a table: its scale (Laplace), or the square of sigma (Gaussian)."""
        if self.noise == "laplace":
            return self.table_sensitivity / (self.amount * share)
        return self.table_sensitivity**2 / (2 * self.amount * share)

    def deviation(self, share: Fraction) -> float:
        """The standard deviation of a cell, for plans and for the size of groups."""
        scale = float(self.scale(share))
        return math.sqrt(2) * scale if self.noise == "laplace" else math.sqrt(scale)

    def variance(self, share: Fraction) -> float:
        """The variance of a cell, as a reader works it out from the stated scale."""
        scale = float(self.scale(share))
        return laplace_variance(scale) if self.noise == "laplace" else scale

    def split(self, cells: Sequence[int]) -> list[Fraction]:
        """Parts of one, a table: those that make the sum of absolute errors over all cells smallest.

        Errors add up to sum m_k / e_k (Laplace) or sum m_k / sqrt(r_k) (Gaussian) for tables of m_k cells, so that e_k goes
        with m_k^(1/2) and r_k with m_k^(2/3). Large tables are mostly empty, hence the cap.
        """
        power = 1 / 2 if self.noise == "laplace" else 2 / 3
        weights = [max(1, round(_WEIGHT_GRID * min(count, 4096) ** power)) for count in cells]
        return [Fraction(weight, sum(weights)) for weight in weights]


def root_below(value: Fraction) -> Fraction:
    """A rational at most the square root."""
    return Fraction(math.isqrt(value.numerator * _ROOT_GRID**2 // value.denominator), _ROOT_GRID)


def zeros(cells: int) -> IntArray:
    return np.zeros(cells, dtype=np.int64)
