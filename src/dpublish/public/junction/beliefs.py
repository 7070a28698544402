"""Tables of the cliques of a junction tree that agree with each other, and their fit to tables over fewer columns.

Proportional fitting on a junction tree (Jirousek and Preucil 1995): walk the tree; at each clique bring in what the neighbour
learnt, then scale the clique's table to the tables that lie within it. The result is the model of largest entropy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpublish.public.junction.cliques import CliqueTree
from dpublish.public.junction.margins import Floats, Ints

Places = NDArray[np.intp]

CLOSE = 1e-4
"""Walks end when no table is off by more than this share of the rows."""


@dataclass(frozen=True)
class Target:
    """A table that the model should have: groups of the states of some columns, and the counts by label."""

    columns: tuple[int, ...]
    groups: tuple[Ints, ...]
    table: Floats


@dataclass(frozen=True)
class _Task:
    """A target seen from its clique: which cell of it every cell of the clique falls in."""

    spot: Places
    table: Floats


class Beliefs:
    """One table a clique: its columns in increasing order, then the label."""

    def __init__(self, tree: CliqueTree, states: Mapping[int, int], labels: int) -> None:
        self.tree, self.states, self.labels = tree, dict(states), labels
        self.axes = [tuple(sorted(clique)) for clique in tree.cliques]
        self.shapes = [(*(self.states[column] for column in axes), labels) for axes in self.axes]
        self.tables: list[Floats] = [np.zeros(0)] * len(self.axes)
        self.order = tree.walk()
        self._tour = _round_trip(tree)
        self._ties: dict[tuple[int, int], tuple[Places, int]] = {}
        self._shared: dict[tuple[int, int], Floats] = {}

    def start(self, singles: Mapping[int, Floats], totals: Floats) -> None:
        """Columns independent given the label. `singles` are states x labels."""
        sums = np.where(totals > 0, totals, 1.0)
        for i, axes in enumerate(self.axes):
            table = np.asarray(totals, dtype=np.float64).reshape((1,) * len(axes) + (-1,))
            for place, column in enumerate(axes):
                shape = [1] * len(axes) + [self.labels]
                shape[place] = self.states[column]
                table = table * (singles[column] / sums).reshape(shape)
            self.tables[i] = np.broadcast_to(table, self.shapes[i]).flatten()
        for one, before in self.order:
            if before is not None:
                spots, cells = self._tie(before, one)
                key = (min(before, one), max(before, one))
                self._shared[key] = _sums(spots, self.tables[before], cells)

    def fit(self, targets: Sequence[Target], *, walks: int, inner: int = 2) -> int:
        """Scale to all targets, over and over. Returns the number of walks."""
        tasks: list[list[_Task]] = [[] for _ in self.axes]
        for target in targets:
            home = self.tree.home(target.columns)
            assert home is not None
            tasks[home].append(_Task(self._spots(home, target), target.table.ravel()))
        total = max(1.0, float(self.tables[0].sum()))
        done = 0
        for walk in range(walks):
            off = 0.0
            for source, one, fresh in self._tour:
                if source is not None:
                    self._pass(source, one)
                if fresh:
                    off = max(off, self._scale(one, tasks[one], inner))
            done = walk + 1
            if off < CLOSE * total:
                break
        for one, before in self.order:
            if before is not None:
                self._pass(before, one)
        return done

    def over(self, home: int, columns: Sequence[int]) -> Floats:
        """The table of some columns of one clique, axes in the order given, then the label."""
        axes = self.axes[home]
        table = self.tables[home].reshape(self.shapes[home])
        gone = tuple(place for place, column in enumerate(axes) if column not in columns)
        kept = [column for column in axes if column in columns]
        return np.transpose(table.sum(axis=gone), [kept.index(column) for column in columns] + [len(kept)])

    def given(self, one: int, before: int | None) -> tuple[Floats, list[int], list[int]]:
        """P(new columns | tie with the clique before, label): axes are the tie's columns, the new ones, the label."""
        axes = self.axes[one]
        tie = [column for column in axes if before is not None and column in self.axes[before]]
        new = [column for column in axes if column not in tie]
        table = np.transpose(
            self.tables[one].reshape(self.shapes[one]), [axes.index(column) for column in (*tie, *new)] + [len(axes)]
        )
        over = tuple(range(len(tie), len(axes)))
        sums = table.sum(axis=over, keepdims=True)
        even = 1.0 / max(1, math.prod(self.states[column] for column in new))
        return np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), even), tie, new

    def _scale(self, one: int, tasks: Sequence[_Task], rounds: int) -> float:
        """Scale one clique to its targets in turn; how far the first pass was off."""
        off = 0.0
        for turn in range(rounds if len(tasks) > 1 else min(1, len(tasks))):
            for task in tasks:
                now = _sums(task.spot, self.tables[one], task.table.size)
                if turn == 0:
                    off = max(off, float(np.abs(now - task.table).sum()))
                self.tables[one] *= (np.where(now > 0, task.table / np.where(now > 0, now, 1.0), 0.0))[task.spot]
        return off

    def _pass(self, source: int, sink: int) -> None:
        """Tell `sink` how the shared columns changed at `source` since the two last spoke."""
        spots, cells = self._tie(source, sink)
        back, _ = self._tie(sink, source)
        key = (min(source, sink), max(source, sink))
        told = _sums(spots, self.tables[source], cells)
        held = self._shared[key]
        self.tables[sink] *= (np.where(held > 0, told / np.where(held > 0, held, 1.0), 0.0))[back]
        self._shared[key] = told

    def _tie(self, one: int, other: int) -> tuple[Places, int]:
        """For every cell of `one`, its place in the table of the shared columns and the label."""
        found = self._ties.get((one, other))
        if found is None:
            shared = tuple(column for column in self.axes[one] if column in self.axes[other])
            whole = tuple(np.arange(self.states[column]) for column in shared)
            found = _spots(self.axes[one], self.shapes[one], shared, whole)
            self._ties[one, other] = found
        return found

    def _spots(self, home: int, target: Target) -> Places:
        return _spots(self.axes[home], self.shapes[home], target.columns, target.groups)[0]


def _sums(spots: Places, table: Floats, cells: int) -> Floats:
    """The table summed by where its cells fall."""
    summed: Floats = np.asarray(np.bincount(spots, weights=table, minlength=cells), dtype=np.float64)
    return summed


def _round_trip(tree: CliqueTree) -> list[tuple[int | None, int, bool]]:
    """A walk that crosses every tie both ways: where from, where to, and whether for the first time.

    Only neighbours follow each other, so that the clique at hand always knows of all changes so far.
    """
    out: list[tuple[int | None, int, bool]] = []
    above: dict[int, int | None] = {}
    trail: list[int] = []
    for one, before in tree.walk():
        while trail and trail[-1] != before:
            gone = trail.pop()
            if trail and above[gone] is not None:
                out.append((gone, trail[-1], False))
        above[one] = before
        out.append((before, one, True))
        trail.append(one)
    while len(trail) > 1:
        gone = trail.pop()
        out.append((gone, trail[-1], False))
    return out


def _spots(axes: Sequence[int], shape: Sequence[int], columns: Sequence[int], groups: Sequence[Ints]) -> tuple[Places, int]:
    """Where every cell of a table falls in the table of some of its columns over groups, with the label last."""
    labels = shape[-1]
    spot = np.zeros((1,) * len(shape), dtype=np.intp)
    cells = 1
    for column, group_of in zip(columns, groups, strict=True):
        wide = [1] * len(shape)
        wide[axes.index(column)] = -1
        count = int(group_of.max()) + 1
        spot = spot * count + group_of.astype(np.intp).reshape(wide)
        cells *= count
    spot = spot * labels + np.arange(labels, dtype=np.intp).reshape((1,) * len(axes) + (-1,))
    return np.ascontiguousarray(np.broadcast_to(spot, shape)).ravel(), cells * labels
