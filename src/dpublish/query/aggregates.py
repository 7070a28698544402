"""Means, sums, shares, quantiles and differences between groups, with limits.

Everything is a sum over cells: a mean m is where the sum of (x - m) over the rows changes its sign,
a q-quantile v where the sum of (1[x < v] - q) does. So a release needs to say one thing only
(`CellSums`): how low a sum of amounts over cells may be. A cell that a condition cuts may count or
not, and a number lies anywhere in its bin; the amounts of the lower limit take the least of it, and
those of the upper limit the most. Limits of a mean are then those m that the data do not rule out
(Fieller's construction), which need no assumption about how numerator and denominator go together.

Where the columns were not counted together, there is no such sum. Then limits follow from those of
counts: of the rows in question that lie below each edge of a bin, by stochastic dominance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Flags, Floats
from dpublish.declare.domain import Axis, Domain
from dpublish.estimate import Estimate, Measure
from dpublish.models.bin_shapes import bin_means, place_of, tilts_of
from dpublish.models.noisy_counts import normal_quantile
from dpublish.query.masks import select
from dpublish.query.predicate import And, Constant, Leaf, Node, columns_of

Places = tuple[int, ...]

MAX_TABLE = 1 << 20
MAX_EDGES = 64
"""Edges of bins that are asked for where limits follow from counts."""
_SCAN = np.linspace(0.0, 1.0, 16) ** 2
_STEPS = 60


class CellSums(Protocol):
    """Sums of amounts times counts over the cells of some columns, one axis of amounts a column."""

    @property
    def independent(self) -> bool:
        """Whether sums over cells that have none in common have errors that have nothing in
        common."""
        ...

    def value(self, amounts: Floats) -> float: ...

    def sure(self, amounts: Floats) -> float:
        """What the sum would not be below if there were no noise: less than its value where cells
        were counted in parts, and a part says nothing of where in it its rows are."""
        ...

    def low(self, amounts: Floats, alpha: float) -> float:
        """What the sum over the true counts is not below, but for alpha."""
        ...


@dataclass(frozen=True)
class Chosen:
    """Rows that a condition selects, by the cells of `places`: those wholly in it, those of which a
    part may be, and how much of each."""

    places: Places
    inside: Flags
    touched: Flags
    share: Floats

    def over(self, places: Places, shape: Sequence[int]) -> Chosen:
        tables = (self.inside, self.touched, self.share)
        return Chosen(places, *(_spread(one, self.places, places, shape) for one in tables))


@dataclass(frozen=True)
class Numbers:
    """A number for every cell of `places`: between `low` and `high`, `middle` where one has to do.
    NaN where it is null."""

    places: Places
    low: Floats
    high: Floats
    middle: Floats

    def over(self, places: Places, shape: Sequence[int]) -> Numbers:
        tables = (self.low, self.high, self.middle)
        return Numbers(places, *(_spread(one, self.places, places, shape) for one in tables))


@dataclass(frozen=True)
class Found:
    """Limits of one number. `sure_low` and `sure_high` are what they would be without noise: bins
    and cut cells alone."""

    value: float
    low: float
    high: float
    sure_low: float = math.nan
    sure_high: float = math.nan
    counted: bool = True

    def estimate(self, level: float, measure: Measure, note: str) -> Estimate:
        low, high = min(self.low, self.high), max(self.low, self.high)
        low, high = low + 0.0, high + 0.0  # never -0
        value = min(max(self.value, low), high) + 0.0
        width = (high - low) / (2 * normal_quantile((1 - level) / 2))
        return Estimate(value, width, low, high, level, measure=measure, note=note)


class Counted(Protocol):
    """What limits are worked out from."""

    def cell_counts(self, places: Places) -> Floats: ...

    def cell_sums(self, places: Places) -> CellSums | None: ...

    def met(self, node: Node, level: float) -> Estimate: ...


def chosen_by(node: Node, domain: Domain) -> Chosen:
    """The cells that a condition selects."""
    places = tuple(sorted(columns_of(node)))
    shape = tuple(domain.axes[place].cardinality for place in places)
    cells = math.prod(shape)
    codes = dict(zip(places, np.indices(shape).reshape(len(shape), cells), strict=True))
    found = select(node, domain).cover(codes.__getitem__, cells)
    inside, touched = found.inside.reshape(shape), found.touched.reshape(shape)
    return Chosen(places, inside, touched, found.share.reshape(shape))


def column_numbers(place: int, axis: Axis) -> Numbers:
    """What the codes of a numeric column stand for (dates: ordinals)."""
    edges = np.array(axis.edges, dtype=np.float64)
    none = np.full(axis.cardinality - axis.base, math.nan)
    last = edges[1:] if axis.kind == "real" else edges[1:] - 1
    low, high = np.concatenate([edges[:-1], none]), np.concatenate([last, none])
    return Numbers((place,), low, high, np.concatenate([bin_means(axis), none]))


def indicator(chosen: Chosen) -> Numbers:
    """1 for rows that satisfy a condition, 0 for others."""
    low, high = chosen.inside.astype(np.float64), chosen.touched.astype(np.float64)
    return Numbers(chosen.places, low, high, chosen.share)


# -- limits from sums over cells


class Table:
    """One question's rows and numbers over the cells of all columns that it names."""

    def __init__(self, release: Counted, domain: Domain, rows: Chosen, numbers: Numbers) -> None:
        self.places = tuple(sorted({*rows.places, *numbers.places}))
        self.shape = tuple(domain.axes[place].cardinality for place in self.places)
        rows, numbers = rows.over(self.places, self.shape), numbers.over(self.places, self.shape)
        known = ~np.isnan(numbers.middle)
        self.inside, self.touched = rows.inside & known, rows.touched & known
        self.share = np.where(known, rows.share, 0.0)
        self.low, self.high, self.middle = (
            np.where(known, one, 0.0) for one in (numbers.low, numbers.high, numbers.middle)
        )
        self.sums = release.cell_sums(self.places)
        self._release = release

    @cached_property
    def weights(self) -> Floats:
        """Estimated rows of every cell that count."""
        return self.share * np.maximum(self._release.cell_counts(self.places), 0.0)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest number that any of the rows may have."""
        if not self.touched.any():
            return math.nan, math.nan
        return float(self.low[self.touched].min()), float(self.high[self.touched].max())

    @cached_property
    def _whole(self) -> bool:
        """Whether no cell is cut."""
        return np.array_equal(self.inside, self.touched)

    def amounts(self, less: float, *, top: bool) -> Floats:
        """Of every cell, the most (or the least) that a row may add to the sum of x - less."""
        each = (self.high if top else self.low) - less
        if self._whole:
            return each * self.inside
        maybe = np.maximum(each, 0.0) if top else np.minimum(each, 0.0)
        return np.where(self.inside, each, np.where(self.touched, maybe, 0.0))

    def below(self, edge: float, share: float, *, top: bool) -> Floats:
        """Of every cell, the most (or the least) that a row may add to the sum of 1[x < edge] -
        share."""
        each = ((self.low if top else self.high) < edge).astype(np.float64) - share
        maybe = np.maximum(each, 0.0) if top else np.minimum(each, 0.0)
        return np.where(self.inside, each, np.where(self.touched, maybe, 0.0))

    def mean(self, alpha: float) -> Found:
        """Limits of the mean over cells that were counted together."""
        assert self.sums is not None
        least, most = self.bounds
        value, sums = self.mean_value(), self.sums

        def limits(least_sum: Callable[[Floats], float]) -> tuple[float, float]:
            """The least and the largest mean that the lower limits of sums do not rule out."""

            def above(mean: float) -> float:
                return -least_sum(-self.amounts(mean, top=True))

            def below(mean: float) -> float:
                return -least_sum(self.amounts(mean, top=False))

            return -_last(lambda mean: below(-mean), -value, -least), _last(above, value, most)

        low, high = limits(lambda amounts: sums.low(amounts, alpha / 2))
        sure_low, sure_high = limits(sums.sure)
        return Found(value, low, high, sure_low, sure_high)

    def sum(self, alpha: float) -> Found:
        assert self.sums is not None
        top, bottom = self.amounts(0.0, top=True), self.amounts(0.0, top=False)
        low, high = self.sums.low(bottom, alpha / 2), -self.sums.low(-top, alpha / 2)
        least, most = self.bounds
        low, high = (max(low, 0.0) if least >= 0 else low), (min(high, 0.0) if most <= 0 else high)
        sure = (self.sums.sure(bottom), -self.sums.sure(-top))
        return Found(float((self.weights * self.middle).sum()), low, max(low, high), *sure)

    def mean_value(self) -> float:
        weights = self.weights
        total = float(weights.sum())
        least, most = self.bounds
        return float((weights * self.middle).sum()) / total if total > 0 else (least + most) / 2

    def rejected(self, edge: float, share: float, alpha: float, *, below: bool) -> bool:
        """Whether too many rows for a quantile lie below an edge, or (`below`) too few."""
        assert self.sums is not None
        if below:
            return -self.sums.low(-self.below(edge, share, top=True), alpha) < 0
        return self.sums.low(self.below(edge, share, top=False), alpha) > 0


def _last(sign: Callable[[float], float], start: float, end: float) -> float:
    """The last place between start and end at which `sign` is not negative; start where there is
    none. Looked for on a grid first: a function with noise in it may change its sign more than
    once."""
    above = sign(end) if end > start else 0.0
    if above >= 0:
        return max(start, end)
    low, high = start, end
    for low in reversed((start + (end - start) * _SCAN[:-1]).tolist()):
        below = sign(low)
        if below >= 0:
            break
        high, above = low, below
    else:
        return start
    halve = False
    for _ in range(_STEPS):
        width, near = high - low, 1e-7 * max(1e-3, abs(high))
        if width <= near:
            break
        # where a straight line would be 0, a little within both ends; halves where that is slow
        share = 0.5 if halve else below / (below - above)
        middle = low + width * (share if 0 <= share <= 1 else 0.5)
        middle = min(max(middle, low + near / 3), high - near / 3)
        found = sign(middle)
        if found >= 0:
            low, below = middle, found
        else:
            high, above = middle, found
        halve = high - low > width / 2
    return high


# -- limits from counts alone


def mean_from_counts(
    release: Counted, domain: Domain, where: Node, place: int, alpha: float
) -> tuple[Found, Found]:
    """Limits of the mean and the sum of a column over rows that meet a condition, from counts of
    the rows below each edge of its bins and of all of them: each holds with its part of alpha."""
    axis = domain.axes[place]
    edges = _asked_edges(axis)
    part = 1 - alpha / (len(edges) + 1)
    every = release.met(both(_ranges(place, axis, None), where), part)
    found = [release.met(both(_ranges(place, axis, edge), where), part) for edge in edges[1:-1]]
    below = np.array([one.low for one in found]), np.array([one.high for one in found])
    values = np.array(edges, dtype=np.float64)
    last = values[1:] if axis.kind == "real" else values[1:] - 1
    means, sums = [], []
    for sign, near, numbers in ((1, below[0], last), (-1, every.high - below[1], values[:-1])):
        # the largest mean puts as few rows below each edge as counts allow; the least is the same
        # seen from the other side
        ordered = sign * numbers[::sign]
        least = near[::sign] if sign > 0 else np.maximum(every.low - below[1], 0.0)[::sign]
        best = [_dominated(ordered, least, rows) for rows in {every.low, every.high} if rows > 0]
        means.append(sign * max((total / rows for total, rows in best), default=ordered[-1]))
        # the largest sum is convex in the number of rows, so it is at one end: no rows sum to 0
        none = [0.0] if every.low <= 0 or not best else []
        sums.append(sign * max([*none, *(total for total, _ in best)]))
    counts = np.maximum(np.diff([0.0, *(one.value for one in found), every.value]), 0.0)
    middles = (values[:-1] + last) / 2
    if axis.tilts:
        middles = _group_means(axis, values, release.cell_counts((place,)))
    total = float(counts.sum())
    value = float(counts @ middles) / total if total > 0 else float(middles.mean())
    return (
        Found(value, means[1], means[0], counted=False),
        Found(float(counts @ middles), sums[1], sums[0], counted=False),
    )


def _group_means(axis: Axis, ends: Floats, counts: Floats) -> Floats:
    """The mean value of the rows between neighbouring ends, each an edge of a bin."""
    starts = np.searchsorted(np.array(axis.edges, dtype=np.float64), ends[:-1])
    weights = np.maximum(counts[: axis.base], 0.0) + 1e-9
    return np.add.reduceat(weights * bin_means(axis), starts) / np.add.reduceat(weights, starts)


def _dominated(numbers: Floats, below: Floats, rows: float) -> tuple[float, float]:
    """The largest sum of `rows` numbers of which at least so many lie below each inner edge."""
    least = np.minimum(np.maximum.accumulate(np.concatenate([[0.0], below])), rows)
    return float(np.diff([*least, rows]) @ numbers), rows


def _asked_edges(axis: Axis) -> list[float]:
    edges = list(axis.edges)
    if len(edges) <= MAX_EDGES + 1:
        return edges
    picked = np.unique(np.rint(np.linspace(0, len(edges) - 1, MAX_EDGES + 1)).astype(int))
    return [edges[int(place)] for place in picked]


def _ranges(place: int, axis: Axis, below: float | None) -> Leaf:
    """Rows that have a number, or one below an edge."""
    return Leaf(axis=place, intervals=((None, below),), other=False, missing=False)


def both(first: Node, second: Node) -> Node:
    """Two conditions at once, without conjunctions inside each other."""
    parts = [
        part
        for node in (first, second)
        for part in (node.parts if isinstance(node, And) else (node,))
        if not (isinstance(part, Constant) and part.holds)
    ]
    return And(tuple(parts)) if len(parts) > 1 else parts[0] if parts else Constant(True)


def share_from_counts(release: Counted, node: Node, where: Node, alpha: float) -> Found:
    """Limits of the share of rows that meet one condition among those that meet another."""
    return _quotient(release, both(node, where), where, alpha, most=1.0, unknown=0.5)


def ratio_from_counts(release: Counted, first: Node, second: Node, alpha: float) -> Found:
    """Limits of how many rows meet one condition for each that meets another."""
    return _quotient(release, first, second, alpha, most=math.inf, unknown=math.inf)


def _quotient(
    release: Counted, first: Node, second: Node, alpha: float, *, most: float, unknown: float
) -> Found:
    """Limits of one count divided by another: at most `most`, and `unknown` where there may be
    nothing to divide by."""
    top, bottom = (release.met(node, 1 - alpha / 2) for node in (first, second))
    low = top.low / bottom.high if bottom.high > 0 else 0.0
    high = top.high / bottom.low if bottom.low > 0 else most
    value = top.value / bottom.value if bottom.value > 0 else unknown
    return Found(value, min(low, most), min(high, most), counted=False)


def difference(first: Found, second: Found, *, independent: bool) -> Found:
    """Limits of a difference. Where errors have nothing in common, what noise adds is put together
    by squares (Zou and Donner's recovery of variances), and what bins leave open by its sum;
    elsewhere both limits have to hold."""
    value = first.value - second.value
    if not independent:
        low, high = first.low - second.high, first.high - second.low
        return Found(value, low, high, counted=first.counted and second.counted)
    sure_low, sure_high = first.sure_low - second.sure_high, first.sure_high - second.sure_low
    down = math.hypot(first.sure_low - first.low, second.high - second.sure_high)
    up = math.hypot(first.high - first.sure_high, second.sure_low - second.low)
    return Found(value, sure_low - down, sure_high + up, sure_low, sure_high)


def quantile(table: Table, place: int, domain: Domain, share: float, alpha: float) -> Found:
    """Limits of a quantile: the bins that are not ruled out. The share of rows below its bin is
    less than `share`, and that below the end of the bin is not."""
    axis = domain.axes[place]
    numbers = column_numbers(place, axis)
    starts, ends = _bins(axis)
    kept = [
        not table.rejected(start, share, alpha / 2, below=False)
        and not table.rejected(end, share, alpha / 2, below=True)
        for start, end in zip(starts, ends, strict=True)
    ]
    others = tuple(at for at, other in enumerate(table.places) if other != place)
    counts = table.weights.sum(axis=others)[: axis.base]
    below = np.concatenate([[0.0], np.cumsum(counts)])
    return _kept_bins(kept, _value_below(below, counts, share, axis), numbers)


def quantile_from_counts(
    release: Counted, domain: Domain, where: Node, place: int, share: float, alpha: float
) -> Found:
    """The same from counts of the rows below each edge and of all rows."""
    axis = domain.axes[place]
    numbers = column_numbers(place, axis)
    part = 1 - alpha / 2
    every = release.met(both(_ranges(place, axis, None), where), part)
    asked = [
        release.met(both(_ranges(place, axis, edge), where), part) for edge in axis.edges[1:-1]
    ]
    low = [0.0, *(one.low for one in asked), every.low]
    high = [0.0, *(one.high for one in asked), every.high]
    kept = [
        low[code] <= share * every.high and high[code + 1] >= share * every.low
        for code in range(axis.base)
    ]
    below = np.maximum.accumulate([0.0, *(one.value for one in asked), every.value])
    found = _kept_bins(kept, _value_below(below, np.diff(below), share, axis), numbers)
    return Found(found.value, found.low, found.high, counted=False)


def _bins(axis: Axis) -> tuple[Floats, Floats]:
    edges = np.array(axis.edges, dtype=np.float64)
    ends = edges[1:].copy()
    if axis.kind == "real":
        ends[-1] = np.nextafter(ends[-1], np.inf)  # the last bin holds its upper edge
    return edges[:-1], ends


def _kept_bins(kept: Sequence[bool], value: float, numbers: Numbers) -> Found:
    codes = np.flatnonzero(kept)
    ends = numbers.high[~np.isnan(numbers.high)]
    own = min(int(np.searchsorted(ends, value)), ends.size - 1)
    if not codes.size:  # noise has put the two ends apart: the bin of the estimate is left
        codes = np.array([own])
    low, high = float(numbers.low[codes[0]]), float(numbers.high[codes[-1]])
    return Found(value, low, high, float(numbers.low[own]), float(numbers.high[own]))


def _value_below(below: Floats, counts: Floats, share: float, axis: Axis) -> float:
    """The number below which a share of the rows lies, as these lie inside its bin: `below` are
    those below each edge, `counts` those of each bin. Rows have whole numbers where the column
    has, and none has the end of a bin but of the last one."""
    wanted = share * below[-1]
    code = min(int(np.searchsorted(below[1:], wanted)), len(counts) - 1)
    part = (wanted - below[code]) / counts[code] if counts[code] > 0 else 0.5
    place = float(place_of(tilts_of(axis)[code : code + 1], np.array([part]))[0])
    start, end = float(axis.edges[code]), float(axis.edges[code + 1])
    value = start + place * (end - start)
    if axis.kind != "real":
        return min(math.floor(value), end - 1.0)
    return value if code == axis.base - 1 else min(value, math.nextafter(end, start))


def _spread(
    table: NDArray[Any], places: Places, over: Places, shape: Sequence[int]
) -> NDArray[Any]:
    wide = [size if place in places else 1 for place, size in zip(over, shape, strict=True)]
    return np.broadcast_to(table.reshape(wide), tuple(shape))
