"""A partition of a grid with noisy counts: any interval or box with an error bar, CDF, quantiles, plots, synthetic points."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from dpublish.domain import Domain
from dpublish.errors import BundleError, PublishError, QueryError
from dpublish.public.estimation import Estimate
from dpublish.public.grid import MAX_POSITIONS, Boxes, Floats, Grid, Ints, TreeShape
from dpublish.public.hierarchy import Hierarchy
from dpublish.public.manifest import fraction, table, text, whole
from dpublish.public.releases.base import Release
from dpublish.public.suppression import laplace_cumulants, normal_quantile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_BOXES = 1 << 26
MAX_PRODUCT = 1 << 22
CHUNK = 1 << 22
BOXES_SCHEMA: dict[str, Any] = {"depth": pl.UInt8, "prefix": pl.UInt64}
COUNTS_SCHEMA: dict[str, Any] = {"count": pl.Int64}
Bounds = tuple[Any, Any]


class IntervalTreeRelease(Release):
    """Noisy counts of boxes that partition the grid of one or a few numeric columns."""

    kind: ClassVar[str] = "interval-tree"

    def __init__(self, manifest: Mapping[str, Any], tables: Mapping[str, pl.DataFrame], *, path: Path | None = None) -> None:
        super().__init__(manifest, tables, path=path)
        facts = manifest["facts"]
        self.shape = TreeShape.from_json(facts["grid"])
        self.boxes = _boxes(tables["boxes"])
        self.hierarchy = Hierarchy(len(self.boxes), int(facts["fanout"]), int(facts["height"]))
        self.noise_variance = laplace_cumulants(fraction(facts, "scale", "facts"))[0]
        self.counts: Floats = self.hierarchy.estimates(self.tables["counts"]["count"].to_numpy())

    @classmethod
    def check(cls, manifest: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> None:
        facts = table(manifest, "facts", "manifest")
        fraction(facts, "scale", "facts")
        text(facts, "tree", "facts")
        shape = _read_shape(facts.get("grid"))
        if set(tables) != {"boxes", "counts"}:
            raise BundleError("An interval tree holds two tables, boxes.parquet and counts.parquet.")
        for name, expected in (("boxes", BOXES_SCHEMA), ("counts", COUNTS_SCHEMA)):
            frame = tables[name]
            if dict(frame.schema) != expected or any(frame[column].null_count() for column in expected):
                raise BundleError(f"{name}.parquet must have the columns {', '.join(expected)} without nulls.")
        _check_boxes(shape, _boxes(tables["boxes"]))
        fanout = whole(facts, "fanout", "facts", limit=MAX_BOXES, lowest=1)
        height = whole(facts, "height", "facts", limit=40, lowest=1)
        boxes = tables["boxes"].height
        if fanout**height < boxes or (fanout > 2 and (fanout - 1) ** height >= boxes and height > 1):
            raise BundleError("facts: 'fanout' and 'height' do not fit the number of boxes.")
        if Hierarchy(boxes, fanout, height).measures != tables["counts"].height:
            raise BundleError("counts.parquet has another number of rows than the boxes and their groups.")
        if np.any(np.abs(tables["counts"]["count"].to_numpy()) > 1 << 52):
            raise BundleError("counts.parquet holds a count that is not believable.")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(grid.name for grid in self.shape.grids)

    @property
    def rows(self) -> float:
        """The estimated number of rows."""
        return float(self.counts.sum())

    def count(self, *bounds: Any, level: float = 0.95, **named: Bounds) -> Estimate:
        """How many rows lie in an interval or box, both ends included, with an error bar.

        `count(low, high)` for one column; `count(x=(low, high), y=(low, high))` for several. None stands for a bound of the
        column. Dates are `datetime.date` or ISO text. A column that is not named is not restricted.
        """
        if bounds:
            if len(self.columns) != 1 or len(bounds) != 2 or named:
                raise QueryError(f"Name each column: count({self.columns[0]}=(low, high), ...).")
            named = {self.columns[0]: (bounds[0], bounds[1])}
        unknown = sorted(set(named) - set(self.columns))
        if unknown:
            raise QueryError(f"No column '{unknown[0]}' here. Columns: {', '.join(self.columns)}.")
        low, high = np.zeros((1, len(self.columns))), np.zeros((1, len(self.columns)))
        for place, grid in enumerate(self.shape.grids):
            pair = named.get(grid.name, (None, None))
            low[0, place], high[0, place] = _coordinates(grid, pair)
        return self.answer(low, high, level).one()

    def ranges(self, low: ArrayLike, high: ArrayLike, *, level: float = 0.95) -> pl.DataFrame:
        """Many ranges at once: `low` and `high` hold one number a query (or one row of numbers, for several columns).

        Dates are given as ordinals (`date.toordinal()`). Columns: count, standard_error, low, high.
        """
        lows, highs = (np.asarray(end, dtype=np.float64).reshape(-1, len(self.columns)) for end in (low, high))
        if lows.shape != highs.shape:
            raise QueryError("low and high must have the same shape.")
        if not (np.isfinite(lows).all() and np.isfinite(highs).all() and (lows <= highs).all()):
            raise QueryError("Every range needs two finite ends, the first not above the second.")
        a, b = np.empty_like(lows), np.empty_like(highs)
        for place, grid in enumerate(self.shape.grids):
            if (highs[:, place] < float(grid.lower)).any() or (lows[:, place] > float(grid.upper)).any():
                raise QueryError(f"A range lies outside the declared bounds of '{grid.name}'.")
            a[:, place] = grid.coordinate(np.ceil(lows[:, place]) if grid.whole else lows[:, place])
            b[:, place] = grid.coordinate(np.floor(highs[:, place]) + 1 if grid.whole else highs[:, place])
        return self.answer(a, np.maximum(a, b), level).frame()

    def estimate(self, predicate: str, *, level: float = 0.95) -> Estimate:
        """How many rows satisfy a predicate such as "x between 3 and 8 or x > 20": unions of intervals or boxes."""
        from dpublish.public.predicate import parse_predicate
        from dpublish.public.selection import select

        domain, index, share_of_box = self._cells
        selection = select(parse_predicate(predicate, domain), domain)
        found = selection.cover(lambda axis: index[axis], index[0].size)
        owner = share_of_box[0]
        inside, touched, share = (
            np.bincount(owner, weights=np.asarray(part, dtype=np.float64) * share_of_box[1], minlength=len(self.boxes))
            for part in (found.inside, found.touched, found.share)
        )
        whole_boxes = np.where(inside >= 1 - 1e-9, 1.0, 0.0)
        any_part = np.where(touched > 1e-15, 1.0, 0.0)
        return self._from_weights(share[None, :].astype(np.float64), whole_boxes[None, :], any_part[None, :], level).one()

    def cdf(self, values: ArrayLike) -> Floats:
        """The share of rows at or below each value (one column only): monotone, from 0 to 1."""
        grid = self._only()
        ends, heights = self._curve
        given = np.asarray(values, dtype=np.float64)
        place = grid.coordinate(np.floor(given) + 1 if grid.whole else given)
        return np.asarray(np.interp(place, ends, heights))

    def cdf_limits(self, values: ArrayLike, *, level: float = 0.95) -> pl.DataFrame:
        """The same with error bars, each held with `level`: columns value, share, low, high."""
        from dpublish.public.distribution import cdf_frame

        grid, given = self._only(), np.asarray(values, dtype=np.float64).reshape(-1)
        place = grid.coordinate(np.floor(given) + 1 if grid.whole else given)
        return cdf_frame(self, given, place, self.cdf(given), level)

    def quantile_limits(self, share: float, *, level: float = 0.95) -> tuple[Any, Any]:
        """Two values between which the quantile lies with `level` (one column only)."""
        from dpublish.public.distribution import quantile_places

        grid = self._only()
        if not 0 <= share <= 1:
            raise QueryError(f"A quantile is asked for by a share from 0 to 1, not {share}.")
        low, high = quantile_places(self, self._prefix[0], share, level)
        return self._place_value(grid, low), self._place_value(grid, high)

    def quantile(self, share: float) -> Any:
        """The value below which about this share of the rows lies (one column only)."""
        grid = self._only()
        if not 0 <= share <= 1:
            raise QueryError(f"A quantile is asked for by a share from 0 to 1, not {share}.")
        ends, heights = self._curve
        # on a flat stretch every place is a quantile; the first is taken
        where = int(np.searchsorted(heights, share))
        if where == 0:
            place = float(ends[0])
        else:
            rise = heights[where] - heights[where - 1]
            place = float(ends[where - 1] + (ends[where] - ends[where - 1]) * (share - heights[where - 1]) / rise)
        return self._place_value(grid, place)

    @staticmethod
    def _place_value(grid: Grid, place: float) -> Any:
        if not grid.whole:
            return float(grid.value(np.array([place]))[0])
        number = int(grid.lower) + min(int(place), grid.positions - 1)
        return dt.date.fromordinal(number) if grid.kind == "date" else number

    def to_frame(self) -> pl.DataFrame:
        """One row a box: its first and last value in each column, and its estimated count as `weight`."""
        starts, ends = self.shape.corners(self.boxes)
        out: dict[str, Any] = {}
        for place, grid in enumerate(self.shape.grids):
            first, last = (self._values(grid, edges[place]) for edges in (starts, ends))
            out[f"{grid.name}_from"], out[f"{grid.name}_below"] = first, last
        return pl.DataFrame({**out, "weight": self.counts})

    def sample(self, n: int | None = None, *, seed: int | None = None) -> pl.DataFrame:
        """Synthetic points: boxes in proportion to their counts, uniform inside a box."""
        rng = np.random.default_rng(seed)
        weights = np.maximum(self.counts, 0.0)
        size = max(0, round(self.rows)) if n is None else n
        if size < 0 or weights.sum() == 0:
            raise QueryError("There is nothing to sample from, or a negative number of rows was asked for.")
        chosen = rng.choice(weights.size, size, p=weights / weights.sum())
        starts, ends = self.shape.corners(self.boxes)
        out = {}
        for place, grid in enumerate(self.shape.grids):
            low, high = starts[place][chosen], ends[place][chosen]
            spots = low + rng.random(size) * (high - low)
            out[grid.name] = self._values(grid, np.floor(spots).astype(np.int64) if grid.whole else spots)
        return pl.DataFrame(out)

    def plot(self, *columns: str, level: float = 0.95) -> Figure:
        """The density of one column with its error, or a heat map of two."""
        from dpublish.public.interval_plots import plot_tree

        return plot_tree(self, columns, level=level)

    def summary(self) -> dict[str, str]:
        rows = super().summary()
        rows["columns"] = ", ".join(self.columns)
        rows["boxes"] = f"{len(self.boxes):,} ({self.manifest['facts']['tree']})"
        return rows

    def answer(self, low: Floats, high: Floats, level: float) -> Ranges:
        """Ranges given in coordinates (positions from the lower bound), one row a query and one column a column."""
        if len(self.columns) == 1:
            return self._one_column(low[:, 0], high[:, 0], level)
        parts = []
        step = max(1, CHUNK // len(self.boxes))
        for start in range(0, low.shape[0], step):
            share = self.shape.shares(self.boxes, low[start : start + step], high[start : start + step])
            parts.append(self._from_weights(share, (share >= 1).astype(np.float64), (share > 0).astype(np.float64), level))
        return Ranges.joined(parts)

    def _one_column(self, low: Floats, high: Floats, level: float) -> Ranges:
        """Prefix sums and interpolation: a query costs a few binary searches, whatever the number of boxes."""
        edges, totals = self._prefix
        index = np.arange(edges.size, dtype=np.float64)
        a, b = np.interp(low, edges, index), np.interp(high, edges, index)
        value = np.interp(b, index, totals) - np.interp(a, index, totals)
        inner_a, outer_a = np.ceil(a - 1e-9), np.floor(a + 1e-9)
        inner_b, outer_b = np.maximum(np.floor(b + 1e-9), inner_a), np.maximum(np.ceil(b - 1e-9), outer_a)
        inner = np.interp(inner_b, index, totals) - np.interp(inner_a, index, totals)
        outer = np.interp(outer_b, index, totals) - np.interp(outer_a, index, totals)
        variance, inner_variance, outer_variance = (
            self.noise_variance * self.hierarchy.range_variance(s, t)
            for s, t in ((a, np.maximum(a, b)), (inner_a, inner_b), (outer_a, outer_b))
        )
        return Ranges.of(value, variance, (inner, inner_variance), (outer, outer_variance), level)

    def _from_weights(self, share: Floats, inside: Floats, touched: Floats, level: float) -> Ranges:
        sums = [
            (weights @ self.counts, self.noise_variance * self.hierarchy.variance(weights)) for weights in (inside, touched)
        ]
        variance = self.noise_variance * self.hierarchy.variance(share)
        return Ranges.of(share @ self.counts, variance, sums[0], sums[1], level)

    @cached_property
    def _prefix(self) -> tuple[Floats, Floats]:
        starts, ends = self.shape.corners(self.boxes)
        edges = np.append(starts[0], ends[0][-1]).astype(np.float64)
        return edges, np.concatenate([[0.0], np.cumsum(self.counts)])

    @cached_property
    def _curve(self) -> tuple[Floats, Floats]:
        edges, totals = self._prefix
        # the mean of the running maximum and the running minimum from the right is monotone and near the raw sums
        raised = np.maximum.accumulate(totals)
        lowered = np.minimum.accumulate(totals[::-1])[::-1]
        curve = (raised + lowered) / 2
        span = curve[-1] - curve[0]
        if span <= 0:
            return edges, np.asarray((edges - edges[0]) / (edges[-1] - edges[0]))
        return edges, np.asarray((curve - curve[0]) / span)

    @cached_property
    def _cells(self) -> tuple[Domain, list[Ints], tuple[Ints, Floats]]:
        """A domain whose bins end wherever a box does, the codes of its cells, and to which box each belongs in what share."""
        starts, ends = self.shape.corners(self.boxes)
        cuts = [np.unique(np.concatenate([s, e])) for s, e in zip(starts, ends, strict=True)]
        firsts = [np.searchsorted(cut, s) for cut, s in zip(cuts, starts, strict=True)]
        sizes = [np.searchsorted(cut, e) - first for cut, e, first in zip(cuts, ends, firsts, strict=True)]
        pieces = np.multiply.reduce(sizes)
        if int(pieces.sum()) > MAX_PRODUCT:
            raise QueryError("This release has too many boxes for predicates; ask for boxes with count(...) or ranges(...).")
        owner = np.repeat(np.arange(len(self.boxes)), pieces)
        inner = np.arange(owner.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        codes: list[Ints] = []
        share = np.ones(owner.size)
        for axis in reversed(range(len(self.columns))):
            code = firsts[axis][owner] + inner % sizes[axis][owner]
            inner = inner // sizes[axis][owner]
            codes.insert(0, code)
            share *= (cuts[axis][code + 1] - cuts[axis][code]) / (ends[axis] - starts[axis])[owner]
        domain = Domain(tuple(grid.axis(cut) for grid, cut in zip(self.shape.grids, cuts, strict=True)))
        return domain, codes, (owner, share)

    def _only(self) -> Grid:
        if len(self.columns) != 1:
            raise QueryError(f"This needs a release of one column; here are {', '.join(self.columns)}.")
        return self.shape.grids[0]

    @staticmethod
    def _values(grid: Grid, positions: Ints | Floats) -> pl.Series:
        if not grid.whole:
            return pl.Series(grid.value(positions))
        whole_numbers = pl.Series(np.asarray(positions, dtype=np.int64) + int(grid.lower))
        if grid.kind != "date":
            return whole_numbers
        return (whole_numbers - 719_163).cast(pl.Int32).cast(pl.Date)  # polars counts days from 1970-01-01


class Ranges:
    """Answers to many ranges: values with standard errors and limits."""

    def __init__(self, value: Floats, error: Floats, low: Floats, high: Floats, level: float) -> None:
        self.value, self.error, self.low, self.high, self.level = value, error, low, high, level

    @classmethod
    def of(
        cls, value: Floats, variance: Floats, inner: tuple[Floats, Floats], outer: tuple[Floats, Floats], level: float
    ) -> Ranges:
        """The limits assume nothing about how rows lie inside a box that a range cuts; the value assumes they lie evenly."""
        if not 0 < level < 1:
            raise QueryError(f"level must lie between 0 and 1, not {level}.")
        alpha = (1 - level) / 2
        # a sum of Laplace noise has a tail between that of one Laplace variable and the normal one: take the wider
        width = max(normal_quantile(alpha), math.log(1 / (2 * alpha)) / math.sqrt(2))
        cut = np.maximum(outer[0] - inner[0], 0.0) ** 2 / 12
        low = np.minimum(inner[0] - width * np.sqrt(inner[1]), value - width * np.sqrt(variance))
        high = np.maximum(outer[0] + width * np.sqrt(outer[1]), value + width * np.sqrt(variance))
        return cls(value, np.sqrt(variance + cut), np.maximum(low, 0.0), np.maximum(high, 0.0), level)

    @classmethod
    def joined(cls, parts: Sequence[Ranges]) -> Ranges:
        every = [np.concatenate([getattr(part, name) for part in parts]) for name in ("value", "error", "low", "high")]
        return cls(every[0], every[1], every[2], every[3], parts[0].level)

    def one(self) -> Estimate:
        return Estimate(float(self.value[0]), float(self.error[0]), float(self.low[0]), float(self.high[0]), self.level)

    def frame(self) -> pl.DataFrame:
        return pl.DataFrame({"count": self.value, "standard_error": self.error, "low": self.low, "high": self.high})


def _coordinates(grid: Grid, pair: Bounds) -> tuple[float, float]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise QueryError(f"Give two ends for '{grid.name}': (low, high).")
    low = float(grid.lower) if pair[0] is None else _number(grid, pair[0])
    top = float(grid.upper) - (1 if grid.whole else 0)
    high = top if pair[1] is None else _number(grid, pair[1])
    if low > high:
        raise QueryError(f"'{grid.name}': the range starts at {pair[0]} and ends before it, at {pair[1]}.")
    if high < float(grid.lower) or low > top:
        raise QueryError(f"'{grid.name}': the range lies outside the declared bounds.")
    if grid.whole:
        low, high = math.ceil(low), math.floor(high) + 1
    a, b = grid.coordinate(np.array([low, high], dtype=np.float64))
    return float(a), float(max(a, b))


def _number(grid: Grid, value: Any) -> float:
    if grid.kind == "date":
        try:
            day = dt.date.fromisoformat(value.strip()) if isinstance(value, str) else value
            if isinstance(day, dt.date):
                return float(day.toordinal())
        except ValueError:
            pass
        raise QueryError(f"'{grid.name}' holds dates; write one as 2020-01-31.")
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or math.isnan(value):
        raise QueryError(f"'{grid.name}' holds numbers; an end of a range is a number or None.")
    return float(np.clip(float(value), -1e300, 1e300))


def _boxes(frame: pl.DataFrame) -> Boxes:
    return Boxes(frame["depth"].to_numpy().astype(np.int64), frame["prefix"].to_numpy())


def _read_shape(data: Any) -> TreeShape:
    if not isinstance(data, list) or not 1 <= len(data) <= 16:
        raise BundleError("facts: 'grid' must list 1 to 16 columns.")
    for item in data:
        if not isinstance(item, Mapping):
            raise BundleError("facts: every column of 'grid' must be an object.")
        whole(item, "positions", "grid", limit=MAX_POSITIONS, lowest=1)
        text(item, "name", "grid")
        if text(item, "kind", "grid") not in ("integer", "real", "date"):
            raise BundleError("grid: a column must be integer, real or date.")
        for key in ("lower", "step"):
            if len(text(item, key, "grid")) > 200:
                raise BundleError(f"grid: '{key}' is too long.")
    try:
        shape = TreeShape.from_json(data)
    except (PublishError, ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise BundleError(f"facts: 'grid' cannot be read ({type(error).__name__}).") from None
    if len({grid.name for grid in shape.grids}) != len(shape.grids) or any(grid.step <= 0 for grid in shape.grids):
        raise BundleError("grid: names must differ and steps must be above 0.")
    if shape.depth == 0:
        raise BundleError("grid: there must be at least two positions.")
    if any(max(abs(grid.lower), abs(grid.upper)) > 10**300 for grid in shape.grids):
        raise BundleError("grid: a bound is too large.")
    return shape


def _check_boxes(shape: TreeShape, boxes: Boxes) -> None:
    if not 1 <= len(boxes) <= MAX_BOXES:
        raise BundleError("boxes.parquet must list at least one box.")
    if int(boxes.depth.max()) > shape.depth:
        raise BundleError("boxes.parquet names a box deeper than the grid.")
    most = np.array([(1 << bits) - 1 for bits in shape.used_bits], dtype=np.uint64)[boxes.depth]
    if np.any(boxes.prefix > most):
        raise BundleError("boxes.parquet names a box outside the grid.")
    first, after = shape.spans(boxes)
    if np.any(first[1:] < after[:-1]):
        raise BundleError("boxes.parquet is not in order, or two boxes overlap.")
    starts, ends = shape.corners(boxes)
    if any(np.any(e <= s) for s, e in zip(starts, ends, strict=True)):
        raise BundleError("boxes.parquet names a box without positions.")
    volume = sum(
        math.prod(int(e) - int(s) for s, e in zip(low, high, strict=True))
        for low, high in zip(np.stack(starts, axis=1).tolist(), np.stack(ends, axis=1).tolist(), strict=True)
    )
    if volume != math.prod(grid.positions for grid in shape.grids):
        raise BundleError("boxes.parquet does not cover the grid.")
