"""One small call of every problem of `dp.optimize`: beside the requests of `release_cases`."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SUBSETS = {
    "s1": ("e0", "e1", "e2"),
    "s2": ("e2", "e3"),
    "s3": ("e3", "e4", "e5"),
    "s4": ("e0", "e5"),
    "s5": ("e1", "e4"),
}
POINTS = ((0, 0), (1, 0), (0, 2), (5, 5), (6, 5), (5, 7), (9, 1), (8, 0))


@dataclass(frozen=True)
class Solver:
    """A call of `dp.optimize`."""

    name: str
    problem: str
    rows: Any
    public: Mapping[str, Any]
    cost: Mapping[str, str] = field(default_factory=lambda: {"epsilon": "4"})


def solvers() -> list[Solver]:
    """Every problem with every rule that works on a small input."""
    rng = random.Random(2)
    edges = [pair for pair in itertools.combinations(range(8), 2) if rng.random() < 0.4]
    places = [rng.choice((0, 1, 2, 3, 3, 4, 5)) for _ in range(60)]
    names = [f"v{place}" for place in range(8)]
    near, wide = {"epsilon": "4", "delta": "1e-6"}, {"epsilon": "6", "delta": "1/10"}
    metric = {"metric": POINTS}
    held = [rng.sample(range(10), rng.randint(1, 3)) for _ in range(60)]
    elements = ["e0", "e3", "e4"]
    return [
        Solver("cut", "min_cut", edges, {"vertices": 8}),
        Solver("cut near", "min_cut", edges, {"vertices": 8, "rule": "near-minimum"}, near),
        Solver(
            "cut contracted",
            "min_cut",
            edges,
            {"vertices": 20, "rule": "near-minimum", "cuts": "karger-stein"},
            near,
        ),
        Solver("median", "k_median", places, {"k": 2, **metric}),
        Solver(
            "median exact", "k_median", places, {"k": 2, "rule": "exact", "labels": names, **metric}
        ),
        Solver("cover", "vertex_cover", edges, {"vertices": 8, "size_share": "1/2"}),
        Solver("cover phases", "vertex_cover", edges, {"vertices": 8, "rule": "two-phase"}),
        Solver(
            "cover weighted",
            "vertex_cover",
            edges,
            {"vertices": 8, "weights": [1, 2, 1, 1, 3, 1, 1, 2]},
        ),
        Solver("sets greedy", "set_cover", elements, {"sets": SUBSETS, "rule": "greedy"}, near),
        Solver(
            "sets weighted",
            "set_cover",
            elements,
            {"sets": SUBSETS, "costs": [3, 1, 2, 1, 1]},
            near,
        ),
        Solver(
            "sets any",
            "set_cover",
            elements,
            {"sets": SUBSETS, "costs": [9, 1, 2, 1, 1], "rule": "any-weights"},
            near,
        ),
        Solver("sets exact", "set_cover", elements, {"sets": SUBSETS, "rule": "exact"}),
        Solver(
            "sets classes",
            "set_cover",
            elements,
            {"sets": SUBSETS, "costs": [4, 1, 2, 1, 1], "rule": "classes"},
        ),
        Solver("projects", "public_projects", held, {"k": 3, "resources": 10}),
        Solver("projects delta", "public_projects", held, {"k": 7, "resources": 40}, wide),
        Solver(
            "projects facility",
            "public_projects",
            places,
            {"k": 2, "resources": 8, "worth": "facility", **metric},
        ),
    ]
