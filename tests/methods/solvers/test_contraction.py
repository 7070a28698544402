"""Karger and Stein: what random contraction finds, how often, and that the cut it leads to has the
law of the full list."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.solvers.inputs import edges_of
from dpublish.methods.solvers.min_cut.contraction import LEAF, Contraction, Padding, contracted_cuts
from dpublish.methods.solvers.min_cut.kernels import cut_costs, smallest_cut
from dpublish.methods.solvers.min_cut.mechanism import (
    MinCut,
    miss_surety,
    near_minimum_cut,
    near_minimum_targets,
)
from dpublish.noise.enumerator import Enumerator
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

SCHEMA = Schema(name="tiny", neighbours="add-remove-one")
Graph = tuple[Any, Any, Any]


def weighted_graph(seed: int, count: int) -> Graph:
    draw = np.random.default_rng(seed)
    ring = [(i, (i + 1) % count) for i in range(count)]
    pairs = sorted(
        {(min(p), max(p)) for p in ring}
        | {p for p in itertools.combinations(range(count), 2) if draw.random() < 0.5}
    )
    array = np.array(pairs, dtype=np.int64)
    return (
        np.ascontiguousarray(array[:, 0]),
        np.ascontiguousarray(array[:, 1]),
        draw.integers(1, 6, len(pairs)),
    )


def cuts_within(count: int, graph: Graph, limit: int) -> dict[tuple[int, ...], int]:
    """All cuts of at most `limit`, by the vertices on the side without vertex 0."""
    costs = cut_costs(count, *graph)
    found = {}
    for code in (np.flatnonzero(costs <= limit) + 1).tolist():
        side = [bool(code >> v & 1) for v in range(count)]
        found[tuple(v for v in range(count) if side[v] != side[0])] = int(costs[code - 1])
    return found


@pytest.mark.parametrize("seed", range(12))
def test_all_near_minimum_cuts_are_found(seed: int) -> None:
    """Surety 20: a miss would happen with chance exp(-20) a graph. Room for 1,024 cuts is outgrown
    by none or by few."""
    count = 4 + seed
    graph = weighted_graph(seed, count)
    least = int(smallest_cut(count, *graph, 1 << 40))
    alpha = 1.6
    limit = int(alpha * least)
    costs, sides = contracted_cuts(
        SeededNoise(seed), *graph, Contraction(count, alpha), limit, 20.0
    )
    found = {
        tuple(np.flatnonzero(side).tolist()): int(cost)
        for cost, side in zip(costs, sides, strict=True)
    }
    assert found == cuts_within(count, graph, limit)
    assert len(found) == len(costs)


def test_more_cuts_than_there_was_room_for() -> None:
    """A cycle has n (n - 1) / 2 smallest cuts: 1,770 for 60 vertices."""
    ring = np.arange(60, dtype=np.int64)
    graph = ring, (ring + 1) % 60, np.ones(60, dtype=np.int64)
    costs, sides = contracted_cuts(SeededNoise(3), *graph, Contraction(60, 1.0), 2, 3.0)
    assert len(costs) == len(np.unique(sides, axis=0)) == 60 * 59 // 2
    assert set(costs.tolist()) == {2}


def test_a_round_finds_a_cut_as_often_as_is_proved() -> None:
    """A cycle of 14 vertices meets the bound with equality up to the leaves. 300 rounds, every cut;
    six standard deviations.

    A survival bound of 1 - alpha / i in place of 1 - 2 alpha / i would be above what is seen and is
    caught.
    """
    count, rounds = 14, 300
    ring = np.arange(count, dtype=np.int64)
    graph = ring, (ring + 1) % count, np.ones(count, dtype=np.int64)
    plan = Contraction(count, 1.0)
    wrong = Contraction(count, 0.5)
    seen = 0
    for seed in range(rounds):
        one = contracted_cuts(SeededNoise(seed), *graph, plan, 2, 1e-9 - 2 * np.log(count))[
            0
        ]  # exactly one round
        seen += len(one)
    cuts = count * (count - 1) // 2
    share = seen / (rounds * cuts)
    # cuts of a round are dependent: the variance of the share is at most that of one cut
    margin = 6 * np.sqrt(0.25 / rounds)
    assert plan.found - margin <= share
    assert wrong.found > share + margin


def test_rounds_follow_from_the_chance_of_one() -> None:
    plan = Contraction(200, 1.4)
    assert plan.sizes[0] == 200
    assert plan.sizes[-1] == LEAF
    assert all(a > b for a, b in itertools.pairwise(plan.sizes))
    assert 0.05 < plan.found < 1
    missed = 200**2.8 * (1 - plan.found) ** plan.rounds(15.0)
    assert missed <= np.exp(-15.0)
    assert Contraction(5, 1.4).rounds(15.0) == 1


def test_the_cut_has_the_law_of_the_full_list() -> None:
    """Exact: stage two over the key of the contractions and all choices, in base 2, against
    listing."""
    count = 9
    draw = np.random.default_rng(2)
    edges = edges_of(draw.integers(0, count, (16, 2)))
    target, spread, beyond = near_minimum_targets(count, Cost.approximate(30, "1e-3"), shares=3)
    padding = Padding(count, 1, target + spread)
    level = padding.levels // 3
    from dpublish.methods.solvers.min_cut.mechanism import least_cut

    least = least_cut(edges, padding, level, 1 << 60, 0)
    laws = []
    for contraction in (None, (1 + beyond / least, 25.0)):

        def run(noise: Any, data: Any, contraction: Any = contraction) -> Any:
            side = near_minimum_cut(
                noise, data, padding, level, least, beyond, Fraction(1), contraction
            )
            return tuple((side ^ side[0]).tolist())

        laws.append(Enumerator(base=2).law(run, edges))
    assert len(laws[0]) > 3
    assert laws[0] == laws[1]


def test_planted_contraction_that_stops_after_one_round() -> None:
    """Its list misses cuts far more often than the share of delta that pays for that."""
    count = 40
    ring = np.arange(count, dtype=np.int64)
    graph = ring, (ring + 1) % count, np.ones(count, dtype=np.int64)
    plan = Contraction(count, 1.0)
    surety = miss_surety(Cost.approximate(1, "1e-6"), 3)
    assert plan.rounds(surety) > 20
    once = contracted_cuts(SeededNoise(1), *graph, plan, 2, 1e-9 - 2 * np.log(count))[0]
    assert len(once) < count * (count - 1) // 2


def test_the_mechanism_finds_a_planted_cut_and_warns() -> None:
    draw = np.random.default_rng(1)
    pairs = [
        p
        for p in itertools.combinations(range(60), 2)
        if (p[0] < 30) == (p[1] < 30) and draw.random() < 0.9
    ]
    edges = edges_of([*pairs, (0, 59)])
    mechanism = MinCut(vertices=60, rule="near-minimum", cuts="karger-stein")
    plan = mechanism.plan(SCHEMA, Cost.approximate(60, "1e-6"))
    assert len(plan.warnings) == 1
    side = mechanism.run(SeededNoise(1), edges, plan).tables["sides"]["side"]
    assert side.tolist() == [False] * 30 + [True] * 30
    large = MinCut(vertices=5000, rule="near-minimum", cuts="karger-stein").plan(
        SCHEMA, Cost.approximate(1, "1e-6")
    )
    assert "rounds of contraction" in large.warnings[1]
    with pytest.raises(PlanError, match="near-minimum"):
        MinCut(vertices=5, cuts="karger-stein").plan(SCHEMA, Cost.pure(1))
    with pytest.raises(PlanError, match="cuts = 'random'"):
        MinCut(vertices=50, cuts="random").plan(SCHEMA, Cost.approximate(1, "1e-6"))  # type: ignore[arg-type]
