"""Lower bounds against the best private method of all, found by linear programming on small
instances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dpublish.declare.schema import Schema
from dpublish.methods.solvers.inputs import lists_of
from dpublish.methods.solvers.k_median.mechanism import KMedian
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.methods.solvers.min_cut.mechanism import MinCut
from dpublish.methods.solvers.planning import cover_factor, cut_excess, missed
from dpublish.methods.solvers.public_projects.mechanism import PublicProjects
from dpublish.methods.solvers.set_cover.mechanism import SetCover
from dpublish.methods.solvers.vertex_cover.mechanism import VertexCover
from dpublish.privacy.cost import Cost

SCHEMA = Schema(name="s", neighbours="add-remove-one")


def least_loss(
    inputs: Sequence[Any], outputs: Sequence[Any], loss: Callable[[Any, Any], float], epsilon: float
) -> float:
    """The least worst expected loss of an epsilon-private method: inputs are tuples of counts,
    neighbours differ by one."""
    from scipy.optimize import linprog

    number, each = {one: place for place, one in enumerate(inputs)}, len(outputs)
    size = len(inputs) * each + 1  # the last unknown is the worst loss
    limits, sums = [], []
    for given, place in number.items():
        row, total = np.zeros(size), np.zeros(size)
        row[place * each : (place + 1) * each] = [loss(given, output) for output in outputs]
        row[-1] = -1
        total[place * each : (place + 1) * each] = 1
        limits.append(row)
        sums.append(total)
        for item in range(len(given)):
            other = number.get((*given[:item], given[item] + 1, *given[item + 1 :]))
            for output in range(each if other is not None else 0):
                for one, two in ((place, other), (other, place)):
                    near = np.zeros(size)
                    near[one * each + output], near[two * each + output] = 1, -math.exp(epsilon)
                    limits.append(near)
    found = linprog(
        np.eye(size)[-1],
        A_ub=np.array(limits),
        b_ub=np.zeros(len(limits)),
        A_eq=np.array(sums),
        b_eq=np.ones(len(sums)),
    )
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0])
def test_no_private_cut_beats_the_bound(epsilon: float) -> None:
    pairs = list(itertools.combinations(range(4), 2))
    cuts = list(range(1, 8))

    def crossing(graph: Sequence[int], cut: int) -> int:
        return sum(
            there for there, (u, v) in zip(graph, pairs, strict=True) if (cut >> u ^ cut >> v) & 1
        )

    graphs = list(itertools.product((0, 1), repeat=6))
    best = {graph: min(crossing(graph, cut) for cut in cuts) for graph in graphs}
    least = least_loss(graphs, cuts, lambda graph, cut: crossing(graph, cut) - best[graph], epsilon)
    assert cut_excess(4, epsilon) <= least + 1e-9


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0])
def test_no_private_cover_beats_the_bound(epsilon: float) -> None:
    pairs = [(0, 1), (0, 2), (1, 2)]

    def factor(graph: Sequence[int], ends: Sequence[int]) -> float:
        used = {pair[end] for there, pair, end in zip(graph, pairs, ends, strict=True) if there}
        least = 2 if sum(graph) == 3 else 1
        return len(used) / least

    every = list(itertools.product((0, 1), repeat=3))
    assert 1 <= cover_factor(3, epsilon) <= least_loss(every, every, factor, epsilon) + 1e-9


@pytest.mark.parametrize("epsilon", [0.15, 0.3, 1.0, 4.0])
def test_no_private_sites_beat_the_bound(epsilon: float) -> None:
    most = 3
    demand = list(itertools.product(range(most + 1), repeat=3))
    least = least_loss(demand, range(3), lambda points, site: max(points) - points[site], epsilon)
    # the proof's demand must be among the inputs
    assert math.log(3) / (2 * epsilon) < most + 1
    assert missed(3, 1, epsilon) <= least + 1e-9


def test_bounds_are_possible_and_fall_with_epsilon() -> None:
    """Ten vertices have no cut of 77 edges, and two sets no cover of 17 times the smallest."""
    for size in (2, 3, 10, 1000, 10**6):
        for bound, most in ((cut_excess, size), (cover_factor, size)):
            found = [bound(size, epsilon) for epsilon in (1e-9, 1e-3, 0.01, 0.1, 1.0, 10.0, 1000.0)]
            assert found == sorted(found, reverse=True)
            assert found[0] <= most
    assert missed(10, 9, 0.1) == missed(10, 10, 0.1) == 0.0
    assert cut_excess(10**4, 0.5, 1e-9) > 0.99 * cut_excess(10**4, 0.5) > 5
    assert cover_factor(100, 0.05, 0.9) == 1.0


def test_plans_state_bounds_below_what_they_promise() -> None:
    sets = lists_of([[0, 1], [1]])
    for epsilon in ("0.001", "0.1", "1", "20"):
        pure, approximate = Cost.pure(epsilon), Cost.approximate(epsilon, "1e-6")
        cut = MinCut(vertices=10).plan(SCHEMA, pure).facts
        assert cut["lower_bound"]["additive"] <= min(9, cut["bound"]["additive"])
        cover = VertexCover(vertices=5, rule="schedule").plan(SCHEMA, pure).facts
        assert 1 <= cover["lower_bound"]["factor"] <= min(5, cover["bound"]["factor"])
        family = SetCover(sets=sets, elements=2, rule="greedy").plan(SCHEMA, approximate).facts
        assert 1 <= family["lower_bound"]["factor"] <= 2
        sites = KMedian(k=3, metric=Metric.matrix(1.0 - np.eye(4))).plan(SCHEMA, pure).facts
        assert sites["lower_bound"]["additive"] == 0.0
        assert (
            sites["lower_bound"]["text"] == "theorem 47 rules nothing out at this size and epsilon."
        )
        projects = PublicProjects(k=2, resources=9).plan(SCHEMA, pure).facts
        assert projects["bound"]["additive"] <= projects["lower_bound"]["additive"] <= 0
