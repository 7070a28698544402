"""What public totals leave: the least and the most rows that some cells of a column can have.

No noise is in them, so that they cost a count nothing of its level. They are two linear programs
over classes of cells that no total tells apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.declare.domain import Domain
from dpublish.models.junction_tree.known_sums import KnownSum
from dpublish.models.junction_tree.measured import Measured
from dpublish.query.masks import cover_table
from dpublish.query.predicate import Node, columns_of

_ROUNDING = 1e-6
MAX_CELLS = 1 << 20
"""Combinations of levels of a condition's columns that are looked at."""
Ends = tuple[float, float]


class CellLimits:
    """The cells of a column (levels x labels), of which some sums are known."""

    def __init__(
        self, known: Sequence[KnownSum], shape: tuple[int, int], total: int | None
    ) -> None:
        # totals of the target alone are sums over all levels
        sums = [np.broadcast_to(one.cells, shape).ravel() for one in known]
        rows = [float(one.rows) for one in known]
        if total is not None:
            sums, rows = [*sums, np.ones(math.prod(shape))], [*rows, float(total)]
        self._shape, self._sums, self._rows = shape, np.array(sums, dtype=bool), np.array(rows)

    def of(self, mask: NDArray[np.bool_]) -> Ends:
        """The least and the most rows in some cells."""
        from scipy.optimize import linprog

        every = np.vstack([self._sums, mask.ravel()])
        classes = np.unique(every, axis=1).astype(np.float64)
        ends = []
        for sign in (1.0, -1.0):
            found = linprog(sign * classes[-1], A_eq=classes[:-1], b_eq=self._rows, method="highs")
            ends.append(sign * float(found.fun) if found.status == 0 else (0.0, math.inf)[sign < 0])
        return float(math.ceil(ends[0] - _ROUNDING)), _floor(ends[1])

    def of_levels(self) -> tuple[Floats, Floats]:
        """The same of every level, all labels together."""
        patterns = self._sums.reshape(len(self._sums), *self._shape).transpose(1, 0, 2)
        return self._each(patterns.reshape(self._shape[0], -1), self._level)

    def of_cells(self) -> tuple[Floats, Floats]:
        """The same of every level and label."""
        low, high = self._each(self._sums.T, self._cell)
        return low.reshape(self._shape), high.reshape(self._shape)

    def _each(
        self, patterns: NDArray[np.bool_], mask_of: Callable[[int], NDArray[np.bool_]]
    ) -> tuple[Floats, Floats]:
        """What is alike to all totals has the same limits."""
        _, first, found = np.unique(patterns, axis=0, return_index=True, return_inverse=True)
        ends = np.array([self.of(mask_of(int(place))) for place in first])[found.reshape(-1)]
        return ends[:, 0], ends[:, 1]

    def _level(self, place: int) -> NDArray[np.bool_]:
        mask = np.zeros(self._shape, dtype=np.bool_)
        mask[place] = True
        return mask

    def _cell(self, place: int) -> NDArray[np.bool_]:
        mask = np.zeros(self._shape, dtype=np.bool_)
        mask.ravel()[place] = True
        return mask


class KnownLimits:
    """What public totals leave of every column of a release."""

    def __init__(self, measured: Measured, domain: Domain) -> None:
        self._measured, self._domain, self._target = measured, domain, measured.target
        self.of = cache(self._of)

    def _of(self, column: int | None) -> CellLimits | None:
        """What is known of the cells of a column, or, without one, of the target's; None where no
        total speaks of them."""
        known = self._measured.known
        own = [one for one in known if one.column is None or one.column == column]
        return CellLimits(own, self._shape(column), self._measured.total) if own else None

    def _shape(self, column: int | None) -> tuple[int, int]:
        return (1 if column is None else self._domain.shape[column], self._measured.labels)

    def certain(self, node: Node, most: float) -> Ends:
        """The least and the most rows of a condition, of which no more than `most` can be."""
        columns = sorted(columns_of(node))
        features = [one for one in columns if one != self._target]
        places: list[int | None] = [*features] or [None]
        held = [(one, self.of(one)) for one in places]
        cells = math.prod(self._domain.shape[one] for one in columns)
        if not columns or all(one is None for _, one in held) or cells > MAX_CELLS:
            return 0.0, most
        found = cover_table(node, self._domain, columns)
        ends = [(0.0, most)]
        for column, limits in held:
            if limits is not None:
                wholly = self._projected(found.inside, columns, column, np.all)
                partly = self._projected(found.touched, columns, column, np.any)
                ends.append((limits.of(wholly)[0], limits.of(partly)[1]))
        return max(low for low, _ in ends), min(high for _, high in ends)

    def _projected(
        self, mask: NDArray[np.bool_], columns: Sequence[int], column: int | None, fold: Any
    ) -> NDArray[np.bool_]:
        """A condition over levels of a column and labels alone."""
        kept = [one for one in (column, self._target) if one is not None and one in columns]
        others = tuple(place for place, one in enumerate(columns) if one not in kept)
        folded = np.asarray(fold(mask, axis=others))
        if kept != sorted(kept):
            folded = folded.T
        if column is None:
            folded = folded[None, :]
        elif self._target not in kept:
            folded = folded[:, None]
        return np.broadcast_to(folded, self._shape(column))


def within(
    found: tuple[Floats, Floats, Floats], ends: tuple[Floats, ...] | None
) -> tuple[Floats, Floats, Floats]:
    """Limits within what public totals allow."""
    if ends is None:
        return found
    low, high = (np.clip(end, ends[0], ends[1]) for end in found[:2])
    return low, high, np.where(ends[0] == ends[1], 0.0, found[2])


def _floor(end: float) -> float:
    return end if math.isinf(end) else float(math.floor(end + _ROUNDING))
