"""Public work of a set cover by noisy presence: orders of sets that are cheap for given chances
that elements are present. Nothing here sees a private number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpublish.methods.solvers.inputs import Lists, lower_gains, transposed
from dpublish.noise.base import IntArray, Noise

Floats = NDArray[np.float64]
WORST = Fraction(11, 10)
"""An order is taken only if, whatever is present, it costs at most so many times as much as the
public order at its worst."""


def covering_order(part: SetPart, costs: Floats, wanted: Floats) -> IntArray:
    """All sets: first those of a cover of the whole universe, each the one that holds most of what
    is wanted and not covered for its cost; those that turn out needless, and the rest, at the end.
    """
    members, holders = part.members, transposed(part.members, len(part.elements))
    open_, left = wanted.astype(np.float64), np.ones(len(part.elements))
    owner = np.repeat(np.arange(len(part.sets)), np.diff(members.starts))
    held = np.bincount(owner, weights=open_[members.items], minlength=len(part.sets))
    gains = held.astype(np.float64)
    chosen: list[int] = []
    uncovered = len(part.elements)
    while uncovered:
        best = int(np.argmax(gains / costs))
        chosen.append(best)
        uncovered -= lower_gains(
            best, members.starts, members.items, holders.starts, holders.items, open_, left, gains
        )
        gains[best] = -1.0
    times = np.zeros(len(part.elements), dtype=np.int64)
    for number in chosen:
        times[held_by(part, number)] += 1
    kept = list(chosen)
    for number in sorted(chosen, key=lambda one: (-costs[one], one)):
        inside = held_by(part, number)
        if (times[inside] > 1).all():
            times[inside] -= 1
            kept.remove(number)
    rest = np.setdiff1d(np.arange(len(part.sets)), kept)
    return np.concatenate([np.array(kept, dtype=np.int64), rest]).astype(np.int64)


def held_by(part: SetPart, number: int) -> IntArray:
    held: IntArray = part.members.items[
        part.members.starts[number] : part.members.starts[number + 1]
    ]
    return held


def first_holders(part: SetPart, order: IntArray) -> IntArray:
    """For every element the first set of the order that holds it."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    owner = np.repeat(np.arange(len(part.sets)), np.diff(part.members.starts))
    first = np.full(len(part.elements), len(order), dtype=np.int64)
    np.minimum.at(first, part.members.items, place[owner])
    return order[first]


def expected_cost(part: SetPart, order: IntArray, costs: Floats, chances: Floats) -> float:
    """What the order costs on average, if elements are present with these chances, apart."""
    absent = np.log1p(-np.minimum(chances, 1 - 1e-12))
    none = np.bincount(first_holders(part, order), weights=absent, minlength=len(part.sets))
    return float((costs * -np.expm1(none)).sum())


def worst_cost(part: SetPart, order: IntArray, costs: Sequence[Fraction]) -> Fraction:
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


def better_order(
    part: SetPart, costs: Sequence[Fraction], public: IntArray, chances: Floats
) -> IntArray:
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

    elements: IntArray
    sets: IntArray
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
    level = [_level(value / smallest, base) for value in costs]
    holders = transposed(sets, count)
    of_element = np.array(
        [
            min(level[int(s)] for s in holders.items[holders.starts[e] : holders.starts[e + 1]])
            for e in range(count)
        ],
        dtype=np.int64,
    )
    parts = []
    for number in np.unique(of_element).tolist():
        elements = np.flatnonzero(of_element == number)
        local = np.full(count, -1, dtype=np.int64)
        local[elements] = np.arange(len(elements))
        chosen, rows = [], []
        for index in range(len(sets)):
            if level[index] in (number, number + 1):
                inside = local[sets.items[sets.starts[index] : sets.starts[index + 1]]]
                inside = inside[inside >= 0]
                if len(inside):
                    chosen.append(index)
                    rows.append(inside)
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        members = Lists(starts, np.concatenate(rows))
        parts.append(
            SetPart(
                elements, np.array(chosen, dtype=np.int64), members, tuple(costs[i] for i in chosen)
            )
        )
    return parts


def _level(ratio: Fraction, base: Fraction) -> int:
    """j with ratio in (base^j, base^(j+1)]; the cheapest sets, of ratio 1, are at level -1."""
    level, power = -1, Fraction(1)
    while ratio > power:
        power *= base
        level += 1
    return level


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
    noise: Noise, sets: Lists, costs: Sequence[Fraction], present: IntArray, epsilon: Fraction
) -> IntArray:
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
        self._members = [
            frozenset(sets.items[sets.starts[i] : sets.starts[i + 1]].tolist())
            for i in range(len(sets))
        ]
        self._wanted = frozenset(wanted)
        powers = [_power(max(costs) / cost) for cost in costs]
        self._weights = [Fraction(1, 2**power) for power in powers]
        self.classes = [
            (j, tuple(i for i, power in enumerate(powers) if power == j))
            for j in sorted(set(powers))
        ]

    def cost(self, bucket: Order, rest: Order) -> Fraction:
        total = sum((self._weights[i] for i in bucket), Fraction(0))
        left = self._wanted.difference(*(self._members[i] for i in bucket))
        for i in rest:
            if left & self._members[i]:
                total += self._weights[i]
                left -= self._members[i]
        return total

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


def _power(ratio: Fraction) -> int:
    """The largest j with 2^j <= ratio (at least 1): rounding a cost of max / ratio up gives max /
    2^j."""
    power = max(0, ratio.numerator.bit_length() - ratio.denominator.bit_length() - 1)
    while ratio.denominator << (power + 1) <= ratio.numerator:
        power += 1
    return power
