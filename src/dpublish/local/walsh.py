"""Walsh-Hadamard transforms: rows of +1 and -1 in which any two agree in exactly half of the
places.

Entry (r, y) is +1 when r and y share an even number of set bits.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpublish.local.coins import Words

Number = TypeVar("Number", np.int64, np.float64)


def parity(words: Words) -> Words:
    """0 or 1: the number of set bits of each word, mod 2. The words are overwritten."""
    for shift in (32, 16, 8, 4, 2, 1):
        words ^= words >> np.uint64(shift)
    words &= np.uint64(1)
    return words


def transform(rows: NDArray[Number]) -> NDArray[Number]:
    """The transform of each row of a matrix; the length of a row is a power of two. Exact on
    integers."""
    out = rows.copy()
    height, width = out.shape
    half = 1
    while half < width:
        pairs = out.reshape(height, width // (2 * half), 2, half)
        first = pairs[:, :, 0, :] + pairs[:, :, 1, :]
        pairs[:, :, 1, :] = pairs[:, :, 0, :] - pairs[:, :, 1, :]
        pairs[:, :, 0, :] = first
        half *= 2
    return out


def half_member(rows: Words, places: Words, odd: Words) -> Words:
    """The place-th y of those whose parity with the row is `odd`: a bijection from [0, b/2) onto
    that half of [0, b).

    Rows must not be 0. The lowest set bit of the row is left open by `places` and then set so that
    the parity comes out.
    """
    lowest = rows & (~rows + np.uint64(1))
    low = lowest - np.uint64(1)
    out = ((places & ~low) << np.uint64(1)) | (places & low)
    wrong = parity(rows & out) ^ odd
    out |= lowest * wrong
    return out
