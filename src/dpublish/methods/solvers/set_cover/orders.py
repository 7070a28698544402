"""Orders of sets: public ones that are cheap for given chances that elements are present, which see
no private number; and those that the thesis draws set by set or class by class."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Ints
from dpublish.errors import PlanError
from dpublish.methods.solvers.inputs import Lists, lower_gains, starts_of, transposed
from dpublish.noise.base import Noise

WORST = Fraction(11, 10)
"""An order is taken only if, whatever is present, it costs at most so many times as much as the
public order at its worst."""


def covering_order(part: SetPart, costs: Floats, wanted: Floats) -> Ints:
    """All sets: first those of a cover of the whole universe, each the one that holds most of what
    is wanted and not covered for its cost; those that turn out needless, and the rest, at the end.
    """
    members, uncovered = part.members, len(part.elements)
    holders, left = transposed(members, uncovered), np.ones(uncovered, dtype=np.int64)
    gains = np.bincount(members.owners, weights=wanted[members.items], minlength=len(part.sets))
    chosen: list[int] = []
    while uncovered:
        best = int(np.argmax(gains / costs))
        chosen.append(best)
        uncovered -= lower_gains(
            best, members.starts, members.items, holders.starts, holders.items, wanted, left, gains
        )
        gains[best] = -1.0
    times = np.bincount(np.concatenate([members.row(number) for number in chosen]))
    kept = list(chosen)
    for number in sorted(chosen, key=lambda one: (-costs[one], one)):
        inside = members.row(number)
        if (times[inside] > 1).all():
            times[inside] -= 1
            kept.remove(number)
    return np.append(kept, np.setdiff1d(np.arange(len(part.sets)), kept))


def first_holders(part: SetPart, order: Ints) -> Ints:
    """For every element the first set of the order that holds it."""
    place = np.argsort(order)
    first = np.full(len(part.elements), len(order), dtype=np.int64)
    np.minimum.at(first, part.members.items, place[part.members.owners])
    return order[first]


def expected_cost(part: SetPart, order: Ints, costs: Floats, chances: Floats) -> float:
    """What the order costs on average, if elements are present with these chances, apart."""
    absent = np.log1p(-np.minimum(chances, 1 - 1e-12))
    none = np.bincount(first_holders(part, order), weights=absent, minlength=len(part.sets))
    return float((costs * -np.expm1(none)).sum())


def worst_cost(part: SetPart, order: Ints, costs: Sequence[Fraction]) -> Fraction:
    """What the order costs if every element is present."""
    used = np.unique(first_holders(part, order)).tolist()
    return sum((costs[number] for number in used), Fraction(0))


def chances_of(flags: NDArray[np.bool_], epsilon: float) -> Floats:
    """How likely each element is to be present, given its randomised flag and the share of all."""
    wrong = math.exp(-epsilon) / (1 + math.exp(-epsilon))
    told = math.tanh(epsilon / 2)  # 1 - 2 wrong
    share = (float(flags.mean()) - wrong) / max(told, 1e-300)
    share = min(max(share, 1 / (1 + len(flags))), 1 - 1 / (1 + len(flags)))
    seen = np.where(flags, 1 - wrong, wrong) * share
    unseen = np.where(flags, wrong, 1 - wrong) * (1 - share)
    return np.asarray(seen / (seen + unseen), dtype=np.float64)


def better_order(part: SetPart, costs: Sequence[Fraction], public: Ints, chances: Floats) -> Ints:
    """The order that seems cheaper for these chances, the public one or one made for them."""
    prices = np.array([float(cost) for cost in costs])
    found = covering_order(part, prices, chances)
    if worst_cost(part, found, costs) > WORST * worst_cost(part, public, costs):
        return public
    seems = [expected_cost(part, order, prices, chances) for order in (public, found)]
    return found if seems[1] < seems[0] else public


# Public parts of a set system: the whole, or disjoint instances without dependence on the range of
# costs (7.7.3).


@dataclass(frozen=True)
class SetPart:
    """Some elements, the sets that may serve them, and who holds whom in local numbers. Public."""

    elements: Ints
    sets: Ints
    members: Lists
    costs: tuple[Fraction, ...]


def whole_family(sets: Lists, costs: Sequence[Fraction], count: int) -> SetPart:
    return SetPart(
        np.arange(count, dtype=np.int64), np.arange(len(sets), dtype=np.int64), sets, tuple(costs)
    )


def cost_parts(sets: Lists, costs: Sequence[Fraction], count: int) -> list[SetPart]:
    """Part j: the elements whose cheapest set costs in (n^j, n^(j+1)], with the sets that cost in
    (n^j, n^(j+2)].

    Every element is in exactly one part and keeps its cheapest set; within a part costs differ by
    at most n^2.
    """
    base = Fraction(max(2, count))
    smallest = min(costs)
    owners = sets.owners
    level = np.array([_level(value / smallest, base) for value in costs], dtype=np.int64)[owners]
    of_element = np.full(count, level.max(), dtype=np.int64)
    np.minimum.at(of_element, sets.items, level)
    parts = []
    for number in np.unique(of_element).tolist():
        elements = np.flatnonzero(of_element == number)
        inside = (of_element[sets.items] == number) & (level <= number + 1)
        chosen, lengths = np.unique(owners[inside], return_counts=True)
        members = Lists(starts_of(lengths), np.searchsorted(elements, sets.items[inside]))
        parts.append(SetPart(elements, chosen, members, tuple(costs[i] for i in chosen.tolist())))
    return parts


def _level(ratio: Fraction, base: Fraction) -> int:
    """j with ratio in (base^j, base^(j+1)]; the cheapest sets, of ratio 1, are at level -1."""
    level, power = -1, Fraction(1)
    while ratio > power:
        power *= base
        level += 1
    return level


# The thesis's greedy choices of sets (7.7.1 to 7.7.3): again and again one of the remaining sets,
# by the exponential mechanism on how many uncovered present elements each holds, and its public
# price.

GRID = 1 << 10
"""Scores of the weighted rules are multiples of 1/GRID."""
LARGEST_SCORE = 1 << 60
"""Of the public part of a score, in those: with gains beside them, all scores fit 64 bits."""


def greedy_order(noise: Noise, part: SetPart, present: Ints, step: Fraction) -> Ints:
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


def weighted_order(noise: Noise, part: SetPart, present: Ints, step: Fraction) -> Ints:
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

    def __init__(self, part: SetPart, present: Ints) -> None:
        self._members = part.members
        self._holders = transposed(part.members, len(part.elements))
        self._present = np.ascontiguousarray(present[part.elements], dtype=np.int64)
        self._uncovered = self._present.copy()
        self.gains = np.zeros(len(part.sets), dtype=np.int64)
        np.add.at(self.gains, part.members.owners, self._present[part.members.items])
        self.left: Ints = np.arange(len(part.sets), dtype=np.int64)
        self.order: list[int] = []

    def take(self, place: int) -> None:
        chosen = int(self.left[place])
        self.order.append(chosen)
        self.left = np.delete(self.left, place)
        lower_gains(
            chosen,
            self._members.starts,
            self._members.items,
            self._holders.starts,
            self._holders.items,
            self._present,
            self._uncovered,
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


def public_prices(costs: Sequence[Fraction], rate: Fraction) -> Ints:
    """rate * C(S) of every set in units of 1/GRID: public numbers, so rounding them costs
    nothing."""
    prices = [math.floor(rate * value * GRID) for value in costs]
    if max(prices) > LARGEST_SCORE:
        raise PlanError(
            "The costs of the sets span too wide a range for 64-bit scores. Use rule = "
            "'any-weights'."
        )
    return np.array(prices, dtype=np.int64)


# Section 7.7.5 of the thesis: an order of few sets with costs, class by class, whose pure
# guarantee matches the lower bound.
#
# Costs are rounded up to 2^-j times the largest. Class after class, from dear to cheap, an order of
# the class is put into the order so far, and some of its first sets join the bucket, which is paid
# for whether it serves anyone or not. After the bucket sets stand from cheap to dear. Everything is
# tried out, so this is for tiny instances.

MAX_SETS = 7
Order = tuple[int, ...]


def class_order(
    noise: Noise, sets: Lists, costs: Sequence[Fraction], present: Ints, epsilon: Fraction
) -> Ints:
    """An order of all sets. Step j of the exponential mechanism gets epsilon / 2 and scores of -2^j
    times the forced cost."""
    cover = ForcedCover(sets, costs, np.flatnonzero(present).tolist())
    step = epsilon / 2
    # the thesis's base measure m^-2 for every set of the bucket, as a public part of the score
    toll = Fraction(math.ceil(2 * math.log(max(2, len(sets))) * 1024), 1024) / step
    bucket: Order = ()
    rest: Order = ()
    for place, (power, members) in enumerate(cover.classes):
        found = list(extensions(members))
        scores = [
            -(2**power) * cover.least(bucket + block[:held], block[held:] + rest, place + 1)
            - toll * held
            for block, held in found
        ]
        chosen = noise.choose(
            scores,
            sensitivity=Fraction(1),
            epsilon=step,
            monotone=True,
            rule="exponential",
            label="class of sets",
        )
        block, held = found[chosen]
        bucket, rest = bucket + block[:held], block[held:] + rest
    return np.array(bucket + rest, dtype=np.int64)


def extensions(members: Order) -> list[tuple[Order, int]]:
    """All ways to put a class into the order: an order of it, and how many of its first sets join
    the bucket."""
    return [
        (block, held)
        for block in itertools.permutations(members)
        for held in range(len(members) + 1)
    ]


class ForcedCover:
    """The cost of a good order when all sets of the bucket are paid for, in units of the largest
    cost."""

    def __init__(self, sets: Lists, costs: Sequence[Fraction], wanted: Sequence[int]) -> None:
        self._members = [frozenset(sets.row(i).tolist()) for i in range(len(sets))]
        self._wanted = frozenset(wanted)
        powers = [_power(max(costs) / cost) for cost in costs]
        self._weights = [Fraction(1, 2**power) for power in powers]
        self.classes = [
            (j, tuple(i for i, power in enumerate(powers) if power == j))
            for j in sorted(set(powers))
        ]

    def cost(self, bucket: Order, rest: Order) -> Fraction:
        left = self._wanted.difference(*(self._members[i] for i in bucket))
        paid = sum((self._weights[i] for i in bucket), Fraction(0))
        return paid + order_cost(self._members, self._weights, left, rest)

    def least(self, bucket: Order, rest: Order, place: int) -> Fraction:
        """The least cost of an order that extends this one by the classes from `place` on."""
        if place == len(self.classes):
            return self.cost(bucket, rest)
        # which order the bucket has makes no difference to the cost
        ways = {
            (tuple(sorted(block[:held])), block[held:])
            for block, held in extensions(self.classes[place][1])
        }
        return min(self.least(bucket + held, after + rest, place + 1) for held, after in ways)


def order_cost(
    members: Sequence[frozenset[int]],
    costs: Sequence[Fraction],
    left: frozenset[int],
    order: Sequence[int],
) -> Fraction:
    """What the sets of an order cost that are the first to hold one of the elements `left`.
    Private."""
    total = Fraction(0)
    for number in order:
        if left & members[number]:
            total += costs[number]
            left -= members[number]
    return total


def _power(ratio: Fraction) -> int:
    """The largest j with 2^j <= ratio (at least 1): rounding a cost of max / ratio up gives max /
    2^j."""
    return math.floor(ratio).bit_length() - 1
