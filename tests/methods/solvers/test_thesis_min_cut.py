"""Theorem 41 of the thesis (minimum cut at 2 epsilon) is false: a graph of five vertices on which
the released cut loses more. What is charged here, three stages, holds on the same graphs."""

from __future__ import annotations

import itertools
import math

EPSILON = 7.66
PADDING = ("03", "01", "04", "34", "24", "02", "13", "14", "23", "12")
GRAPH = frozenset({"03", "04", "13", "14"})
EXTRA = "12"
PAIRS = ["".join(map(str, pair)) for pair in itertools.combinations(range(5), 2)]
CUTS = [frozenset(p for p in PAIRS if (s >> int(p[0]) ^ s >> int(p[1])) & 1) for s in range(1, 16)]


def released(graph: frozenset[str], epsilon: float) -> list[float]:
    """The law of the thesis's cut (algorithm 1, simple graphs H_0, ..., H_10): padding number i in
    proportion to exp(-epsilon |OPT(G + H_i) - 8 ln n / epsilon|), then a cut by its cost."""
    target = 8 * math.log(5) / epsilon
    padded = [graph | set(PADDING[:i]) for i in range(len(PADDING) + 1)]
    costs = [[len(one & cut) for cut in CUTS] for one in padded]
    stage = [math.exp(-epsilon * abs(min(row) - target)) for row in costs]
    law = [0.0] * len(CUTS)
    for weight, row in zip(stage, costs, strict=True):
        chances = [math.exp(-epsilon * (cost - min(row))) for cost in row]
        for place, chance in enumerate(chances):
            law[place] += weight / math.fsum(stage) * chance / math.fsum(chances)
    return law


def test_the_cut_of_the_thesis_loses_more_than_two_epsilon() -> None:
    one, other = released(GRAPH, EPSILON), released(GRAPH | {EXTRA}, EPSILON)
    loss = max(abs(math.log(a / b)) for a, b in zip(one, other, strict=True)) / EPSILON
    assert 2.1 < loss < 2.11, "far above what rounding could do"


def test_three_epsilon_hold_for_it_on_all_neighbours_of_that_graph() -> None:
    for edge in PAIRS:
        one, other = released(GRAPH - {edge}, EPSILON), released(GRAPH | {edge}, EPSILON)
        assert max(abs(math.log(a / b)) for a, b in zip(one, other, strict=True)) <= 3 * EPSILON
