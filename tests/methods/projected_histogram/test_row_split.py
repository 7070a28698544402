"""Dealing rows to parts: one row more changes one part by that row, and nothing else matters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dpublish.methods.projected_histogram.choose_k import deal_rows, split_rows
from dpublish.methods.projected_histogram.coded_table import CodedTable

KEYS = [bytes(16), bytes(range(16)), bytes(range(200, 216))]


def table_of(codes: np.ndarray) -> CodedTable:
    return CodedTable([codes[:, 0], codes[:, 1]], [4, 300], codes[:, 2], 2)


def contents(parts: list[CodedTable]) -> list[Counter[tuple[int, ...]]]:
    return [
        Counter(
            zip(*(column.tolist() for column in part.columns), part.labels_of.tolist(), strict=True)
        )
        for part in parts
    ]


def random_codes(seed: int, rows: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack(
        [rng.integers(0, 4, rows), rng.integers(0, 3, rows) * 99, rng.integers(0, 2, rows)], axis=1
    )


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", range(4))
def test_one_row_more_changes_one_part_by_one_row(key: bytes, seed: int) -> None:
    codes = random_codes(seed, 60)
    before = contents(split_rows(table_of(codes), 4, key))
    rng = np.random.default_rng(seed + 100)
    for _ in range(20):
        row = random_codes(int(rng.integers(1 << 30)), 1)
        place = int(rng.integers(0, 61))
        after = contents(split_rows(table_of(np.insert(codes, place, row, axis=0)), 4, key))
        gained = [new - old for new, old in zip(after, before, strict=True)]
        lost = [old - new for new, old in zip(after, before, strict=True)]
        assert sum(sum(part.values()) for part in gained) == 1
        assert not any(lost)


def test_order_does_not_matter_and_parts_cover_the_table() -> None:
    codes = random_codes(7, 80)
    parts = contents(split_rows(table_of(codes), 3, KEYS[1]))
    shuffled = np.random.default_rng(1).permutation(codes)
    assert contents(split_rows(table_of(shuffled), 3, KEYS[1])) == parts
    assert sum(parts, Counter()) == Counter(map(tuple, codes.tolist()))


def test_parts_are_balanced_even_for_equal_rows() -> None:
    """Each part of 20,000 equal or random rows holds a quarter, within six standard deviations;
    fixed keys."""
    for codes in (np.zeros((20_000, 3), dtype=np.int64), random_codes(3, 20_000)):
        for key in KEYS:
            sizes = np.bincount(deal_rows(table_of(codes), 4, key), minlength=4)
            assert np.abs(sizes - 5000).max() < 6 * (20_000 * 3 / 16) ** 0.5


def test_a_table_without_rows() -> None:
    assert [
        part.rows for part in split_rows(table_of(np.zeros((0, 3), dtype=np.int64)), 3, KEYS[0])
    ] == [0, 0, 0]


def test_dealing_by_position_would_be_noticed() -> None:
    """Planted: by index, a row inserted first moves all others. The property above must fail for
    it."""
    codes = random_codes(9, 12)

    def by_position(rows: np.ndarray) -> list[Counter[tuple[int, ...]]]:
        return [Counter(map(tuple, rows[part::3].tolist())) for part in range(3)]

    before, after = by_position(codes), by_position(np.insert(codes, 0, random_codes(8, 1), axis=0))
    assert any(old - new for new, old in zip(after, before, strict=True))
