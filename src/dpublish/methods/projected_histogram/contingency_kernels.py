"""Loops that fill contingency tables, and that renumber the cells rows are in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

Codes = NDArray[Any]

_BLOCK = 2048


@njit(cache=True, nogil=True)
def count_joint(
    base: Codes,
    first: Codes,
    first_levels: int,
    second: Codes | None,
    second_levels: int,
    third: Codes | None,
    third_levels: int,
    table: NDArray[np.uint32],
) -> None:
    """Add each row to the joint table [base, first, second, third]; the second and third column may
    be absent.

    Places are computed a block at a time, several rows in one instruction, and one increment serves
    all columns.
    """
    places = np.empty(_BLOCK, np.uint32)
    first_width, second_width, third_width = (
        np.uint32(first_levels),
        np.uint32(second_levels),
        np.uint32(third_levels),
    )
    for low in range(0, base.size, _BLOCK):
        high = min(base.size, low + _BLOCK)
        here, codes = base[low:high], first[low:high]
        for i in range(high - low):
            places[i] = np.uint32(np.uint32(here[i]) * first_width + np.uint32(codes[i]))
        if second is not None:
            more = second[low:high]
            for i in range(high - low):
                places[i] = np.uint32(places[i] * second_width + np.uint32(more[i]))
        if third is not None:
            last = third[low:high]
            for i in range(high - low):
                places[i] = np.uint32(places[i] * third_width + np.uint32(last[i]))
        for i in range(high - low):
            table[places[i]] += np.uint32(1)


@njit(cache=True, nogil=True)
def count_two(
    base: Codes,
    first: Codes,
    first_levels: int,
    first_table: NDArray[np.uint32],
    second: Codes,
    second_levels: int,
    second_table: NDArray[np.uint32],
) -> None:
    """A table for each of two columns at once: `base` is read once, and neither table waits for its
    own last increment."""
    first_width, second_width = np.uint32(first_levels), np.uint32(second_levels)
    for i in range(base.size):
        at = np.uint32(base[i])
        first_table[at * first_width + first[i]] += np.uint32(1)
        second_table[at * second_width + second[i]] += np.uint32(1)


@njit(cache=True, nogil=True)
def relabel(cells: NDArray[np.uint32], number: NDArray[np.uint32], out: Codes) -> None:
    """out = number[cell], for each row."""
    for row in range(cells.size):
        out[row] = number[cells[row]]


@njit(cache=True, nogil=True)
def add_small_digit(codes: Codes, levels: int, cells: NDArray[np.uint32], first: bool) -> None:
    """One more digit of the mixed-radix cell number of each row, for domains below 2^32."""
    width = np.uint32(levels)
    for row in range(cells.size):
        digit = np.uint32(codes[row])
        cells[row] = digit if first else np.uint32(cells[row] * width + digit)


@njit(cache=True, nogil=True)
def count_into(cells: NDArray[Any], counts: NDArray[np.uint32]) -> None:
    for row in range(cells.size):
        counts[cells[row]] += np.uint32(1)
