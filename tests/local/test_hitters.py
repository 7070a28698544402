"""Heavy hitters: the planted ones are found with honest intervals, and nothing is found where
nothing is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dpublish.errors import InputError, PlanError
from dpublish.local import HeavyHitters
from dpublish.local.hitters import _prefixes
from dpublish.noise.source import SeededNoise


def test_common_values_of_a_huge_domain_are_found() -> None:
    """Intervals hold together at 95 %; the two values are 15 and 9 standard errors from 0 (fixed
    seed)."""
    domain = (1 << 30) + 12345
    values = np.random.default_rng(1).integers(0, domain, 60_000)
    values[:18_000], values[18_000:29_000] = domain - 1, 7
    randomizer = HeavyHitters(domain, 3)
    assert len(randomizer.prefixes) > 1
    found = randomizer.aggregate(randomizer.randomize(values, coins=SeededNoise(2)))
    assert [hitter.code for hitter in found] == [domain - 1, 7]
    for hitter, true in zip(found, (18_000, 11_000), strict=True):
        assert hitter.estimate.low <= true <= hitter.estimate.high
        assert hitter.name == str(hitter.code)


def test_a_small_domain_is_counted_and_named() -> None:
    randomizer = HeavyHitters(["tea", "coffee", "water"], 2)
    found = randomizer.aggregate(
        randomizer.randomize([1] * 3000 + [2] * 2000, coins=SeededNoise(2)), most=2
    )
    assert [hitter.name for hitter in found] == ["coffee", "water"]


def test_nothing_is_found_where_nothing_is_common() -> None:
    """20 surveys; each may err with probability at most 5 % one-sidedly 2.5 %: 5 or more has
    probability below 4e-4."""
    false = 0
    randomizer = HeavyHitters(1 << 20, 1)
    for seed in range(20):
        values = np.random.default_rng(seed).integers(0, 1 << 20, 3000)
        false += bool(randomizer.aggregate(randomizer.randomize(values, coins=SeededNoise(seed))))
    assert false < 5


def test_a_stage_without_reports_gives_nothing() -> None:
    randomizer = HeavyHitters(1 << 20, 1)
    assert randomizer.aggregate([0]) == []


def test_every_stage_looks_at_more_bits() -> None:
    for length in range(1, 49):
        prefixes = _prefixes(length)
        assert prefixes[-1] == length
        assert all(0 < b - a <= 6 for a, b in itertools.pairwise(prefixes))


@pytest.mark.parametrize("domain", [1, 0, True, (1 << 48) + 1, ["a"], ["a", "a"]])
def test_bad_domains_are_refused(domain: Any) -> None:
    with pytest.raises(PlanError):
        HeavyHitters(domain, 1)


def test_reports_outside_the_protocol_are_refused() -> None:
    randomizer = HeavyHitters(1 << 20, 1)
    stages = len(randomizer.prefixes)
    too_long = (2 << randomizer.prefixes[0]) * stages
    for report in (too_long, (2 << 20) * stages, -1):
        with pytest.raises(InputError, match="outside the protocol"):
            randomizer.aggregate([0, report])
    with pytest.raises(PlanError):
        randomizer.aggregate([0], most=0)
