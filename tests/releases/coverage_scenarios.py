"""Simulated thresholded histograms, and how often the published intervals hold the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Flags
from dpublish.models.noisy_counts import Suppression, noise_sum_quantile
from dpublish.releases.histogram.intervals import CellSums, Question, Total, answer

Counts = NDArray[np.int64]


def draw_noise(generator: np.random.Generator, scale: Fraction, shape: tuple[int, ...]) -> Counts:
    """Discrete Laplace noise, as the difference of two geometric draws."""
    chance = -np.expm1(-1.0 / float(scale))
    return (generator.geometric(chance, shape) - generator.geometric(chance, shape)).astype(
        np.int64
    )


@dataclass(frozen=True)
class Coverage:
    rate: float
    width: float
    naive_width: float
    too_low: float
    too_high: float


@dataclass(frozen=True)
class Scenario:
    """True counts, and the sets to ask about (one row of flags a set)."""

    counts: Counts
    sets: NDArray[np.bool_]


def sums(law: Suppression, noisy: Counts, sets: Flags, cells: NDArray[np.float64]) -> CellSums:
    shown = np.flatnonzero(noisy > law.threshold)
    counts = noisy[shown]
    k2, k3, k4 = law.cell_cumulants(counts)
    weights = sets[:, shown].astype(np.float64)
    released = weights.sum(axis=1)
    return CellSums(
        counts=(weights * counts).sum(axis=1),
        released=released,
        suppressed=cells - released,
        k2=(weights * k2).sum(axis=1),
        k3=(weights * k3).sum(axis=1),
        k4=(weights * k4).sum(axis=1),
    )


def measure(
    scenario: Scenario,
    *,
    threshold: int,
    scale: Fraction,
    total: str,
    runs: int,
    seed: int,
    level: float = 0.95,
) -> list[Coverage]:
    """Coverage of each set of the scenario over simulated releases."""
    generator = np.random.default_rng(seed)
    law = Suppression(threshold, scale)
    true = scenario.sets.astype(np.int64) @ scenario.counts
    everything = np.ones((1, len(scenario.counts)), dtype=bool)
    number = int(scenario.counts.sum())
    cells = scenario.sets.sum(axis=1).astype(np.float64)
    low, high = np.empty((runs, len(true))), np.empty((runs, len(true)))
    for run in range(runs):
        noisy = scenario.counts + draw_noise(generator, scale, scenario.counts.shape)
        if total == "noisy":
            known = Total(
                "noisy", number + int(draw_noise(generator, Fraction(4), (1,))[0]), Fraction(4)
            )
        elif total == "bound":
            known = Total("unknown", 0, bound=number + number // 10 + 500)
        else:
            known = Total(
                "public" if total == "public" else "unknown", number if total == "public" else 0
            )
        part = sums(law, noisy, scenario.sets, cells)
        whole = sums(law, noisy, everything, np.array([float(len(noisy))]))
        got = answer(law, whole, known, Question(part, part, part), level)
        low[run], high[run] = got.low, got.high
    naive = 2 * noise_sum_quantile((1 - level) / 2, cells, scale)
    return [
        Coverage(
            rate=float(np.mean((low[:, i] <= true[i]) & (true[i] <= high[:, i]))),
            width=float(np.mean(high[:, i] - low[:, i])),
            naive_width=float(naive[i]),
            too_low=float(np.mean(high[:, i] < true[i])),
            too_high=float(np.mean(low[:, i] > true[i])),
        )
        for i in range(len(true))
    ]


def standard_sets(counts: Counts, generator: np.random.Generator) -> NDArray[np.bool_]:
    """One full cell, one empty or small one, ten cells, half the domain, almost everything,
    everything."""
    size = len(counts)
    sets = np.zeros((6, size), dtype=bool)
    sets[0, int(np.argmax(counts))] = True
    sets[1, int(np.argmin(counts))] = True
    sets[2, generator.choice(size, min(10, size), replace=False)] = True
    sets[3] = generator.random(size) < 0.5
    sets[4] = True
    sets[4, generator.choice(size, max(1, size // 100), replace=False)] = False
    sets[5] = True
    return sets


def dense_small(generator: np.random.Generator, threshold: int) -> Counts:
    return generator.integers(20, 400, 60).astype(np.int64)


def sparse_large(generator: np.random.Generator, threshold: int) -> Counts:
    """Most rows sit in cells too small to be released."""
    counts = np.zeros(20_000, dtype=np.int64)
    places = generator.choice(len(counts), 3_000, replace=False)
    counts[places] = generator.integers(1, 4, len(places))
    counts[places[:20]] += generator.integers(200, 900, 20)
    return counts


def zipf(generator: np.random.Generator, threshold: int) -> Counts:
    counts = np.floor(8_000 / np.arange(1, 5_001)).astype(np.int64)
    return generator.permutation(counts)


def near_threshold(generator: np.random.Generator, threshold: int) -> Counts:
    return np.maximum(0, threshold + generator.integers(-3, 4, 800)).astype(np.int64)


def empty(generator: np.random.Generator, threshold: int) -> Counts:
    return np.zeros(8_000, dtype=np.int64)


SHAPES: dict[str, Callable[[np.random.Generator, int], Counts]] = {
    "dense small": dense_small,
    "sparse large": sparse_large,
    "zipf": zipf,
    "near threshold": near_threshold,
    "empty": empty,
}
