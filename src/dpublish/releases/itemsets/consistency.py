"""Consistency of a set-valued release: counts that add up, from the root to the itemsets. Free,
being post-processing.

A split loses the records of the parts that were suppressed, so published parts add up to less than
the whole. Handing every partition's count down to its published parts, in proportion to theirs,
makes parts add up to the whole: what was left out is taken to be like what was published beside it.
Where little was published that would be a bold guess, so that no split makes its parts more than
`MOST` times as large; what exceeds that is shared by all that is published above it, under the same
rule.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.releases.itemsets.intervals import Cells

Floats = NDArray[np.float64]


MOST = 1.5


def consistent_weights(
    partitions: Cells, itemsets: Cells, generations: list[NDArray[np.int64]], total: float | None
) -> Floats:
    """Non-negative weights of the itemsets, at most `total` in all (when there is one)."""
    size = partitions.parent.size
    leaves = np.maximum(itemsets.count, 0).astype(np.float64)
    held = np.maximum(partitions.count, 0).astype(np.float64)
    # of nothing, bincount makes whole numbers
    below = np.bincount(itemsets.parent, weights=leaves, minlength=size).astype(np.float64)
    held[0] = below.sum() if total is None else max(0.0, total)
    for depth in range(len(generations) - 1, -1, -1):
        rows = generations[depth]
        if depth + 1 < len(generations):
            parts = generations[depth + 1]
            below += np.bincount(partitions.parent[parts], weights=held[parts], minlength=size)
        held[rows] = np.minimum(held[rows], MOST * below[rows])
    factor = np.where(below > 0, held / np.where(below > 0, below, 1.0), 0.0)
    for rows in generations[1:]:
        factor[rows] *= factor[partitions.parent[rows]]
    return np.asarray(leaves * factor[itemsets.parent])


def clipped_weights(counts: NDArray[np.int64], total: float | None) -> Floats:
    """Non-negative weights for a release of all itemsets: the nearest to its counts that add up to
    `total`.

    Dropping negative counts would keep the positive noise of all absent itemsets, which adds up to
    more than the data. The same amount is taken off every count instead, and what falls below zero
    is dropped.
    """
    values = counts.astype(np.float64)
    wanted = max(0.0, float(values.sum()) if total is None else total)
    falling = np.sort(values)[::-1]
    taken = (np.cumsum(falling) - wanted) / np.arange(1, values.size + 1)
    kept = np.flatnonzero(falling > taken)
    return (
        np.maximum(values - taken[kept[-1]], 0.0)
        if kept.size and wanted > 0
        else np.zeros(values.size)
    )
