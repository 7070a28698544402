"""Optimised unary encoding (Wang, Blocki, Li and Jha 2017): one bit per level.

The bit of the true level is reported as 1 with probability 1/2, every other bit with probability
about 1 / (e^eps + 1). A report is k bits long, so this is for up to a few thousand levels. Hadamard
response sends one number and is never more accurate: with 64 levels its error is 3 % larger at
epsilon 1/2, 13 % at 1, 32 % at 2, 38 % at 3 and 41 % at 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import InputError, PlanError
from dpublish.local.base import Counts, FrequencyOracle, Law, Reports, Tally
from dpublish.local.biased import BiasedBits, count_set_bits, put_bits
from dpublish.local.coins import Coins, checked_bits, other_words
from dpublish.local.estimates import Sums, indicator_sums
from dpublish.privacy.cost import Amount

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
        if checked_bits(bits) < 2:
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
