"""Sizes of tilts: what differences say about them, and that the ridges keep what Bayes' rule
keeps."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish.models.raking.raking import (
    SIZES,
    TiltSizes,
    likely_sizes,
    one_after_the_other,
    ridge_of_size,
)
from dpublish.models.raking.sweeps import TableTarget


def drawn(
    size: float, noise: float, cells: int = 400, rows: float = 1e4, seed: int = 0
) -> tuple[TableTarget, np.ndarray]:
    """One table per draw: shares of public rows, and noisy shares that differ from them by
    coefficients of a given size."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(cells, 2.0))
    spread = shares * (1 - shares)
    wanted = (
        shares
        + rng.normal(0, 1, cells) * np.sqrt(spread / rows + size**2 * spread**2)
        + rng.normal(0, noise, cells)
    )
    return TableTarget(np.arange(cells), wanted, np.full(cells, noise**2)), shares


@pytest.mark.parametrize("size", [0.0, 0.3, 1.0, 3.0])
def test_the_size_is_found(size: float) -> None:
    """400 cells with noise of a tenth of a share: the mean is within a fifth of the truth (4
    deviations)."""
    table, shares = drawn(size, 2.5e-4)
    found = likely_sizes([table], [shares], 1e4)
    assert found.chances.sum() == pytest.approx(1.0)
    assert found.mean == pytest.approx(size, rel=0.2, abs=0.05)


def test_noise_alone_is_not_taken_for_a_tilt() -> None:
    """Noise of ten times a share: nothing can be said, and what was expected beforehand stands."""
    table, shares = drawn(0.0, 0.025)
    assert likely_sizes([table], [shares], 1e4).mean < 0.15


def test_ridges_keep_what_bayes_keeps() -> None:
    """With one size left, a ridge c keeps v / (v + c) = P / (P + s^2) of a difference."""
    table, shares = drawn(0.5, 1e-3, cells=20)
    chances = np.zeros(len(SIZES))
    chances[20] = 1.0
    spread = shares * (1 - shares)
    before = spread / 5000 + SIZES[20] ** 2 * spread**2
    ridge = TiltSizes(chances).ridges([table], [shares], 5000.0)[0]
    assert spread / (spread + ridge) == pytest.approx(before / (before + 1e-6))
    tilting = TiltSizes(chances).tilting_ridges([table], [shares], 5000.0)[0]
    assert spread / (spread + tilting) == pytest.approx(
        SIZES[20] ** 2 * spread**2 / (before + 1e-6)
    )
    # without a tilt, rows speak as loudly as their number
    none = np.eye(len(SIZES))[0]
    assert TiltSizes(none).ridges([table], [shares], 5000.0)[0] == pytest.approx(
        np.full(20, 5000 * 1e-6)
    )


def test_two_ridges_after_each_other() -> None:
    shares = np.array([0.2, 0.5])
    spread = shares * (1 - shares)
    one, two = np.array([0.1, 0.02]), np.array([0.4, 0.01])
    both = one_after_the_other(one, two, shares)
    kept = spread / (spread + one)
    assert spread / (spread + both) == pytest.approx(kept + (1 - kept) * spread / (spread + two))


def test_a_known_size() -> None:
    table, shares = drawn(0.5, 1e-3, cells=20)
    assert ridge_of_size(table, shares, 4.0) == pytest.approx(4.0 * 1e-6 / (shares * (1 - shares)))
