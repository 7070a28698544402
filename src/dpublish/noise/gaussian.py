"""Exact discrete Gaussian noise: P(X = x) proportional to exp(-x^2 / (2 variance)) for any positive
rational variance.

Rejection from discrete Laplace proposals (Canonne, Kamath and Steinke 2020). A double decides most
proposals; when a word is too close to the acceptance level, more bits of it are drawn and compared
with a ball around the true level. Values are saturated at plus and minus 2^62: what is returned has
the law of X clamped to that range, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import isqrt

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpublish.compiled import njit
from dpublish.errors import InputError
from dpublish.noise.alias import AliasTable
from dpublish.noise.balls import fraction_ball, uniform_is_below
from dpublish.noise.geometric import geometric_sampler
from dpublish.noise.words import WordStream

# Exact discrete Laplace noise: P(X = x) proportional to exp(-|x| / scale) for integer x and any
# positive rational scale.
#
# Small scales use one table of all likely values, large scales a geometric magnitude and a sign.
# Values are saturated at plus and minus 2^62: what is returned has the law of X clamped to that
# range, exactly. A caller that adds private values must clamp the sum as well (see
# `source.add_clamped`), since clamping the noise alone is not a function of the noisy answer.

SATURATED = 1 << 62

# A direct table is faster while it fits the nearest cache with the law's first nine scales on each
# side.
MAX_DIRECT_SCALE = 100
_SCALES_COVERED = 9


class DirectLaplace:
    """One table look-up a draw: symbols are -reach..reach and, last, "beyond".

    Beyond the table the law is memoryless: |X| - reach given |X| > reach has the law of |Y| given Y
    != 0.
    """

    def __init__(self, scale: Fraction, *, reach: int | None = None, table_bits: int = 64) -> None:
        self.scale = scale
        wanted = _SCALES_COVERED * max(1, -(-scale.numerator // scale.denominator))
        # Fill the power of two that the table needs anyway.
        self.reach = reach or (1 << ((2 * wanted + 2).bit_length() - 1)) - 2
        self.table = AliasTable(self._law, bits=table_bits)

    def _law(self) -> Sequence[arb]:
        inverse = fraction_ball(1 / self.scale)
        ratio = (-inverse).exp()
        power = -(-inverse).expm1() / (1 + ratio)
        side = [power]
        for _ in range(self.reach):
            power *= ratio
            side.append(power)
        beyond = 2 * (-inverse * arb(self.reach + 1)).exp() / (1 + ratio)
        return [*reversed(side[1:]), *side, beyond]

    def draw(self, stream: WordStream, size: int) -> NDArray[np.int64]:
        out = self.table.symbols(stream, size)
        out -= self.reach
        places = np.flatnonzero(out > self.reach)
        # An offset grows by `reach` a round: it cannot pass 2^62 before 2^50 rounds, each of
        # probability below exp(-8).
        offset = np.full(places.size, self.reach, dtype=np.int64)
        while places.size:
            again = self.table.symbols(stream, places.size) - self.reach
            beyond = again > self.reach
            done = (again != 0) & ~beyond
            out[places[done]] = again[done] + np.sign(again[done]) * offset[done]
            offset[beyond] += self.reach
            places, offset = places[~done], offset[~done]
        return out


class SplitLaplace:
    """A geometric magnitude and a fair sign, drawn again when they say "minus zero"."""

    def __init__(self, scale: Fraction) -> None:
        self.magnitude = geometric_sampler(1 / scale)

    def draw(self, stream: WordStream, size: int) -> NDArray[np.int64]:
        out, places = self._attempt(stream, size)
        while places.size:
            values, again = self._attempt(stream, places.size)
            out[places] = values
            places = places[again]
        return out

    def _attempt(
        self, stream: WordStream, size: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        magnitudes = self.magnitude.draw(stream, size)
        signs = stream.words((size + 63) // 64)
        out = magnitudes.view(np.int64)
        rejected = np.empty(size, dtype=np.int64)
        found = apply_signs(magnitudes, signs, np.uint64(SATURATED), out, rejected)
        return out, rejected[:found]


@lru_cache(maxsize=64)
def laplace_sampler(scale: Fraction) -> DirectLaplace | SplitLaplace:
    """The sampler for a scale, kept because tables cost more than draws."""
    if scale <= 0:
        raise InputError("The scale must be above 0.")
    return DirectLaplace(scale) if scale <= MAX_DIRECT_SCALE else SplitLaplace(scale)


def discrete_laplace(stream: WordStream, scale: Fraction, size: int) -> NDArray[np.int64]:
    """Independent discrete Laplace draws, saturated at +-2^62."""
    return laplace_sampler(scale).draw(stream, size)


# Signs for magnitudes.


@njit(cache=True, nogil=True)
def apply_signs(
    magnitudes: NDArray[np.uint64],
    signs: NDArray[np.uint64],
    limit: np.uint64,
    out: NDArray[np.int64],
    rejected: NDArray[np.int64],
) -> int:
    """out = magnitude, at most `limit`, with the sign of a fresh bit. "Minus zero" is listed for
    another draw.

    `out` may be a view of `magnitudes`.
    """
    found = 0
    for i in range(magnitudes.size):
        magnitude = np.int64(min(magnitudes[i], limit))
        negative = np.int64((signs[i >> 6] >> np.uint64(i & 63)) & np.uint64(1))
        out[i] = magnitude * (1 - 2 * negative)
        rejected[found] = i
        found += int((magnitude == 0) & (negative == 1))
    return found


# Beyond these the Laplace proposals would meet their saturation often, or doubles their range: one
# exact draw at a time.
MIN_FAST_VARIANCE = Fraction(1, 1 << 112)
MAX_FAST_VARIANCE = Fraction(1 << 112)
_CHUNK = 1 << 14


class GaussianSampler:
    """Draws for one variance between 2^-112 and 2^112."""

    def __init__(self, variance: Fraction) -> None:
        self.variance = variance
        self.scale = gaussian_proposal_scale(variance)
        # Python divides integers with correct rounding, so each double is within 2^-53 of its
        # value.
        self.peak = float(variance / self.scale)
        self.half_precision = float(1 / (2 * variance))

    def draw(self, stream: WordStream, size: int) -> NDArray[np.int64]:
        out, places = self._attempt(stream, size)
        while places.size:
            values, again = self._attempt(stream, places.size)
            out[places] = values
            places = places[again]
        return out

    def _attempt(
        self, stream: WordStream, size: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """One proposal each, and the places of the rejected ones."""
        out = discrete_laplace(stream, Fraction(self.scale), size)
        width = min(size, _CHUNK)
        words = np.empty(width, dtype=np.uint64)
        places, outcomes = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.uint8)
        rejected: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
        for start in range(0, size, max(width, 1)):
            part = out[start : start + width]
            used = words[: part.size]
            stream.fill(used)
            found = accept_proposals(
                part, used, self.peak, self.half_precision, SATURATED, places, outcomes
            )
            open_ = np.ones(found, dtype=np.bool_)
            for k in np.flatnonzero(outcomes[:found] == UNDECIDED):
                place = int(places[k])
                open_[k] = not self._accepts(stream, int(part[place]), int(used[place]))
            rejected.append(places[:found][open_] + start)
        return out, np.concatenate(rejected)

    def _accepts(self, stream: WordStream, proposal: int, word: int) -> bool:
        """Whether the uniform real that starts with this word accepts the proposal, decided
        exactly."""
        magnitude = abs(proposal)
        if magnitude == SATURATED:
            # "That or more": by memorylessness the excess is a fresh geometric draw, in integers of
            # any size.
            magnitude += slow_geometric(stream, Fraction(1, self.scale))
        exponent = rejection_exponent(magnitude, self.variance, self.scale)
        return uniform_is_below(
            stream, word >> (64 - ACCEPT_BITS), ACCEPT_BITS, lambda: _exp_of_minus(exponent)
        )


def _exp_of_minus(exponent: Fraction) -> arb:
    return (-fraction_ball(exponent)).exp()


@lru_cache(maxsize=64)
def _sampler(variance: Fraction) -> GaussianSampler:
    return GaussianSampler(variance)


def discrete_gaussian(stream: WordStream, variance: Fraction, size: int) -> NDArray[np.int64]:
    """Independent discrete Gaussian draws, saturated at +-2^62."""
    if variance <= 0:
        raise InputError("The variance must be above 0.")
    if MIN_FAST_VARIANCE <= variance <= MAX_FAST_VARIANCE:
        return _sampler(variance).draw(stream, size)
    draws = (slow_gaussian(stream, variance) for _ in range(size))
    return np.array([max(-SATURATED, min(x, SATURATED)) for x in draws], dtype=np.int64)


# Acceptance of Laplace proposals as Gaussian draws.

# Leading bits of a word that are compared; they convert to a double without rounding.
ACCEPT_BITS = 53
# Bound on the error of the level that a word is compared with; see gaussian.proof.md.
GUARD = 2.0**-38

REJECTED = 1
UNDECIDED = 2

_UNIT = 2.0**-ACCEPT_BITS
_LOG2_E = 1.4426950408889634
_LN_2 = 0.6931471805599453
_COEFFICIENTS = np.array(
    [
        1.0,
        1 / 2,
        1 / 6,
        1 / 24,
        1 / 120,
        1 / 720,
        1 / 5040,
        1 / 40320,
        1 / 362880,
        1 / 3628800,
        1 / 39916800,
        1 / 479001600,
    ]
)
_HALVES = 0.5 ** np.arange(64)


@njit(cache=True, nogil=True)
def exp_below(x: float) -> float:
    """exp(-x) for x >= 0 to within 2^-40, from additions, multiplications and exact powers of two
    only."""
    if x > 40.0:
        return 0.0
    whole = np.int64(x * _LOG2_E)
    rest = x - np.float64(whole) * _LN_2
    total = 1.0 / 6227020800
    for k in range(_COEFFICIENTS.size - 1, -1, -1):
        total = _COEFFICIENTS[k] - rest * total
    return float((1.0 - rest * total) * _HALVES[whole])


@njit(cache=True, nogil=True)
def accept_proposals(
    proposals: NDArray[np.int64],
    words: NDArray[np.uint64],
    peak: float,
    half_precision: float,
    limit: int,
    places: NDArray[np.int64],
    outcomes: NDArray[np.uint8],
) -> int:
    """Test each proposal with probability exp(-(|y| - peak)^2 half_precision); list those not
    surely accepted.

    A magnitude of `limit` stands for "that or more", so its level is not known here.
    """
    found = 0
    for i in range(proposals.size):
        magnitude = abs(proposals[i])
        distance = np.float64(magnitude) - peak
        level = exp_below(distance * distance * half_precision)
        drawn = np.float64(np.int64(words[i] >> np.uint64(64 - ACCEPT_BITS))) * _UNIT
        places[found] = i
        outcomes[found] = REJECTED if (drawn >= level + GUARD) & (magnitude < limit) else UNDECIDED
        found += int((drawn + _UNIT > level - GUARD) | (magnitude >= limit))
    return found


# The samplers of Canonne, Kamath and Steinke (2020), one draw at a time in integers of any size.
#
# Slow, short and independent of every table and kernel: tests hold the fast samplers to them, and
# the fast samplers turn to them where 64-bit integers end.

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
