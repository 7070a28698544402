"""Noisy tables between what was measured and what is expected."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dpublish.arrays import Floats
from dpublish.models.junction_tree.kernels import best_size, departures, evidence
from dpublish.models.junction_tree.shrink import shrink


def made_up(labels: int, *, cells: int = 7, seed: int = 3) -> tuple[Floats, Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(labels), size=cells)
    return (
        rng.normal(size=(cells, labels)) * 3,
        shares,
        rng.gamma(1.0, size=cells),
        rng.gamma(1.0, size=cells),
    )


def covariance(shares: Floats, size: float, split: float) -> Floats:
    outer = np.outer(shares, shares)
    found: Floats = split * (np.diag(shares) - outer) + size * outer
    return found


@pytest.mark.parametrize("labels", [1, 2, 5])
@pytest.mark.parametrize(
    ("whole", "split"), [(0.0, 0.0), (2.0, 0.0), (0.0, 3.0), (0.7, 40.0), (1e6, 1e4)]
)
def test_the_formulas_agree_with_whole_matrices(labels: int, whole: float, split: float) -> None:
    away, shares, sizes, splits = made_up(labels)
    logarithm, parts = 0.0, []
    for cell, values in enumerate(away):
        true = covariance(shares[cell], whole * sizes[cell], split * splits[cell])
        noisy = true + np.eye(labels)
        logarithm += float(multivariate_normal(np.zeros(labels), noisy).logpdf(values))
        parts.append(true @ np.linalg.solve(noisy, values))
    constant = away.size * np.log(2 * np.pi) / 2
    assert evidence(away, shares, sizes, splits, whole, split) == pytest.approx(
        logarithm + constant, rel=1e-7
    )
    assert departures(away, shares, sizes, splits, whole, split) == pytest.approx(
        np.stack(parts), rel=1e-6, abs=1e-7
    )


def test_evidence_of_many_labels_does_not_overflow() -> None:
    away, shares, sizes, splits = made_up(400)
    assert np.isfinite(evidence(away, shares, sizes, splits, 1.0, 1e12))


@pytest.mark.parametrize("of_whole", [True, False])
@pytest.mark.parametrize("true", [0.0, 1.0, 5e4])
def test_the_size_of_departures_is_found(of_whole: bool, true: float) -> None:
    rng = np.random.default_rng(1)
    cells = 4000
    shares = rng.dirichlet(np.ones(2), size=cells)
    ones = np.ones(cells)
    drawn = rng.normal(size=cells) * np.sqrt(true)
    direction = (
        shares if of_whole else np.array([1.0, -1.0]) * np.sqrt(shares.prod(axis=1))[:, None]
    )
    noisy = drawn[:, None] * direction + rng.normal(size=(cells, 2))
    found = best_size(noisy, shares, ones, ones, 0.0, 0.0, of_whole)
    if true == 0.0:
        assert (
            found < 0.1
            # noise alone: the likeliest size is near none, on either side of the smallest that is
            # tried
        )
    else:
        assert true / 2 <= found <= true * 2


def test_signal_stays_and_noise_goes() -> None:
    rng = np.random.default_rng(5)
    independent = np.full((8, 8, 1), 100.0)
    noise = rng.normal(0, 5, size=independent.shape)
    assert (
        np.abs(shrink(independent + noise, independent, 25.0) - independent).max()
        < 0.4 * np.abs(noise).max()
    )
    strong = independent + rng.choice([-80.0, 80.0], size=independent.shape)
    assert np.abs(shrink(strong + noise, independent, 25.0) - strong - noise).max() < 5


def joined_columns(*, interaction: float, seed: int) -> tuple[Floats, Floats, Floats]:
    """Two columns that go together; they act on two labels each by itself, or, with an interaction,
    together. What is expected knows the second only. Cells are from all but empty to crowded."""
    rng = np.random.default_rng(seed)
    rows = np.exp(rng.normal(2, 2, size=(16, 16)))
    odds = rng.normal(size=(16, 1)) + rng.normal(size=(1, 16))
    known = 1 / (1 + np.exp(-odds))
    share = 1 / (1 + np.exp(-odds - interaction * rng.normal(size=(16, 16))))
    expected = np.stack([rows * known, rows * (1 - known)], axis=-1)
    seen = rows * np.exp(rng.normal(0, 0.5, size=rows.shape))
    true = np.stack([seen * share, seen * (1 - share)], axis=-1)
    return expected, true, true + rng.normal(0, 15, size=true.shape)


def james_stein(counts: Floats, expected: Floats, variance: float) -> Floats:
    """One rate for all cells of a label."""
    away = counts - expected
    size = (away * away).sum(axis=(0, 1))
    found: Floats = (
        expected + np.maximum(0.0, 1.0 - (away[..., 0].size - 2) * variance / size) * away
    )
    return found


@pytest.mark.parametrize("interaction", [0.0, 1.0])
def test_cells_are_nearer_to_the_truth_than_with_one_rate_for_all(interaction: float) -> None:
    ours, theirs = [], []
    for seed in range(10):
        expected, true, noisy = joined_columns(interaction=interaction, seed=seed)
        ours.append(np.abs(shrink(noisy, expected, 225.0) - true).sum())
        theirs.append(np.abs(james_stein(noisy, expected, 225.0) - true).sum())
    assert np.mean(ours) < 0.75 * np.mean(theirs)


def test_noise_does_not_make_labels_depend_on_columns_together() -> None:
    """In cells with rows, how labels are split is as expected, if columns act on labels each by
    itself."""
    ours, theirs = [], []
    for seed in range(10):
        expected, true, noisy = joined_columns(interaction=0.0, seed=seed)
        share = true[..., 0] / true.sum(axis=-1)
        crowded = true.sum(axis=-1) > 5

        def off(found: Floats, share: Floats = share, crowded: Floats = crowded) -> float:
            kept = np.maximum(found, 1e-3)
            return float(np.abs(kept[..., 0] / kept.sum(axis=-1) - share)[crowded].mean())

        ours.append(off(shrink(noisy, expected, 225.0)))
        theirs.append(off(james_stein(noisy, expected, 225.0)))
    assert np.mean(ours) < 0.25 * np.mean(theirs)


@pytest.mark.parametrize(("size", "variance"), [(1.0, 0.0), (1e150, 1.0), (1e300, 1.0)])
def test_numbers_that_are_no_counts_are_left_as_they_are(size: float, variance: float) -> None:
    counts = np.array([[[1.0, 2.0], [3.0, 4.0]]]) * size
    assert (shrink(counts, np.zeros_like(counts), variance) == counts).all()


def test_an_empty_expectation_is_no_obstacle() -> None:
    counts = np.array([[[40.0, -3.0], [2.0, 5.0]], [[1.0, -4.0], [0.0, 60.0]]])
    found = shrink(counts, np.zeros_like(counts), 16.0)
    assert np.isfinite(found).all()
    assert found[0, 0, 0] > 10
