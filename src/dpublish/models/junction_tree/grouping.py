"""Groups of levels: joint tables are measured over groups with enough rows to stand out of the
noise.

Everything here reads tables that were already published, so that the groups are no secret and cost
nothing.
"""

from __future__ import annotations

import math

import numpy as np

from dpublish.models.junction_tree.consistency import Floats, Ints

MAX_GROUPS = 255
"""Grouped codes fit one byte."""


def level_order(table: Floats, *, ordered: bool) -> Ints:
    """The order in which neighbours may share a group: the column's own, or else by the rate of the
    commonest label."""
    levels = table.shape[0]
    if ordered:
        return np.arange(levels, dtype=np.int64)
    mass = table.sum(axis=1)
    if table.shape[1] == 1:
        return np.argsort(-mass, kind="stable").astype(np.int64)
    label = int(np.argmax(table.sum(axis=0)))
    rate = np.where(mass > 0, table[:, label] / np.where(mass > 0, mass, 1.0), 2.0)
    return np.lexsort((-mass, rate)).astype(np.int64)


def group_levels(mass: Floats, order: Ints, most: int) -> Ints:
    """The group of each level: at most `most` of them, heavy levels alone, runs of light ones
    together.

    The smallest mass a group should have is found by bisection: the lower it is, the more groups
    there are.
    """
    levels = len(mass)
    most = max(1, min(most, MAX_GROUPS, levels))
    occupied = mass > 0
    if int(np.count_nonzero(occupied)) <= most and occupied.any():
        return _pack(mass, order, 0.0)
    low, high = 0.0, max(float(mass.sum()), 1.0)
    best = np.zeros(levels, dtype=np.int64)
    for _ in range(40):
        middle = (low + high) / 2
        groups = _pack(mass, order, middle)
        if int(groups.max(initial=0)) < most:
            best, high = groups, middle
        else:
            low = middle
    return best


def _pack(mass: Floats, order: Ints, floor: float) -> Ints:
    """Walk the levels in order; a group closes when it holds more than `floor`, and a level above
    it starts its own."""
    group_of = np.zeros(len(mass), dtype=np.int64)
    group, held = 0, 0.0
    for level in order.tolist():
        weight = float(mass[level])
        if held > 0 and weight > 0 and (held > floor or weight > floor):
            group, held = group + 1, 0.0
        group_of[level] = group
        held += weight
    return group_of


def group_limits(first: int, second: int, cells: float) -> tuple[int, int]:
    """How many groups each side of a joint table may have, so that it has about `cells` cells."""
    room = max(1.0, cells)
    side = math.sqrt(room)
    if first <= side:
        return first, max(1, min(second, int(room / first)))
    if second <= side:
        return max(1, min(first, int(room / second))), second
    return max(1, int(side)), max(1, int(side))
