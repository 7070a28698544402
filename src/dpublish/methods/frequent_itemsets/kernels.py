"""Loops of the frequent itemsets: how many counted cells a transaction touches, and the counts of
the cells with a weight per transaction. Each is one pass, and its memory is that of its output."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit


@njit(cache=True, nogil=True)
def touched_items(
    items: NDArray, offsets: NDArray[np.int64], cell: NDArray[np.int32], out: NDArray[np.int32]
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
    items: NDArray,
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
    items: NDArray, offsets: NDArray[np.int64], bit: NDArray[np.int32], out: NDArray[np.uint64]
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
