"""The thesis's greedy choices of sets (7.7.1 to 7.7.3): again and again one of the remaining sets,
by the exponential mechanism on how many uncovered present elements each holds, and its public
price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpublish.errors import PlanError
from dpublish.methods.solvers.inputs import take_set, transposed
from dpublish.methods.solvers.set_cover.presence import SetPart
from dpublish.noise.base import IntArray, Noise

GRID = 1 << 10
"""Scores of the weighted rules are multiples of 1/GRID."""
LARGEST_SCORE = 1 << 60
"""Of the public part of a score, in those: with gains beside them, all scores fit 64 bits."""


def greedy_order(noise: Noise, part: SetPart, present: IntArray, step: Fraction) -> IntArray:
    """Algorithm 5: again and again a remaining set S with probability proportional to exp(step * |S
    meets what is left|)."""
    state = CoverState(part, present)
    while len(state.left) > 1:
        place = noise.choose(
            state.gains[state.left],
            sensitivity=Fraction(1),
            epsilon=step,
            monotone=True,
            rule="exponential",
            label="next set",
        )
        state.take(place)
    if len(state.left):
        state.take(0)  # nothing is left to choose
    return part.sets[np.array(state.order, dtype=np.int64)]


def weighted_order(noise: Noise, part: SetPart, present: IntArray, step: Fraction) -> IntArray:
    """Algorithm 6: scores |S meets what is left| - r C(S), or halve r at score -T; what is left at
    the end in random order."""
    costs, wide, rate, halve = public_scores(part, step)
    state = CoverState(part, present)
    prices = public_prices(costs, rate)
    while rate >= 1 / wide and len(state.left):
        scores = np.append(state.gains[state.left] * GRID - prices[state.left], halve)
        place = noise.choose(
            scores,
            sensitivity=Fraction(GRID),
            epsilon=step,
            monotone=True,
            rule="exponential",
            label="next set or halve",
        )
        if place == len(state.left):
            rate /= 2
            prices = public_prices(costs, rate)
        else:
            state.take(place)
    while len(state.left):
        state.take(int(noise.integers(len(state.left), size=1, label="rest")[0]))
    return part.sets[np.array(state.order, dtype=np.int64)]


def public_scores(part: SetPart, step: Fraction) -> tuple[list[Fraction], Fraction, Fraction, int]:
    """Costs in units of the smallest, the range of them, the rate at which sets are priced first,
    and the score of halving it. Refuses what would leave 64 bits: later rates, and so prices, are
    smaller."""
    smallest = min(part.costs)
    costs = [value / smallest for value in part.costs]
    wide, rate = max(costs), Fraction(max(1, len(part.elements)))
    public_prices(costs, rate)
    halve = -math.ceil(halve_score(len(part.sets), len(part.elements), wide, step) * GRID)
    if -halve > LARGEST_SCORE:
        raise PlanError(
            f"Epsilon {float(step):.3g} for a choice is so small that its scores would leave 64 "
            "bits. Use a larger epsilon or smaller shares."
        )
    return costs, wide, rate, halve


class CoverState:
    """Which sets are left (in the order of their numbers) and how many uncovered present elements
    each holds."""

    def __init__(self, part: SetPart, present: IntArray) -> None:
        self._members = part.members
        self._holders = transposed(part.members, len(part.elements))
        self._weight = np.ascontiguousarray(present[part.elements], dtype=np.int64)
        self.gains = np.zeros(len(part.sets), dtype=np.int64)
        owners = np.repeat(np.arange(len(part.sets)), np.diff(part.members.starts))
        np.add.at(self.gains, owners, self._weight[part.members.items])
        self.left: IntArray = np.arange(len(part.sets), dtype=np.int64)
        self.order: list[int] = []

    def take(self, place: int) -> None:
        chosen = int(self.left[place])
        self.order.append(chosen)
        self.left = np.delete(self.left, place)
        take_set(
            chosen,
            self._members.starts,
            self._members.items,
            self._holders.starts,
            self._holders.items,
            self._weight,
            self.gains,
        )


def most_misses(part: SetPart, rule: str) -> int:
    """The most choices that can pass before an element is covered; at least 1, since the covering
    one has a loss too.

    Each is a set that does not hold the element or, in the weighted rules, a halving of the rate. A
    public number.
    """
    held = np.bincount(part.members.items, minlength=len(part.elements))
    misses = len(part.sets) - int(held.min())
    if rule != "greedy":
        wide = max(part.costs) / min(part.costs)
        misses += math.floor(max(1, len(part.elements)) * wide).bit_length()
    return max(1, misses)


def halve_score(sets: int, elements: int, wide: Fraction, step: Fraction) -> Fraction:
    """T of algorithm 6: twice (ln m + ln ln(n W)) / step, a public number that only accuracy
    depends on."""
    depth = math.log(max(math.e, math.log(max(2, elements)) + float(_log(wide))))
    return Fraction(2 * (math.log(max(2, sets)) + depth)) / step


def _log(x: Fraction) -> float:
    return math.log(x.numerator) - math.log(x.denominator)


def public_prices(costs: Sequence[Fraction], rate: Fraction) -> IntArray:
    """rate * C(S) of every set in units of 1/GRID: public numbers, so rounding them costs
    nothing."""
    prices = [math.floor(rate * value * GRID) for value in costs]
    if max(prices) > LARGEST_SCORE:
        raise PlanError(
            "The costs of the sets span too wide a range for 64-bit scores. Use rule = "
            "'any-weights'."
        )
    return np.array(prices, dtype=np.int64)
