"""Rows of independent bits, each 1 with the same exact probability: eight at a time, for little
more than their entropy.

A byte of such bits is one of 256 patterns with exact rational probabilities, so it can be drawn by
one uniform real against their running sums. Sixteen bits of the real settle the pattern in all but
255 of 65,536 cases; then more bits of *the same* real are drawn, until it is settled. The law is
therefore the stated one, not a rounding of it (proof: coins.proof.md).

A coin a bit would cost 32 random bits for each; this costs two.
"""

from __future__ import annotations

from bisect import bisect_right
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from dpublish.local.coins import Coins

Bytes = NDArray[np.uint8]

FIRST_BITS = 16
SECOND_BITS = 48
_UNSETTLED = 256
_MANY = 1 << 17
"""From so many bytes on it pays to load the compiled loops, if they are there."""


class BiasedBits:
    """Bytes whose lowest `width` bits are 1 with probability `ones` / 2^`bits` each, independently;
    the others are 0."""

    def __init__(
        self,
        ones: int,
        bits: int,
        *,
        width: int = 8,
        first_bits: int = FIRST_BITS,
        second_bits: int = SECOND_BITS,
    ) -> None:
        zeros = (1 << bits) - ones
        self._bits = bits * width
        # where each pattern begins, as a whole number out of 2^(bits width)
        self._starts = [0]
        for pattern in range((1 << width) - 1):
            count = pattern.bit_count()
            self._starts.append(self._starts[-1] + ones**count * zeros ** (width - count))
        self._first = min(first_bits, self._bits)
        self._second = min(second_bits, self._bits - self._first)
        self._last = self._bits - self._first - self._second
        self._table = self._settled_by_first()
        self._edges = np.array([start >> self._last for start in self._starts], dtype=np.uint64)
        low = (1 << self._last) - 1
        inside = {start >> self._last for start in self._starts if start & low}
        self._open = np.array([int(edge) in inside for edge in self._edges])

    def _settled_by_first(self) -> NDArray[np.uint16]:
        """The pattern of every value of the first bits, or _UNSETTLED where a pattern begins
        strictly inside its cell."""
        rest = self._bits - self._first
        cells = np.arange(1 << self._first, dtype=np.uint64)
        below = np.array([start >> rest for start in self._starts], dtype=np.uint64)
        table = (np.searchsorted(below, cells, side="right") - 1).astype(np.uint16)
        inside = [start >> rest for start in self._starts if start & ((1 << rest) - 1)]
        table[inside] = _UNSETTLED
        return table

    def draw(self, coins: Coins, size: int) -> Bytes:
        """`size` independent bytes. How many words are drawn depends on the words, never on
        anything else."""
        if self._first == FIRST_BITS:
            # the four quarters of a uniform word are independent
            words = (
                coins.integers(1 << 64, size=-(-size // 4), label="bits")
                .astype("<u8", copy=False)
                .view("<u2")[:size]
            )
        else:
            words = coins.integers(1 << self._first, size=size, label="bits").astype(np.uint16)
        out, unsettled = self._look_up(words)
        if unsettled.size:
            more = coins.integers(1 << self._second, size=unsettled.size, label="more bits")
            out[unsettled] = self._settle(
                (words[unsettled].astype(np.uint64) << np.uint64(self._second)) | more, coins
            )
        return out

    def _look_up(self, words: NDArray[np.uint16]) -> tuple[Bytes, NDArray[np.int32]]:
        kernels = _kernels() if words.size >= _MANY else None
        if kernels is None:
            patterns = self._table[words]
            return patterns.astype(np.uint8), np.flatnonzero(patterns == _UNSETTLED).astype(
                np.int32
            )
        out = np.empty(words.size, dtype=np.uint8)
        unsettled = np.empty(words.size, dtype=np.int32)
        found = kernels.look_up(words, self._table, out, unsettled)
        return out, unsettled[:found]

    def _settle(self, words: NDArray[np.uint64], coins: Coins) -> Bytes:
        """Patterns from the first and second bits; words in whose cell a pattern begins strictly
        inside get the last bits."""
        patterns = np.searchsorted(self._edges, words, side="right") - 1
        for place in np.flatnonzero(self._open[patterns] & (self._edges[patterns] == words)):
            value, left = int(words[place]), self._last
            while left:
                taken = min(left, 64)
                value = value << taken | int(
                    coins.integers(1 << taken, size=1, label="last bits")[0]
                )
                left -= taken
            patterns[place] = bisect_right(self._starts, value) - 1
        return patterns.astype(np.uint8)


def put_bits(rows: Bytes, places: NDArray[np.uint64], values: Bytes) -> None:
    """Bit places[i] of row i becomes values[i] (0 or 1); the lowest bit of the first byte is bit
    0."""
    kernels = _kernels() if rows.size >= _MANY else None
    if kernels is not None:
        kernels.put_bits(rows, places, values)
        return
    own = (np.arange(len(rows)), (places >> np.uint64(3)).astype(np.int64))
    shift = (places & np.uint64(7)).astype(np.uint8)
    rows[own] = (rows[own] & ~(np.uint8(1) << shift)) | (values << shift)


def count_set_bits(rows: Bytes, size: int) -> NDArray[np.int64]:
    """How many rows have each of the first `size` bits set; the lowest bit of the first byte is bit
    0."""
    height, width = rows.shape
    kernels = _kernels() if rows.size >= _MANY else None
    if kernels is None:
        counts: NDArray[np.int64] = np.unpackbits(rows, axis=1, count=size, bitorder="little").sum(
            axis=0, dtype=np.int64
        )
        return counts
    spare = -width % 8
    if spare:
        rows = np.concatenate([rows, np.zeros((height, spare), dtype=np.uint8)], axis=1)
    words = np.ascontiguousarray(rows).view("<u8").astype(np.uint64, copy=False)
    totals = np.zeros(64 * words.shape[1], dtype=np.int64)
    kernels.count_bits(words, totals)
    return totals[:size]


def _kernels() -> ModuleType | None:
    """The compiled loops, or None on a device that has numpy alone; the law is the same."""
    try:
        from dpublish.local.kernels import bits
    except ImportError:
        return None
    return bits
