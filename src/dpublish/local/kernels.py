"""Compiled loops of the local model, for whoever handles the reports of many people: bits of rows.
A device does without them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

PLANES = 10


@njit(cache=True, nogil=True)
def look_up(
    words: NDArray[np.uint16],
    table: NDArray[np.uint16],
    out: NDArray[np.uint8],
    unsettled: NDArray[np.int32],
) -> int:
    """out = table[word]; places where the table says (256) that a word is not enough are listed in
    `unsettled`."""
    found = 0
    for i in range(words.size):
        pattern = table[words[i]]
        out[i] = np.uint8(pattern)
        if pattern > np.uint16(
            255
        ):  # one in 257 at most, so a branch is cheaper than a store each time
            unsettled[found] = i
            found += 1
    return found


@njit(cache=True, nogil=True)
def put_bits(
    rows: NDArray[np.uint8], places: NDArray[np.uint64], values: NDArray[np.uint8]
) -> None:
    """Bit places[i] of row i becomes values[i]."""
    for i in range(places.size):
        byte, shift = places[i] >> np.uint64(3), places[i] & np.uint64(7)
        rest = rows[i, byte] & ~(np.uint64(1) << shift)
        rows[i, byte] = np.uint8(rest | (np.uint64(values[i]) << shift))


@njit(cache=True, nogil=True)
def count_bits(rows: NDArray[np.uint64], totals: NDArray[np.int64]) -> None:
    """totals[64 c + b] += how many rows have bit b of column c set.

    Rows are added up to 1,023 at a time in bit planes: bit b of planes[j] holds bit j of the count
    of that place, so that one word operation adds to 64 counts.
    """
    height, width = rows.shape
    planes = np.zeros((PLANES, width), dtype=np.uint64)
    carry = np.empty(width, dtype=np.uint64)
    most = (1 << PLANES) - 1
    for start in range(0, height, most):
        planes[:] = np.uint64(0)
        for r in range(start, min(start + most, height)):
            for c in range(width):
                carry[c] = rows[r, c]
            # after r - start rows no count is above that, so higher planes are still empty
            level = 0
            seen = r - start + 1
            while seen:
                for c in range(width):
                    kept = planes[level, c]
                    planes[level, c] = kept ^ carry[c]
                    carry[c] &= kept
                seen >>= 1
                level += 1
        for c in range(width):
            for b in range(64):
                total = 0
                for j in range(PLANES):
                    total += int((planes[j, c] >> np.uint64(b)) & np.uint64(1)) << j
                totals[64 * c + b] += total
