"""Multiplicative weights (MWEM): synthetic weights over a domain that answer a query class,
improved where they are worst.

In: exact cell counts (private). Out: a weight for every cell. Hardt, Ligett and McSherry (2012),
with exact choices and noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import numpy as np

from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.methods.base import CellCounts, Mechanism, Output, SparseCounts
from dpublish.methods.field_types import Interval
from dpublish.methods.query_list import (
    MAX_ROWS,
    read_request,
    reweigh,
    true_answers,
    weighted_answers,
)
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan, Settings, hidden
from dpublish.workloads import theory
from dpublish.workloads.query_classes import QueryClass

MAX_ROUNDS = 1000
FAILURE = 0.05
"""How often the bound that a release states about itself may be wrong."""
PASSES = 20
MAX_UPDATES = 1 << 31
"""Cell updates in all; fewer passes over old answers are made where more would take minutes."""


def learned_weights(noise: Noise, numbers: SparseCounts, plan: Plan[WeightsSettings]) -> Output:
    """The mechanism: choose the worst query, ask it, learn; `rounds` times."""
    settings, domain = plan.settings, plan.settings.domain
    table = settings.query_class.table(domain)
    truth = true_answers(table, numbers, domain)
    rows, unit = float(settings.rows), settings.query_class.unit
    sensitivity, step, rounds = settings.sensitivity, settings.step_epsilon, settings.rounds
    weights = np.full(domain.size, rows / domain.size)
    passes = max(1, min(PASSES, MAX_UPDATES // (domain.size * rounds * rounds)))
    asked: list[int] = []
    answers: list[int] = []
    said = np.zeros(len(table), dtype=np.int64)
    nearest, least = said, math.inf
    gap = 0
    for turn in range(rounds):
        # what the weights say is public; rounding it keeps scores whole and leaves their
        # sensitivity alone
        said = np.rint(weighted_answers(table, weights)).astype(np.int64)
        query = noise.choose(
            np.abs(truth - said), sensitivity=sensitivity, epsilon=step, label=f"query {turn + 1}"
        )
        noisy = noise.laplace(
            truth[query : query + 1],
            sensitivity=sensitivity,
            epsilon=step,
            label=f"answer {turn + 1}",
        )
        asked.append(query)
        answers.append(int(noisy[0]))
        gap = abs(answers[-1] - int(said[query]))
        if gap < least:
            nearest, least = said, gap
        for _ in range(passes):
            for place, answer in zip(reversed(asked), reversed(answers), strict=True):
                reweigh(weights, table[place] / unit, min(max(answer / unit, 0.0), rows), rows)
    # the gap of a round bounds the error of the weights before it; the last ones are at a public
    # distance from those
    final = weighted_answers(table, weights)
    off = min(
        reached + float(np.abs(final - before).max())
        for reached, before in ((gap, said), (least, nearest))
    )
    bound = stated_bound(off, rounds, len(table), sensitivity / step) / unit
    return Output(
        facts={
            "rows": int(rows),
            "queries": settings.query_class.text(),
            "error_bound": published_bound(bound, rows, public=plan.schema.relation.replaces),
        },
        tables={
            "cells": {"cell": np.arange(domain.size, dtype=np.uint64), "weight": weights},
            "asked": {
                "query": np.array(asked, dtype=np.uint32),
                "answer": np.array(answers, dtype=np.int64),
            },
        },
    )


@dataclass(frozen=True, kw_only=True)
class WeightsSettings(Settings):
    """What multiplicative weights work with."""

    domain: Domain
    query_class: QueryClass = hidden()
    rounds: int
    queries: int
    rows: int
    sensitivity: Fraction
    step_epsilon: Fraction
    answer_scale: Fraction


@dataclass(frozen=True, kw_only=True)
class MultiplicativeWeights(Mechanism):
    """Weights of all cells that answer a query class, learned from a few noisy answers.

    Input: exact cell counts of the kept rows. Neighbours: replace-one or add-remove-one, of a unit
    with at most c rows.
    Output: a weight a cell, a function of the queries that were chosen and their noisy answers.
    Privacy: epsilon-DP (theorem 1 of multiplicative_weights.proof.md): 2 T steps of epsilon / (2 T)
    each.
    Relies on: `Noise.choose` and `Noise.laplace` being exact; rows per unit bounded by c before
    counting.
    Shows / hides: the queries on which the data differ most from what is already known; hides small
    differences.
    Accuracy: the release states a bound of its own, from its answers (theorem 2); before, `plan`
    gives the paper's rate.

    Parameters
    ----------
    queries : a query class, or its text ("marginals:2").
    rounds : T, how many queries are asked; chosen from the public size when left out.
    columns, bins : the columns, and the number of bins of numeric columns that declare none
        (instead of any precision).

    Examples
    --------
    >>> MultiplicativeWeights(queries="marginals:2").queries
    'marginals:2'
    """

    queries: QueryClass | str = "marginals:2"
    rounds: Annotated[int | None, Interval(1, MAX_ROUNDS)] = None
    columns: Sequence[str] | None = None
    bins: Annotated[int | None, Interval(1)] = None

    def plan(self, schema: Schema, cost: Cost) -> Plan[WeightsSettings]:
        request = read_request(schema, cost, self.columns, self.bins, self.queries, "MWEM")
        universe, epsilon = request.domain.size, float(cost.epsilon)
        rounds = self.rounds or default_rounds(request.rows, epsilon, universe, request.count)
        table = request.queries.table(
            request.domain
        )  # refuses predicates that do not parse before anything is spent
        share = theory.multiplicative_weights_error(
            request.rows, epsilon, universe=universe, queries=request.count, rounds=rounds
        )
        sensitivity = Fraction(request.queries.unit * schema.unit.max_rows)
        step = cost.epsilon / (2 * rounds)
        # one row is in one cell of each marginal, so the answers together move by far less than
        # their number
        moved = request.moved(schema, table)
        laplace = request.rows * theory.laplace_error(
            request.rows, epsilon, queries=request.count, sensitivity=moved
        )
        settings = WeightsSettings(
            domain=request.domain,
            query_class=request.queries,
            rounds=rounds,
            queries=request.count,
            rows=request.rows,
            sensitivity=sensitivity,
            step_epsilon=step,
            answer_scale=Fraction(schema.unit.max_rows) / step,
        )
        error = min(float(request.rows), share * request.rows)
        rate = f"{error:,.0f} rows" if share < 1 else "nothing below n yet"
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters={
                "queries": request.queries.text(),
                "rounds": self.rounds,
                "columns": list(request.domain.names),
                "bins": self.bins,
            },
            settings=settings,
            forecast={"error_bound": error, "direct_scale": moved / epsilon},
            sentences=(
                f"{request.queries.describe(request.domain)} over {universe:,} cells, learned in "
                f"{rounds} rounds.",
                f"Cost {cost.describe()}, protecting {schema.unit.describe()} "
                f"({schema.neighbours}).",
                f"Each answer has noise of scale {float(settings.answer_scale):,.4g} "
                f"rows. With noise of its own "
                f"every query would need a scale of {moved / epsilon:,.4g}, as a unit moves all "
                f"{request.count:,} by at most "
                f"{moved:,.4g} together; the largest error would be about {laplace:,.4g} rows "
                f"(95%).",
                f"Theory (theorem 2.2 of the paper, for the average of plain updates) promises "
                f"{rate}. The release has the "
                "weights of the last round instead, and states a bound for them (95%) that it "
                "finds from its noisy answers.",
                *request.theorems(schema, table, epsilon),
            ),
            warnings=_nearer(settings, schema, moved / epsilon, epsilon),
        )

    def statistic(self, plan: Plan[WeightsSettings]) -> CellCounts:
        return CellCounts(plan.settings.domain)

    def run(self, noise: Noise, numbers: SparseCounts, plan: Plan[WeightsSettings]) -> Output:
        return learned_weights(noise, numbers, plan)


def _nearer(
    settings: WeightsSettings, schema: Schema, direct: float, epsilon: float
) -> tuple[str, ...]:
    """Names workload where one of its ways has less noise than an answer here: measuring the list,
    or a histogram, whose noise in half of all cells adds up to `cells`. By `python -m
    benchmarks.defaults.alternatives --method multiplicative-weights`."""
    answer, universe = float(settings.answer_scale), settings.domain.size
    cells = float(schema.relation.l1) / epsilon * math.sqrt(universe / 2)
    if direct <= answer:
        return (
            f"Noise of its own for every query has a scale of {direct:,.4g} rows, no more than the "
            f"{answer:,.4g} of an answer here: take workload, which measures such a list directly.",
        )
    if cells <= answer:
        return (
            f"A histogram of all {universe:,} cells has noise of about {cells:,.4g} rows in half "
            f"of them, no more than the {answer:,.4g} of an answer here: take workload, which "
            "takes what is nearer for such a list.",
        )
    return ()


def default_rounds(rows: int, epsilon: float, universe: int, queries: int) -> int:
    """The number of rounds that balances both terms of the bound, with the constants that are met
    in practice."""
    balanced = (
        rows * epsilon * math.sqrt(math.log(universe)) / (4 * math.log(max(queries, 2)))
    ) ** (2 / 3)
    return int(min(max(1, round(balanced)), queries, 60))


def stated_bound(off: float, rounds: int, queries: int, scale: Fraction) -> float:
    """With probability 1 - FAILURE no query is further off than this (theorem 2); `off` is what can
    be seen of the error.

    Half of FAILURE is for the noise of the answers, half for choices that missed the worst query,
    in all rounds together.
    """
    answer = float(scale) * math.log(4 * rounds / FAILURE)
    choice = 2 * float(scale) * math.log(2 * queries * rounds / FAILURE)
    return off + answer + choice + 1


def published_bound(bound: float, rows: float, *, public: bool) -> float:
    """The bound that a release states. No answer is off by more than all rows, but only where their
    number is public; where it is a guess, a bound of just as many says that there is none."""
    return min(rows, bound) if public or bound >= MAX_ROWS else bound
