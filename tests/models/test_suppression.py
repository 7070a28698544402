from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpublish.models.noisy_counts import (
    Suppression,
    laplace_cumulants,
    noise_sum_quantile,
    spread_quantile,
)

LAWS = [
    (tau, Fraction(scale)) for scale in ("1/2", "1", "2", "7/3", "20") for tau in (0, 1, 3, 12, 60)
]


def pmf(scale: Fraction, reach: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(values) / float(scale))
    return values, weights / weights.sum()


def score_law(law: Suppression, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values, chance = pmf(law.scale, int(60 * law.scale) + 60)
    noisy = values + count
    return np.where(noisy > law.threshold, noisy, -law.shortfall), chance


def cumulants(
    values: NDArray[np.float64], chance: NDArray[np.float64]
) -> tuple[float, float, float, float]:
    mean = float(chance @ values)
    centred = values - mean
    second = float(chance @ centred**2)
    return mean, second, float(chance @ centred**3), float(chance @ centred**4) - 3 * second**2


@pytest.mark.parametrize(("tau", "scale"), LAWS)
def test_constants_match_the_summed_law(tau: int, scale: Fraction) -> None:
    law = Suppression(tau, scale)
    values, chance = pmf(scale, int(60 * scale) + 60 + tau)
    above = values > tau
    assert law.pass_rate == pytest.approx(chance[above].sum(), rel=1e-9)
    assert -law.shortfall == pytest.approx(
        (values * chance)[~above].sum() / chance[~above].sum(), rel=1e-8
    )


@pytest.mark.parametrize(("tau", "scale"), LAWS)
def test_score_is_unbiased_at_zero_and_never_biased_upwards(tau: int, scale: Fraction) -> None:
    law = Suppression(tau, scale)
    for count in range(0, tau + int(60 * scale), max(1, int(scale))):
        values, chance = score_law(law, count)
        mean = float(chance @ values)
        assert mean <= count + 1e-7 * (1 + count)
        if count == 0:
            assert mean == pytest.approx(0.0, abs=1e-7)
    assert mean == pytest.approx(count, abs=1e-3)


@pytest.mark.parametrize(("tau", "scale"), LAWS)
def test_cumulant_estimates_are_conservative_for_every_count(tau: int, scale: Fraction) -> None:
    law = Suppression(tau, scale)
    for count in range(0, tau + int(60 * scale), max(1, int(scale))):
        values, chance = score_law(law, count)
        noisy = np.where(values > tau, values, tau + 1).astype(np.int64)
        shown = values > tau
        _, *true = cumulants(values, chance)
        for kappa, guess in zip(true, law.cell_cumulants(noisy), strict=True):
            mean = float(chance @ np.where(shown, guess, 0.0))
            assert mean >= kappa - 1e-6 * (1 + abs(kappa))


@pytest.mark.parametrize(
    ("tau", "scale"), [(3, Fraction(1)), (12, Fraction(2)), (60, Fraction(20))]
)
def test_variance_estimate_is_tight_for_empty_and_for_large_cells(
    tau: int, scale: Fraction
) -> None:
    law = Suppression(tau, scale)
    values, chance = score_law(law, 0)
    shown = values > tau
    k2 = law.cell_cumulants(np.where(shown, values, tau + 1).astype(np.int64))[0]
    assert float(chance @ np.where(shown, k2, 0.0)) <= 1.01 * cumulants(values, chance)[1]
    far = np.array([tau + int(40 * scale)])
    assert law.cell_cumulants(far)[0][0] == pytest.approx(laplace_cumulants(scale)[0], rel=1e-3)


def test_huge_and_tiny_parameters_stay_finite() -> None:
    for tau, scale in (
        (10**6, Fraction(2 * 10**5)),
        (0, Fraction(1, 50)),
        (5, Fraction(1, 20)),
        (10**9, Fraction(1)),
    ):
        law = Suppression(tau, scale)
        for part in law.cell_cumulants(np.array([tau + 1, tau + 50, 10**12])):
            assert np.all(np.isfinite(part))
            assert np.all(part >= 0)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(20)])
@pytest.mark.parametrize("terms", [1, 2, 5, 40])
def test_noise_sum_quantile_holds_and_is_not_wasteful(scale: Fraction, terms: int) -> None:
    _, chance = pmf(scale, int(60 * scale) + 60)
    law = chance
    for _ in range(terms - 1):
        law = np.convolve(law, chance)
    centre = len(law) // 2
    for alpha in (0.1, 0.025, 0.0125, 0.001):
        bound = float(noise_sum_quantile(alpha, np.array([float(terms)]), scale)[0])
        tail = float(law[centre + int(np.floor(bound)) + 1 :].sum())
        assert tail <= alpha * 1.02
        exact = int(np.argmax(np.cumsum(law[::-1])[::-1] <= alpha)) - 1 - centre
        assert bound <= exact * 1.1 + 1


def test_large_scales_are_scaled_rightly() -> None:
    small = float(noise_sum_quantile(0.025, np.array([1.0]), Fraction(100))[0])
    large = float(noise_sum_quantile(0.025, np.array([1.0]), Fraction(10_000))[0])
    assert large == pytest.approx(100 * small, rel=0.03)


def test_no_terms_no_spread() -> None:
    assert noise_sum_quantile(0.05, np.array([0.0]), Fraction(2))[0] == 0
    zero = np.zeros(1)
    assert spread_quantile(0.05, zero, zero, zero)[0] == 0
