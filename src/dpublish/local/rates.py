"""Probabilities of randomised answers as whole numbers of words, always rounded towards more
privacy.

An answer takes one of m categories: the truth, or one of the m - 1 others. The privacy loss is the
logarithm of P(truth) / P(one other), so any pair of whole numbers with truth / other <=
exp(epsilon) is epsilon-private, exactly. Nothing here is a float: exp(epsilon) enters only as a
certified lower bound (proof: coins.proof.md).
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from dpublish.errors import PlanError
from dpublish.privacy.cost import Amount, positive, show

MAX_EPSILON = 24
"""Above this a report is the truth in all but about one of 10^10 cases: no longer a randomised
answer."""

_DIGITS = 60


def checked_epsilon(epsilon: Amount) -> Fraction:
    """The exact epsilon that was written, above 0 and at most `MAX_EPSILON`."""
    value = positive(epsilon, "epsilon")
    if value > MAX_EPSILON:
        raise PlanError(
            f"epsilon = {show(value)} is above {MAX_EPSILON}: such a report hides nothing. Usual "
            f"values are 1/2 to 4."
        )
    return value


def checked_bits(bits: int) -> int:
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= 64:
        raise PlanError(f"bits must be a whole number from 1 to 64, not {bits!r}.")
    return bits


def exp_below(x: Fraction) -> Fraction:
    """A rational at most exp(x), and above exp(x) (1 - 10^-50), for 0 <= x <= MAX_EPSILON."""
    floor = Context(prec=_DIGITS, rounding=ROUND_FLOOR).divide(
        Decimal(x.numerator), Decimal(x.denominator)
    )
    # Decimal.exp is correctly rounded (off by at most half a unit in the last place), so one step
    # down is a proof
    context = Context(prec=_DIGITS, rounding=ROUND_HALF_EVEN)
    return Fraction(floor.exp(context).next_minus(context))


def other_words(epsilon: Fraction, categories: int, bits: int) -> int:
    """How many of the 2^bits words lead to each wrong category: the least number that keeps truth /
    other <= exp(epsilon)."""
    words = 1 << bits
    # (words - (m - 1) a) / a <= e  <=>  a >= words / (e + m - 1); a lower bound for e makes a
    #                               larger, never smaller
    share = Fraction(words) / (exp_below(epsilon) + categories - 1)
    other = -(-share.numerator // share.denominator)
    if words - (categories - 1) * other <= other:
        raise PlanError(
            f"epsilon = {show(epsilon)} with {categories} categories is too small for coins of "
            f"{bits} bits: the answer would "
            "carry no information. Use a larger epsilon or fewer levels."
        )
    return other
