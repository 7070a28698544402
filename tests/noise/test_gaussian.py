"""Discrete Gaussian draws. Statistical tests: false-alarm rate 1e-6 and fixed seeds; each also
rejects sigma times 1.1.

OpenDP cannot be seeded: the test against it has a false-alarm rate of 1e-6 at every run.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as opendp
import pytest
from flint import arb, ctx
from sampler_laws import (
    ALPHA,
    ConstantBits,
    RiggedStream,
    chi_square,
    fit,
    gaussian_cdf,
    two_sample,
)

from dpublish.errors import InputError
from dpublish.noise import gaussian
from dpublish.noise.balls import fraction_ball
from dpublish.noise.gaussian import (
    ACCEPT_BITS,
    GUARD,
    REJECTED,
    SATURATED,
    UNDECIDED,
    GaussianSampler,
    accept_proposals,
    discrete_gaussian,
    exp_below,
    rejection_exponent,
    slow_gaussian,
)
from dpublish.noise.words import SeededStream

VARIANCES = [
    Fraction(1, 5),
    Fraction(1),
    Fraction(7, 3),
    Fraction(25),
    Fraction(10_000, 3),
    Fraction(10**8),
]


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_law_is_discrete_gaussian(variance: Fraction) -> None:
    # 200,000 draws in up to 60 bins: catches a sigma that is off by 2 percent.
    draws = discrete_gaussian(SeededStream(1), variance, 200_000)
    assert fit(draws, gaussian_cdf(variance)) > ALPHA
    assert fit(draws, gaussian_cdf(float(variance) * 1.21)) < ALPHA
    assert fit(draws, gaussian_cdf(float(variance) / 1.21)) < ALPHA


def test_the_reference_sampler_agrees() -> None:
    stream = SeededStream(2)
    slow = np.array([slow_gaussian(stream, Fraction(50, 3)) for _ in range(8000)])
    assert (
        two_sample(slow, discrete_gaussian(SeededStream(3), Fraction(50, 3), 8000), least=60)
        > ALPHA
    )
    assert (
        two_sample(slow, discrete_gaussian(SeededStream(3), Fraction(50, 2), 8000), least=60)
        < ALPHA
    )


def test_opendp_agrees() -> None:
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l2_distance(T=float)
    theirs = np.array(opendp.m.make_gaussian(*space, 12.0)([0] * 40_000))
    assert (
        two_sample(discrete_gaussian(SeededStream(4), Fraction(144), 40_000), theirs, least=200)
        > ALPHA
    )
    assert (
        two_sample(
            discrete_gaussian(SeededStream(4), Fraction(144) * Fraction(121, 100), 40_000),
            theirs,
            least=200,
        )
        < ALPHA
    )


def test_the_exponential_keeps_its_error_bound() -> None:
    xs = np.concatenate(
        [
            np.linspace(0, 42, 5001),
            np.arange(60) * 0.6931471805599453,
            np.geomspace(1e-18, 1, 300),
            [1e300],
        ]
    )
    with ctx.workprec(200):
        worst = max(abs(arb(exp_below(float(x))) - (-arb(float(x))).exp()).upper() for x in xs)
    assert worst < 2.0**-40 < GUARD / 2


@pytest.mark.parametrize(
    "variance", [Fraction(1, 3), Fraction(7), Fraction(10**12 + 1, 7), Fraction(1 << 112)]
)
def test_the_kernel_never_decides_wrongly(variance: Fraction) -> None:
    """Words placed around the true level: certain answers must be right, and only close ones may be
    left open."""
    sampler = GaussianSampler(variance)
    sigma = float(variance) ** 0.5
    rng = np.random.default_rng(5)
    magnitudes = [int(m) for m in np.abs(rng.normal(size=60)) * 3 * sigma]
    offsets = [-(1 << 18), -(1 << 14), -3, -1, 0, 1, 3, 1 << 14, 1 << 18]
    unit = 1 << (64 - ACCEPT_BITS)
    for magnitude in magnitudes:
        with ctx.workprec(200):
            level = (
                -fraction_ball(rejection_exponent(magnitude, variance, sampler.scale))
            ).exp() * arb(1 << ACCEPT_BITS)
            place = int(level.floor().unique_fmpz())
        words = [min(max(place + o, 0), (1 << ACCEPT_BITS) - 1) for o in offsets]
        places, outcomes = (
            np.zeros(len(words), dtype=np.int64),
            np.zeros(len(words), dtype=np.uint8),
        )
        found = accept_proposals(
            np.full(len(words), magnitude),
            np.array([w * unit for w in words], dtype=np.uint64),
            sampler.peak,
            sampler.half_precision,
            SATURATED,
            places,
            outcomes,
        )
        outcome = dict.fromkeys(range(len(words)), 0) | dict(
            zip(places[:found].tolist(), outcomes[:found].tolist(), strict=True)
        )
        for k, word in enumerate(words):
            if outcome[k] == 0:
                assert word < place
            elif outcome[k] == REJECTED:
                assert word > place
            else:
                assert abs(word - place) <= 1 << 16
                assert (
                    sampler._accepts(SeededStream(1), magnitude, word * unit) == (word < place)
                    or word == place
                )


def test_an_undecided_word_is_decided_by_further_bits() -> None:
    sampler = GaussianSampler(Fraction(7))
    with ctx.workprec(200):
        level = (-fraction_ball(rejection_exponent(4, Fraction(7), sampler.scale))).exp() * arb(
            1 << ACCEPT_BITS
        )
        place = int(level.floor().unique_fmpz())
        chance = float(level - place)
    stream = SeededStream(6)
    word = place << (64 - ACCEPT_BITS)
    # 10,000 decisions: catches an error of 2.5 percentage points.
    accepted = sum(sampler._accepts(stream, -4, word) for _ in range(10_000))
    assert (
        chi_square(np.array([accepted, 10_000 - accepted]), 10_000 * np.array([chance, 1 - chance]))
        > ALPHA
    )


def test_a_saturated_proposal_is_judged_by_its_true_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = GaussianSampler(Fraction(1 << 112))
    proposal, word = np.array([SATURATED, -SATURATED]), np.array([1 << 63, 0], dtype=np.uint64)
    places, outcomes = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.uint8)
    assert (
        accept_proposals(
            proposal, word, sampler.peak, sampler.half_precision, SATURATED, places, outcomes
        )
        == 2
    )
    assert outcomes.tolist() == [UNDECIDED, UNDECIDED]
    assert not sampler._accepts(SeededStream(7), SATURATED, 0)
    # A uniform that is zero to thousands of places is below even this level, until the excess makes
    # the level smaller still.
    monkeypatch.setattr(gaussian, "slow_geometric", lambda stream, rate: 0)
    assert sampler._accepts(ConstantBits(0), SATURATED, 0)


def test_the_excess_of_a_saturated_proposal_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = GaussianSampler(Fraction(1 << 110))
    asked, judged = [], []
    monkeypatch.setattr(gaussian, "slow_geometric", lambda stream, rate: asked.append(rate) or 1000)
    monkeypatch.setattr(
        gaussian,
        "rejection_exponent",
        lambda magnitude, *law: judged.append(magnitude) or Fraction(1),
    )
    sampler._accepts(SeededStream(1), -SATURATED, 1 << 63)
    sampler._accepts(SeededStream(1), 17, 1 << 63)
    assert asked == [Fraction(1, (1 << 55) + 1)]
    assert judged == [SATURATED + 1000, 17]


@pytest.mark.parametrize("log_variance", [-400, -113, 113, 130])
def test_variances_beyond_the_fast_range(log_variance: int) -> None:
    variance = Fraction(2) ** log_variance
    draws = discrete_gaussian(SeededStream(8), variance, 300)
    if log_variance < 0:
        assert not draws.any()
        return
    sigma = 2.0 ** (log_variance / 2)
    inside = np.abs(draws) < min(sigma, SATURATED)
    share = math.erf(min(sigma, SATURATED) / sigma / math.sqrt(2))
    # Five standard deviations: false alarm below 1e-6, catches a share that is off by 25 percentage
    # points.
    assert abs(inside.mean() - share) < 5 * math.sqrt(share * (1 - share) / 300)
    assert int(np.abs(draws).max()) <= SATURATED


def test_sizes_and_wrong_variances() -> None:
    for size in (0, 1, 20_000):
        assert discrete_gaussian(SeededStream(1), Fraction(2), size).shape == (size,)
    with pytest.raises(InputError):
        discrete_gaussian(SeededStream(1), Fraction(0), 1)


def test_a_rigged_rejection_is_drawn_again() -> None:
    # All acceptance words of the first round say "reject"; the law of what follows is untouched.
    draws = discrete_gaussian(
        RiggedStream([0] * 20_000 + [(1 << 64) - 1] * 20_000, seed=9), Fraction(4), 10_000
    )
    assert np.unique(draws).size > 10


@pytest.mark.nightly
@pytest.mark.parametrize("variance", [Fraction(1, 5), Fraction(25), Fraction(10**8)])
def test_the_law_at_length(variance: Fraction) -> None:
    # Twenty million draws in up to 400 bins: catches a sigma that is off by 0.3 percent.
    draws = discrete_gaussian(SeededStream(100), variance, 20_000_000)
    assert fit(draws, gaussian_cdf(variance), bins=400) > ALPHA
    assert fit(draws, gaussian_cdf(float(variance) * 1.02), bins=400) < ALPHA
