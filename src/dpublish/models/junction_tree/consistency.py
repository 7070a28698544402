"""Noisy tables into tables that could be counts: combined by weighted least squares, non-negative,
with agreed totals.

Tables are levels x labels: one row per level of a column, one column per label of the target (one
label when there is no target).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.models.junction_tree.plain import is_reading, loops

_STEPS = 60
_TINY = 1e-12


@dataclass(frozen=True)
class GroupSums:
    """A measurement of sums over groups of levels: `group_of` says which group a level is in."""

    group_of: Ints
    sums: Floats
    variance: float


def onto_simplex(table: Floats, totals: Floats) -> Floats:
    """The nearest table, in squared distance, without negative entries and with the given total in
    each column."""
    levels = table.shape[0]
    descending = -np.sort(-table, axis=0)
    excess = np.cumsum(descending, axis=0) - totals
    places = np.arange(1, levels + 1, dtype=np.float64)[:, None]
    kept = np.maximum(1, np.count_nonzero(descending - excess / places > 0, axis=0))
    shift = excess[kept - 1, np.arange(table.shape[1])] / kept
    projected: Floats = np.maximum(0.0, table - shift)
    return projected


def sum_groups(table: Floats, group_of: Ints, groups: int) -> Floats:
    """Rows added up by group."""
    out = np.zeros((groups, *table.shape[1:]))
    np.add.at(out, group_of, table)
    return out


def least_squares(table: Floats, variance: float, more: Sequence[GroupSums]) -> Floats:
    """The best linear unbiased combination of a table with measurements of sums over groups of its
    levels."""
    if not more:
        return table
    right = table / variance
    for one in more:
        right = right + one.sums[one.group_of] / one.variance
    return solve_precision(right, variance, more)


def solve_precision(right: Floats, variance: float, more: Sequence[GroupSums]) -> Floats:
    """x with P x = right, where P = I / variance + sum of S' S / variance_k is the precision of the
    combined estimate."""

    def precision(x: Floats) -> Floats:
        out = x / variance
        for one in more:
            out = out + sum_groups(x, one.group_of, one.sums.shape[0])[one.group_of] / one.variance
        return out

    # conjugate gradients, one system per column; P has few distinct eigenvalues, so a handful of
    # steps is enough
    x = right * variance
    residual = right - precision(x)
    direction, size = residual, (residual * residual).sum(axis=0)
    stop = _TINY * np.maximum((right * right).sum(axis=0), _TINY)
    for _ in range(_STEPS):
        if np.all(size <= stop):
            break
        image = precision(direction)
        step = size / np.maximum((direction * image).sum(axis=0), 1e-300)
        x = x + step * direction
        residual = residual - step * image
        fresh = (residual * residual).sum(axis=0)
        direction = residual + fresh / np.maximum(size, 1e-300) * direction
        size = fresh
    return x


def fit_margins(
    table: Floats, margins: Sequence[Floats], *, whole: Floats | None = None, rounds: int = 50
) -> Floats:
    """Iterative proportional fitting of a table, labels last, to the margins of its other axes
    (groups x labels each), and to the rows of all labels together where `whole` has them."""
    fit_axis = loops(table.size, reader=is_reading()).fit_axis
    out = table.copy(order="C")
    shape, close = table.shape, 1e-6 * max(1.0, float(margins[0].max(initial=0.0)))
    # the same numbers, seen with each axis in turn
    seen = [
        (out.reshape(math.prod(shape[:axis]), shape[axis], -1, shape[-1]), wanted)
        for axis, wanted in enumerate(margins)
    ]
    together = [] if whole is None else [(out.reshape(1, whole.size, -1, 1), whole.reshape(-1, 1))]
    for _ in range(rounds):
        for view, wanted in together:
            fit_axis(view, wanted)
        off = [fit_axis(view, wanted) for view, wanted in seen]
        # the last axis fits exactly; when the first did before it was touched, all do
        if off[0] < close:
            break
    return out
