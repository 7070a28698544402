"""Counting of columns by label, and of two or three grouped columns by label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Codes
from dpublish.compiled import njit


@njit(cache=True, nogil=True)
def count_column(
    codes: Codes, labels_of: NDArray[np.uint8], labels: int, out: NDArray[np.int64]
) -> None:
    """Add the rows of each (level, label) to `out`."""
    for i in range(codes.size):
        out[np.int64(codes[i]) * labels + labels_of[i]] += 1


@njit(cache=True, nogil=True)
def regroup(codes: Codes, group_of: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """The group of each row."""
    for i in range(codes.size):
        out[i] = group_of[codes[i]]


@njit(cache=True, nogil=True)
def count_pair(
    first: NDArray[np.uint8],
    second: NDArray[np.uint8],
    labels_of: NDArray[np.uint8],
    second_groups: int,
    labels: int,
    out: NDArray[np.int64],
) -> None:
    """Add the rows of each (group, group, label) to `out`."""
    for i in range(first.size):
        out[(np.int64(first[i]) * second_groups + second[i]) * labels + labels_of[i]] += 1


@njit(cache=True, nogil=True)
def count_triple(
    first: NDArray[np.uint8],
    second: NDArray[np.uint8],
    third: NDArray[np.uint8],
    labels_of: NDArray[np.uint8],
    groups: tuple[int, int],
    labels: int,
    out: NDArray[np.int64],
) -> None:
    """Add the rows of each (group, group, group, label) to `out`; `groups` are those of the second
    and the third column."""
    for i in range(first.size):
        cell = (np.int64(first[i]) * groups[0] + second[i]) * groups[1] + third[i]
        out[cell * labels + labels_of[i]] += 1


@njit(cache=True, nogil=True)
def rows_apart(
    counts: NDArray[np.float64], expected: NDArray[np.float64], largest: int
) -> np.int64:
    """The sum over cells of |count - model|, where the model is the expected count as a whole
    number from 0 to `largest`.

    Counts are whole numbers below 2^53, and so are the differences: nothing is rounded but the
    model.
    """
    apart = np.int64(0)
    for i in range(counts.size):
        model = np.int64(0)
        if expected[i] >= largest:
            model = np.int64(largest)
        elif expected[i] > 0.0:  # false for what is no number
            model = np.int64(np.rint(expected[i]))
        apart += abs(np.int64(counts[i]) - model)
    return apart


@njit(cache=True, nogil=True)
def largest_box(apart: NDArray[np.int64]) -> np.int64:
    """The largest absolute sum over a run of rows and a run of columns of a table."""
    rows, columns = apart.shape
    best = np.int64(0)
    held = np.empty(columns, dtype=np.int64)
    for top in range(rows):
        held[:] = 0
        for bottom in range(top, rows):
            low, high, running = np.int64(0), np.int64(0), np.int64(0)
            for column in range(columns):
                held[column] += apart[bottom, column]
                running += held[column]
                low = min(low, running)
                high = max(high, running)
            best = max(best, high - low)
    return best
