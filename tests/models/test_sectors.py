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
