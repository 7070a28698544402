"""Lazy uniforms and float64 bounds, against 200-bit ball arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from dpublish.noise import lattice
from dpublish.noise.words import SeededStream

EDGES = [
    0,
    1,
    2,
    2047,
    2048,
    4095,
    1 << 11,
    (1 << 56) - 1,
    1 << 56,
    1 << 63,
    (1 << 63) - 1,
    (1 << 64) - 2048,
    (1 << 64) - 1,
]


def some_words(seed: int, n: int) -> np.ndarray:
    words = SeededStream(seed).words(n)
    small = words[: n // 4] >> (np.arange(n // 4, dtype=np.uint64) % np.uint64(64))
    return np.concatenate([words, small, ~small, np.array(EDGES, dtype=np.uint64)])


def ends(word: int) -> tuple[arb, arb]:
    """The least and greatest uniform that starts with these 64 bits."""
    return arb(fmpq(word, 1 << 64)), arb(fmpq(word + 1, 1 << 64))


def test_refining_keeps_the_bits_already_known() -> None:
    uniforms = lattice.LazyUniforms(SeededStream(1), 3)
    lead, bits = uniforms.known(1)
    assert (lead, bits) == (int(uniforms.words[1]), 64)
    for wanted in (128, 256, 512):
        uniforms.refine(1)
        longer, now = uniforms.known(1)
        assert now == wanted
        assert longer >> (now - bits) == lead
        lead, bits = longer, now
    assert uniforms.known(0) == (int(uniforms.words[0]), 64)
    assert uniforms.known(2) == (int(uniforms.words[2]), 64)


@pytest.mark.parametrize("precision", [20, 53, 400])
def test_a_ball_holds_every_real_with_the_known_bits(precision: int) -> None:
    # The ball must be valid even when another thread has lowered the working precision.
    uniforms = lattice.LazyUniforms(SeededStream(2), 5)
    uniforms.refine(2)
    uniforms.refine(3)
    uniforms.refine(3)
    for index in range(5):
        with ctx.workprec(precision):
            ball = uniforms.ball(index)
        lead, bits = uniforms.known(index)
        with ctx.workprec(1000):
            assert ball.contains(arb(fmpq(lead, 1 << bits)))
            assert ball.contains(arb(fmpq(lead + 1, 1 << bits)))


def test_exponential_bounds_enclose() -> None:
    words = some_words(3, 8000)
    low, high = lattice.exponential_bounds(words)
    with ctx.workprec(200):
        for word, least, most in zip(words.tolist(), low.tolist(), high.tolist(), strict=True):
            bottom, top = ends(word)
            assert arb(least) <= (-top.log()).upper()
            assert most == np.inf or arb(most) >= -bottom.log()
            assert word != 0 or most == np.inf
    assert np.median((high - low)[:8000]) < 2.0**-45, (
        "true bounds, but too loose to settle anything"
    )


def test_turn_bounds_enclose() -> None:
    words = some_words(4, 6000)
    bounds = [b.tolist() for b in lattice.turn_bounds(words)]
    with ctx.workprec(200):
        for word, cos_low, cos_high, sin_low, sin_high in zip(words.tolist(), *bounds, strict=True):
            for turn in ends(word):
                assert arb(cos_low) < (2 * turn).cos_pi() < arb(cos_high)
                assert arb(sin_low) < (2 * turn).sin_pi() < arb(sin_high)


def test_log_is_four_times_better_than_the_slack_it_is_given() -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate(
        [
            np.exp(rng.uniform(-690, 690, 4000)),
            1 + rng.normal(size=4000) * np.exp(rng.uniform(-36, -2, 4000)),
            (np.arange(128, 257)[:, None] / 256 + np.array([[-1, 0, 1]]) * 2.0**-9).ravel(),
            2.0 ** np.arange(-999, 1000),
        ]
    )
    y = lattice._log(x)
    low, high = lattice.log_bounds(x)
    with ctx.workprec(200):
        for argument, got, least, most in zip(
            x.tolist(), y.tolist(), low.tolist(), high.tolist(), strict=True
        ):
            true = arb(argument).log()
            assert abs(arb(got) - true) < 2.0**-50 * (1 + abs(true))
            assert arb(least) < true < arb(most)


def test_log_bounds_hold_at_the_ends_of_the_range() -> None:
    x = np.array([0.0, 5e-324, 2.0**-1000, 1.0, 2.0**1000, 1.7e308, np.inf])
    low, high = lattice.log_bounds(x)
    with np.errstate(divide="ignore"):
        true = np.log(x)
    assert np.all(low <= true)
    assert np.all(true <= high)


@pytest.mark.parametrize(
    "q",
    [
        Fraction(0),
        Fraction(1, 3),
        Fraction(2**60 + 1, 7),
        Fraction(10) ** 400,
        Fraction(10) ** 306,
        Fraction(1, 10**400),
    ],
)
def test_fraction_bounds_enclose(q: Fraction) -> None:
    low, high = lattice.fraction_bounds(q)
    assert Fraction(low) <= q
    assert high == np.inf or q <= Fraction(high)
    assert q != 0 or (low, high) == (0.0, 0.0)
