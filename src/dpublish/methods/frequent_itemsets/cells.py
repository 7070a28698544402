"""Itemsets to be counted over transactions: which there are, how many a transaction touches, and
their weighted counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import PrivateSideError
from dpublish.methods.frequent_itemsets.kernels import (
    pack_records,
    touched_items,
    touched_pairs,
    touched_sets,
    weigh_items,
    weigh_pairs,
    weigh_sets,
)
from dpublish.methods.set_partition.transactions import Baskets
from dpublish.models.weighted_counts import geometric_edges, pair_edges
from dpublish.noise.base import IntArray

Itemset = tuple[int, ...]


class Cells(Protocol):
    """Itemsets to be counted: which of them there are, how many a transaction touches, and their
    counts when a transaction that touches q weighs weights[q]. Private."""

    @property
    def sets(self) -> Sequence[Itemset]: ...
    @property
    def edges(self) -> tuple[int, ...]: ...
    def touched(self) -> NDArray[np.int32]: ...
    def weighted(self, touched: NDArray[np.int32], weights: IntArray) -> IntArray: ...


class ItemCells:
    """Single items."""

    def __init__(self, baskets: Baskets, sets: Sequence[Itemset]) -> None:
        self.sets = sets
        self.edges = geometric_edges(len(sets))
        self._baskets = baskets
        self._cell = np.full(max(item for (item,) in sets) + 1, -1, dtype=np.int32)
        self._cell[[item for (item,) in sets]] = np.arange(len(sets), dtype=np.int32)
        top = int(baskets.items.max()) + 1 if baskets.items.size else 0
        if top > self._cell.size:  # the kernels index by item and check nothing
            self._cell = np.concatenate(
                [self._cell, np.full(top - self._cell.size, -1, dtype=np.int32)]
            )

    def touched(self) -> NDArray[np.int32]:
        out = np.empty(self._baskets.records, dtype=np.int32)
        touched_items(self._baskets.items, self._baskets.offsets, self._cell, out)
        return out

    def weighted(self, touched: NDArray[np.int32], weights: IntArray) -> IntArray:
        out = np.zeros(len(self.sets), dtype=np.int64)
        weigh_items(self._baskets.items, self._baskets.offsets, self._cell, touched, weights, out)
        return out


def packed(baskets: Baskets, bits: Sequence[int], items: int) -> NDArray[np.uint64]:
    """Which of up to 64 items each transaction holds, as bits."""
    if baskets.items.size and not 0 <= int(baskets.items.max()) < items:
        raise PrivateSideError()  # the kernels index by item and check nothing
    place = np.full(items, -1, dtype=np.int32)
    place[list(bits)] = np.arange(len(bits), dtype=np.int32)
    out = np.empty(baskets.records, dtype=np.uint64)
    pack_records(baskets.items, baskets.offsets, place, out)
    return out


class PairCells:
    """All pairs of up to 64 items."""

    def __init__(self, records: NDArray[np.uint64], bits: Sequence[int]) -> None:
        self.sets = list(combinations(bits, 2))
        self.edges = pair_edges(len(bits))
        self._records, self._width = records, len(bits)

    def touched(self) -> NDArray[np.int32]:
        out = np.empty(self._records.size, dtype=np.int32)
        touched_pairs(self._records, out)
        return out

    def weighted(self, touched: NDArray[np.int32], weights: IntArray) -> IntArray:
        out = np.zeros((self._width, self._width), dtype=np.int64)
        weigh_pairs(self._records, self._width, touched, weights, out)
        return out[np.triu_indices(self._width, 1)]


class SetCells:
    """Chosen sets of up to 64 items."""

    def __init__(
        self, records: NDArray[np.uint64], bits: Sequence[int], sets: Sequence[Itemset]
    ) -> None:
        self.sets = sets
        self.edges = geometric_edges(len(sets))
        place = {item: number for number, item in enumerate(bits)}
        masks = [sum(1 << place[item] for item in items) for items in sets]
        self._records, self._masks = records, np.array(masks, dtype=np.uint64)

    def touched(self) -> NDArray[np.int32]:
        out = np.empty(self._records.size, dtype=np.int32)
        touched_sets(self._records, self._masks, out)
        return out

    def weighted(self, touched: NDArray[np.int32], weights: IntArray) -> IntArray:
        out = np.zeros(len(self.sets), dtype=np.int64)
        weigh_sets(self._records, self._masks, touched, weights, out)
        return out
