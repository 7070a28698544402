"""The randomness of one person's device: whole words against whole thresholds, no floating-point
coin.

`Coins` is what a randomizer needs: uniform integers. `DeviceCoins` gives them from the operating
system with nothing but numpy; every `Noise` of dpublish (system, seeded, enumerating, recording)
has the same method and can stand in.

`Coin` is the one private step of the package: out of m categories keep the true one, or move to one
of the others, each with the same exact probability. It spends one word (proof: coins.proof.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Words
from dpublish.errors import InputError, PlanError
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


def checked_whole(name: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PlanError(f"{name} must be a whole number from {least} to {most}, not {value!r}.")
    return value


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


MAX_CATEGORIES = 1 << 32
MAX_STREAM = 1 << 30
_ZEROS = memoryview(bytes(1 << 16))


class Coins(Protocol):
    """A source of uniform integers: `DeviceCoins`, or any `Noise`."""

    def integers(self, bound: int, *, size: int, label: str = "") -> Words:
        """`size` independent uniform draws from range(bound), 1 <= bound <= 2^64."""
        ...


class DeviceCoins:
    """Uniform integers from the operating system. It keeps no state, so forks and threads need no
    care.

    A large draw is the key stream of a cipher (ChaCha20) with a key from the operating system, used
    for that draw alone: asking the operating system for every byte is ten times slower. Without the
    cipher's library every byte is asked for.
    """

    def integers(self, bound: int, *, size: int, label: str = "") -> Words:
        if not 1 <= bound <= 1 << 64:
            raise InputError("The bound must lie between 1 and 2^64.")
        width = (bound - 1).bit_length()
        out = _bits(width, size)
        if bound & (bound - 1):
            places = np.flatnonzero(out >= np.uint64(bound))
            # drawn again until below the bound: uniform, at most half of the draws are lost a round
            while places.size:
                again = _bits(width, places.size)
                out[places] = again
                places = places[again >= np.uint64(bound)]
        return out


def _bits(width: int, size: int) -> Words:
    if width == 0:
        return np.zeros(size, dtype=np.uint64)
    taken = next(held for held in (1, 2, 4, 8) if 8 * held >= width)
    words = np.frombuffer(_fresh_bytes(size * taken), dtype=f"<u{taken}").astype(
        np.uint64, copy=False
    )
    return words if 8 * taken == width else words & np.uint64((1 << width) - 1)


def _fresh_bytes(size: int) -> bytearray | NDArray[np.uint8]:
    """Random bytes, by a cipher from 4 kilobytes on. One key never serves for more than
    `MAX_STREAM` bytes."""
    cipher = _cipher() if size >= 1 << 12 else None
    if cipher is None:
        return bytearray(os.urandom(size))
    out = np.empty(size, dtype=np.uint8)
    view = out.data
    for start in range(0, size, MAX_STREAM):
        stream = cipher(os.urandom(32))
        for place in range(start, min(start + MAX_STREAM, size), len(_ZEROS)):
            end = min(place + len(_ZEROS), size)
            stream.update_into(_ZEROS[: end - place], view[place:end])
    return out


def _cipher() -> Callable[[bytes], Any] | None:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    except ImportError:
        return None
    return lambda key: Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()


class Coin:
    """Keep the true one of `categories`, or move to one of the others: `truth` and `other` are the
    exact probabilities."""

    def __init__(self, categories: int, epsilon: Fraction, bits: int = 64) -> None:
        if (
            isinstance(categories, bool)
            or not isinstance(categories, int)
            or not 2 <= categories <= MAX_CATEGORIES
        ):
            raise PlanError(
                f"A randomised answer needs 2 to {MAX_CATEGORIES} categories, not {categories!r}."
            )
        self.categories = categories
        self.bits = checked_whole("bits", bits, 1, 64)
        self._other = other_words(epsilon, categories, bits)
        self._start = (1 << bits) - (categories - 1) * self._other

    @property
    def truth(self) -> Fraction:
        """Probability of the true category."""
        return Fraction(self._start, 1 << self.bits)

    @property
    def other(self) -> Fraction:
        """Probability of each other category."""
        return Fraction(self._other, 1 << self.bits)

    def draw(self, coins: Coins, size: int) -> Words:
        """Steps from the true category: 0 with probability `truth`, each of 1..m-1 with probability
        `other`."""
        words = coins.integers(1 << self.bits, size=size, label="coin")
        start = np.uint64(self._start)
        if self.categories == 2:
            return (words >= start).astype(np.uint64)
        # below `start` the subtraction wraps, and the product with False throws the result away
        steps = (words - start) // np.uint64(self._other)
        steps += np.uint64(1)
        steps *= words >= start
        return steps
