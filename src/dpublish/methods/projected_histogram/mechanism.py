"""Projected histograms (Vinterbo 2012): choose a few columns that matter for a target, privately,
and count over them.

In: rows coded over all candidate columns and the target (private). Out: a sparse noisy histogram
over k chosen columns and the target, which serves as weighted rows, as a synthetic table and as
training data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.methods.base import CodedRows, Mechanism, Output
from dpublish.methods.histogram.mechanism import (
    DEFAULT_MAX_SUPPORT,
    noisy_histogram,
    total_is_public,
)
from dpublish.methods.projected_histogram.choose_k import split_kd
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.discernibility import DEFAULT_SIGMA, private_kd
from dpublish.methods.projected_histogram.scores import PairCount, PairsPerRow, Purity
from dpublish.noise.base import ChoiceRule, Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

ScoreName = Literal["discernibility", "prediction"]
WayToChooseK = Literal["simulate", "public", "split"]
BinRule = Literal["published", "all-columns"]


@dataclass(frozen=True, kw_only=True)
class ProjectedHistogram(Mechanism):
    """A noisy histogram over k columns chosen privately for a target.

    Input: rows coded over the candidate columns and the target. Neighbours: replace-one or
    add-remove-one, of a unit with at most c rows.
    Output: the chosen columns; sorted cells of their product with the target, with noisy counts
    above the threshold.
    Privacy: epsilon-DP (theorem 1 of projected_histogram.proof.md): epsilon is split between a
    noisy total (where one is paid for), choosing columns and counting.
    Relies on: `Noise.choose` and `Noise.sparse_laplace` being exact; rows per unit bounded by c
    before coding.
    Shows / hides: which columns were chosen, and cells well above the threshold; hides which small
    cells are occupied.
    Accuracy: a kept cell has standard deviation sqrt(2) * scale; the columns are near the best by
    the chosen score; see `plan`.

    Parameters
    ----------
    target : the column to predict; the schema's target when left out.
    candidates : columns to choose from; all other columns when left out.
    k : how many columns to choose; chosen by `choose_k` when left out.
    choose_k : "simulate" (the paper's made-up data), "public" (`public_data`), or "split" (private
        rows, by data splitting).
    public_data : a public table with the same columns (path or data frame), for choose_k =
        "public".
    k_options : the values of k that "split" tries; 1 to 6 as far as there are columns when left
        out.
    sigma : the share of discernible pairs that may stay undiscerned when k is chosen.
    gamma : share of epsilon for counting; section 2.3.2 of the paper when left out.
    score : "discernibility" (the paper's; favours columns with many levels) or "prediction"
        (charges a column for its cells).
    cell_charge : rows that a cell is charged by score = "prediction"; the threshold when left out.
    bins : number of bins for numeric columns that declare none; Lei's rule (at least 2) when left
        out.
    bin_rule : Lei's rule for the k + 1 "published" columns, or for "all-columns" as the paper has
        it.
    threshold_factor : A in threshold = floor(A ln(n) / epsilon_h).
    threshold : the threshold itself, instead of A.
    count_share : share of epsilon spent on a noisy total; by default 1/20 where the number of
        counted rows is private, else 0.
    max_support : refuse a plan that could expect more false cells than this.
    rule : how private choices are made: "permute-and-flip" is never worse than the paper's
        "exponential".
    """

    method: ClassVar[str] = "projected-histogram"
    kind: ClassVar[str] = "histogram"

    target: str | None = None
    candidates: Sequence[str] | None = None
    k: int | None = None
    choose_k: WayToChooseK = "simulate"
    public_data: object = field(default=None, repr=False, compare=False)
    k_options: Sequence[int] | None = None
    sigma: Fraction | float | int | str = DEFAULT_SIGMA
    gamma: Fraction | float | int | str | None = None
    score: ScoreName = "discernibility"
    cell_charge: int | None = None
    bins: int | None = None
    bin_rule: BinRule = "published"
    threshold_factor: Fraction | float | int | str = Fraction(1, 2)
    threshold: int | None = None
    count_share: Fraction | float | int | str | None = None
    max_support: int = DEFAULT_MAX_SUPPORT
    rule: ChoiceRule = "permute-and-flip"

    def plan(self, schema: Schema, cost: Cost) -> Plan:
        from dpublish.methods.projected_histogram.plan import plan_projected

        return plan_projected(self, schema, cost)

    def statistic(self, plan: Plan) -> CodedRows:
        assert plan.domain is not None
        return CodedRows(plan.domain)

    def run(self, noise: Noise, numbers: Any, plan: Plan) -> Output:
        assert plan.domain is not None
        table = CodedTable.from_codes(numbers, plan.domain)
        chosen = choose_columns(noise, table, plan, self.rule)
        content = count_projection(noise, table, chosen, plan, max_support=self.max_support)
        names = plan.domain.names
        return replace(
            content,
            facts={
                **content.facts,
                "target": names[-1],
                "chosen": [names[i] for i in chosen],
                "k": len(chosen),
                "gamma": plan.facts["gamma"],
                "selection_epsilon": plan.facts["selection_epsilon"],
                "selection_score": plan.facts["selection_score"],
            },
        )


def choose_columns(
    noise: Noise, table: CodedTable, plan: Plan, rule: ChoiceRule
) -> tuple[int, ...]:
    """The first mechanism: k columns, in the order in which they were chosen; costs
    `selection_epsilon`."""
    facts = plan.facts
    epsilon = Fraction(facts["selection_epsilon"])
    if facts["k"] is not None:
        return private_kd(
            noise,
            table,
            facts["k"],
            epsilon=epsilon,
            score=score_for(plan, table.labels),
            rule=rule,
        )
    return split_kd(
        noise,
        table,
        facts["k_options"],
        epsilon=epsilon,
        score=part_score_for(plan, table.labels),
        sigma=Fraction(plan.parameters["sigma"]),
        rows=facts["rows"],
        rule=rule,
    )


def score_for(plan: Plan, labels: int) -> PairCount | PairsPerRow | Purity:
    """The score that the columns are chosen by, over all rows."""
    schema = plan.schema
    if plan.parameters["score"] == "prediction":
        return Purity(plan.facts["cell_charge"], schema.relation.rows)
    if schema.neighbours == "replace-one":
        assert schema.size is not None
        return PairCount(schema.size, schema.unit.max_rows)
    return PairsPerRow(labels, schema.relation.rows)


def part_score_for(plan: Plan, labels: int) -> PairsPerRow | Purity:
    """The score within a part of the rows: the number of rows in a part is never public, and a cell
    there holds fewer rows."""
    changes = plan.schema.relation.rows
    if plan.parameters["score"] == "prediction":
        return Purity(
            max(1, plan.facts["cell_charge"] // (len(plan.facts["k_options"]) + 1)), changes
        )
    return PairsPerRow(labels, changes)


def count_projection(
    noise: Noise, table: CodedTable, chosen: Sequence[int], plan: Plan, *, max_support: int
) -> Output:
    """The second mechanism: the sparse histogram over the chosen columns, in declared order, and
    the target."""
    assert plan.domain is not None
    kept = sorted(chosen)
    projected = Domain((*(plan.domain.axes[i] for i in kept), plan.domain.axes[-1]))
    content = noisy_histogram(
        noise, table.count_cells(kept), replace(plan, domain=projected), max_support=max_support
    )
    facts = dict(content.facts)
    if facts["total"]["kind"] == "public" and not total_is_public(plan.schema, plan.domain):
        # a column that was not chosen may still have dropped rows
        facts["total"] = {"kind": "unknown", "value": None, "scale": None}
    return replace(content, facts=facts, domain=projected)
