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
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from dpublish.arrays import Floats, Ints

# Counts in which long transactions weigh less, and what is known about them afterwards.
#
# A transaction that touches q of the counted cells weighs min(1, C / q) in each of them (Laplace
# noise) or min(1, sqrt(C / q)) (Gaussian noise), so that it moves all of them together by at most
# C in L1, or by sqrt(C) in L2. Weights are whole multiples of 1 / grid, rounded down. The cap C
# is chosen by a noisy histogram of q, and the same histogram says how much was taken away: on
# average, and at most. Weights are exact; the rest is post-processing of noisy numbers, in
# floats.

NoiseLaw = Literal["laplace", "gaussian"]

GROWTH = 1.25
NOISE_FLOOR = 3.0
MAX_FACTOR = 1.5
FEW_CELLS, UNCUT_CELLS = 60, 4
"""Under Laplace noise: up to so many cells a cap is chosen by the noisy histogram as it is, and up
to so many none is. What a cell loses is more the fewer there are, and bins that noise explains may
hold it (benchmarks/defaults/baskets.py --few)."""


def geometric_edges(cells: int) -> tuple[int, ...]:
    """Upper ends of the bins for the number of touched cells: 1, 2, ... and then ever wider."""
    edges = [1]
    while edges[-1] < cells:
        edges.append(min(cells, max(edges[-1] + 1, int(edges[-1] * GROWTH))))
    return tuple(edges)


def pair_edges(items: int) -> tuple[int, ...]:
    """The same for the pairs of so many items: a transaction touches m (m - 1) / 2 of them."""
    return tuple(m * (m - 1) // 2 for m in geometric_edges(items) if m > 1)


def weights(law: NoiseLaw, cap: int, grid: int, cells: int) -> Ints:
    """The weight of a transaction by how many cells it touches, 0 to `cells`, in units of 1 / grid.

    q w(q) <= grid cap under Laplace noise, and q w(q)^2 <= grid^2 cap under Gaussian noise.
    """
    out = np.full(cells + 1, grid, dtype=np.int64)
    touched = np.arange(cap + 1, cells + 1, dtype=np.int64)
    if law == "laplace":
        out[cap + 1 :] = grid * cap // touched
    else:
        square = grid * grid * cap
        out[cap + 1 :] = [math.isqrt(square // int(q)) for q in touched]
    return out


def norm_bound(law: NoiseLaw, cap: int, grid: int) -> int:
    """How far one transaction moves all weighted counts: in L1, or in L2, in units of 1 / grid."""
    if law == "laplace":
        return grid * cap
    return math.isqrt(grid * grid * cap - 1) + 1


def deviation(law: NoiseLaw, scale: Fraction) -> float:
    """The standard deviation of noise of a stated scale (Laplace) or variance (Gaussian)."""
    return math.sqrt(laplace_cumulants(scale)[0]) if law == "laplace" else math.sqrt(float(scale))


def tail_quantile(law: NoiseLaw, scale: Fraction, alpha: float, factors: Floats) -> float:
    """What a sum of such noises, each times a factor, exceeds with probability at most alpha."""
    squares = float((factors**2).sum())
    if law == "gaussian":
        from scipy.special import ndtri

        return float(-ndtri(alpha)) * math.sqrt(squares * float(scale))
    if factors.size == 1:  # P(X > t) <= exp(-t / b) / 2
        size = abs(float(factors[0])) * float(scale)
        return max(0.0, size * math.log(1.0 / (2.0 * alpha)) + abs(float(factors[0])))
    second, fourth = laplace_cumulants(scale)
    parts = (squares * second, 0.0, float((factors**4).sum()) * fourth)
    return float(spread_quantile(alpha, *(np.array([part]) for part in parts))[0])


@dataclass(frozen=True)
class Touched:
    """A noisy histogram of how many counted cells a transaction touches; bin i ends at edges[i]."""

    law: NoiseLaw
    edges: tuple[int, ...]
    counts: tuple[int, ...]
    scale: Fraction

    def cleaned(self) -> Floats:
        """The histogram without what noise explains: bins below three deviations, and all that
        follows two of them in a row beyond the fullest bin."""
        counts = np.array(self.counts, dtype=np.float64)
        unit = float(self.scale) if self.law == "laplace" else math.sqrt(float(self.scale))
        counts[counts < NOISE_FLOOR * unit] = 0.0
        peak = int(np.argmax(counts))
        for place in range(peak, counts.size - 1):
            if counts[place] == 0 and counts[place + 1] == 0:
                counts[place:] = 0.0
                break
        return counts

    @property
    def middles(self) -> Floats:
        """A typical number of touched cells per bin."""
        low = np.array([1, *(edge + 1 for edge in self.edges[:-1])], dtype=np.float64)
        return np.asarray((low + np.array(self.edges, dtype=np.float64)) / 2)

    def weights_at(self, cap: int, touched: Floats) -> Floats:
        """What a transaction weighs that touches so many cells, but for the grid."""
        share = np.minimum(1.0, cap / touched)
        return share if self.law == "laplace" else np.sqrt(share)

    def lost(self, cap: int) -> float:
        """About how much weight is taken off all cells together."""
        return self.lost_of(self.cleaned(), cap)

    def lost_of(self, counts: Floats, cap: int) -> float:
        """The same, if bins held so many transactions."""
        middle = self.middles
        return float((counts * middle * (1.0 - self.weights_at(cap, middle))).sum())

    def factor(self, cap: int) -> float:
        """What a weighted count is multiplied with on average, to make up for what was taken."""
        whole = float((self.cleaned() * self.middles).sum())
        lost = self.lost(cap)
        return min(MAX_FACTOR, whole / (whole - lost)) if 0 < lost < whole else 1.0


def allowance(touched: Touched, cap: int, alpha: float) -> float:
    """The most that one cell lost, but for a chance of alpha: every transaction above the cap may
    hold it, and lost no more than at the upper end of its bin."""
    taken = 1.0 - touched.weights_at(cap, np.array(touched.edges, dtype=np.float64))
    above = taken > 0
    if not above.any():
        return 0.0
    expected = float((taken * np.array(touched.counts, dtype=np.float64)).sum())
    return max(0.0, expected + tail_quantile(touched.law, touched.scale, alpha, taken[above]))


def best_cap(touched: Touched, noise_of_one: float, *, focus: int, tolerance: float) -> int:
    """The cap with the least error of a cell: its noise, and what `focus` cells share of the loss,
    of which `tolerance` is forgiven.

    `noise_of_one` is the mean size of the noise at a cap of one.
    """

    cells = touched.edges[-1] if touched.law == "laplace" else math.inf
    if cells <= UNCUT_CELLS:
        return touched.edges[-1]
    likely = touched.cleaned()
    if cells <= FEW_CELLS:
        likely = np.maximum(np.array(touched.counts, dtype=np.float64), 0.0)

    def cost(cap: int) -> float:
        grown = cap if touched.law == "laplace" else math.sqrt(cap)
        return noise_of_one * grown + touched.lost_of(likely, cap) / (focus * tolerance)

    return min(touched.edges, key=cost)


def ordered_fit(
    values: Floats, variances: Floats, below: Sequence[tuple[int, int]], *, sweeps: int = 500
) -> Floats:
    """The nearest non-negative values, by weighted least squares, with values[a] <= values[b] for
    every (a, b) in `below`: Dykstra's projections."""
    spread = variances.tolist()
    correction = [0.0] * len(below)
    floor = [0.0] * values.size
    current = values.tolist()
    for _ in range(sweeps):
        moved = 0.0
        for number, (a, b) in enumerate(below):
            # `correction` is the multiplier of the constraint; it never becomes negative
            step = max((current[a] - current[b]) / (spread[a] + spread[b]), -correction[number])
            correction[number] += step
            current[a] -= spread[a] * step
            current[b] += spread[b] * step
            moved = max(moved, abs(step) * (spread[a] + spread[b]))
        for place in range(len(current)):
            step = max(-current[place] / spread[place], -floor[place])
            floor[place] += step
            current[place] += spread[place] * step
            moved = max(moved, abs(step) * spread[place])
        if moved < 1e-3:
            break
    fitted: Floats = np.maximum(np.array(current), 0.0)
    for a, b in sorted(below, key=lambda pair: -fitted[pair[1]]):
        fitted[a] = min(fitted[a], fitted[b])  # what is left of a millesimal
    return fitted


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
        mean_above = self.pass_rate * (self.threshold + 1 + self.ratio * self._gap)
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
        cumulants, released, fade = _score_cumulants(self, self._grid())
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
        near = np.maximum(0, self.threshold + np.arange(-1, 3))
        spread = np.linspace(0, last, _GRID).astype(np.int64)
        return np.unique(np.concatenate([[0, 1], near, spread]))


def _score_cumulants(
    law: Suppression, counts: Ints
) -> tuple[tuple[Floats, Floats, Floats], Floats, Floats]:
    """Cumulants 2-4 of Z, P(released) and E[r^(X - tau - 1); released], for each true count; the
    counts ascend."""
    r, tau, a = law.ratio, law.threshold, law.shortfall
    near, far = (part.astype(np.float64) for part in (counts[counts <= tau], counts[counts > tau]))
    reach = np.exp(-(tau - near) / float(law.scale)) * r / (1.0 + r)  # P(X > tau)
    depth = far - tau
    miss = np.exp(-depth / float(law.scale)) / (1.0 + r)  # P(X <= tau)
    second, fourth = law.noise_cumulants
    moments = []
    # of Z about -a (for c <= tau) or about c (for c > tau): the point where Z mostly sits
    for k, plain in enumerate((0.0, second, 0.0, fourth + 3.0 * second * second), start=1):
        lost = _geometric_moment(law, k, depth) * (-1.0) ** k
        above = plain + miss * ((-a - far) ** k - lost)
        moments.append(np.concatenate([reach * _geometric_moment(law, k, tau + 1 + a), above]))
    m1, m2, m3, m4 = moments
    k2 = m2 - m1**2
    k3 = m3 - 3 * m1 * m2 + 2 * m1**3
    k4 = m4 - 4 * m1 * m3 - 3 * m2**2 + 12 * m1**2 * m2 - 6 * m1**4
    centre = (1.0 - r) / (1.0 + r)
    decay = np.exp(-(depth - 1.0) / float(law.scale))
    faded = (
        reach * (1.0 + r) * centre / (1.0 - r * r),
        centre * decay * (depth + r * r / (1.0 - r * r)),
    )
    return (k2, k3, k4), np.concatenate([reach, 1.0 - miss]), np.concatenate(faded)


def _geometric_moment(law: Suppression, power: int, start: float | Floats) -> float | Floats:
    """E[(start + G)^power] for G = 0, 1, 2, ... with P(G = g) = (1 - r) r^g."""
    r, gap = law.ratio, law._gap
    g1 = r * gap
    raw = (
        1.0,
        g1,
        g1 * (1 + r) * gap,
        g1 * (1 + 4 * r + r * r) * gap * gap,
        g1 * (1 + 11 * r + 11 * r * r + r**3) * gap**3,
    )
    return sum(math.comb(power, j) * start ** (power - j) * raw[j] for j in range(power + 1))


def laplace_cumulants(scale: Fraction) -> tuple[float, float]:
    """Second and fourth cumulant of discrete Laplace noise of this scale."""
    r = math.exp(-1.0 / float(scale))
    gap = 1.0 / -math.expm1(-1.0 / float(scale))
    # the noise is the difference of two geometric variables, whose cumulants of even order add up
    return 2.0 * r * gap * gap, 2.0 * r * (1.0 + 4.0 * r + r * r) * gap**4


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
