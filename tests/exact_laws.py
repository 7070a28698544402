"""What tests and guesses gain between two discrete laws, worked out from the probabilities
themselves (Neyman and Pearson)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpublish.privacy.cost import exp_above

Law = Sequence[Any]
"""Probabilities of the outcomes 0, 1, ..., as floats or as fractions."""


def right(one: Law, other: Law) -> Any:
    """How often the best guess between two laws is right, when both are equally likely."""
    return sum(max(p, q) for p, q in zip(one, other, strict=True)) / 2


def power(one: Law, other: Law, alarm: Any) -> Any:
    """The largest probability under `one` of a randomised test whose probability under `other` is
    `alarm`."""
    pairs = sorted(
        zip(one, other, strict=True),
        key=lambda pair: -math.inf if pair[1] == 0 else -pair[0] / pair[1],
    )
    found, left = alarm * 0, alarm
    for p, q in pairs:
        if q > left:
            return found + p * left / q
        found, left = found + p, left - q
    return found


def revealing(one: Law, other: Law, delta: Any) -> tuple[list[Any], list[Any]]:
    """The two laws, except that with probability delta an extra outcome gives away which one it
    was."""
    return [*((1 - delta) * p for p in one), delta, 0], [
        *((1 - delta) * q for q in other),
        0,
        delta,
    ]


def discrete_gaussian(variance: float, shift: int, reach: int) -> list[float]:
    weights = [math.exp(-((k - shift) ** 2) / (2 * variance)) for k in range(-reach, reach + 1)]
    return [weight / math.fsum(weights) for weight in weights]


def geometric(ratio: Fraction, shift: int, reach: int) -> list[Fraction]:
    """The discrete Laplace law with P(k) proportional to ratio^|k|, cut by clamping to -reach ..
    reach: exact."""
    inside = {
        k: (1 - ratio) / (1 + ratio) * ratio ** abs(k - shift) for k in range(-reach + 1, reach)
    }
    low = ratio ** (reach + shift) / (1 + ratio)
    return [low, *inside.values(), 1 - low - sum(inside.values())]


def exp_below(x: Fraction) -> Fraction:
    """A lower bound on exp x."""
    return 1 / exp_above(-x)
