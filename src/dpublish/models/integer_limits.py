"""Limits of counts: noise is drawn in whole numbers, and so are counts.

A limit that stops between two whole numbers cuts off noise that a continuous law would have let
pass: where noise is about a row, an interval meant for 95% would hold 80% of the time. So limits
are moved out to whole numbers. That is enough for the laws that are used here, whatever their scale
(the tests work it out exactly). A bound that is proved needs none of that: the counts that it
allows are the whole numbers inside.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.models.noisy_counts import normal_quantile

MAX_COUNT = 1 << 52
"""A release holds no noisy count that is larger."""
_LAPLACE_STEP = 1 / 6
_DUST = 1e-6
"""Sums of floats miss whole numbers by less."""


def quantile(alpha: float, noise: str) -> float:
    """Standard deviations that a sum of noise terms stays within, on one side, but for alpha.

    Sums of Laplace terms lie between one Laplace term and a normal variable; the wider of the two
    is taken.
    """
    normal = normal_quantile(alpha)
    return normal if noise == "gaussian" else max(normal, -math.log(2 * alpha) / math.sqrt(2))


def half_width(variance: float | Floats, alpha: float, noise: str) -> Floats:
    """Rows that a sum of noise terms stays within, on one side, but for alpha, once the end is a
    whole number.

    Where noise is small, the variance of discrete Laplace noise is below that of the continuous law
    whose tail it has, by at most 1/6 (1/sinh^2 x >= 1/x^2 - 1/3).
    """
    more = _LAPLACE_STEP if noise == "laplace" else 0.0
    return np.asarray(quantile(alpha, noise) * np.sqrt(np.maximum(0.0, variance) + more))


def counts_between(low: float | Floats, high: float | Floats) -> tuple[Floats, Floats]:
    """Limits that hold of a count as they stand, moved in to the whole numbers between them, where
    there is one."""
    first, last = np.ceil(np.asarray(low) - _DUST), np.floor(np.asarray(high) + _DUST)
    none = first > last
    # adding 0 turns a negative zero into a plain one
    return np.where(none, low, first) + 0.0, np.where(none, high, last) + 0.0


def possible(low: Floats, high: Floats, error: Floats, most: float) -> tuple[Floats, Floats]:
    """Limits cut at what is possible: none, and the public number of rows. Noise may put both of
    them beyond; they then reach a standard error inside, since nothing is certain there."""
    step = np.ceil(error - _DUST)
    first, last = np.clip(low, 0.0, most), np.clip(high, 0.0, most)
    last = np.where(last <= 0.0, np.minimum(step, most), last)
    if np.isfinite(most):
        first = np.where(first >= most, np.maximum(most - step, 0.0), first)
    return first, last


def integer_rows(low: float | Floats, high: float | Floats) -> tuple[Floats, Floats]:
    """Limits moved out to whole numbers."""
    return np.floor(np.asarray(low) + _DUST) + 0.0, np.ceil(np.asarray(high) - _DUST) + 0.0


def within_limits(counts: NDArray[np.int64]) -> bool:
    """Whether all lie within MAX_COUNT of 0. Both ends are looked at: the lowest whole number is
    its own absolute value."""
    return not counts.size or bool(counts.min() >= -MAX_COUNT and counts.max() <= MAX_COUNT)
