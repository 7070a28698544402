"""The most that anybody can gain from a release: how often a guess is right, and how often a test
finds what it looks for.

All numbers are upper bounds on what a `Cost` allows, in exact arithmetic and rounded up. The proofs
are in statement.proof.md. A guess is between two data sets that are one step of the neighbour
relation apart and equally likely beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpublish.privacy.cost import Cost, exp_above, ln_below

GRID = 10**12
"""Bounds that follow from rho are searched among multiples of 1 / GRID."""
LARGEST_EPSILON = 60
"""Beyond, exp(epsilon) says nothing: the bound is 1."""
ORDERS = (2, 3, 4, 6, 8, 16)
"""Renyi orders at which tests are bounded, beside the limit 1. Every order gives a true bound;
these are near the best."""


def best_guess(cost: Cost) -> Fraction:
    """How often a guess between two neighbouring data sets is right at most, where 1/2 is
    chance."""
    if cost.delta >= 1:
        return Fraction(1)
    if cost.rho:
        # t is how far the two laws are apart in total variation
        t = _least(lambda t: t * ln_below((1 + t) / (1 - t)) >= cost.rho, Fraction(0))
        right = (1 + t) / 2
    elif cost.epsilon > LARGEST_EPSILON:
        right = Fraction(1)
    else:
        factor = _factor(cost.epsilon)
        right = factor / (1 + factor)
    return (1 - cost.delta) * right + cost.delta


def best_guess_in_two_steps(cost: Cost) -> Fraction:
    """How often a guess is right at most between data sets that are two steps apart."""
    twice = two_steps(cost)
    return (
        best_guess(twice)
        if twice is not None
        else min(Fraction(1), 2 * best_guess(cost) - Fraction(1, 2))
    )


def two_steps(cost: Cost) -> Cost | None:
    """What holds for data sets that are two steps apart; None where rho comes with a delta, which
    has no such rule here."""
    if cost.rho:
        return None if cost.delta else Cost(rho=4 * cost.rho)
    if not cost.delta:
        return Cost(epsilon=2 * cost.epsilon)
    delta = (
        (1 + _factor(cost.epsilon)) * cost.delta if cost.epsilon <= LARGEST_EPSILON else Fraction(1)
    )
    return Cost(epsilon=2 * cost.epsilon, delta=min(delta, Fraction(1)))


def best_power(cost: Cost, alarm: Fraction) -> Fraction:
    """How often a test finds at most what it looks for, if it raises a false alarm with probability
    at most `alarm`."""
    if cost.delta + alarm >= 1:
        return Fraction(1)
    # given an event of probability 1 - delta the laws are as close as without a delta, and this
    # bounds its false alarms
    alarm = alarm / (1 - cost.delta)
    if cost.rho:
        alarm = Fraction(math.ceil(alarm * GRID), GRID)
        power = _least(lambda power: _too_far(power, alarm, cost.rho), alarm)
    elif cost.epsilon > LARGEST_EPSILON:
        power = Fraction(1)
    else:
        factor = _factor(cost.epsilon)
        power = min(factor * alarm, 1 - (1 - alarm) / factor)
    return (1 - cost.delta) * power + cost.delta


def _factor(epsilon: Fraction) -> Fraction:
    """exp(epsilon), rounded up; exactly 1 where nothing is spent."""
    return exp_above(epsilon) if epsilon else Fraction(1)


def _least(holds: Callable[[Fraction], bool], above: Fraction) -> Fraction:
    """A multiple of 1 / GRID beyond `above` for which it holds, or 1: the least one, if it then
    holds for all larger ones."""
    low, high = above.numerator * GRID // above.denominator, GRID
    while high - low > 1:
        middle = (low + high) // 2
        if holds(Fraction(middle, GRID)):
            high = middle
        else:
            low = middle
    return Fraction(high, GRID)


def _too_far(power: Fraction, alarm: Fraction, rho: Fraction) -> bool:
    """Whether two coins with these chances are certainly further apart than rho allows, at some
    order, in one direction."""
    return any(
        _kullback(p, q) >= rho
        or any(_moment(p, q, order) >= order * (order - 1) * rho for order in ORDERS)
        for p, q in ((power, alarm), (alarm, power))
    )


def _kullback(p: Fraction, q: Fraction) -> Fraction:
    """A lower bound on the Kullback-Leibler divergence of two coins."""
    return p * ln_below(p / q) + (1 - p) * ln_below((1 - p) / (1 - q))


def _moment(p: Fraction, q: Fraction, order: int) -> Fraction:
    """A lower bound on (order - 1) times the Renyi divergence of two coins."""
    return ln_below(p**order / q ** (order - 1) + (1 - p) ** order / (1 - q) ** (order - 1))
