"""Counts in which long transactions weigh less, and what is known about them afterwards.

A transaction that touches q of the counted cells weighs min(1, C / q) in each of them (Laplace
noise) or min(1, sqrt(C / q)) (Gaussian noise), so that it moves all of them together by at most C
in L1, or by sqrt(C) in L2. Weights are whole multiples of 1 / grid, rounded down. The cap C is
chosen by a noisy histogram of q, and the same histogram says how much was taken away: on average,
and at most. Weights are exact; the rest is post-processing of noisy numbers, in floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpublish.models.thresholded_counts import laplace_cumulants, spread_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NoiseLaw = Literal["laplace", "gaussian"]

GROWTH = 1.25
NOISE_FLOOR = 3.0
MAX_FACTOR = 1.5


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
        middle = self.middles
        return float((self.cleaned() * middle * (1.0 - self.weights_at(cap, middle))).sum())

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

    def cost(cap: int) -> float:
        grown = cap if touched.law == "laplace" else math.sqrt(cap)
        return noise_of_one * grown + touched.lost(cap) / (focus * tolerance)

    return min(touched.edges, key=cost)


def ordered_fit(
    values: Floats, variances: Floats, below: Sequence[tuple[int, int]], *, sweeps: int = 500
) -> Floats:
    """The nearest non-negative values, by weighted least squares, with values[a] <= values[b] for
    every (a, b) in `below`: Dykstra's projections."""
    spread = variances.tolist()
    first, second = [a for a, _ in below], [b for _, b in below]
    correction = [0.0] * len(below)
    floor = [0.0] * values.size
    current = values.tolist()
    for _ in range(sweeps):
        moved = 0.0
        for number, (a, b) in enumerate(zip(first, second, strict=True)):
            # `correction` is the multiplier of the constraint; it never becomes negative
            step = (current[a] - current[b]) / (spread[a] + spread[b])
            step = max(step, -correction[number])
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
