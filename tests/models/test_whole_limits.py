"""Limits of small noise, against the exact laws of its sums: no run of luck."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from dpublish.models.integer_limits import counts_between, half_width, integer_rows, quantile
from dpublish.models.noisy_counts import laplace_cumulants, spread_quantile
from dpublish.privacy.budget_split import laplace_variance

SCALES = (
    0.05,
    0.1,
    0.18,
    0.21,
    0.22,
    0.27,
    0.3,
    0.36,
    0.4,
    0.47,
    0.51,
    0.6,
    0.78,
    1.0,
    1.48,
    2.5,
    4.0,
    7.0,
    8.25,
)
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.9999)


def laws(noise: str) -> Iterator[tuple[float, int, np.ndarray, np.ndarray]]:
    """Sums of noise terms: scale, number of terms, values and their probabilities."""
    for scale in SCALES:
        reach = math.ceil(60 * scale + 60)
        each = np.arange(-reach, reach + 1)
        one = (
            np.exp(-np.abs(each) / scale)
            if noise == "laplace"
            else np.exp(-(each**2) / (2 * scale**2))
        )
        one /= one.sum()
        law = np.ones(1)
        for terms in range(1, 11):
            law = np.convolve(law, one)
            if terms in (1, 2, 3, 10):
                yield scale, terms, np.arange(len(law)) - len(law) // 2, law


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("level", LEVELS)
def test_sums_of_noise_stay_within(noise: str, level: float) -> None:
    """Limits that are not moved to whole numbers hold for as little as 77% at nominal 95%."""
    short = 1.0
    for scale, terms, values, law in laws(noise):
        variance = (laplace_variance(scale) if noise == "laplace" else scale**2) * terms
        width = half_width(variance, (1 - level) / 2, noise)
        low, high = integer_rows(-width, width)
        assert law[(values >= low) & (values <= high)].sum() >= level
        plain = quantile((1 - level) / 2, noise) * math.sqrt(variance)
        short = min(short, law[np.abs(values) <= plain].sum() - level)
    assert short < -0.0005, (
        "the plain rule must fail somewhere, or this test tries the wrong scales"
    )


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_sums_by_their_cumulants_stay_within(level: float) -> None:
    """The rule of histograms with a threshold, of generalised tables and of itemsets."""
    short = 1.0
    for scale, terms, values, law in laws("laplace"):
        second, fourth = laplace_cumulants(Fraction(scale))
        width = spread_quantile(
            (1 - level) / 2, np.array([second * terms]), np.zeros(1), np.array([fourth * terms])
        )
        low, high = integer_rows(-width, width)
        assert law[(values >= low[0]) & (values <= high[0])].sum() >= level
        short = min(short, law[np.abs(values) <= width[0]].sum() - level)
    assert short < -0.005, "the plain rule must fail somewhere, or this test tries the wrong scales"


def test_dust_makes_no_row() -> None:
    low, high = integer_rows(np.array([2.9999999, 3.0, -0.2]), np.array([3.0000001, 3.0, 3.2]))
    assert low.tolist() == [3.0, 3.0, -1.0]
    assert high.tolist() == [3.0, 3.0, 4.0]
    assert [end.tolist() for end in integer_rows(-math.inf, math.inf)] == [-math.inf, math.inf]


def test_proved_bounds_are_moved_in() -> None:
    low, high = counts_between(np.array([0.0, 2.2, 3.0, 4.1]), np.array([0.9, 5.7, 3.0, 4.8]))
    assert low.tolist() == [
        0.0,
        3.0,
        3.0,
        4.1,
    ]  # no count lies between the last two, so they stay as they are
    assert high.tolist() == [0.0, 5.0, 3.0, 4.8]
    assert counts_between(0.0, np.inf)[1] == np.inf
