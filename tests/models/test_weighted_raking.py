"""Raking: the fitted weights solve the equations they are meant to solve, with and without
noise."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish.models.raking import sweeps
from dpublish.models.raking.raking import TableTarget, consistent_shares, rake


def rows(number: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, number)
    return first, (first + rng.integers(0, 3, number)) % 5


def targets(noise: float = 1e-8, seed: int = 0) -> list[TableTarget]:
    first, second = rows(seed=seed)
    wanted = (np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.25, 0.3, 0.2, 0.15, 0.1]))
    return [
        TableTarget(codes, want, np.full(len(want), noise))
        for codes, want in zip((first, second), wanted, strict=True)
    ]


@pytest.mark.parametrize("dense", [True, False])
def test_exact_tables_are_matched(dense: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not dense:
        monkeypatch.setattr(sweeps, "MAX_CELLS", 0)
    given = targets()
    found = rake(given, np.ones(3000), sweeps=3000)
    for target in given:
        assert np.bincount(target.codes, weights=found.masses) == pytest.approx(
            target.shares, abs=2e-4
        )
    assert found.masses.sum() == pytest.approx(1.0)


def test_both_ways_of_solving_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "NOISE_SHARE", 0.0)
    given = targets(noise=1e-4)
    dense = rake(given, np.ones(3000), precision=1.0)
    monkeypatch.setattr(sweeps, "MAX_CELLS", 0)
    swept = rake(given, np.ones(3000), precision=1.0, sweeps=2000)
    assert swept.masses == pytest.approx(dense.masses, rel=1e-3)


def test_the_solution_is_stationary() -> None:
    given = targets(noise=1e-4)
    found = rake(given, np.ones(3000), precision=1.0)
    for target, beta, ridge in zip(given, found.coefficients, found.ridges, strict=True):
        gradient = np.bincount(target.codes, weights=found.masses) - target.shares + ridge * beta
        assert np.abs(gradient).max() < 1e-3
    scores = sum(beta[target.codes] for target, beta in zip(given, found.coefficients, strict=True))
    weights = np.exp(scores)
    assert weights / weights.sum() == pytest.approx(found.masses, rel=1e-6)


def test_noise_alone_moves_little() -> None:
    """Tables that differ from the public rows by noise only: public rows say nearly as much as a
    sample of their size."""
    first, second = rows()
    rng = np.random.default_rng(5)
    given = []
    for codes, cells in ((first, 4), (second, 5)):
        share = np.bincount(codes, minlength=cells) / 3000
        given.append(
            TableTarget(codes, share + rng.normal(0, 0.05, cells), np.full(cells, 0.05**2))
        )
    weights = rake(given, np.ones(3000)).masses * 3000
    free = rake(given, np.ones(3000), precision=1e-9).masses * 3000
    assert weights.std() < 0.6 * free.std()
    say = 3000 * given[0].variances[0]
    assert 0.6 * say < float(rake(given, np.ones(3000)).ridges[0][0]) <= say


def test_public_rows_lose_their_say_where_tables_contradict_them() -> None:
    """50,000 rows that are evenly spread, against 500 people who are not: a table of standard error
    0.02 must win."""
    codes = np.tile(np.arange(4), 12_500)
    wanted = np.array([0.6, 0.2, 0.1, 0.1])
    found = rake([TableTarget(codes, wanted, np.full(4, 0.02**2))], np.ones(50_000))
    assert float(found.ridges[0][0]) < 50_000 * 0.02**2
    assert np.abs(np.bincount(codes, weights=found.masses) - wanted).max() < 0.05


def test_cells_without_public_rows_do_no_harm() -> None:
    codes = np.repeat([0, 1], 50)
    found = rake([TableTarget(codes, np.array([0.6, 0.3, 0.1]), np.full(3, 1e-8))], np.ones(100))
    assert np.bincount(codes, weights=found.masses) == pytest.approx([2 / 3, 1 / 3], abs=1e-3)


def test_negative_and_huge_noise_is_survived() -> None:
    codes = np.repeat([0, 1, 2], 30)
    for shares in (np.array([-3.0, 5.0, -1.0]), np.array([1e6, -1e6, 1.0])):
        found = rake([TableTarget(codes, shares, np.full(3, 4.0))], np.ones(90))
        assert np.isfinite(found.masses).all()
        assert found.masses.sum() == pytest.approx(1.0)


def test_a_fit_goes_on_from_an_earlier_one() -> None:
    given = targets()
    begun = rake(given[:1], np.ones(3000))
    on = rake(given, np.ones(3000), start=begun)
    for target in given:
        assert np.bincount(target.codes, weights=on.masses) == pytest.approx(
            target.shares, abs=1e-3
        )
    again = rake(given, np.ones(3000), start=on)
    assert again.sweeps <= rake(given, np.ones(3000)).sweeps
    assert again.masses == pytest.approx(on.masses, rel=1e-2)


def test_shares_add_up() -> None:
    shares, variances = consistent_shares(np.array([10.0, 25.0, 70.0]), 12.0, 100.0)
    assert shares.sum() == pytest.approx(1.0)
    assert variances == pytest.approx([12 / 1e4 * 2 / 3] * 3)


def tables_of_tilted_rows(
    column_noise: float, pair_noise: float, seed: int = 6
) -> tuple[list[TableTarget], np.ndarray]:
    """4,000 public rows that lack high values of the first column; a table of each column and one
    of both. And the truth."""
    rng = np.random.default_rng(seed)
    joint = np.array([[0.05, 0.1, 0.05], [0.1, 0.2, 0.1], [0.05, 0.15, 0.2]])
    public = joint * np.array([[2.0], [1.0], [0.4]])
    codes = rng.choice(9, 4000, p=(public / public.sum()).ravel())
    sides = (codes // 3, codes % 3, codes)
    found = []
    for place, (truth, noise) in enumerate(
        ((joint.sum(1), column_noise), (joint.sum(0), column_noise), (joint, pair_noise))
    ):
        shares, variances = consistent_shares(
            truth.ravel() * 1e4 + rng.normal(0, 1e4 * noise, truth.size), (1e4 * noise) ** 2, 1e4
        )
        columns, shape = ((0, 1), (3, 3)) if place == 2 else ((place,), (3,))
        found.append(TableTarget(sides[place], shares, variances, columns, shape))
    return found, joint


def test_rows_are_tilted_by_columns_and_then_fitted_to_everything() -> None:
    given, joint = tables_of_tilted_rows(0.01, 0.01)
    found = rake(given, np.ones(4000))
    assert np.bincount(given[2].codes, weights=found.masses).reshape(3, 3) == pytest.approx(
        joint, abs=0.03
    )
    assert [len(tilt) for tilt in found.tilts] == [3, 3]
    assert np.abs(found.tilts[0]).max() > 0.3
    scores = sum(beta[target.codes] for target, beta in zip(given, found.coefficients, strict=True))
    weights = np.exp(scores)
    assert weights / weights.sum() == pytest.approx(found.masses, rel=1e-6)


def test_a_precise_pair_corrects_a_noisy_column() -> None:
    """A column's own table has noise of 0.1, the pair's 0.005: fitted to the former alone, shares
    would be off by about 0.1."""
    misses = []
    for seed in range(5):
        given, joint = tables_of_tilted_rows(0.1, 0.005, seed)
        found = rake(given, np.ones(4000))
        misses.append(
            np.abs(np.bincount(given[0].codes, weights=found.masses) - joint.sum(axis=1)).max()
        )
        assert found.variances[0][0] < given[0].variances[0] / 50
    assert max(misses) < 0.03


def test_tables_of_columns_come_first() -> None:
    given, _ = tables_of_tilted_rows(0.01, 0.01)
    with pytest.raises(ValueError, match="come first"):
        rake(given[::-1], np.ones(4000))
