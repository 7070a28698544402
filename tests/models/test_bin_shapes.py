"""Inside a bin rows lie nearer to its dense neighbour: shares, means and draws agree with each
other, and skewed columns come back with means that even bins would miss."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpublish.declare.domain import Axis
from dpublish.models.bin_shapes import (
    MAX_TILT,
    NEAR,
    bin_means,
    learn_tilts,
    mean_place,
    part_between,
    place_in_bin,
    place_of,
    share_below,
    tilted,
)

TILTS = np.array([-700.0, -30.0, -1.0, -1e-5, 0.0, 1e-5, 2.0, 50.0, 700.0])


@pytest.mark.parametrize("tilt", TILTS.tolist())
def test_shares_places_and_means_are_of_one_density(tilt: float) -> None:
    share = np.linspace(0, 1, 200_001)
    place = place_of(np.full_like(share, tilt), share)
    assert (np.diff(place) >= 0).all()
    every = np.full(share.size, TILTS.tolist().index(tilt))
    assert np.array_equal(place_in_bin(TILTS, every, share), place)
    assert place[0] == 0
    assert place[-1] == pytest.approx(1, abs=1e-4)
    assert share_below(np.full_like(share, tilt), place) == pytest.approx(share, abs=1e-6)
    mean = float((place[1:] + place[:-1]).mean() / 2)
    assert float(mean_place(np.array([tilt]))[0]) == pytest.approx(mean, abs=1e-5)


@pytest.mark.parametrize("tilt", [-MAX_TILT, -1e5, 1e5, MAX_TILT])
def test_rows_may_crowd_at_one_end(tilt: float) -> None:
    """As in the last bin of incomes, whose upper bound is a guess: without warnings, and half of
    the rows lie within one part in |tilt| of the end."""
    share = np.array([0.0, 0.25, 0.5, 0.75, 1 - 1e-12])
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        place = place_of(np.full(5, tilt), share)
        assert share_below(np.full(5, tilt), place) == pytest.approx(share, abs=1e-6)
        mean = float(mean_place(np.array([tilt]))[0])
    assert abs(place[2] - (tilt > 0)) == pytest.approx(math.log(2) / abs(tilt), rel=1e-6)
    assert abs(mean - (tilt > 0)) == pytest.approx(1 / abs(tilt), rel=1e-6)


def test_a_long_bin_beside_a_dense_one_holds_its_rows_near_it() -> None:
    """500 rows from 100 to a bound of a million, beside 500 from 50 to 100: as dense at the edge
    as NEAR says, and so for the bin between."""
    widths, counts = np.array([50.0, 999_900.0]), np.array([500.0, 500.0])
    assert learn_tilts(widths, counts, 1.0)[1] == pytest.approx(-(19_998.0**NEAR), rel=1e-6)
    widths, counts = np.array([50.0, 900_000.0, 99_900.0]), np.array([500.0, 500.0, 1.0])
    assert learn_tilts(widths, counts, 1.0)[1] == pytest.approx(-(18_000.0**NEAR), rel=1e-6)


def test_a_narrow_bin_in_the_noise_is_not_taken_for_a_dense_one() -> None:
    """30 rows, with noise of deviation 50, in a hundredth of the width: they may be none, so the
    long bin beside them does not crowd there; ten times as many would be there for sure."""
    widths = np.array([1.0, 100.0, 10.0])
    few, many = (learn_tilts(widths, np.array([n, 1000.0, 100.0]), 50.0) for n in (30.0, 300.0))
    assert abs(few[1]) < 3
    assert many[1] < -10


def test_even_counts_are_spread_evenly_and_heaps_say_nothing() -> None:
    heap = np.array([1.0, 0.0, 1.0]), np.array([100.0, 9999.0, 100.0]), 1.0
    noise = np.ones(3), np.array([1.0, -7.0, 3.0]), 50.0
    for case in ((np.ones(5), np.full(5, 100.0), 1.0), (np.ones(1), np.ones(1), 1.0), heap, noise):
        assert learn_tilts(*case) == pytest.approx(np.zeros(len(case[0])), abs=1e-8)


def test_rows_lean_towards_the_denser_neighbour() -> None:
    found = learn_tilts(np.ones(5), np.array([10.0, 50.0, 200.0, 50.0, 10.0]), 1.0)
    assert (found[:2] > 0).all()
    assert (found[3:] < 0).all()
    assert found[2] == pytest.approx(0)
    assert found == pytest.approx(-found[::-1])


@pytest.mark.parametrize("kind", ["real", "integer", "date"])
def test_means_stay_in_their_bins(kind: str) -> None:
    edges = (1, 2, 5, 40, 3000)
    axis = Axis("x", kind, edges=tuple(float(e) for e in edges) if kind == "real" else edges)  # type: ignore[arg-type]
    even = bin_means(axis)
    assert even.tolist() == [axis.midpoint(code) for code in range(4)]
    for counts in ([1000.0, 800.0, 90.0, 5.0], [0.0, 1.0, 2.0, 90_000.0]):
        shaped = tilted(axis, np.diff(np.array(edges, dtype=float)), np.array(counts), 1.0)
        means = bin_means(shaped)
        last = np.array(edges[1:]) - (kind != "real")
        assert (np.array(edges[:-1]) <= means).all()
        assert (means <= last).all()
        assert shaped == axis  # a guess is no part of what a column is
        assert part_between(shaped, 3, 40, 3000) == pytest.approx(1)
        parts = part_between(shaped, 3, 40, 500), part_between(shaped, 3, 500, 3000)
        assert sum(parts) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(3))
def test_means_of_skewed_columns_come_back(seed: int) -> None:
    """Counts without noise, in bins of equal numbers of rows between declared bounds; even bins
    are off by a half to five times the mean."""
    rng = np.random.default_rng(seed)
    skewed = rng.lognormal(9, 1, 20_000), rng.exponential(2e4, 20_000), rng.gamma(2, 2e4, 20_000)
    for values in skewed:
        inner = np.quantile(values, np.linspace(0, 1, 21)[1:-1])
        edges = np.array([0.0, *inner, 1e6])
        counts = np.histogram(values, edges)[0].astype(float)
        tilts = learn_tilts(np.diff(edges), counts, 10.0)
        place = np.stack([mean_place(tilts), np.full(len(tilts), 0.5)])
        means = (counts * (edges[:-1] + place * np.diff(edges))).sum(axis=1) / counts.sum()
        off = np.abs(means / values.mean() - 1)
        assert off[0] < 0.12
        assert off[1] > 0.4
        assert math.isfinite(off[0])
