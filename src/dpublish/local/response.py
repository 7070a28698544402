"""Randomised response: one of two, or one of k, answers (Warner 1965; Kairouz, Oh and Viswanath
2014).

The report is the true level with probability `truth`, and each other level with probability
`other`. Best for few levels: its error grows with the square root of k, that of Hadamard response
does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.local.base import (
    Counts,
    Law,
    Randomizer,
    Reports,
    count_codes,
    level_codes,
    level_names,
    report_codes,
    tallied,
)
from dpublish.local.coins import Coin, Coins
from dpublish.local.estimates import Frequencies, frequencies, indicator_sums
from dpublish.privacy.cost import Amount


class KaryResponse(Randomizer):
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
        super().__init__(epsilon)
        self.levels = level_names(levels)
        self.coin = Coin(len(self.levels), self.epsilon, bits)

    def protocol(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "levels": list(self.levels),
            "epsilon": str(self.epsilon),
            "bits": self.coin.bits,
        }

    def check_values(self, values: Any) -> NDArray[Any]:
        return level_codes(values, len(self.levels))

    def _reports(self, values: NDArray[Any], coins: Coins) -> Reports:
        size = np.uint64(len(self.levels))
        moved = values + self.coin.draw(coins, len(values))
        moved -= size * (moved >= size)
        return moved

    def law(self, value: Any) -> Law:
        return {
            y: self.coin.truth if y == value else self.coin.other for y in range(len(self.levels))
        }

    def check_reports(self, reports: Any) -> Reports:
        return report_codes(reports, len(self.levels))

    def count(self, reports: Reports) -> Counts:
        return count_codes(reports, len(self.levels))

    def aggregate(
        self, reports: Any, *, level: float = 0.95, together: bool = False
    ) -> Frequencies:
        """Unbiased counts with error bars from reports, or from their tally."""
        tally = tallied(self, reports)
        seen = indicator_sums(
            tally.counts.astype(float), tally.people, self.coin.truth, self.coin.other
        )
        return frequencies(
            seen,
            levels=self.levels,
            people=tally.people,
            epsilon=self.epsilon,
            level=level,
            together=together,
        )

    def expected_error(self, people: int) -> float:
        return math.sqrt(self.variance * people)

    @property
    def variance(self) -> float:
        """Variance of an estimated count, for each person, when few people hold the level."""
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
