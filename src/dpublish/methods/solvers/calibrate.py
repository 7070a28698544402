"""Exact calibrations that several solvers share: certified logarithms, and the epsilon of a greedy
sequence of choices."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

_DIGITS = 50
_SHORT = 1 << 40


def _context(rounding: str) -> Context:
    return Context(prec=_DIGITS, rounding=rounding, Emin=-999_999, Emax=999_999)


def ln_above(x: Fraction) -> Fraction:
    """An upper bound on ln x for x > 0. Decimal.ln is correctly rounded, so one step outwards is a
    proof."""
    near = _context(ROUND_HALF_EVEN)
    over = _context(ROUND_CEILING).divide(Decimal(x.numerator), Decimal(x.denominator))
    return Fraction(over.ln(near).next_plus(near))


def ln_below(x: Fraction) -> Fraction:
    """A lower bound on ln x for x > 0."""
    near = _context(ROUND_HALF_EVEN)
    under = _context(ROUND_FLOOR).divide(Decimal(x.numerator), Decimal(x.denominator))
    return Fraction(under.ln(near).next_minus(near))


def exp_below(x: Fraction) -> Fraction:
    """A lower bound on exp x."""
    near = _context(ROUND_HALF_EVEN)
    under = _context(ROUND_FLOOR).divide(Decimal(x.numerator), Decimal(x.denominator))
    return Fraction(under.exp(near).next_minus(near))


def exp_above(x: Fraction) -> Fraction:
    """An upper bound on exp x."""
    near = _context(ROUND_HALF_EVEN)
    over = _context(ROUND_CEILING).divide(Decimal(x.numerator), Decimal(x.denominator))
    return Fraction(over.exp(near).next_plus(near))


def rounded_down(x: Fraction) -> Fraction:
    """A short fraction at most x (x > 0) and within 2^-40 of it in relative terms: exact noise is
    faster with short numbers."""
    scale = max(1, math.ceil(_SHORT / x)) if x < _SHORT else 1
    power = 1 << (scale - 1).bit_length()
    return Fraction(math.floor(x * power), power)


def step_epsilon(epsilon: Fraction, hazard: Fraction) -> Fraction:
    """The largest e' found, rounded down, with (exp(e') - 1) * hazard <= epsilon and e' <= epsilon.

    `hazard` bounds the expected gain of one unit over the whole greedy sequence (see
    set_cover.proof.md, theorem 1).
    """
    return rounded_down(min(epsilon, ln_below(1 + epsilon / hazard)))


def first_hit_hazard(delta: Fraction) -> Fraction:
    """ln(1/delta): the expected gain that a unit can have missed before it is served, except with
    probability delta."""
    return ln_above(1 / delta)


def total_gain_hazard(delta: Fraction) -> Fraction:
    """The least (b + ln(1/delta)) / (1 - exp(-b)) found over b: expected gain of a unit whose
    realised gain is at most one."""
    inverse = ln_above(1 / delta)
    best = None
    for tenths in range(5, 100):
        b = Fraction(tenths, 10)
        bound = (b + inverse) / (1 - exp_above(-b))
        best = bound if best is None else min(best, bound)
    assert best is not None
    return best
