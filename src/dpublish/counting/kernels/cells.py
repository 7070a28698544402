"""Codes of several columns to mixed-radix cell numbers, and counting over domains small enough to
index directly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit


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
