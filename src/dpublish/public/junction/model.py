"""A model of a whole table: labels, every column given the label, and a forest of pairs of columns given the label.

    P(x) = P(label) * prod over roots P(x_r | label) * prod over pairs P(x_child | group of x_parent, label)

A pair's table is over groups of levels; within a group a level is drawn by its column's own table. All factors agree on what
they share, so that sums over the model are exact: `joint` gives the table of any few columns, `sample_codes` draws rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpublish.errors import QueryError
from dpublish.public.junction.margins import Floats, Ints, sum_groups

MAX_JOINT = 1 << 23


class TableTooLarge(QueryError):
    """The exact table of the columns asked for does not fit; the answer has to come from drawn rows."""


@dataclass(frozen=True)
class Pair:
    """Two columns joined: the groups of their levels, and the fitted groups x groups x labels table."""

    first: int
    second: int
    first_groups: Ints
    second_groups: Ints
    table: Floats

    def seen_from(self, column: int) -> Pair:
        """The same pair with `column` first."""
        if column == self.first:
            return self
        return Pair(self.second, self.first, self.second_groups, self.first_groups, self.table.transpose(1, 0, 2))

    @cached_property
    def second_given_first(self) -> Floats:
        """P(group of second | group of first, label); uniform where the first group is empty."""
        sums = self.table.sum(axis=1, keepdims=True)
        even = 1.0 / self.table.shape[1]
        return np.where(sums > 0, self.table / np.where(sums > 0, sums, 1.0), even)


class JunctionModel:
    """The joined histograms. `singles[c]` is the levels x labels table of column c; `pairs` form a forest of the columns."""

    def __init__(self, labels: Floats, singles: Sequence[Floats], pairs: Sequence[Pair], *, target: int | None) -> None:
        self.labels, self.singles, self.pairs, self.target = labels, list(singles), list(pairs), target
        self.columns = [column for column in range(len(self.singles)) if column != target]
        self._near: dict[int, list[Pair]] = {column: [] for column in self.columns}
        for pair in self.pairs:
            self._near[pair.first].append(pair)
            self._near[pair.second].append(pair.seen_from(pair.second))

    @property
    def total(self) -> float:
        return float(self.labels.sum())

    @property
    def label_shares(self) -> Floats:
        total = self.total
        return self.labels / total if total > 0 else np.full(len(self.labels), 1.0 / len(self.labels))

    def given_label(self, column: int) -> Floats:
        """P(level | label)."""
        table = self.singles[column]
        sums = table.sum(axis=0)
        return np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), 1.0 / table.shape[0])

    def within_group(self, column: int, group_of: Ints) -> Floats:
        """P(level | its group, label); uniform in a group that has no rows of the label."""
        table = self.singles[column]
        groups = int(group_of.max()) + 1
        sums = sum_groups(table, group_of, groups)[group_of]
        members = np.bincount(group_of, minlength=groups)[group_of][:, None]
        return np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), 1.0 / members)

    def joint(self, columns: Sequence[int]) -> Floats:
        """The expected counts of every combination of levels of some columns, axes in the order given."""
        wanted = [column for column in columns if column != self.target]
        table = self.labels
        axes: list[int] = []
        left = set(wanted)
        while left:
            start = min(left)
            part, kept = self._part(start, left)
            left -= set(kept)
            table = _outer(part, table)
            axes = kept + axes
        if self.target is not None and self.target in columns:
            axes = [*axes, self.target]
        else:
            table = table.sum(axis=-1)
        return np.transpose(table, [axes.index(column) for column in columns])

    def component(self, column: int) -> list[int]:
        """The columns that are joined with one, itself first."""
        found, seen = [column], {column}
        for one in found:
            for pair in self._near[one]:
                if pair.second not in seen:
                    seen.add(pair.second)
                    found.append(pair.second)
        return found

    def order(self) -> list[tuple[int, Pair | None]]:
        """All columns, parents before children, each with the pair that joins it to its parent."""
        out: list[tuple[int, Pair | None]] = []
        seen: set[int] = set()
        # the busiest column of a tree is its root, which keeps chains short
        for start in sorted(self.columns, key=lambda column: (-len(self._near[column]), column)):
            if start in seen:
                continue
            seen.add(start)
            queue: list[tuple[int, Pair | None]] = [(start, None)]
            for column, pair in queue:
                out.append((column, pair))
                for more in self._near[column]:
                    if more.second not in seen:
                        seen.add(more.second)
                        queue.append((more.second, more))
        return out

    def sample_codes(self, number: int, generator: np.random.Generator) -> list[Ints]:
        """Rows drawn from the model, one code array a column.

        Draws are systematic: within every group of rows each value occurs as often as expected, give or take one, so that the
        rows show the model and little sampling error of their own.
        """
        codes: list[Ints] = [np.zeros(0, dtype=np.int64)] * len(self.singles)
        label = _draw(np.zeros(number, dtype=np.int64), self.label_shares[None, :], generator)
        labels = len(self.labels)
        for column, pair in self.order():
            if pair is None:
                codes[column] = _draw(label, self.given_label(column).T, generator)
                continue
            groups = pair.table.shape[1]
            above = pair.first_groups[codes[pair.first]] * labels + label
            chances = pair.second_given_first.transpose(0, 2, 1).reshape(-1, groups)
            group = _draw(above, chances, generator)
            codes[column] = self._draw_levels(column, pair.second_groups, group, label, generator)
        if self.target is not None:
            codes[self.target] = label
        return codes

    def _draw_levels(self, column: int, group_of: Ints, group: Ints, label: Ints, generator: np.random.Generator) -> Ints:
        """Levels within groups. All groups share one cumulative table, each a stretch of it."""
        within = self.within_group(column, group_of)
        by_group = np.argsort(group_of, kind="stable")
        sizes = np.bincount(group_of)
        widest = int(sizes.max())
        if widest == 1:
            alone: Ints = by_group[group]
            return alone
        starts = np.cumsum(sizes) - sizes
        place = np.arange(len(group_of)) - starts[group_of[by_group]]
        chances = np.zeros((len(sizes), within.shape[1], widest))
        chances[group_of[by_group], :, place] = within[by_group]
        picked = _draw(group * within.shape[1] + label, chances.reshape(-1, widest), generator)
        levels: Ints = by_group[starts[group] + np.minimum(picked, sizes[group] - 1)]
        return levels

    def _part(self, start: int, wanted: set[int]) -> tuple[Floats, list[int]]:
        """P(kept columns | label) of the tree that `start` is in: its axes are the kept columns, then the label."""
        table, kept = self._below(start, None, wanted)
        return table * _spread(self.given_label(start), table.ndim), [start, *kept]

    def _below(self, column: int, parent: int | None, wanted: set[int]) -> tuple[Floats, list[int]]:
        """P(kept columns further from the root | level of `column`, label), with the levels of `column` as first axis."""
        labels = len(self.labels)
        table = np.ones((self.singles[column].shape[0], labels))
        kept: list[int] = []
        for pair in self._near[column]:
            child = pair.second
            if child == parent or not (wanted & set(self._branch(child, column))):
                continue
            branch, below = self._below(child, column, wanted)
            inside = branch * _spread(self.within_group(child, pair.second_groups), branch.ndim)
            chances = pair.second_given_first
            if child in wanted:
                _check_size(chances.shape[0] * inside.size)
                part = chances[:, pair.second_groups].reshape(chances.shape[0], -1, *(1,) * (inside.ndim - 2), labels) * inside
                below = [child, *below]
            else:
                grouped = sum_groups(inside, pair.second_groups, chances.shape[1])
                _check_size(chances.shape[0] * grouped.size // chances.shape[1])
                part = np.einsum("ijt,j...t->i...t", chances, grouped)
            _check_size(table.size // table.shape[0] // labels * part.size // part.shape[0] * len(pair.first_groups))
            part = part[pair.first_groups]
            table = table.reshape(*table.shape[:-1], *(1,) * (part.ndim - 2), labels) * part.reshape(
                part.shape[0], *(1,) * (table.ndim - 2), *part.shape[1:]
            )
            kept += below
        return table, kept

    def _branch(self, column: int, parent: int) -> list[int]:
        """The columns on the far side of the pair parent - column."""
        found, came = [column], {column: parent}
        for one in found:
            for pair in self._near[one]:
                if pair.second != came[one]:
                    came[pair.second] = one
                    found.append(pair.second)
        return found


def _outer(part: Floats, table: Floats) -> Floats:
    """The product of two tables that share the label as last axis; the axes of `part` come first."""
    _check_size(part.size * table.size // part.shape[-1])
    wide: Floats = part.reshape(*part.shape[:-1], *(1,) * (table.ndim - 1), part.shape[-1])
    return wide * table


def _spread(table: Floats, dimensions: int) -> Floats:
    """A levels x labels table with axes of length one put between."""
    return table.reshape(table.shape[0], *(1,) * (dimensions - 2), table.shape[1])


def _check_size(cells: int) -> None:
    if cells > MAX_JOINT:
        raise TableTooLarge(f"The exact table would need {cells:,} cells; at most {MAX_JOINT:,} are held.")


def _draw(keys: Ints, chances: Floats, generator: np.random.Generator) -> Ints:
    """One value a row, from the distribution in the row of `chances` that its key names, by systematic sampling."""
    rows, values = chances.shape
    if values == 1 or not len(keys):
        return np.zeros(len(keys), dtype=np.int64)
    mixed = generator.permutation(len(keys))
    order = mixed[np.argsort(keys[mixed], kind="stable")]
    sizes = np.bincount(keys, minlength=rows)
    starts = np.cumsum(sizes) - sizes
    sorted_keys = keys[order]
    ranks = np.arange(len(keys)) - starts[sorted_keys]
    offsets: Floats = np.asarray(generator.random(rows))
    spots = (ranks + offsets[sorted_keys]) / sizes[sorted_keys]
    ends = np.cumsum(chances, axis=1)
    ends /= ends[:, -1:]
    found = np.searchsorted((ends + np.arange(rows)[:, None]).ravel(), sorted_keys + spots, side="right")
    out = np.empty(len(keys), dtype=np.int64)
    out[order] = np.clip(found - sorted_keys * values, 0, values - 1)
    return out
