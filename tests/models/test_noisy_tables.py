"""Noisy tables: cells without public rows, what several tables say about a column, and what a pair
says beyond its columns."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish.models.raking.sweeps import TableTarget, centred, combined, supported


def pair_of(shares: np.ndarray, noise: float, codes: np.ndarray | None = None) -> TableTarget:
    rows = np.arange(shares.size) if codes is None else codes
    return TableTarget(rows, shares.ravel(), np.full(shares.size, noise), (0, 1), shares.shape)


def column_of(place: int, shares: np.ndarray, noise: float) -> TableTarget:
    return TableTarget(
        np.arange(len(shares)), shares, np.full(len(shares), noise), (place,), (len(shares),)
    )


def test_a_table_without_empty_cells_is_left_alone() -> None:
    target = column_of(0, np.array([0.2, 0.8]), 1e-4)
    found = supported(target)
    assert found.target is target
    assert found.spread(np.array([3.0, 4.0]), 0.0).tolist() == [3.0, 4.0]


def test_noise_in_cells_without_public_rows_is_taken_for_noise() -> None:
    """Cells 2 and 3 hold 0.03 together, as noise of deviation 0.05 would: the others are corrected
    alike, not scaled up."""
    target = TableTarget(
        np.array([0, 1, 1, 4]), np.array([0.5, 0.3, 0.02, 0.01, 0.17]), np.full(5, 0.05**2)
    )
    found = supported(target)
    assert found.places.tolist() == [0, 1, 4]
    assert found.target.codes.tolist() == [0, 1, 1, 2]
    assert found.target.shares == pytest.approx([0.51, 0.31, 0.18])
    assert found.spread(found.target.shares, -1.0).tolist()[2:4] == [-1.0, -1.0]


def test_people_whom_no_public_row_is_like_are_shared_out_in_proportion() -> None:
    found = supported(TableTarget(np.array([0, 1]), np.array([0.6, 0.3, 0.1]), np.full(3, 1e-10)))
    assert found.target.shares == pytest.approx([2 / 3, 1 / 3], abs=1e-4)


def test_columns_are_read_from_all_tables_by_their_precision() -> None:
    """The combined shares have the variance that they state, 10% off at most: 4 deviations of 2,000
    draws."""
    rng = np.random.default_rng(3)
    truth = np.outer([0.5, 0.3, 0.2], [0.1, 0.2, 0.3, 0.4])
    misses, stated = [], 0.0
    for _ in range(2000):
        alone = truth.sum(axis=1) + rng.normal(0, 0.02, 3)
        joint = truth + rng.normal(0, 0.01, truth.shape)
        alone, joint = alone - (alone.sum() - 1) / 3, joint - (joint.sum() - 1) / 12
        found = combined(
            [column_of(0, alone, 0.02**2 * 2 / 3)], [pair_of(joint, 0.01**2 * 11 / 12)]
        )[0]
        stated = float(found.variances[0])
        misses.append(found.shares - truth.sum(axis=1))
    assert np.mean(np.square(misses)) == pytest.approx(stated, rel=0.1)
    assert stated < 0.02**2 * 2 / 3
    # equal weights would be found: 4 cells of variance 1e-4 say as much as one of 4e-4
    assert stated == pytest.approx(2e-4 * 2 / 3)


def test_what_is_left_of_a_pair_is_its_interaction() -> None:
    rng = np.random.default_rng(4)
    rows, columns = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.3, 0.4])
    pair = supported(pair_of(np.outer(rows, columns) + rng.normal(0, 0.01, (3, 4)), 1e-4))
    table = centred(pair, {0: rows, 1: columns}).shares.reshape(3, 4)
    assert table.sum(axis=1) == pytest.approx(rows)
    assert table.sum(axis=0) == pytest.approx(columns)
    # with one side known, the other is left as it was measured
    half = centred(pair, {1: columns}).shares.reshape(3, 4)
    assert half.sum(axis=0) == pytest.approx(columns)


def test_the_variance_of_an_interaction_is_stated() -> None:
    """2,000 draws with two cells missing; 10% is 6 deviations of the mean square."""
    rng = np.random.default_rng(5)
    truth = np.outer([0.5, 0.3, 0.2], [0.1, 0.2, 0.3, 0.4])
    truth[0, 0] = truth[2, 3] = 0.0
    truth /= truth.sum()
    codes = np.flatnonzero(truth)
    sides = {0: truth.sum(axis=1), 1: truth.sum(axis=0)}
    misses, stated = [], 0.0
    for _ in range(2000):
        joint = truth + rng.normal(0, 0.01, truth.shape)
        found = centred(
            supported(pair_of(joint - (joint.sum() - 1) / 12, 0.01**2 * 11 / 12, codes)), sides
        )
        stated = float(found.variances[0])
        misses.append(found.shares - truth.ravel()[codes])
    assert np.mean(np.square(misses)) == pytest.approx(stated, rel=0.1)
