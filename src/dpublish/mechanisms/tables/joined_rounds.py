"""Rounds of further pairs: count what the model of all tables so far gets most wrong, less what the noise of counting costs.

In: coded rows (private), and the model that a reader would fit to the tables published so far. Out: pairs of columns, each with
groups of levels. Whether there are rounds, and how many, follows from published numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpublish.mechanisms.tables.joined_budget import Purse
from dpublish.mechanisms.tables.joined_structure import NOISE_COST, Edge, LabelledRows, whole_model
from dpublish.noise.base import IntArray, Noise
from dpublish.public.junction.cliques import CliqueTree, clique_cells
from dpublish.public.junction.grouping import group_levels, level_order
from dpublish.public.junction.margins import Ints, sum_groups
from dpublish.public.junction.model import JunctionModel

Scalar = TypeVar("Scalar", bound=np.generic)

MAX_CLIQUE = 1 << 16
"""Cells of one clique of the junction tree, labels included, that a round may lead to."""
MAX_TREE = 1 << 20
"""The same for all cliques together."""
FINEST = 32
"""Groups of a column in the tables that rounds look at, at most."""
MAX_LOOKED_AT = 1 << 24
"""Cells of all tables that a round looks at: the tables of all pairs are held at once."""
COARSEST = 3


@dataclass(frozen=True)
class Ladder:
    """Groups of the levels of a column, from fine to coarse. `steps[i]` takes the groups of rung i to those of rung i + 1."""

    rungs: tuple[Ints, ...]
    steps: tuple[Ints, ...]

    def fold(self, table: NDArray[Scalar], axis: int, rung: int) -> NDArray[Scalar]:
        """One axis of a table from the finest groups to those of a rung."""
        for step in self.steps[:rung]:
            moved = np.moveaxis(table, axis, 0)
            out = np.zeros((int(step.max()) + 1, *moved.shape[1:]), dtype=table.dtype)
            np.add.at(out, step, moved)
            table = np.moveaxis(out, 0, axis)
        return table


@dataclass(frozen=True)
class Option:
    """A pair of columns at certain rungs of their ladders."""

    pair: Edge
    rungs: tuple[int, int]


def ladder(model: JunctionModel, column: int, *, ordered: bool, most: int) -> Ladder:
    """From published numbers: groups of whole states where the column is joined already, and of levels where it is not."""
    single, state_of = model.singles[column], model.state_of[column]
    if int(state_of.max()) == 0:
        state_of = np.arange(len(state_of), dtype=np.int64)
    table = sum_groups(single, state_of, int(state_of.max()) + 1)
    # states follow the order of levels as far as they can: by the first level of each
    order = level_order(table, ordered=ordered)
    if ordered:
        _, first = np.unique(state_of, return_index=True)
        order = np.argsort(first, kind="stable").astype(np.int64)
    rungs, steps = [], []
    groups = group_levels(table.sum(axis=1), order, most)
    rungs.append(groups[state_of])
    while int(groups.max()) + 1 > COARSEST:
        count = int(groups.max()) + 1
        table = sum_groups(table, groups, count)
        groups = group_levels(table.sum(axis=1), np.arange(count, dtype=np.int64), max(COARSEST, (count + 1) // 2))
        if int(groups.max()) + 1 >= count:
            break
        steps.append(groups)
        rungs.append(groups[rungs[-1]])
    return Ladder(tuple(rungs), tuple(steps))


class Rounds:
    """The tables of all pairs over the finest groups, counted once. Private."""

    def __init__(self, rows: LabelledRows, ladders: Mapping[int, Ladder]) -> None:
        self.ladders, self.columns, self.labels = ladders, sorted(ladders), rows.labels
        coded = {column: rows.grouped(column, ladders[column].rungs[0]) for column in self.columns}
        sizes = {column: int(ladders[column].rungs[0].max()) + 1 for column in self.columns}
        self._counts: dict[Edge, IntArray] = {}
        for i, first in enumerate(self.columns):
            for second in self.columns[i + 1 :]:
                shape = (sizes[first], sizes[second])
                counted = rows.count_pair(coded[first], coded[second], shape)
                self._counts[first, second] = counted.reshape(*shape, rows.labels)

    def __repr__(self) -> str:  # a repr ends up in tracebacks and logs
        return "Rounds(private)"

    def groups(self, option: Option) -> tuple[Ints, Ints]:
        """The groups of levels that an option is counted over: public."""
        first, second = (self.ladders[column].rungs[rung] for column, rung in zip(option.pair, option.rungs, strict=True))
        return first, second

    def states(self, model: JunctionModel) -> dict[int, int]:
        """How many states each column may come to: groups are made of states, except for a column that is not joined yet."""
        finest = {column: int(self.ladders[column].rungs[0].max()) + 1 for column in self.columns}
        return {column: max(count, finest[column]) for column, count in model.beliefs.states.items()}

    def scores(
        self, model: JunctionModel, weights: Mapping[Edge, int], done: set[Edge], *, deviation: float
    ) -> dict[Option, int]:
        """The score of every pair not yet counted, at every rung: moves by at most its weight a changed row."""
        spreads = {column: model.spread(column, self.ladders[column].rungs[0]) for column in self.columns}
        out: dict[Option, int] = {}
        for i, first in enumerate(self.columns[:-1]):
            expected = model.around(first, spreads)
            for second in self.columns[i + 1 :]:
                pair = (first, second)
                if pair in done:
                    continue
                counts, table = self._counts[pair], expected[second]
                depths = [len(self.ladders[column].rungs) for column in pair]
                for rung in range(max(depths)):
                    rungs = (min(rung, depths[0] - 1), min(rung, depths[1] - 1))
                    small, guess = counts, table
                    for axis, column in enumerate(pair):
                        small = self.ladders[column].fold(small, axis, rungs[axis])
                        guess = self.ladders[column].fold(guess, axis, rungs[axis])
                    wrong = int(np.abs(small.ravel() - whole_model(guess)).sum())
                    out[Option(pair, rungs)] = (wrong - round(NOISE_COST * deviation * small.size)) * weights[pair]
        return out


def choose_pairs(
    noise: Noise,
    scores: Mapping[Option, int],
    tree: CliqueTree,
    states: Mapping[int, int],
    purse: Purse,
    *,
    labels: int,
    steps: int,
    weight: int,
    share: Fraction,
    name: str,
) -> list[Option]:
    """Up to `steps` pairs with high scores that keep the junction tree small; stopping, at score 0, is one of the choices."""
    chosen: list[Option] = []
    for step in range(steps):
        taken = {one.pair for one in chosen}
        room = _room(tree, states, labels, {option.pair for option in scores} - taken)
        open_options = [option for option in scores if option.pair in room]
        picked = purse.choose(
            noise, [*(scores[option] for option in open_options), 0], weight, share / steps, label=f"{name}, pair {step + 1}"
        )
        if picked == len(open_options):
            break
        chosen.append(open_options[picked])
        tree = tree.join(*chosen[-1].pair, states)
    return chosen


def _room(tree: CliqueTree, states: Mapping[int, int], labels: int, pairs: set[Edge]) -> set[Edge]:
    """The pairs that may be joined: from the published structure alone."""
    cells = tree.cells(states)
    reach = {column: tree.reach(column, states) for column in {column for pair in pairs for column in pair}}
    out: set[Edge] = set()
    for first, second in pairs:
        alone = (clique_cells((first, second), states),) * 2
        added, largest = min(reach[first].get(second, alone), reach[second].get(first, alone))
        if largest * labels <= MAX_CLIQUE and (cells + added) * labels <= MAX_TREE:
            out.add((first, second))
    return out
