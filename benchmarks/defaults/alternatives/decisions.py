"""Decisions: when plans name what is public and costs nothing, and when min-cut leaves a delta."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.defaults.alternatives.common import Case, Sentence, log_uniform, says
from benchmarks.defaults.min_cut import KINDS, graph

from dpublish.declare.schema import Schema
from dpublish.methods.solvers.inputs import edges_of, lists_of
from dpublish.methods.solvers.k_median.demand import reach_of
from dpublish.methods.solvers.k_median.mechanism import KMedian
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.methods.solvers.min_cut.contraction import crossing
from dpublish.methods.solvers.min_cut.mechanism import MinCut
from dpublish.methods.solvers.set_cover.mechanism import SetCover
from dpublish.methods.solvers.set_cover.orders import first_holders
from dpublish.methods.solvers.vertex_cover.mechanism import VertexCover, order_cost
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

SCHEMA = Schema(name="bench", neighbours="add-remove-one")


def k_median_case(draw: np.random.Generator) -> Case:
    """Cost of the sites; the public ones are the best for even demand."""
    size, rows = int(draw.choice([60, 200])), int(log_uniform(draw, 20, 6_000))
    at = draw.random((size, 2)) * 1000
    if draw.random() < 0.5:
        towns = draw.random((max(3, size // 15), 2)) * 1000
        at = towns[draw.integers(0, len(towns), size)] + draw.normal(0, 20, (size, 2))
    spread = draw.lognormal(0, float(draw.choice([0.5, 1.5])), size)
    if draw.random() < 0.3:
        spread = (at.sum(axis=1) < 700) + 0.05
    metric, cost = Metric.euclidean(at), Cost.pure(str(draw.choice(["1/10", "1"])))
    k = int(draw.choice([2, 5]))
    solver = KMedian(k=k, metric=metric, nominal_size=rows)
    plan = solver.plan(SCHEMA, cost)

    def errors(seed: int) -> tuple[float, float]:
        demand = np.random.default_rng(seed).multinomial(rows, spread / spread.sum())
        out = solver.run(SeededNoise(seed), demand, plan)
        own, other = (
            float(demand @ reach_of(metric, np.asarray(out.tables[which]["site"])))
            for which in ("chosen", "public")
        )
        return own, other

    facts = {"places": size, "rows": rows, "k": k, "epsilon": float(cost.epsilon)}
    return Case(warned=says(plan, "Take the public sites"), errors=errors, facts=facts)


def vertex_cover_case(draw: np.random.Generator) -> Case:
    """Vertices of the cover; the public order is as they are listed. The plan names nothing: it did
    where a vertex has few edges on average, and was wrong, since those with many stand out."""
    count = int(log_uniform(draw, 50, 1_000))
    edges_wanted = int(count * log_uniform(draw, 0.3, 30))
    heavy = draw.pareto(float(draw.choice([1.5, 4.0])), count) + 1
    ends = draw.choice(count, (edges_wanted, 2), p=heavy / heavy.sum())
    edges, ones = edges_of(ends[ends[:, 0] != ends[:, 1]]), np.ones(count, dtype=np.int64)
    cost = Cost.pure(str(draw.choice(["1/10", "3/10", "1"])))
    solver = VertexCover(vertices=count, nominal_size=len(edges))
    plan = solver.plan(SCHEMA, cost)
    public = float(order_cost(edges, np.arange(count), ones))

    def errors(seed: int) -> tuple[float, float]:
        order = solver.run(SeededNoise(seed), edges, plan).tables["order"]["vertex"]
        return float(order_cost(edges, np.asarray(order), ones)), public

    facts = {"vertices": count, "edges": len(edges), "epsilon": float(cost.epsilon)}
    return Case(warned=says(plan, "costs nothing"), errors=errors, facts=facts)


def set_cover_case(draw: np.random.Generator) -> Case:
    """Cost of the sets that are used; the public order covers all elements."""
    count = int(draw.choice([60, 150]))
    rows = [draw.choice(count, 6, replace=False).tolist() for _ in range(2 * count)]
    sets = lists_of([*rows, *([one] for one in range(count))])
    costs = draw.integers(1, 100, len(sets)).tolist() if draw.random() < 0.5 else None
    prices = np.ones(len(sets)) if costs is None else np.array(costs, dtype=float)
    share = float(draw.choice([0.1, 0.3, 0.5, 1.0]))
    cost = Cost.pure(str(draw.choice(["1/20", "1/5", "1/2", "1", "2"])))
    solver = SetCover(sets=sets, elements=count, costs=costs)
    plan = solver.plan(SCHEMA, cost)

    def errors(seed: int) -> tuple[float, float]:
        present = (np.random.default_rng(seed).random(count) < share).astype(np.int64)
        out = solver.run(SeededNoise(seed), present, plan)
        paid = []
        for which in ("order", "public"):
            order = np.asarray(out.tables[which]["set"])
            first = first_holders(plan.settings.parts[0], order)[present > 0]
            paid.append(float(prices[np.unique(first)].sum()))
        return paid[0], paid[1]

    facts = {"elements": count, "present": share, "epsilon": float(cost.epsilon)}
    words = "the public order costs nothing"
    return Case(warned=says(plan, words), errors=errors, facts=facts)


def min_cut_case(draw: np.random.Generator) -> Case:
    epsilon = str(draw.choice(["1", "3", "10", "30"]))
    return cut_case(draw, int(log_uniform(draw, 19, 120)), epsilon)


def large_cut_case(draw: np.random.Generator) -> Case:
    return cut_case(draw, int(log_uniform(draw, 60, 160)), str(draw.choice(["20", "40", "80"])))


def cut_case(draw: np.random.Generator, count: int, epsilon: str) -> Case:
    """Edges cut by "either" beside those of one vertex parted with all of epsilon. By default a
    delta is left out wherever the plan of "either" says so."""
    kind = str(draw.choice(KINDS))
    both, pure = Cost.approximate(epsilon, "1e-6"), Cost.pure(epsilon)
    ways: list[Any] = [
        (solver, solver.plan(SCHEMA, cost))
        for solver, cost in (
            (MinCut(vertices=count, rule="either"), both),
            (MinCut(vertices=count, rule="vertex"), pure),
        )
    ]
    first = int(draw.integers(1 << 30))

    def errors(seed: int) -> tuple[float, float]:
        edges = graph(kind, count, np.random.default_rng([first, seed]))
        own, other = (
            crossing(
                edges,
                np.asarray(
                    solver.run(SeededNoise(seed), edges, plan).tables["sides"]["side"],
                    dtype=np.bool_,
                ),
            )
            for solver, plan in ways
        )
        return float(own), float(other)

    facts = {"vertices": count, "kind": kind, "epsilon": float(pure.epsilon)}
    return Case(warned=says(ways[0][1], "leave delta out"), errors=errors, facts=facts)


SENTENCES = (
    Sentence(method="k-median", names="the public sites", case=k_median_case, cases=24, slack=0.02),
    Sentence(
        method="vertex-cover",
        names="nothing (beside the public order)",
        case=vertex_cover_case,
        cases=20,
        slack=0.02,
    ),
    Sentence(
        method="set-cover", names="the public order", case=set_cover_case, cases=20, slack=0.02
    ),
    Sentence(
        method="min-cut",
        names="no delta (rule = 'either')",
        case=min_cut_case,
        cases=12,
        least=6,
        most=18,
    ),
    Sentence(
        method="min-cut",
        names="no delta, large graphs or epsilon",
        case=large_cut_case,
        cases=10,
        least=6,
        most=12,
    ),
)
