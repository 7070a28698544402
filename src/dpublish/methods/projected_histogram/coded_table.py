"""Coded rows: one array of codes a column, and the label of each row.

In: codes of the kept rows (private). Out: the same rows in the smallest types, parts of them, and
exact counts of their cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Codes
from dpublish.declare.domain import Domain
from dpublish.declare.statistic import Private, SparseCounts
from dpublish.errors import PrivateSideError
from dpublish.methods.projected_histogram.contingency import Table, count_product, occupied_cells

MAX_ROWS = (1 << 31) - 1
"""Squares of counts, and their sums, must fit 64 bits."""

_DIRECT_CELLS = 1 << 24
_STRETCHES = 32


class CodedTable(Private):
    """Rows as codes: one array per column with its number of levels, and the label of each row.
    Private."""

    def __init__(
        self, columns: Sequence[Codes], levels: Sequence[int], labels_of: Codes, labels: int
    ) -> None:
        self.rows = int(labels_of.size)
        if self.rows > MAX_ROWS or any(column.size != self.rows for column in columns):
            raise PrivateSideError()
        self.columns = [
            _narrow(column, count) for column, count in zip(columns, levels, strict=True)
        ]
        self.levels = [int(count) for count in levels]
        self.labels_of = _narrow(labels_of, labels)
        self.labels = int(labels)
        self._kept: tuple[tuple[int, ...], Table] | None = None

    @classmethod
    def from_codes(cls, codes: Sequence[Codes], domain: Domain) -> CodedTable:
        """The rows of a domain whose last axis is the label."""
        *columns, labels_of = codes
        *levels, labels = domain.shape
        return cls(columns, levels, labels_of, labels)

    def take(self, kept: NDArray[np.bool_] | NDArray[np.int64]) -> CodedTable:
        """The rows where `kept` is true, or whose places it holds."""
        return CodedTable(
            [column[kept] for column in self.columns],
            self.levels,
            self.labels_of[kept],
            self.labels,
        )

    def keep_counts(self, columns: Sequence[int], counts: Table) -> None:
        """Counts [level of each of the columns, label] that were made on the way, so that
        `count_cells` need not make them."""
        self._kept = tuple(columns), counts

    def samples(self, parts: int, rows: int) -> list[CodedTable]:
        """About `rows` of the rows in so many disjoint parts, each of stretches from all over the
        table."""
        stretch = max(1, rows // (parts * _STRETCHES))
        starts = np.linspace(0, self.rows - stretch, parts * _STRETCHES).astype(np.int64)
        places = [
            (starts[part::parts, None] + np.arange(stretch)).reshape(-1) for part in range(parts)
        ]
        return [self.take(at) for at in places]

    def count_cells(self, chosen: Sequence[int]) -> SparseCounts:
        """Exact counts over the chosen columns, in that order, and the label last."""
        from dpublish.methods.projected_histogram.kernels import add_digit

        if self._kept is not None and sorted(self._kept[0]) == sorted(chosen):
            columns, counts = self._kept
            return occupied_cells(
                counts.transpose(*(columns.index(i) for i in chosen), len(columns))
            )
        digits = [
            *((self.columns[i], self.levels[i]) for i in chosen),
            (self.labels_of, self.labels),
        ]
        size = math.prod(levels for _, levels in digits)
        if size <= _DIRECT_CELLS:
            return count_product(digits, size)
        cells = np.zeros(self.rows, dtype=np.uint64)
        for codes, levels in digits:
            add_digit(cells, codes, levels)
        distinct, held = np.unique(cells, return_counts=True)
        return SparseCounts(cells=distinct, counts=held.astype(np.int64))


def _narrow(codes: Codes, levels: int) -> Codes:
    """The smallest unsigned type that holds the codes, so that one compiled kernel a width is
    enough."""
    kind = np.uint8 if levels <= 1 << 8 else np.uint16 if levels <= 1 << 16 else np.uint32
    return np.ascontiguousarray(codes, dtype=kind)
