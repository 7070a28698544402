"""What discrete Gaussian noise costs in (epsilon, delta), beside private choices: but for a part in
a hundred exact, where the way over zCDP loses a tenth.

Steps share one amount rho, as in `BudgetSplit`: a table of counts has noise of variance
D^2 / (2 rho_k) + EXTRA_VARIANCE, a private choice by the exponential mechanism has
epsilon_k^2 <= 8 rho_k, and all rho_k add up to at most rho, whatever each step made of the answers
before. Then everything together is as private as one continuous Gaussian, whose law is known in
closed form. The proofs are in gaussian.proof.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpublish.declare.relation import Relation
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.privacy.cost import _RESULT_DIGITS, Cost, _decimal, largest_rho

if TYPE_CHECKING:
    from flint import arb

EXTRA_VARIANCE = Fraction(2)
"""Discrete Gaussian noise with so much more variance hides at least what continuous noise without
it hides."""
APART = Fraction(1, 1 << 54)
"""But for this much: how far the logarithms of two probabilities may lie apart for each count that
differs (above 4 exp(-4 pi^2), which is 2.9e-17)."""
_BITS = 256
_SEARCH = 48


def delta_of_gaussian(square: Fraction, epsilon: Fraction) -> arb:
    """A ball around the smallest delta of continuous Gaussian noise: mu^2 = `square` is the squared
    distance of neighbours over the variance (Balle and Wang 2018)."""
    from flint import arb, ctx

    with ctx.workprec(_BITS):
        mu = (arb(square.numerator) / square.denominator).sqrt()
        limit = arb(epsilon.numerator) / epsilon.denominator
        # P(Z <= x) = erfc(-x / sqrt 2) / 2
        root = arb(2).sqrt()
        left = ((limit / mu - mu / 2) / root).erfc() / 2
        right = ((limit / mu + mu / 2) / root).erfc() / 2
        return left - limit.exp() * right


@dataclass(frozen=True)
class Steps:
    """What is known beforehand of steps that share one rho.

    `choice_share` of it is for choices. No choice costs more than `crowding` (below one) times what
    is set aside for counts that come after it. One unit changes at most `touched` counts of all
    tables together.
    """

    choice_share: Fraction
    crowding: Fraction
    touched: int


def is_private(steps: Steps, rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether steps that share `rho` are surely (epsilon, delta)-DP together."""
    from flint import arb, ctx

    apart = steps.touched * APART
    if epsilon <= 2 * apart or not 0 <= steps.crowding < 1:
        return False
    share = steps.choice_share
    square = 2 * rho * (1 - share + share / (1 - steps.crowding))
    with ctx.workprec(_BITS):
        factor = (arb(apart.numerator) / apart.denominator).exp()
        bound = factor * delta_of_gaussian(square, epsilon - 2 * apart)
        return bool(bound <= arb(delta.numerator) / delta.denominator)


@lru_cache(maxsize=256)
def largest_gaussian_rho(steps: Steps, epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """The largest rho found, rounded down, for which `is_private` holds; None where that is no more
    than the way over zCDP gives.

    >>> none = Fraction(0)
    >>> rho = largest_gaussian_rho(Steps(none, none, 2), Fraction(1), Fraction("1e-9"))
    >>> round(float(rho / largest_rho(1, "1e-9")), 2)
    1.11
    """
    low = largest_rho(epsilon, delta)
    if not is_private(steps, low, epsilon, delta):
        return None
    high = 2 * low
    while is_private(steps, high, epsilon, delta):
        low, high = high, 2 * high
    for _ in range(_SEARCH):
        middle = Fraction(_decimal((low + high) / 2, ROUND_FLOOR, _RESULT_DIGITS))
        if is_private(steps, middle, epsilon, delta):
            low = middle
        else:
            high = middle
    return low


def budget_of_counts(cost: Cost, relation: Relation, touched: int) -> BudgetSplit:
    """The budget of steps that are all noisy counts, of which one unit changes at most `touched`:
    for an epsilon with a delta as one Gaussian, where that allows more than the way over zCDP."""
    plain = BudgetSplit.of(cost, relation)
    if cost.kind != "approximate":
        return plain
    rho = largest_gaussian_rho(Steps(Fraction(0), Fraction(0), touched), cost.epsilon, cost.delta)
    if rho is None:
        return plain
    return BudgetSplit("gaussian", rho, relation, EXTRA_VARIANCE)
