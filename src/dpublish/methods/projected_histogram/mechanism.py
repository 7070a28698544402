"""Projected histograms (Vinterbo 2012): choose a few columns that matter for a target, privately,
and count over them.

In: rows coded over all candidate columns and the target (private). Out: a sparse noisy histogram
over k chosen columns and the target, which serves as weighted rows, as a synthetic table and as
training data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.methods.base import CodedRows, Mechanism, Output
from dpublish.methods.draws import MAX_THRESHOLD, smallest_threshold
from dpublish.methods.field_types import Interval
from dpublish.methods.histogram.mechanism import (
    DEFAULT_MAX_SUPPORT,
    LARGEST_SUPPORT,
    Amount,
    CountSettings,
    count_settings,
    counted_rows,
    noisy_histogram,
    search_facts,
)
from dpublish.methods.projected_histogram.choose_k import (
    INCLUSION,
    LOST_PAIRS,
    TUNING,
    split_kd,
)
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.discernibility import (
    DEFAULT_SIGMA,
    private_kd,
    stopping_kd,
)
from dpublish.methods.projected_histogram.scores import (
    Contrast,
    PairCount,
    PairsPerRow,
    Purity,
)
from dpublish.noise.base import ChoiceRule, Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan, hidden

ScoreName = Literal["discernibility", "prediction", "contrast"]
WayToChooseK = Literal["stop", "simulate", "public", "split"]
BinRule = Literal["noise", "published", "all-columns"]
RuleName = Literal["permute-and-flip", "exponential", "paper"]
_FACTS = (
    *("target", "k", "k_options", "gamma", "sensitivity", "scale", "selection_epsilon"),
    *("cell_epsilon", "count_epsilon", "selection_score", "cell_charge", "threshold", "rows"),
)
"""The facts that a manifest quotes, in the order of the format. The size of the domain is not among
them: it follows from the columns chosen."""


def projected_histogram(
    noise: Noise, table: CodedTable, settings: ProjectedSettings, schema: Schema
) -> Output:
    """The mechanism: choose columns, then count over them and the target with what is left."""
    chosen, spent = choose_columns(noise, table, settings)
    counting = settings.after(spent, chosen)
    content = count_projection(noise, table, chosen, counting, schema)
    names = settings.domain.names
    return replace(
        content,
        facts={
            **content.facts,
            "target": names[-1],
            "chosen": [names[i] for i in chosen],
            "k": len(chosen),
            "gamma": str(counting.gamma),
            "selection_epsilon": str(spent),
            "selection_score": settings.selection_score,
        },
    )


@dataclass(frozen=True, kw_only=True)
class ProjectedSettings(CountSettings):
    """What a projected histogram works with. `domain` has all candidates, the target last; `k` is
    None where it is one of `k_options`: by stopping, where `stop_cells` limits the cells that the
    chosen columns may span, or by data splitting.

    `selection_epsilon` is the most that choosing may cost, `gamma` and `cell_epsilon` what is left
    for counting at the least; `after` says what is left for it in the end."""

    target: str
    k: int | None
    k_options: tuple[int, ...]
    gamma: Fraction
    selection_epsilon: Fraction
    selection_score: ScoreName
    cell_charge: int | None
    score: PairCount | PairsPerRow | Purity | Contrast = hidden()
    sigma: Fraction = hidden()
    rule: ChoiceRule = hidden()
    stop_cells: int | None = hidden()

    def after(self, spent: Fraction, chosen: Sequence[int]) -> ProjectedSettings:
        """The settings of counting, once choosing these columns has cost `spent`. With more left
        the threshold is lower, but not so low that more than `max_support` false cells are expected
        to pass."""
        paid = self.selection_epsilon + self.cell_epsilon
        if spent == self.selection_epsilon:
            return self
        counting = count_settings(
            self.domain,
            self.sensitivity,
            cell_epsilon=paid - spent,
            count_epsilon=self.count_epsilon,
            threshold=self.given_threshold,
            factor=self.threshold_factor,
            rows=self.rows,
            max_support=self.max_support,
            search=self.search,
        )
        threshold = counting.threshold
        if threshold is not None and self.given_threshold is None:
            cells = math.prod(self.domain.shape[place] for place in (*chosen, -1))
            least = smallest_threshold(counting.scale, cells, self.max_support)
            counting = replace(counting, threshold=max(threshold, least))
        return replace(self, **vars(counting), gamma=(paid - spent) / paid)

    @property
    def most(self) -> int:
        return max(self.k_options)

    def facts(self) -> dict[str, Any]:
        found = super().facts()
        return {name: found[name] for name in _FACTS} | search_facts(self.search)


@dataclass(frozen=True, kw_only=True)
class ProjectedHistogram(Mechanism):
    """A noisy histogram over k columns chosen privately for a target.

    Input: rows coded over the candidate columns and the target. Neighbours: replace-one or
    add-remove-one, of a unit with at most c rows.
    Output: the chosen columns; sorted cells of their product with the target, with noisy counts
    above the threshold.
    Privacy: epsilon-DP (theorem 1 of projected_histogram.proof.md): epsilon is split between bins
    that are found, a noisy total (where one is paid for), choosing columns and counting.
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
    rule : how private choices are made: "permute-and-flip" is never worse than the "exponential"
        mechanism. "paper" stands for the paper's own rules wherever a setting is left out:
        exponential choices, score = "discernibility", choose_k = "simulate", gamma of section
        2.3.2, bin_rule = "all-columns", A = 1/2.
    k : how many columns to choose; chosen by `choose_k` when left out.
    max_k : the most columns that choose_k = "stop" chooses; 1 to 4 when left out, as rows times
        epsilon let choices tell columns apart.
    choose_k : "stop" (one private choice after the other, until a cell would be expected to hold
        too few rows for its noise; what is not spent on choosing goes to the counts), "simulate"
        (the paper's made-up data), "public" (`public_data`), or "split" (private rows, by data
        splitting). "stop" when left out.
    rows_per_cell : "stop" chooses a column only while a cell is expected to hold at least this many
        times the scale of its noise.
    public_data : a public table with the same columns (path or data frame), for choose_k =
        "public".
    k_options : the values of k that "split" tries; 1 to 6 as far as there are columns when left
        out.
    sigma : the share of discernible pairs that may stay undiscerned when k is chosen.
    gamma : share of epsilon for counting, the least of it under choose_k = "stop"; when left out,
        what is left by half of epsilon for one choice, three tenths for each of two, a fifth for
        each of three or 3/20 for each of four, or section 2.3.2 of the paper where k is chosen by
        one of its rules.
    tuning, lost_pairs, inclusion : B, l and p of the paper's rule for gamma.
    score : "contrast" (rows whose label is not that of the others; finds rare labels and weak
        effects), "prediction" (rows told right; charges a column for its cells) or
        "discernibility" (the paper's; favours columns with many levels). When left out "contrast"
        where choose_k is "stop" and no cell_charge is given, else "prediction".
    cell_charge : rows that a cell is charged by score = "prediction"; 1 when left out.
    bins : number of bins for numeric columns that declare none; by `bin_rule` when left out.
    bin_share : share of epsilon for finding the bins of numeric columns that declare none from the
        rows; 0: even bins. When left out, 1/5 where bin_rule is "noise" and there are rows enough
        to find them for all such columns, else 0.
    bin_rule : so many bins that as many binned columns as may be chosen (three at most) have cells
        as large as `rows_per_cell` asks for ("noise"), or Lei's rule for the k + 1 "published"
        columns, or for "all-columns" as the paper has it. "noise" where choose_k is "stop", else
        "published", when left out.
    threshold_factor : A in threshold = floor(A ln(n) / epsilon_h); 1/4 when left out, 1/2 where k
        is chosen by one of the paper's rules.
    threshold : the threshold itself, instead of A.
    count_share : share of epsilon spent on a noisy total; by default 1/20 where the number of
        counted rows is private, else 0.
    max_support : refuse a plan that could expect more false cells than this.

    Examples
    --------
    >>> ProjectedHistogram(target="ill", k=3).rows_per_cell
    2
    """

    target: str | None = None
    candidates: Sequence[str] | None = None
    k: Annotated[int | None, Interval(1)] = None
    max_k: Annotated[int | None, Interval(1)] = None
    choose_k: WayToChooseK | None = None
    rows_per_cell: Annotated[Amount, Interval(above=0)] = 2
    public_data: object = field(default=None, repr=False, compare=False)
    k_options: Sequence[int] | None = None
    sigma: Annotated[Amount, Interval(0, below=1)] = DEFAULT_SIGMA
    gamma: Annotated[Amount | None, Interval(above=0, most=1)] = None
    tuning: Annotated[Amount, Interval(above=0)] = TUNING
    lost_pairs: Annotated[Amount, Interval(above=0, below=1)] = LOST_PAIRS
    inclusion: Annotated[Amount, Interval(above=0, below=1)] = INCLUSION
    score: ScoreName | None = None
    cell_charge: Annotated[int | None, Interval(1)] = None
    bins: Annotated[int | None, Interval(2)] = None
    bin_share: Annotated[Amount | None, Interval(0, below=1)] = None
    bin_rule: BinRule | None = None
    threshold_factor: Annotated[Amount | None, Interval(0)] = None
    threshold: Annotated[int | None, Interval(0, below=MAX_THRESHOLD)] = None
    count_share: Annotated[Amount | None, Interval(0, below=1)] = None
    max_support: Annotated[int, Interval(1, LARGEST_SUPPORT)] = DEFAULT_MAX_SUPPORT
    rule: RuleName = "permute-and-flip"

    def plan(self, schema: Schema, cost: Cost) -> Plan[ProjectedSettings]:
        from dpublish.methods.projected_histogram.plan import plan_projected

        return plan_projected(self, schema, cost)

    def statistic(self, plan: Plan[ProjectedSettings]) -> CodedRows:
        search = plan.settings.search
        return CodedRows(plan.settings.domain if search is None else search.fine)

    def run(self, noise: Noise, numbers: Any, plan: Plan[ProjectedSettings]) -> Output:
        settings = plan.settings
        if settings.search is not None:
            settings, numbers = find_bins(noise, numbers, settings, plan.schema)
        table = CodedTable.from_codes(numbers, settings.domain)
        return projected_histogram(noise, table, settings, plan.schema)


def find_bins(
    noise: Noise, codes: Sequence[Ints], settings: ProjectedSettings, schema: Schema
) -> tuple[ProjectedSettings, list[Ints]]:
    """The first of all: bins of numeric columns that declare none, and the rows coded by them."""
    search = settings.search
    assert search is not None, "only plans that find bins do so"
    domain, coarse = search.found(
        noise,
        schema.relation,
        lambda place: np.bincount(codes[place], minlength=search.fine.shape[place]),
    )
    coded = [coarse[at][one] if at in coarse else one for at, one in enumerate(codes)]
    return replace(settings, domain=domain), coded


def choose_columns(
    noise: Noise, table: CodedTable, settings: ProjectedSettings
) -> tuple[tuple[int, ...], Fraction]:
    """The first mechanism: columns in the order in which they were chosen, and what it cost, at
    most `selection_epsilon`."""
    epsilon, score, rule = settings.selection_epsilon, settings.score, settings.rule
    if settings.k is not None:
        return private_kd(
            noise, table, settings.k, epsilon=epsilon, score=score, rule=rule
        ), epsilon
    if settings.stop_cells is not None:
        step = epsilon / settings.most
        chosen, paid = stopping_kd(
            noise,
            table,
            most=settings.most,
            cells=settings.stop_cells,
            epsilon=step,
            score=score,
            rule=rule,
        )
        return chosen, paid * step
    assert settings.rows is not None, "data splitting is planned for a public size only"
    assert isinstance(score, PairsPerRow | Purity), "the number of rows of a part is never public"
    return split_kd(
        noise,
        table,
        settings.k_options,
        epsilon=epsilon,
        score=score,
        sigma=settings.sigma,
        rows=settings.rows,
        rule=rule,
    ), epsilon


def count_projection(
    noise: Noise,
    table: CodedTable,
    chosen: Sequence[int],
    settings: ProjectedSettings,
    schema: Schema,
) -> Output:
    """The second mechanism: the sparse histogram over the chosen columns, in declared order, and
    the target."""
    kept, axes = sorted(chosen), settings.domain.axes
    projected = Domain((*(axes[i] for i in kept), axes[-1]))
    content = noisy_histogram(
        noise, table.count_cells(kept), replace(settings, domain=projected), schema
    )
    facts = dict(content.facts)
    if facts["total"]["kind"] == "public" and counted_rows(schema, settings.domain) is None:
        # a column that was not chosen may still have dropped rows
        facts["total"] = {"kind": "unknown", "value": None, "scale": None}
    return replace(content, facts=facts, domain=projected)
