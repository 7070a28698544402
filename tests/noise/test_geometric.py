"""Geometric draws, tails, survivors. Statistical tests: false-alarm rate 1e-6, fixed seeds; each
also rejects a wrong law."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb, ctx
from sampler_laws import ALPHA, Cdf, RiggedStream, chi_square, fit, fit_outcomes, geometric_cdf
from scipy.stats import binom

from dpublish.errors import InputError
from dpublish.noise.balls import fraction_ball
from dpublish.noise.geometric import (
    ACCEPT_BITS,
    GUARD,
    REDRAW,
    SATURATED,
    GeometricSampler,
    exp_near_zero,
    gap_sampler,
    geometric_sampler,
    pass_probability,
    ranks_to_cells,
    survivors,
    tail,
)
from dpublish.noise.words import SeededStream

RATES = [
    Fraction(3),
    Fraction(1, 2),
    Fraction(3, 7),
    Fraction(1, 63),
    Fraction(1, 64),
    Fraction(1, 65),
    Fraction(1, 10**6),
]


@pytest.mark.parametrize("rate", RATES)
def test_the_law_is_geometric(rate: Fraction) -> None:
    # 200,000 draws in 60 bins: catches a rate that is off by 2 percent.
    draws = geometric_sampler(rate).draw(SeededStream(1), 200_000)
    assert fit(draws, geometric_cdf(float(rate))) > ALPHA
    assert fit(draws, geometric_cdf(float(rate) * 1.1)) < ALPHA
    assert fit(draws, geometric_cdf(float(rate) / 1.1)) < ALPHA


@pytest.mark.parametrize("rate", [Fraction(3, 7), Fraction(1, 40), Fraction(1, 1000)])
@pytest.mark.parametrize("bits", [9, 11])
def test_the_law_is_exact_when_the_residual_is_common(rate: Fraction, bits: int) -> None:
    # With so few bits up to half of the words need the exact path. 6,000 draws catch a rate that is
    # off by 10 percent.
    sampler = GeometricSampler(lambda: fraction_ball(rate), table_bits=bits)
    assert sampler.table.residual_mass > 1
    draws = sampler.draw(SeededStream(bits), 6000)
    assert fit(draws, geometric_cdf(float(rate)), bins=20) > ALPHA
    assert fit(draws, geometric_cdf(float(rate) * 1.2), bins=20) < ALPHA


@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(1, 1_000_003)])
def test_low_digits_are_those_of_the_law(rate: Fraction) -> None:
    # The low part comes from its own bits; 300,000 draws catch a residue class that is off by 10
    # percent.
    draws = geometric_sampler(rate).draw(SeededStream(2), 300_000)
    r = math.exp(-float(rate))
    expected = np.array([r**j * (1 - r) / (1 - r**64) for j in range(64)]) * draws.size
    assert (
        chi_square(np.bincount((draws % np.uint64(64)).astype(np.int64), minlength=64), expected)
        > ALPHA
    )


def test_beyond_the_table_the_law_goes_on() -> None:
    # Rate 1/63 has no low part and overflows most often: about one draw in 3,300 leaves the table.
    sampler = geometric_sampler(Fraction(1, 63))
    assert sampler.shift == 0
    draws = sampler.draw(SeededStream(3), 2_000_000)
    beyond = draws[draws >= 510] - np.uint64(510)
    expected = 2_000_000 * math.exp(-510 / 63)
    assert (
        chi_square(np.array([beyond.size, 2e6 - beyond.size]), np.array([expected, 2e6 - expected]))
        > ALPHA
    )
    assert fit(beyond, geometric_cdf(1 / 63), bins=12) > ALPHA
    assert fit(beyond, geometric_cdf(1 / 40), bins=12) < ALPHA


@pytest.mark.parametrize("rate", [Fraction(1, 40), Fraction(1, 1000), Fraction(1, 10**9)])
def test_an_overflow_adds_exactly_the_length_of_the_table(rate: Fraction) -> None:
    sampler = geometric_sampler(rate)
    table, shift = sampler.table, sampler.shift
    length = 510 << shift
    width = 64 - table.columns_log2
    # Accept bits of zero accept every low part.
    aims = [
        w
        for c in range(1 << table.columns_log2)
        for w in (c << width, ((c + 1) << width) - (1 << ACCEPT_BITS))
    ]
    (over, *_) = (w for w in aims if table.symbol(SeededStream(0), w) == 510)
    (plain, *_) = (w for w in aims if table.symbol(SeededStream(0), w) == 7)
    low = (1 << shift) * 3 // 4
    second = low << (64 - shift) if shift else 0
    for overflows in (0, 1, 3):
        draws = sampler.draw(RiggedStream([over, second] * overflows + [plain, second]), 1)
        assert draws.tolist() == [overflows * length + (7 << shift) + low]


def saturated_cdf(rate: float) -> Cdf:
    return lambda x: 1.0 if x >= SATURATED else geometric_cdf(rate)(x)


@pytest.mark.parametrize("exponent", [57, 60, 62, 63, 66, 70])
def test_saturation_is_the_law_of_the_minimum(exponent: int) -> None:
    draws = GeometricSampler(lambda: arb(1) / (1 << exponent)).draw(SeededStream(4), 50_000)
    assert int(draws.max()) <= SATURATED
    assert fit(draws, saturated_cdf(2.0**-exponent), bins=40) > ALPHA
    if exponent < 66:
        assert fit(draws, saturated_cdf(1.2 * 2.0**-exponent), bins=40) < ALPHA


def test_a_vanishing_rate_saturates_at_once() -> None:
    sampler = GeometricSampler(lambda: (-(arb(10) ** 30)).exp())
    assert set(sampler.draw(SeededStream(5), 1000).tolist()) == {SATURATED}


def test_the_polynomial_keeps_its_error_bound() -> None:
    xs = [k / 32 / 4000 for k in range(4001)]
    with ctx.workprec(128):
        worst = max(abs(arb(exp_near_zero(x)) - (-arb(x)).exp()).upper() for x in xs)
    assert worst < 2.0**-39 < GUARD / 4


@pytest.mark.parametrize("rate", [Fraction(1, 1000), Fraction(1, 10**9)])
def test_an_undecided_word_is_decided_by_further_bits(rate: Fraction) -> None:
    """Plant accept bits that hold exp(-x) itself: what is left to decide has the probability of the
    fraction that follows."""
    sampler = geometric_sampler(rate)
    low = (1 << sampler.shift) * 5 // 7
    with ctx.workprec(200):
        level = (-fraction_ball(rate) * arb(low)).exp() * arb(1 << ACCEPT_BITS)
        bits = int(level.floor().unique_fmpz())
        chance = float(level - bits)
    pair = [(1 << 63) | bits, low << (64 - sampler.shift)]
    accepted = 0
    stream = RiggedStream(pair * 5000, seed=6)
    values, places, outcomes = sampler._attempt(stream, 5000)
    accepted = 5000 - places.size
    assert set(outcomes.tolist()) <= {REDRAW}
    assert (
        chi_square(np.array([accepted, 5000 - accepted]), 5000 * np.array([chance, 1 - chance]))
        > ALPHA
    )
    assert set((np.delete(values, places) & np.uint64((1 << sampler.shift) - 1)).tolist()) == {low}


def test_neighbouring_words_are_decided_at_once() -> None:
    sampler = geometric_sampler(Fraction(1, 1000))
    low = (1 << sampler.shift) - 1
    with ctx.workprec(200):
        bits = int(((-arb(low) / 1000).exp() * arb(1 << ACCEPT_BITS)).floor().unique_fmpz())
    for step, rejected in ((-1, 0), (1, 1)):
        stream = RiggedStream([(1 << 63) | (bits + step), low << (64 - sampler.shift)])
        assert sampler._attempt(stream, 1)[1].size == rejected


@pytest.mark.parametrize(
    ("scale", "start"), [(Fraction(7, 3), 1), (Fraction(1, 2), 5), (Fraction(1000), 12345)]
)
def test_a_tail_is_the_start_plus_a_geometric(scale: Fraction, start: int) -> None:
    draws = tail(SeededStream(7), scale, start, 100_000)
    assert int(draws.min()) == start
    assert fit(draws - start, geometric_cdf(1 / float(scale))) > ALPHA
    assert fit(draws - start, geometric_cdf(1.1 / float(scale))) < ALPHA


def test_a_tail_never_passes_its_limit() -> None:
    assert set(tail(SeededStream(7), Fraction(10**40), 1 << 61, 100).tolist()) == {1 << 62}
    for start in (0, (1 << 61) + 1):
        with pytest.raises(InputError):
            tail(SeededStream(1), Fraction(1), start, 1)


def chance_above(scale: Fraction, threshold: int) -> float:
    r = math.exp(-1 / float(scale))
    return r ** (threshold + 1) / (1 + r)


def subsets(trials: int, p: float) -> dict[tuple[int, ...], float]:
    law = {}
    for pattern in product([0, 1], repeat=trials):
        hits = tuple(k for k, hit in enumerate(pattern) if hit)
        law[hits] = p ** len(hits) * (1 - p) ** (trials - len(hits))
    return law


@pytest.mark.parametrize(("scale", "threshold"), [(Fraction(2), 0), (Fraction(7, 3), 1)])
def test_every_set_of_survivors_has_its_probability(scale: Fraction, threshold: int) -> None:
    # 12,000 runs over the 16 subsets of four trials: catches a probability that is off by 10
    # percent.
    stream = SeededStream(8)
    found = [tuple(survivors(stream, 4, scale, threshold).tolist()) for _ in range(12_000)]
    assert fit_outcomes(found, subsets(4, chance_above(scale, threshold))) > ALPHA
    assert (
        fit_outcomes(found, subsets(4, chance_above(scale * Fraction(13, 10), threshold))) < ALPHA
    )


def test_the_number_of_survivors_is_binomial() -> None:
    p = chance_above(Fraction(3), 4)
    stream = SeededStream(9)
    counts = np.array([survivors(stream, 60, Fraction(3), 4).size for _ in range(8000)])
    assert fit(counts, lambda k: float(binom.cdf(k, 60, p))) > ALPHA
    assert fit(counts, lambda k: float(binom.cdf(k, 60, 1.1 * p))) < ALPHA


@pytest.mark.parametrize(("log_trials", "threshold"), [(20, 25), (40, 165), (63, 325)])
def test_survivors_of_huge_domains_are_uniform(log_trials: int, threshold: int) -> None:
    """Count within the normal band of the binomial, ranks uniform in 64 equal parts and in their
    lowest six bits."""
    scale = Fraction(10)
    expected = 2.0**log_trials * chance_above(scale, threshold)
    assert 3e4 < expected < 3e5
    ranks = survivors(SeededStream(10), 1 << log_trials, scale, threshold)
    # Five standard deviations: false alarm below 1e-6, catches a probability that is off by 3
    # percent.
    assert abs(ranks.size - expected) < 5 * math.sqrt(expected)
    assert np.all(ranks[1:] > ranks[:-1])
    assert int(ranks[-1]) < 1 << log_trials
    equal = np.full(64, ranks.size / 64)
    parts = (ranks >> np.uint64(log_trials - 6)).astype(np.int64)
    assert chi_square(np.bincount(parts, minlength=64), equal) > ALPHA
    lowest = (ranks & np.uint64(63)).astype(np.int64)
    assert chi_square(np.bincount(lowest, minlength=64), equal) > ALPHA


def test_gaps_at_the_top_of_a_domain_do_not_wrap() -> None:
    # About two survivors a run: the last gap nearly always reaches past 2^63.
    stream = SeededStream(11)
    runs = [survivors(stream, 1 << 63, Fraction(10), 430) for _ in range(500)]
    assert all(np.all(r[1:] > r[:-1]) and (r.size == 0 or int(r[-1]) < 1 << 63) for r in runs)
    mean = 2.0**63 * chance_above(Fraction(10), 430)
    total = sum(r.size for r in runs)
    assert abs(total - 500 * mean) < 5 * math.sqrt(500 * mean)


def test_few_or_hopeless_trials() -> None:
    assert survivors(SeededStream(1), 0, Fraction(1), 0).size == 0
    assert survivors(SeededStream(1), 1 << 63, Fraction(1, 50), 1000).size == 0
    assert survivors(SeededStream(1), 1 << 63, Fraction(1), 10**30).size == 0
    assert survivors(SeededStream(2), 10**6, Fraction(10**30), 0).size == pytest.approx(
        5e5, rel=0.01
    )
    for trials, threshold in ((-1, 0), ((1 << 63) + 1, 0), (5, -1)):
        with pytest.raises(InputError):
            survivors(SeededStream(1), trials, Fraction(1), threshold)


def test_the_gap_rate_encloses_the_closed_form() -> None:
    with ctx.workprec(64):
        assert float(pass_probability(Fraction(3), 4)) == pytest.approx(
            chance_above(Fraction(3), 4), rel=1e-12
        )
        rate = float(gap_sampler(Fraction(3), 4).rate())
    assert rate == pytest.approx(-math.log1p(-chance_above(Fraction(3), 4)), rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_ranks_become_cells_outside_the_occupied_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domain = int(rng.integers(1, 60))
    occupied = np.flatnonzero(rng.random(domain) < rng.random()).astype(np.uint64)
    empty = np.setdiff1d(np.arange(domain, dtype=np.uint64), occupied)
    ranks = np.flatnonzero(rng.random(empty.size) < 0.5).astype(np.uint64)
    assert np.array_equal(ranks_to_cells(ranks, occupied), empty[ranks])


def test_wrong_table_bits() -> None:
    for bits in (0, 41):
        with pytest.raises(InputError):
            GeometricSampler(lambda: arb(1), table_bits=bits)


@pytest.mark.nightly
@pytest.mark.parametrize("rate", [Fraction(1, 63), Fraction(1, 65), Fraction(1, 10**12)])
def test_the_law_at_length(rate: Fraction) -> None:
    # Twenty million draws in 400 bins: catches a rate that is off by 0.4 percent.
    draws = geometric_sampler(rate).draw(SeededStream(100), 20_000_000)
    assert fit(draws, geometric_cdf(float(rate)), bins=400) > ALPHA
    assert fit(draws, geometric_cdf(float(rate) * 1.01), bins=400) < ALPHA
