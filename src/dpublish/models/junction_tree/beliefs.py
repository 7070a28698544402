"""Tables of the cliques of a junction tree that agree with each other, and their fit to tables over
fewer columns.

Proportional fitting on a junction tree (Jirousek and Preucil 1995): walk the tree; at each clique
bring in what the neighbour learnt, then scale the clique's table to the tables that lie within it.
The result is the model of largest entropy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Ints
from dpublish.models.junction_tree.cliques import CliqueTree
from dpublish.models.junction_tree.plain import ALIGNED, LOOKED_UP, WHOLE, is_reading, loops

CLOSE = 1e-4
"""Sweeps end when no table is off by more than this share of the rows."""
HELPS = 0.7
"""They also end, from the third on, when a sweep leaves more than this part of what the one before
was off: noisy tables in a circle contradict each other a little and never settle."""


@dataclass(frozen=True)
class Target:
    """A table that the model should have: groups of the states of some columns, and the counts by
    label."""

    columns: tuple[int, ...]
    groups: tuple[Ints, ...]
    table: Floats


@dataclass(frozen=True)
class Spots:
    """Where the cells of a clique fall in a table over fewer columns, for one label: see
    kernels.py."""

    base: NDArray[np.int32]
    inner: NDArray[np.int32]
    kind: int
    cells: int


@dataclass(frozen=True)
class _Task:
    """A target seen from its clique: labels x places. `factor` is what the clique has been
    multiplied by for it so far, and `places` are the target's axes in the order of the clique's."""

    spots: Spots
    table: Floats
    factor: Floats
    places: list[int]

    def factor_of(self, target: Target) -> Floats:
        """The factor, with axes as the target has them."""
        shape = [self.factor.shape[0], *(target.table.shape[place] for place in self.places)]
        return np.moveaxis(
            self.factor.reshape(shape),
            range(1 + len(self.places)),
            [len(self.places), *self.places],
        )


class Beliefs:
    """One flat table per clique: the label, then its columns, those with most states last."""

    def __init__(self, tree: CliqueTree, states: Mapping[int, int], labels: int) -> None:
        self.tree, self.states, self.labels = tree, dict(states), labels
        self.axes = [self._sorted(clique) for clique in tree.cliques]
        self.shapes = [(labels, *(self.states[column] for column in axes)) for axes in self.axes]
        self.tables: list[Floats] = [np.zeros(0)] * len(self.axes)
        self.order = tree.walk()
        self.factors: list[Floats] = []
        self._tour = _round_trip(tree)
        self._loops: Any = loops(sum(map(math.prod, self.shapes)), reader=is_reading())
        self._separators: dict[tuple[int, int], Spots] = {}
        self._shared: dict[tuple[int, int], Floats] = {}
        self._due: list[tuple[Spots, Floats] | None] = [None] * len(self.axes)

    def start(self, singles: Mapping[int, Floats], totals: Floats) -> None:
        """Columns independent given the label. `singles` are states x labels."""
        sums = np.where(totals > 0, totals, 1.0)
        shares = {
            column: np.ascontiguousarray((table / sums).T) for column, table in singles.items()
        }

        def product(columns: Sequence[int]) -> Floats:
            table = np.array(totals, dtype=np.float64).reshape(-1, 1)
            for column in columns:
                table = (table[:, :, None] * shares[column][:, None, :]).reshape(self.labels, -1)
            return table

        self.tables = [product(axes).ravel() for axes in self.axes]
        for one, before in self.order:
            if before is not None:
                self._shared[_pair(before, one)] = product(self.sides(one, before)[0])

    def fit(self, targets: Sequence[Target], *, sweeps: int, known: Sequence[Floats] = ()) -> int:
        """Scale to all targets, over and over. Returns the number of sweeps.

        `known` are the `factors` of the first targets from an earlier fit: the sweeps begin there.
        """
        tasks: list[list[_Task]] = [[] for _ in self.axes]
        every: list[_Task] = []
        for place, target in enumerate(targets):
            clique = self.tree.clique_of(target.columns)
            assert clique is not None
            every.append(
                self._task(
                    clique,
                    target,
                    known[place] if place < len(known) else np.ones_like(target.table),
                )
            )
            tasks[clique].append(every[-1])
        if known:
            self._sweep(lambda one: self._recall(one, tasks[one]))
        total = max(1.0, float(self.tables[0].sum()))
        done, off, before = 0, np.inf, np.inf
        while done < sweeps and off >= CLOSE * total and (done < 3 or off < HELPS * before):
            off, before = self._sweep(lambda one: self._scale_all(one, tasks[one])), off
            done += 1
        for one, above in self.order:
            if above is not None:
                self._pass(above, one)
        for one in range(len(self.axes)):
            self._settle(one)
        self.factors = [task.factor_of(target) for task, target in zip(every, targets, strict=True)]
        return done

    def given(self, evidence: Mapping[int, Floats]) -> Beliefs:
        """The tables after news of some columns: the rows of each state and label (states x labels)
        multiplied by a factor."""
        out = Beliefs(self.tree, self.states, self.labels)
        out.tables = [table.copy() for table in self.tables]
        out._shared = dict(self._shared)
        out.multiply(
            [
                Target((column,), (np.arange(len(factor), dtype=np.int64),), factor)
                for column, factor in evidence.items()
            ]
        )
        return out

    def multiply(self, factors: Sequence[Target]) -> None:
        """Multiply cells by factors over few columns, and let every clique know."""
        news = [replace(one, table=np.ones_like(one.table)) for one in factors]
        self.fit(news, sweeps=0, known=[one.table for one in factors])

    def over(self, clique: int, columns: Sequence[int]) -> Floats:
        """The table of some columns of one clique: the label, then axes in the order given."""
        kept = self._sorted(columns)
        summed = self._sum(clique, self._whole(clique, kept)).reshape(
            self.labels, *(self.states[column] for column in kept)
        )
        return np.transpose(summed, [0, *(kept.index(column) + 1 for column in columns)])

    def conditional(self, one: int, before: int | None, columns: Sequence[int]) -> Floats:
        """P(some new columns | separator with the clique before, label): the label, the separator's
        columns, the new ones as given."""
        separator, new = self.sides(one, before)
        table = (
            self.over(one, [*separator, *columns])
            if len(columns) < len(new)
            else self._turned(one, [*separator, *columns])
        )
        sums = table.sum(axis=tuple(range(1 + len(separator), table.ndim)), keepdims=True)
        even = 1.0 / max(1, int(np.prod([self.states[column] for column in columns])))
        return (
            table / sums
            if (sums > 0).all()
            else np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), even)
        )

    def sides(self, one: int, before: int | None) -> tuple[list[int], list[int]]:
        """The columns that a clique shares with the one before it, and those that are new."""
        separator = [
            column
            for column in self.axes[one]
            if before is not None and column in self.axes[before]
        ]
        return separator, [column for column in self.axes[one] if column not in separator]

    def _sorted(self, columns: Iterable[int]) -> tuple[int, ...]:
        """One order for all tables; long runs of the last column make the loops fast."""
        return tuple(sorted(columns, key=lambda column: (self.states[column], column)))

    def _turned(self, one: int, columns: Sequence[int]) -> Floats:
        return np.transpose(
            self.tables[one].reshape(self.shapes[one]),
            [0, *(self.axes[one].index(column) + 1 for column in columns)],
        )

    def _sweep(self, visit: Callable[[int], float]) -> float:
        """Once around the tree, with a visit to every clique; the largest of what the visits
        return."""
        off = 0.0
        for source, one, fresh in self._tour:
            if source is not None:
                self._pass(source, one)
            if fresh:
                off = max(off, visit(one))
        return off

    def _recall(self, one: int, tasks: Sequence[_Task]) -> float:
        for task in tasks:
            self._scale(
                one, task.spots, task.factor.copy()
            )  # it changes before the multiplication is due
        return 0.0

    def _scale_all(self, one: int, tasks: Sequence[_Task]) -> float:
        """Scale one clique to its targets in turn; how far it was off."""
        off = 0.0
        for task in tasks:
            factor = np.empty_like(task.table)
            off = max(off, self._loops.factors(task.table, self._sum(one, task.spots), factor))
            np.multiply(task.factor, factor, out=task.factor)
            self._scale(one, task.spots, factor)
        return off

    def _pass(self, source: int, sink: int) -> None:
        """Tell `sink` how the shared columns changed at `source` since the two last spoke."""
        told = self._sum(source, self._separator(source, sink))
        factor = np.empty_like(told)
        self._loops.factors(told, self._shared[_pair(source, sink)], factor)
        self._scale(sink, self._separator(sink, source), factor)
        self._shared[_pair(source, sink)] = told

    def _sum(self, one: int, spots: Spots) -> Floats:
        """A clique's table summed by where its cells fall: labels x places."""
        out = np.empty((self.labels, spots.cells))
        due = self._due[one]
        if due is None:
            self._loops.sum_cells(self.tables[one], spots.base, spots.inner, spots.kind, out)
        else:
            by, factor = due
            self._due[one] = None
            self._loops.scale_and_sum(
                self.tables[one],
                by.base,
                by.inner,
                by.kind,
                factor,
                spots.base,
                spots.inner,
                spots.kind,
                out,
            )
        return out

    def _scale(self, one: int, spots: Spots, factor: Floats) -> None:
        """Multiply a clique's table; put off until its next sum, which then takes one pass over the
        table and not two."""
        self._settle(one)
        self._due[one] = spots, factor

    def _settle(self, one: int) -> None:
        due = self._due[one]
        if due is not None:
            self._due[one] = None
            self._loops.scale_cells(
                self.tables[one], due[0].base, due[0].inner, due[0].kind, due[1]
            )

    def _separator(self, one: int, other: int) -> Spots:
        """For the cells of `one`, their places in the table of the columns that it shares with
        `other`."""
        if (one, other) not in self._separators:
            shared = [column for column in self.axes[one] if column in self.axes[other]]
            self._separators[one, other] = self._whole(one, shared)
        return self._separators[one, other]

    def _whole(self, one: int, columns: Sequence[int]) -> Spots:
        """Places in a table over all states of some columns."""
        return _spots(
            self.axes[one],
            self.shapes[one][1:],
            columns,
            [np.arange(self.states[column]) for column in columns],
        )

    def _task(self, clique: int, target: Target, factor: Floats) -> _Task:
        columns = self._sorted(target.columns)
        places = [target.columns.index(column) for column in columns]
        spots = _spots(
            self.axes[clique],
            self.shapes[clique][1:],
            columns,
            [target.groups[place] for place in places],
        )
        turn = [len(places), *places]
        # rows of a label in one piece, and all arrays of one kind: the loops are compiled for it,
        # once
        table, factor = (
            np.array(np.transpose(one, turn), order="C").reshape(self.labels, -1)
            for one in (target.table, factor)
        )
        return _Task(spots, table, factor, places)


def _pair(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)


def _round_trip(tree: CliqueTree) -> list[tuple[int | None, int, bool]]:
    """A walk that crosses every separator both ways: where from, where to, and whether for the
    first time.

    Only neighbours follow each other, so that the clique at hand always knows of all changes so
    far.
    """
    out: list[tuple[int | None, int, bool]] = []
    trail: list[int] = []  # from a root: each was reached from the one before it
    for one, before in tree.walk():
        while trail and trail[-1] != before:
            gone = trail.pop()
            if trail:
                out.append((gone, trail[-1], False))
        out.append((before, one, True))
        trail.append(one)
    while len(trail) > 1:
        gone = trail.pop()
        out.append((gone, trail[-1], False))
    return out


def _spots(
    axes: Sequence[int], shape: Sequence[int], columns: Sequence[int], groups: Sequence[Ints]
) -> Spots:
    """Where the cells of a table fall in the table of some of its columns, in the order of its
    axes, over groups."""
    base = np.zeros((1,) * (len(shape) - 1), dtype=np.int32)
    inner, kind, cells = np.zeros(shape[-1], dtype=np.int32), WHOLE, 1
    for column, group_of in zip(columns, groups, strict=True):
        place, count = axes.index(column), int(group_of.max()) + 1
        base = base * np.int32(count)
        if place == len(axes) - 1:
            inner = group_of.astype(np.int32)
            kind = ALIGNED if np.array_equal(inner, np.arange(len(inner))) else LOOKED_UP
        else:
            wide = [1] * (len(shape) - 1)
            wide[place] = -1
            base = base + group_of.astype(np.int32).reshape(wide)
        cells *= count
    return Spots(np.array(np.broadcast_to(base, shape[:-1]), order="C").ravel(), inner, kind, cells)
