"""The samplers of Canonne, Kamath and Steinke (2020), one draw at a time in integers of any size.

Slow, short and independent of every table and kernel: tests hold the fast samplers to them, and the
fast samplers turn to them where 64-bit integers end.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from dpublish.errors import InputError
from dpublish.noise.words import WordStream

_WORD = 64


def bernoulli_exp(stream: WordStream, x: Fraction) -> bool:
    """True with probability exactly exp(-x), for any rational x >= 0 (Canonne, Kamath and Steinke
    2020, algorithm 1)."""
    if x < 0:
        raise InputError("exp(-x) is a probability only for x >= 0.")
    whole, rest = divmod(x.numerator, x.denominator)
    # exp(-x) = exp(-1)^whole * exp(-rest). The first failure ends it, so a huge x costs no more
    # than a small one.
    while whole > 0:
        if not _flip_exp(stream, 1, 1):
            return False
        whole -= 1
    return _flip_exp(stream, rest, x.denominator)


def _flip_exp(stream: WordStream, numerator: int, denominator: int) -> bool:
    """True with probability exp(-numerator/denominator), for a ratio in [0, 1]: the parity of an
    alternating series."""
    k = 1
    while flip(stream, numerator, denominator * k):
        k += 1
    return k % 2 == 1


def flip(stream: WordStream, numerator: int, denominator: int) -> bool:
    """True when a uniform real in [0, 1) is below numerator/denominator, reading its bits a word at
    a time.

    Only as many bits as needed are drawn, which is one word in nearly every call however long the
    numerator is.
    """
    while True:
        quotient, numerator = divmod(numerator << _WORD, denominator)
        word = stream.bits(_WORD)
        if word != quotient:
            return word < quotient
        if numerator == 0:
            return False


def slow_geometric(stream: WordStream, rate: Fraction) -> int:
    """G with P(G >= g) = exp(-rate g), for a positive rational rate s/t: an exponential of scale t
    in steps of one, over s."""
    steps, unit = rate.numerator, rate.denominator
    while True:
        low = stream.below(unit)
        if bernoulli_exp(stream, Fraction(low, unit)):
            break
    high = 0
    while bernoulli_exp(stream, Fraction(1)):
        high += 1
    return (low + unit * high) // steps


def slow_laplace(stream: WordStream, scale: Fraction) -> int:
    """X with P(X = x) proportional to exp(-|x| / scale)."""
    while True:
        magnitude = slow_geometric(stream, 1 / scale)
        negative = stream.bits(1) == 1
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def gaussian_proposal_scale(variance: Fraction) -> int:
    """The integer scale of the Laplace proposal: floor(sigma) + 1."""
    return isqrt(variance.numerator // variance.denominator) + 1


def rejection_exponent(magnitude: int, variance: Fraction, scale: int) -> Fraction:
    """A Laplace proposal of this magnitude becomes a Gaussian draw with probability exp(-this)."""
    return (magnitude - variance / scale) ** 2 / (2 * variance)


def slow_gaussian(stream: WordStream, variance: Fraction) -> int:
    """X with P(X = x) proportional to exp(-x^2 / (2 variance))."""
    scale = gaussian_proposal_scale(variance)
    while True:
        proposal = slow_laplace(stream, Fraction(scale))
        if bernoulli_exp(stream, rejection_exponent(abs(proposal), variance, scale)):
            return proposal
