"""Exact decisions about irrational numbers: balls that surely hold the number, and bits drawn only
when they are needed.

A ball (`flint.arb`) encloses the true number whatever the working precision is, so precision only
decides how soon a comparison becomes certain, never its outcome. For the same reason the shared
flint context needs no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx

from dpublish.noise.words import WordStream

Ball = Callable[[], arb]
"""Recomputes a number at the current working precision; the enclosure shrinks without limit as the
precision grows."""

_STEP_BITS = 64


def fraction_ball(value: Fraction) -> arb:
    """A ball around a rational number."""
    return arb(value.numerator) / arb(value.denominator)


def floor_below(value: arb) -> int:
    """An integer that is surely not above `value`: its floor, or one less when the ball holds an
    integer."""
    whole = value.lower().floor().unique_fmpz()
    if whole is None:
        raise ArithmeticError("a ball is too wide to have a floor")
    return int(whole)


def uniform_is_below(stream: WordStream, prefix: int, bits: int, level: Ball) -> bool:
    """Whether U < level, where U is a uniform real in [0, 1) whose first `bits` bits are `prefix`.

    Further bits of the same U are drawn until its interval and the ball are apart, so the answer is
    exact. It ends with probability one; each round is needed with probability about 2^-64 of the
    one before.
    """
    while True:
        with ctx.workprec(bits + 2 * _STEP_BITS):
            scaled = level() * arb(1 << bits)
            if arb(prefix + 1) <= scaled:
                return True
            if arb(prefix) >= scaled:
                return False
        prefix = (prefix << _STEP_BITS) | stream.bits(_STEP_BITS)
        bits += _STEP_BITS
