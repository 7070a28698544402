"""Cuts drawn with the whole of epsilon from candidates that are public: all cuts of a small graph,
each the less likely beforehand the more vertices it parts off, or the cuts that part one vertex."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.methods.solvers.inputs import Edges
from dpublish.methods.solvers.min_cut.kernels import cut_costs
from dpublish.methods.solvers.planning import estimated_costs
from dpublish.noise.base import IntArray, Noise

GRID = 1 << 10
"""Handicaps are multiples of 1/GRID edges."""
LARGEST_STEP = 1 << 52
"""Of a handicap, for one vertex: scores stay within 64 bits however small epsilon is."""
SURE = 0.05


def handicaps(count: int, epsilon: Fraction) -> IntArray:
    """What a cut is behind before any edge is looked at, in 1/GRID edges: ln n / epsilon for each
    vertex of its smaller side but one. So all cuts of one size are as likely together as those of
    another, up to a factorial. Public."""
    places = np.arange(1, 1 << (count - 1), dtype=np.int64)
    inside = sum((places >> vertex & 1) for vertex in range(count))
    smaller = np.minimum(inside, count - inside)
    step = min(float(LARGEST_STEP), math.log(count) / float(epsilon) * GRID)
    return np.ceil((smaller - 1) * step).astype(np.int64)


def any_cut(noise: Noise, edges: Edges, count: int, epsilon: Fraction) -> Any:
    """One of all cuts, by its edges and its handicap: monotone in an edge."""
    costs = cut_costs(count, edges.heads, edges.tails, np.ones(len(edges), dtype=np.int64))
    place = noise.choose(
        -GRID * costs - handicaps(count, epsilon),
        sensitivity=Fraction(GRID),
        epsilon=epsilon,
        monotone=True,
        label="cut",
    )
    return np.array([(place + 1) >> vertex & 1 for vertex in range(count)], dtype=np.bool_)


def vertex_or_cut(
    noise: Noise, edges: Edges, count: int, epsilon: Fraction, found: Any = None
) -> Any:
    """One vertex against all others, by its degree, or the cut that was found before: an edge
    moves all these costs one way."""
    ends = np.concatenate([edges.heads, edges.tails])
    costs = np.bincount(ends, minlength=count).astype(np.int64)
    if found is not None:
        costs = np.append(costs, crossing(edges, found))
    place = noise.choose(
        -costs, sensitivity=Fraction(1), epsilon=epsilon, monotone=True, label="cut"
    )
    return found if place == count else np.arange(count) == place


def crossing(edges: Edges, side: Any) -> int:
    """How many edges run across. Private."""
    return int((side[edges.heads] != side[edges.tails]).sum())


def cut_cost_facts(
    noise: Noise, edges: Edges, side: Any, epsilon: Fraction, count: int
) -> dict[str, Any]:
    """Noisy costs of the cut and of the public one, which parts the first vertex."""
    public = np.arange(count) == 0
    same = bool((side ^ side[0] == public ^ public[0]).all())
    return estimated_costs(
        noise,
        crossing(edges, side),
        None if same else crossing(edges, public),
        # an edge may run across both
        sensitivity=Fraction(1 if same else 2),
        epsilon=epsilon,
        most=float(count * count // 4),
    )


def reach_of_choice(candidates: float, epsilon: float) -> float:
    """How far a choice among so many falls behind the best, except with probability SURE."""
    return (math.log(candidates) + math.log(1 / SURE)) / epsilon
