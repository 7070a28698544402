"""What the sampler tests share: exact laws, a chi-square test and streams that lie.

Every statistical test uses `ALPHA` as its false-alarm rate. Seeds are fixed, so a test that passes
once passes always.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from fractions import Fraction

import numpy as np
from scipy.stats import chi2

from dpublish.noise.words import SeededStream, WordStream

ALPHA = 1e-6
Cdf = Callable[[int], float]


class RiggedStream(WordStream):
    """Hands out planned words first and those of a seeded stream afterwards; single bits always
    come from the latter."""

    def __init__(self, planned: Iterable[int], seed: int = 0) -> None:
        self.planned = list(planned)
        self.after = SeededStream(seed)

    def fill(self, out: np.ndarray) -> None:
        first = self.planned[: out.size]
        del self.planned[: out.size]
        out[: len(first)] = np.array(first, dtype=np.uint64)
        rest = np.empty(out.size - len(first), dtype=np.uint64)
        self.after.fill(rest)
        out[len(first) :] = rest

    def bits(self, n: int) -> int:
        return self.after.bits(n)


class ConstantBits(SeededStream):
    """Single bits are all zero, or all one."""

    def __init__(self, bit: int) -> None:
        super().__init__(0)
        self.bit = bit

    def bits(self, n: int) -> int:
        return ((1 << n) - 1) * self.bit


def laplace_cdf(scale: Fraction | float) -> Cdf:
    s = float(scale)
    both = 1 + math.exp(-1 / s)
    return lambda x: math.exp(x / s) / both if x < 0 else 1 - math.exp(-(x + 1) / s) / both


def geometric_cdf(rate: float) -> Cdf:
    return lambda x: 0.0 if x < 0 else -math.expm1(-rate * (x + 1))


def gaussian_cdf(variance: Fraction | float) -> Cdf:
    v = float(variance)
    reach = math.ceil(14 * math.sqrt(v)) + 2
    xs = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-xs * xs / (2 * v))
    sums = np.cumsum(weights) / weights.sum()
    return lambda x: 0.0 if x < -reach else float(sums[min(x, reach) + reach])


def chi_square(observed: np.ndarray, expected: np.ndarray) -> float:
    """P-value of counts against expected counts."""
    observed, expected = np.asarray(observed, dtype=float), np.asarray(expected, dtype=float)
    if len(expected) == 1:
        return 1.0
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


def fit(draws: np.ndarray, cdf: Cdf, *, bins: int = 60, least: float = 20.0) -> float:
    """P-value of integer draws against a law, in about `bins` bins of at least `least` expected
    draws each."""
    ordered = np.sort(draws)
    n = len(ordered)
    edges, expected, last = [], [], 0.0
    # Edges come from the law by bisection, never from the draws.
    for k in range(1, bins):
        edge = _quantile(cdf, k / bins)
        mass = cdf(edge)
        if (mass - last) * n >= least and (1 - mass) * n >= least:
            edges.append(edge)
            expected.append((mass - last) * n)
            last = mass
    expected.append((1 - last) * n)
    below = np.searchsorted(ordered, np.array(edges, dtype=ordered.dtype), side="right")
    observed = np.diff(np.concatenate([[0], below, [n]]))
    return chi_square(observed, np.array(expected))


def _quantile(cdf: Cdf, level: float) -> int:
    low, high = -1, 1
    while cdf(low) >= level and low > -(1 << 63):
        low *= 2
    while cdf(high) < level:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cdf(middle) >= level else (middle, high)
    return high


def fit_outcomes(
    outcomes: Iterable[Hashable], law: Mapping[Hashable, float], *, least: float = 8.0
) -> float:
    """P-value of outcomes against a finite law; rare outcomes are pooled."""
    counts = Counter(outcomes)
    assert set(counts) <= set(law)
    n = sum(counts.values())
    common = [o for o in law if law[o] * n >= least]
    observed = [counts[o] for o in common]
    expected = [law[o] * n for o in common]
    if n - sum(expected) > least / 2:
        observed.append(n - sum(observed))
        expected.append(n - sum(expected))
    return chi_square(np.array(observed), np.array(expected))


def two_sample(first: np.ndarray, second: np.ndarray, *, least: int = 20) -> float:
    """P-value of two equally large samples having one law; values are pooled in order until both
    hold `least` together."""
    values, counts = np.unique(np.concatenate([first, second]), return_counts=True)
    groups, group, total = [], 0, 0
    for count in counts:
        groups.append(group)
        total += count
        if total >= 2 * least:
            group, total = group + 1, 0
    a = np.bincount(np.array(groups)[np.searchsorted(values, first)], minlength=group + 1)
    b = np.bincount(np.array(groups)[np.searchsorted(values, second)], minlength=group + 1)
    keep = a + b > 0
    statistic = ((a - b)[keep] ** 2 / (a + b)[keep]).sum()
    return float(chi2.sf(statistic, keep.sum() - 1))
