"""Itemsets to be counted over transactions: which there are, how many a transaction touches, and
their weighted counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints
from dpublish.compiled import njit
from dpublish.errors import PrivateSideError
from dpublish.methods.set_partition.transactions import Baskets
from dpublish.models.noisy_counts import geometric_edges, pair_edges

Itemset = tuple[int, ...]


class Cells(Protocol):
    """Itemsets to be counted: which of them there are, how many a transaction touches, and their
    counts when a transaction that touches q weighs weights[q]. Private."""

    @property
    def sets(self) -> Sequence[Itemset]: ...
    @property
    def edges(self) -> tuple[int, ...]: ...
    def touched(self) -> NDArray[np.int32]: ...
    def weighted(self, touched: NDArray[np.int32], weights: Ints) -> Ints: ...


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

    def weighted(self, touched: NDArray[np.int32], weights: Ints) -> Ints:
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

    def weighted(self, touched: NDArray[np.int32], weights: Ints) -> Ints:
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

    def weighted(self, touched: NDArray[np.int32], weights: Ints) -> Ints:
        out = np.zeros(len(self.sets), dtype=np.int64)
        weigh_sets(self._records, self._masks, touched, weights, out)
        return out


# Loops of the frequent itemsets: how many counted cells a transaction touches, and the counts of
# the cells with a weight per transaction. Each is one pass, and its memory is that of its output.


@njit(cache=True, nogil=True)
def touched_items(
    items: NDArray[Any], offsets: NDArray[np.int64], cell: NDArray[np.int32], out: NDArray[np.int32]
) -> None:
    """How many of a transaction's items have a cell (not -1)."""
    for record in range(out.size):
        touched = 0
        for k in range(offsets[record], offsets[record + 1]):
            if cell[items[k]] >= 0:
                touched += 1
        out[record] = touched


@njit(cache=True, nogil=True)
def weigh_items(
    items: NDArray[Any],
    offsets: NDArray[np.int64],
    cell: NDArray[np.int32],
    touched: NDArray[np.int32],
    weights: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Add the weight of each transaction to the cells of its items."""
    for record in range(touched.size):
        weight = weights[touched[record]]
        for k in range(offsets[record], offsets[record + 1]):
            if cell[items[k]] >= 0:
                out[cell[items[k]]] += weight


@njit(cache=True, nogil=True)
def pack_records(
    items: NDArray[Any], offsets: NDArray[np.int64], bit: NDArray[np.int32], out: NDArray[np.uint64]
) -> None:
    """The items that have a bit (not -1), as 64 bits per transaction."""
    for record in range(out.size):
        packed = np.uint64(0)
        for k in range(offsets[record], offsets[record + 1]):
            place = bit[items[k]]
            if place >= 0:
                packed |= np.uint64(1) << np.uint64(place)
        out[record] = packed


@njit(cache=True, nogil=True)
def touched_sets(
    records: NDArray[np.uint64], sets: NDArray[np.uint64], out: NDArray[np.int32]
) -> None:
    """How many of the sets, of two and more items each, a transaction holds."""
    for record in range(records.size):
        touched, held = 0, records[record]
        if held & (held - np.uint64(1)) != 0:  # at least two bits
            for number in range(sets.size):
                if held & sets[number] == sets[number]:
                    touched += 1
        out[record] = touched


@njit(cache=True, nogil=True)
def weigh_sets(
    records: NDArray[np.uint64],
    sets: NDArray[np.uint64],
    touched: NDArray[np.int32],
    weights: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Add the weight of each transaction to the sets that it holds."""
    for record in range(records.size):
        if touched[record] > 0:
            weight = weights[touched[record]]
            for number in range(sets.size):
                if records[record] & sets[number] == sets[number]:
                    out[number] += weight


@njit(cache=True, nogil=True)
def touched_pairs(records: NDArray[np.uint64], out: NDArray[np.int32]) -> None:
    """How many pairs each transaction holds: m (m - 1) / 2 of m bits."""
    for record in range(records.size):
        rest, bits = records[record], 0
        while rest != 0:
            rest &= rest - np.uint64(1)
            bits += 1
        out[record] = bits * (bits - 1) // 2


@njit(cache=True, nogil=True)
def weigh_pairs(
    records: NDArray[np.uint64],
    width: int,
    touched: NDArray[np.int32],
    weights: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Add the weight of each transaction to its pairs: out[a, b] with a < b < width."""
    held = np.empty(64, np.int64)
    for record in range(records.size):
        if touched[record] > 0:
            weight = weights[touched[record]]
            bits = 0
            for place in range(width):
                if (records[record] >> np.uint64(place)) & np.uint64(1) != 0:
                    held[bits] = place
                    bits += 1
            for a in range(bits):
                for b in range(a + 1, bits):
                    out[held[a], held[b]] += weight
