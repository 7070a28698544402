"""Weighted sums of columns that were not counted together: bounds from parts of them.

A sum is at least b where one part of it is at least s and the other at least b - s, and only where
one of them is, whatever the dependence of the parts (Makarov's bounds). Any s does; which one gives
the narrowest limits the model knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from dpublish.declare.domain import Domain
from dpublish.models.bin_shapes import bin_means
from dpublish.models.junction_tree.fit import MeasuredTable
from dpublish.models.junction_tree.model import JunctionModel
from dpublish.query.linear_condition import least_and_most
from dpublish.query.predicate import Plane

SPLITS, SAMPLED = 33, 5_000
"""Ways to split a weighted sum in two parts, and rows of the model that choose among them."""

Way = tuple[Plane, Plane]


def best_splits(
    node: Plane, domain: Domain, model: JunctionModel, tables: Sequence[MeasuredTable]
) -> tuple[Way, Way, int]:
    """The way to split that promises the highest lower limit, the one with the lowest upper limit,
    and out of how many: limits must share their level among all of them."""
    pairs: list[tuple[int, ...]] = [
        pair
        for pair in itertools.combinations(sorted(set(node.axes) - {model.target}), 2)
        if len(node.axes) > 2 and any(set(pair) <= set(table.columns) for table in tables)
    ]
    ways = [way for chosen in pairs or [node.axes[:1]] for way in splits(node, domain, chosen)]
    codes = model.sample_codes(SAMPLED, np.random.default_rng(0))
    middle = {
        axis: np.pad(bin_means(domain.axes[axis]), (0, 2), constant_values=np.nan)[codes[axis]]
        for axis in node.axes
    }

    def held(part: Plane) -> int:
        pairs_of = zip(part.axes, part.weights, strict=True)
        return int(np.count_nonzero(sum(w * middle[axis] for axis, w in pairs_of) >= part.bound))

    shares = [held(one) + held(other) for one, other in ways]
    return ways[int(np.argmax(shares))], ways[int(np.argmin(shares))], len(ways)


def splits(node: Plane, domain: Domain, chosen: Sequence[int]) -> list[Way]:
    """Public ways to put a bound on a weighted sum down to one on some of its columns and one on
    the others."""
    weight = dict(zip(node.axes, node.weights, strict=True))
    one, other = tuple(chosen), tuple(axis for axis in node.axes if axis not in chosen)
    factors = [tuple(weight[axis] for axis in part) for part in (one, other)]
    (low, high), (least, most) = (
        least_and_most([domain.axes[axis] for axis in part], factor)
        for part, factor in zip((one, other), factors, strict=True)
    )
    ends = max(low, node.bound - most), min(high, node.bound - least)
    return [
        (Plane(one, factors[0], at, False), Plane(other, factors[1], node.bound - at, node.strict))
        for at in np.linspace(*ends, SPLITS).tolist()
    ]
