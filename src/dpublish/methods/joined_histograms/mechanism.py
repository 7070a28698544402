"""Joined histograms: every column of a table, as small noisy histograms that are joined into one
model of the whole table.

In: rows coded over all columns (private). Out: a noisy histogram of every column with the target, a
private choice of pairs of columns (and of triples within a declared marginal), and a noisy
histogram of every chosen one with the target over groups of levels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import CodedRows, Tabulation
from dpublish.methods.adaptive_bins import adapted, choose_bins, regrouping, round_cells
from dpublish.methods.base import Mechanism, Output
from dpublish.methods.draws import noisy_counts
from dpublish.methods.field_types import Interval
from dpublish.methods.joined_histograms.job import Job, MeasuredColumns, Tables
from dpublish.methods.joined_histograms.model_error import (
    block_limit,
    largest_model_error,
    publish_model_error,
)
from dpublish.methods.joined_histograms.plan import (
    LEAST_SHARE,
    MAX_ROUND_COLUMNS,
    ROUND_PART,
    ROUNDS_BY_ROOM,
    JoinedSettings,
    plan_joined,
    round_steps,
)
from dpublish.methods.joined_histograms.public_table import check_pairs
from dpublish.methods.joined_histograms.rounds import (
    FINEST as FINEST_GROUPS,
    MAX_LOOKED_AT,
    Option,
    Rounds,
    choose_tables,
    coarsening,
)
from dpublish.methods.joined_histograms.structure import (
    Edge,
    Published,
    choose_forest,
    pair_scores,
    table_parts,
)
from dpublish.methods.joined_histograms.workload import (
    declared_triples,
    pair_weights,
    table_weights,
)
from dpublish.models.junction_tree.cliques import group_limits, structural_zeros
from dpublish.models.junction_tree.consistency import GroupSums
from dpublish.models.junction_tree.fit import (
    MeasuredColumn,
    MeasuredTable,
    column_guesses,
    fit_columns,
    fit_labels,
    grow_model,
    noise_of,
)
from dpublish.models.junction_tree.measured import MAX_ROUNDS
from dpublish.models.junction_tree.model import JunctionModel
from dpublish.models.junction_tree.model_error import MODEL_VERSION, UNIT
from dpublish.models.one_thread import on_one_thread
from dpublish.models.public_prior import PublicPrior, taken_pairs
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

Share = Fraction | float | int | str

FINEST = 6
"""How many times as many cells the pair chosen first may have as the last one. Chosen on synthetic
tables (benchmarks/joined_tuning/tune.py --learn --set
methods.joined_histograms.mechanism.FINEST=...): with 6 instead of 3 the worst pair is 2 to 17%
better, TV-2 within 3%."""
MAX_COUNTED = 1 << 24
"""Cells of all tables of pairs and triples that are counted in one pass, by declared levels."""


@on_one_thread
def joined_histograms(noise: Noise, codes: Any, plan: Plan[JoinedSettings]) -> Output:
    """The mechanism: find bins, measure every column, select and measure a forest of pairs; then,
    in rounds, select and measure what the model of all that gets wrong; last, measure how wrong it
    still is."""
    job = find_bins(Job.of(noise, codes, plan)).with_prior()
    columns = measure_columns(job)
    known = publish_columns(job, columns)
    rounds = round_count(job, known)
    tables = Tables()
    if job.prior is not None:
        job = replace(job, prior=take_public(job, columns, known, job.prior))
    part = 1 - ROUND_PART if rounds else Fraction(1)
    model = job.model(columns, tables) if job.prior is not None else None
    if model is not None and model.prior:
        # a public table tells how columns go together: chosen as in a round, by what the model
        # that starts from it gets wrong
        candidates = candidate_tables(job, model)
        most = len(job.columns) - 1
        count_round(job, candidates, model, tables, part, most, "pair", "counts of pair")
    elif len(job.columns) > 1:
        pairs = select_pairs(job, known, part)
        groups = pair_groups(job, known, pairs, part)
        tables.measure(job, pairs, groups, [False] * len(pairs), part, name="counts of pair")
    if rounds:
        model = job.model(columns, tables)
        candidates = candidate_tables(job, model)
        most = round_steps(job.budget.law, len(job.columns))
        for number in range(1, rounds + 1):
            fresh = count_round(
                job,
                candidates,
                model,
                tables,
                ROUND_PART / rounds,
                most,
                f"round {number}",
                f"round {number}, counts of table",
            )
            model = grow_model(model, fresh) if fresh and number < rounds else model
    return publish(job, columns, tables, measure_model_error(job, columns, tables))


@dataclass(frozen=True, kw_only=True)
class JoinedHistograms(Mechanism):
    """All columns of a table, joined: a model that answers counts, gives synthetic rows and trains
    classifiers.

    Input: rows coded over the columns. Neighbours: replace-one or add-remove-one, of a unit with at
    most c rows.
    Output: which pairs or triples of columns were joined; noisy counts of every column with the
    target, and of every such table, with the target or without.
    Privacy: epsilon-DP with discrete Laplace noise, rho-zCDP or (epsilon, delta)-DP with discrete
    Gaussian noise (theorems 1 and 2 of joined_histograms.proof.md); all steps share one budget by
    exact parts.
    Relies on: `Noise.laplace`, `Noise.gaussian` and `Noise.choose` being exact; rows per unit
    bounded by c before coding; public rows being public, chosen without looking at private ones.
    Shows / hides: how columns go with the target and with one another in pairs; of more columns,
    only what a declared workload names and its noise allows.
    Accuracy: a count over one column has the noise of its cells; the plan states the noise of both
    kinds of table.

    Parameters
    ----------
    columns : names of the columns to publish; all declared columns when left out.
    target : the column that every other one is counted with, and joint tables where that is worth
        its noise; the schema's target when left out, "none" for no target.
    bins : number of bins for numeric columns that declare none, about; fewer, but no less than 8,
        where they are found from the rows and would hold less than 7.5 standard deviations of the
        noise that they are counted with.
    noise : "laplace" (pure epsilon), "gaussian" (needs delta or rho) or "auto": the one with less
        noise.
    column_share : share of the budget for the histograms of single columns. When left out, 2/5; or
        3/5 where a table of a pair has room for few cells, or quantiles are blurred, by the
        declared number of rows (10,000 where none is declared); a tenth less if all bins have to be
        found.
    choice_share : share of the budget for choosing pairs; the rest is for measuring them.
    misfit_share : share of the budget for measuring how wrong the finished model is; 0 for not at
        all, and then questions that no table was counted for have wide intervals.
    bin_share : share of the budget for finding the bins of numeric columns that declare neither
        bins nor edges nor a precision; 0 for bins of equal width. When left out, for a table of
        nothing but such columns a fifth (Laplace noise) or 3/20 (Gaussian noise), 3/10 or a fifth
        where single columns get more too, and for others as much less as they have fewer of them.
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
    public : a public table of other people with the same columns, or some of them and the target,
        that the model starts from: path of a table or of a release (.dpr), a frame, a `SqlSource`,
        or a release. Half of `choice_share` then pays for counts that tell how much of it holds.
    public_title : what the release calls the public table. Where it was read from is never
        published.

    Examples
    --------
    >>> JoinedHistograms(target="ill").bins
    32
    """

    columns: Sequence[str] | None = None
    target: str | None = None
    bins: Annotated[int, Interval(1)] = 32
    noise: Literal["auto", "laplace", "gaussian"] = "auto"
    column_share: Annotated[Share | None, Interval(LEAST_SHARE, below=1)] = None
    choice_share: Annotated[Share, Interval(LEAST_SHARE, below=1)] = Fraction(1, 10)
    cell_deviations: Annotated[Share, Interval(above=0)] = Fraction(3, 2)
    misfit_share: Share = Fraction(1, 100)
    bin_share: Annotated[Share | None, Interval(0, below=1)] = None
    rounds: Annotated[int | None, Interval(0, MAX_ROUNDS)] = None
    workload: Sequence[str] | Mapping[str, Share] | None = None
    public: object = None
    public_title: str | None = None

    def plan(self, schema: Schema, cost: Cost) -> Plan[JoinedSettings]:
        return plan_joined(self, schema, cost)

    def statistic(self, plan: Plan[JoinedSettings]) -> Tabulation | CodedRows:
        """The tables of all columns, pairs and declared triples; the coded rows only where those
        have too many cells together."""
        settings = plan.settings
        shape, pairs = settings.domain.shape, itertools.combinations(settings.features, 2)
        wanted = [*pairs, *declared_triples(settings)]
        cells = sum(math.prod(shape[column] for column in columns) for columns in wanted)
        few = cells * settings.labels <= MAX_COUNTED
        return Tabulation(settings.fine) if few else CodedRows(settings.fine)

    def run(self, noise: Noise, numbers: Any, plan: Plan[JoinedSettings]) -> Output:
        return joined_histograms(noise, numbers, plan)


def find_bins(job: Job) -> Job:
    """The same rows over bins that were found with noise, where columns declare none."""
    adaptive = [c for c in job.columns if job.domain.names[c] in job.settings.adaptive]
    if not adaptive:
        return job
    axes, rows, public = list(job.domain.axes), job.rows, job.public
    for column in adaptive:
        axis = axes[column]
        ends = choose_bins(
            job.noise,
            job.budget,
            rows.count_levels(column)[: axis.base],
            share=job.settings.bin_share / len(adaptive),
            rows=job.settings.public_rows,
            bins=job.settings.bins,
            label=f"bins of column {column + 1}",
            fixed=[axis.edges.index(end) for end in job.settings.rule_ends(column)],
            round_cells=round_cells(axis),
        )
        grouped = regrouping(axis, ends)
        rows = rows.regrouped(column, grouped)
        public = public if public is None else public.regrouped(column, grouped)
        axes[column] = adapted(axis, ends)
    domain = Domain(tuple(axes), job.domain.rules)
    zeros = structural_zeros(domain.rules, domain, job.settings.target_index)
    return replace(job, rows=rows, domain=domain, zeros=zeros, public=public)


def measure_columns(job: Job) -> MeasuredColumns:
    """Noisy counts of every column by label, and the part of the budget that each gets, which
    depends on public sizes only."""
    sizes = [job.domain.shape[column] * job.rows.labels for column in job.columns]
    shares = {
        column: job.settings.column_share * part
        for column, part in zip(job.columns, table_parts(job.budget.law, sizes), strict=True)
    }
    counts = {
        column: noisy_counts(
            job.noise,
            job.budget,
            job.rows.count_column(column),
            share=shares[column],
            label=f"column {column + 1}",
        )
        for column in job.columns
    }
    return MeasuredColumns(counts, shares)


def publish_columns(job: Job, columns: MeasuredColumns) -> Published:
    """What a reader of the noisy columns would make of them: the mechanism itself looks at nothing
    else from here on."""
    measured = {column: one for column, one in enumerate(columns.published(job)) if one is not None}
    known = job.known
    totals = fit_labels(list(measured.values()), [], job.settings.public_rows, known)
    alone: dict[int, tuple[MeasuredColumn, list[GroupSums]]] = {
        column: (one, []) for column, one in measured.items()
    }
    guesses = column_guesses(columns.published(job), totals, job.prior)
    fitted = fit_columns(alone, totals, known=known, guesses=guesses)
    return Published(
        labels=totals,
        singles={column: table for column, (table, _) in fitted.items()},
        deviations={
            column: job.budget.deviation(columns.shares[column]) * math.sqrt(left)
            for column, (_, left) in fitted.items()
        },
        ordered=[axis.ordered for axis in job.domain.axes],
    )


def round_count(job: Job, known: Published) -> int:
    """How many rounds there will be: from public settings and published numbers alone."""
    if len(job.columns) < 3:
        return 0
    if job.settings.rounds is not None:
        return job.settings.rounds
    if len(job.columns) > MAX_ROUND_COLUMNS:
        return 0
    deviation = job.budget.deviation(job.settings.pair_share / (len(job.columns) - 1))
    room = job.cells(known, deviation) / job.rows.labels
    return next((rounds for least, rounds in ROUNDS_BY_ROOM[job.budget.law] if room >= least), 0)


def take_public(
    job: Job, columns: MeasuredColumns, known: Published, prior: PublicPrior
) -> PublicPrior:
    """The public table with its checks, and which pairs of it the model starts with."""
    checked = check_pairs(job, prior, float(known.labels.sum()))
    nothing = np.zeros((1, len(known.labels)))
    singles = [known.singles.get(column, nothing) for column in range(len(job.domain.axes))]
    return taken_pairs(checked, singles, known.labels, noise_of(columns.published(job)))


def count_round(
    job: Job,
    candidates: Rounds,
    model: JunctionModel,
    tables: Tables,
    part: Fraction,
    steps: int,
    name: str,
    counts: str,
) -> list[MeasuredTable]:
    """Select up to `steps` tables that the model gets wrong, and measure them."""
    chosen = select_tables(job, candidates, model, tables, part, steps, name)
    return tables.measure(
        job,
        [option.columns for option in chosen],
        [candidates.groups(option) for option in chosen],
        [option.by_label for option in chosen],
        part,
        name=counts,
    )


def select_pairs(job: Job, known: Published, part: Fraction) -> list[Edge]:
    """The first forest, for `part` of what choices may cost."""
    deviation = job.budget.deviation(part * job.settings.pair_share / (len(job.columns) - 1))
    weights, heaviest = pair_weights(job.settings)
    scores = pair_scores(
        job.rows,
        known,
        job.columns,
        weights,
        cells=job.cells(known, deviation),
        deviation=deviation,
    )
    share = part * job.settings.choice_share
    return choose_forest(job.noise, scores, job.columns, job.budget, weight=heaviest, share=share)


def pair_groups(
    job: Job, known: Published, chosen: Sequence[Edge], part: Fraction
) -> list[tuple[Ints, Ints]]:
    """The groups of levels that each chosen pair is counted over, from public numbers.

    The pairs chosen first depend most. Their rows crowd in few cells, which stand out of the noise
    over finer groups too.
    """
    if not chosen:
        return []
    cells = job.cells(known, job.budget.deviation(part * job.settings.pair_share / len(chosen)))
    out = []
    for place, (first, second) in enumerate(chosen):
        finer = FINEST - (FINEST - 1) * place / len(chosen)
        levels = [
            int(np.count_nonzero(known.singles[column].sum(axis=1))) or 1
            for column in (first, second)
        ]
        limits = group_limits(levels[0], levels[1], finer * cells)
        out.append((known.groups(first, limits[0]), known.groups(second, limits[1])))
    return out


def candidate_tables(job: Job, model: JunctionModel) -> Rounds:
    """What rounds may choose among: every pair, and declared triples, at every resolution."""
    side = int(math.sqrt(MAX_LOOKED_AT / job.rows.labels) / len(job.columns))
    most = min(FINEST_GROUPS, max(4, side))
    axes = job.domain.axes
    coarsenings = {c: coarsening(model, c, ordered=axes[c].ordered, most=most) for c in job.columns}
    return Rounds(job.rows, coarsenings, declared_triples(job.settings))


def select_tables(
    job: Job,
    candidates: Rounds,
    model: JunctionModel,
    tables: Tables,
    part: Fraction,
    steps: int,
    name: str,
) -> list[Option]:
    """Up to `steps` tables for `part` of the shares: what the model so far gets wrong, less what
    their noise costs."""
    deviation = job.budget.deviation(part * job.settings.pair_share / steps)
    weights, heaviest = table_weights(job.settings)
    done = {
        tuple(sorted(table.columns)) for table in tables.measured if table.by_label(job.rows.labels)
    }
    return choose_tables(
        job.noise,
        candidates.scores(model, weights, done, deviation=deviation),
        model.beliefs.tree,
        candidates.states(model),
        job.budget,
        labels=job.rows.labels,
        steps=steps,
        weight=heaviest,
        share=part * job.settings.choice_share,
        name=name,
    )


def measure_model_error(
    job: Job, columns: MeasuredColumns, tables: Tables
) -> dict[str, Any] | None:
    """How wrong the finished model is over pairs that were not counted: one noisy number, and how
    to read it."""
    share = job.settings.misfit_share
    if not share:
        return None
    limit = block_limit(len(job.columns), job.rows.labels)
    model = job.model(columns, tables)
    worst = largest_model_error(job.rows, model, job.columns, tables.pairs(job.rows.labels), limit)
    value, scale = publish_model_error(job.noise, job.budget, worst, share)
    return {
        "value": value,
        "scale": str(scale),
        "unit": UNIT,
        "blocks": limit,
        "model": MODEL_VERSION,
    }


def publish(
    job: Job, columns: MeasuredColumns, tables: Tables, model_error: dict[str, Any] | None
) -> Output:
    """All that was measured, in the words of the format."""
    names, rows = job.domain.names, job.settings.public_rows
    by_label = [table.by_label(job.rows.labels) for table in tables.measured]
    totals = job.settings.totals
    return Output(
        facts={
            "noise": job.budget.law,
            "target": job.settings.target,
            "labels": job.rows.labels,
            "joined": [[names[column] for column in table.columns] for table in tables.measured],
            "rounds": tables.sizes,
            **({} if all(by_label) else {"by_label": by_label}),
            "column_scales": [
                str(job.budget.scale(columns.shares[column])) for column in job.columns
            ],
            "joined_scales": [str(job.budget.scale(part)) for part in tables.parts],
            "misfit": model_error,
            "model": MODEL_VERSION,
            "total": {
                "kind": "unknown" if rows is None else "public",
                "value": rows,
                "scale": None,
            },
            **({"rules": [rule.to_dict() for rule in job.domain.rules]} if job.zeros else {}),
            **({"totals": [one.to_dict() for one in totals]} if totals else {}),
            **({} if job.prior is None else {"public": prior_facts(job.prior, names)}),
        },
        tables={
            "columns": _stacked("column", job.columns, [columns.counts[c] for c in job.columns]),
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
            **({} if job.prior is None else prior_arrays(job.prior)),
        },
        domain=job.domain if job.settings.adaptive else None,
    )


def prior_facts(prior: PublicPrior, names: Sequence[str]) -> dict[str, Any]:
    """What the manifest says of the public table: where it is from, what was taken of it, and what
    the checks say. The checks are noisy; all else is public."""
    return {
        "name": prior.name,
        "rows": prior.rows,
        "sha256": prior.digest,
        "columns": [names[column] for column in prior.columns],
        "pairs": [[names[column] for column in pair.columns] for pair in prior.pairs],
        "taken": [pair.taken for pair in prior.pairs],
        "checks": [pair.check for pair in prior.pairs],
        "check_scales": [str(pair.scale) for pair in prior.pairs],
    }


def prior_arrays(prior: PublicPrior) -> dict[str, Any]:
    """The public tables themselves: public counts."""
    sides = [side for pair in prior.pairs for side in pair.groups]
    return {
        "public_columns": _stacked(
            "column", list(prior.columns), [one.ravel() for one in prior.columns.values()]
        ),
        "public_pairs": _stacked(
            "table", range(len(prior.pairs)), [pair.counts.ravel() for pair in prior.pairs]
        ),
        "public_groups": _stacked("side", range(len(sides)), sides, value="group"),
    }


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
