"""Compiled loops: cell numbers, runs of equal cells, the rows of a unit, and tidy transactions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS


@njit(cache=True, nogil=True)
def start_group(group: NDArray[np.uint32], codes: NDArray[Any]) -> None:
    for i in range(group.size):
        group[i] = np.uint32(codes[i])


@njit(cache=True, nogil=True)
def extend_group(group: NDArray[np.uint32], codes: NDArray[Any], cardinality: np.uint32) -> None:
    for i in range(group.size):
        group[i] = np.uint32(group[i] * cardinality + np.uint32(codes[i]))


@njit(cache=True, nogil=True)
def start_cells(cells: NDArray[np.uint64], group: NDArray[np.uint32]) -> None:
    for i in range(cells.size):
        cells[i] = np.uint64(group[i])


@njit(cache=True, nogil=True)
def extend_cells(
    cells: NDArray[np.uint64], group: NDArray[np.uint32], cardinality: np.uint64
) -> None:
    for i in range(cells.size):
        cells[i] = cells[i] * cardinality + np.uint64(group[i])


@njit(cache=True, nogil=True)
def tally(counts: NDArray[np.int64], cells: NDArray[np.uint32]) -> None:
    for i in range(cells.size):
        counts[cells[i]] += 1


@njit(cache=True, nogil=True)
def squeeze(cells: NDArray[Any], keep: NDArray[np.bool_]) -> int:
    """Move the kept entries to the front, in order; how many there are."""
    kept = 0
    for i in range(cells.size):
        cells[kept] = cells[i]
        kept += 1 if keep[i] else 0
    return kept


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


@njit(cache=True, nogil=True)
def _mix(word: np.uint64) -> np.uint64:
    """A bijection of 64-bit words that spreads every bit (the finaliser of SplitMix64)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(cache=True, nogil=True)
def choose_rows(
    labels: NDArray[np.int64],
    identity: NDArray[np.uint64],
    present: NDArray[np.bool_],
    most: int,
    key_low: np.uint64,
    key_high: np.uint64,
) -> NDArray[np.bool_]:
    """Keep the `most` rows of each unit with the smallest hash of (key, unit, index within the
    unit).

    `labels` gives each row the row number of some fixed row of its unit; `identity` depends on the
    unit's value only.
    """
    rows = labels.size
    sizes = np.zeros(rows, np.int64)
    for i in range(rows):
        if present[i]:
            sizes[labels[i]] += 1
    # rows of units that are too large are laid out unit by unit, in row order
    starts = np.empty(rows, np.int64)
    total = 0
    for label in range(rows):
        if sizes[label] > most:
            starts[label] = total
            total += sizes[label]
    keep = np.zeros(rows, np.bool_)
    members = np.empty(total, np.int64)
    filled = np.zeros(rows, np.int64)
    for i in range(rows):
        if present[i]:
            label = labels[i]
            if sizes[label] <= most:
                keep[i] = True
            else:
                members[starts[label] + filled[label]] = i
                filled[label] += 1
    for label in range(rows):
        size = sizes[label]
        if size <= most:
            continue
        unit = members[starts[label] : starts[label] + size]
        salt = _mix(_mix(identity[label] ^ key_low) + key_high)
        hashes = np.empty(size, np.uint64)
        for index in range(size):
            # a bijection of the index, so hashes within a unit never tie
            hashes[index] = _mix(salt + np.uint64(index) * np.uint64(0x9E3779B97F4A7C15))
        limit = np.sort(hashes)[most - 1]
        for index in range(size):
            if hashes[index] <= limit:
                keep[unit[index]] = True
    return keep


@njit(cache=True, nogil=True)
def tidy_records(
    codes: NDArray,
    lengths: NDArray[np.int64],
    keep: NDArray[np.bool_],
    most: int,
    items: NDArray,
    offsets: NDArray[np.int64],
) -> int:
    """Write each kept record's codes (negative ones are no items) ascending and once each; returns
    how many records have any.

    A record keeps its `most` least codes: it is cut by a rule that looks at nothing else. Long
    records are sorted through a copy, so that one record with every item does not take a quadratic
    time.
    """
    record, used, at = 0, 0, 0
    for row in range(lengths.size):
        stop = at + lengths[row]
        if keep[row]:
            begin = used
            if stop - at <= 64:
                for k in range(at, stop):
                    x = codes[k]
                    if x < 0:
                        continue
                    j = used - 1
                    while j >= begin and items[j] > x:
                        j -= 1
                    if j >= begin and items[j] == x:
                        continue
                    for i in range(used - 1, j, -1):
                        items[i + 1] = items[i]
                    items[j + 1] = x
                    used += 1
            else:
                ordered = np.sort(codes[at:stop])
                for k in range(ordered.size):
                    x = ordered[k]
                    if x >= 0 and (used == begin or items[used - 1] != x):
                        items[used] = x
                        used += 1
            used = min(used, begin + most)
            if used > begin:
                record += 1
                offsets[record] = used
        at = stop
    return record
