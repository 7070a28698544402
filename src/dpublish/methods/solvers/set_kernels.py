"""Loops of the greedy covers: what becomes of the counts of all sets when one set has been
output."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def take_set(
    chosen: int,
    starts: Ints,
    items: Ints,
    holder_starts: Ints,
    holders: Ints,
    weight: Ints,
    gains: Ints,
) -> np.int64:
    """Cover the items of `chosen`: their weight leaves the gain of every set that holds them.
    Returns the weight covered."""
    covered = np.int64(0)
    for place in range(starts[chosen], starts[chosen + 1]):
        item = items[place]
        if weight[item]:
            for index in range(holder_starts[item], holder_starts[item + 1]):
                gains[holders[index]] -= weight[item]
            covered += weight[item]
            weight[item] = 0
    return covered


@njit(cache=True, nogil=True)
def lower_gains(
    chosen: int,
    starts: Ints,
    items: Ints,
    holder_starts: Ints,
    holders: Ints,
    wanted: Floats,
    left: Floats,
    gains: Floats,
) -> int:
    """Cover the items of `chosen` (public numbers); returns how many were not covered before."""
    covered = 0
    for place in range(starts[chosen], starts[chosen + 1]):
        item = items[place]
        if left[item] > 0.0:
            for index in range(holder_starts[item], holder_starts[item + 1]):
                gains[holders[index]] -= wanted[item]
            left[item] = 0.0
            covered += 1
    return covered
