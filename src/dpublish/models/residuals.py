"""Noisy tables of counts, taken apart into residuals that do not overlap: best linear estimates of
any count, with exact variances and covariances.

A column has *resolutions*: 0 is all of its codes together, the last is every code alone, and each
resolution splits every group of the one before into equally many parts (a `Coarsening`). Two
resolutions are enough for a marginal; an ordered column that is asked for ranges has more. A table
is counted at one resolution per column. What it says beyond all coarser tables is its *residual*:
a cell less the mean of its siblings, along every column. Residuals of different resolutions are
orthogonal, so noise that is independent and alike in all cells of a table stays uncorrelated
between them, and every residual is estimated by itself: the mean of what the tables say, each by
its precision. That is the weighted least squares estimate of everything at once, without a matrix
(McKenna et al. 2018; Xiao et al., ResidualPlanner, 2023).

Nothing here sees rows or draws noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Ints

Resolution = tuple[tuple[int, int], ...]
"""Columns by their places, each with a resolution above 0; a column that is left out is not told
apart."""
Form = Literal["table", "residual"]


@dataclass(frozen=True)
class Coarsening:
    """How a column's codes are grouped: `radices[k]` parts of every group of resolution k.

    >>> Coarsening((4, 5)).groups(1)
    4
    """

    radices: tuple[int, ...]

    def groups(self, level: int) -> int:
        return math.prod(self.radices[:level])

    @property
    def finest(self) -> int:
        return len(self.radices)

    @property
    def leaves(self) -> int:
        """Codes, with those that are only there to make all groups equally large."""
        return math.prod(self.radices)


def balanced(codes: int, levels: int) -> Coarsening:
    """About equal parts at each of `levels` splits, with room for so many codes."""
    part = max(2, math.ceil(round(codes ** (1 / levels), 9)))
    rest = [part] * (levels - 1)
    return Coarsening((max(1, -(-codes // math.prod(rest))), *rest))


@dataclass(frozen=True)
class Grouping:
    """The coarsenings of all columns."""

    columns: tuple[Coarsening, ...]

    def shape(self, at: Resolution) -> tuple[int, ...]:
        return tuple(self.columns[place].groups(level) for place, level in at)

    def cells(self, at: Resolution) -> int:
        return math.prod(self.shape(at))

    def radices(self, at: Resolution) -> tuple[int, ...]:
        """Into how many parts the last split of every column goes."""
        return tuple(self.columns[place].radices[level - 1] for place, level in at)

    def finest(self, places: Iterable[int]) -> Resolution:
        return tuple((place, self.columns[place].finest) for place in sorted(places))

    def coarser(self, at: Resolution) -> list[Resolution]:
        """All resolutions that a table can be summed up to, itself among them."""
        levels = [range(level + 1) for _, level in at]
        return [
            tuple((place, level) for (place, _), level in zip(at, chosen, strict=True) if level)
            for chosen in itertools.product(*levels)
        ]

    def sums(self, values: NDArray[Any], at: Resolution, to: Resolution) -> NDArray[Any]:
        """Cells of `at`, the last axes of `values`, added up to those of `to`."""
        coarse, lead = dict(to), values.ndim - len(at)
        for axis, (place, level) in reversed(list(enumerate(at, start=lead))):
            target = coarse.get(place, 0)
            if target == level:
                continue
            groups = self.columns[place].groups(target)
            shape = values.shape
            values = values.reshape(*shape[:axis], groups, -1, *shape[axis + 1 :]).sum(axis + 1)
            if not target:
                values = values.squeeze(axis)
        return values

    def residual(self, values: Floats, at: Resolution) -> Floats:
        """Every cell less the mean of its siblings, along every column of `at`."""
        return self._less(values, at, lambda split, axis: split - split.mean(axis, keepdims=True))

    def whole_residual(self, counts: Ints, at: Resolution) -> Ints:
        """The same times the product of the radices: whole numbers of whole numbers."""
        return self._less(
            counts,
            at,
            lambda split, axis: split.shape[axis] * split - split.sum(axis, keepdims=True),
        )

    def _less(
        self,
        values: NDArray[Any],
        at: Resolution,
        step: Callable[[NDArray[Any], int], NDArray[Any]],
    ) -> NDArray[Any]:
        lead = values.ndim - len(at)
        for axis, radix in enumerate(self.radices(at), start=lead):
            shape = values.shape
            split = values.reshape(*shape[:axis], shape[axis] // radix, radix, *shape[axis + 1 :])
            values = step(split, axis + 1).reshape(shape)
        return values

    def spread(self, values: Floats, at: Resolution, to: Resolution) -> Floats:
        """Values of the cells of `at` at every cell of the finer `to` that is inside."""
        coarse, axis = dict(at), values.ndim - len(at)
        for place, level in to:
            known = coarse.get(place, 0)
            if not known:
                values = np.expand_dims(values, axis)
            times = self.columns[place].groups(level) // self.columns[place].groups(known)
            if times > 1:
                values = np.repeat(values, times, axis)
            axis += 1
        return values

    def mean_residuals(self, query: Floats, at: Resolution) -> dict[Resolution, Floats]:
        """A query's part at every coarser resolution: what the residual there is multiplied by.
        What rounding leaves of nothing is left out."""
        whole = self.cells(at)
        found = {
            one: self.residual(self.sums(query, at, one) * (self.cells(one) / whole), one)
            for one in self.coarser(at)
        }
        least = 1e-12 * max(float(np.abs(part).max()) for part in found.values())
        return {one: part for one, part in found.items() if float(np.abs(part).max()) > least}

    def share_left(self, at: Resolution) -> float:
        """How much of one cell's square its residual keeps: the product of (b - 1) / b."""
        return math.prod((radix - 1) / radix for radix in self.radices(at))


@dataclass(frozen=True)
class Measured:
    """A table, or its residual times the product of its radices, with noise of one variance in
    every cell."""

    form: Form
    at: Resolution
    variance: float

    def precisions(self, grouping: Grouping) -> dict[Resolution, float]:
        """What it says of each residual: one over the variance of a cell before its siblings' mean
        is taken off."""
        if self.form == "residual":
            return {self.at: math.prod(grouping.radices(self.at)) ** 2 / self.variance}
        whole = grouping.cells(self.at)
        return {
            one: grouping.cells(one) / (whole * self.variance) for one in grouping.coarser(self.at)
        }


class Residuals:
    """Estimates from measured tables, `values` being the noisy numbers of each. A number of rows
    that is known is a residual without error."""

    def __init__(
        self,
        grouping: Grouping,
        measured: Sequence[Measured],
        values: Sequence[NDArray[np.generic]],
        *,
        rows: int | None = None,
    ) -> None:
        self.grouping, self.measured, self.rows = grouping, tuple(measured), rows
        self._each = [one.precisions(grouping) for one in self.measured]
        self.precision: dict[Resolution, float] = {}
        sums: dict[Resolution, Floats] = {}
        for one, said, numbers in zip(self.measured, self._each, values, strict=True):
            for at, precision in said.items():
                self.precision[at] = self.precision.get(at, 0.0) + precision
                sums[at] = sums.get(at, np.zeros(())) + precision * self._said(one, numbers, at)
        self.residuals = {at: sums[at] / self.precision[at] for at in sums}
        if rows is not None:
            self.precision[()] = math.inf
            self.residuals[()] = np.array(float(rows))

    def _said(self, one: Measured, numbers: NDArray[np.generic], at: Resolution) -> Floats:
        values = numbers.astype(np.float64)
        if one.form == "residual":
            return self.grouping.residual(values, at) / math.prod(self.grouping.radices(at))
        return self.grouping.residual(self.grouping.sums(values, one.at, at), at)

    def answerable(self, at: Resolution, query: Floats | None = None) -> bool:
        """Whether the query has an unbiased estimate (without one: every cell): something was
        measured of each of its parts."""
        parts = (
            self.grouping.coarser(at)
            if query is None
            else (self.grouping.mean_residuals(query, at))
        )
        return all(one in self.precision for one in parts)

    def table(self, at: Resolution) -> Floats:
        """Estimates of all cells of a table."""
        cells, out = self.grouping.cells(at), np.zeros(self.grouping.shape(at))
        for one in self.grouping.coarser(at):
            share = self.grouping.cells(one) / cells
            out += self.grouping.spread(self.residuals[one], one, at) * share
        return out

    def answers(self, queries: Floats, at: Resolution) -> tuple[Floats, Floats]:
        """Estimates of some queries, the first axis of `queries`, and the variances of their
        errors, exactly."""
        value, variance = np.zeros(len(queries)), np.zeros(len(queries))
        for one, part in self.grouping.mean_residuals(queries, at).items():
            flat = part.reshape(len(queries), -1)
            value += flat @ self.residuals[one].reshape(-1)
            variance += np.square(flat).sum(axis=1) / self.precision[one]
        return value, variance

    def covariance(self, first: Floats, second: Floats, at: Resolution) -> float:
        """Of the errors of two queries over the cells of one resolution, exactly."""
        one, other = (self.grouping.mean_residuals(query, at) for query in (first, second))
        return float(
            sum(
                np.vdot(part, other[res]) / self.precision[res]
                for res, part in one.items()
                if res in other
            )
        )

    def cell_variance(self, at: Resolution) -> float:
        """Of the error of a cell of a table: the same for all of them."""
        cells = self.grouping.cells(at)
        return sum(
            self.grouping.share_left(one)
            * (self.grouping.cells(one) / cells) ** 2
            / self.precision[one]
            for one in self.grouping.coarser(at)
        )
