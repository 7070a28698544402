"""Sorting cell numbers, and counting runs of equal ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS


@njit(cache=True, nogil=True)
def digit_counts(cells: NDArray[np.uint64], shift: np.uint64, counts: NDArray[np.int64]) -> None:
    """How often each value of one digit occurs. Four tables, because equal neighbours would wait
    for each other's store."""
    mask = np.uint64(DIGITS - 1)
    four = np.zeros((4, DIGITS), np.int64)
    whole = cells.size // 4 * 4
    for i in range(0, whole, 4):
        four[0, np.int64((cells[i] >> shift) & mask)] += 1
        four[1, np.int64((cells[i + 1] >> shift) & mask)] += 1
        four[2, np.int64((cells[i + 2] >> shift) & mask)] += 1
        four[3, np.int64((cells[i + 3] >> shift) & mask)] += 1
    for i in range(whole, cells.size):
        four[0, np.int64((cells[i] >> shift) & mask)] += 1
    for digit in range(DIGITS):
        counts[digit] = four[0, digit] + four[1, digit] + four[2, digit] + four[3, digit]


@njit(cache=True, nogil=True)
def scatter(
    source: NDArray[np.uint64],
    target: NDArray[np.uint64],
    shift: np.uint64,
    next_place: NDArray[np.int64],
) -> None:
    """One stable pass of a radix sort: each cell goes to the next free place of its digit."""
    mask = np.uint64(DIGITS - 1)
    for i in range(source.size):
        cell = source[i]
        digit = np.int64((cell >> shift) & mask)
        place = next_place[digit]
        target[place] = cell
        next_place[digit] = place + 1


@njit(cache=True, nogil=True)
def run_lengths(ordered: NDArray[np.uint64], counts: NDArray[np.int64]) -> int:
    """Squeeze a sorted array into its distinct values, in place, and count each; how many there
    are."""
    if ordered.size == 0:
        return 0
    place = 0
    start = 0
    current = ordered[0]
    for i in range(1, ordered.size):
        cell = ordered[i]
        if cell != current:
            ordered[place] = current  # never ahead of what was read
            counts[place] = i - start
            place += 1
            start = i
            current = cell
    ordered[place] = current
    counts[place] = ordered.size - start
    return place + 1


@njit(cache=True, nogil=True)
def count_union(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> int:
    """How many distinct cells two sorted lists hold together."""
    i = j = distinct = 0
    while i < left.size and j < right.size:
        a, b = left[i], right[j]
        i += 1 if a <= b else 0
        j += 1 if b <= a else 0
        distinct += 1
    return distinct + left.size - i + right.size - j


@njit(cache=True, nogil=True)
def merge_counts(
    left: NDArray[np.uint64],
    left_counts: NDArray[np.int64],
    right: NDArray[np.uint64],
    right_counts: NDArray[np.int64],
    cells: NDArray[np.uint64],
    counts: NDArray[np.int64],
) -> None:
    """Add two sorted sparse counts; the outputs have exactly the size that `count_union` says."""
    i = j = place = 0
    while i < left.size and j < right.size:
        a, b = left[i], right[j]
        if a < b:
            cells[place], counts[place] = a, left_counts[i]
            i += 1
        elif b < a:
            cells[place], counts[place] = b, right_counts[j]
            j += 1
        else:
            cells[place], counts[place] = a, left_counts[i] + right_counts[j]
            i += 1
            j += 1
        place += 1
    while i < left.size:
        cells[place], counts[place] = left[i], left_counts[i]
        i += 1
        place += 1
    while j < right.size:
        cells[place], counts[place] = right[j], right_counts[j]
        j += 1
        place += 1


@njit(cache=True, nogil=True)
def occupied(
    dense: NDArray[np.int64], cells: NDArray[np.uint64], counts: NDArray[np.int64]
) -> None:
    """The non-zero entries of a dense count; the outputs have exactly the right size."""
    place = 0
    for cell in range(dense.size):
        if dense[cell] != 0:
            cells[place] = np.uint64(cell)
            counts[place] = dense[cell]
            place += 1
