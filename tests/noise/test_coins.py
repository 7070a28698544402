"""Exact coins. Statistical tests: false-alarm rate 1e-6 each, fixed seeds, so no run-to-run
change."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from dpublish.errors import InputError
from dpublish.noise.gaussian import bernoulli_exp, flip
from dpublish.noise.words import SeededStream, WordStream


def coin(stream: WordStream, p: Fraction) -> bool:
    return flip(stream, p.numerator, p.denominator)


ALPHA = 1e-6
DRAWS = 20_000


class RiggedStream(WordStream):
    """Hands out the given words, and fails when asked for more."""

    def __init__(self, words: list[int]) -> None:
        self.left = list(words)

    def fill(self, out: np.ndarray) -> None:
        for i in range(len(out)):
            out[i] = self.left.pop(0)


def two_sided(heads: int, p: float) -> float:
    return 2 * min(binom.cdf(heads, DRAWS, p), binom.sf(heads - 1, DRAWS, p))


@pytest.mark.parametrize(
    "p", [Fraction(1, 3), Fraction(1, 2), Fraction(99, 100), Fraction(10**40 + 1, 3 * 10**40)]
)
def test_a_rational_coin_has_its_probability(p: Fraction) -> None:
    # At 20,000 flips the test also catches a probability wrong by 2.5 percentage points.
    stream = SeededStream(11)
    heads = sum(coin(stream, p) for _ in range(DRAWS))
    assert two_sided(heads, float(p)) > ALPHA
    assert two_sided(heads, float(p) - 0.025) < ALPHA


@pytest.mark.parametrize(
    "x", [Fraction(1, 7), Fraction(1), Fraction(5, 2), Fraction(10**50 + 1, 10**50)]
)
def test_an_exponential_coin_has_its_probability(x: Fraction) -> None:
    # Catches an x that is 0.25 too large.
    stream = SeededStream(12)
    heads = sum(bernoulli_exp(stream, x) for _ in range(DRAWS))
    assert two_sided(heads, math.exp(-x)) > ALPHA
    assert two_sided(heads, math.exp(-x - Fraction(1, 4))) < ALPHA


def test_certain_coins_are_certain() -> None:
    stream = SeededStream(13)
    for _ in range(200):
        assert coin(stream, Fraction(1))
        assert not coin(stream, Fraction(0))
        assert bernoulli_exp(stream, Fraction(0))
        assert not bernoulli_exp(stream, Fraction(10) ** 300)


def test_a_word_on_the_boundary_is_settled_by_the_next_one() -> None:
    # 1/3 = 0.0101...b: the word 0x5555555555555555 leaves the comparison open, and so does the next
    # one.
    tie = 0x5555555555555555
    assert coin(RiggedStream([tie, tie, tie - 1]), Fraction(1, 3))
    assert not coin(RiggedStream([tie, tie, tie + 1]), Fraction(1, 3))
    # 1/2 is met exactly after one word: U < 1/2 is then false, whatever follows.
    assert not coin(RiggedStream([1 << 63]), Fraction(1, 2))
    assert coin(RiggedStream([(1 << 63) - 1]), Fraction(1, 2))


def test_the_exponential_coin_is_the_parity_of_the_series() -> None:
    low, high = 0, (1 << 64) - 1
    half = Fraction(1, 2)
    # The first k coins have probabilities x/1, x/2, ...; the answer is heads when the first failure
    # comes at an odd place.
    assert bernoulli_exp(RiggedStream([high]), half)
    assert not bernoulli_exp(RiggedStream([low, high]), half)
    assert bernoulli_exp(RiggedStream([low, low, high]), half)


def test_a_negative_exponent_is_refused() -> None:
    with pytest.raises(InputError):
        bernoulli_exp(SeededStream(0), Fraction(-1))
