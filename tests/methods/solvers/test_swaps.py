"""The swaps of a k-median search: fast = slow, bounds that hold, and a lazy search that is the full
one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpublish.declare.schema import Schema
from dpublish.methods.solvers.k_median.demand import far_places
from dpublish.methods.solvers.k_median.kernels import FAR_SLACK, NEAR_SLACK
from dpublish.methods.solvers.k_median.mechanism import KMedian
from dpublish.methods.solvers.k_median.metric import Metric, PointMetric
from dpublish.methods.solvers.k_median.swaps import PointSearch, SwapScores, swap_search
from dpublish.noise.source import SeededNoise
from dpublish.noise.tape import Recorder
from dpublish.privacy.cost import Cost

SCHEMA = Schema(name="tiny", neighbours="add-remove-one")


def metric(kind: str, count: int, seed: int) -> Metric:
    draw = np.random.default_rng(seed)
    if kind == "sphere":
        return Metric.haversine(
            draw.uniform(-90, 90, count), draw.uniform(-180, 180, count), cap=9000.0
        )
    points = draw.random((count, 2))
    if kind == "plane":
        return Metric.euclidean(points)
    return Metric.matrix(np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1)))


@pytest.mark.parametrize("kind", ["sphere", "plane", "matrix"])
@pytest.mark.parametrize("k", [1, 4])
def test_swap_costs_are_those_of_the_definition(kind: str, k: int) -> None:
    count = 150
    places = metric(kind, count, 1)
    rows = np.array([places.row(i) for i in range(count)])
    assert (rows == rows.T).all()
    assert rows.max() <= places.diameter
    draw = np.random.default_rng(2)
    demand = draw.integers(0, 4, count)
    search = swap_search(places, far_places(places, k), demand)
    for _ in range(12):
        costs, outside = search.swap_costs()
        assert search.cost == demand @ rows[search.sites].min(axis=0)
        for x, y in zip(draw.integers(0, k, 15), draw.integers(0, len(outside), 15), strict=True):
            sites = search.sites.copy()
            sites[x] = outside[y]
            assert costs[x, y] == demand @ rows[sites].min(axis=0)
        search.swap(int(draw.integers(k)), int(outside[draw.integers(len(outside))]))


@pytest.mark.parametrize(
    ("kind", "groups"), [("sphere", 1), ("sphere", 8), ("plane", 40), ("plane", 1024)]
)
def test_bounds_of_groups_contain_the_cost_of_every_swap(kind: str, groups: int) -> None:
    count, k = 200, 4
    places = metric(kind, count, 5)
    assert isinstance(places, PointMetric)
    draw = np.random.default_rng(6)
    search = PointSearch(places, far_places(places, k), draw.integers(0, 3, count), groups=groups)
    for _ in range(10):
        scores = SwapScores(search)
        exact = scores.exact(np.arange(int(scores.starts[-1])))
        costs, outside = search.swap_costs()
        assert exact.reshape(k, -1)[:, np.argsort(scores.outside)].tolist() == (-costs).tolist()
        assert sorted(scores.outside.tolist()) == outside.tolist()
        for group, (low, high) in enumerate(itertools.pairwise(scores.starts.tolist())):
            assert (
                low == high
                or scores.low[group]
                <= exact[low:high].min()
                <= exact[low:high].max()
                <= scores.high[group]
            )
        search.swap(int(draw.integers(k)), int(outside[draw.integers(len(outside))]))


def test_the_lazy_search_is_the_full_one_word_for_word() -> None:
    """A recorder hands the tap all exact scores, so an equal result means that leaving scores out
    changed nothing."""
    places = metric("sphere", 300, 7)
    mechanism = KMedian(k=3, metric=places, rule="search", steps=25)
    demand = np.random.default_rng(8).integers(0, 40, 300)
    for epsilon in (1, 100):
        plan = mechanism.plan(SCHEMA, Cost.pure(epsilon))
        lazy = mechanism.run(SeededNoise(epsilon), demand, plan).tables["chosen"]["site"]
        full = mechanism.run(Recorder(SeededNoise(epsilon)), demand, plan).tables["chosen"]["site"]
        assert lazy.tolist() == full.tolist()


def test_rounded_distances_nearly_obey_the_triangle_inequality() -> None:
    """Also close to the antipodes, where single precision is at its worst: this is what the bounds
    of groups rest on."""
    draw = np.random.default_rng(9)
    spread = draw.normal(size=(300, 3))
    shift = draw.normal(size=(300, 3)) * 10.0 ** draw.uniform(-8, -1, (300, 1))
    points = np.concatenate([spread, spread + shift, -spread - shift, -spread])
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    places = Metric.haversine(
        np.degrees(np.arcsin(points[:, 2])), np.degrees(np.arctan2(points[:, 1], points[:, 0]))
    )
    assert isinstance(places, PointMetric)
    rows = np.array([places.row(i) for i in range(places.size)])
    near, far = 0, 0
    for a, b in itertools.product(range(0, 1200, 13), range(0, 1200, 29)):
        # how much farther c is from a than by way of b, for all c
        excess = np.abs(rows[a] - rows[b]) - rows[a, b]
        close = rows[[a, b]].max(axis=0) + rows[a, b] + NEAR_SLACK <= places.edge
        near, far = max(near, int(excess[close].max(initial=0))), max(far, int(excess.max()))
    assert near <= NEAR_SLACK
    assert far <= FAR_SLACK
