"""Uniform reals known by their first bits, and certified bounds on what is computed from them.

A sampler here is a fixed function of uniform reals U_1, U_2, ... Only a prefix of each is drawn.
The function is first bounded in float64, whole arrays at a time; where the bounds do not settle the
answer it is evaluated in ball arithmetic (`flint.arb`), and where even that does not settle it,
more bits *of the same* uniforms are drawn. The answer is then the function of the real numbers
themselves, whatever route led to it.

The float64 bounds rest on IEEE addition, subtraction, multiplication, division and square root
only. The platform's `log`, `sin` and `cos` are not used, because nothing guarantees how accurate
they are (proof: lazy.proof.md).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from dpublish.noise.balls import fraction_ball
from dpublish.noise.words import WordStream

FloatArray = NDArray[np.float64]
WordArray = NDArray[np.uint64]

FIRST_BITS = 64
SMALLEST = 2.0**-1000  # below this a relative bound on a float is not to be trusted
LARGEST = 2.0**1000
_SLACK = 2.0**-50  # eight roundings of relative size 2^-53; two are used up here
_LOG_SLACK = 2.0**-48  # four times the proved error of `_log`
_TURN_SLACK = 2.0**-50  # twice the proved error of `turn_bounds`


class LazyUniforms:
    """Independent uniforms on [0, 1): the first 64 bits of each are in `words`, later bits are
    drawn when asked for."""

    def __init__(self, stream: WordStream, count: int) -> None:
        self.words: WordArray = stream.words(count)
        self._stream = stream
        self._longer: dict[
            int, tuple[int, int]
        ] = {}  # index -> (leading bits as an integer, how many)

    def known(self, index: int) -> tuple[int, int]:
        """The leading bits of one uniform as (integer, number of bits)."""
        return self._longer.get(index) or (int(self.words[index]), FIRST_BITS)

    def refine(self, index: int) -> None:
        """Double the number of known bits of one uniform; the bits already known stay."""
        lead, bits = self.known(index)
        self._longer[index] = (lead << bits | self._stream.bits(bits), 2 * bits)

    def ball(self, index: int) -> arb:
        """A ball that contains the uniform: all reals with its known leading bits."""
        lead, bits = self.known(index)
        return arb((2 * lead + 1, -bits - 1), (1, -bits - 1))


def fraction_bounds(q: Fraction) -> tuple[float, float]:
    """Floats low <= q <= high around a rational q >= 0, with room for four more roundings of
    relative size 2^-53."""
    if q == 0:
        return 0.0, 0.0
    try:
        near = q.numerator / q.denominator  # Python rounds the quotient of two integers correctly
    except OverflowError:
        return LARGEST, float("inf")
    if near > LARGEST:
        return LARGEST, float("inf")
    if near < SMALLEST:
        return 0.0, SMALLEST
    return near * (1 - _SLACK), near * (1 + _SLACK)


def log_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds on the natural logarithm of each x in [0, inf], with room for a few more roundings of
    relative size 2^-53."""
    inside = (x > SMALLEST) & (x < LARGEST)
    everywhere = bool(inside.all())
    y = _log(x if everywhere else np.where(inside, x, 1.0))
    slack = _LOG_SLACK * (1.0 + np.abs(y))
    low, high = y - slack, y + slack
    if not everywhere:
        # Outside the proved range the bounds are those of the range's end: still true, just not
        # sharp.
        low[x <= SMALLEST] = -np.inf
        high[x <= SMALLEST] = -690.0
        low[x >= LARGEST] = 690.0
        high[x >= LARGEST] = np.inf
    return low, high


def exponential_bounds(words: WordArray) -> tuple[FloatArray, FloatArray]:
    """Bounds on E = -log U, where each word is the first 64 bits of U."""
    # 53 bits convert to float64 without rounding; U lies in [lead, lead + 1] / 2^53.
    lead = (words >> np.uint64(11)).astype(np.float64)
    zero = lead == 0.0
    lead[zero] = 1.0
    log_low, log_high = log_bounds(lead * 2.0**-53)
    # log(lead + 1) - log(lead) <= 1 / lead; twice that leaves room for rounding.
    low = np.maximum(0.0, -log_high - 2.0 / lead)
    high = -log_low
    high[zero] = np.inf
    return low, high


def turn_bounds(words: WordArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Bounds on cos(2 pi V) and sin(2 pi V), where each word is the first 64 bits of V: cos low,
    high, sin low, high."""
    sector = (words >> np.uint64(56)).astype(np.int64)
    # 48 bits within the sector, measured from its middle: an integer below 2^47, exact in float64.
    within = (words >> np.uint64(8)).astype(np.int64) & 0xFFFFFFFFFFFF
    t = (within - (1 << 47)).astype(np.float64) * (_TWO_PI * 2.0**-56)
    s = t * t
    cos_t = 1.0 - s * (0.5 - s * (1.0 / 24.0 - s * (1.0 / 720.0)))
    sin_t = t * (1.0 - s * (1.0 / 6.0 - s * (1.0 / 120.0 - s * (1.0 / 5040.0))))
    cos_mid, sin_mid = _SECTOR_COS[sector], _SECTOR_SIN[sector]
    cos = cos_mid * cos_t - sin_mid * sin_t
    sin = sin_mid * cos_t + cos_mid * sin_t
    return cos - _TURN_SLACK, cos + _TURN_SLACK, sin - _TURN_SLACK, sin + _TURN_SLACK


def _log(x: FloatArray) -> FloatArray:
    """log x for normal floats, within 2^-50 (1 + |log x|): a table at 1/256 steps and six terms of
    the series."""
    part, power = np.frexp(x)
    step = np.rint(part * 256.0)
    centre = step * (1.0 / 256.0)
    r = (part - centre) / centre
    tail = (
        r * r * (1.0 / 2.0 - r * (1.0 / 3.0 - r * (1.0 / 4.0 - r * (1.0 / 5.0 - r * (1.0 / 6.0)))))
    )
    logs: FloatArray = power.astype(np.float64) * _LN2 + (
        _STEP_LOG[step.astype(np.int64) - 128] + (r - tail)
    )
    return logs


def _nearest(function: Callable[[arb], arb], argument: Fraction) -> float:
    """The float64 nearest to function(argument), or its neighbour."""
    while True:
        # Another thread may lower flint's shared precision in between; then the ball is wide, and
        # is computed again.
        with ctx.workprec(128):
            ball = function(fraction_ball(argument))
        if ball.rad() < 2.0**-80:
            return float(ball)


_LN2 = _nearest(arb.log, Fraction(2))
_TWO_PI = _nearest(lambda two: two * arb.pi(), Fraction(2))
_STEP_LOG = np.array([_nearest(arb.log, Fraction(k, 256)) for k in range(128, 257)])
# The middle of sector j is (2 j + 1) / 512 of a turn, which is (2 j + 1) / 256 half turns.
_SECTOR_COS = np.array([_nearest(arb.cos_pi, Fraction(2 * j + 1, 256)) for j in range(256)])
_SECTOR_SIN = np.array([_nearest(arb.sin_pi, Fraction(2 * j + 1, 256)) for j in range(256)])
