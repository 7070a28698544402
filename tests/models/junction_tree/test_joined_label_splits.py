"""Splits of unordered levels among labels: shrunk where noise explains them, kept where it does
not."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish.arrays import Floats
from dpublish.models.junction_tree.consistency import onto_simplex
from dpublish.models.junction_tree.shrink import split_labels


def information(table: Floats) -> float:
    """Mutual information of levels and labels, in nats per row."""
    shares = table / table.sum()
    apart = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
    held = shares > 0
    return float((shares[held] * np.log(shares[held] / apart[held])).sum())


@pytest.mark.parametrize("labels", [2, 5])
def test_noise_is_not_read_as_a_relation_to_the_target(labels: int) -> None:
    rng = np.random.default_rng(4)
    rows = rng.dirichlet(np.full(20, 1.0)) * 6000
    truth = rows[:, None] * rng.dirichlet(np.full(labels, 3.0))
    noisy = truth + rng.normal(scale=30, size=truth.shape)
    plain = onto_simplex(noisy, truth.sum(axis=0))
    shrunk = split_labels(noisy, np.full(20, 900.0), truth.sum(axis=0))
    assert information(shrunk) < 0.1 * information(plain)
    assert np.abs(shrunk - truth).sum() < np.abs(plain - truth).sum()


def test_a_true_relation_is_kept() -> None:
    rng = np.random.default_rng(5)
    truth = rng.uniform(50, 2000, size=(12, 3))
    noisy = truth + rng.normal(scale=5, size=truth.shape)
    shrunk = split_labels(noisy, np.full(12, 25.0), truth.sum(axis=0))
    assert information(shrunk) == pytest.approx(information(truth), rel=0.05)
    assert np.abs(shrunk - truth).max() < 25


def test_rows_of_levels_and_labels_stay_as_they_were() -> None:
    rng = np.random.default_rng(6)
    noisy, labels = rng.normal(20, 40, size=(30, 4)), np.array([300.0, 0.0, 150.0, 40.0])
    plain, shrunk = onto_simplex(noisy, labels), split_labels(noisy, np.full(30, 1600.0), labels)
    assert (shrunk >= 0).all()
    assert shrunk.sum(axis=0) == pytest.approx(labels)
    assert shrunk.sum(axis=1) == pytest.approx(plain.sum(axis=1), abs=1e-3)


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e120, 1e300])
def test_numbers_that_only_a_file_can_hold_give_numbers(size: float) -> None:
    table = np.array([[size, -size], [1.0, size], [0.0, 0.0]])
    for variance in (1e-9, 1e24):
        found = split_labels(table, np.full(3, variance), np.array([size, 1.0]))
        assert np.isfinite(found).all()
