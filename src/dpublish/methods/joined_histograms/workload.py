"""What a declared workload says to the choices of joined histograms: weights of tables, and which
threes of columns to look at.

From public facts of the plan alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from dpublish.declare.domain import Domain
from dpublish.methods.joined_histograms.rounds import Columns
from dpublish.methods.joined_histograms.structure import Edge
from dpublish.privacy.plan import Plan

Workload = Sequence[tuple[Sequence[str], str]]
"""Names of columns, and the weight of their marginal."""
MAX_THREES = 64
"""Threes of columns that rounds look at."""


def pair_weights(plan: Plan, columns: Sequence[int]) -> tuple[dict[Edge, int], int]:
    """How much each pair matters, in hundredths, and the largest of these weights."""
    pairs = list(itertools.combinations(columns, 2))
    weights = dict(zip(pairs, _weights(plan, pairs), strict=True))
    return weights, max(weights.values())


def table_weights(plan: Plan, columns: Sequence[int]) -> tuple[dict[Columns, int], int]:
    """The same of all that rounds may count: every pair, and the threes that lie within a declared
    marginal."""
    assert plan.domain is not None
    threes = declared_threes(plan.domain, plan.facts["target"], plan.facts["workload"])
    tables = [*itertools.combinations(columns, 2), *threes]
    weights = dict(zip(tables, _weights(plan, tables), strict=True))
    return weights, max(weights.values())


def declared_threes(domain: Domain, target: str | None, workload: Workload) -> list[Columns]:
    """All threes of columns within a marginal, the target aside; the first `MAX_THREES` of them."""
    listed = (
        sorted({domain.names.index(name) for name in item if name != target})
        for item, _ in workload
    )
    threes: dict[Columns, None] = {}
    for three in (
        three for item in listed for three in itertools.combinations(item, 3)
    ):  # one by one: there may be millions
        if len(threes) == MAX_THREES:
            break
        threes[three] = None
    return list(threes)


def _weights(plan: Plan, tables: Iterable[Columns]) -> list[int]:
    """The weights of the columns of a table times the largest of a marginal that holds them all, in
    hundredths."""
    assert plan.domain is not None
    place = {name: column for column, name in enumerate(plan.domain.names)}
    listed = [
        (frozenset(place[name] for name in item), Fraction(weight))
        for item, weight in plan.facts["workload"]
    ]
    alone = {next(iter(item)): weight for item, weight in listed if len(item) == 1}
    out = []
    for columns in tables:
        shared = [weight for item, weight in listed if item.issuperset(columns)]
        weight = math.prod(
            (alone.get(column, Fraction(1)) for column in columns),
            start=max(shared, default=Fraction(1)),
        )
        out.append(max(1, round(100 * weight)))
    return out
