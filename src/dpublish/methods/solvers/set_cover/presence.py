"""Public work of a set cover by noisy presence: orders of sets that are cheap for given chances
that elements are present. Nothing here sees a private number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpublish.methods.solvers.inputs import transposed
from dpublish.methods.solvers.set_cover.set_parts import SetPart
from dpublish.methods.solvers.set_kernels import lower_gains
from dpublish.noise.base import IntArray

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
    wrong = 1 / (1 + math.exp(epsilon))
    share = (float(flags.mean()) - wrong) / (1 - 2 * wrong)
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
