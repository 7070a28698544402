"""Sorted lists of cells: checks, ranks among the empty cells, and merging."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit


@njit(cache=True, nogil=True)
def cells_in_order(cells: NDArray[np.uint64], domain_size: np.uint64) -> bool:
    """Whether cells increase strictly and stay below `domain_size`."""
    for i in range(1, cells.size):
        if cells[i] <= cells[i - 1]:
            return False
    return cells.size == 0 or cells[cells.size - 1] < domain_size


@njit(cache=True, nogil=True)
def empty_cells(
    ranks: NDArray[np.uint64], occupied: NDArray[np.uint64], out: NDArray[np.uint64]
) -> None:
    """out[i] = the cell with ranks[i] empty cells before it; both inputs sorted."""
    passed = 0
    for i in range(ranks.size):
        cell = ranks[i] + np.uint64(passed)
        while passed < occupied.size and occupied[passed] <= cell:
            passed += 1
            cell += np.uint64(1)
        out[i] = cell


@njit(cache=True, nogil=True)
def merge_cells(
    first: NDArray[np.uint64],
    first_values: NDArray[np.int64],
    second: NDArray[np.uint64],
    second_values: NDArray[np.int64],
    cells: NDArray[np.uint64],
    values: NDArray[np.int64],
) -> None:
    """Merge two sorted lists of distinct cells with their values."""
    i = 0
    j = 0
    for k in range(cells.size):
        if j == second.size or (i < first.size and first[i] < second[j]):
            cells[k] = first[i]
            values[k] = first_values[i]
            i += 1
        else:
            cells[k] = second[j]
            values[k] = second_values[j]
            j += 1


@njit(cache=True, nogil=True)
def clamp_sums(values: NDArray[np.int64], limit: np.int64, noise: NDArray[np.int64]) -> None:
    """noise = clamp(clamp(values) + noise), in one pass: two calls of numpy's clip took longer than
    drawing the noise."""
    for i in range(noise.size):
        total = noise[i] + min(max(values[i], -limit), limit)
        noise[i] = min(max(total, -limit), limit)
