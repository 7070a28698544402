"""Probabilities are rounded towards privacy, and by no more than they must."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from flint import arb, ctx, fmpq

from dpublish.errors import PlanError
from dpublish.local.coins import MAX_EPSILON, Coin, checked_epsilon, exp_below, other_words

EPSILONS = [
    Fraction(1, 1000),
    Fraction(1, 10),
    Fraction(1, 3),
    Fraction(1),
    Fraction(7, 3),
    Fraction(5),
    Fraction(20),
    Fraction(24),
]


def ball(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_exp_below_is_below_and_close(epsilon: Fraction) -> None:
    with ctx.workprec(400):
        true = ball(epsilon).exp()
        found = ball(exp_below(epsilon))
        assert found < true
        assert found > true * (1 - arb(10) ** -50)


@pytest.mark.parametrize("categories", [2, 3, 10, 1024, 1 << 20])
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_the_ratio_is_within_epsilon_and_the_next_number_is_not(
    epsilon: Fraction, categories: int, bits: int
) -> None:
    try:
        other = other_words(epsilon, categories, bits)
    except PlanError:
        # refused: with the least number of words that is private, the truth would not be likelier
        # than another level
        least = math.ceil(Fraction(1 << bits) / (exp_below(epsilon) + categories - 1))
        assert categories * least >= 1 << bits
        return
    words = 1 << bits
    with ctx.workprec(400):
        bound = ball(epsilon).exp()
        assert ball(Fraction(words - (categories - 1) * other, other)) <= bound
        if other > 1:
            assert ball(Fraction(words - (categories - 1) * (other - 1), other - 1)) > bound


def test_no_rounding_can_turn_the_answer_round() -> None:
    for bits in range(2, 14):
        for categories in range(2, 9):
            for epsilon in (Fraction(1, 20), Fraction(1, 2), Fraction(3)):
                try:
                    coin = Coin(categories, epsilon, bits)
                except PlanError:
                    continue
                assert coin.truth > coin.other > 0
                assert coin.truth + (categories - 1) * coin.other == 1


@pytest.mark.parametrize("epsilon", [0, -1, MAX_EPSILON + 1, "nan", "1/0", True, None])
def test_bad_epsilons_are_refused(epsilon: object) -> None:
    with pytest.raises(PlanError):
        checked_epsilon(epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("categories", "bits"), [(1, 64), (0, 64), (True, 64), (2, 0), (2, 65), (2, True), (300, 8)]
)
def test_bad_coins_are_refused(categories: int, bits: int) -> None:
    with pytest.raises(PlanError):
        Coin(categories, Fraction(1), bits)
