"""Proportional fitting of a small table to one of its margins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def fit_axis(table: Floats, wanted: Floats) -> float:
    """Scale a table (outer, axis, inner, label) to its margin (axis, label), and tell how far the
    margin was off at most."""
    outer, groups, inner, labels = table.shape
    off = 0.0
    held = np.empty(labels)
    for group in range(groups):
        held[:] = 0.0
        for i in range(outer):
            for j in range(inner):
                for label in range(labels):
                    held[label] += table[i, group, j, label]
        for label in range(labels):
            off = max(off, abs(held[label] - wanted[group, label]))
            held[label] = wanted[group, label] / held[label] if held[label] > 0.0 else 0.0
        for i in range(outer):
            for j in range(inner):
                for label in range(labels):
                    table[i, group, j, label] *= held[label]
    return off
