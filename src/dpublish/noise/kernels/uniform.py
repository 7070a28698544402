"""Uniform integers below a bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit


@njit(cache=True, nogil=True)
def high_product(a: np.uint64, b: np.uint64) -> np.uint64:
    """The upper 64 bits of the 128-bit product."""
    half = np.uint64(32)
    mask = np.uint64(0xFFFFFFFF)
    a_high, a_low = a >> half, a & mask
    b_high, b_low = b >> half, b & mask
    middle = a_high * b_low + ((a_low * b_low) >> half)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> half) + (other >> half)


@njit(cache=True, nogil=True)
def scale_words(
    words: NDArray[np.uint64],
    bound: np.uint64,
    reject_below: np.uint64,
    out: NDArray[np.uint64],
    rejected: NDArray[np.int64],
) -> int:
    """out = floor(word * bound / 2^64); words whose low product is under `reject_below` (2^64 mod
    bound) are listed."""
    found = 0
    for i in range(words.size):
        out[i] = high_product(words[i], bound)
        rejected[found] = i
        found += int(words[i] * bound < reject_below)
    return found
