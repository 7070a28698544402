"""What docs and docstrings say about one randomizer against another, held to the variances that the
code itself states."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpublish.local import (
    HadamardResponse,
    KaryResponse,
    LocalHashing,
    UnaryEncoding,
    unary,
)
from dpublish.local.survey import best_method

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial-local.md"
EPSILONS = [
    Fraction(1, 20),
    Fraction(1, 2),
    Fraction(1),
    Fraction(3, 2),
    Fraction(2),
    Fraction(3),
    Fraction(4),
    Fraction(6),
]


def above(one: Any, other: Any, epsilon: Fraction, levels: int = 64) -> float:
    """By how many per cent the error of one randomizer is above that of another."""
    return 100 * (math.sqrt(one(levels, epsilon).variance / other(levels, epsilon).variance) - 1)


def stated(text: str) -> dict[Fraction, int]:
    """Per cents by epsilon, as in "3 % at epsilon 1/2, 13 % at 1"."""
    found = re.findall(r"(\d+) %[a-z `]*? at (?:epsilon )?(\d+(?:/\d+)?)", text)
    return {Fraction(epsilon): int(percent) for percent, epsilon in found}


def row(method: str) -> str:
    return next(
        line
        for line in TUTORIAL.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| `{method}` |")
    )


def test_what_is_said_of_hadamard_against_unary() -> None:
    places = {"tutorial": row("hadamard"), "module": str(unary.__doc__)}
    for place, text in places.items():
        numbers = stated(" ".join(text.split()).replace("is 3 % larger at", "is 3 % at"))
        assert len(numbers) >= 4, place
        assert {Fraction(1, 2), Fraction(1), Fraction(2), Fraction(3)} <= set(numbers), place
        for epsilon, percent in numbers.items():
            assert round(above(HadamardResponse, UnaryEncoding, epsilon)) == percent, (
                place,
                epsilon,
            )
        assert "never" in text


def test_what_is_said_of_unary_against_hashing() -> None:
    numbers = stated(row("unary"))
    assert len(numbers) == 4
    for epsilon, percent in numbers.items():
        assert round(above(UnaryEncoding, LocalHashing, epsilon)) == percent, epsilon
    for epsilon in (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(3)):
        assert abs(above(UnaryEncoding, LocalHashing, epsilon, levels=1024)) < 1


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_hadamard_is_never_more_accurate_than_unary(epsilon: Fraction) -> None:
    """By the formulas 4 e / (e - 1)^2 and (e + 2 B - 1)^2 / (B (e - 1)^2), e = exp(epsilon), and by
    the code."""
    ratio = math.exp(epsilon)
    for levels in (2, 3, 5, 16, 64, 1000):
        one, other = HadamardResponse(levels, epsilon), UnaryEncoding(levels, epsilon)
        assert one.variance >= other.variance
        assert other.variance == pytest.approx(4 * ratio / (ratio - 1) ** 2, rel=1e-4)
        blocks = one.blocks
        assert one.variance == pytest.approx(
            (ratio + 2 * blocks - 1) ** 2 / (blocks * (ratio - 1) ** 2), rel=1e-9
        )


def test_the_example_of_64_levels_at_epsilon_3() -> None:
    people = 50_000
    assert round(HadamardResponse(64, 3).expected_error(people)) == 145
    assert round(UnaryEncoding(64, 3).expected_error(people)) == 105


def test_the_method_that_is_taken_has_the_least_error_of_those_with_short_reports() -> None:
    makers = {"kary": KaryResponse, "hadamard": HadamardResponse, "hashing": LocalHashing}
    for epsilon, levels in itertools.product(EPSILONS[1:6], (3, 16, 64, 300)):
        chosen = makers[best_method(levels, epsilon)](levels, epsilon)
        assert chosen.variance <= min(
            KaryResponse(levels, epsilon).variance, HadamardResponse(levels, epsilon).variance
        )
    assert "never less accurate" in " ".join(str(HadamardResponse.__doc__).split())
