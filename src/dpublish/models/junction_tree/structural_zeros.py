"""Combinations of values that a declared rule makes impossible, in the model: they have no rows.

Levels that a rule tells apart are different states, the columns of a rule share a clique, and the
cells that it forbids are 0 from the start. Proportional fitting multiplies, so they stay 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.domain import Domain
from dpublish.declare.rules import Rule, cells_where
from dpublish.models.junction_tree.consistency import Floats, Ints


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

    def over(self, patterns: Sequence[Ints]) -> Floats:
        """1 and 0 over patterns of the columns, by label."""
        out = self.possible
        for place, pattern in enumerate(patterns):
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


def first_states(levels: int, column: int, zeros: Sequence[Zeros]) -> Ints:
    """The states that rules alone ask for: levels that some rule tells apart differ."""
    state = np.zeros(levels, dtype=np.int64)
    for one in zeros:
        if column in one.columns:
            pattern = one.patterns(column)
            _, found = np.unique(state * (int(pattern.max()) + 1) + pattern, return_inverse=True)
            state = found.reshape(-1).astype(np.int64)
    return state


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
