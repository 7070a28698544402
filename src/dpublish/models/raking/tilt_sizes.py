"""How far public rows may be from the private ones, as the noisy tables themselves tell it.

The share of a cell among private people differs from that among public rows for two reasons. Public
rows are a sample: n of them leave a variance of v / n, v = p (1 - p). And they may have been chosen
otherwise than by chance: if a cell's coefficient is of size t, its share moves by t v. So a
difference has variance P = v / n + t^2 v^2 before noise of variance s^2 is added, and how likely
each t is follows from the differences seen. Before any is seen, t = 0 has even odds, and others are
the less likely the larger they are.

Given t, a difference is best kept in the proportion P / (P + s^2). It is averaged over t, in
proportion to how likely each is: where tables say little, that is a compromise, and where they say
much, one t is left. A ridge c keeps v / (v + c) of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpublish.models.linear_features import FloatArray
from dpublish.models.raking.noisy_tables import TableTarget

SIZES: FloatArray = np.concatenate([[0.0], np.geomspace(0.02, 5.0, 36)])
"""Sizes of coefficients that are tried: none, and from hardly any to a factor of exp(5)."""
NONE_AT_ALL = 0.5
RATE = 8.0
"""Beforehand sizes have an exponential law of mean 1/8. It matters where tables say little."""
LEAST_RIDGE = 1e-9
_LEAST_SPREAD = 1e-12


@dataclass(frozen=True)
class TiltSizes:
    """How likely each of `SIZES` is."""

    chances: FloatArray

    @property
    def mean(self) -> float:
        return float(self.chances @ SIZES)

    def ridges(
        self, tables: Sequence[TableTarget], shares: Sequence[FloatArray], rows: float
    ) -> list[FloatArray]:
        """Ridges for coefficients on top of rows that have these shares and are worth `rows`."""
        return [
            _ridge(cells, self._kept(table, cells, rows))
            for table, cells in zip(tables, shares, strict=True)
        ]

    def tilting_ridges(
        self, tables: Sequence[TableTarget], shares: Sequence[FloatArray], rows: float
    ) -> list[FloatArray]:
        """The same, for the part of each difference that is not by chance."""
        found = []
        for table, cells in zip(tables, shares, strict=True):
            spread = _spread(cells)
            chosen = SIZES[:, None] ** 2 * spread**2
            found.append(
                _ridge(cells, self.chances @ (chosen / (chosen + spread / rows + table.variances)))
            )
        return found

    def _kept(self, table: TableTarget, shares: FloatArray, rows: float) -> FloatArray:
        spread = _spread(shares)
        before = SIZES[:, None] ** 2 * spread**2 + spread / rows
        kept: FloatArray = self.chances @ (before / (before + table.variances))
        return kept


def likely_sizes(
    tables: Sequence[TableTarget], shares: Sequence[FloatArray], rows: float
) -> TiltSizes:
    """What the differences between tables and shares say about the size of coefficients; cells are
    taken one by one."""
    logs = -RATE * SIZES
    logs[0] += np.log(NONE_AT_ALL)
    logs[1:] += np.log((1.0 - NONE_AT_ALL) / (len(SIZES) - 1))
    for table, cells in zip(tables, shares, strict=True):
        spread = _spread(cells)
        variance = SIZES[:, None] ** 2 * spread**2 + spread / rows + table.variances
        logs -= 0.5 * (np.log(variance) + (table.shares - cells) ** 2 / variance).sum(axis=1)
    chances = np.exp(logs - logs.max())
    return TiltSizes(chances / chances.sum())


def one_after_the_other(first: FloatArray, second: FloatArray, shares: FloatArray) -> FloatArray:
    """The ridge that keeps as much of a difference as two ridges do when the second gets what the
    first left."""
    spread = _spread(shares)
    left = (first / (spread + first)) * (second / (spread + second))
    return _ridge(shares, 1.0 - left)


def ridge_of_size(table: TableTarget, shares: FloatArray, precision: float) -> FloatArray:
    """s^2 / (t^2 v), for coefficients that are known to be of size t = precision^(-1/2)."""
    ridge: FloatArray = np.maximum(precision * table.variances / _spread(shares), LEAST_RIDGE)
    return ridge


def _ridge(shares: FloatArray, kept: FloatArray) -> FloatArray:
    part = np.clip(kept, 1e-9, 1.0 - 1e-12)
    ridge: FloatArray = np.maximum(_spread(shares) * (1.0 - part) / part, LEAST_RIDGE)
    return ridge


def _spread(shares: FloatArray) -> FloatArray:
    spread: FloatArray = np.maximum(shares * (1.0 - shares), _LEAST_SPREAD)
    return spread
