"""Joined histograms: every column of a table, as small noisy histograms that are joined into one
model of the whole table.

In: rows coded over all columns (private). Out: a noisy histogram of every column with the target, a
private choice of pairs of columns (and of threes within a declared marginal), and a noisy histogram
of every chosen one with the target over groups of levels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.methods.base import CodedRows, Mechanism, Output
from dpublish.methods.draws import noisy_counts
from dpublish.methods.joined_histograms.model_error import (
    block_limit,
    largest_misfit,
    publish_misfit,
)
from dpublish.methods.joined_histograms.rounds import FINEST as FINEST_GROUPS
from dpublish.methods.joined_histograms.rounds import (
    MAX_LOOKED_AT,
    Columns,
    Rounds,
    choose_tables,
    ladder,
)
from dpublish.methods.joined_histograms.structure import (
    Edge,
    LabelledRows,
    Published,
    choose_forest,
    pair_scores,
    table_parts,
)
from dpublish.methods.joined_histograms.workload import pair_weights, table_weights
from dpublish.models.junction_tree.consistency import Ints
from dpublish.models.junction_tree.fit import (
    MeasuredColumn,
    MeasuredTable,
    fit_column,
    fit_labels,
    fit_model,
    grow_model,
)
from dpublish.models.junction_tree.grouping import group_limits
from dpublish.models.junction_tree.measured import ordered_widths
from dpublish.models.junction_tree.model import JunctionModel
from dpublish.models.junction_tree.model_error import MODEL_VERSION, UNIT
from dpublish.models.one_thread import on_one_thread
from dpublish.noise.base import IntArray, Noise
from dpublish.privacy.budget_split import BudgetSplit, Law
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

FINEST = 3
"""How many times as many cells the pair chosen first may have as the last one."""

ROUND_PART = Fraction(1, 2)
"""What rounds get of the budget for choosing and counting pairs, when there are rounds."""
STEPS_PER_COLUMN: Mapping[Law, float] = {"laplace": 0.5, "gaussian": 0.75}
"""Pairs that one round may choose, for each column. More tables cost Laplace noise more."""
MAX_STEPS = 20
MAX_ROUND_COLUMNS = 64
"""Up to so many columns there are rounds unasked: the time of a round goes with the square of their
number."""
ROUNDS_BY_ROOM: Mapping[Law, Sequence[tuple[float, int]]] = {
    "laplace": ((900.0, 3), (300.0, 2)),
    "gaussian": ((100.0, 2), (30.0, 1)),
}
"""From how many cells a table, for each label, there are how many rounds. With Gaussian noise a
third one wins hardly anything, for a third more time. Tuned on made-up tables
(benchmarks/joined_tuning)."""


@dataclass(frozen=True, kw_only=True)
class JoinedHistograms(Mechanism):
    """All columns of a table, joined: a model that answers counts, gives synthetic rows and trains
    classifiers.

    Input: rows coded over the columns. Neighbours: replace-one or add-remove-one, of a unit with at
    most c rows.
    Output: which pairs or threes of columns were joined; noisy counts of every column and every
    such table, with the target.
    Privacy: epsilon-DP with discrete Laplace noise, rho-zCDP or (epsilon, delta)-DP with discrete
    Gaussian noise (theorems 1 and 2 of joined_histograms.proof.md); all steps share one budget by
    exact parts.
    Relies on: `Noise.laplace`, `Noise.gaussian` and `Noise.choose` being exact; rows per unit
    bounded by c before coding.
    Shows / hides: how columns go with the target and with one another in pairs; of more columns,
    only what a declared workload names and its noise allows.
    Accuracy: a count over one column has the noise of its cells; the plan states the noise of both
    kinds of table.

    Parameters
    ----------
    columns : names of the columns to publish; all declared columns when left out.
    target : the column that every histogram is crossed with; the schema's target when left out,
        "none" for no target.
    bins : number of bins for numeric columns that declare none.
    noise : "laplace" (pure epsilon), "gaussian" (needs delta or rho) or "auto": the one with less
        noise.
    column_share : share of the budget for the histograms of single columns.
    choice_share : share of the budget for choosing pairs; the rest is for measuring them.
    misfit_share : share of the budget for measuring how wrong the finished model is; 0 for not at
        all, and then questions that no table was counted for have wide intervals.
    cell_deviations : groups are made so large that a cell of a pair holds about so many standard
        deviations of its noise.
    rounds : after a first forest of pairs, so many rounds of pairs that the model so far gets most
        wrong; when left out, as many as the published number of rows justifies, which is none for
        small tables or budgets.
    workload : marginals that matter more, such as "age*sex" or "age*sex:3", or single columns,
        "age:2"; or a mapping of these to weights. Where no weight is given it is 4. A pair weighs
        the product of its columns' weights and of the largest weight of a marginal that holds it;
        whatever is not named weighs 1. Rounds may also count three columns of a marginal together,
        where that is worth its noise.
    """

    method: ClassVar[str] = "joined-histograms"
    kind: ClassVar[str] = "joined-histograms"

    columns: Sequence[str] | None = None
    target: str | None = None
    bins: int = 32
    noise: Literal["auto", "laplace", "gaussian"] = "auto"
    column_share: Fraction | float | int | str = Fraction(2, 5)
    choice_share: Fraction | float | int | str = Fraction(1, 10)
    cell_deviations: Fraction | float | int | str = Fraction(3, 2)
    misfit_share: Fraction | float | int | str = Fraction(1, 100)
    rounds: int | None = None
    workload: Sequence[str] | Mapping[str, Fraction | float | int | str] | None = None

    def plan(self, schema: Schema, cost: Cost) -> Plan:
        from dpublish.methods.joined_histograms.plan import plan_joined

        return plan_joined(self, schema, cost)

    def statistic(self, plan: Plan) -> CodedRows:
        assert plan.domain is not None
        return CodedRows(plan.domain)

    def run(self, noise: Noise, numbers: Any, plan: Plan) -> Output:
        return joined_histograms(noise, numbers, plan)


@on_one_thread
def joined_histograms(noise: Noise, codes: Any, plan: Plan) -> Output:
    """The mechanism: measure every column, choose and measure a forest of pairs, then rounds of
    what the model gets wrong."""
    assert plan.domain is not None
    facts, domain = plan.facts, plan.domain
    target = None if facts["target"] is None else domain.names.index(facts["target"])
    budget = BudgetSplit(budget_law(facts), Fraction(facts["amount"]), plan.schema.relation)
    rows = LabelledRows(codes, domain.shape, target)
    columns = [column for column in range(len(domain.axes)) if column != target]

    shares = column_shares(budget, plan, columns, rows.labels)
    singles = {
        column: noisy_counts(
            noise,
            budget,
            rows.count_column(column),
            share=shares[column],
            label=f"column {column + 1}",
        )
        for column in columns
    }
    known = publish_columns(singles, shares, budget, plan, rows.labels)
    job = Job(noise, rows, budget, plan, columns, known)
    rounds = round_count(job)
    first_part = 1 - ROUND_PART if rounds else Fraction(1)
    tables = Tables([], [], [])
    if len(columns) > 1:
        edges = choose_edges(job, first_part)
        groups = pair_groups(known, edges, budget, plan, rows.labels, part=first_part)
        tables.extend(
            job, edges, groups, first_part * Fraction(facts["pair_share"]), name="counts of pair"
        )
    published = measured_columns(singles, shares, budget, plan, rows.labels)
    if rounds:
        run_rounds(job, tables, published, rounds)
    return Output(
        facts={
            "noise": budget.law,
            "target": facts["target"],
            "labels": rows.labels,
            "joined": [
                [domain.names[column] for column in table.columns] for table in tables.measured
            ],
            "rounds": tables.sizes,
            "column_scales": [str(budget.scale(shares[column])) for column in columns],
            "joined_scales": [str(budget.scale(part)) for part in tables.parts],
            "misfit": measure_misfit(job, tables, published),
            "total": {"kind": "public", "value": facts["public_rows"], "scale": None}
            if facts["public_rows"] is not None
            else {"kind": "unknown", "value": None, "scale": None},
        },
        tables={
            "columns": _stacked("column", columns, [singles[column] for column in columns]),
            "joined": _stacked(
                "table",
                range(len(tables.measured)),
                [table.counts.ravel().astype(np.int64) for table in tables.measured],
            ),
            "groups": _stacked(
                "side",
                range(sum(len(table.groups) for table in tables.measured)),
                [side for table in tables.measured for side in table.groups],
                value="group",
            ),
        },
    )


@dataclass(frozen=True)
class Job:
    """What all steps share: the noise, the rows (private), the budget, and what was published of
    the columns."""

    noise: Noise
    rows: LabelledRows
    budget: BudgetSplit
    plan: Plan
    columns: Sequence[int]
    known: Published

    def __repr__(self) -> str:  # a repr ends up in tracebacks and logs
        return "Job(private)"

    def cells(self, deviation: float) -> float:
        """How many cells a table with noise of this deviation may have: from published numbers."""
        return float(self.known.labels.sum()) / (
            float(Fraction(self.plan.parameters["cell_deviations"])) * deviation
        )

    def model(self, tables: Tables, columns: Sequence[MeasuredColumn | None]) -> JunctionModel:
        """The model that a reader fits to what was published so far."""
        facts, domain = self.plan.facts, self.plan.domain
        assert domain is not None
        target = None if facts["target"] is None else domain.names.index(facts["target"])
        return fit_model(columns, tables.measured, target=target, total=facts["public_rows"])


@dataclass
class Tables:
    """The joint tables published so far, what part of the budget each had, and how many each round
    had."""

    measured: list[MeasuredTable]
    parts: list[Fraction]
    sizes: list[int]

    def extend(
        self,
        job: Job,
        chosen: Sequence[Columns],
        groups: Sequence[tuple[Ints, ...]],
        share: Fraction,
        *,
        name: str,
    ) -> None:
        """Count pairs or threes over groups, with noise, for `share` of the budget together."""
        shapes = [tuple(int(side.max()) + 1 for side in sides) for sides in groups]
        parts = (
            [
                share * part
                for part in table_parts(
                    job.budget.law, [math.prod(s) * job.rows.labels for s in shapes]
                )
            ]
            if chosen
            else []
        )
        for place, (columns, sides, shape, part) in enumerate(
            zip(chosen, groups, shapes, parts, strict=True)
        ):
            coded = [
                job.rows.grouped(column, side) for column, side in zip(columns, sides, strict=True)
            ]
            counted = job.rows.count_together(coded, shape)
            noisy = noisy_counts(
                job.noise, job.budget, counted, share=part, label=f"{name} {place + 1}"
            )
            counts = noisy.reshape(*shape, job.rows.labels).astype(np.float64)
            self.measured.append(
                MeasuredTable(columns, sides, counts, job.budget.variance(part), len(self.sizes))
            )
        self.parts += parts
        self.sizes.append(len(chosen))

    def pairs(self) -> set[Edge]:
        """The pairs of columns that some table holds."""
        return {
            pair
            for table in self.measured
            for pair in itertools.combinations(sorted(table.columns), 2)
        }


def round_count(job: Job) -> int:
    """How many rounds there will be: from public settings and published numbers alone."""
    facts = job.plan.facts
    if len(job.columns) < 3:
        return 0
    if facts["rounds"] is not None:
        return int(facts["rounds"])
    if len(job.columns) > MAX_ROUND_COLUMNS:
        return 0
    deviation = job.budget.deviation(Fraction(facts["pair_share"]) / (len(job.columns) - 1))
    room = job.cells(deviation) / job.rows.labels
    return next((rounds for least, rounds in ROUNDS_BY_ROOM[job.budget.law] if room >= least), 0)


def round_steps(noise: Law, columns: int) -> int:
    """How many tables a round may choose at most."""
    return min(MAX_STEPS, max(1, round(STEPS_PER_COLUMN[noise] * columns)))


def choose_edges(job: Job, part: Fraction) -> list[Edge]:
    """The first forest, for `part` of what choices may cost."""
    facts = job.plan.facts
    deviation = job.budget.deviation(part * Fraction(facts["pair_share"]) / (len(job.columns) - 1))
    weights, heaviest = pair_weights(job.plan, job.columns)
    scores = pair_scores(
        job.rows, job.known, job.columns, weights, cells=job.cells(deviation), deviation=deviation
    )
    share = part * Fraction(facts["choice_share"])
    return choose_forest(job.noise, scores, job.columns, job.budget, weight=heaviest, share=share)


def measure_misfit(
    job: Job, tables: Tables, columns: Sequence[MeasuredColumn | None]
) -> dict[str, Any] | None:
    """How wrong the finished model is over pairs that were not counted: one noisy number, and how
    to read it."""
    share = Fraction(job.plan.facts["misfit_share"])
    if not share:
        return None
    limit = block_limit(len(job.columns), job.rows.labels)
    worst = largest_misfit(job.rows, job.model(tables, columns), job.columns, tables.pairs(), limit)
    value, scale = publish_misfit(job.noise, job.budget, worst, share)
    return {
        "value": value,
        "scale": str(scale),
        "unit": UNIT,
        "blocks": limit,
        "model": MODEL_VERSION,
    }


def run_rounds(
    job: Job, tables: Tables, columns: Sequence[MeasuredColumn | None], rounds: int
) -> None:
    """Each round: choose tables that the model so far gets wrong, count them, and put them into the
    model."""
    facts, domain = job.plan.facts, job.plan.domain
    assert domain is not None
    weights, heaviest = table_weights(job.plan, job.columns)
    part = ROUND_PART / rounds
    steps = round_steps(job.budget.law, len(job.columns))
    model = job.model(tables, columns)
    most = min(
        FINEST_GROUPS, max(4, int(math.sqrt(MAX_LOOKED_AT / job.rows.labels) / len(job.columns)))
    )
    ladders = {c: ladder(model, c, ordered=domain.axes[c].ordered, most=most) for c in job.columns}
    held = Rounds(job.rows, ladders, [columns for columns in weights if len(columns) > 2])
    for number in range(rounds):
        deviation = job.budget.deviation(part * Fraction(facts["pair_share"]) / steps)
        done = {tuple(sorted(table.columns)) for table in tables.measured}
        picked = choose_tables(
            job.noise,
            held.scores(model, weights, done, deviation=deviation),
            model.beliefs.tree,
            held.states(model),
            job.budget,
            labels=job.rows.labels,
            steps=steps,
            weight=heaviest,
            share=part * Fraction(facts["choice_share"]),
            name=f"round {number + 1}",
        )
        known = len(tables.measured)
        tables.extend(
            job,
            [option.columns for option in picked],
            [held.groups(option) for option in picked],
            part * Fraction(facts["pair_share"]),
            name=f"round {number + 1}, counts of table",
        )
        if picked and number + 1 < rounds:
            model = grow_model(model, tables.measured[known:])


def budget_law(facts: Any) -> Law:
    return "laplace" if facts["noise"] == "laplace" else "gaussian"


def column_shares(
    budget: BudgetSplit, plan: Plan, columns: Sequence[int], labels: int
) -> dict[int, Fraction]:
    """The part of the whole budget that each column's histogram gets; depends on public sizes
    only."""
    assert plan.domain is not None
    share = Fraction(plan.facts["column_share"])
    parts = table_parts(budget.law, [plan.domain.shape[column] * labels for column in columns])
    return {column: share * part for column, part in zip(columns, parts, strict=True)}


def measured_columns(
    singles: dict[int, IntArray],
    shares: dict[int, Fraction],
    budget: BudgetSplit,
    plan: Plan,
    labels: int,
) -> list[MeasuredColumn | None]:
    """The noisy columns as a reader gets them, one a column of the domain; None for the target."""
    assert plan.domain is not None
    out: list[MeasuredColumn | None] = [None] * len(plan.domain.axes)
    for column, counts in singles.items():
        noisy = counts.reshape(-1, labels).astype(np.float64)
        out[column] = MeasuredColumn(
            noisy, budget.variance(shares[column]), ordered_widths(plan.domain.axes[column])
        )
    return out


def publish_columns(
    singles: dict[int, IntArray],
    shares: dict[int, Fraction],
    budget: BudgetSplit,
    plan: Plan,
    labels: int,
) -> Published:
    """What a reader of the noisy columns would make of them: the mechanism itself looks at nothing
    else from here on."""
    assert plan.domain is not None
    measured = {
        column: one
        for column, one in enumerate(measured_columns(singles, shares, budget, plan, labels))
        if one is not None
    }
    totals = fit_labels(list(measured.values()), [], plan.facts["public_rows"])
    fitted = {column: fit_column(one, [], totals) for column, one in measured.items()}
    return Published(
        labels=totals,
        singles={column: table for column, (table, _) in fitted.items()},
        deviations={
            column: budget.deviation(shares[column]) * math.sqrt(left)
            for column, (_, left) in fitted.items()
        },
        ordered=[axis.ordered for axis in plan.domain.axes],
    )


def pair_groups(
    known: Published,
    chosen: Sequence[Edge],
    budget: BudgetSplit,
    plan: Plan,
    labels: int,
    *,
    part: Fraction,
) -> list[tuple[Ints, Ints]]:
    """The groups of levels that each chosen pair is counted over, from public numbers.

    The pairs chosen first depend most. Their rows crowd in few cells, which stand out of the noise
    over finer groups too.
    """
    if not chosen:
        return []
    assert plan.domain is not None
    deviation = budget.deviation(part * Fraction(plan.facts["pair_share"]) / len(chosen))
    cells = float(known.labels.sum()) / (
        float(Fraction(plan.parameters["cell_deviations"])) * deviation
    )
    out = []
    for place, (first, second) in enumerate(chosen):
        finer = FINEST - (FINEST - 1) * place / len(chosen)
        levels = [
            int(np.count_nonzero(known.singles[column].sum(axis=1))) or 1
            for column in (first, second)
        ]
        limits = group_limits(levels[0], levels[1], labels, finer * cells)
        out.append((known.groups(first, limits[0]), known.groups(second, limits[1])))
    return out


def _stacked(
    name: str,
    keys: Sequence[int] | range,
    parts: Sequence[Any],
    *,
    value: str = "count",
    kind: Any = np.int64,
) -> Any:
    """Arrays of different lengths as one long table: which array, and its values in order."""
    lengths = [len(part) for part in parts]
    return {
        name: np.repeat(np.array(list(keys), dtype=np.int64), lengths),
        value: np.concatenate(parts).astype(kind) if parts else np.zeros(0, dtype=kind),
    }
