"""One cost, shared out among the steps of a method: pure epsilon (discrete Laplace) or zCDP
(discrete Gaussian).

A `BudgetSplit` holds the whole cost of a release as what its steps can spend: an epsilon or a rho.
Every step names its exact share of it, and the shares of all steps add up to at most one: epsilons
and rhos add up (sequential composition).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from dpublish.declare.relation import Relation
from dpublish.errors import PlanError
from dpublish.privacy.cost import Cost, largest_rho

Law = Literal["laplace", "gaussian"]
_ROOT_GRID = 10**12


@dataclass(frozen=True)
class BudgetSplit:
    """`amount` is epsilon for Laplace noise and rho for Gaussian noise. Gaussian noise may have
    `extra_variance`, beyond what its rho asks for: see gaussian.py.

    >>> whole = BudgetSplit("laplace", Fraction(1), Relation("replace-one", 1))
    >>> whole.scale(Fraction(1, 4))
    Fraction(8, 1)
    """

    law: Law
    amount: Fraction
    relation: Relation
    extra_variance: Fraction = Fraction(0)

    @classmethod
    def of(cls, cost: Cost, relation: Relation) -> BudgetSplit:
        """A pure cost as an epsilon, any other as a rho."""
        if cost.kind == "pure":
            return cls("laplace", cost.epsilon, relation)
        if cost.kind == "zcdp":
            if cost.delta:
                raise PlanError("Give rho alone; a delta beside it is not used.")
            return cls("gaussian", cost.rho, relation)
        return cls("gaussian", largest_rho(cost.epsilon, cost.delta), relation)

    def holding(self, amount: Fraction) -> BudgetSplit:
        """The same with another amount."""
        return replace(self, amount=amount)

    @property
    def sensitivity(self) -> Fraction:
        """How far one unit moves a table of counts: in L1 for Laplace noise, in L2 for Gaussian
        noise."""
        return self.relation.l1 if self.law == "laplace" else self.relation.l2

    def bounded_range_epsilon(self, share: Fraction) -> Fraction:
        """The epsilon of an exponential mechanism that costs at most `share`.

        Its log-ratios lie in an interval of length epsilon, so that it is (epsilon^2 / 8)-zCDP;
        permute-and-flip is not.
        """
        part = self.amount * share
        return part if self.law == "laplace" else root_below(8 * part)

    def scale(self, share: Fraction) -> Fraction:
        """What a release states of the noise of a table: its scale (Laplace), or the square of
        sigma (Gaussian)."""
        return self.scale_for(self.sensitivity, share)

    def scale_for(self, sensitivity: Fraction, share: Fraction) -> Fraction:
        """The same of numbers that one unit moves by at most `sensitivity`."""
        if self.law == "laplace":
            return sensitivity / (self.amount * share)
        return sensitivity**2 / (2 * self.amount * share) + self.extra_variance

    def deviation(self, share: Fraction) -> float:
        """The standard deviation of a cell, for plans and for the size of groups."""
        scale = float(self.scale(share))
        return math.sqrt(2) * scale if self.law == "laplace" else math.sqrt(scale)

    def variance(self, share: Fraction) -> float:
        """The variance of a cell, as a reader works it out from the stated scale."""
        return noise_variance(self.scale(share), self.law)


def noise_variance(scale: Fraction, law: Law) -> float:
    """The variance of noise from its stated scale (Laplace) or squared sigma (Gaussian)."""
    return laplace_variance(float(scale)) if law == "laplace" else float(scale)


def laplace_variance(scale: float) -> float:
    """Of discrete Laplace noise; never 0, so that it can be divided by."""
    rate = 1.0 / scale
    return max(1e-12, 2.0 * math.exp(-rate) / math.expm1(-rate) ** 2)


def in_proportion(weights: Sequence[int]) -> list[Fraction]:
    """Parts of one, as the weights say."""
    return [Fraction(weight, sum(weights)) for weight in weights]


def root_below(value: Fraction) -> Fraction:
    """A rational at most the square root."""
    return Fraction(math.isqrt(value.numerator * _ROOT_GRID**2 // value.denominator), _ROOT_GRID)
