"""The price of the lightest cover in parts (a fractional cover) of the present elements, certified.

In: which elements are present (private), and public prices of the sets. Out: a whole number that is
at most so far below the true price as `GAP` allows, whatever is present. A linear program is solved
in floats; what it says is believed only as far as whole numbers prove it, from below by a packing
of the elements and from above by a cover. Where they do not meet, an exact simplex has the answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.arrays import Ints
from dpublish.methods.solvers.inputs import Lists
from dpublish.noise.base import Noise

UNITS = 1 << 20
"""Prices are counted in so many parts of what one element can add."""
GAP = UNITS // 64
"""How far the certified price may be below the true one, in those parts."""
_FINE = 1 << 10
_PARTS = 1 << 30


@dataclass(frozen=True)
class SetPrices:
    """Public prices of the sets in whole units, and what follows from the sets alone.

    `unit` is a part of the dearest element's cheapest set, which is the most that one more element
    can add to a cover. No set is worth more than the cheapest sets of its elements, so none is
    priced higher. The cheapest cover costs at most `factor` times the lightest one in parts, and
    never more than `most`, by which each element has its cheapest set.
    """

    unit: Fraction
    prices: Ints
    factor: Fraction
    most: Fraction

    @property
    def moved(self) -> Fraction:
        """How far one element moves what `certified_price` gives, in units."""
        return Fraction(UNITS + GAP + 1)


def set_prices(sets: Lists, costs: Sequence[Fraction], count: int) -> SetPrices:
    cheapest = _cheapest(sets, costs, count)
    unit = max(cheapest) / UNITS
    held = np.array([math.ceil(cost / unit) for cost in cheapest], dtype=np.int64)
    most = np.zeros(len(sets), dtype=np.int64)
    np.add.at(most, sets.owners, held[sets.items])
    prices = [
        min(math.ceil(cost / unit), int(bound)) for cost, bound in zip(costs, most, strict=True)
    ]
    largest = int(np.diff(sets.starts).max())
    harmonic = sum((Fraction(1, size) for size in range(1, min(largest, 64) + 1)), Fraction(0))
    if largest > 64:
        harmonic += Fraction(math.log(largest / 64)) + Fraction(1, 1000)
    often = int(np.bincount(sets.items, minlength=count).max())
    factor = min(harmonic, Fraction(often))
    return SetPrices(unit, np.array(prices, dtype=np.int64), factor, sum(cheapest, Fraction(0)))


def certified_price(sets: Lists, prices: Ints, present: Ints) -> int:
    """A whole number from (lightest cover in parts) - GAP - 1 up to it. Private."""
    here = present > 0
    if not here.any():
        return 0
    kept = here[sets.items]
    place = np.cumsum(here) - 1
    owner, element = sets.owners[kept], place[sets.items[kept]]
    used = np.unique(owner)
    owner, prices = np.searchsorted(used, owner), prices[used]
    shape = (int(here.sum()), len(used))
    low, high = _proved(owner, element, prices, shape, *_solved(owner, element, prices, shape))
    if high is None or high - low > GAP:
        low = packed_exactly(owner, element, prices, shape)
    return math.floor(low)


def noisy_price(
    noise: Noise, sets: Lists, public: SetPrices, present: Ints, epsilon: Fraction
) -> dict[str, Any]:
    """The price with noise, as a fact of a release: how far it may be below the true one and, for
    prices are rounded up, above it, and how far a cheapest cover may be above that."""
    noisy = noise.laplace(
        np.array([certified_price(sets, public.prices, present)], dtype=np.int64),
        sensitivity=public.moved,
        epsilon=epsilon,
        label="price of the lightest cover in parts",
    )
    return {
        "value": float(int(noisy[0]) * public.unit),
        "scale": str(public.moved * public.unit / epsilon),
        "weighted": True,
        "factor": float(public.factor),
        "most": float(public.most),
        "below": float((GAP + 1) * public.unit),
        "above": float(len(present) * public.unit),
    }


def _cheapest(sets: Lists, costs: Sequence[Fraction], count: int) -> list[Fraction]:
    """What the cheapest set of each element costs."""
    least = np.empty(count, dtype=object)
    for number in sorted(range(len(sets)), key=lambda one: costs[one], reverse=True):
        least[sets.row(number)] = costs[number]
    return least.tolist()


def _solved(owner: Ints, element: Ints, prices: Ints, shape: tuple[int, int]) -> tuple[Any, Any]:
    """What a solver in floats thinks: how much of each set is bought, and what each element
    pays. Nothing is taken on trust from it."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    holds = csr_matrix((np.full(len(owner), -1.0), (element, owner)), shape=shape)
    found = linprog(prices / UNITS, A_ub=holds, b_ub=np.full(shape[0], -1.0), method="highs")
    if found.x is None or found.ineqlin.marginals is None:
        return np.zeros(shape[1]), np.zeros(shape[0])
    return found.x, -found.ineqlin.marginals * UNITS


def _proved(
    owner: Ints,
    element: Ints,
    prices: Ints,
    shape: tuple[int, int],
    bought: Any,
    paid: Any,
) -> tuple[Fraction, Fraction | None]:
    """Bounds on the price that whole numbers prove: elements that pay no more for any set than it
    costs, and a cover of all. None where nothing like a cover was given."""
    pays = _whole(paid * _FINE, UNITS * _FINE)
    load = np.zeros(shape[1], dtype=np.int64)
    np.add.at(load, owner, pays[element])
    over = load > prices * _FINE
    if over.any():
        # the largest ratio, a little enlarged, and then checked again
        ratio = float((load[over] / (prices[over] * _FINE)).max()) * (1 + 1e-9)
        pays = np.floor(pays / ratio).astype(np.int64)
        load = np.zeros(shape[1], dtype=np.int64)
        np.add.at(load, owner, pays[element])
        if (load > prices * _FINE).any():
            pays = np.zeros_like(pays)
    low = Fraction(int(pays.sum()), _FINE)
    parts = _whole(np.ceil(bought * _PARTS), _PARTS)
    covered = np.zeros(shape[0], dtype=np.int64)
    np.add.at(covered, element, parts[owner])
    least = int(covered.min())
    if least <= 0:
        return low, None
    used = np.flatnonzero(parts)
    total = int(prices[used].astype(object) @ parts[used].astype(object))
    # a cover of `least` of every element, enlarged to one of the whole
    return low, Fraction(total, min(least, _PARTS))


def _whole(values: Any, most: int) -> Ints:
    """Whole numbers from 0 to `most`; what is no number is 0."""
    clean = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    return np.asarray(np.clip(np.floor(clean), 0, most), dtype=np.int64)


def packed_exactly(owner: Ints, element: Ints, prices: Ints, shape: tuple[int, int]) -> Fraction:
    """The same price by the simplex method in fractions: the most that elements can pay, no more
    for any set than it costs. Bland's rule comes to an end; slow, and only for what floats failed
    at."""
    elements, sets = shape
    rows = [[Fraction(0)] * elements for _ in range(sets)]
    for held, one in zip(owner.tolist(), element.tolist(), strict=True):
        rows[held][one] = Fraction(1)
    # one row a set: elements, slacks, price; the basis is made of slacks at first
    table = [
        [*row, *(Fraction(int(place == at)) for at in range(sets)), Fraction(int(price))]
        for place, (row, price) in enumerate(zip(rows, prices.tolist(), strict=True))
    ]
    gains = [Fraction(1)] * elements + [Fraction(0)] * (sets + 1)
    basis = list(range(elements, elements + sets))
    while True:
        enter = next((place for place, gain in enumerate(gains[:-1]) if gain > 0), None)
        if enter is None:
            return -gains[-1]
        _, _, leave = min(
            (row[-1] / row[enter], basis[place], place)
            for place, row in enumerate(table)
            if row[enter] > 0
        )
        pivot = table[leave][enter]
        table[leave] = [value / pivot for value in table[leave]]
        for row in (*(row for place, row in enumerate(table) if place != leave), gains):
            factor = row[enter]
            if factor:
                row[:] = [
                    value - factor * other for value, other in zip(row, table[leave], strict=True)
                ]
        basis[leave] = enter
