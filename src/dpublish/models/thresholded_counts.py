"""The law of a thresholded count: discrete Laplace noise of scale b on every cell, cells above the
threshold tau released.

A cell with true count c has X = c + noise. It is released when X > tau. Its *score* is Z = X when
released and -a when suppressed, where -a = E[noise | noise <= tau]. Then E[Z] <= c for every c >=
0, with equality at c = 0 (docs/estimates.md). This module holds a, and for a released count x the
estimates k2(x), k3(x), k4(x) of the cumulants of Z. Their means are at least the true cumulants for
every c, so that sums of them never understate the spread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GRID = 3000
_EXACT_TERMS = 32
_FINE_SCALE = 128.0
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Suppression:
    """`threshold` is tau (a whole number of at least 0), `scale` is b."""

    threshold: int
    scale: Fraction

    @cached_property
    def ratio(self) -> float:
        """r: each step away from zero is this much less likely."""
        return math.exp(-1.0 / float(self.scale))

    @cached_property
    def pass_rate(self) -> float:
        """P(noise > tau): how often an empty cell is released."""
        return float(self.ratio ** (self.threshold + 1) / (1.0 + self.ratio))

    @cached_property
    def shortfall(self) -> float:
        """a: minus the mean noise of an empty cell that was suppressed."""
        r = self.ratio
        mean_above = self.pass_rate * (self.threshold + 1 + r * self._gap)
        return mean_above / (1.0 - self.pass_rate)

    @cached_property
    def noise_cumulants(self) -> tuple[float, float]:
        """Second and fourth cumulant of the noise."""
        return laplace_cumulants(self.scale)

    def cell_cumulants(self, counts: Ints) -> tuple[Floats, Floats, Floats]:
        """k2, k3, k4 for released counts: those of the noise alone far above tau, larger close to
        it."""
        steps = np.asarray(counts - self.threshold - 1, dtype=np.float64)
        fade = np.exp(-np.minimum(steps / float(self.scale), 700.0))
        second, fourth = self.noise_cumulants
        e2, e3, e4 = self._extras
        return second + e2 * fade, e3 * fade, fourth + e4 * fade

    @cached_property
    def _gap(self) -> float:
        return 1.0 / -math.expm1(-1.0 / float(self.scale))

    @cached_property
    def _extras(self) -> tuple[float, float, float]:
        """The least E_k such that base_k + E_k r^(x - tau - 1), on released cells, has mean at
        least kappa_k for every c."""
        counts = self._grid()
        cumulants, released, fade = _score_cumulants(self, counts)
        second, fourth = self.noise_cumulants
        extras = []
        for kappa, base in zip(cumulants, (second, 0.0, fourth), strict=True):
            # dividing by the fade at each c keeps the ratio stable where both are tiny; the 0.1%
            # covers gaps of the grid
            need = (kappa - base * released)[fade > 0] / fade[fade > 0]
            extras.append(max(0.0, float(need.max(initial=0.0))) * 1.001)
        return extras[0], extras[1], extras[2]

    def _grid(self) -> Ints:
        """True counts from 0 to where suppression is out of sight: all of them, or evenly spread
        ones when there are many."""
        last = self.threshold + max(8, math.ceil(30 * float(self.scale)))
        if last <= _GRID:
            return np.arange(last + 1, dtype=np.int64)
        near = np.array(
            [0, 1, self.threshold - 1, self.threshold, self.threshold + 1, self.threshold + 2],
            dtype=np.int64,
        )
        return np.unique(
            np.concatenate([np.linspace(0, last, _GRID).astype(np.int64), near[near >= 0]])
        )


def _score_cumulants(
    law: Suppression, counts: Ints
) -> tuple[tuple[Floats, Floats, Floats], Floats, Floats]:
    """Cumulants 2-4 of Z, P(released) and E[r^(X - tau - 1); released], for each true count."""
    r, tau, a = law.ratio, law.threshold, law.shortfall
    c = counts.astype(np.float64)
    below = c <= tau
    # moments of Z about -a (for c <= tau) or about c (for c > tau): the point where Z mostly sits
    moments = [np.zeros_like(c) for _ in range(4)]
    first = [_geometric_moment(law, k, tau + 1 + a) for k in range(1, 5)]
    reach = np.exp(-(tau - c[below]) / float(law.scale)) * r / (1.0 + r)  # P(X > tau)
    for k in range(4):
        moments[k][below] = reach * first[k]
    far = c[~below]
    depth = far - tau
    miss = np.exp(-depth / float(law.scale)) / (1.0 + r)  # P(X <= tau)
    second, fourth = law.noise_cumulants
    plain = (0.0, second, 0.0, fourth + 3.0 * second * second)
    for k in range(1, 5):
        lost = _geometric_moment(law, k, depth) * (-1.0) ** k
        moments[k - 1][~below] = plain[k - 1] + miss * ((-a - far) ** k - lost)
    m1, m2, m3, m4 = moments
    k2 = m2 - m1**2
    k3 = m3 - 3 * m1 * m2 + 2 * m1**3
    k4 = m4 - 4 * m1 * m3 - 3 * m2**2 + 12 * m1**2 * m2 - 6 * m1**4
    released = np.empty_like(c)
    released[below] = reach
    released[~below] = 1.0 - miss
    fade = np.empty_like(c)
    centre = (1.0 - r) / (1.0 + r)
    fade[below] = reach * (1.0 + r) * centre / (1.0 - r * r)
    decay = np.exp(-(depth - 1.0) / float(law.scale))
    fade[~below] = centre * decay * (depth + r * r / (1.0 - r * r))
    return (k2, k3, k4), released, fade


def _geometric_moment(law: Suppression, power: int, start: float | Floats) -> float | Floats:
    """E[(start + G)^power] for G = 0, 1, 2, ... with P(G = g) = (1 - r) r^g."""
    r, gap = law.ratio, law._gap
    g1 = r * gap
    g2 = g1 * (1 + r) * gap
    g3 = g1 * (1 + 4 * r + r * r) * gap * gap
    g4 = g1 * (1 + 11 * r + 11 * r * r + r**3) * gap**3
    raw = (1.0, g1, g2, g3, g4)
    return sum(math.comb(power, j) * start ** (power - j) * raw[j] for j in range(power + 1))


def laplace_cumulants(scale: Fraction) -> tuple[float, float]:
    """Second and fourth cumulant of discrete Laplace noise of this scale."""
    r = math.exp(-1.0 / float(scale))
    gap = 1.0 / -math.expm1(-1.0 / float(scale))
    # the noise is the difference of two geometric variables, whose cumulants of even order add up
    second = 2.0 * r * gap * gap
    fourth = 2.0 * r * (1.0 + 4.0 * r + r * r) * gap**4
    return second, fourth


@lru_cache(maxsize=256)
def normal_quantile(alpha: float) -> float:
    """How many standard deviations a normal variable exceeds with probability alpha."""
    return -_NORMAL.inv_cdf(alpha)


def spread_quantile(alpha: float, k2: Floats, k3: Floats, k4: Floats) -> Floats:
    """How far above its mean a sum with these cumulants gets with probability alpha
    (Cornish-Fisher, never below normal)."""
    z = normal_quantile(alpha)
    variance = np.maximum(k2, 0.0)
    deviation = np.sqrt(variance)
    safe = np.where(variance > 0, variance, 1.0)
    # the expansion loses its meaning for extreme shapes, hence the caps
    shape = _cornish_fisher(z, np.clip(k3 / safe**1.5, 0.0, 2.0), np.clip(k4 / safe**2, 0.0, 30.0))
    return np.where(variance > 0, deviation * np.maximum(shape, z), 0.0)


def one_spread_quantile(alpha: float, k2: float, k3: float, k4: float) -> float:
    """The same for one sum, thirty times as fast as an array of one."""
    if not k2 > 0:
        return 0.0
    z = normal_quantile(alpha)
    skew, excess = min(max(k3 / k2**1.5, 0.0), 2.0), min(max(k4 / k2**2, 0.0), 30.0)
    return math.sqrt(k2) * max(float(_cornish_fisher(z, skew, excess)), z)


def _cornish_fisher(z: float, skew: Any, excess: Any) -> Any:
    return (
        z
        + skew / 6 * (z * z - 1)
        + excess / 24 * (z**3 - 3 * z)
        - skew**2 / 36 * (2 * z**3 - 5 * z)
    )


def noise_sum_quantile(alpha: float, terms: Floats, scale: Fraction) -> Floats:
    """A number that the sum of `terms` independent noises exceeds with probability at most
    alpha."""
    second, fourth = laplace_cumulants(scale)
    out = np.ceil(spread_quantile(alpha, terms * second, np.zeros_like(terms), terms * fourth))
    for few in np.unique(terms[terms <= _EXACT_TERMS]):
        out[terms == few] = _exact_sum_quantile(alpha, int(few), scale)
    return out


@lru_cache(maxsize=4096)
def _exact_sum_quantile(alpha: float, terms: int, scale: Fraction) -> float:
    """Exact, by the transform of the law on a ring wide enough that wrapping around does not
    matter."""
    if terms <= 0:
        return 0.0
    unit = max(
        1.0, float(scale) / _FINE_SCALE
    )  # large scales are looked at in coarser steps; the shape is the same
    r = math.exp(-unit / float(scale))
    reach = (math.sqrt(terms) * 12 + 2 * math.log(1 / alpha) + 40) * min(
        float(scale), _FINE_SCALE
    ) + 64
    size = 1 << math.ceil(math.log2(2 * reach))
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    transform = ((1 - r) ** 2 / (1 - 2 * r * np.cos(angles) + r * r)) ** terms
    law = np.fft.irfft(transform, size)
    tail = np.cumsum(law[size // 2 - 1 :: -1])[::-1]  # tail[k] = P(sum >= k)
    enough = np.flatnonzero(tail[1:] <= alpha)  # P(sum > k) <= alpha
    return float(
        (int(enough[0]) if enough.size else size // 2) * unit + (unit if unit > 1 else 0.0)
    )
