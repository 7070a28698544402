"""From measured tables to the model: labels first, then every column, then the joint tables, each
made to agree with the last.

This is post-processing of published numbers. The least-squares step is unbiased and keeps its
precision, which is what the intervals are made of; the steps to non-negative counts come after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.models.junction_tree.beliefs import Beliefs, Target
from dpublish.models.junction_tree.cliques import (
    CliqueTree,
    Zeros,
    without_impossible,
)
from dpublish.models.junction_tree.consistency import (
    GroupSums,
    fit_margins,
    least_squares,
    onto_simplex,
    sum_groups,
)
from dpublish.models.junction_tree.known_sums import (
    Corrections,
    KnownSum,
    fit_known_labels,
    of_column,
    pin,
    rake,
)
from dpublish.models.junction_tree.model import Fitted, JunctionModel, TableTooLarge
from dpublish.models.junction_tree.model_error import MODEL_VERSION
from dpublish.models.junction_tree.shrink import shrink, split_labels
from dpublish.models.junction_tree.smooth import MAX_LEVELS, Rough, smooth_columns
from dpublish.models.one_thread import on_one_thread
from dpublish.models.public_prior import (
    Guess,
    PublicPair,
    PublicPrior,
    guess_columns,
    prior_tables,
    towards,
)

SWEEPS = 12
"""Times that proportional fitting goes around the junction tree, at most. A forest of pairs needs
one; noisy tables in a circle end it after three or four."""
SHORT_SWEEPS = 1
"""The same for models of earlier rounds, which are only what later tables are shrunk towards, and
where later sweeps begin."""


@dataclass(frozen=True)
class MeasuredColumn:
    """Noisy counts of a column by label (levels x labels), each with the same noise variance. The
    first levels may follow each other, as bins do: `widths` holds how wide each of these is."""

    counts: Floats
    variance: float
    widths: tuple[float, ...] = ()


@dataclass(frozen=True)
class MeasuredTable:
    """Noisy counts of a few columns over groups of levels, by label or of all labels together (then
    the last axis has one place). `round` says after which model it was chosen."""

    columns: tuple[int, ...]
    groups: tuple[Ints, ...]
    counts: Floats
    variance: float
    round: int = 0

    def by_label(self, labels: int) -> bool:
        """Whether rows of different labels were counted apart."""
        return bool(self.counts.shape[-1] == labels)

    def sums_for(self, column: int) -> GroupSums:
        """What the table says about one of its columns alone."""
        place = self.columns.index(column)
        others = tuple(axis for axis in range(len(self.columns)) if axis != place)
        cells = math.prod(self.counts.shape[axis] for axis in others)
        return GroupSums(self.groups[place], self.counts.sum(axis=others), self.variance * cells)


@on_one_thread
def fit_model(
    columns: Sequence[MeasuredColumn | None],
    tables: Sequence[MeasuredTable],
    *,
    target: int | None,
    total: int | None,
    version: int = MODEL_VERSION,
    zeros: Sequence[Zeros] = (),
    known: Sequence[KnownSum] = (),
    prior: PublicPrior | None = None,
) -> JunctionModel:
    """The joined model. `columns[target]` is None; `total` is the public number of rows, where
    there is one; `version` is one of `KNOWN_VERSIONS`; `zeros` is what rules forbid; `known` are
    public totals; `prior` is what a public table of other people says.

    Tables of one round are shrunk towards the model of the rounds before, towards which they were
    chosen; those of the first towards the prior, where there is one.
    """
    labels = fit_labels([column for column in columns if column is not None], tables, total, known)
    fitted = fit_columns(
        {
            index: (column, [one.sums_for(index) for one in tables if index in one.columns])
            for index, column in enumerate(columns)
            if column is not None
        },
        labels,
        version=version,
        known=known,
        guesses=column_guesses(columns, labels, prior),
        noise_left=False,
    )
    singles = [
        np.diag(labels)
        if column is None
        else _possible_column(fitted[index][0], index, labels, zeros, of_column(known, index))
        for index, column in enumerate(columns)
    ]
    levels = {
        index: len(singles[index]) for index, column in enumerate(columns) if column is not None
    }
    started = _started(prior, columns, singles, labels)
    state_of = {
        index: common_states(count, index, tables, prior_states(count, index, zeros, started))
        for index, count in levels.items()
    }
    pinned = sorted({one.column for one in known if one.column is not None})
    last = max((table.round for table in tables), default=-1)
    model = join_tables(
        labels,
        singles,
        state_of,
        [],
        target=target,
        zeros=zeros,
        prior=_factors(labels, singles, state_of, started, target=target, zeros=zeros),
        pinned=pinned if last < 0 else (),
    )
    for number in sorted({table.round for table in tables}):
        fresh = [
            fit_table(table, model, singles, labels) for table in tables if table.round == number
        ]
        model = add_tables(
            model,
            fresh,
            state_of,
            sweeps=SWEEPS if number == last else SHORT_SWEEPS,
            pinned=pinned if number == last else (),
        )
    return model


def column_guesses(
    columns: Sequence[MeasuredColumn | None], labels: Floats, prior: PublicPrior | None
) -> dict[int, Guess]:
    """What a public table says of the columns that it has."""
    if prior is None:
        return {}
    counts = {index: one.counts for index, one in enumerate(columns) if one is not None}
    return guess_columns(prior, counts, noise_of(columns), labels)


def _started(
    prior: PublicPrior | None,
    columns: Sequence[MeasuredColumn | None],
    singles: Sequence[Floats],
    labels: Floats,
) -> list[Fitted]:
    """The tables of pairs that a public table and the checks of it lead to."""
    if prior is None:
        return []
    return prior_tables(prior.pairs, singles, labels, noise_of(columns))[0]


def held_pairs(
    prior: PublicPrior, model: JunctionModel, columns: Sequence[MeasuredColumn | None]
) -> list[float]:
    """How much of the dependence of every public pair was found to hold."""
    _, held = prior_tables(prior.pairs, model.singles, model.labels, noise_of(columns))
    return [float(share) for share in held]


def noise_of(columns: Sequence[MeasuredColumn | None]) -> list[float]:
    """The variance of the noise of every column; 0 for the target."""
    return [0.0 if one is None else one.variance for one in columns]


def prior_states(
    levels: int,
    column: int,
    zeros: Sequence[Zeros],
    prior: Sequence[Fitted | PublicPair],
) -> Ints:
    """The states that rules and the prior ask for, before any table is counted."""
    return common_states(levels, column, [*zeros, *prior])


def _factors(
    labels: Floats,
    singles: Sequence[Floats],
    state_of: Mapping[int, Ints],
    started: Sequence[Fitted],
    *,
    target: int | None,
    zeros: Sequence[Zeros],
) -> list[Fitted]:
    """What a model of independent columns has to be multiplied by to have the tables of the
    prior."""
    if not started:
        return []
    model = join_tables(labels, singles, state_of, started, target=target, zeros=zeros)
    return [
        Fitted(one.columns, one.groups, factor)
        for one, factor in zip(started, model.beliefs.factors[-len(started) :], strict=True)
    ]


def _possible_column(
    table: Floats, column: int, labels: Floats, zeros: Sequence[Zeros], known: Sequence[KnownSum]
) -> Floats:
    """A column's table without what a rule forbids, and with its public totals again."""
    left = without_impossible(table, column, zeros)
    return left if left is table or not known else rake(left, labels, known, least=0.0)


def grow_model(model: JunctionModel, tables: Sequence[MeasuredTable]) -> JunctionModel:
    """A model with further tables, all else as it was: much quicker than a fit anew, and near
    it."""
    state_of = {
        c: common_states(len(state), c, tables, state) for c, state in model.state_of.items()
    }
    fresh = [fit_table(table, model, model.singles, model.labels) for table in tables]
    return add_tables(model, fresh, state_of, sweeps=SHORT_SWEEPS)


def common_states(
    levels: int,
    column: int,
    tables: Sequence[MeasuredTable | Fitted | PublicPair | Zeros],
    known: Ints | None = None,
) -> Ints:
    """The state of each level of a column: levels that every table puts in one group share one.
    Known states stay apart."""
    state = np.zeros(levels, dtype=np.int64) if known is None else known
    for table in tables:
        if column in table.columns:
            group_of = table.groups[table.columns.index(column)]
            _, found = np.unique(state * (int(group_of.max()) + 1) + group_of, return_inverse=True)
            state = found.reshape(-1).astype(np.int64)
    return state


def add_tables(
    model: JunctionModel,
    fresh: Sequence[Fitted],
    state_of: Mapping[int, Ints],
    *,
    sweeps: int,
    pinned: Sequence[int] = (),
) -> JunctionModel:
    """The model of largest entropy with a model's tables and a few more; it begins with that one's
    tree and factors."""
    return join_tables(
        model.labels,
        model.singles,
        state_of,
        [*model.tables, *fresh],
        target=model.target,
        sweeps=sweeps,
        before=model.beliefs,
        zeros=model.zeros,
        prior=model.prior,
        pinned=pinned,
    )


def join_tables(
    labels: Floats,
    singles: Sequence[Floats],
    state_of: Mapping[int, Ints],
    tables: Sequence[Fitted],
    *,
    target: int | None,
    sweeps: int = SWEEPS,
    before: Beliefs | None = None,
    zeros: Sequence[Zeros] = (),
    prior: Sequence[Fitted] = (),
    pinned: Sequence[int] = (),
) -> JunctionModel:
    """The model of largest entropy with the given tables; with a prior, which multiplies the cells
    of a model of independent columns, the one nearest to it. `before` is that of the first of these
    tables; the `pinned` columns have their own tables exactly."""
    wide = [one for one in zeros if len(one.columns) > 1]
    together: list[Zeros | Fitted] = [*wide, *prior]
    states = {column: int(state.max()) + 1 for column, state in state_of.items()}
    known = before.factors if before is not None else []
    tree = (
        before.tree
        if before is not None
        else CliqueTree.apart(state_of).joined([one.columns for one in together], states)
    )
    ruled = sorted({column for one in together for column in one.columns})
    fresh = tables[max(0, len(known) - len(ruled)) :]
    beliefs = Beliefs(tree.joined([table.columns for table in fresh], states), states, len(labels))
    beliefs.start(
        {c: sum_groups(singles[c], state, states[c]) for c, state in state_of.items()}, labels
    )

    def target_of(columns: Sequence[int], groups: Sequence[Ints], table: Floats) -> Target:
        of_states = []
        for column, group_of in zip(columns, groups, strict=True):
            group = np.zeros(states[column], dtype=np.int64)
            group[state_of[column]] = group_of
            of_states.append(group)
        return Target(tuple(columns), tuple(of_states), table)

    if together:
        beliefs.multiply([target_of(one.columns, one.groups, one.table) for one in together])
    targets = []
    for column in ruled:  # what multiplies pairs changes what columns have alone
        first = prior_states(len(singles[column]), column, zeros, prior)
        sums = sum_groups(singles[column], first, int(first.max()) + 1)
        targets.append(target_of((column,), (first,), sums))
    targets += [target_of(table.columns, table.groups, table.table) for table in tables]
    beliefs.fit(targets, sweeps=sweeps, known=known)
    if pinned:
        pin(beliefs, singles, state_of, pinned)
    return JunctionModel(
        labels, singles, state_of, beliefs, tables, target=target, zeros=zeros, prior=prior
    )


def fit_labels(
    columns: Sequence[MeasuredColumn],
    tables: Sequence[MeasuredTable],
    total: int | None,
    known: Sequence[KnownSum] = (),
) -> Floats:
    """Rows of each label: every table has its own noisy answer, and they are averaged by
    precision."""
    value, _ = label_estimate(columns, tables)
    if known:
        return fit_known_labels(value, known, total)
    if total is not None:
        return onto_simplex(value[:, None], np.array([float(total)]))[:, 0]
    return np.maximum(0.0, value)


def label_estimate(
    columns: Sequence[MeasuredColumn], tables: Sequence[MeasuredTable]
) -> tuple[Floats, float]:
    """The unbiased estimate of the rows of each label, and its variance."""
    answers = [(one.counts.sum(axis=0), one.variance * one.counts.shape[0]) for one in columns]
    labels = answers[0][0].size
    answers += [
        (one.counts.reshape(-1, labels).sum(axis=0), one.variance * (one.counts.size // labels))
        for one in tables
        if one.by_label(labels)
    ]
    precision = sum(1 / variance for _, variance in answers)
    value = sum(
        (answer / variance for answer, variance in answers), start=np.zeros(answers[0][0].shape)
    )
    return value / precision, 1 / precision


def fit_columns(
    columns: Mapping[int, tuple[MeasuredColumn, Sequence[GroupSums]]],
    labels: Floats,
    *,
    version: int = MODEL_VERSION,
    known: Sequence[KnownSum] = (),
    guesses: Mapping[int, Guess] | None = None,
    noise_left: bool = True,
) -> dict[int, tuple[Floats, float]]:
    """Of every column, with what tables say of its sums: non-negative counts by label that add up
    to the rows of each label, and the share of the noise left, unless `noise_left` says that nobody
    asks for it. `known` are public totals, `guesses` what a public table of other people says."""
    rough, guesses = {}, guesses or {}
    for index, (column, more) in columns.items():
        best, totals = with_sums(column, more), of_column(known, index)
        more = [one for one in more if one.sums.shape[1] == len(labels)]
        if totals:
            best = Corrections.of(totals, column.variance, more).moved(best)
        split = guesses[index].split if index in guesses else None
        rough[index] = Rough(best, column.variance, more, column.widths, split)
    curves = {
        index: one
        for index, one in rough.items()
        if len(one.ordered) > 2 and len(one.best) <= MAX_LEVELS
    }
    found = smooth_columns(
        list(curves.values()),
        labels,
        version=version,
        noise_left=noise_left or bool(guesses),
    )
    smooth = dict(zip(curves, found, strict=True))
    out = {}
    for index, one in rough.items():
        table, left = smooth.get(index) or _fit_levels(columns[index][0], one, labels, version)
        if index in guesses:
            noise = level_variances(columns[index][0], one.more)[table.sum(axis=1) > 0].sum()
            noise *= left * len(labels)
            table, still = towards(table, float(noise), guesses[index], labels)
            left *= still
        totals = of_column(known, index)
        out[index] = (rake(table, labels, totals, least=1e-9) if totals else table, left)
    return out


def _fit_levels(
    column: MeasuredColumn, one: Rough, labels: Floats, version: int
) -> tuple[Floats, float]:
    """Levels without neighbours."""
    if version < 6:
        return onto_simplex(one.best, labels), 1.0
    return split_labels(one.best, level_variances(column, one.more), labels, one.split), 1.0


def with_sums(column: MeasuredColumn, more: Sequence[GroupSums]) -> Floats:
    """The best linear unbiased estimate of a column by label. Sums that were not counted by label
    speak of its rows alone: these and how they are split have noise that is not correlated."""
    labels = column.counts.shape[1]
    apart = [one for one in more if one.sums.shape[1] == labels]
    best = least_squares(column.counts, column.variance, apart)
    if len(apart) == len(more):
        return best
    alone, sums = rows_alone(column, more)
    rows = least_squares(alone.counts, alone.variance, sums)
    moved: Floats = best + (rows - best.sum(axis=1, keepdims=True)) / labels
    return moved


def rows_alone(
    column: MeasuredColumn, more: Sequence[GroupSums]
) -> tuple[MeasuredColumn, list[GroupSums]]:
    """The rows of every level of a column, all labels together, and what tables say of them."""

    def together(counts: Floats, variance: float) -> tuple[Floats, float]:
        return counts.sum(axis=1, keepdims=True), variance * counts.shape[1]

    counts, variance = together(column.counts, column.variance)
    sums = [GroupSums(one.group_of, *together(one.sums, one.variance)) for one in more]
    return MeasuredColumn(counts, variance, column.widths), sums


def level_variances(column: MeasuredColumn, more: Sequence[GroupSums]) -> Floats:
    """The noise of the least-squares estimate of each level; of long columns, at most that."""
    levels = len(column.counts)
    if not more or levels > MAX_LEVELS:
        return np.full(levels, column.variance)
    # in units of the column's own noise, so that no level is lost beside tables with far less
    precision = np.eye(levels)
    for one in more:
        same = one.group_of[:, None] == one.group_of[None, :]
        precision += same * (column.variance / one.variance)
    return column.variance * np.diag(np.linalg.inv(precision))


def fit_table(
    table: MeasuredTable, model: JunctionModel, singles: Sequence[Floats], labels: Floats
) -> Fitted:
    """A table shrunk towards what the model says of it, as far as its noise calls for,
    non-negative, and with the margins that its columns have."""
    margins = [
        sum_groups(singles[column], group_of, count)
        for column, group_of, count in zip(
            table.columns, table.groups, table.counts.shape, strict=False
        )
    ]
    expected = grouped_table(model, table.columns, table.groups)
    if not table.by_label(len(labels)):
        return Fitted(table.columns, table.groups, fit_without_labels(table, expected, margins))
    best = shrink(table.counts, expected, table.variance)
    flat = onto_simplex(best.reshape(-1, len(labels)), labels).reshape(best.shape)
    if model.zeros:
        flat = np.where(expected > 0, flat, 0.0)
    # a little of the expected table keeps proportional fitting from being stuck at zeros
    return Fitted(table.columns, table.groups, fit_margins(flat + 1e-3 * expected, margins))


def fit_without_labels(table: MeasuredTable, expected: Floats, margins: Sequence[Floats]) -> Floats:
    """A table of all labels together, fitted like any other, and its rows split among labels as the
    model expects and the columns' own margins by label demand."""
    together = expected.sum(axis=-1, keepdims=True)
    best = shrink(table.counts, together, table.variance)
    flat = onto_simplex(best.reshape(-1, 1), np.array([together.sum()])).reshape(best.shape)
    flat = np.where(together > 0, flat, 0.0)
    rows = fit_margins(flat + 1e-3 * together, [one.sum(axis=1, keepdims=True) for one in margins])
    return fit_margins(expected, margins, whole=rows)


def grouped_table(model: JunctionModel, columns: Sequence[int], groups: Sequence[Ints]) -> Floats:
    """What a model says of the counts of some columns over groups of levels, by label."""
    if len(columns) == 2:
        first, second = columns
        spreads = {
            column: model.spread(column, group_of)
            for column, group_of in zip(columns, groups, strict=True)
        }
        return model.pairwise_marginals(first, spreads)[second]
    try:
        table = model.joint_states(columns)
    except (
        TableTooLarge
    ):  # columns far apart in a wide tree: what is expected is only what a table is shrunk towards
        table = model.apart_states(columns)
    for place, (column, group_of) in enumerate(zip(columns, groups, strict=True)):
        moved = np.einsum(
            "a...t,agt->g...t", np.moveaxis(table, place, 0), model.spread(column, group_of)
        )
        table = np.moveaxis(moved, 0, place)
    return table
