"""Which pairs of columns to join: a forest chosen edge by edge with an exact private choice.

In: coded rows (private) and the published tables of single columns. Out: pairs of columns. The
score of a pair is how many rows the independent model puts in the wrong cell of the pair's table,
less what the noise of measuring the table would cost, and less what the noise of its columns
explains.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Ints
from dpublish.declare.encode import code_dtype
from dpublish.declare.statistic import Private, Tabulator
from dpublish.methods.draws import choose
from dpublish.models.junction_tree.cliques import group_levels, level_order
from dpublish.models.junction_tree.consistency import sum_groups
from dpublish.noise.base import Noise
from dpublish.privacy.budget_split import BudgetSplit, Law, in_proportion

Edge = tuple[int, int]

_WEIGHT_GRID = 64
NOISE_COST = 0.4
"""Rows of error a cell of a measured table costs, in standard deviations of its noise: after the
fit, about half of the mean absolute value of the noise is left."""


class Labelled(Protocol):
    """What the mechanism asks of rows. Private."""

    levels: list[int]
    labels: int

    def count_column(self, column: int) -> Ints: ...
    def count_levels(self, column: int) -> Ints: ...
    def regrouped(self, column: int, group_of: Ints) -> Labelled: ...
    def grouped(self, column: int, group_of: Ints) -> Any: ...
    def count_pair(self, first: Any, second: Any, shape: tuple[int, int]) -> Ints: ...
    def count_together(self, coded: Sequence[Any], shape: Sequence[int]) -> Ints: ...


class LabelledRows(Private):
    """Coded rows with the label of each. Private."""

    def __init__(
        self, codes: Sequence[NDArray[Any]], levels: Sequence[int], target: int | None
    ) -> None:
        self.codes = [
            np.ascontiguousarray(code, dtype=code_dtype(count))
            for code, count in zip(codes, levels, strict=True)
        ]
        self.levels = list(levels)
        rows = self.codes[0].size
        self.labels = 1 if target is None else self.levels[target]
        self.labels_of = (
            np.zeros(rows, dtype=np.uint8)
            if target is None
            else self.codes[target].astype(np.uint8)
        )

    def count_column(self, column: int) -> Ints:
        from dpublish.methods.joined_histograms.kernels import count_column

        out = np.zeros(self.levels[column] * self.labels, dtype=np.int64)
        count_column(self.codes[column], self.labels_of, self.labels, out)
        return out

    def count_levels(self, column: int) -> Ints:
        """Rows of every level, all labels together."""
        counted: Ints = self.count_column(column).reshape(-1, self.labels).sum(axis=1)
        return counted

    def regrouped(self, column: int, group_of: Ints) -> LabelledRows:
        """The same rows with the levels of one column grouped."""
        out = copy.copy(self)
        out.codes, out.levels = list(self.codes), list(self.levels)
        out.levels[column] = int(group_of.max()) + 1
        small = group_of.astype(code_dtype(out.levels[column]))
        out.codes[column] = small[self.codes[column]]
        return out

    def grouped(self, column: int, group_of: Ints) -> NDArray[np.uint8]:
        from dpublish.methods.joined_histograms.kernels import regroup

        out = np.empty(self.labels_of.size, dtype=np.uint8)
        regroup(self.codes[column], group_of.astype(np.uint8), out)
        return out

    def count_pair(
        self, first: NDArray[np.uint8], second: NDArray[np.uint8], shape: tuple[int, int]
    ) -> Ints:
        from dpublish.methods.joined_histograms.kernels import count_pair

        out = np.zeros(shape[0] * shape[1] * self.labels, dtype=np.int64)
        count_pair(first, second, self.labels_of, shape[1], self.labels, out)
        return out

    def count_together(self, coded: Sequence[NDArray[np.uint8]], shape: Sequence[int]) -> Ints:
        """Two or three grouped columns with the label."""
        from dpublish.methods.joined_histograms.kernels import count_triple

        if len(coded) == 2:
            return self.count_pair(coded[0], coded[1], (shape[0], shape[1]))
        out = np.zeros(math.prod(shape) * self.labels, dtype=np.int64)
        count_triple(
            coded[0], coded[1], coded[2], self.labels_of, (shape[1], shape[2]), self.labels, out
        )
        return out


class GroupedLevels:
    """The levels of a column in groups, and how tables over levels become tables over groups."""

    def __init__(self, column: int, group_of: Ints) -> None:
        self.column = column
        self._order = np.argsort(group_of, kind="stable")
        self._found, self._starts = np.unique(group_of[self._order], return_index=True)
        self._apart = np.array_equal(group_of, np.arange(len(group_of)))

    def fold(self, table: Ints, axis: int, groups: int) -> Ints:
        """The same counts with one axis over so many groups in place of levels."""
        if self._apart and groups == table.shape[axis]:
            return table
        sums: Ints = np.add.reduceat(table.take(self._order, axis=axis), self._starts, axis=axis)
        if groups == len(self._found):
            return sums
        folded = np.zeros((*table.shape[:axis], groups, *table.shape[axis + 1 :]), dtype=np.int64)
        folded[(slice(None),) * axis + (self._found,)] = sums
        return folded


class LabelledTables(Private):
    """The tables of columns, pairs and some triples by label: all that is asked of the rows. They
    are counted in one pass when the first is wanted, and what is asked of groups of levels is
    summed from them. Before that, columns by themselves may be counted, and their levels grouped.
    Private."""

    def __init__(
        self,
        rows: Tabulator,
        target: int | None,
        features: Sequence[int],
        triples: Sequence[tuple[int, ...]],
    ) -> None:
        self._rows, self._label = rows, () if target is None else (target,)
        self._singles = [(column,) for column in features]
        self._joint = [*itertools.combinations(features, 2), *triples]
        self.levels = list(rows.domain.shape)
        self.labels = 1 if target is None else self.levels[target]
        self._groups: dict[int, Ints] = {}
        self._columns: dict[tuple[int, ...], Ints] = {}
        self._tables: dict[tuple[int, ...], Ints] = {}

    def count_column(self, column: int) -> Ints:
        return self._table((column,)).ravel()

    def count_levels(self, column: int) -> Ints:
        """Rows of every level, all labels together; as it was declared, whatever was grouped."""
        if not self._columns:
            self._columns = self._count(self._singles, {})
        counted: Ints = self._columns[column,].reshape(-1, self.labels).sum(axis=1)
        return counted

    def regrouped(self, column: int, group_of: Ints) -> LabelledTables:
        """The same rows with the levels of one column grouped."""
        out = copy.copy(self)
        out._groups, out.levels, out._tables = (
            {**self._groups, column: group_of},
            [*self.levels],
            {},
        )
        out.levels[column] = int(group_of.max()) + 1
        return out

    def grouped(self, column: int, group_of: Ints) -> GroupedLevels:
        """A column, and the group of each of its levels."""
        return GroupedLevels(column, group_of)

    def count_pair(
        self, first: GroupedLevels, second: GroupedLevels, shape: tuple[int, int]
    ) -> Ints:
        return self.count_together([first, second], shape)

    def count_together(self, coded: Sequence[GroupedLevels], shape: Sequence[int]) -> Ints:
        """Two or three grouped columns with the label."""
        columns = tuple(one.column for one in coded)
        kept = tuple(sorted(columns))
        table = self._table(kept)
        if columns != kept:
            table = table.transpose([*map(kept.index, columns), len(columns)])
        for axis, (one, groups) in enumerate(zip(coded, shape, strict=True)):
            table = one.fold(table, axis, groups)
        return table.flatten()

    def _table(self, columns: tuple[int, ...]) -> Ints:
        if not self._tables:
            self._tables = self._count([*self._singles, *self._joint], self._groups)
        return self._tables[columns]

    def _count(
        self, wanted: Sequence[tuple[int, ...]], groups: Mapping[int, Ints]
    ) -> dict[tuple[int, ...], Ints]:
        found = self._rows.tables([(*columns, *self._label) for columns in wanted], groups)
        return {
            columns: table.reshape([*table.shape[: len(columns)], self.labels])
            for columns, table in zip(wanted, found.values(), strict=True)
        }


@dataclass(frozen=True)
class Published:
    """What is known after the single columns are measured: public."""

    labels: Floats
    singles: Mapping[int, Floats]
    deviations: Mapping[int, float]
    ordered: Sequence[bool]

    def groups(self, column: int, most: int) -> Ints:
        table = self.singles[column]
        return group_levels(
            table.sum(axis=1), level_order(table, ordered=self.ordered[column]), most
        )

    def margin_error(self, column: int, groups: Ints) -> float:
        """About how many rows the noise of a column's own table puts in the wrong group, all labels
        together."""
        occupied = np.bincount(groups, weights=self.singles[column].sum(axis=1) > 0)
        deviation = self.deviations[column] * math.sqrt(len(self.labels))
        return NOISE_COST * deviation * float(np.sqrt(occupied).sum())

    def grouped(self, column: int, groups: Ints) -> Floats:
        """A column's own table over groups of its levels."""
        return sum_groups(self.singles[column], groups, int(groups.max()) + 1)

    def shares(self, table: Floats) -> Floats:
        """Of a column's table over groups, the share of each label's rows in every group; its
        product with the table of another column is what a pair of columns that are independent
        given the label would have, all labels together."""
        shares: Floats = table / np.where(self.labels > 0, self.labels, 1.0)
        return shares


LARGEST_CELL = 1 << 40
"""No cell of a model counts for more: noisy counts have no end, and the sum over all cells of a
pair must stay in 64 bits."""


def without_labels(counts: Ints, labels: int) -> Ints:
    """Rows of all labels together, from a table of counts with labels last."""
    together: Ints = counts.reshape(-1, labels).sum(axis=1)
    return together


def rows_apart(counts: NDArray[Any], expected: Floats) -> int:
    """How many rows are in another cell than a published model says, which counts in whole rows:
    moves by one per changed row."""
    from dpublish.methods.joined_histograms import kernels as joined

    whole, model = (
        np.ascontiguousarray(table, dtype=np.float64).ravel() for table in (counts, expected)
    )
    return int(joined.rows_apart(whole, model, LARGEST_CELL))


def rows_apart_each(counts: Floats, expected: Floats) -> list[int]:
    """The same of several tables at once, one for each place of the first axis."""
    model = np.rint(np.fmin(np.fmax(expected, 0.0), LARGEST_CELL))
    apart = np.abs(counts.astype(np.int64) - model.astype(np.int64))
    found: list[int] = apart.reshape(len(apart), -1).sum(axis=1).tolist()
    return found


def pair_scores(
    rows: Labelled,
    known: Published,
    columns: Sequence[int],
    weights: Mapping[Edge, int],
    *,
    cells: float,
    deviation: float,
) -> dict[Edge, int]:
    """The score of every pair, of all labels together: an integer that moves by at most its weight
    for every row that is added or removed."""
    most = max(2, int(math.sqrt(max(1.0, cells))))
    groups = {column: known.groups(column, most) for column in columns}
    coded = {column: rows.grouped(column, groups[column]) for column in columns}
    errors = {column: known.margin_error(column, groups[column]) for column in columns}
    tables = {column: known.grouped(column, groups[column]) for column in columns}
    scores: dict[Edge, int] = {}
    for i, first in enumerate(columns):
        shares = known.shares(tables[first])
        for second in columns[i + 1 :]:
            model = shares @ tables[second].T  # independent given the label
            shape = (len(shares), len(tables[second]))
            counts = rows.count_pair(coded[first], coded[second], shape)
            together = without_labels(counts, rows.labels)
            charge = round(NOISE_COST * deviation * model.size + errors[first] + errors[second])
            scores[first, second] = (rows_apart(together, model) - charge) * weights[first, second]
    return scores


def choose_forest(
    noise: Noise,
    scores: Mapping[Edge, int],
    columns: Sequence[int],
    budget: BudgetSplit,
    *,
    weight: int,
    share: Fraction,
) -> list[Edge]:
    """Pairs with high scores that close no circle; stopping, at score 0, is one of the choices of
    every step."""
    tree = {column: column for column in columns}
    chosen: list[Edge] = []
    steps = len(columns) - 1
    for step in range(steps):
        open_pairs = [edge for edge in scores if tree[edge[0]] != tree[edge[1]]]
        picked = choose(
            noise,
            budget,
            [*(scores[edge] for edge in open_pairs), 0],
            weight=weight,
            share=share / steps,
            label=f"pair {step + 1}",
        )
        if picked == len(open_pairs):
            break
        edge = open_pairs[picked]
        chosen.append(edge)
        old, new = tree[edge[1]], tree[edge[0]]
        tree = {column: new if root == old else root for column, root in tree.items()}
    return chosen


def table_parts(law: Law, cells: Sequence[int]) -> list[Fraction]:
    """Parts of one, one per table: those that make the sum of absolute errors over all cells
    smallest.

    Errors add up to sum m_k / e_k (Laplace) or sum m_k / sqrt(r_k) (Gaussian) for tables of m_k
    cells, so that e_k goes with m_k^(1/2) and r_k with m_k^(2/3). Large tables are mostly empty,
    hence the cap.
    """
    power = 1 / 2 if law == "laplace" else 2 / 3
    return in_proportion(
        [max(1, round(_WEIGHT_GRID * min(count, 4096) ** power)) for count in cells]
    )
