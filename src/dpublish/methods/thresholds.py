"""Thresholds of sparse noisy histograms, and what to expect of them, from public facts alone.

Floats are fine here: a threshold is a public integer, and any rounding on the way to it is as
private as any other.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpublish.errors import PlanError

MAX_THRESHOLD = 1 << 61


def log_threshold(factor: Fraction, rows: int, epsilon: Fraction) -> int:
    """floor(A ln(n) / epsilon), Lei's threshold."""
    value = float(factor) * math.log(rows) / float(epsilon)
    if value >= MAX_THRESHOLD:
        raise PlanError(
            f"epsilon = {float(epsilon):g} is too small: the threshold would be {value:.3g}."
        )
    return math.floor(value)


def survival_probability(scale: Fraction, threshold: int) -> float:
    """P(X > threshold) of discrete Laplace noise, for expectations in a plan."""
    rate = 1 / float(scale)
    return math.exp(-rate * (threshold + 1)) / (1 + math.exp(-rate))


def smallest_threshold(scale: Fraction, cells: int, limit: int) -> int:
    """The least threshold at which at most `limit` of `cells` empty cells are expected to pass."""
    base = survival_probability(scale, -1)
    if cells * base <= limit:
        return 0
    guess = max(0, math.floor(float(scale) * math.log(cells * base / limit)) - 2)
    while cells * survival_probability(scale, guess) > limit:
        guess += 1
    return guess


def laplace_deviation(scale: Fraction) -> float:
    """Standard deviation of discrete Laplace noise."""
    rate = 1 / float(scale)
    return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)
