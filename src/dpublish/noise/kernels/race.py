"""A first look at a race between many candidates: which of them may have the best key, from the
leading bits of their words.

Only comparisons, exponents of floats and a few products are needed, so one pass over a million
candidates takes a millisecond. The bounds are coarse (a factor of two in a uniform) but true, so
the best candidate always stays (proof: select.proof.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LN2_LOW = 0.6931471805
LN2_HIGH = 0.6931471806
"""Bounds on ln 2, a relative 5e-11 away: far more than the roundings below."""

_HALF = 0.3267  # above log(2 ln 2)
_TINY = 1e-12
_PIECE = 1024


@njit(cache=True, nogil=True)
def _first_bits(words: Words, low: int, high: int, flip: bool, buffer: Floats) -> None:
    """Words as floats (complemented for `flip`): their exponents are the numbers of leading zeros,
    up to rounding."""
    if flip:
        for i in range(high - low):
            buffer[i] = np.float64(~words[low + i])
    else:
        for i in range(high - low):
            buffer[i] = np.float64(words[low + i])


@njit(cache=True, nogil=True)
def _part_low(exponent: int, flip: bool) -> float:
    """A lower bound on -log U (or, with `flip`, on -log(-log U)) from 2^(exponent - 1) <= word <
    2^exponent."""
    if not flip:
        return (64 - exponent) * LN2_LOW
    return (64 - exponent) * LN2_LOW - _HALF if exponent <= 63 else -np.inf


@njit(cache=True, nogil=True)
def _part_high(exponent: int) -> float:
    return (65 - exponent) * LN2_HIGH + _TINY


@njit(cache=True, nogil=True)
def sieve(words: Words, gap_low: Floats, gap_high: Floats, flip: bool) -> Ints:
    """The candidates whose key may be the largest: key = -log U - gap, or with `flip` -log(-log U)
    - gap."""
    count = len(words)
    buffer = np.empty(_PIECE, dtype=np.float64)
    bits = buffer.view(np.int64)
    highs = np.empty(count, dtype=np.float64)
    best = -np.inf
    for start in range(0, count, _PIECE):
        stop = min(count, start + _PIECE)
        _first_bits(words, start, stop, flip, buffer)
        for i in range(stop - start):
            at = start + i
            if buffer[i] == 0.0:
                # no bit is known: the key has no upper bound
                highs[at] = np.inf
                best = max(best, _part_low(0, flip) - gap_high[at])
                continue
            exponent = (bits[i] >> 52) - 1022
            highs[at] = _part_high(exponent) - gap_low[at]
            best = max(best, _part_low(exponent, flip) - gap_high[at])
    return np.flatnonzero(highs >= best)


@njit(cache=True, nogil=True)
def sieve_groups(
    words: Words, starts: Ints, gap_low: Floats, gap_high: Floats, flip: bool
) -> tuple[Ints, Ints]:
    """`sieve` for candidates in groups that share their bounds: (candidates, their groups).

    Group g holds candidates starts[g] to starts[g + 1]. Only the best word of a group matters for
    the best certain key.
    """
    groups = len(starts) - 1
    best = -np.inf
    top = np.empty(groups, dtype=np.uint64)
    for g in range(groups):
        least = np.uint64(0xFFFFFFFFFFFFFFFF)
        for at in range(starts[g], starts[g + 1]):
            word = ~words[at] if flip else words[at]
            least = min(least, word)
        top[g] = least
    exponents = np.empty(groups, dtype=np.int64)
    buffer = np.empty(groups, dtype=np.float64)
    bits = buffer.view(np.int64)
    for g in range(groups):
        buffer[g] = np.float64(top[g])
    for g in range(groups):
        exponents[g] = (bits[g] >> 52) - 1022 if top[g] > np.uint64(0) else 0
        if starts[g] < starts[g + 1]:
            best = max(best, _part_low(exponents[g], flip) - gap_high[g])
    found = np.empty(len(words), dtype=np.int64)
    owner = np.empty(len(words), dtype=np.int64)
    kept = 0
    one = np.empty(1, dtype=np.float64)
    one_bits = one.view(np.int64)
    for g in range(groups):
        if starts[g] == starts[g + 1]:
            continue
        if top[g] > np.uint64(0) and _part_high(exponents[g]) - gap_low[g] < best:
            continue
        for at in range(starts[g], starts[g + 1]):
            word = ~words[at] if flip else words[at]
            if word > np.uint64(0):
                one[0] = np.float64(word)
                if _part_high((one_bits[0] >> 52) - 1022) - gap_low[g] < best:
                    continue
            found[kept], owner[kept] = at, g
            kept += 1
    return found[:kept].copy(), owner[:kept].copy()
