"""The junction tree of joined columns: cliques of columns, so that any two columns counted together
share a clique.

Every clique stands with the label. Joining two columns of one tree carries one of them along the
path to the other (a fan), which keeps the tree a junction tree: the cliques that hold a column are
always connected.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Ints
from dpublish.declare.domain import Domain
from dpublish.declare.rules import Rule, cells_where

# Combinations of values that a declared rule makes impossible, in the model: they have no rows.
#
# Levels that a rule tells apart are different states, the columns of a rule share a clique, and
# the cells that it forbids are 0 from the start. Proportional fitting multiplies, so they stay 0.


@dataclass(frozen=True)
class Zeros:
    """Which combinations of levels of some columns, by label, are possible: one axis per column,
    the label last."""

    columns: tuple[int, ...]
    possible: NDArray[np.bool_]

    def patterns(self, column: int) -> Ints:
        """Levels of a column that the rule does not tell apart have the same number."""
        place = self.columns.index(column)
        rows = np.moveaxis(self.possible, place, 0).reshape(self.possible.shape[place], -1)
        _, found = np.unique(rows, axis=0, return_inverse=True)
        return found.reshape(-1).astype(np.int64)

    @cached_property
    def groups(self) -> tuple[Ints, ...]:
        """The patterns of every column."""
        return tuple(map(self.patterns, self.columns))

    @property
    def table(self) -> Floats:
        """1 and 0 over patterns of the columns, by label."""
        out = self.possible
        for place, pattern in enumerate(self.groups):
            _, first = np.unique(pattern, return_index=True)
            out = out.take(first, axis=place)
        return out.astype(np.float64)


def structural_zeros(
    rules: Sequence[Rule], domain: Domain, target: int | None
) -> tuple[Zeros, ...]:
    """What rules forbid in the tables of a model: from public facts alone."""
    labels = 1 if target is None else domain.shape[target]
    out: dict[tuple[int, ...], NDArray[np.bool_]] = {}
    for rule in rules:
        found = cells_where(rule, domain)
        if found is None:
            continue
        columns = tuple(place for place in found.places if place != target)
        broken = (
            np.moveaxis(found.cells, found.places.index(target), -1)
            if target in found.places
            else found.cells[..., None]
        )
        broken = np.broadcast_to(broken, (*broken.shape[:-1], labels))
        out[columns] = out.get(columns, np.ones(1, dtype=np.bool_)) & ~broken
    return tuple(Zeros(columns, possible) for columns, possible in out.items())


def without_impossible(single: Floats, column: int, zeros: Sequence[Zeros]) -> Floats:
    """A column's table without the levels that a rule about it, or about it and the target,
    forbids; the rows of each label stay as many, where any level is left."""
    out = single
    for one in zeros:
        if one.columns == (column,):
            left = out * one.possible
            sums = left.sum(axis=0)
            out = left * np.where(sums > 0, out.sum(axis=0) / np.where(sums > 0, sums, 1.0), 0.0)
    return out


# Groups of levels: joint tables are measured over groups with enough rows to stand out of the
# noise.
#
# Everything here reads tables that were already published, so that the groups are no secret and
# cost nothing.

MAX_GROUPS = 255
"""Grouped codes fit one byte."""


def level_order(table: Floats, *, ordered: bool) -> Ints:
    """The order in which neighbours may share a group: the column's own, or else by the rate of the
    commonest label."""
    if ordered:
        return np.arange(len(table), dtype=np.int64)
    mass = table.sum(axis=1)
    if table.shape[1] == 1:
        return np.argsort(-mass, kind="stable").astype(np.int64)
    label = int(np.argmax(table.sum(axis=0)))
    rate = np.where(mass > 0, table[:, label] / np.where(mass > 0, mass, 1.0), 2.0)
    return np.lexsort((-mass, rate)).astype(np.int64)


def group_levels(mass: Floats, order: Ints, most: int) -> Ints:
    """The group of each level: at most `most` of them, heavy levels alone, runs of light ones
    together.

    The smallest mass a group should have is found by bisection: the lower it is, the more groups
    there are.
    """
    levels = len(mass)
    most = max(1, min(most, MAX_GROUPS, levels))
    weights = mass[order].tolist()
    if 0 < sum(weight > 0 for weight in weights) <= most:
        return _in_order(_pack(weights, 0.0), order)
    low, high = 0.0, max(float(mass.sum()), 1.0)
    best = [0] * levels
    for _ in range(40):
        middle = (low + high) / 2
        groups = _pack(weights, middle)
        if max(groups, default=0) < most:
            best, high = groups, middle
        else:
            low = middle
    return _in_order(best, order)


def _pack(weights: Sequence[float], floor: float) -> list[int]:
    """Walk the levels in order; a group closes when it holds more than `floor`, and a level above
    it starts its own."""
    groups: list[int] = []
    group, held = 0, 0.0
    for weight in weights:
        if held > 0 and weight > 0 and (held > floor or weight > floor):
            group, held = group + 1, 0.0
        groups.append(group)
        held += weight
    return groups


def _in_order(groups: Sequence[int], order: Ints) -> Ints:
    """The groups of levels, from those of the levels in an order."""
    out = np.zeros(len(order), dtype=np.int64)
    out[order] = groups
    return out


def group_limits(first: int, second: int, cells: float) -> tuple[int, int]:
    """How many groups each side of a joint table may have, so that it has about `cells` cells."""
    room = max(1.0, cells)
    side = math.sqrt(room)
    if first <= side:
        return first, max(1, min(second, int(room / first)))
    if second <= side:
        return max(1, min(first, int(room / second))), second
    return max(1, int(side)), max(1, int(side))


Clique = frozenset[int]


@dataclass(frozen=True)
class CliqueTree:
    """Cliques, and for every clique the ones it is tied to. Separators form a forest."""

    cliques: tuple[Clique, ...]
    adjacent: tuple[frozenset[int], ...]

    @classmethod
    def apart(cls, columns: Iterable[int]) -> CliqueTree:
        """Every column alone."""
        cliques = tuple(frozenset((column,)) for column in columns)
        return cls(cliques, tuple(frozenset[int]() for _ in cliques))

    @classmethod
    def of(
        cls, columns: Iterable[int], tables: Iterable[Sequence[int]], states: Mapping[int, int]
    ) -> CliqueTree:
        """The tree in which the columns of every table share a clique. `states` is how many values
        each column takes in it."""
        return cls.apart(columns).joined(tables, states)

    def joined(self, tables: Iterable[Sequence[int]], states: Mapping[int, int]) -> CliqueTree:
        """The same with further tables."""
        tree = self
        for table in tables:
            for first, second in itertools.combinations(table, 2):
                tree = tree.join(first, second, states)
        return tree

    def join(self, first: int, second: int, states: Mapping[int, int]) -> CliqueTree:
        """The tree with both columns in one clique: of the two fans, the one with fewer cells."""
        fan = self._fan(first, second)
        if self.path(first, second) is None:
            return fan
        return min(fan, self._fan(second, first), key=lambda tree: tree.cells(states))

    def cells(self, states: Mapping[int, int]) -> int:
        """Cells of all cliques together, for each label."""
        return sum(clique_cells(clique, states) for clique in self.cliques)

    def largest(self, states: Mapping[int, int]) -> int:
        """Cells of the largest clique, for each label."""
        return max(clique_cells(clique, states) for clique in self.cliques)

    def clique_of(self, columns: Iterable[int]) -> int | None:
        """The first clique that holds all the columns."""
        wanted = frozenset(columns)
        return next((i for i, clique in enumerate(self.cliques) if wanted <= clique), None)

    def walk(self) -> list[tuple[int, int | None]]:
        """All cliques, each with the one before it on the way from the root of its tree; roots have
        None."""
        out: list[tuple[int, int | None]] = []
        seen: set[int] = set()
        for start in range(len(self.cliques)):
            if start in seen:
                continue
            seen.add(start)
            stack: list[tuple[int, int | None]] = [(start, None)]
            while stack:
                one, before = stack.pop()
                out.append((one, before))
                for other in sorted(self.adjacent[one], reverse=True):
                    if other not in seen:
                        seen.add(other)
                        stack.append((other, one))
        return out

    def path(self, first: int, second: int) -> list[int] | None:
        """The shortest way from a clique with one column to a clique with the other; None when they
        are in different trees."""
        start = [i for i, clique in enumerate(self.cliques) if first in clique]
        came: dict[int, int | None] = dict.fromkeys(start)
        queue = list(start)
        for one in queue:
            if second in self.cliques[one]:
                back, at = [one], came[one]
                while at is not None:
                    back.append(at)
                    at = came[at]
                return back[::-1]
            for other in sorted(self.adjacent[one]):
                if other not in came:
                    came[other] = one
                    queue.append(other)
        return None

    def reach(
        self, columns: Iterable[int], states: Mapping[int, int]
    ) -> dict[int, dict[int, tuple[int, int]]]:
        """For each of some columns, and every other column of its tree: cells that carrying the one
        to the other would add, and the largest new clique."""
        separators = {
            (a, b): self.cliques[a] & self.cliques[b]
            for a, adjacent in enumerate(self.adjacent)
            for b in adjacent
        }
        width = {edge: clique_cells(separator, states) for edge, separator in separators.items()}
        span = {
            (a, b, c): clique_cells(separators[a, b] | separators[b, c], states)
            for a, b in separators
            for c in self.adjacent[b]
            if c != a
        }
        return {column: self._reach(column, states, width, span) for column in columns}

    def _reach(
        self,
        first: int,
        states: Mapping[int, int],
        width: Mapping[tuple[int, int], int],
        span: Mapping[tuple[int, int, int], int],
    ) -> dict[int, tuple[int, int]]:
        """`width` has the cells of every separator, `span` those of two separators of one clique
        together."""
        out: dict[int, tuple[int, int]] = {}
        todo: list[tuple[int, int | None, int, int]] = []
        for one, clique in enumerate(self.cliques):
            if first in clique:
                todo.append((one, None, 0, 0))
                out |= dict.fromkeys(clique, (0, 0))
        seen = {one for one, *_ in todo}
        for one, before, added, largest in todo:
            if before is not None:
                thin = width[before, one] * states[first]
                for column in self.cliques[one]:
                    if column not in out:
                        out[column] = (
                            added + thin * states[column],
                            max(largest, thin * states[column]),
                        )
            for other in self.adjacent[one]:
                if other not in seen:
                    seen.add(other)
                    fresh = span[before, one, other] * states[first] if before is not None else 0
                    todo.append((other, one, added + fresh, max(largest, fresh)))
        del out[first]
        return out

    def _fan(self, first: int, second: int) -> CliqueTree:
        """Carry `first` to a clique that holds `second`: one thin clique for every step of the
        path."""
        path = self.path(first, second)
        cliques, adjacent = list(self.cliques), [set(one) for one in self.adjacent]
        if path is None:
            ends = [self.clique_of([first]), self.clique_of([second])]
            cliques.append(frozenset((first, second)))
            adjacent.append({end for end in ends if end is not None})
            for end in adjacent[-1]:
                adjacent[end].add(len(cliques) - 1)
            return _tidy(cliques, adjacent)
        if len(path) == 1:
            return self
        separators = [cliques[a] & cliques[b] for a, b in itertools.pairwise(path)]
        previous = path[0]
        for step, at in enumerate(path[1:]):
            onward = separators[step + 1] if step + 1 < len(separators) else frozenset((second,))
            cliques.append(separators[step] | onward | {first})
            new = len(cliques) - 1
            adjacent.append({previous, at})
            adjacent[path[step]].discard(at)
            adjacent[at].discard(path[step])
            adjacent[previous].add(new)
            adjacent[at].add(new)
            previous = new
        return _tidy(cliques, adjacent)


def clique_cells(clique: Iterable[int], states: Mapping[int, int]) -> int:
    return math.prod(states[column] for column in clique)


def _tidy(cliques: list[Clique], adjacent: list[set[int]]) -> CliqueTree:
    """Cliques inside a neighbour are merged with it."""
    gone: set[int] = set()
    again = True
    while again:
        again = False
        for one in range(len(cliques)):
            if one in gone:
                continue
            host = next(
                (other for other in sorted(adjacent[one]) if cliques[one] <= cliques[other]), None
            )
            if host is None:
                continue
            for other in adjacent[one]:
                adjacent[other].discard(one)
                if other != host:
                    adjacent[other].add(host)
                    adjacent[host].add(other)
            adjacent[one] = set()
            gone.add(one)
            again = True
    place = {old: new for new, old in enumerate(i for i in range(len(cliques)) if i not in gone)}
    return CliqueTree(
        tuple(cliques[old] for old in place),
        tuple(frozenset(place[other] for other in adjacent[old]) for old in place),
    )
