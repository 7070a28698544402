"""A partition of a grid with noisy counts: any interval or box with an error bar, CDF, quantiles,
plots, synthetic points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from dpublish.arrays import Floats, Ints
from dpublish.declare.calendar import CALENDAR, moment_of, series_of
from dpublish.declare.domain import Domain
from dpublish.declare.grid import NEAR, Grid
from dpublish.errors import QueryError
from dpublish.estimate import Estimate, check_level
from dpublish.models.integer_limits import half_width
from dpublish.models.noisy_counts import laplace_cumulants
from dpublish.query.masks import select
from dpublish.query.predicate import Node, parse_predicate
from dpublish.query.sql_limits import CellsSay, answer_sql
from dpublish.releases.aggregates import AggregatesRelease, PartSums
from dpublish.releases.frames import (
    Answers,
    counted_table,
    generator_of,
    marginal_shape,
    named_columns,
    rows_to_draw,
)
from dpublish.releases.interval_tree.check import read_tree
from dpublish.releases.interval_tree.ranges import (
    Bounds,
    BoxCells,
    cdf_frame,
    coordinates,
    quantile_places,
    ranges_of,
    top_of,
)
from dpublish.releases.interval_tree.smoothing import MAX_BOXES, smoothed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ABSENT = (
    "rows that lack a value of one of the columns were counted together: the interval holds "
    "whichever value they lack"
)
AMONG = (
    "rows without a value were counted among all that the schema leaves out, so that only an upper "
    "limit is known"
)
MAX_PAIRS = 1 << 28
CHUNK = 1 << 22


class IntervalTreeRelease(AggregatesRelease):
    """Noisy counts of boxes that partition the grid of one or a few numeric columns."""

    kind: ClassVar[str] = "interval-tree"
    own: ClassVar[tuple[str, ...]] = (
        "count",
        "ranges",
        "cdf",
        "cdf_limits",
        "quantile",
        "quantile_limits",
        "without_value",
    )

    def parse(self) -> None:
        read = read_tree(self.manifest, self.tables)
        self.shape, self.boxes = read.shape, read.boxes
        self.total, self.hierarchy = read.total, read.hierarchy
        self.missing = read.missing
        self.noise_variance = laplace_cumulants(read.scale)[0]
        self._noisy: Ints = self.tables["counts"]["count"].to_numpy()[: self.hierarchy.measures]
        # limits rest on these: their errors are those of the noise, whatever the data look like
        listed: Floats = self.hierarchy.estimates(self._noisy, self.total)
        self.measured: Floats = listed[: len(self.boxes)]
        self._absent: float | None = None
        """Rows without a value, as measured: an entry of their own, or what lies in no box."""
        if self.missing is not None:
            counts = self.tables["counts"]["count"] if self.missing == "own" else listed
            self._absent = float(counts[len(counts) - 1])

    @cached_property
    def counts(self) -> Floats:
        """The best estimate of every box: as measured, or smoother where one column has few boxes.

        Groups of boxes give boxes noise that goes together, which smoothing does not allow for; and
        on boxes of several columns it was no gain on generated shapes.
        """
        if self.hierarchy.height > 1 or len(self.boxes) > MAX_BOXES or len(self.columns) > 1:
            return self.measured
        noisy = self._noisy[: self.hierarchy.leaves].astype(np.float64)
        return smoothed(self.shape, self.boxes, noisy, self.noise_variance, self.total)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(grid.name for grid in self.shape.grids)

    @property
    def rows(self) -> float:
        """The estimated number of rows, with and without values."""
        return min(float(self._parts[1].sum()), self._most)

    @cached_property
    def _parts(self) -> tuple[Floats, Floats]:
        """What was measured, and the best estimate, of every box and (last, where they were
        counted) of the rows without a value."""
        if self._absent is None:
            return self.measured, self.counts
        best = self._absent
        if self.missing == "rest" and self.total is not None:
            best = self.total - float(self.counts.sum())
        return np.append(self.measured, self._absent), np.append(self.counts, best)

    def _variance(self, weights: Floats) -> Floats:
        """The variance of the noise of weighted sums of `_parts`."""
        more: Floats | float = 0.0
        if self.missing == "own" and weights.shape[1] > len(self.boxes):
            more, weights = weights[:, -1] ** 2, weights[:, :-1]
        return np.asarray(self.noise_variance * (self.hierarchy.variance(weights) + more))

    def count(self, *bounds: Any, level: float = 0.95, **named: Bounds) -> Estimate:
        """How many rows lie in an interval or box, both ends included, with an error bar.

        `count(low, high)` for one column; `count(x=(low, high), y=(low, high))` for several. None
        stands for a bound of the column. Dates are `datetime.date` or ISO text. A column that is
        not named is not restricted.
        """
        if bounds:
            if len(self.columns) != 1 or len(bounds) != 2 or named:
                raise QueryError(f"Name each column: count({self.columns[0]}=(low, high), ...).")
            named = {self.columns[0]: (bounds[0], bounds[1])}
        unknown = sorted(set(named) - set(self.columns))
        if unknown:
            raise QueryError(f"No column '{unknown[0]}' here. Columns: {', '.join(self.columns)}.")
        ends = [coordinates(one, named.get(one.name, (None, None))) for one in self.shape.grids]
        low, high = np.array(ends).T
        return self.answer(low[None], high[None], check_level(level), closed=True).one()

    def ranges(self, low: ArrayLike, high: ArrayLike, *, level: float = 0.95) -> pl.DataFrame:
        """Many ranges at once: `low` and `high` hold one number per query (or one row of numbers,
        for several columns).

        Dates are given as ordinals (`date.toordinal()`), times as seconds. Columns: count,
        standard_error, low, high.
        """
        ends = [_numbers(end) for end in (low, high)]
        if ends[0].size != ends[1].size or ends[0].size % len(self.columns):
            raise QueryError(
                f"low and high must have the same shape, with {len(self.columns)} number(s) a "
                f"range."
            )
        lows, highs = (end.reshape(-1, len(self.columns)) for end in ends)
        if not (np.isfinite(lows).all() and np.isfinite(highs).all() and (lows <= highs).all()):
            raise QueryError("Every range needs two finite ends, the first not above the second.")
        a, b = np.empty_like(lows), np.empty_like(highs)
        for place, grid in enumerate(self.shape.grids):
            first, last = lows[:, place], highs[:, place]
            if grid.whole:
                first, last = np.ceil(first), np.floor(last)
            if (last < float(grid.lower)).any() or (first > top_of(grid)).any():
                raise QueryError(f"A range lies outside the declared bounds of '{grid.name}'.")
            if (first > last).any():
                raise QueryError(
                    f"A range holds no value of '{grid.name}', which are whole numbers."
                )
            a[:, place], b[:, place] = (
                grid.coordinate(first),
                grid.coordinate(last + 1 if grid.whole else last),
            )
        found = self.answer(a, np.maximum(a, b), check_level(level), closed=True)
        return pl.DataFrame(found.figures())

    def estimate(self, predicate: str, *, level: float = 0.95) -> Estimate:
        """How many rows satisfy a predicate such as "x between 3 and 8 or x > 20": unions of
        intervals or boxes; or a linear condition such as "2 * x + y >= 150"."""
        try:
            domain = self._cells.domain
            node = parse_predicate(predicate, domain)
        except QueryError as error:
            linear = self._linear(predicate, level)
            if linear is None:
                raise error from None
            return linear
        if not select(node, domain).touched and self._of_absent(node) == "none":
            raise QueryError(f"'{predicate}' holds for no value inside the declared bounds.")
        return self.met(node, level)

    def _linear(self, predicate: str, level: float) -> Estimate | None:
        """Rows above a hyperplane, by the part of every box that lies above it; None where the
        condition is none about a weighted sum. Rows that lack a value meet no such condition."""
        from dpublish.query.linear_condition import above_plane, linear_condition

        grids = self.shape.grids
        try:
            asked = linear_condition(predicate, {grid.name: grid.kind for grid in grids})
        except QueryError:
            return None
        starts, ends = self.shape.corners(self.boxes)
        steps = [float(grid.step) if grid.whole else 0.0 for grid in grids]
        found = above_plane(
            np.stack([grid.value(at) for grid, at in zip(grids, starts, strict=True)], axis=1),
            # the last value of a run of whole numbers is one before the next run starts
            np.stack([grid.value(at) for grid, at in zip(grids, ends, strict=True)], axis=1)
            - np.array(steps),
            [asked.weights.get(name, 0.0) for name in self.columns],
            asked.bound,
            steps=steps,
            strict=asked.strict,
        )
        room = len(self._parts[0]) - len(self.boxes)
        share, inside, touched = (
            np.pad(part.astype(np.float64), (0, room))[None, :] for part in found
        )
        return self._from_weights(share, inside, touched, check_level(level)).one()

    def _of_absent(self, node: Node) -> Literal["none", "some", "all"]:
        """How many of the rows that lack a value of one of several columns meet a condition: which
        value they lack was not counted."""
        if self._absent is None or len(self.columns) == 1:
            return "none"
        axes = zip(self.domain.axes, self.shape.grids, strict=True)
        full = Domain(tuple(replace(axis, missing=grid.missing) for axis, grid in axes))
        found = select(node, full)
        if found.inside == full.size:
            return "all"
        return "some" if found.touched > select(node, self.domain).touched else "none"

    def met(self, node: Node, level: float) -> Estimate:
        """How many rows satisfy a predicate that was read, which may be none of those there can
        be."""
        cells = self._cells
        if (none := self.ruled_out(node, level)) is not None:
            return none
        selection = select(node, cells.domain)
        absent = self._of_absent(node)
        if not selection.touched and absent == "none":
            return Estimate(0.0, 0.0, 0.0, 0.0, check_level(level))
        found = selection.cover(cells.codes.__getitem__, cells.owner.size)
        inside, touched, share = (
            np.bincount(
                cells.owner,
                weights=np.asarray(part, dtype=np.float64) * cells.share,
                minlength=len(self._parts[0]),
            )
            for part in (found.inside, found.touched, found.share)
        )
        if absent != "none":
            whole_part = float(absent == "all" and self.missing != "among rest")
            inside[-1], touched[-1], share[-1] = whole_part, 1.0, max(whole_part, 0.5)
        some, whole, any_part = (
            part[None, :].astype(np.float64)
            for part in (share, inside >= 1 - 1e-9, touched > 1e-15)
        )
        one = self._from_weights(some, whole, any_part, check_level(level)).one()
        if absent == "some":
            return replace(one, note=ABSENT)
        among = self.missing == "among rest" and any_part.size > len(self.boxes)
        return replace(one, note=AMONG) if among and any_part[0, -1] else one

    @cached_property
    def domain(self) -> Domain:  # type: ignore[override]
        """Bins that end wherever a box does."""
        return self._cells.domain

    def cell_counts(self, places: tuple[int, ...]) -> Floats:
        cells = self._cells
        weights = self._parts[1][cells.owner] * cells.share
        return counted_table(cells.domain, places, [cells.codes[one] for one in places], weights)

    def cell_sums(self, places: tuple[int, ...]) -> PartSums:
        cells = self._cells

        def low_of(weights: Floats, alpha: float) -> float:
            if among:  # some of the last part may be rows of no cell
                weights = np.append(weights[:-1], min(0.0, weights[-1]))
            width = half_width(self._variance(weights[None, :]), alpha, "laplace")[0]
            return float(weights @ self._parts[0][:parts]) - float(width)

        codes = tuple(cells.codes[place] for place in places)
        parts = int(cells.owner[-1]) + 1
        among = self.missing == "among rest" and parts > len(self.boxes)
        return PartSums(cells.owner, codes, parts, self.cell_counts(places), low_of)

    def marginal(self, *columns: str, level: float = 0.95) -> pl.DataFrame:
        """Counts of every combination of bins of the named columns: labels, count, standard_error,
        low, high.

        Bins end wherever a box of the release does; `ranges` takes bins of your own.
        """
        cells = self._cells
        places = named_columns(cells.domain, columns)
        groups = math.prod(marginal_shape(cells.domain, places))
        if len(self.columns) > 1 and groups * len(self.boxes) > MAX_PAIRS:
            raise QueryError(
                f"A table of these columns has {groups:,} cells; ask for fewer of them with "
                f"ranges(...)."
            )
        found = self.answer(*cells.corners(places), check_level(level))
        if self._absent is not None and len(self.columns) == 1:
            found = Answers.joined([found, self._absent_rows(check_level(level))])
        return self.by_columns(places, found.figures())

    def without_value(self, *, level: float = 0.95) -> Estimate:
        """How many rows lack a value (of one of several columns: of at least one)."""
        if self._absent is None:
            raise QueryError(
                "Rows without a value were not counted: the schema says that there are none, or "
                "the release was made before they were."
            )
        one = self._absent_rows(check_level(level)).one()
        return replace(one, note=AMONG) if self.missing == "among rest" else one

    def _absent_rows(self, level: float) -> Answers:
        share = np.zeros((1, len(self.boxes) + 1))
        share[0, -1] = 1.0
        # among rows that are left out for other reasons nobody knows how many lack a value
        inside = np.zeros_like(share) if self.missing == "among rest" else share
        return self._from_weights(share, inside, share, level)

    def sql(self, query: str, *, level: float | None = 0.95) -> pl.DataFrame:
        """Answer a SELECT over the table `release`: boxes cut into bins, each of which stands for
        its middle.

        Aggregates have limits and notes beside them, unless `level` is None.
        """
        domain = self._cells.domain
        return answer_sql(
            CellsSay(self),
            query,
            self._cells.weighted(self._parts[1]).sql_frame(),
            domain.names,
            domain.axes,
            level,
        )

    def fit(
        self, estimator: Any, *, target: str | None = None, features: Sequence[str] | None = None
    ) -> Any:
        """Train a scikit-learn estimator for one column on the others (several columns only). It
        takes raw rows."""
        from dpublish.analyse.learn import fit_pipeline

        return fit_pipeline(
            self._cells.weighted(self._parts[1]), estimator, target=target, features=features
        )

    def cdf(self, values: ArrayLike) -> Floats:
        """The share of rows at or below each value (one column only): monotone, from 0 to 1."""
        grid = self._only()
        ends, heights = self._curve
        given = _values_asked(values)
        place = grid.coordinate(np.floor(given) + 1 if grid.whole else given)
        return np.asarray(np.interp(place, ends, heights))

    def cdf_limits(self, values: ArrayLike, *, level: float = 0.95) -> pl.DataFrame:
        """The same with error bars, each held with `level`: columns value, share, low, high."""
        grid, given = self._only(), _values_asked(values).reshape(-1)
        place = grid.coordinate(np.floor(given) + 1 if grid.whole else given)
        return cdf_frame(self, given, place, self.cdf(given), level)

    def quantile_limits(self, share: float, *, level: float = 0.95) -> tuple[Any, Any]:
        """Two values between which the quantile lies with `level` (one column only)."""
        grid = self._only()
        _check_share(share)
        low, high = quantile_places(self, self._prefix[0], share, level)
        return self._place_value(grid, low), self._place_value(grid, high)

    def quantile(
        self,
        of: str | float,
        share: float | None = None,
        *,
        where: str | None = None,
        level: float = 0.95,
    ) -> Any:
        """The value of a column that a share of the rows is not above, as an estimate. With a share
        alone (one column only): the value below which about this share of the rows lies."""
        if isinstance(of, str):
            return super().quantile(of, 0.5 if share is None else share, where=where, level=level)
        share = of
        grid = self._only()
        _check_share(share)
        ends, heights = self._curve
        # on a flat stretch every place is a quantile; the first is taken
        spot = int(np.searchsorted(heights, share))
        if spot == 0:
            return self._place_value(grid, float(ends[0]))
        rise = heights[spot] - heights[spot - 1]
        within = (ends[spot] - ends[spot - 1]) * (share - heights[spot - 1]) / rise
        return self._place_value(grid, float(ends[spot - 1] + within))

    @staticmethod
    def _place_value(grid: Grid, place: float) -> Any:
        if not grid.whole:
            return float(grid.value(np.array([place]))[0])
        number = int(grid.lower) + min(int(place), grid.positions - 1)
        return moment_of(grid.kind, number) if grid.kind in CALENDAR else number

    def to_frame(self) -> pl.DataFrame:
        """One row a box: its first and last value in each column, and its estimated count as
        `weight`."""
        starts, ends = self.shape.corners(self.boxes)
        out: dict[str, Any] = {}
        for place, grid in enumerate(self.shape.grids):
            first, last = (self._values(grid, edges[place]) for edges in (starts, ends))
            out[f"{grid.name}_from"], out[f"{grid.name}_below"] = first, last
        frame = pl.DataFrame({**out, "weight": self.counts})
        if self._absent is None or len(self.columns) > 1:
            return frame
        # rows without a value come last, and have no ends
        return pl.concat([frame, pl.DataFrame({"weight": self._parts[1][-1:]})], how="diagonal")

    def sample(self, n: int | None = None, *, seed: int | None = None) -> pl.DataFrame:
        """Synthetic points: boxes in proportion to their counts, uniform inside a box. Error bars
        computed from them as if they were real rows are far too small."""
        rng = generator_of(seed)
        # of several columns it is not known which value a row lacks: points have all of them
        weights = np.maximum(self.counts if len(self.columns) > 1 else self._parts[1], 0.0)
        size = rows_to_draw(max(0, round(self.rows)) if n is None else n)
        if weights.sum() == 0:
            raise QueryError("No box of this release has rows, so there is nothing to sample from.")
        chosen = rng.choice(weights.size, size, p=weights / weights.sum())
        starts, ends = self.shape.corners(self.boxes)
        out = {}
        lacking = chosen >= len(self.boxes)
        chosen = np.where(lacking, 0, chosen)
        for place, grid in enumerate(self.shape.grids):
            low, high = starts[place][chosen], ends[place][chosen]
            spots = low + rng.random(size) * (high - low)
            drawn = self._values(grid, np.floor(spots).astype(np.int64) if grid.whole else spots)
            out[grid.name] = drawn.set(pl.Series(lacking), None) if lacking.any() else drawn
        return pl.DataFrame(out)

    def plot(self, *columns: str, level: float = 0.95) -> Figure:
        """The density of one column with its error, or a heat map of two."""
        from dpublish.releases.interval_tree.report import plot_tree

        return plot_tree(self, columns, level=check_level(level))

    def summary(self) -> dict[str, str]:
        return {
            **super().summary(),
            "columns": ", ".join(self.columns),
            "boxes": f"{len(self.boxes):,} ({self.manifest['facts']['tree']})",
        }

    def answer(self, low: Floats, high: Floats, level: float, *, closed: bool = False) -> Answers:
        """Ranges given in coordinates (positions from the lower bound), one row per query and one
        column a column.

        `closed`: rows exactly at the upper end of a real column belong to the range; otherwise they
        do not.
        """
        if len(self.columns) == 1:
            return self._one_column(
                low[:, 0], high[:, 0], level, closed and not self.shape.grids[0].whole
            )
        parts = []
        step = max(1, CHUNK // len(self.boxes))
        for start in range(0, low.shape[0], step):
            some = low[start : start + step], high[start : start + step]
            share = self.shape.shares(self.boxes, *some)
            touched = self.shape.reached(self.boxes, *some) if closed else share > 0
            parts.append(
                self._from_weights(
                    share, (share >= 1).astype(np.float64), touched.astype(np.float64), level
                )
            )
        return Answers.joined(parts)

    def _one_column(self, low: Floats, high: Floats, level: float, closed: bool) -> Answers:
        """Prefix sums and interpolation: a query costs a few binary searches, whatever the number
        of boxes."""
        edges, totals = self._prefix
        plain = np.concatenate([[0.0], np.cumsum(self.measured)])
        index = np.arange(edges.size, dtype=np.float64)
        a, b = np.interp(low, edges, index), np.interp(high, edges, index)
        b = np.maximum(a, b)
        inner_a, outer_a = np.ceil(a - 1e-9), np.floor(a + 1e-9)
        inner_b, outer_b = (
            np.maximum(np.floor(b + 1e-9), inner_a),
            np.maximum(np.ceil(b - 1e-9), outer_a),
        )
        # all rows of a box may have the value with which it starts, and the last box holds the
        # upper bound
        if closed:
            outer_a = np.minimum(outer_a, index[-1] - 1)
            outer_b = np.minimum(np.searchsorted(edges, high + NEAR, side="right"), index[-1])
        found = [
            (
                np.interp(t, index, plain) - np.interp(s, index, plain),
                self.noise_variance * self.hierarchy.range_variance(s, t),
            )
            for s, t in ((a, b), (inner_a, inner_b), (outer_a, outer_b))
        ]
        value = np.interp(b, index, totals) - np.interp(a, index, totals)
        return ranges_of(value, *found, level=level, most=self._most)

    def _from_weights(
        self, share: Floats, inside: Floats, touched: Floats, level: float
    ) -> Answers:
        measured, counts = (part[: share.shape[1]] for part in self._parts)
        found = [
            (weights @ measured, self._variance(weights)) for weights in (share, inside, touched)
        ]
        return ranges_of(share @ counts, *found, level=level, most=self._most)

    @property
    def _most(self) -> float:
        return math.inf if self.total is None else float(self.total)

    @cached_property
    def _prefix(self) -> tuple[Floats, Floats]:
        starts, ends = self.shape.corners(self.boxes)
        totals = np.concatenate([[0.0], np.cumsum(self.counts)])
        return np.append(starts[0], ends[0][-1]).astype(np.float64), totals

    @cached_property
    def _curve(self) -> tuple[Floats, Floats]:
        edges, totals = self._prefix
        # the mean of the running maximum and the running minimum from the right is monotone and
        # near the raw sums
        lowered = np.minimum.accumulate(totals[::-1])[::-1]
        curve = (np.maximum.accumulate(totals) + lowered) / 2
        if curve[-1] <= curve[0]:
            curve = edges
        return edges, np.asarray((curve - curve[0]) / (curve[-1] - curve[0]))

    @cached_property
    def _cells(self) -> BoxCells:
        counted = self._absent is not None and len(self.columns) == 1
        part = 0.5 if self.missing == "among rest" else 1.0
        return BoxCells.of(self.shape, self.boxes, absent=part * counted)

    def _only(self) -> Grid:
        if len(self.columns) != 1:
            raise QueryError(
                f"This needs a release of one column; here are {', '.join(self.columns)}."
            )
        return self.shape.grids[0]

    @staticmethod
    def _values(grid: Grid, positions: Ints | Floats) -> pl.Series:
        if not grid.whole:
            return pl.Series(grid.value(positions))
        numbers = np.asarray(positions, dtype=np.int64) + int(grid.lower)
        return series_of(grid.kind, numbers) if grid.kind in CALENDAR else pl.Series(numbers)


def _check_share(share: float) -> None:
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise QueryError(f"A quantile is asked for by one share from 0 to 1, not {share!r}.")


def _numbers(values: Any) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise QueryError(
            f"Give numbers (dates: their ordinals; times: seconds), not {str(values)[:80]}."
        ) from None


def _values_asked(values: Any) -> Floats:
    given = _numbers(values)
    if np.isnan(given).any():
        raise QueryError("The distribution is asked for at numbers, and NaN is none.")
    return given
