"""Collisions have exactly the stated probability, and the fast count is the slow one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpublish.errors import PlanError
from dpublish.local import HadamardResponse, LocalHashing, UnaryEncoding
from dpublish.noise.source import SeededNoise


@pytest.mark.parametrize(("levels", "buckets"), [(2, 2), (5, 3), (7, 7), (6, 4)])
def test_collisions_have_the_stated_probability_for_every_pair(levels: int, buckets: int) -> None:
    randomizer = LocalHashing(levels, 1, buckets=buckets)
    functions = np.arange(randomizer.functions, dtype=np.uint64)
    hashed = [
        randomizer._bucket(functions, np.full(functions.size, v, dtype=np.uint64))
        for v in range(levels)
    ]
    for one in range(levels):
        for other in range(one):
            same = int((hashed[one] == hashed[other]).sum())
            assert Fraction(same, functions.size) == randomizer.collision


def test_the_fast_count_is_the_slow_one() -> None:
    randomizer = LocalHashing(30, 1)
    reports = randomizer.randomize(np.arange(3000) % 30, coins=SeededNoise(1))
    function, bucket = (
        reports // np.uint64(randomizer.buckets),
        reports % np.uint64(randomizer.buckets),
    )
    slow = [
        int(
            (
                randomizer._bucket(function, np.full(function.size, v, dtype=np.uint64)) == bucket
            ).sum()
        )
        for v in range(30)
    ]
    assert randomizer._support(randomizer.tally(reports).counts).tolist() == slow


def test_too_large_a_domain_is_refused_with_a_remedy() -> None:
    with pytest.raises(PlanError, match="hadamard"):
        LocalHashing(10_000, 1)
    with pytest.raises(PlanError, match="hadamard"):
        UnaryEncoding(100_000, 1)
    with pytest.raises(PlanError, match="power of two"):
        HadamardResponse(10, 1, blocks=3)


def test_blocks_grow_with_epsilon() -> None:
    assert [HadamardResponse(1024, e).blocks for e in ("1/2", 2, 4)] == [1, 4, 32]
