"""Sector cells: each row finds its cell by itself."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish.models.sectors import by_rows


@pytest.mark.parametrize("width", [2, 9, 33])
def test_a_row_is_computed_alike_in_any_company(width: int) -> None:
    """Bit for bit: a difference in the last place can move a row into another cell when a row is
    added elsewhere."""
    rng = np.random.default_rng(1)
    points, matrix = rng.normal(size=(1030, width)), rng.normal(size=(width, 3))
    whole = by_rows(points, matrix)
    for size in (1, 2, 3, 7, 64, 1029):
        assert np.array_equal(by_rows(points[:size], matrix), whole[:size])
    np.testing.assert_allclose(whole, points @ matrix, rtol=1e-9, atol=1e-12)


def test_an_angle_is_computed_alike_in_any_company() -> None:
    """The sector of a circle follows from it. Vector code may treat the ends of an array apart."""
    points = np.random.default_rng(2).normal(size=(1030, 2))
    whole = np.arctan2(points[:, 1], points[:, 0])
    for size in (1, 2, 3, 5, 7, 8, 9, 15, 17, 64, 1029):
        for start in range(0, len(points) - size + 1, max(1, size // 2)):
            part = points[start : start + size].copy()
            found = np.arctan2(part[:, 1], part[:, 0])
            assert np.array_equal(found, whole[start : start + size])
