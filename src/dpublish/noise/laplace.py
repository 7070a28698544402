"""Exact discrete Laplace noise: P(X = x) proportional to exp(-|x| / scale) for integer x and any
positive rational scale.

Small scales use one table of all likely values, large scales a geometric magnitude and a sign.
Values are saturated at plus and minus 2^62: what is returned has the law of X clamped to that
range, exactly. A caller that adds private values must clamp the sum as well (see
`source.add_clamped`), since clamping the noise alone is not a function of the noisy answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpublish.compiled import njit
from dpublish.errors import InputError
from dpublish.noise.alias import AliasTable
from dpublish.noise.balls import fraction_ball
from dpublish.noise.geometric import geometric_sampler
from dpublish.noise.words import WordStream

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
