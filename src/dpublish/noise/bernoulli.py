"""Coin flips whose probability is exact: a rational p, or exp(-x) for a rational x >= 0.

In: a word stream and a `Fraction` of any size. Out: one bool. No floating-point number is involved,
so the law is the stated one and not a neighbour of it (proof: bernoulli.proof.md).
"""

from __future__ import annotations

from fractions import Fraction

from dpublish.errors import InputError
from dpublish.noise.words import WordStream

_WORD = 64


def bernoulli_fraction(stream: WordStream, p: Fraction) -> bool:
    """True with probability exactly `p`, which must lie in [0, 1]."""
    if not 0 <= p <= 1:
        raise InputError("A probability must lie between 0 and 1.")
    return _flip(stream, p.numerator, p.denominator)


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
    while _flip(stream, numerator, denominator * k):
        k += 1
    return k % 2 == 1


def _flip(stream: WordStream, numerator: int, denominator: int) -> bool:
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
