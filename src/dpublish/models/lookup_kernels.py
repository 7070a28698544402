"""Loops over codes: a value looked up for each row, and amounts of rows added up by code.

They take the place of products with a matrix of indicators or of numbers that are read from a
table, which is never made.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Codes, Floats
from dpublish.compiled import njit


@njit(cache=True, nogil=True)
def add_looked_up(codes: Codes, by_code: Floats, out: Floats) -> None:
    """out_i += by_code[codes_i]."""
    for i in range(len(codes)):
        out[i] += by_code[codes[i]]


@njit(cache=True, nogil=True)
def add_by_code(codes: Codes, amounts: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    """out[codes_i] += amounts_i, exactly: whole numbers."""
    for i in range(len(codes)):
        out[codes[i]] += amounts[i]


@njit(cache=True, nogil=True)
def add_masses(codes: Codes, masses: Floats, out: Floats) -> None:
    """out[codes_i] += masses_i."""
    for i in range(len(codes)):
        out[codes[i]] += masses[i]


@njit(cache=True, nogil=True)
def scale_and_add(
    codes: Codes, factors: Floats, masses: Floats, following: Codes, out: Floats
) -> None:
    """masses_i *= factors[codes_i], then out[following_i] += masses_i: two tables in one pass over
    the rows."""
    for i in range(len(codes)):
        mass = masses[i] * factors[codes[i]]
        masses[i] = mass
        out[following[i]] += mass


@njit(cache=True, nogil=True)
def add_by_two_codes(first: Codes, second: Codes, amounts: Floats, out: Floats) -> None:
    """out[first_i, second_i] += amounts_i, `out` being two-dimensional."""
    for i in range(len(first)):
        out[first[i], second[i]] += amounts[i]


@njit(cache=True, nogil=True)
def add_all_looked_up(codes: NDArray[np.uint32], values: Floats, out: Floats) -> None:
    """out_i += values[codes_gi] for every group g: one line of codes a group."""
    for g in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            out[i] += values[codes[g, i]]


@njit(cache=True, nogil=True)
def add_all_masses(codes: NDArray[np.uint32], masses: Floats, out: Floats) -> None:
    """out[codes_gi] += masses_i for every group g."""
    for g in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            out[codes[g, i]] += masses[i]


@njit(cache=True, nogil=True)
def write_looked_up(
    codes: Codes,
    table: NDArray[np.float32],
    start: int,
    factors: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """out[i, start:] = table[codes_i] * factors_i."""
    width = table.shape[1]
    for i in range(len(codes)):
        code = codes[i]
        for j in range(width):
            out[i, start + j] = table[code, j] * factors[i]


@njit(cache=True, nogil=True)
def write_indicators(
    codes: Codes, value: float, start: int, factors: NDArray[np.float32], out: NDArray[np.float32]
) -> None:
    """out[i, start + codes_i] = value * factors_i; the rest of `out` is left as it is."""
    for i in range(len(codes)):
        out[i, start + codes[i]] = value * factors[i]
