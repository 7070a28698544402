"""Rounds of further tables: count what the model of all tables so far gets most wrong, less what
the noise of counting costs.

In: coded rows (private), and the model that a reader would fit to the tables published so far. Out:
pairs of columns, and triples within a declared marginal, each with groups of levels. Whether there
are rounds, and how many, follows from published numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.declare.statistic import Private
from dpublish.methods.draws import choose, in_words
from dpublish.methods.joined_histograms.structure import (
    NOISE_COST,
    Edge,
    Labelled,
    rows_apart_each,
)
from dpublish.models.junction_tree.cliques import (
    CliqueTree,
    group_levels,
    level_order,
)
from dpublish.models.junction_tree.consistency import sum_groups
from dpublish.models.junction_tree.fit import grouped_table
from dpublish.models.junction_tree.model import JunctionModel
from dpublish.noise.base import Noise
from dpublish.privacy.budget_split import BudgetSplit

Columns = tuple[int, ...]

MAX_CLIQUE = 1 << 19
"""Cells of one clique of the junction tree, labels included, that a round may lead to."""
MAX_TREE = 1 << 21
"""The same for all cliques together."""
FINEST = 16
"""Groups of a column in the tables that rounds look at, at most. Finer ones were hardly ever worth
their noise, and make the junction tree so large that fewer tables fit."""
MAX_LOOKED_AT = 1 << 24
"""Cells of all tables that a round looks at: the tables of all pairs are held at once, and beside
them those of all triples."""
COARSEST = 3
AT_ONCE = 128
"""Pairs that are scored side by side: their tables are held once more."""


@dataclass(frozen=True)
class Coarsening:
    """Groups of the levels of a column, from fine to coarse. `steps[i]` takes the groups of
    resolution i to those of resolution i + 1."""

    resolutions: tuple[Ints, ...]
    steps: tuple[Ints, ...]

    @cached_property
    def sizes(self) -> list[int]:
        """How many groups each resolution has."""
        return [int(groups.max()) + 1 for groups in self.resolutions]

    def onto(self, resolution: int, shape: tuple[int, int]) -> Floats:
        """The step from a resolution to the next as a matrix of zeros and ones, with empty rows and
        columns up to a shape; nothing but those where there is no such step."""
        out = np.zeros(shape)
        if resolution < len(self.steps):
            step = self.steps[resolution]
            out[step, np.arange(len(step))] = 1.0
        return out


class Option(NamedTuple):
    """Two or three columns at certain resolutions of their coarsenings, by label or of all labels
    together."""

    columns: Columns
    resolutions: tuple[int, ...]
    by_label: bool = True


def fold(tables: Floats, axis: int, onto: Floats) -> Floats:
    """One axis of some tables (two kinds of each, along the first two axes) from the groups of a
    resolution to those of the next: a product for each table, exact for whole numbers."""
    shape = tables.shape
    kept = math.prod(shape[2:axis])
    folded: Floats = onto[None, :, None] @ tables.reshape(*shape[:2], kept, shape[axis], -1)
    return folded.reshape(*shape[:axis], onto.shape[1], *shape[axis + 1 :])


def coarsening(model: JunctionModel, column: int, *, ordered: bool, most: int) -> Coarsening:
    """From published numbers: groups of whole states where the column is joined already, and of
    levels where it is not."""
    single, state_of = model.singles[column], model.state_of[column]
    joined = [*model.tables, *model.prior]
    if not any(column in table.columns for table in joined) or int(state_of.max()) == 0:
        state_of = np.arange(len(state_of), dtype=np.int64)
    table = sum_groups(single, state_of, int(state_of.max()) + 1)
    # states follow the order of levels as far as they can: by the first level of each
    order = level_order(table, ordered=ordered)
    if ordered:
        _, first = np.unique(state_of, return_index=True)
        order = np.argsort(first, kind="stable").astype(np.int64)
    resolutions, steps = [], []
    groups = group_levels(table.sum(axis=1), order, most)
    resolutions.append(groups[state_of])
    while int(groups.max()) + 1 > COARSEST:
        count = int(groups.max()) + 1
        table = sum_groups(table, groups, count)
        groups = group_levels(
            table.sum(axis=1), np.arange(count, dtype=np.int64), max(COARSEST, (count + 1) // 2)
        )
        if int(groups.max()) + 1 >= count:
            break
        steps.append(groups)
        resolutions.append(groups[resolutions[-1]])
    return Coarsening(tuple(resolutions), tuple(steps))


class Rounds(Private):
    """The tables of all pairs, and of some triples, over the finest groups, counted once.
    Private."""

    def __init__(
        self,
        rows: Labelled,
        coarsenings: Mapping[int, Coarsening],
        triples: Sequence[Columns] = (),
    ) -> None:
        self.coarsenings, self.columns, self.labels = coarsenings, sorted(coarsenings), rows.labels
        self.triples = tuple(triples)
        coded = {
            column: rows.grouped(column, coarsenings[column].resolutions[0])
            for column in self.columns
        }
        self._counts: dict[Edge, Ints] = {}
        for pair in itertools.combinations(self.columns, 2):
            shape = self._shape(pair, (0, 0))
            self._counts[pair] = rows.count_pair(
                coded[pair[0]], coded[pair[1]], (shape[0], shape[1])
            ).reshape(*shape, -1)
        self._start = {triple: self._finest(triple) for triple in self.triples}
        self._triples: dict[Columns, Ints] = {}
        for triple, resolutions in self._start.items():
            some = [
                rows.grouped(column, groups)
                for column, groups in zip(triple, self._groups(triple, resolutions), strict=True)
            ]
            shape = self._shape(triple, resolutions)
            self._triples[triple] = rows.count_together(some, shape).reshape(*shape, -1)

    def groups(self, option: Option) -> tuple[Ints, ...]:
        """The groups of levels that an option is counted over: public."""
        return self._groups(option.columns, option.resolutions)

    def states(self, model: JunctionModel) -> dict[int, int]:
        """How many states each column may come to: groups are made of states, except for a column
        that is not joined yet."""
        finest = {
            column: int(self.coarsenings[column].resolutions[0].max()) + 1
            for column in self.columns
        }
        ruled = {column for one in model.zeros for column in one.columns}
        return {
            column: count * finest[column] if column in ruled else max(count, finest[column])
            for column, count in model.beliefs.states.items()
        }

    def scores(
        self,
        model: JunctionModel,
        weights: Mapping[Columns, int],
        done: set[Columns],
        *,
        deviation: float,
    ) -> dict[Option, int]:
        """The score of every table not yet counted that the junction tree has room for, at every
        resolution: moves by at most its weight per changed row."""
        every = {*itertools.combinations(self.columns, 2), *self.triples}
        room = room_for(model.beliefs.tree, self.states(model), self.labels, every - done)
        spreads = {
            column: model.spread(column, self.coarsenings[column].resolutions[0])
            for column in self.columns
        }
        out: dict[Option, int] = {}
        pairs = model.pairs(spreads, skip=every - room)
        while some := list(itertools.islice(pairs, AT_ONCE)):
            looked_at = [
                ((first, second), (self._counts[first, second], expected))
                for first, second, expected in some
            ]
            out |= self._by_resolution(looked_at, (0, 0), weights, deviation)
        for triple in self.triples:
            if triple in room:
                resolutions = self._start[triple]
                guess = grouped_table(model, triple, self._groups(triple, resolutions))
                tables = (self._triples[triple], guess)
                out |= self._by_resolution([(triple, tables)], resolutions, weights, deviation)
        return out

    def _by_resolution(
        self,
        looked_at: Sequence[tuple[Columns, tuple[Ints, Floats]]],
        start: tuple[int, ...],
        weights: Mapping[Columns, int],
        deviation: float,
    ) -> dict[Option, int]:
        """The scores of several pairs, or triples, from the resolutions that their tables (counted,
        expected) have to the coarsest.

        All of them side by side, each in the corner of an array that has room for the largest:
        empty cells change no score.
        """
        sides = [
            [self.coarsenings[columns[axis]] for columns, _ in looked_at]
            for axis in range(len(start))
        ]
        corner = [max(one.sizes[at] for one in side) for side, at in zip(sides, start, strict=True)]
        # counts stay exact: there are fewer than 2^53 rows
        both = np.zeros((2, len(looked_at), *corner, self.labels))
        for place, (_, tables) in enumerate(looked_at):
            for which, table in enumerate(tables):
                corner_of = tuple(map(slice, table.shape))
                both[which, place][corner_of] = table
        apart = dict(self._apart(both, sides, start))
        price = NOISE_COST * deviation
        out: dict[Option, int] = {}
        for place, (columns, _) in enumerate(looked_at):
            some = [side[place] for side in sides]
            for resolutions in itertools.product(
                *(range(at, len(one.sizes)) for one, at in zip(some, start, strict=True))
            ):
                cells = math.prod(one.sizes[at] for one, at in zip(some, resolutions, strict=True))
                for by_label, found in apart[resolutions].items():
                    charge = round(price * (cells * self.labels if by_label else cells))
                    option = Option(columns, resolutions, by_label)
                    out[option] = (found[place] - charge) * weights[columns]
        return out

    def _apart(
        self, both: Floats, sides: Sequence[Sequence[Coarsening]], start: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], dict[bool, list[int]]]]:
        """Rows in another cell than expected, of every table, by label and of all labels together,
        at every combination of resolutions of the columns."""
        if not sides:
            kinds = {True: both, False: both.sum(axis=-1)} if self.labels > 1 else {True: both}
            yield (), {by_label: rows_apart_each(*kind) for by_label, kind in kinds.items()}
            return
        # the last column changes its resolution fastest
        for resolution in range(start[0], max(len(one.sizes) for one in sides[0])):
            for others, found in self._apart(both, sides[1:], start[1:]):
                yield (resolution, *others), found
            axis = both.ndim - 1 - len(sides)
            width = max(
                (one.sizes[resolution + 1] for one in sides[0] if resolution < len(one.steps)),
                default=0,
            )
            shape = (width, both.shape[axis])
            onto = {id(one): one for one in sides[0]}
            matrices = {place: one.onto(resolution, shape) for place, one in onto.items()}
            both = fold(both, axis, np.stack([matrices[id(one)] for one in sides[0]]))

    def _finest(self, triple: Columns) -> tuple[int, ...]:
        """The resolutions from which a triple is looked at: those where all triples together keep
        within the limit."""
        room = MAX_LOOKED_AT // (len(self.triples) * self.labels)
        last = [len(self.coarsenings[column].resolutions) - 1 for column in triple]
        every = [tuple(min(resolution, end) for end in last) for resolution in range(max(last) + 1)]
        return next(
            (
                resolutions
                for resolutions in every
                if math.prod(self._shape(triple, resolutions)) <= room
            ),
            every[-1],
        )

    def _groups(self, columns: Columns, resolutions: Sequence[int]) -> tuple[Ints, ...]:
        return tuple(
            self.coarsenings[column].resolutions[resolution]
            for column, resolution in zip(columns, resolutions, strict=True)
        )

    def _shape(self, columns: Columns, resolutions: Sequence[int]) -> tuple[int, ...]:
        return tuple(int(groups.max()) + 1 for groups in self._groups(columns, resolutions))


def choose_tables(
    noise: Noise,
    scores: Mapping[Option, int],
    tree: CliqueTree,
    states: Mapping[int, int],
    budget: BudgetSplit,
    *,
    labels: int,
    steps: int,
    weight: int,
    share: Fraction,
    name: str,
) -> list[Option]:
    """Up to `steps` tables with high scores that keep the junction tree small; stopping, at score
    0, is one of the choices."""
    chosen: list[Option] = []
    options, values = list(scores), in_words([*scores.values(), 0])
    place = {columns: i for i, columns in enumerate(dict.fromkeys(one.columns for one in options))}
    table_of = np.array([place[option.columns] for option in options], dtype=np.int64)
    fresh = set(place)
    for step in range(steps):
        room = room_for(tree, states, labels, fresh)
        has_room = np.array([columns in room for columns in place], dtype=np.bool_)
        open_options = np.flatnonzero(has_room[table_of])
        offered = np.append(open_options, len(options))  # the last is to stop
        picked = choose(
            noise,
            budget,
            values[offered] if isinstance(values, np.ndarray) else [values[i] for i in offered],
            weight=weight,
            share=share / steps,
            label=f"{name}, table {step + 1}",
        )
        if picked == len(open_options):
            break
        chosen.append(options[open_options[picked]])
        fresh = {columns for columns in fresh if not set(columns) <= set(chosen[-1].columns)}
        tree = tree.joined([chosen[-1].columns], states)
    return chosen


def room_for(
    tree: CliqueTree,
    states: Mapping[int, int],
    labels: int,
    tables: set[Columns],
    *,
    clique: int = MAX_CLIQUE,
    whole: int = MAX_TREE,
) -> set[Columns]:
    """The tables whose columns may be joined: from the published structure alone."""
    cells = tree.cells(states)
    reach = tree.reach({column for columns in tables for column in columns}, states)
    out: set[Columns] = set()
    for columns in tables:
        if len(columns) > 2:
            wider = tree.joined([columns], states)
            if wider.largest(states) * labels <= clique and wider.cells(states) * labels <= whole:
                out.add(columns)
            continue
        first, second = columns
        if second in reach[first]:
            added, largest = min(reach[first][second], reach[second][first])
        else:  # in different trees
            added = largest = states[first] * states[second]
        if largest * labels <= clique and (cells + added) * labels <= whole:
            out.add(columns)
    return out
