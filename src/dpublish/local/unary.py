"""Randomised response, and optimised unary encoding (Wang, Blocki, Li and Jha 2017): one bit per
level.

The bit of the true level is reported as 1 with probability 1/2, every other bit with probability
about 1 / (e^eps + 1). A report is k bits long, so this is for up to a few thousand levels. Hadamard
response sends one number and is never more accurate: with 64 levels its error is 3 % larger at
epsilon 1/2, 13 % at 1, 32 % at 2, 38 % at 3 and 41 % at 4.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import InputError, PlanError
from dpublish.local.base import Counts, FrequencyOracle, Law, Reports, Tally
from dpublish.local.coins import Coin, Coins, checked_whole, other_words
from dpublish.local.estimates import Sums, indicator_sums
from dpublish.privacy.cost import Amount

# Randomised response: one of two, or one of k, answers (Warner 1965; Kairouz, Oh and Viswanath
# 2014). The report is the true level with probability `truth`, and each other level with
# probability `other`. Best for few levels: its error grows with the square root of k, that of
# Hadamard response does not.


class KaryResponse(FrequencyOracle):
    """One of k levels.

    Input: one level code. Neighbours: any two values of one person (the local model has no others).
    Output: one level code; the alphabet is the declared levels.
    Privacy: epsilon (theorem 1 of coins.proof.md).
    Relies on: uniform words.
    Shows / hides: the report; never whether it is the truth.
    Accuracy: standard error of a count about sqrt(n) sqrt(k - 2 + e^eps) / (e^eps - 1).
    """

    method = "kary"

    def __init__(self, levels: int | Iterable[str], epsilon: Amount, *, bits: int = 64) -> None:
        super().__init__(levels, epsilon)
        self.coin = Coin(len(self.levels), self.epsilon, bits)

    @property
    def alphabet(self) -> int:
        return len(self.levels)

    def settings(self) -> dict[str, int]:
        return {"bits": self.coin.bits}

    def _reports(self, values: NDArray[Any], coins: Coins) -> Reports:
        size = np.uint64(len(self.levels))
        moved = values + self.coin.draw(coins, len(values))
        moved -= size * (moved >= size)
        return moved

    def law(self, value: Any) -> Law:
        return {
            y: self.coin.truth if y == value else self.coin.other for y in range(len(self.levels))
        }

    def sums(self, tally: Tally) -> Sums:
        return indicator_sums(
            tally.counts.astype(float), tally.people, self.coin.truth, self.coin.other
        )

    @property
    def variance(self) -> float:
        return float(
            self.coin.other * (1 - self.coin.other) / (self.coin.truth - self.coin.other) ** 2
        )


class BinaryResponse(KaryResponse):
    """Yes or no: `KaryResponse` with the levels "no" (0, False) and "yes" (1, True)."""

    method = "binary"

    def __init__(self, epsilon: Amount, *, bits: int = 64) -> None:
        super().__init__(("no", "yes"), epsilon, bits=bits)

    @property
    def keep(self) -> Fraction:
        """The exact probability that a report is the truth."""
        return self.coin.truth


MAX_LEVELS = 1 << 16


class UnaryEncoding(FrequencyOracle):
    """One bit a level, packed in bytes.

    Input: one level code. Neighbours: any two values of one person.
    Output: k bits.
    Privacy: epsilon (theorem 2 of coins.proof.md).
    Relies on: uniform words.
    Shows / hides: k noisy bits.
    Accuracy: standard error of a count about 2 sqrt(n) e^(eps/2) / (e^eps - 1), whatever k.
    """

    method = "unary"

    def __init__(self, levels: int | Iterable[str], epsilon: Amount, *, bits: int = 32) -> None:
        super().__init__(levels, epsilon)
        if len(self.levels) > MAX_LEVELS:
            raise PlanError(
                f"Unary encoding sends a bit a level; {len(self.levels)} are too many. Use "
                f"hadamard."
            )
        if checked_whole("bits", bits, 1, 64) < 2:
            raise PlanError("Unary encoding needs coins of at least 2 bits.")
        self.bits = bits
        self._other = other_words(self.epsilon, 2, bits)
        self._noise = BiasedBits(self._other, bits, width=min(8, len(self.levels)))

    @property
    def hit(self) -> Fraction:
        """Probability that the bit of the true level is 1."""
        return Fraction(1, 2)

    @property
    def miss(self) -> Fraction:
        """Probability that any other bit is 1."""
        return Fraction(self._other, 1 << self.bits)

    @property
    def alphabet(self) -> int:
        return len(self.levels)

    def settings(self) -> dict[str, int]:
        return {"bits": self.bits}

    def _reports(self, values: NDArray[Any], coins: Coins) -> Reports:
        people, size = len(values), len(self.levels)
        width = (size + 7) // 8
        report = self._noise.draw(coins, people * width).reshape(people, width)
        if size > 8 and size % 8:
            report[:, -1] &= np.uint8((1 << size % 8) - 1)
        # the bit of the true level is thrown anew, as a fair coin
        fair = coins.integers(2, size=people, label="true bit").astype(np.uint8)
        put_bits(report, values, fair)
        return report

    def law(self, value: Any) -> Law:
        law: Law = {}
        for bits in itertools.product((0, 1), repeat=len(self.levels)):
            mass = Fraction(1)
            for place, bit in enumerate(bits):
                one = self.hit if place == value else self.miss
                mass *= one if bit else 1 - one
            law[sum(bit << place for place, bit in enumerate(bits))] = mass
        return law

    def check_reports(self, reports: Any) -> Reports:
        size = len(self.levels)
        array = np.asarray(reports)
        if array.ndim != 2 or array.dtype != np.uint8 or array.shape[1] != (size + 7) // 8:
            raise InputError(
                f"Unary reports must be rows of {(size + 7) // 8} bytes, for {size} levels."
            )
        spare = 8 * array.shape[1] - size
        if spare and array.size and bool((array[:, -1] >> (8 - spare)).any()):
            raise InputError(f"A report sets a bit beyond the {size} levels of the protocol.")
        return array

    def count(self, reports: Reports) -> Counts:
        total = np.zeros(len(self.levels), dtype=np.int64)
        for start in range(0, len(reports), self._chunk()):
            total += count_set_bits(reports[start : start + self._chunk()], len(self.levels))
        return total

    def sums(self, tally: Tally) -> Sums:
        return indicator_sums(tally.counts.astype(float), tally.people, self.hit, self.miss)

    @property
    def variance(self) -> float:
        return float(self.miss * (1 - self.miss) / (self.hit - self.miss) ** 2)

    def written(self, reports: Reports) -> list[Any]:
        return [row.tobytes().hex() for row in reports]

    def read(self, texts: Sequence[str]) -> Reports:
        width = (len(self.levels) + 7) // 8
        rows = []
        for text in texts:
            try:
                row = bytes.fromhex(text)
            except ValueError:
                row = b""
            if len(row) != width or len(text) != 2 * width:
                raise InputError(f"Report '{text[:30]}' is not {2 * width} hexadecimal digits.")
            rows.append(row)
        return self.check_reports(
            np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(texts), width)
        )

    def _chunk(self) -> int:
        # about a megabyte of random words at a time
        return max(1, (1 << 22) // len(self.levels))


# Rows of independent bits, each 1 with the same exact probability: eight at a time, for little
# more than their entropy.
#
# A byte of such bits is one of 256 patterns with exact rational probabilities, so it can be drawn
# by one uniform real against their running sums. Sixteen bits of the real settle the pattern in
# all but 255 of 65,536 cases; then more bits of *the same* real are drawn, until it is settled.
# The law is therefore the stated one, not a rounding of it (proof: coins.proof.md).
#
# A coin a bit would cost 32 random bits for each; this costs two.

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
        from dpublish.local import kernels
    except ImportError:
        return None
    return kernels
