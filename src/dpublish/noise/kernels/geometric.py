"""Geometric draws in two levels, and the walk over gaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

# What became of a draw that is not finished; DONE is never stored.
REDRAW = 1
OVERFLOW = 2
UNDECIDED = 3

# The low bits of the first word decide acceptance; the high ones choose the table's symbol.
ACCEPT_BITS = 24
# Bound on the error of `exp_below` and of its argument; see geometric.proof.md. Powers of two keep
# the tests exact.
GUARD = 2.0**-36

_ACCEPT_MASK = np.uint64((1 << ACCEPT_BITS) - 1)
_UNIT = 2.0**-ACCEPT_BITS
_SATURATED = np.uint64(1 << 63)


@njit(cache=True, nogil=True)
def exp_near_zero(x: float) -> float:
    """exp(-x) for 0 <= x <= 1/32 to within 2^-39, from additions and multiplications only."""
    return 1.0 - x * (1.0 - x * (1.0 / 2 - x * (1.0 / 6 - x * (1.0 / 24 - x * (1.0 / 120)))))


@njit(cache=True, nogil=True)
def _first_saturated(shift: int) -> int:
    """The least symbol whose values reach 2^63; 2^62, which is more than any symbol, where 2^63
    would not fit."""
    return 1 << min(62, 63 - shift)


@njit(cache=True, nogil=True)
def geometric_values(
    words: NDArray[np.uint64],
    thresholds: NDArray[np.uint64],
    aliases: NDArray[np.int32],
    columns_log2: int,
    overflow: int,
    shift: int,
    rate: float,
    out: NDArray[np.uint64],
    places: NDArray[np.int64],
    outcomes: NDArray[np.uint8],
) -> int:
    """One attempt per pair of words: out = symbol * 2^shift + low part, if the low part is
    accepted.

    Unfinished attempts are listed in `places` with their outcome; returns how many. The low part is
    tested first and whatever the symbol is, because a rejection must not depend on the symbol.
    """
    suspects = _plain_values(
        words, thresholds, aliases, columns_log2, overflow, shift, rate, out, places
    )
    table_shift = np.uint64(64 - columns_log2)
    mask = (np.uint64(1) << table_shift) - np.uint64(1)
    limit = _first_saturated(shift)
    found = 0
    for k in range(suspects):
        i = places[k]
        word = words[2 * i]
        low = np.uint64(0)
        places[found] = i
        if shift > 0:
            low = words[2 * i + 1] >> np.uint64(64 - shift)
            near = exp_near_zero(rate * np.float64(low))
            level = np.float64(word & _ACCEPT_MASK) * _UNIT
            if level >= near + GUARD:
                outcomes[found] = REDRAW
                found += 1
                continue
            if level + _UNIT > near - GUARD:
                outcomes[found] = UNDECIDED
                found += 1
                continue
        column = word >> table_shift
        symbol = (
            np.int64(column) if (word & mask) < thresholds[column] else np.int64(aliases[column])
        )
        if symbol >= overflow:
            outcomes[found] = OVERFLOW if symbol == overflow else UNDECIDED
            found += 1
        elif symbol >= limit:
            out[i] = _SATURATED
        else:
            out[i] = (np.uint64(symbol) << np.uint64(shift)) + low
    return found


@njit(cache=True, nogil=True)
def _plain_values(
    words: NDArray[np.uint64],
    thresholds: NDArray[np.uint64],
    aliases: NDArray[np.int32],
    columns_log2: int,
    overflow: int,
    shift: int,
    rate: float,
    out: NDArray[np.uint64],
    suspects: NDArray[np.int64],
) -> int:
    """Write every value as if its low part were accepted; list the draws for which that is not
    certain.

    exp(-x) >= 1 - x accepts nearly every draw. There is no branch here: one on random bits costs
    more than the rest.
    """
    table_shift = np.uint64(64 - columns_log2)
    mask = (np.uint64(1) << table_shift) - np.uint64(1)
    low_shift = np.uint64(64 - shift if shift > 0 else 0)
    low_mask = (np.uint64(1) << np.uint64(shift)) - np.uint64(1)
    bound = min(overflow, _first_saturated(shift))
    certain = 1.0 - _UNIT - GUARD
    found = 0
    for i in range(out.size):
        word = words[2 * i]
        column = word >> table_shift
        alias = np.int64(aliases[column])
        symbol = np.int64(column) if (word & mask) < thresholds[column] else alias
        low = (words[2 * i + 1] >> low_shift) & low_mask
        # Signed conversions are one instruction; both numbers are below 2^63.
        x = rate * np.float64(np.int64(low))
        level = np.float64(np.int64(word & _ACCEPT_MASK)) * _UNIT
        out[i] = (np.uint64(symbol) << np.uint64(shift)) + low
        suspects[found] = i
        found += int((level + x > certain) | (symbol >= bound))
    return found


@njit(cache=True, nogil=True)
def walk_gaps(
    gaps: NDArray[np.uint64], position: np.uint64, trials: np.uint64, out: NDArray[np.uint64]
) -> tuple[int, np.uint64]:
    """Ranks of successes from failure counts between them; returns how many and the next rank to
    try (`trials` at the end)."""
    found = 0
    for i in range(gaps.size):
        gap = gaps[i]
        if gap >= trials - position:
            return found, trials
        position += gap
        out[found] = position
        found += 1
        position += np.uint64(1)
    return found, position
