"""Randomised response: one of two, or one of k, answers (Warner 1965; Kairouz, Oh and Viswanath
2014).

The report is the true level with probability `truth`, and each other level with probability
`other`. Best for few levels: its error grows with the square root of k, that of Hadamard response
does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.local.base import FrequencyOracle, Law, Reports, Tally
from dpublish.local.coins import Coin, Coins
from dpublish.local.estimates import Sums, indicator_sums
from dpublish.privacy.cost import Amount


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
        named = tally.counts.astype(float)
        return indicator_sums(named, tally.people, self.coin.truth, self.coin.other)

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
