"""What a declared workload says to the choices of joined histograms: weights of tables, and which
triples of columns to look at.

From public facts of the plan alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpublish.declare.domain import Domain
from dpublish.errors import PlanError, did_you_mean
from dpublish.methods.joined_histograms.rounds import Columns
from dpublish.methods.joined_histograms.structure import Edge
from dpublish.privacy.cost import exact

if TYPE_CHECKING:
    from dpublish.methods.joined_histograms.plan import JoinedSettings
    from dpublish.privacy.budget_split import BudgetSplit

Workload = tuple[tuple[tuple[str, ...], Fraction], ...]
"""Names of columns, and the weight of their marginal."""
ALL_PAIRS = 0.1
"""Of the rows of an average cell of a pair: below that noise in pairs is less than what a model of
all columns misses (benchmarks/defaults/alternatives)."""
MAX_TRIPLES = 64
"""Triples of columns that rounds look at."""
USUAL_WEIGHT = 4
"""Of what a workload names without a weight."""


def lists_of_pairs(shape: Sequence[int], rows: int | None, budget: BudgetSplit) -> list[str]:
    """Up to how many pairs measuring them directly is nearer, from public facts: by `python -m
    benchmarks.defaults.alternatives --method joined-histograms`."""
    sizes = [one * other for one, other in itertools.combinations(shape, 2)]
    if not sizes or rows is None:
        return []
    laplace = budget.law == "laplace"
    typical = 0.5**0.5 if laplace else 0.8  # mean size by deviation
    held = rows * len(sizes) / sum(sizes)
    room = ALL_PAIRS * held / (typical * budget.deviation(Fraction(1)))
    most = min(len(sizes), math.floor(room if laplace else room**2))
    if most < 1:
        return []
    error = f"{typical * budget.deviation(Fraction(1, most)):,.3g}"
    off = f"{error} {'row' if error == '1' else 'rows'} a cell"
    if most == len(sizes):
        return [
            "If cells of pairs of columns are all that is asked for, take workload: it counts all "
            f"{most:,} pairs of so few columns with an error of about {off}."
        ]
    if most == 1:
        return [
            "If the cells of one pair of columns are all that is asked for, take workload: it "
            f"counts one pair with an error of about {off}."
        ]
    return [
        f"If the cells of at most {most:,} pairs of columns are all that is asked for, take "
        f"workload: it counts {most:,} pairs with an error of about {off}, and fewer pairs with a "
        "smaller one."
    ]


def pair_weights(settings: JoinedSettings) -> tuple[dict[Edge, int], int]:
    """How much each pair matters, in hundredths, and the largest of these weights."""
    pairs = list(itertools.combinations(settings.features, 2))
    weights = dict(zip(pairs, _weights(settings, pairs), strict=True))
    return weights, max(weights.values())


def table_weights(settings: JoinedSettings) -> tuple[dict[Columns, int], int]:
    """The same of all that rounds may count: every pair, and the triples that lie within a declared
    marginal."""
    tables = [*itertools.combinations(settings.features, 2), *declared_triples(settings)]
    weights = dict(zip(tables, _weights(settings, tables), strict=True))
    return weights, max(weights.values())


def declared_triples(settings: JoinedSettings) -> list[Columns]:
    """All triples of columns within a marginal, the target aside; the first `MAX_TRIPLES` of
    them."""
    listed = (
        sorted({settings.domain.names.index(name) for name in item if name != settings.target})
        for item, _ in settings.workload
    )
    triples: dict[Columns, None] = {}
    for triple in (
        triple for item in listed for triple in itertools.combinations(item, 3)
    ):  # one by one: there may be millions
        if len(triples) == MAX_TRIPLES:
            break
        triples[triple] = None
    return list(triples)


def _weights(settings: JoinedSettings, tables: Iterable[Columns]) -> list[int]:
    """The weights of the columns of a table times the largest of a marginal that holds them all, in
    hundredths."""
    place = {name: column for column, name in enumerate(settings.domain.names)}
    listed = [
        (frozenset(place[name] for name in item), weight) for item, weight in settings.workload
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


def read_workload(declared: Sequence[str] | Mapping[str, Any] | None, domain: Domain) -> Workload:
    """What matters more: names of columns, and a weight."""
    given = declared or ()
    if isinstance(given, str):
        given = (given,)
    items = (
        list(given.items())
        if isinstance(given, Mapping)
        else [_weighted(item, domain) for item in given]
    )
    out = []
    for item, weight in items:
        names = [part.strip() for part in item.split("*")] if item not in domain.names else [item]
        for name in names:
            if name not in domain.names:
                raise PlanError(
                    f"workload names '{name}', which is not among the "
                    f"columns.{did_you_mean(name, domain.names)}"
                )
        amount = exact(weight, f"the weight of '{item}'")
        if not Fraction(1, 100) <= amount <= 100:
            raise PlanError(
                f"The weight of '{item}' in workload must lie between 1/100 and 100, not {weight}."
            )
        out.append((tuple(names), amount))
    return tuple(out)


def _weighted(item: str, domain: Domain) -> tuple[str, object]:
    """A name or marginal, and the weight after its last colon."""
    head, colon, tail = item.rpartition(":")
    return (
        (item, USUAL_WEIGHT) if not colon or item in domain.names else (head.strip(), tail.strip())
    )
