"""Continuous noise on a vector, rounded exactly to the multiples of a public grid.

In: exact values (Fractions), an exact grid step and an exact noise scale. Out: the integers
round((value + noise) / grid).

The noise is a continuous function of independent uniforms (no rejection step), so the answer is the
rounding of one real number per coordinate. Those numbers are bounded in float64 for the whole
vector; a coordinate whose bounds straddle a rounding boundary is evaluated in ball arithmetic, with
more bits of the same uniforms if need be. What comes out is an exact sample of the rounded ideal
mechanism, so its privacy is that of the ideal mechanism (proof: lattice.proof.md).

A grid much finer than the noise is exact too, but slow: below about 2^-40 of the noise scale
float64 settles nothing. Gamma-norm answers have any size, since mechanisms compute with them;
Gaussian ones outside the int64 range are moved to its nearest end, which is post-processing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, ctx

from dpublish.arrays import Floats, Ints, Words
from dpublish.errors import InputError
from dpublish.noise.balls import fraction_ball
from dpublish.noise.base import saturated
from dpublish.noise.words import WordStream

# Uniform reals known by their first bits, and certified bounds on what is computed from them.
#
# A sampler here is a fixed function of uniform reals U_1, U_2, ... Only a prefix of each is
# drawn. The function is first bounded in float64, whole arrays at a time; where the bounds do not
# settle the answer it is evaluated in ball arithmetic (`flint.arb`), and where even that does not
# settle it, more bits *of the same* uniforms are drawn. The answer is then the function of the
# real numbers themselves, whatever route led to it.
#
# The float64 bounds rest on IEEE addition, subtraction, multiplication, division and square root
# only. The platform's `log`, `sin` and `cos` are not used, because nothing guarantees how
# accurate they are (proof: lazy.proof.md).


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
        self.words: Words = stream.words(count)
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


def log_bounds(x: Floats) -> tuple[Floats, Floats]:
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


def exponential_bounds(words: Words) -> tuple[Floats, Floats]:
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


def turn_bounds(words: Words) -> tuple[Floats, Floats, Floats, Floats]:
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


def _log(x: Floats) -> Floats:
    """log x for normal floats, within 2^-50 (1 + |log x|): a table at 1/256 steps and six terms of
    the series."""
    part, power = np.frexp(x)
    step = np.rint(part * 256.0)
    centre = step * (1.0 / 256.0)
    r = (part - centre) / centre
    tail = (
        r * r * (1.0 / 2.0 - r * (1.0 / 3.0 - r * (1.0 / 4.0 - r * (1.0 / 5.0 - r * (1.0 / 6.0)))))
    )
    logs: Floats = power.astype(np.float64) * _LN2 + (
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


def gamma_norm_multiples(
    stream: WordStream, values: Sequence[Fraction], *, grid: Fraction, scale: Fraction
) -> list[int]:
    """round((values + Z) / grid) for Z of density proportional to exp(-|z|_2 / scale) on R^d, d =
    len(values).

    The direction is that of d normals, the radius `scale` times a sum of d exponentials.
    """
    if grid <= 0 or scale <= 0:
        raise InputError("Gamma-norm noise needs grid > 0 and scale > 0.")
    return _round(values, grid, _GammaNorm(stream, len(values), Fraction(scale) / grid))


def gaussian_multiples(
    stream: WordStream, values: Sequence[Fraction], *, grid: Fraction, variance: Fraction
) -> Ints:
    """round((values + Z) / grid) for Z of independent normals with mean 0 and the given
    variance."""
    if grid <= 0 or variance <= 0:
        raise InputError("Gaussian noise needs grid > 0 and variance > 0.")
    return saturated(
        _round(values, grid, _Gaussian(stream, len(values), Fraction(variance) / (grid * grid)))
    )


class _Normals:
    """Independent standard normals by Box and Muller: coordinates 2j and 2j+1 are sqrt(2 E_j) times
    cos, sin of 2 pi V_j.

    An odd number of coordinates leaves the last sine unused.
    """

    def __init__(self, stream: WordStream, count: int) -> None:
        self.count = count
        self._lengths = LazyUniforms(stream, (count + 1) // 2)  # E_j = -log of these
        self._turns = LazyUniforms(stream, (count + 1) // 2)  # V_j

    @cached_property
    def _waits(self) -> tuple[Floats, Floats]:
        return exponential_bounds(self._lengths.words)

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper bounds on all coordinates, from the first 64 bits of each uniform."""
        wait_low, wait_high = self._waits
        low = np.nextafter(np.sqrt(2.0 * wait_low), 0.0)
        high = np.nextafter(np.sqrt(2.0 * wait_high), np.inf)
        cos_low, cos_high, sin_low, sin_high = turn_bounds(self._turns.words)
        cosines = _product(low, high, cos_low, cos_high)
        sines = _product(low, high, sin_low, sin_high)
        return _interleave(cosines[0], sines[0])[: self.count], _interleave(cosines[1], sines[1])[
            : self.count
        ]

    def square_norm_bounds(self) -> tuple[float, float]:
        """Bounds on the sum of squares. A pair adds 2 E_j, whatever its angle; only an odd last
        coordinate needs its own."""
        pairs = self.count // 2
        wait_low, wait_high = self._waits
        low, high = _sum_bounds(2.0 * wait_low[:pairs], 2.0 * wait_high[:pairs])
        if self.count % 2:
            last_low, last_high = (float(bound[-1]) for bound in self.bounds)
            if not (math.isfinite(last_low) and math.isfinite(last_high)):
                return low, math.inf
            nearest = 0.0 if last_low <= 0.0 <= last_high else min(abs(last_low), abs(last_high))
            farthest = max(abs(last_low), abs(last_high))
            low = _down(low + _down(nearest * nearest))
            high = _up(high + _up(farthest * farthest))
        return low, high

    def ball(self, index: int) -> arb:
        half_turns = 2 * self._turns.ball(index // 2)
        turn = half_turns.sin_pi() if index % 2 else half_turns.cos_pi()
        return (-2 * self._lengths.ball(index // 2).log()).sqrt() * turn

    def square_norm_ball(self) -> arb:
        pairs = -2 * _log_product(self._lengths, self.count // 2)
        return pairs + self.ball(self.count - 1) ** 2 if self.count % 2 else pairs

    def refine(self, indices: Iterable[int]) -> None:
        for pair in {index // 2 for index in indices}:
            self._lengths.refine(pair)
            self._turns.refine(pair)


class _Draw(ABC):
    """One vector of noise in units of the grid: a positive factor common to all coordinates, times
    normals."""

    def __init__(self, stream: WordStream, count: int) -> None:
        self.normals = _Normals(stream, count)

    @abstractmethod
    def factor_bounds(self) -> tuple[float, float]: ...

    @abstractmethod
    def factor_ball(self) -> arb: ...

    @abstractmethod
    def refine(self, doubtful: list[int]) -> None:
        """Draw more bits of the uniforms on which the doubtful coordinates depend."""


class _Gaussian(_Draw):
    def __init__(self, stream: WordStream, count: int, variance: Fraction) -> None:
        super().__init__(stream, count)
        self._variance = variance

    def factor_bounds(self) -> tuple[float, float]:
        low, high = fraction_bounds(self._variance)
        return _down(math.sqrt(low)), _up(math.sqrt(high))

    def factor_ball(self) -> arb:
        return fraction_ball(self._variance).sqrt()

    def refine(self, doubtful: list[int]) -> None:
        self.normals.refine(doubtful)


class _GammaNorm(_Draw):
    def __init__(self, stream: WordStream, count: int, scale: Fraction) -> None:
        super().__init__(stream, count)
        self._scale = scale
        self._waits = LazyUniforms(stream, count)  # the radius is the sum of -log of these

    def factor_bounds(self) -> tuple[float, float]:
        low, high = fraction_bounds(self._scale)
        wait_low, wait_high = _sum_bounds(*exponential_bounds(self._waits.words))
        norm_low, norm_high = self.normals.square_norm_bounds()
        if norm_low <= 0.0:
            return 0.0, math.inf
        return (
            _down(_down(low * wait_low) / _up(math.sqrt(norm_high))),
            _up(_up(high * wait_high) / _down(math.sqrt(norm_low))),
        )

    def factor_ball(self) -> arb:
        radius = -_log_product(self._waits, self.normals.count)
        return fraction_ball(self._scale) * radius / self.normals.square_norm_ball().sqrt()

    def refine(self, doubtful: list[int]) -> None:
        # Radius and norm are shared by all coordinates, so one doubtful coordinate needs every
        # uniform sharper.
        self.normals.refine(range(self.normals.count))
        for index in range(self.normals.count):
            self._waits.refine(index)


def _round(values: Sequence[Fraction], grid: Fraction, draw: _Draw) -> list[int]:
    """floor(value / grid + noise + 1/2) for every coordinate; the noise is the real vector that
    `draw` stands for."""
    wholes, rests = _split(values, grid)
    return [whole + step for whole, step in zip(wholes, _floors(rests, draw), strict=True)]


def _split(values: Sequence[Fraction], grid: Fraction) -> tuple[list[int], list[Fraction]]:
    """value / grid as an integer plus a rest in [0, 1), so that large values cost the float bounds
    no accuracy."""
    wholes, rests = [], []
    for value in values:
        if not isinstance(value, int | Fraction):
            raise InputError("Values on a lattice must be Fractions or integers.")
        top, bottom = value.numerator * grid.denominator, value.denominator * grid.numerator
        whole, rest = divmod(top, bottom)
        wholes.append(whole)
        rests.append(Fraction(rest, bottom))
    return wholes, rests


def _floors(rests: list[Fraction], draw: _Draw) -> list[int]:
    floors, doubtful = _float_floors(rests, draw)
    precision = 2 * FIRST_BITS
    while doubtful:
        with ctx.workprec(precision):
            factor = draw.factor_ball()
            left = []
            for index in doubtful:
                real = fraction_ball(rests[index]) + factor * draw.normals.ball(index) + arb(0.5)
                # None when the ball meets two unit cells, or is not finite because a uniform may
                # still be 0 or 1.
                floor = real.floor().unique_fmpz()
                if floor is None:
                    left.append(index)
                else:
                    floors[index] = int(floor)
        if left:
            draw.refine(left)
            precision *= 2
        doubtful = left
    return floors


def _float_floors(rests: list[Fraction], draw: _Draw) -> tuple[list[int], list[int]]:
    """The floors as far as float64 bounds settle them, and the indices where they do not."""
    # Python rounds a quotient of integers correctly; one step either way then encloses it.
    rest = np.array([q.numerator / q.denominator for q in rests], dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        noise_low, noise_high = _product(*draw.factor_bounds(), *draw.normals.bounds)
        low = np.nextafter(np.nextafter(rest, -np.inf) + noise_low, -np.inf)
        high = np.nextafter(np.nextafter(rest, np.inf) + noise_high, np.inf)
        low = np.floor(np.nextafter(low + 0.5, -np.inf))
        high = np.floor(np.nextafter(high + 0.5, np.inf))
        settled = (low == high) & (np.abs(low) < 2.0**52)  # false for NaN and infinity
    floors: list[int] = np.where(settled, low, 0.0).astype(np.int64).tolist()
    return floors, [int(index) for index in np.flatnonzero(~settled)]


def _product(
    factor_low: Floats | float,
    factor_high: Floats | float,
    low: Floats,
    high: Floats,
) -> tuple[Floats, Floats]:
    """Bounds on factor * x for factor >= 0 and x of either sign; NaN (0 times infinity) settles
    nothing and is let through."""
    with np.errstate(invalid="ignore", over="ignore"):
        least = np.where(low >= 0.0, factor_low, factor_high) * low
        most = np.where(high >= 0.0, factor_high, factor_low) * high
        return np.nextafter(least, -np.inf), np.nextafter(most, np.inf)


def _sum_bounds(low: Floats, high: Floats) -> tuple[float, float]:
    """Bounds on a sum of non-negative terms; `fsum` rounds the exact sum once."""
    return _down(math.fsum(low.tolist())), _up(math.fsum(high.tolist()))


def _log_product(uniforms: LazyUniforms, count: int) -> arb:
    """The sum of logarithms of the first `count` uniforms, with one logarithm instead of many."""
    product = arb(1)
    for index in range(count):
        product *= uniforms.ball(index)
    return product.log()


def _interleave(even: Floats, odd: Floats) -> Floats:
    return np.stack([even, odd], axis=1).ravel()


def _down(x: float) -> float:
    return max(0.0, math.nextafter(x, -math.inf))


def _up(x: float) -> float:
    return math.nextafter(x, math.inf)
