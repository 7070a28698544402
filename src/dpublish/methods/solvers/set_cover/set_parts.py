"""Public parts of a set system: the whole, or disjoint instances without dependence on the range of
costs (7.7.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpublish.methods.solvers.inputs import Lists, transposed
from dpublish.noise.base import IntArray


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
