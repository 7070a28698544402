"""The slow samplers, held to closed forms. Statistical tests: false-alarm rate 1e-6, fixed seeds;
each rejects a wrong law."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sampler_laws import ALPHA, fit, gaussian_cdf, geometric_cdf, laplace_cdf

from dpublish.noise.gaussian import (
    gaussian_proposal_scale,
    rejection_exponent,
    slow_gaussian,
    slow_geometric,
    slow_laplace,
)
from dpublish.noise.words import SeededStream

DRAWS = 8000


@pytest.mark.parametrize("rate", [Fraction(5, 3), Fraction(2, 7), Fraction(1, 10**12)])
def test_geometric(rate: Fraction) -> None:
    # 8,000 draws: catches a rate that is off by 10 percent.
    stream = SeededStream(1)
    draws = np.array([slow_geometric(stream, rate) for _ in range(DRAWS)])
    assert fit(draws, geometric_cdf(float(rate)), bins=20) > ALPHA
    assert fit(draws, geometric_cdf(float(rate) * 1.2), bins=20) < ALPHA


@pytest.mark.parametrize("scale", [Fraction(3, 5), Fraction(7, 3), Fraction(10**9)])
def test_laplace(scale: Fraction) -> None:
    stream = SeededStream(2)
    draws = np.array([slow_laplace(stream, scale) for _ in range(DRAWS)])
    assert fit(draws, laplace_cdf(scale), bins=20) > ALPHA
    assert fit(draws, laplace_cdf(float(scale) * 1.2), bins=20) < ALPHA


@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(40, 3)])
def test_gaussian(variance: Fraction) -> None:
    stream = SeededStream(3)
    draws = np.array([slow_gaussian(stream, variance) for _ in range(DRAWS)])
    assert fit(draws, gaussian_cdf(variance), bins=20) > ALPHA
    assert fit(draws, gaussian_cdf(float(variance) * 1.3), bins=20) < ALPHA


def test_the_proposal_dominates() -> None:
    """Laplace weight times acceptance is the Gaussian weight up to one constant, which is what
    makes rejection exact."""
    for variance in (Fraction(1, 9), Fraction(4), Fraction(17, 3)):
        scale = gaussian_proposal_scale(variance)
        assert (scale - 1) ** 2 <= variance < scale**2
        constants = {
            Fraction(m, scale)
            + rejection_exponent(m, variance, scale)
            - Fraction(m * m) / (2 * variance)
            for m in range(9)
        }
        assert len(constants) == 1
