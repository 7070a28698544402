"""The tables of each step of a forecast against counting them one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpublish.methods.projected_histogram.partition import Forecast


@pytest.mark.parametrize(
    ("classes", "labels", "depth"), [(1, 2, 1), (1, 3, 3), (4, 2, 2), (5, 1, 2)]
)
def test_margins_are_the_tables_of_each_step(classes: int, labels: int, depth: int) -> None:
    rng = np.random.default_rng(classes)
    rows, levels = 400, [3, 2, 4, 5, 2]
    group, label = rng.integers(0, classes, rows), rng.integers(0, labels, rows)
    columns = [rng.integers(0, n, rows) for n in levels]
    path = [2, 0, 3][:depth]

    def table(column: int, chosen: list[int]) -> np.ndarray:
        cell = group.copy()
        for i in chosen:
            cell = cell * levels[i] + columns[i]
        cell = (cell * labels + label) * levels[column] + columns[column]
        size = classes * math.prod(levels[i] for i in chosen) * labels * levels[column]
        return np.bincount(cell, minlength=size).reshape(-1, levels[column])

    others = {i: table(i, path).astype(np.uint32) for i in range(5) if i not in path}
    forecast = Forecast(path, [levels[i] for i in path], classes, labels, others)
    for step in range(depth + 1):
        found = forecast.tables(step)
        assert sorted(found) == sorted(set(range(5)) - set(path[:step]))
        for column, counts in found.items():
            assert (counts == table(column, path[:step])).all()
            assert counts.flags.c_contiguous
    assert repr(forecast) == "Forecast(private)"
