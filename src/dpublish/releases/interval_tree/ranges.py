"""Ranges of a grid: the two ends that a question names, and answers to many questions with standard
errors and limits; and distribution functions and quantiles of one column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dpublish.arrays import Floats, Ints
from dpublish.declare.calendar import CALENDAR, EXAMPLES, WORDS, number_of, read_bound
from dpublish.declare.domain import Domain
from dpublish.declare.grid import Boxes, Grid, TreeShape
from dpublish.errors import QueryError
from dpublish.estimate import check_level
from dpublish.models.integer_limits import half_width, integer_rows, possible
from dpublish.releases.frames import Answers, named_columns, sql_table

if TYPE_CHECKING:
    from dpublish.releases.interval_tree.release import IntervalTreeRelease

Bounds = tuple[Any, Any]
Measured = tuple[Floats, Floats]
"""Values and the variances of their noise."""


def ranges_of(
    value: Floats,
    measured: Measured,
    inner: Measured,
    outer: Measured,
    *,
    level: float,
    most: float = math.inf,
) -> Answers:
    """Limits from what was measured; they assume nothing about how rows lie inside a box that a
    range cuts.

    `value` may be smoother than `measured`, which takes rows as spread evenly inside a box; the
    limits do not move with it unless it would lie outside them, and it is cut where they are,
    at 0 and `most`. `most`: how many rows there can be.
    """
    alpha = (1 - level) / 2
    # the sum of everything is public where there is no noise in it, or rounding is left of noise
    # that cancels: no limits around that
    measured, inner, outer = (
        (part[0], np.where(part[1] < 1e-9, 0.0, part[1])) for part in (measured, inner, outer)
    )
    plain, spread = measured[0], _reach(measured, alpha)
    low = np.minimum(inner[0] - _reach(inner, alpha), plain - spread)
    high = np.maximum(outer[0] + _reach(outer, alpha), plain + spread)
    low, high = integer_rows(np.minimum(low, value), np.maximum(high, value))
    error = np.sqrt(measured[1] + np.maximum(outer[0] - inner[0], 0.0) ** 2 / 12)
    low, high = possible(low, high, error, most)
    # noise may take a sum below 0, where no count is; `counts` of a release keep it, so that
    # they add up without bias
    return Answers(np.clip(value, low, high), error, low, high, level)


def _reach(part: Measured, alpha: float) -> Floats:
    return np.where(part[1] > 0.0, half_width(part[1], alpha, "laplace"), 0.0)


def coordinates(grid: Grid, pair: Bounds) -> tuple[float, float]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise QueryError(f"Give two ends for '{grid.name}': (low, high).")
    low = float(grid.lower) if pair[0] is None else _number(grid, pair[0])
    top = top_of(grid)
    high = top if pair[1] is None else _number(grid, pair[1])
    if low > high:
        raise QueryError(
            f"'{grid.name}': the range starts at {pair[0]} and ends before it, at {pair[1]}."
        )
    if high < float(grid.lower) or low > top:
        raise QueryError(f"'{grid.name}': the range lies outside the declared bounds.")
    if grid.whole:
        low, high = math.ceil(low), math.floor(high) + 1
        if low >= high:
            raise QueryError(
                f"'{grid.name}' holds whole numbers, and none lies from {pair[0]} to {pair[1]}."
            )
    a, b = grid.coordinate(np.array([low, high], dtype=np.float64))
    return float(a), float(max(a, b))


def top_of(grid: Grid) -> float:
    """The largest declared value."""
    return float(grid.upper) - (1 if grid.whole else 0)


def _number(grid: Grid, value: Any) -> float:
    if grid.kind in CALENDAR:
        moment = read_bound(grid.kind, value)
        if moment is None:
            raise QueryError(
                f"'{grid.name}' holds {WORDS[grid.kind]}; write one as {EXAMPLES[grid.kind]}."
            )
        return float(number_of(moment))
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer | np.floating)
        or math.isnan(value)
    ):
        raise QueryError(f"'{grid.name}' holds numbers; an end of a range is a number or None.")
    return float(np.clip(float(value), -1e300, 1e300))


# -- distribution functions and quantiles, from the limits of ranges


def share_limits(
    release: IntervalTreeRelease, places: Floats, level: float, *, closed: bool = False
) -> tuple[Floats, Floats]:
    """Limits of the share of rows below places of the grid: each limit of a count over the opposite
    one of the total.

    `closed`: rows exactly at a place count too, where that differs (real columns).

    Count and total may each miss with half of 1 - level, so both hold with `level` at least,
    however they go together.
    """
    inner = 1 - (1 - check_level(level)) / 2
    ends = np.asarray(places, dtype=np.float64).reshape(-1, 1)
    below = release.answer(np.zeros_like(ends), ends, inner, closed=closed)
    whole = release.answer(
        np.zeros((1, 1)), np.full((1, 1), float(release.shape.grids[0].positions)), inner
    )
    low = below.low / max(float(whole.high[0]), 1.0)
    high = np.where(whole.low[0] > 0, below.high / max(float(whole.low[0]), 1.0), 1.0)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def cdf_frame(
    release: IntervalTreeRelease, values: Floats, places: Floats, shares: Floats, level: float
) -> pl.DataFrame:
    """One row a value: the share of rows at or below it, with limits."""
    low, high = share_limits(release, places, level, closed=True)
    return pl.DataFrame(
        {
            "value": values,
            "share": shares,
            "low": np.minimum(low, shares),
            "high": np.maximum(high, shares),
        }
    )


def quantile_places(
    release: IntervalTreeRelease, edges: Floats, share: float, level: float
) -> tuple[float, float]:
    """Places of the grid between which a quantile lies: an edge before the first, and after the
    last, that it may lie at.

    The quantile lies in one box. The share of rows below the box is less than `share`, and the
    share below its end is not: the limits of these two edges, if they hold, do not exclude them.
    Where rows heap, the share may jump past `share` within the box, and then no edge has limits
    around it.
    """
    low, high = share_limits(release, edges, level)
    last = edges.size - 1
    reached, missed = np.flatnonzero(high >= share), np.flatnonzero(low <= share)
    first = int(reached[0]) if reached.size else last
    return float(edges[max(0, first - 1)]), float(edges[min(last, int(missed[-1]) + 1)])


# The boxes of an interval tree as cells of a domain, for conditions, SQL, tables and models over
# them.

MAX_CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class BoxCells:
    """A domain whose bins end wherever a box does. Cell i belongs to box `owner[i]`, of which it is
    the part `share[i]`."""

    domain: Domain
    cuts: tuple[Ints, ...]
    """Where the bins of each column end, in positions of the grid."""
    codes: tuple[Ints, ...]
    owner: Ints
    share: Floats

    @classmethod
    def of(cls, shape: TreeShape, boxes: Boxes, *, absent: float = 0.0) -> BoxCells:
        """`absent`: the part of the last owner, after all boxes, that rows without a value of the
        only column are; 0 where they were not counted."""
        starts, ends = shape.corners(boxes)
        cuts = [np.unique(np.concatenate([s, e])) for s, e in zip(starts, ends, strict=True)]
        firsts = [np.searchsorted(cut, s) for cut, s in zip(cuts, starts, strict=True)]
        sizes = [
            np.searchsorted(cut, e) - first
            for cut, e, first in zip(cuts, ends, firsts, strict=True)
        ]
        pieces = np.multiply.reduce(sizes)
        if int(pieces.sum()) > MAX_CELLS:
            raise QueryError(
                "This release has too many boxes for this; ask for boxes with count(...) or "
                "ranges(...)."
            )
        owner = np.repeat(np.arange(len(boxes)), pieces)
        inner = np.arange(owner.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        codes: list[Ints] = []
        share = np.ones(owner.size)
        for axis in reversed(range(len(shape.grids))):
            code = firsts[axis][owner] + inner % sizes[axis][owner]
            inner = inner // sizes[axis][owner]
            codes.insert(0, code)
            share *= (cuts[axis][code + 1] - cuts[axis][code]) / (ends[axis] - starts[axis])[owner]
        axes = [grid.axis(cut) for grid, cut in zip(shape.grids, cuts, strict=True)]
        domain = Domain(tuple(replace(axis, missing=absent > 0) for axis in axes))
        if absent:
            codes[0] = np.append(codes[0], axes[0].base)
            owner, share = np.append(owner, len(boxes)), np.append(share, absent)
        return cls(domain, tuple(cuts), tuple(codes), owner, share)

    def weighted(self, counts: Floats) -> WeightedCells:
        """The cells with their share of the counts of the boxes: rows count as even inside a
        box."""
        return WeightedCells(self.domain, self.codes, counts[self.owner] * self.share)

    def corners(self, places: Sequence[int]) -> tuple[Floats, Floats]:
        """The lower and upper ends of every combination of bins of some columns, in positions;
        others are not restricted."""
        bins = np.indices([self.cuts[place].size - 1 for place in places]).reshape(len(places), -1)
        low = np.zeros((bins.shape[1], len(self.cuts)))
        high = np.tile(np.array([float(cut[-1]) for cut in self.cuts]), (bins.shape[1], 1))
        for place, code in zip(places, bins, strict=True):
            low[:, place], high[:, place] = self.cuts[place][code], self.cuts[place][code + 1]
        return low, high


@dataclass(frozen=True, eq=False)
class WeightedCells:
    """Cells with weights, as SQL and models take them."""

    domain: Domain
    codes: Sequence[Ints]
    weights: Floats
    target: str | None = None

    def weighted_codes(self, columns: Sequence[str]) -> tuple[list[Ints], Floats]:
        return [self.codes[place] for place in named_columns(self.domain, columns)], self.weights

    def sql_frame(self) -> pl.DataFrame:
        return sql_table(self.domain.axes, dict(enumerate(self.codes)), self.weights)
