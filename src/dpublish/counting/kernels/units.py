"""Choosing which rows of a unit to keep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit


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
