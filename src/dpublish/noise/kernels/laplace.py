"""Signs for magnitudes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit


@njit(cache=True, nogil=True)
def apply_signs(
    magnitudes: NDArray[np.uint64],
    signs: NDArray[np.uint64],
    limit: np.uint64,
    out: NDArray[np.int64],
    rejected: NDArray[np.int64],
) -> int:
    """out = magnitude, at most `limit`, with the sign of a fresh bit. "Minus zero" is listed for
    another draw.

    `out` may be a view of `magnitudes`.
    """
    found = 0
    for i in range(magnitudes.size):
        magnitude = np.int64(min(magnitudes[i], limit))
        negative = np.int64((signs[i >> 6] >> np.uint64(i & 63)) & np.uint64(1))
        out[i] = magnitude * (1 - 2 * negative)
        rejected[found] = i
        found += int((magnitude == 0) & (negative == 1))
    return found
