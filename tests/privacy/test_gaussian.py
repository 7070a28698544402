"""The exact account of discrete Gaussian noise beside choices, against dp-accounting's privacy loss
distributions and against numbers worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpublish.privacy.cost import largest_rho
from dpublish.privacy.gaussian import (
    APART,
    EXTRA_VARIANCE,
    Steps,
    delta_of_gaussian,
    is_private,
    largest_gaussian_rho,
)

NONE = Fraction(0)
ONE_TABLE = Steps(NONE, NONE, 2)


def blurred(variance: float, extra: float, centre: int, at: np.ndarray) -> np.ndarray:
    """Normal noise of `variance` around `centre`, then a whole number around it: lemma 1's K."""
    y = np.arange(centre - 30, centre + 30, 1 / 64)
    density = np.exp(-((y - centre) ** 2) / (2 * variance))
    density /= density.sum()
    whole = np.arange(centre - 60, centre + 61)
    near = np.exp(-((whole[:, None] - y) ** 2) / (2 * extra))
    law = (near / near.sum(axis=0)) @ density
    return law[np.searchsorted(whole, at)]


@pytest.mark.parametrize("extra", [0.15, 0.25, 0.5])
def test_noise_in_two_steps_is_nearly_discrete_gaussian(extra: float) -> None:
    # with so little extra variance the bound is large enough to be seen in doubles
    spread = 2 * sum(math.exp(-2 * math.pi**2 * extra * i * i) for i in range(1, 9))
    bound = math.log((1 + spread) / (1 - spread))
    whole = np.arange(-60, 61)
    bell = np.exp(-(whole**2) / (2 * (4.0 + extra)))
    at = np.arange(-9, 10)
    exact = (bell / bell.sum())[np.searchsorted(whole, at)]
    apart = np.abs(np.log(blurred(4.0, extra, 0, at) / exact)).max()
    assert apart <= bound + 1e-12


def test_the_bound_on_what_is_left_of_the_lattice() -> None:
    from flint import arb, ctx

    with ctx.workprec(200):
        r = arb(EXTRA_VARIANCE.numerator) / EXTRA_VARIANCE.denominator
        first = (-2 * arb.pi() ** 2 * r).exp()
        spread = 2 * first / (1 - first)  # a geometric series above the true one
        apart = ((1 + spread) / (1 - spread)).log()
        assert apart < arb(APART.numerator) / APART.denominator
        assert apart > arb(2) ** -55


@pytest.mark.parametrize(("mu", "epsilon"), [(0.1, 0.3), (0.17, 1.0), (1.0, 3.0), (2.0, 10.0)])
def test_one_gaussian_agrees_with_dp_accounting(mu: float, epsilon: float) -> None:
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    square = Fraction(mu) ** 2
    ours = float(delta_of_gaussian(square, Fraction(epsilon)).mid())
    theirs = GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(epsilon)
    assert ours == pytest.approx(theirs, rel=1e-6)


def delta_with_choice(w: float, e: float, low: float, epsilon: float) -> float:
    """delta of a choice with losses low and low + e, and Gaussian noise of mu^2 = w."""
    high = low + e
    p = math.exp(high) * (1 - math.exp(low)) / (math.exp(high) - math.exp(low))

    def gauss(limit: float) -> float:
        mu = math.sqrt(w)
        tails = [math.erfc((limit / mu + sign * mu / 2) / math.sqrt(2)) / 2 for sign in (-1, 1)]
        return tails[0] - math.exp(limit) * tails[1]

    return p * gauss(epsilon - high) + (1 - p) * gauss(epsilon - low)


def test_a_choice_beside_gaussian_noise_costs_little_more_than_its_variance() -> None:
    # lemma 2 on a grid; and w + A, without the denominator, would not do
    too_small = 0
    for w in (0.01, 0.1, 1.0):
        for crowding in (0.02, 0.1, 0.3, 0.7):
            e = 2 * math.sqrt(crowding * w)
            for part in np.linspace(0.02, 0.98, 25):
                for z in np.linspace(-3, 5, 33):
                    epsilon = z * math.sqrt(w)
                    truth = delta_with_choice(w, e, -part * e, epsilon)
                    square = Fraction(w) / (1 - Fraction(crowding))
                    bound = float(delta_of_gaussian(square, Fraction(epsilon)).mid())
                    assert truth <= bound + 1e-12
                    plain = Fraction(w) * (1 + Fraction(crowding))
                    less = float(delta_of_gaussian(plain, Fraction(epsilon)).mid())
                    too_small += truth > less * (1 + 1e-9)
    assert too_small > 100


@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
def test_more_rho_than_over_zcdp_and_not_too_much(epsilon: str) -> None:
    limit, delta = Fraction(epsilon), Fraction("1e-9")
    rho = largest_gaussian_rho(ONE_TABLE, limit, delta)
    assert rho is not None
    assert 1.05 < rho / largest_rho(limit, delta) < 1.15
    assert is_private(ONE_TABLE, rho, limit, delta)
    assert not is_private(ONE_TABLE, rho * Fraction(100_001, 100_000), limit, delta)


def test_steps_that_say_nothing_fall_back() -> None:
    one, delta = Fraction(1), Fraction("1e-9")
    assert largest_gaussian_rho(Steps(one / 2, Fraction(9, 10), 2), one, delta) is None
    assert largest_gaussian_rho(Steps(one / 10, one, 2), one, delta) is None
    assert largest_gaussian_rho(Steps(NONE, NONE, 1 << 60), one, delta) is None


def spent(
    rho: Fraction, epsilon: float, *, choice_share: float, tables: int, choices: int, low: float
) -> tuple[float, float]:
    """Lower and upper delta of so many discrete Gaussian tables and choices that share rho, by
    dp-accounting."""
    from dp_accounting.pld.privacy_loss_distribution import (
        from_discrete_gaussian_mechanism,
        from_two_probability_mass_functions,
    )

    out = []
    e = math.sqrt(8 * float(rho) * choice_share / choices)
    first, second = -low * e, (1 - low) * e
    p = math.exp(second) * (1 - math.exp(first)) / (math.exp(second) - math.exp(first))
    laws = {0: (p, 1 - p), 1: (p * math.exp(-second), (1 - p) * math.exp(-first))}
    upper, lower = ({i: math.log(q) for i, q in enumerate(laws[side])} for side in (0, 1))
    sigma = math.sqrt(tables / (2 * float(rho) * (1 - choice_share)) + float(EXTRA_VARIANCE))
    for pessimistic in (False, True):
        step = {"value_discretization_interval": 1e-5, "pessimistic_estimate": pessimistic}
        counts = from_discrete_gaussian_mechanism(sigma, **step).self_compose(tables)
        picks = from_two_probability_mass_functions(lower, upper, **step).self_compose(choices)
        out.append(float(counts.compose(picks).get_delta_for_epsilon(epsilon)))
    return out[0], out[1]


@pytest.mark.parametrize("low", [0.4, 0.5, 0.6])
def test_whole_releases_are_within_their_delta_and_near_it(low: float) -> None:
    # 15 tables and 8 choices at (1, 1e-6): dp-accounting's own delta is below, and not far below
    epsilon, delta, share = Fraction(1), Fraction("1e-6"), Fraction(1, 10)
    steps = Steps(share, share / (8 * Fraction(1, 2)), 30)
    rho = largest_gaussian_rho(steps, epsilon, delta)
    assert rho is not None
    law = {"choice_share": float(share), "tables": 15, "choices": 8, "low": low}
    below, above = spent(rho, 1.0, **law)  # type: ignore[arg-type]
    assert below <= delta
    assert above >= 0.7 * float(delta)
    # planted: choices that are not charged are seen
    free = largest_gaussian_rho(Steps(NONE, NONE, 30), epsilon, delta)
    assert free is not None
    wrong, _ = spent(free / (1 - share), 1.0, **law)  # type: ignore[arg-type]
    assert wrong > delta
