"""Section 7.7.5 of the thesis: an order of few sets with costs, class by class, whose pure
guarantee matches the lower bound.

Costs are rounded up to 2^-j times the largest. Class after class, from dear to cheap, an order of
the class is put into the order so far, and some of its first sets join the bucket, which is paid
for whether it serves anyone or not. After the bucket sets stand from cheap to dear. Everything is
tried out, so this is for tiny instances.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpublish.methods.solvers.inputs import Lists
from dpublish.noise.base import IntArray, Noise

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
