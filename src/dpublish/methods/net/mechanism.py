"""The net mechanism: of all small data sets, one that answers a whole query class nearly as the
private data do.

In: exact cell counts (private). Out: a multiset of m cells. Theorem 4 of Roth's thesis, and its
linear form (5.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import CellCounts, Mechanism, Output, SparseCounts
from dpublish.methods.field_types import Interval
from dpublish.methods.histogram.mechanism import counted_rows
from dpublish.methods.query_list import multiset_scores, read_request, true_answers
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan, Settings, hidden
from dpublish.workloads import theory
from dpublish.workloads.query_classes import QueryClass

MAX_MULTISETS = 1 << 24
MAX_WORK = 1 << 33
MAX_POINTS = 64


Rule = Literal["permute-and-flip", "exponential"]


def chosen_net(noise: Noise, numbers: SparseCounts, plan: Plan[NetSettings]) -> Output:
    """The mechanism: score every multiset by its largest error, choose one."""
    settings, domain = plan.settings, plan.settings.domain
    table = settings.query_class.table(domain)
    points, rows = settings.points, settings.rows
    # errors are compared in units of 1 / (points * unit) rows, where both sides are whole numbers
    target = points * true_answers(table, numbers, domain)
    scores = np.empty(settings.multisets, dtype=np.int64)
    multiset_scores(target, rows * table.astype(np.int64), points, scores)
    index = noise.choose(
        scores,
        sensitivity=settings.sensitivity,
        epsilon=plan.cost.epsilon,
        rule=settings.rule,
        label="data set",
    )
    cells, times = np.unique(multiset_at(index, domain.size, points), return_counts=True)
    return Output(
        facts={
            "rows": rows,
            "points": points,
            "queries": settings.query_class.text(),
            "error_bound": settings.error_bound,
        },
        tables={"cells": {"cell": cells.astype(np.uint64), "weight": times * (rows / points)}},
    )


@dataclass(frozen=True, kw_only=True)
class NetSettings(Settings):
    """What the net mechanism works with; `queries` is as its text reads."""

    domain: Domain
    query_class: QueryClass = hidden()
    rule: Rule = hidden()
    points: int
    multisets: int
    queries: int
    rows: int
    sensitivity: Fraction
    error_bound: float = hidden()


@dataclass(frozen=True, kw_only=True)
class Net(Mechanism):
    """A data set of `points` cells, chosen by its largest error over the query class.

    Input: exact cell counts of the kept rows. Neighbours: replace-one or add-remove-one, of a unit
    with at most c rows.
    Output: a multiset of cells; the possible outputs are all multisets of `points` cells.
    Privacy: epsilon-DP (theorem 1 of net.proof.md).
    Relies on: `Noise.choose` being exact; rows per unit bounded by c before counting.
    Shows / hides: the answers of the class, all at once; hides everything that no query of the
    class asks.
    Accuracy: theorem 4; `plan` states it. Every multiset is visited, so the domain and `points`
    must be small.

    Parameters
    ----------
    queries : a query class, or its text ("marginals:2").
    points : m, the size of the released data set; the largest that can be enumerated when left out
        (at most 64).
    columns, bins : the columns, and the number of bins of numeric columns that declare none
        (instead of any precision).
    rule : how the choice is drawn; permute-and-flip is never less accurate than the thesis's
        exponential.
    max_multisets : refuse more candidates than this.

    Examples
    --------
    >>> Net(queries="marginals:1", points=4).rule
    'permute-and-flip'
    """

    queries: QueryClass | str = "marginals:2"
    points: Annotated[int | None, Interval(1, MAX_POINTS)] = None
    columns: Sequence[str] | None = None
    bins: Annotated[int | None, Interval(1)] = None
    rule: Rule = "permute-and-flip"
    max_multisets: Annotated[int, Interval(2, MAX_MULTISETS)] = 1 << 21

    def plan(self, schema: Schema, cost: Cost) -> Plan[NetSettings]:
        request = read_request(
            schema, cost, self.columns, self.bins, self.queries, "The net mechanism"
        )
        if self.rule not in ("permute-and-flip", "exponential"):
            raise PlanError(
                f"rule = '{self.rule}' is not known. Use permute-and-flip or exponential."
            )
        universe, epsilon = request.domain.size, float(cost.epsilon)
        points = self._points(universe, request.count)
        multisets = math.comb(universe + points - 1, points)
        if multisets > self.max_multisets or multisets * request.count > MAX_WORK:
            raise PlanError(
                f"There are {multisets:,} multisets of {points} of {universe:,} cells; at most "
                f"{self.max_multisets:,} are "
                "visited one by one. Use fewer cells or points, or the method "
                "'multiplicative-weights', which scales."
            )
        table = request.queries.table(
            request.domain
        )  # refuses predicates that do not parse before anything is spent
        sensitivity = Fraction(points * request.queries.unit * schema.unit.max_rows)
        # a data set within this share of any other exists (lemma 1), and the choice loses this many
        # rows (theorem 5)
        resolution = min(1.0, math.sqrt(math.log(2 * request.count) / (2 * points)))
        lost = 2 * schema.unit.max_rows / epsilon * (math.log(multisets) + math.log(20))
        bound = min(float(request.rows), resolution * request.rows + lost)
        # a data set of n points errs by every row that there is more or less
        counted = counted_rows(schema, request.domain) == request.rows or (
            schema.relation.replaces and schema.unit.column is None
        )
        if request.queries.unit == 1:
            theorem = "Theorem 4"
            needed = theory.release_sample_size(
                0.1, 0.05, epsilon, universe_bits=math.log2(universe), queries=request.count
            )
        else:
            theorem = "Theorem 31"
            needed = theory.linear_sample_size(
                0.1, 0.05, epsilon, universe=universe, queries=request.count
            )
        moved = request.moved(schema, table)
        settings = NetSettings(
            domain=request.domain,
            query_class=request.queries,
            rule=self.rule,
            points=points,
            multisets=multisets,
            queries=request.count,
            rows=request.rows,
            sensitivity=sensitivity,
            error_bound=bound if counted else float(request.rows),
        )
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters={
                "queries": request.queries.text(),
                "points": self.points,
                "columns": list(request.domain.names),
                "bins": self.bins,
                "rule": self.rule,
                "max_multisets": self.max_multisets,
            },
            settings=settings,
            forecast={
                "resolution": resolution,
                "choice_error": lost,
                "error_bound": bound,
                "needed_rows": needed,
                "direct_scale": moved / epsilon,
            },
            sentences=(
                f"{request.queries.describe(request.domain)} over {universe:,} cells, answered by "
                f"{points} synthetic points.",
                f"Cost {cost.describe()}, protecting {schema.unit.describe()} "
                f"({schema.neighbours}).",
                f"With n = {request.rows:,} and epsilon = {epsilon:g}, expect every query within "
                f"{bound:,.0f} rows (95%): "
                f"{resolution * request.rows:,.0f} since {points} points are coarse, {lost:,.0f} "
                f"for privacy.",
                *(
                    ()
                    if counted
                    else (
                        "The release states no bound: the number of rows is private, and each row "
                        "more or less than n adds one to the error.",
                    )
                ),
                f"{theorem} asks for n = {needed:,} rows for an error of 10%.",
                *request.theorems(schema, table, epsilon),
            ),
            warnings=(
                (
                    f"Noise of its own for every query has a scale of {moved / epsilon:,.4g} rows, "
                    f"less than half of {bound:,.0f}: take workload, which measures such a list "
                    "directly.",
                )
                if moved / epsilon < bound / 2
                else ()
            ),
        )

    def statistic(self, plan: Plan[NetSettings]) -> CellCounts:
        return CellCounts(plan.settings.domain)

    def run(self, noise: Noise, numbers: SparseCounts, plan: Plan[NetSettings]) -> Output:
        return chosen_net(noise, numbers, plan)

    def _points(self, universe: int, queries: int) -> int:
        if self.points is not None:
            return self.points
        points = 1
        while points < MAX_POINTS:
            more = math.comb(universe + points, points + 1)
            if more > self.max_multisets or more * queries > MAX_WORK:
                break
            points += 1
        return points


def multiset_at(index: int, universe: int, size: int) -> Ints:
    """The multiset at a place of the lexicographic list."""
    out, low = [], 0
    for left in range(size, 0, -1):
        while True:
            # how many multisets go on with `low`: those of left - 1 elements from low on
            block = math.comb(universe - low + left - 2, left - 1)
            if index < block:
                break
            index -= block
            low += 1
        out.append(low)
    return np.array(out, dtype=np.int64)
