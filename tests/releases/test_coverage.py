"""Do 95% intervals hold the truth in 95% of releases?

Every case simulates 500 releases and asks six questions of each. An interval of true coverage 95%
is seen at 93% or less in 500 releases with probability 2% a question; the seeds are fixed, so the
test is deterministic. A true coverage of 90% would be seen at 93% or more with probability below
1%.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from releases.coverage_scenarios import SHAPES, Scenario, measure, standard_sets

CASES = [
    # shape, scale, threshold in units of the scale, total
    ("dense small", 1, 6, "public"),
    ("dense small", 2, 0, "unknown"),
    ("dense small", 20, 2, "public"),
    ("dense small", 20, 6, "noisy"),
    ("sparse large", 2, 6, "public"),
    ("sparse large", 2, 2, "bound"),
    ("sparse large", 20, 2, "noisy"),
    ("zipf", 1, 4, "public"),
    ("zipf", 5, 5, "noisy"),
    ("zipf", 10, 1, "unknown"),
    ("near threshold", 1, 5, "public"),
    ("near threshold", 2, 6, "unknown"),
    ("near threshold", 5, 4, "noisy"),
    ("near threshold", 20, 3, "bound"),
    ("empty", 1, 3, "unknown"),
    ("empty", 4, 1, "bound"),
    ("empty", 2, 5, "noisy"),
]


@pytest.mark.parametrize(("shape", "scale", "factor", "total"), CASES)
def test_intervals_hold_the_truth(shape: str, scale: int, factor: int, total: str) -> None:
    generator = np.random.default_rng(11)
    threshold = factor * scale
    counts = SHAPES[shape](generator, threshold)
    scenario = Scenario(counts, standard_sets(counts, generator))
    found = measure(
        scenario, threshold=threshold, scale=Fraction(scale), total=total, runs=500, seed=17
    )
    assert min(one.rate for one in found) >= 0.93, [one.rate for one in found]


def test_intervals_are_not_wide_when_nothing_is_suppressed() -> None:
    generator = np.random.default_rng(3)
    counts = SHAPES["dense small"](generator, 0)
    scenario = Scenario(counts, standard_sets(counts, generator))
    for one in measure(scenario, threshold=10, scale=Fraction(2), total="public", runs=100, seed=5):
        assert one.width <= 1.05 * one.naive_width


def test_few_suppressed_cells_cost_little() -> None:
    generator = np.random.default_rng(4)
    counts = np.concatenate(
        [generator.integers(100, 500, 300), generator.integers(0, 5, 12)]
    ).astype(np.int64)
    sets = np.zeros((1, len(counts)), dtype=bool)
    sets[0, ::2] = True
    found = measure(
        Scenario(counts, sets), threshold=12, scale=Fraction(2), total="public", runs=100, seed=5
    )
    assert found[0].rate >= 0.93
    assert found[0].width <= 2 * found[0].naive_width


@pytest.mark.parametrize("level", [0.5, 0.8, 0.99])
def test_other_levels_hold_too(level: float) -> None:
    generator = np.random.default_rng(8)
    counts = SHAPES["zipf"](generator, 0)
    scenario = Scenario(counts, standard_sets(counts, generator))
    found = measure(
        scenario, threshold=9, scale=Fraction(3), total="public", runs=300, seed=9, level=level
    )
    # three standard deviations of 300 draws below the level: a false alarm in about one of 700
    # questions
    slack = 3 * np.sqrt(level * (1 - level) / 300)
    assert min(one.rate for one in found) >= level - slack


def test_a_naive_interval_would_fail() -> None:
    """The planted mistake: plain noise quantiles around the released sum miss the suppressed rows,
    and the test sees it."""
    generator = np.random.default_rng(12)
    counts = SHAPES["sparse large"](generator, 0)
    half = generator.random(len(counts)) < 0.5
    noisy = counts + generator.laplace(0, 2, len(counts)).round().astype(np.int64)
    released = noisy[half & (noisy > 12)].sum()
    assert abs(released - counts[half].sum()) > 1.96 * np.sqrt(8.0 * half.sum())
