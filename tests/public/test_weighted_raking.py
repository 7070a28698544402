"""Raking: the fitted weights solve the equations they are meant to solve, with and without noise."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish.public import raking
from dpublish.public.raking import TableTarget, consistent_shares, rake


def rows(number: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, number)
    return first, (first + rng.integers(0, 3, number)) % 5


def targets(noise: float = 1e-8, seed: int = 0) -> list[TableTarget]:
    first, second = rows(seed=seed)
    wanted = (np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.25, 0.3, 0.2, 0.15, 0.1]))
    return [TableTarget(codes, want, np.full(len(want), noise)) for codes, want in zip((first, second), wanted, strict=True)]


@pytest.mark.parametrize("dense", [True, False])
def test_exact_tables_are_matched(dense: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not dense:
        monkeypatch.setattr(raking, "MAX_CELLS", 0)
    given = targets()
    found = rake(given, np.ones(3000), sweeps=3000)
    for target in given:
        assert np.bincount(target.codes, weights=found.masses) == pytest.approx(target.shares, abs=2e-4)
    assert found.masses.sum() == pytest.approx(1.0)


def test_both_ways_of_solving_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raking, "NOISE_SHARE", 0.0)
    given = targets(noise=1e-4)
    dense = rake(given, np.ones(3000), precision=1.0)
    monkeypatch.setattr(raking, "MAX_CELLS", 0)
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
    """Tables that differ from the public rows by noise only: the marginal likelihood sees it, and weights stay near 1."""
    first, second = rows()
    rng = np.random.default_rng(5)
    given = []
    for codes, cells in ((first, 4), (second, 5)):
        share = np.bincount(codes, minlength=cells) / 3000
        given.append(TableTarget(codes, share + rng.normal(0, 0.05, cells), np.full(cells, 0.05**2)))
    weights = rake(given, np.ones(3000)).masses * 3000
    free = rake(given, np.ones(3000), precision=1e-9).masses * 3000
    assert weights.std() < 0.6 * free.std()
    say = given[0].variances[0]
    assert float(rake(given, np.ones(3000)).ridges[0][0]) == pytest.approx(3000 * say)


def test_public_rows_lose_their_say_where_tables_contradict_them() -> None:
    """50,000 rows that are evenly spread, against 500 people who are not: a table of standard error 0.02 must win."""
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
        assert np.bincount(target.codes, weights=on.masses) == pytest.approx(target.shares, abs=1e-3)
    assert on.ridges[0] is begun.ridges[0]


def test_shares_add_up() -> None:
    shares, variances = consistent_shares(np.array([10.0, 25.0, 70.0]), 12.0, 100.0)
    assert shares.sum() == pytest.approx(1.0)
    assert variances == pytest.approx([12 / 1e4 * 2 / 3] * 3)
