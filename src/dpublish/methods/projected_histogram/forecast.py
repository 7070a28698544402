"""Contingency tables of several steps of a greedy choice, counted in one pass over the rows.

In: tables over all columns that are likely to be chosen next (private). Out: the tables of each
step on the way, which are their margins. Whether the forecast comes true decides how long a choice
takes, and nothing else: margins of exact counts are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpublish.methods.projected_histogram.contingency import Table


class Forecast:
    """Tables of a partition, and of those that follow if the columns of `path` are chosen one after
    the other. Private.

    `tables[i]` holds the counts [class * levels of the path * labels, level] of a column i that is
    not on the path; `classes` and `labels` are the numbers of classes and labels, `levels` those of
    the columns on the path.
    """

    def __init__(
        self,
        path: Sequence[int],
        levels: Sequence[int],
        classes: int,
        labels: int,
        tables: Mapping[int, Table],
    ) -> None:
        self.path, self._levels, self._classes, self._labels = (
            tuple(path),
            tuple(levels),
            classes,
            labels,
        )
        self._tables = [dict(tables)]
        for depth in reversed(range(len(self.path))):
            self._tables.insert(
                0, {i: self._without(depth, table) for i, table in self._tables[0].items()}
            )
        self._add_path()

    def __repr__(self) -> str:
        return "Forecast(private)"

    def tables(self, depth: int) -> dict[int, Table]:
        """The tables [class * labels + label, level] of the columns left once the first `depth` of
        the path are chosen."""
        return dict(self._tables[depth])

    def _without(self, depth: int, table: Table) -> Table:
        """The margin of a table over the first depth + 1 columns of the path when the last of them
        is summed out."""
        cells, levels = self._classes * math.prod(self._levels[:depth]), table.shape[1]
        shape = (cells, self._levels[depth], self._labels * levels)
        return np.asarray(table.reshape(shape).sum(axis=1, dtype=np.uint32).reshape(-1, levels))

    def _add_path(self) -> None:
        """The columns of the path are candidates too, until they are chosen."""
        any_table = next(iter(self._tables[-1].values()))
        counts = any_table.sum(axis=1, dtype=np.uint32).reshape(
            self._classes, *self._levels, self._labels
        )
        for depth in range(len(self.path)):
            for place in range(depth, len(self.path)):
                others = tuple(1 + i for i in range(depth, len(self.path)) if i != place)
                margin = np.moveaxis(counts.sum(axis=others, dtype=np.uint32), 1 + depth, -1)
                self._tables[depth][self.path[place]] = np.ascontiguousarray(margin).reshape(
                    -1, self._levels[place]
                )
