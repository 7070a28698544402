"""What README.md says, from results.json: all of it."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

SIZE, ACROSS = 12, 3


def parts(results: dict[str, Any]) -> list[str]:
    """The whole page."""
    from benchmarks.papers.roth2010_optimize.draw import write_page

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "README.md"
        write_page(results["results.json"], path)
        return path.read_text(encoding="utf-8").split("\n\n")


def again() -> dict[str, float]:
    """A small made-up instance of every problem, by the rules, epsilons and seeds of the page:
    those of the page take a minute and more."""
    from benchmarks.papers.roth2010_optimize.__main__ import cover_price, covered_by, sweep

    from dpublish.methods.solvers.inputs import edges_of, lists_of
    from dpublish.methods.solvers.k_median.mechanism import KMedian
    from dpublish.methods.solvers.k_median.metric import Metric
    from dpublish.methods.solvers.min_cut.mechanism import MinCut
    from dpublish.methods.solvers.public_projects.mechanism import PublicProjects
    from dpublish.methods.solvers.set_cover.mechanism import SetCover
    from dpublish.methods.solvers.vertex_cover.mechanism import VertexCover

    draw = np.random.default_rng(1)
    count = 2 * SIZE
    pairs = np.array(list(itertools.combinations(range(count), 2)))
    inside = (pairs[:, 0] < SIZE) == (pairs[:, 1] < SIZE)
    pairs = pairs[inside & (draw.random(len(pairs)) < 0.8)]
    edges = edges_of(np.concatenate([pairs, [(i, SIZE + i) for i in range(ACROSS)]]))
    lists = lists_of([np.flatnonzero(row) for row in draw.random((40, count)) < 0.2])
    costs = tuple(draw.integers(1, 9, len(lists)).tolist())
    present, demand = np.ones(count, dtype=np.int64), draw.integers(0, 50, count)
    places = draw.random((count, 2))
    far = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    rows = np.repeat(np.arange(len(lists)), np.diff(lists.starts))

    def cut(tables: Any) -> float:
        side = tables["sides"]["side"]
        return float((side[edges.heads] != side[edges.tails]).sum())

    def cover(tables: Any) -> float:
        return covered_by(edges, count, tables["order"]["vertex"])

    def price(tables: Any) -> float:
        return cover_price(lists, np.array(costs, dtype=float), count, tables["order"]["set"])

    def served(tables: Any) -> float:
        return float((demand * far[:, tables["chosen"]["site"]].min(axis=1)).sum())

    def happy(tables: Any) -> float:
        return float(len(np.unique(rows[np.isin(lists.items, tables["chosen"]["resource"])])))

    cuts, medians = (
        MinCut(vertices=count, rule="near-minimum"),
        KMedian(k=3, metric=Metric.matrix(far), rule="search"),
    )
    covers = SetCover(sets=lists, elements=count, costs=costs, rule="weighted")
    projects = PublicProjects(k=3, resources=count, cost_share=0)
    found: dict[str, float] = {}
    for name, mechanism, numbers, measure, delta in (
        ("cut", cuts, edges, cut, True),
        ("schedule", VertexCover(vertices=count, rule="schedule"), edges, cover, False),
        ("two-phase", VertexCover(vertices=count, rule="two-phase"), edges, cover, False),
        ("set cover", covers, present, price, True),
        ("k-median", medians, demand, served, False),
        ("projects", projects, lists, happy, False),
    ):
        case = sweep(mechanism, numbers, 1.0, measure, 2, delta=delta)
        for key in ("ratio", "bound", "lower"):
            found |= {
                f"{name}, {key}, epsilon {epsilon}": value
                for epsilon, value in zip(case["epsilon"], case[key], strict=True)
            }
    return found
