"""Table look-ups: one word, one symbol."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit


@njit(cache=True, nogil=True)
def alias_symbols(
    words: NDArray[np.uint64],
    thresholds: NDArray[np.uint64],
    aliases: NDArray[np.int32],
    columns_log2: int,
    first_rare: int,
    out: NDArray[np.int64],
    rare: NDArray[np.int64],
) -> int:
    """Write one symbol per word; note the places of symbols >= `first_rare` and return how many
    there are."""
    shift = np.uint64(64 - columns_log2)
    mask = (np.uint64(1) << shift) - np.uint64(1)
    found = 0
    for i in range(words.size):
        word = words[i]
        column = word >> shift
        # Both loads and the note are unconditional: a branch on random bits costs more than all of
        # them.
        alias = np.int64(aliases[column])
        symbol = np.int64(column) if (word & mask) < thresholds[column] else alias
        out[i] = symbol
        rare[found] = i
        found += int(symbol >= first_rare)
    return found
