"""The mean of a bounded number from one bit per person (Duchi, Jordan and Wainwright 2018), without
a float in the coin.

The number is put on a public grid of 2^16 steps between its bounds, and the bit is 1 with a
probability that is linear in the step. The estimate inverts the line, so it is unbiased for the
mean of the gridded numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import InputError, PlanError
from dpublish.estimate import Estimate
from dpublish.local.base import Law, Randomizer, Reports, tallied
from dpublish.local.coins import Coins, checked_whole, other_words
from dpublish.local.estimates import estimate_of
from dpublish.privacy.cost import Amount, exact


class MeanResponse(Randomizer):
    """One bit about a number between `lower` and `upper`.

    Input: one number; beyond the bounds it is moved to the nearer one, and what is not a number
    counts as the middle.
    Output: 0 or 1.
    Privacy: epsilon (theorem 5 of coins.proof.md).
    Relies on: uniform words.
    Shows / hides: one noisy bit.
    Accuracy: standard error of the mean at most (upper - lower) / (2 sqrt(n)) (e^eps + 1) / (e^eps
    - 1).
    """

    method = "mean"
    error_of = "the mean"
    alphabet = 2

    def __init__(
        self, lower: Amount, upper: Amount, epsilon: Amount, *, grid_bits: int = 16, bits: int = 64
    ) -> None:
        super().__init__(epsilon)
        self.lower, self.upper = exact(lower, "lower"), exact(upper, "upper")
        try:
            width = float(self.upper) / 2 - float(self.lower) / 2
        except OverflowError:
            width = math.inf
        # a width that is 0 as a float would put every number on no step at all
        if not 0 < width < math.inf:
            raise PlanError(
                f"lower = {lower} must be below upper = {upper}, and both within the range of "
                f"floating point."
            )
        self.bits = checked_whole("bits", bits, 1, 64)
        self.steps = 1 << checked_whole("grid_bits", grid_bits, 0, 32)
        self._least = other_words(self.epsilon, 2, bits)
        self._slope = ((1 << bits) - 2 * self._least) // self.steps
        if self._slope == 0:
            raise PlanError(
                f"epsilon is too small for {self.steps} steps and coins of {bits} bits. Use fewer "
                f"grid_bits."
            )

    def protocol(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "lower": str(self.lower),
            "upper": str(self.upper),
            "epsilon": str(self.epsilon),
            "steps": self.steps,
            "bits": self.bits,
        }

    def check_values(self, values: Any) -> NDArray[Any]:
        """The steps of the grid that the numbers are nearest to."""
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("Values must be numbers.") from None
        if numbers.ndim != 1:
            raise InputError("Values must be a list of numbers.")
        low, high = float(self.lower), float(self.upper)
        middle = low / 2 + high / 2
        inside = np.clip(np.where(np.isnan(numbers), middle, numbers), low, high)
        share = (inside / 2 - low / 2) / (
            high / 2 - low / 2
        )  # halves, so that the difference of two bounds cannot overflow
        return np.minimum(np.floor(share * self.steps + 0.5), self.steps).astype(np.uint64)

    def _reports(self, values: NDArray[Any], coins: Coins) -> Reports:
        words = coins.integers(1 << self.bits, size=len(values), label="coin")
        below = np.uint64(self._least) + values * np.uint64(self._slope)
        return (words < below).astype(np.uint64)

    def yes(self, step: int) -> Fraction:
        """The exact probability of a 1 at a step of the grid."""
        return Fraction(self._least + step * self._slope, 1 << self.bits)

    def law(self, value: Any) -> Law:
        yes = self.yes(int(self.check_values([value])[0]))
        return {0: 1 - yes, 1: yes}

    def aggregate(self, reports: Any, *, level: float = 0.95) -> Estimate:
        """The unbiased mean with error bars from reports, or from their tally."""
        tally = tallied(self, reports)
        ones = int(tally.counts[1])
        people = tally.people
        slope = Fraction(self._slope * self.steps, 1 << self.bits)
        share = (Fraction(ones, people) - self.yes(0)) / slope
        width = self.upper - self.lower
        # the bits differ in their probabilities, which makes the sum less variable than a binomial
        # one: an upper bound
        smoothed = (ones + 1) / (people + 2)
        error = float(width / slope) * math.sqrt(smoothed * (1 - smoothed) / people)
        return estimate_of(
            float(self.lower + share * width),
            error * error,
            level,
            measure="mean",
            within=(float(self.lower), float(self.upper)),
        )

    def expected_error(self, people: int) -> float:
        slope = Fraction(self._slope * self.steps, 1 << self.bits)
        return float((self.upper - self.lower) / slope) / (2 * math.sqrt(people))
