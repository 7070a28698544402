"""Tables counted jointly against numpy, one column at a time."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish.methods.projected_histogram import contingency as module
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.contingency import (
    cell_dtype,
    count_product,
    count_tables,
    group_columns,
    join_digits,
    renumber,
)


@pytest.mark.parametrize("threads", [1 << 20, 1])
@pytest.mark.parametrize("entries", [1 << 16, 100, 1])
@pytest.mark.parametrize(("rows", "cells"), [(5_000, 7), (3_000, 70_000), (1, 1), (0, 0)])
def test_margins_are_the_tables(
    monkeypatch: pytest.MonkeyPatch, threads: int, entries: int, rows: int, cells: int
) -> None:
    monkeypatch.setattr(module, "_WORTH_THREADS", threads)
    monkeypatch.setattr(module, "_JOINT_ENTRIES", entries)
    rng = np.random.default_rng(rows)
    levels = [3, 1, 256, 2, 5, 300, 70_000 if cells < 10 else 2, 4, 2]
    base = rng.integers(0, max(1, cells), rows).astype(cell_dtype(cells))
    table = CodedTable(
        [rng.integers(0, n, rows) for n in levels], levels, np.zeros(rows, dtype=np.int64), 1
    )
    found = count_tables(base, cells, table.columns, levels)
    for counts, codes, width in zip(found, table.columns, levels, strict=True):
        expected = np.bincount(base.astype(np.int64) * width + codes, minlength=cells * width)
        assert counts.shape == (cells, width)
        assert (counts.reshape(-1) == expected).all()


def test_columns_are_grouped_where_the_joint_table_is_small() -> None:
    assert group_columns(3, [4, 24, 5, 300], most=1 << 16) == [[3], [1, 2, 0]]
    assert group_columns(3, [4, 24, 5, 300], most=100) == [[3], [1], [2, 0]]
    assert sorted(i for group in group_columns(10, [2] * 11, most=1 << 16) for i in group) == list(
        range(11)
    )
    assert max(len(group) for group in group_columns(1, [2] * 11, most=1 << 16)) == 3
    # however many cells: 2 * 3 levels are hardly more than 2 + 3
    assert group_columns(1 << 20, [2, 9, 3, 2], most=1 << 16) == [[1], [2, 0], [3]]


@pytest.mark.parametrize("threads", [1 << 20, 1])
@pytest.mark.parametrize("block", [1 << 15, 1000])
def test_rows_are_renumbered_and_products_counted(
    monkeypatch: pytest.MonkeyPatch, threads: int, block: int
) -> None:
    monkeypatch.setattr(module, "_WORTH_THREADS", threads)
    monkeypatch.setattr(module, "_CELL_ROWS", block)
    rng = np.random.default_rng(4)
    base, codes = (
        rng.integers(0, 5, 20_001).astype(np.uint16),
        rng.integers(0, 7, 20_001).astype(np.uint8),
    )
    joined = base.astype(np.int64) * 7 + codes
    number = rng.permutation(35).astype(np.uint32)
    digits = [(base, 5), (codes, 7)]
    assert (join_digits(digits, 35) == joined).all()
    assert join_digits(digits, 35).dtype == np.uint16
    assert join_digits([(base, 5), (base, 50_000)], 250_000).dtype == np.uint32
    assert (renumber(digits, number, 35) == number[joined]).all()
    counts = count_product(digits, 35)
    expected = np.bincount(joined, minlength=35)
    assert (counts.cells == np.flatnonzero(expected)).all()
    assert (counts.counts == expected[expected > 0]).all()
