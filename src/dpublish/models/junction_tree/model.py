"""A model of a whole table: the clique tables of a junction tree, over states of the columns, each
given the label.

A state is a set of levels that no counted table tells apart; within a state a level follows its
column's own table:

    P(x) = P(label) * prod over cliques P(new states | states shared with the clique before, label)
                    * prod over columns P(level | state, label)

All factors agree on what they share, so that sums over the model are exact: `joint` gives the table
of any few columns, `pairwise_marginals` the tables of one column with every other, `sample_codes`
draws rows.
"""

from __future__ import annotations

import math
import string
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.errors import QueryError
from dpublish.models.junction_tree.beliefs import Beliefs
from dpublish.models.junction_tree.cliques import Zeros
from dpublish.models.junction_tree.consistency import sum_groups

# Tables of pairs of columns, however far apart in the junction tree: one column carried along it
# to all the others.
#
# What the sweeps of different columns share is kept by the model: the chances of a clique's
# columns given those of the one before. Tables have the label first, so that every step is a
# product of matrices, one per label.


def pair_tables(
    model: JunctionModel, first: int, spreads: Mapping[int, Floats]
) -> dict[int, Floats]:
    """See `JunctionModel.around`. Spreads are states x groups x labels."""
    beliefs = model.beliefs
    out: dict[int, Floats] = {}
    fold = spreads[first].transpose(2, 1, 0)
    groups, states = fold.shape[1:]
    if groups > states:  # the column is carried by its states, and put into groups at the end
        alone = {
            **spreads,
            first: np.broadcast_to(np.eye(states)[:, :, None], (states, states, fold.shape[0])),
        }
        return {
            second: (fold @ table.transpose(2, 0, 1)).transpose(1, 2, 0)
            for second, table in pair_tables(model, first, alone).items()
        }
    wanted = frozenset(spreads) - {first}
    todo: list[tuple[int, int | None, Floats | None]] = [(model.clique_of([first]), None, None)]
    for one, before, front in todo:
        axes = beliefs.axes[one]
        children = [
            other
            for other in beliefs.tree.adjacent[one]
            if other != before and not wanted.isdisjoint(model.beyond(other, one))
        ]
        if front is None:  # a clique that holds the column itself
            for second in axes:
                if second in wanted and second not in out:
                    out[second] = _spread(
                        fold @ beliefs.over(one, [first, second]), spreads[second]
                    )
            for child in children:
                if first in beliefs.axes[child]:
                    todo.append((child, one, None))
                    continue
                shared = beliefs.over(
                    one, [first, *(column for column in axes if column in beliefs.axes[child])]
                )
                todo.append((child, one, fold @ shared.reshape(*shared.shape[:2], -1)))
            continue
        assert before is not None
        for second in model.sides(one, before)[1]:
            if second in wanted:
                out[second] = _spread(front @ model.chances(one, before, second), spreads[second])
        for child in children:
            todo.append((child, one, _carry(model, front, one, before, child)))
    apart = wanted - set(out)
    if not apart:
        return out
    shares = np.where(model.labels > 0, 1.0 / np.where(model.labels > 0, model.labels, 1.0), 0.0)
    mine = np.einsum("agt,at->gt", spreads[first], model.joint_states([first]))
    for second in apart:
        other = np.einsum("agt,at->gt", spreads[second], model.joint_states([second]))
        out[second] = mine[:, None, :] * other[None] * shares
    return out


def _spread(table: Floats, spread: Floats) -> Floats:
    """From (label, group, state) to (group, group, label)."""
    return (table @ spread.transpose(2, 0, 1)).transpose(1, 2, 0)


def _carry(model: JunctionModel, front: Floats, one: int, before: int, child: int) -> Floats:
    """From counts of (label, group, separator) to counts of (label, group, separator with the
    child).

    Products of matrices, one for every label and combination of the columns that stay: far faster
    than a sum over products.
    """
    step = model.step(one, before, child)
    labels, groups = front.shape[:2]
    left = (
        front.reshape(labels, groups, *step.separator)
        .transpose(step.turn)
        .reshape(labels, step.held, groups, -1)
    )
    carried = (
        left @ step.conditional if step.conditional is not None else left.sum(axis=3, keepdims=True)
    )
    shaped = carried.reshape(labels, *step.stay, groups, *step.fresh).transpose(step.back)
    return np.ascontiguousarray(shaped).reshape(labels, groups, -1)


@dataclass(frozen=True)
class Step:
    """From the separator of a clique with the one before it to its separator with a child: what
    does not depend on the column carried.

    Columns of the separator stay in the next one or go, and others are fresh. `conditional` are
    labels x stay x gone x fresh.
    """

    separator: list[int]
    turn: list[int]
    held: int
    conditional: Floats | None
    stay: list[int]
    fresh: list[int]
    back: list[int]


def step_to(model: JunctionModel, one: int, before: int, child: int) -> Step:
    beliefs = model.beliefs
    separator, new = beliefs.sides(one, before)
    onward = [column for column in beliefs.axes[one] if column in beliefs.axes[child]]
    stay = [column for column in separator if column in onward]
    gone = [column for column in separator if column not in onward]
    fresh = [column for column in new if column in onward]
    sizes = [[beliefs.states[column] for column in some] for some in (separator, stay, gone, fresh)]
    held, lost, found = (math.prod(some) for some in sizes[1:])
    place = {column: i for i, column in enumerate([*separator, *fresh])}
    conditional = None
    if fresh:
        right = beliefs.conditional(one, before, fresh).transpose(
            [0, *(place[c] + 1 for c in (*stay, *gone, *fresh))]
        )
        conditional = np.ascontiguousarray(right).reshape(-1, held, lost, found)
    axis = {column: i + 1 for i, column in enumerate(stay)} | {
        c: len(stay) + 2 + i for i, c in enumerate(fresh)
    }
    turn = [0, *(place[c] + 2 for c in stay), 1, *(place[c] + 2 for c in gone)]
    return Step(
        sizes[0],
        turn,
        held,
        conditional,
        sizes[1],
        sizes[3],
        [0, len(stay) + 1, *(axis[c] for c in onward)],
    )


MAX_JOINT = 1 << 23
MAX_WORK = 1 << 28
"""Multiplications that one step of a sum over the model may take."""
MAX_KEPT = 1 << 22
"""Cells of a model up to which the conditional probabilities that its sweeps use are kept: once
from each side of every separator."""


class TableTooLarge(QueryError):
    """The exact table of the columns asked for does not fit; the answer has to come from drawn
    rows."""


@dataclass(frozen=True)
class Fitted:
    """A counted table as the model has it: columns, groups of their levels, and fitted counts by
    label."""

    columns: tuple[int, ...]
    groups: tuple[Ints, ...]
    table: Floats


class JunctionModel:
    """`singles[c]` is the levels x labels table of column c, `state_of[c]` the state of each of its
    levels."""

    def __init__(
        self,
        labels: Floats,
        singles: Sequence[Floats],
        state_of: Mapping[int, Ints],
        beliefs: Beliefs,
        tables: Sequence[Fitted],
        *,
        target: int | None,
        zeros: Sequence[Zeros] = (),
        prior: Sequence[Fitted] = (),
    ) -> None:
        self.zeros, self.prior = tuple(zeros), tuple(prior)
        self.labels, self.singles, self.target = labels, list(singles), target
        self.state_of, self.beliefs, self.tables = dict(state_of), beliefs, list(tables)
        self.columns = [column for column in range(len(self.singles)) if column != target]
        small = sum(table.size for table in beliefs.tables) <= MAX_KEPT
        self.conditional = cache(beliefs.conditional) if small else beliefs.conditional
        self.step = cache(partial(step_to, self)) if small else partial(step_to, self)
        self.chances = cache(self._chances) if small else self._chances
        self.sides, self.beyond = cache(beliefs.sides), cache(self._beyond)

    @property
    def total(self) -> float:
        return float(self.labels.sum())

    @property
    def label_shares(self) -> Floats:
        total = self.total
        return (
            self.labels / total if total > 0 else np.full(len(self.labels), 1.0 / len(self.labels))
        )

    def within_state(self, column: int) -> Floats:
        """P(level | its state, label); uniform in a state that has no rows of the label."""
        table, state_of = self.singles[column], self.state_of[column]
        states = int(state_of.max()) + 1
        sums = sum_groups(table, state_of, states)[state_of]
        members = np.bincount(state_of, minlength=states)[state_of][:, None]
        return np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), 1.0 / members)

    def spread(self, column: int, group_of: Ints) -> Floats:
        """P(group of levels | state, label): states x groups x labels. All or nothing where groups
        are made of whole states."""
        within, state_of = self.within_state(column), self.state_of[column]
        out = np.zeros((int(state_of.max()) + 1, int(group_of.max()) + 1, within.shape[1]))
        np.add.at(out, (state_of, group_of), within)
        return out

    def joint(self, columns: Sequence[int]) -> Floats:
        """The expected counts of every combination of levels of some columns, axes in the order
        given."""
        wanted = [column for column in columns if column != self.target]
        _check_size(math.prod(len(self.state_of[column]) for column in wanted) * len(self.labels))
        table = self.joint_states(wanted)
        for place, column in enumerate(wanted):
            within = self.within_state(column)
            shape = [1] * table.ndim
            shape[place], shape[-1] = within.shape
            table = table.take(self.state_of[column], axis=place) * within.reshape(shape)
        axes = list(wanted)
        if self.target is not None and self.target in columns:
            axes.append(self.target)
        else:
            table = table.sum(axis=-1)
        return np.transpose(table, [axes.index(column) for column in columns])

    def joint_states(self, columns: Sequence[int]) -> Floats:
        """The same over states, with the label as last axis."""
        table, axes = self.labels, list[int]()
        left = list(columns)
        while left:
            part, kept = self._below(self.clique_of(left), None, frozenset(left))
            left = [column for column in left if column not in kept]
            _check_size(part.size * table.size // part.shape[-1])
            table = part.reshape(*part.shape[:-1], *(1,) * (table.ndim - 1), part.shape[-1]) * table
            axes = kept + axes
        return np.transpose(table, [*(axes.index(column) for column in columns), len(axes)])

    def apart_states(self, columns: Sequence[int]) -> Floats:
        """The table of some columns over states as if they were independent given the label."""
        shares = np.where(self.labels > 0, 1.0 / np.where(self.labels > 0, self.labels, 1.0), 0.0)
        table = self.labels
        for column in columns:
            table = table[..., None, :] * (self.joint_states([column]) * shares)
        return table

    def pairwise_marginals(self, first: int, spreads: Mapping[int, Floats]) -> dict[int, Floats]:
        """Tables of one column with each of the others that have a spread (see `spread`): groups x
        groups x labels."""
        return pair_tables(self, first, spreads)

    def pairs(
        self, spreads: Mapping[int, Floats], skip: Collection[tuple[int, ...]] = ()
    ) -> Iterator[tuple[int, int, Floats]]:
        """The tables of all pairs of columns that have a spread, but for those to skip: lower
        column, higher column, table.

        Of two columns the one with fewer groups or states is carried to the other, which is where
        the time goes.
        """
        ordered = sorted(spreads, key=lambda column: (min(spreads[column].shape[:2]), column))
        for i, first in enumerate(ordered[:-1]):
            others = [
                second
                for second in ordered[i + 1 :]
                if (min(first, second), max(first, second)) not in skip
            ]
            if not others:
                continue
            for second, table in self.pairwise_marginals(
                first, {column: spreads[column] for column in (first, *others)}
            ).items():
                if first < second:
                    yield first, second, table
                else:
                    yield second, first, table.transpose(1, 0, 2)

    def seeded_codes(self, number: int, *, seed: int) -> list[Ints]:
        """The same rows for the same model and seed."""
        return self.sample_codes(number, np.random.default_rng(seed))

    def sample_codes(self, number: int, generator: np.random.Generator) -> list[Ints]:
        """Rows drawn from the model, one code array per column.

        Draws are systematic: within every group of rows each value occurs as often as expected,
        give or take one, so that the rows show the model and little sampling error of their own.
        """
        codes: list[Ints] = [np.zeros(0, dtype=np.int64)] * len(self.singles)
        states: dict[int, Ints] = {}
        label = draw(np.zeros(number, dtype=np.int64), self.label_shares[None, :], generator)
        for one, before in self.beliefs.order:
            separator, new = self.beliefs.sides(one, before)
            if not new:
                continue
            given = self.conditional(one, before, tuple(new))
            keys = label
            for column, count in zip(separator, given.shape[1:], strict=False):
                keys = keys * count + states[column]
            shape = given.shape[1 + len(separator) :]
            drawn = draw(keys, given.reshape(-1, math.prod(shape)), generator)
            for column, state in zip(new, np.unravel_index(drawn, shape), strict=True):
                states[column] = state.astype(np.int64)
                codes[column] = draw_levels(
                    self.within_state(column),
                    self.state_of[column],
                    states[column],
                    label,
                    generator,
                )
        if self.target is not None:
            codes[self.target] = label
        return codes

    def clique_of(self, columns: Sequence[int]) -> int:
        """A clique with the first of the columns, and of those one that holds most of the
        others."""
        holds = [i for i, axes in enumerate(self.beliefs.axes) if columns[0] in axes]
        return max(holds, key=lambda i: len(set(columns) & set(self.beliefs.axes[i])))

    def _below(
        self, one: int, before: int | None, wanted: frozenset[int]
    ) -> tuple[Floats, list[int]]:
        """P(kept columns at and beyond a clique | separator, label): axes are the separator, the
        kept columns, the label."""
        separator, new = self.beliefs.sides(one, before)
        table = np.moveaxis(self.conditional(one, before, tuple(new)), 0, -1)
        axes = [*separator, *new]
        branches = [
            (
                self._below(child, one, wanted),
                [c for c in self.beliefs.axes[child] if c in separator + new],
            )
            for child in sorted(self.beliefs.tree.adjacent[one])
            if child != before and wanted & self.beyond(child, one)
        ]
        for i, ((part, below), shared) in enumerate(branches):
            later = {column for _, some in branches[i + 1 :] for column in some}
            kept = [c for c in axes if c in separator or c in wanted or c in later]
            table = _product(table, axes, part, [*shared, *below], [*kept, *below])
            axes = [*kept, *below]
        kept = [c for c in axes if c in separator or c in wanted]
        gone = tuple(place for place, c in enumerate(axes) if c not in kept)
        order = [*separator, *(c for c in kept if c not in separator)]
        table = np.transpose(table.sum(axis=gone), [*(kept.index(c) for c in order), len(kept)])
        return table, order[len(separator) :]

    def _chances(self, one: int, before: int, second: int) -> Floats:
        """P(a new column of a clique | separator with the clique before, label): a matrix for every
        label."""
        conditional = self.beliefs.conditional(one, before, (second,))
        labels, states = conditional.shape[0], conditional.shape[-1]
        return np.ascontiguousarray(conditional.reshape(labels, -1, states))

    def _beyond(self, one: int, before: int) -> set[int]:
        """The columns on the far side of the separator before - one that are not in `before`."""
        found, came = [one], {one: before}
        for at in found:
            for other in self.beliefs.tree.adjacent[at]:
                if other != came[at]:
                    came[other] = at
                    found.append(other)
        return {column for at in found for column in self.beliefs.axes[at]} - set(
            self.beliefs.axes[before]
        )


def _product(
    first: Floats, first_axes: list[int], second: Floats, second_axes: list[int], kept: list[int]
) -> Floats:
    """The product of two tables that share the label as last axis, summed over all columns but the
    kept ones."""
    size = dict(
        zip([*first_axes, *second_axes], [*first.shape[:-1], *second.shape[:-1]], strict=True)
    )
    _check_size(math.prod(size[column] for column in kept) * first.shape[-1])
    _check_size(math.prod(size.values()) * first.shape[-1], MAX_WORK)
    name = dict(zip(size, string.ascii_letters[1:], strict=False))  # a is the label
    words = ["".join(name[c] for c in some) + "a" for some in (first_axes, second_axes, kept)]
    return np.asarray(np.einsum(f"{words[0]},{words[1]}->{words[2]}", first, second))


def _check_size(cells: int, most: int = 0) -> None:
    most = most or MAX_JOINT
    if cells > most:
        raise TableTooLarge(
            f"The exact table would need {cells:,} cells; at most {most:,} are held."
        )


# Systematic draws: every value occurs as often as expected, give or take one, within every set of
# rows with the same key.


def draw(keys: Ints, conditional: Floats, generator: np.random.Generator) -> Ints:
    """One value per row, from the distribution in the row of `conditional` that its key names, by
    systematic sampling."""
    rows, values = conditional.shape
    if values == 1 or not len(keys):
        return np.zeros(len(keys), dtype=np.int64)
    sizes = np.bincount(keys, minlength=rows)
    offsets: Floats = np.asarray(generator.random(rows))
    ends = np.cumsum(conditional, axis=1)
    ends /= ends[:, -1:]
    # of the rows of a key, the r-th has its spot at (r + offset) / size: so many lie below each end
    below = np.clip(np.ceil(ends * sizes[:, None] - offsets[:, None]), 0, sizes[:, None])
    below[:, -1] = sizes
    counts = np.diff(below, axis=1, prepend=0.0).astype(np.int64)
    small = np.uint8 if values <= 1 << 8 else np.uint16 if values <= 1 << 16 else np.int64
    drawn = np.repeat(np.tile(np.arange(values, dtype=small), rows), counts.ravel())
    stops = np.cumsum(sizes)
    for start, stop in zip((stops - sizes).tolist(), stops.tolist(), strict=True):
        if stop - start > 1:
            generator.shuffle(drawn[start:stop])
    # short whole numbers are sorted by their digits, in time proportional to the rows
    order = np.argsort(keys.astype(np.uint16) if rows <= 1 << 16 else keys, kind="stable")
    out = np.empty(len(keys), dtype=np.int64)
    out[order] = drawn
    return out


def draw_levels(
    within: Floats, group_of: Ints, group: Ints, label: Ints, generator: np.random.Generator
) -> Ints:
    """Levels within groups, by P(level | group, label). All groups share one cumulative table, each
    a stretch of it."""
    by_group = np.argsort(group_of, kind="stable")
    sizes = np.bincount(group_of)
    widest = int(sizes.max())
    if widest == 1:
        return by_group[group]
    starts = np.cumsum(sizes) - sizes
    place = np.arange(len(group_of)) - starts[group_of[by_group]]
    conditional = np.zeros((len(sizes), within.shape[1], widest))
    conditional[group_of[by_group], :, place] = within[by_group]
    picked = draw(group * within.shape[1] + label, conditional.reshape(-1, widest), generator)
    levels: Ints = by_group[starts[group] + np.minimum(picked, sizes[group] - 1)]
    return levels
