"""Frequent itemsets and association rules of weighted itemsets.

The usual Python miners (mlxtend, efficient-apriori) count every transaction once and take no weights, and a release is a list
of itemsets with weights; repeating each of them as often as its weight says would undo what makes it small. Finding the top k
by a best-first search needs no threshold and looks at little more than the k answers, so that is what is done here.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import QueryError

Itemset = tuple[int, ...]
MAX_ITEMSETS = 100_000


@dataclass(frozen=True, eq=False)
class WeightedSets:
    """Itemset r is `members[offsets[r]:offsets[r + 1]]`, ascending item numbers below `items`, with weight `weights[r]`."""

    offsets: NDArray[np.int64]
    members: NDArray[np.int32]
    weights: NDArray[np.float64]
    items: int

    def holders(self, item: int) -> NDArray[np.int64]:
        """The rows that hold an item, ascending."""
        order, starts = self._index()
        return order[starts[item] : starts[item + 1]]

    def _index(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        known = self.__dict__.get("_by_item")
        if known is None:
            rows = np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))
            order = np.argsort(self.members, kind="stable")
            starts = np.concatenate([[0], np.cumsum(np.bincount(self.members, minlength=self.items))])
            known = (rows[order], starts)
            object.__setattr__(self, "_by_item", known)
        return known

    def item_weights(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """The weight of every item within `rows` (all rows when left out)."""
        sizes = np.diff(self.offsets)
        if rows is None:
            rows = np.arange(sizes.size)
        lengths = sizes[rows]
        ends = np.cumsum(lengths)
        places = np.arange(int(ends[-1]) if ends.size else 0) + np.repeat(self.offsets[rows] - ends + lengths, lengths)
        found = np.bincount(self.members[places], weights=np.repeat(self.weights[rows], lengths), minlength=self.items)
        return found.astype(np.float64)


def top_itemsets(sets: WeightedSets, k: int, *, min_size: int = 1, max_size: int | None = None) -> list[tuple[Itemset, float]]:
    """The k itemsets of the greatest weight, heaviest first; ties go to smaller item numbers. Weights must not be negative.

    An itemset never weighs more than its parts, so that itemsets leave the queue in the order of their weight.
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_ITEMSETS:
        raise QueryError(f"The number of itemsets must be a whole number from 1 to {MAX_ITEMSETS:,}, not {k!r}.")
    if min_size < 1 or (max_size is not None and max_size < min_size):
        raise QueryError(f"Sizes must satisfy 1 <= min_size <= max_size; given {min_size} and {max_size}.")
    single = sets.item_weights()
    queue: list[tuple[float, Itemset]] = [(-float(single[item]), (int(item),)) for item in np.flatnonzero(single > 0)]
    heapq.heapify(queue)
    found: list[tuple[Itemset, float]] = []
    while queue and len(found) < k:
        weight, items = heapq.heappop(queue)
        if len(items) >= min_size:
            found.append((items, -weight))
        if max_size is not None and len(items) >= max_size:
            continue
        within = sets.item_weights(rows_with(sets, items))
        for item in np.flatnonzero(within[items[-1] + 1 :] > 0) + items[-1] + 1:
            heapq.heappush(queue, (-float(within[item]), (*items, int(item))))
    return found


def rows_with(sets: WeightedSets, items: Itemset) -> NDArray[np.int64]:
    """The rows that hold all of the items."""
    rows: NDArray[np.int64] | None = None
    for item in items:
        held = sets.holders(item)
        rows = held if rows is None else np.intersect1d(rows, held, assume_unique=True)
    return np.arange(sets.offsets.size - 1) if rows is None else rows


@dataclass(frozen=True)
class Rule:
    """If a transaction holds `given`, it often holds `then` as well."""

    given: Itemset
    then: Itemset
    support: float
    confidence: float
    lift: float


def association_rules(found: Mapping[Itemset, float], total: float, *, min_confidence: float) -> list[Rule]:
    """All rules within the given itemsets, most confident first. `found` must hold every part of each of its itemsets."""
    if not 0 <= min_confidence <= 1:
        raise QueryError(f"min_confidence must lie between 0 and 1, not {min_confidence!r}.")
    rules = []
    for items, support in found.items():
        for size in range(1, len(items)):
            for given in combinations(items, size):
                then = tuple(item for item in items if item not in given)
                if given not in found or then not in found or found[given] <= 0 or found[then] <= 0:
                    continue
                confidence = support / found[given]
                if confidence >= min_confidence:
                    lift = confidence * total / found[then] if total > 0 else float("nan")
                    rules.append(Rule(given, then, support, confidence, lift))
    return sorted(rules, key=lambda rule: (-rule.confidence, -rule.support, rule.given, rule.then))
