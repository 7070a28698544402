"""Minimum cuts where a stage has next to nothing: padding stays within exact whole numbers, and
what is not listed is as rare as delta says."""

from __future__ import annotations

import itertools
from contextlib import suppress
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.solvers.inputs import edges_of
from dpublish.methods.solvers.min_cut.contraction import Padding
from dpublish.methods.solvers.min_cut.mechanism import (
    MinCut,
    degrees,
    least_cut,
    near_minimum_targets,
)
from dpublish.privacy.cost import Cost

SCHEMA = Schema(name="tiny", neighbours="add-remove-one")


def moves(padding: Padding, level: int, cap: int) -> int:
    """How far one edge moves the smallest cut of a padded graph on five vertices, at most."""
    whole = list(itertools.combinations(range(5), 2))
    found = 0
    for size in range(4):
        base = whole[:size]
        least = least_cut(edges_of(base), padding, level, cap, 0)
        more = (edges_of([*base, edge]) for edge in whole[size:])
        found = max(found, *(abs(least_cut(one, padding, level, cap, 0) - least) for one in more))
    return found


@pytest.mark.parametrize("rule", ["exact", "near-minimum", "either"])
def test_padding_that_leaves_whole_numbers_is_refused_before_anything_is_paid(rule: str) -> None:
    """Degrees were once added up as doubles: with a stage of next to nothing one edge moved a
    smallest cut by 8, and the noise was for 1."""
    cost = Cost.pure("1e-6") if rule == "exact" else Cost.approximate("1e-6", "1e-9")
    planned = []
    for power in range(16, 40, 2):
        share = 1 - Fraction(1, 1 << power)
        cut = MinCut(vertices=5, rule=rule, size_share=share, cost_share=0)  # type: ignore[arg-type]
        with suppress(PlanError):
            planned.append(cut.plan(SCHEMA, cost).settings)
    assert 0 < len(planned) < 12
    with pytest.raises(PlanError, match="counted exactly"):
        cut.plan(SCHEMA, cost)
    last = planned[-1]
    assert last.target > 1 << 44
    for level in (1, last.padding.levels // 2, last.padding.levels - 1):
        assert moves(last.padding, level, 1 << 60) == 1


@pytest.mark.parametrize(
    ("epsilon", "count"),
    [("7.961e-13", 6), ("5.199e-12", 38), ("1e-9", 7), ("1e-3", 7), ("1", 7), ("20", 7)],
)
def test_cuts_that_are_not_listed_are_as_rare_as_delta_says(epsilon: str, count: int) -> None:
    """The tail of theorem 2 in 200 digits; 1 - exp(-x) in doubles lost it for a small epsilon."""
    cost = Cost.approximate(epsilon, "1e-9")
    target, spread, beyond = near_minimum_targets(count, cost)
    with localcontext() as digits:
        digits.prec = 200
        rate, log = Decimal(float(cost.epsilon) / 3), Decimal(count).ln()
        gap = rate - 2 * log / (target - spread)
        shrunk = (1 - (-rate).exp()) / (1 - (-gap).exp())
        missed = (2 * log).exp() * shrunk * (-gap * beyond).exp()
        allowed = Decimal("1e-9") / (1 + Decimal(float(cost.epsilon)).exp())
        assert missed <= allowed / 2


def test_degrees_are_exact_beyond_doubles() -> None:
    ends = np.array([0, 0, 1]), np.array([1, 2, 2])
    heavy = np.array([1 << 56, 1, (1 << 56) + 3])
    assert degrees(3, *ends, heavy).tolist() == [(1 << 56) + 1, (1 << 57) + 3, (1 << 56) + 4]
