"""Exact discrete Gaussian noise: P(X = x) proportional to exp(-x^2 / (2 variance)) for any positive
rational variance.

Rejection from discrete Laplace proposals (Canonne, Kamath and Steinke 2020). A double decides most
proposals; when a word is too close to the acceptance level, more bits of it are drawn and compared
with a ball around the true level. Values are saturated at plus and minus 2^62: what is returned has
the law of X clamped to that range, exactly.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpublish.errors import InputError
from dpublish.noise.balls import fraction_ball, uniform_is_below
from dpublish.noise.kernels.gaussian import ACCEPT_BITS, UNDECIDED, accept_proposals
from dpublish.noise.laplace import SATURATED, discrete_laplace
from dpublish.noise.reference import (
    gaussian_proposal_scale,
    rejection_exponent,
    slow_gaussian,
    slow_geometric,
)
from dpublish.noise.words import WordStream

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
