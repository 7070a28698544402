"""Groups of counts: the two passes are least squares, and the fast variances are those of the dense
covariance matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpublish.models.hierarchical_counts import (
    Hierarchy,
    best_for_ranges,
    candidates,
    spread_points,
)

SHAPES = [Hierarchy(5, 5, 1), Hierarchy(11, 3, 3), Hierarchy(16, 4, 2), Hierarchy(9, 2, 4)]


def dense(hierarchy: Hierarchy) -> np.ndarray:
    full = Hierarchy(hierarchy.padded, hierarchy.fanout, hierarchy.height)
    return np.stack(
        [full.sums(row) for row in np.eye(hierarchy.padded, dtype=np.int64)], axis=1
    ).astype(float)


@pytest.mark.parametrize("hierarchy", SHAPES)
def test_estimates_are_least_squares(hierarchy: Hierarchy) -> None:
    rng = np.random.default_rng(1)
    measured = rng.integers(-5, 50, hierarchy.measures)
    expected = np.linalg.lstsq(dense(hierarchy), measured.astype(float), rcond=None)[0]
    assert hierarchy.estimates(measured) == pytest.approx(expected[: hierarchy.leaves])


@pytest.mark.parametrize("hierarchy", SHAPES)
def test_variances_are_those_of_the_covariance_matrix(hierarchy: Hierarchy) -> None:
    rng = np.random.default_rng(2)
    design = dense(hierarchy)
    covariance = np.linalg.inv(design.T @ design)[: hierarchy.leaves, : hierarchy.leaves]
    weights = rng.random((6, hierarchy.leaves))
    assert hierarchy.variance(weights) == pytest.approx(
        np.einsum("ij,jk,ik->i", weights, covariance, weights)
    )


@pytest.mark.parametrize("hierarchy", SHAPES)
def test_range_variances_agree_with_weights(hierarchy: Hierarchy) -> None:
    rng = np.random.default_rng(3)
    ends = np.sort(rng.random((300, 2)) * hierarchy.leaves, axis=1)
    ends[:20] = np.round(ends[:20])
    places = np.arange(hierarchy.leaves)
    weights = np.clip(
        np.minimum(places + 1, ends[:, 1:]) - np.maximum(places, ends[:, :1]), 0, None
    )
    assert hierarchy.range_variance(ends[:, 0], ends[:, 1]) == pytest.approx(
        hierarchy.variance(weights), abs=1e-9
    )


@pytest.mark.parametrize("hierarchy", SHAPES)
def test_a_fixed_total_is_a_constraint_on_least_squares(hierarchy: Hierarchy) -> None:
    """Estimates and variances are those of a measurement of the total with next to no noise;
    weights may leave out the end."""
    rng = np.random.default_rng(4)
    design = np.vstack([dense(hierarchy), 1e5 * np.ones(hierarchy.padded)])
    measured = rng.integers(-5, 50, hierarchy.measures)
    expected = np.linalg.lstsq(design, np.append(measured, 1e5 * 77.0), rcond=None)[0]
    fixed = replace(hierarchy, fixed=True)
    assert fixed.estimates(measured, 77) == pytest.approx(expected[: hierarchy.leaves], abs=1e-5)
    covariance = np.linalg.inv(design.T @ design)[: hierarchy.leaves - 1, : hierarchy.leaves - 1]
    weights = rng.random((6, hierarchy.leaves - 1))
    assert fixed.variance(weights) == pytest.approx(
        np.einsum("ij,jk,ik->i", weights, covariance, weights), abs=1e-6
    )
    ends = np.sort(rng.random((50, 2)) * (hierarchy.leaves - 1), axis=1)
    places = np.arange(hierarchy.leaves - 1)
    shares = np.clip(np.minimum(places + 1, ends[:, 1:]) - np.maximum(places, ends[:, :1]), 0, None)
    assert fixed.range_variance(ends[:, 0], ends[:, 1]) == pytest.approx(
        fixed.variance(shares), abs=1e-9
    )


def test_counts_without_noise_come_back() -> None:
    hierarchy = Hierarchy(11, 3, 3)
    counts = np.arange(11)
    assert hierarchy.estimates(hierarchy.sums(counts)) == pytest.approx(counts.astype(float))


def test_the_choice_is_flat_for_few_boxes_and_tall_for_many() -> None:
    assert best_for_ranges(np.arange(9))[0].height == 1
    tall, spread = best_for_ranges(np.arange(4097))
    assert tall.height >= 2
    assert spread < np.sqrt(4096 / 3)
    for leaves in (1, 2, 3, 100, 4096, 5000):
        assert all(choice.padded >= leaves for choice in candidates(leaves))


def test_spread_points_cover_the_cube() -> None:
    points = spread_points(1000, 3)
    assert points.min() >= 0
    assert points.max() < 1
    assert np.abs(points.mean(axis=0) - 0.5).max() < 0.02
