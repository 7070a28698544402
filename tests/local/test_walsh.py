"""The transform and the half-blocks of Hadamard response."""

from __future__ import annotations

import numpy as np
from scipy.linalg import hadamard

from dpublish.local.hashing import half_member, parity, transform


def test_parity() -> None:
    words = np.array([0, 1, 3, 7, (1 << 64) - 1, 1 << 63], dtype=np.uint64)
    assert parity(words.copy()).tolist() == [0, 1, 0, 1, 0, 1]


def test_the_transform_is_the_matrix() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 8, 64):
        rows = rng.integers(-50, 50, (3, size)).astype(np.int64)
        assert (transform(rows) == rows @ hadamard(size)).all()


def test_half_member_is_a_bijection_onto_the_half() -> None:
    for size in (2, 8, 16):
        for row in range(1, size):
            for odd in (0, 1):
                places = np.arange(size // 2, dtype=np.uint64)
                rows, wanted = (
                    np.full(size // 2, row, dtype=np.uint64),
                    np.full(size // 2, odd, dtype=np.uint64),
                )
                found = half_member(rows, places, wanted)
                assert sorted(found.tolist()) == [
                    y for y in range(size) if bin(y & row).count("1") % 2 == odd
                ]
