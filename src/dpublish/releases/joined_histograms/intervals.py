"""Intervals of counts from the measured tables, whatever the model says.

A count over one column, over the target, or over a measured table has an unbiased estimate and a
known variance. A count over two columns that were not counted together has the model's answer, give
or take the published model error. Every other count is bounded by such counts: a conjunction by its
parts (Frechet's bounds), and so on. These bounds hold for any table that has the measured margins,
so that they contain the error of the model; the errors of the parts share the level.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.declare.domain import Domain
from dpublish.estimate import check_level
from dpublish.models.bin_shapes import bin_means
from dpublish.models.integer_limits import half_width, integer_rows, possible, quantile
from dpublish.models.junction_tree.consistency import GroupSums, least_squares, solve_precision
from dpublish.models.junction_tree.fit import (
    MeasuredColumn,
    MeasuredTable,
    label_estimate,
    rows_alone,
)
from dpublish.models.junction_tree.known_sums import Corrections, all_labels, of_column
from dpublish.models.junction_tree.measured import Measured
from dpublish.models.junction_tree.model import JunctionModel
from dpublish.models.junction_tree.model_error import block_mask, count_boxes, level_blocks
from dpublish.query.linear_condition import least_and_most
from dpublish.query.masks import cover_table
from dpublish.query.predicate import And, Constant, Node, Or, Plane, columns_of
from dpublish.releases.joined_histograms.known_limits import KnownLimits, within

MAX_CELLS = 1 << 22
MAX_PARTS = 4
"""Parts of a conjunction up to which all pairs of them are looked at."""

MEASURED = "counted: the interval covers the noise"
CUT = (
    "counted in bins or groups of levels that the condition cuts: the interval covers the "
    "noise, and all or none of what is cut"
)
MODEL_ERROR = (
    "not counted as such: the interval covers the noise and the largest error that the model was "
    "measured to have over runs "
    "of levels of any two columns"
)
BOUNDS = (
    "not counted: the interval holds bounds from what was counted, and is wide where the "
    "release cannot tell"
)
KNOWN = "known: it follows from public totals that the schema declares"
_DENSE = 1500
_NOTHING = 1e-9
"""A variance below this share of what it would be without public totals is rounding error."""


@dataclass(frozen=True)
class Range:
    """An interval, and the standard error of its middle."""

    low: float
    high: float
    error: float
    note: str = MEASURED


@dataclass(frozen=True)
class Combined:
    """The unbiased counts of a column, by label or of all labels together (one place), from the
    tables that count it and its public totals, and what their covariance follows from."""

    value: Floats
    measured: MeasuredColumn
    groups: list[GroupSums]
    corrections: Corrections | None

    def variance(self, amounts: Floats) -> float:
        """The noise of a sum of amounts times counts; 0 where public totals tell it."""
        plain = solve_precision(amounts, self.measured.variance, self.groups)
        if self.corrections is None:
            return max(0.0, float((amounts * plain).sum()))
        left = float((amounts * (plain - self.corrections.less(amounts))).sum())
        return left if left > _NOTHING * float((amounts * plain).sum()) else 0.0

    def level_variances(self) -> Floats:
        """The noise of every cell; of long columns, at most that."""
        levels, labels = self.value.shape
        each = np.full(levels, self.measured.variance)
        if self.groups and levels <= _DENSE:
            # in units of the column's own noise, so that no level is lost beside tables with far
            # less noise
            precision = np.eye(levels)
            for one in self.groups:
                precision += np.equal.outer(one.group_of, one.group_of) * (
                    self.measured.variance / one.variance
                )
            each = self.measured.variance * np.diag(np.linalg.inv(precision))
        out = np.repeat(each[:, None], labels, axis=1)
        if self.corrections is None:
            return out
        moves = list(self.corrections.moves)
        less = np.einsum("i...,ij,j...->...", moves, self.corrections.inverse, moves)
        return np.where(out - less > _NOTHING * out, out - less, 0.0)


class Intervals:
    """Answers `range_of(predicate)` from what was measured."""

    def __init__(self, measured: Measured, domain: Domain, model: JunctionModel | None) -> None:
        # the model is asked where a model error was published, and nowhere else
        assert model is not None or measured.model_error is None
        self._measured, self._domain, self._model = measured, domain, model
        self.target, self.noise = measured.target, measured.noise
        self._labels = measured.labels
        self.combined = cache(self._combine)
        self._left = KnownLimits(measured, domain)
        self._total_known = any(not one.where for one in measured.totals)

    def table_of(self, features: Sequence[int], *, by_label: bool) -> MeasuredTable | None:
        """What was counted of some columns together, by label or not: that with least noise."""
        return min(
            self._tables_of(features, by_label=by_label),
            key=lambda one: one.variance,
            default=None,
        )

    def range_of(self, node: Node, level: float) -> Range:
        check_level(level)
        found = self.open_range(node, 1 - level)
        low, high, error = (np.asarray(end) for end in (found.low, found.high, found.error))
        first, last = possible(low, high, error, self._most)
        least, most = self.certain(node)
        if least == most:
            return Range(least, most, 0.0, KNOWN)
        ends = np.clip([float(first), float(last)], least, most).tolist()
        return Range(ends[0], ends[1], found.error, found.note)

    def certain(self, node: Node) -> tuple[float, float]:
        """The least and the most rows of a condition that public totals allow, with no noise."""
        return self._left.certain(node, self._most)

    def counted_cells(self, columns: Sequence[int]) -> Floats | None:
        """The unbiased counts of the cells of one column, or of columns counted together; None
        where they were not."""
        if len(columns) == 1:
            return self.combined(columns[0], by_label=False).value[..., 0]
        table = self.table_of(columns, by_label=False)
        whole = table is not None and table.counts.shape == (
            *(self._domain.axes[c].cardinality for c in columns),
            1,
        )
        return table.counts[..., 0] if table is not None and whole else None

    def sum_variance(self, columns: Sequence[int], amounts: Floats) -> float:
        """The noise variance of a sum of `amounts` times `counted_cells` of the same columns."""
        if len(columns) == 1:
            return self.combined(columns[0], by_label=False).variance(amounts[:, None])
        table = self.table_of(columns, by_label=False)
        assert table is not None
        return table.variance * float((amounts**2).sum())

    def column_ranges(self, column: int, level: float) -> tuple[Floats, Floats, Floats]:
        """Low, high and standard error of every level of a column (of every label, for the
        target)."""
        if column == self.target:
            value, covariance = self.label_counts()
            error, left = np.sqrt(np.diag(covariance)), self._left.of(None)
            ends = None if left is None else tuple(end[0] for end in left.of_cells())
        else:
            found = self.combined(column, by_label=False)
            value, error = found.value[:, 0], np.sqrt(found.level_variances()[:, 0])
            left = self._left.of(column)
            ends = None if left is None else left.of_levels()
        return within(self._spread(value, error, level), ends)

    def column_label_ranges(self, column: int, level: float) -> tuple[Floats, Floats, Floats]:
        """The same of every level and label: levels x labels."""
        found, left = self.combined(column, by_label=True), self._left.of(column)
        spread = self._spread(found.value, np.sqrt(found.level_variances()), level)
        return within(spread, None if left is None else left.of_cells())

    def table_ranges(
        self, features: Sequence[int], level: float, *, by_label: bool
    ) -> tuple[Floats, Floats] | None:
        """Low and high of every cell of columns that were counted together, axes in the order
        given, labels last where they are asked for; else None."""
        table = self.table_of(features, by_label=by_label)
        if table is None:
            return None
        low, high, _ = self._spread(
            table.counts, np.full(table.counts.shape, math.sqrt(table.variance)), level
        )
        sizes = reduce(np.multiply.outer, [np.bincount(group_of) for group_of in table.groups])
        # a cell that stands for several combinations says nothing about the least that one of them
        # has
        low = np.where(sizes[..., None] == 1, low, 0.0)
        spot = np.ix_(*table.groups)
        low, high = low[spot], high[spot]
        return (low, high) if by_label else (low[..., 0], high[..., 0])

    def _spread(self, value: Floats, error: Floats, level: float) -> tuple[Floats, Floats, Floats]:
        width = half_width(error * error, (1 - level) / 2, self.noise)
        low, high = integer_rows(value - width, value + width)
        low, high = (np.where(error > 0, end, np.rint(value)) for end in (low, high))  # known
        return *possible(low, high, error, self._most), error

    @property
    def _most(self) -> float:
        """What no count is above: the number of rows, where it is public. The upper limit of a
        noisy one may be missed too, so a cut there would add its error to that of the count."""
        total = self._measured.total
        return math.inf if total is None else float(total)

    def open_range(self, node: Node, alpha: float) -> Range:
        """The same but for `alpha`, with ends that noise may have put below 0 or above the number
        of rows."""
        columns = columns_of(node)
        features = sorted(columns - {self.target})
        if isinstance(node, Constant):
            return self.total_range(alpha) if node.holds else Range(0.0, 0.0, 0.0)
        if not features:
            inside = cover_table(node, self._domain, sorted(columns)).inside
            value, covariance = self.label_counts()

            def labels(mask: NDArray[np.bool_]) -> tuple[float, float]:
                return float(value @ mask), float(mask @ covariance @ mask)

            return self._between(inside, inside, labels, alpha)
        if len(features) == 1:
            return self._one_column(node, features[0], alpha)
        if math.prod(self._domain.shape[one] for one in features) * self._labels <= MAX_CELLS:
            tables = self._tables_of(features, by_label=self.target in columns)
            if tables:
                return self._one_table(node, tables, alpha)
            if len(features) == 2 and self._measured.model_error is not None:
                return _narrower(
                    self._one_box(node, features, alpha / 2), self._bounds(node, alpha / 2)
                )
        return self._bounds(node, alpha)

    def _bounds(self, node: Node, alpha: float) -> Range:
        """Bounds from the parts of a conjunction or disjunction, or of a weighted sum."""
        if isinstance(node, Plane) and self._model is not None:
            return self._plane_bounds(node, alpha)
        if not isinstance(node, And | Or):
            return Range(
                0.0, self.total_range(alpha).high, self.total_range(alpha).high / 2, BOUNDS
            )
        parts = list(node.parts)
        joined = [type(node)(tuple(some)) for some in self._joined_parts(parts)]
        share = alpha / (len(parts) + len(joined) + 1)
        total = self.total_range(share)
        ranges = [self.open_range(part, share) for part in parts]
        more = [self.open_range(part, share) for part in joined]
        if isinstance(node, And):
            low = max(0.0, sum(one.low for one in ranges) - (len(parts) - 1) * total.high)
            high = min(one.high for one in [*ranges, *more])
        else:
            low = max(one.low for one in [*ranges, *more])
            high = min(total.high, sum(one.high for one in ranges))
        low = min(low, high)
        note = MODEL_ERROR if any(one.note == MODEL_ERROR for one in more) else BOUNDS
        return Range(low, high, (high - low) / (2 * quantile(alpha / 2, "gaussian")), note)

    def _plane_bounds(self, node: Plane, alpha: float) -> Range:
        """Bounds of a weighted sum from two parts of it, whatever their dependence."""
        assert self._model is not None
        first, last, ways = best_splits(node, self._domain, self._model, self._measured.tables)
        each = alpha / (3 * ways)
        total = self.total_range(each)
        low = sum(self.open_range(part, each).low for part in first) - total.high
        high = sum(self.open_range(part, each).high for part in last)
        low, high = max(0.0, low), min(total.high, high)
        high = max(low, high)
        return Range(low, high, (high - low) / (2 * quantile(alpha / 2, "gaussian")), BOUNDS)

    def model_error_bound(self, first: int, second: int, alpha: float) -> float | None:
        """Rows by which a box of two columns may be off the model, but for alpha; None when that
        was not published."""
        model_error = self._measured.model_error
        if model_error is None:
            return None
        sizes = [
            min(self._domain.axes[column].cardinality, model_error.blocks)
            for column in (first, second)
        ]
        return model_error.bound(alpha, sizes[0] * sizes[1] * self._labels)

    def lone_levels(self, column: int) -> bool:
        """Whether every level of a column is a block of its own, so that single levels are
        boxes."""
        model_error = self._measured.model_error
        return (
            model_error is not None and self._domain.axes[column].cardinality <= model_error.blocks
        )

    def _one_box(self, node: Node, features: list[int], alpha: float) -> Range:
        """The model's answer, give or take the model error of every box that the predicate is made
        of."""
        model_error = self._measured.model_error
        each = self.model_error_bound(features[0], features[1], alpha)
        assert model_error is not None
        assert self._model is not None
        assert each is not None
        first, second = (
            level_blocks(self._domain.axes[column].cardinality, model_error.blocks)
            for column in features
        )
        spreads = {
            column: self._model.spread(column, block_of)
            for column, block_of in zip(features, (first, second), strict=True)
        }
        expected = self._model.pairwise_marginals(features[0], spreads)[features[1]]
        ends = []
        for mask, wholly, sign in zip(
            self._masks(node, features), (True, False), (-1, 1), strict=True
        ):
            chosen = block_mask(mask, (first, second), wholly=wholly)
            ends.append(float(expected[chosen].sum()) + sign * each * count_boxes(chosen))
        return Range(
            ends[0],
            max(ends),
            (max(ends) - ends[0]) / (2 * quantile(alpha, "gaussian")),
            MODEL_ERROR,
        )

    def _joined_parts(self, parts: Sequence[Node]) -> list[list[Node]]:
        """Parts that fall within one measured table together, and so have a tighter range than each
        alone."""
        out: list[list[Node]] = []
        for table in self._measured.tables:
            within = {*table.columns, *([self.target] if table.by_label(self._labels) else [])}
            some = [part for part in parts if columns_of(part) <= within]
            if (
                len(some) > 1
                and len(frozenset().union(*(columns_of(part) for part in some)) - {self.target}) > 1
            ):
                out.append(some)
        if self._measured.model_error is not None and 2 < len(parts) <= MAX_PARTS:
            out += [[*two] for two in itertools.combinations(parts, 2) if self._unmeasured(*two)]
        return out

    def _unmeasured(self, first: Node, second: Node) -> bool:
        """Whether two parts speak of two columns that were not counted together."""
        columns = columns_of(first) | columns_of(second)
        features = sorted(columns - {self.target})
        return len(features) == 2 and not self._tables_of(features, by_label=self.target in columns)

    def _one_column(self, node: Node, column: int, alpha: float) -> Range:
        found = self.combined(column, by_label=self.target in columns_of(node))
        # without labels, the condition says the same of each
        inside, touched = (mask[:, : found.value.shape[1]] for mask in self._masks(node, [column]))

        def answer(mask: NDArray[np.bool_]) -> tuple[float, float]:
            chosen = mask.astype(np.float64)
            variance = found.variance(chosen)
            value = float((found.value * chosen).sum())
            return value if variance else round(value), variance

        return self._between(inside, touched, answer, alpha)

    def _one_table(self, node: Node, tables: Sequence[MeasuredTable], alpha: float) -> Range:
        """From that of some tables of the same columns whose groups the condition cuts least, and
        of these the one with least noise: both follow from what was chosen to be measured."""
        inside, touched = self._masks(node, list(tables[0].columns))

        def masks(table: MeasuredTable) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
            shape = table.counts.shape
            cell = np.ravel_multi_index(np.ix_(*table.groups), shape[:-1]).ravel()
            wholly = np.ones((math.prod(shape[:-1]), shape[-1]), dtype=np.bool_)
            partly = np.zeros_like(wholly)
            # without labels, the condition says the same of each
            np.logical_and.at(wholly, cell, inside.reshape(-1, self._labels)[:, : shape[-1]])
            np.logical_or.at(partly, cell, touched.reshape(-1, self._labels)[:, : shape[-1]])
            return wholly.reshape(shape), partly.reshape(shape)

        def cost(one: tuple[MeasuredTable, Any]) -> tuple[int, float]:
            table, (wholly, partly) = one
            cut = int(np.count_nonzero((partly & ~wholly)[np.ix_(*table.groups)]))
            return cut, table.variance * float(np.count_nonzero(partly))

        table, (wholly, partly) = min(((one, masks(one)) for one in tables), key=cost)

        def answer(mask: NDArray[np.bool_]) -> tuple[float, float]:
            return float(table.counts[mask].sum()), table.variance * float(np.count_nonzero(mask))

        return self._between(wholly, partly, answer, alpha)

    def _tables_of(self, features: Sequence[int], *, by_label: bool) -> list[MeasuredTable]:
        """What was counted of some columns together, axes in the order given, other columns summed
        out, and labels too where they are not asked for."""
        out = []
        for table in self._measured.tables:
            if not set(features) <= set(table.columns) or (
                by_label and not table.by_label(self._labels)
            ):
                continue
            places = [table.columns.index(column) for column in features]
            others = tuple(place for place in range(len(table.columns)) if place not in places)
            kept = sorted(places)
            counts = table.counts.sum(axis=others).transpose(
                [*(kept.index(place) for place in places), len(kept)]
            )
            variance = table.variance * math.prod(table.counts.shape[place] for place in others)
            if not by_label:
                variance *= counts.shape[-1]
                counts = counts.sum(axis=-1, keepdims=True)
            groups = tuple(table.groups[place] for place in places)
            out.append(MeasuredTable(tuple(features), groups, counts, variance))
        return out

    def _masks(
        self, node: Node, features: list[int]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Inside and touched over levels (x levels) x labels."""
        named = self.target is not None and self.target in columns_of(node)
        found = cover_table(
            node,
            self._domain,
            [*features, self.target] if named and self.target is not None else features,
        )
        if named:
            return found.inside, found.touched
        shape = (*found.inside.shape, self._labels)
        return np.broadcast_to(found.inside[..., None], shape), np.broadcast_to(
            found.touched[..., None], shape
        )

    def _between(
        self,
        inside: NDArray[np.bool_],
        touched: NDArray[np.bool_],
        answer: Callable[[NDArray[np.bool_]], tuple[float, float]],
        alpha: float,
    ) -> Range:
        """What lies between all of some cells and all that are touched. `answer` gives a sum over
        cells and the variance of its noise, which follows from what was chosen to be measured."""
        (least, first), (most, second) = (self._known(mask, answer) for mask in (inside, touched))
        widths = [half_width(variance, alpha / 2, self.noise) for variance in (first, second)]
        # what is known without noise is not rounded outwards
        mask_of_all = bool(inside.all())
        low = float(integer_rows(least - widths[0], least)[0]) if first else least
        high = float(integer_rows(most, most + widths[1])[1]) if second else most
        error = math.sqrt(max(0.0, first, second))
        error += max(0.0, most - least) / (2 * quantile(alpha / 2, self.noise))
        note = MEASURED if (least, first) == (most, second) else CUT
        if (self._measured.known or (self._total_known and mask_of_all)) and not error:
            note = KNOWN
        return Range(low, max(low, high), error, note)

    def _known(
        self,
        mask: NDArray[np.bool_],
        answer: Callable[[NDArray[np.bool_]], tuple[float, float]],
    ) -> tuple[float, float]:
        """A sum over cells and its variance: none has no rows, and where the number of rows is
        public all others may say it with less noise."""
        if not mask.any():
            return 0.0, 0.0
        total = self._measured.total
        if total is None:
            return answer(mask)
        if mask.all():
            return float(total), 0.0
        direct, (rest, variance) = answer(mask), answer(~mask)
        return (float(total) - rest, variance) if variance < direct[1] else direct

    def total_range(self, alpha: float) -> Range:
        """The number of rows: public, or from all tables."""
        if self._measured.total is not None:
            note = KNOWN if self._total_known else MEASURED
            return Range(float(self._measured.total), float(self._measured.total), 0.0, note)
        counts, covariance = self.label_counts()
        value, variance = float(counts.sum()), float(covariance.sum())
        width = half_width(variance, alpha / 2, self.noise)
        low, high = (float(end) for end in integer_rows(value - width, value + width))
        return Range(low, max(low, high), math.sqrt(max(0.0, variance)))

    def label_counts(self) -> tuple[Floats, Floats]:
        """The unbiased count of every label, and their covariance: 0 where public totals tell."""
        value, variance = label_estimate(
            [one for one in self._measured.columns if one is not None], self._measured.tables
        )
        plain = variance * np.eye(len(value))
        known = of_column(self._measured.known, None)
        if not known:
            return value, plain
        moves = np.array([one.cells for one in known])
        inverse = np.linalg.pinv(moves @ moves.T, rcond=1e-9, hermitian=True)
        off = np.array([float(one.rows) for one in known]) - moves @ value
        left = plain - variance * (moves.T @ inverse @ moves)
        return value + moves.T @ (inverse @ off), np.where(
            np.abs(left) > _NOTHING * variance, left, 0.0
        )

    def _combine(self, column: int, *, by_label: bool) -> Combined:
        """The unbiased counts of a column, by label or of all labels together (one place), and what
        their covariance follows from."""
        measured = self._measured.columns[column]
        assert measured is not None
        groups = [
            table.sums_for(column)
            for table in self._measured.tables
            if column in table.columns and (table.by_label(self._labels) or not by_label)
        ]
        known = of_column(self._measured.known, column)
        if not by_label:
            measured, groups = rows_alone(measured, groups)
            known = all_labels(known)
        value = least_squares(measured.counts, measured.variance, groups)
        if not known:
            return Combined(value, measured, groups, None)
        corrections = Corrections.of(known, measured.variance, groups)
        return Combined(corrections.moved(value), measured, groups, corrections)


def _narrower(first: Range, second: Range) -> Range:
    """What both ranges allow; the first where noise has put them apart."""
    low, high = max(first.low, second.low), min(first.high, second.high)
    if low > high or (first.low, first.high) == (low, high):
        return first
    note = second.note if (second.low, second.high) == (low, high) else first.note
    return Range(low, high, min(first.error, second.error), note)


# Weighted sums of columns that were not counted together: bounds from parts of them.
#
# A sum is at least b where one part of it is at least s and the other at least b - s, and only
# where one of them is, whatever the dependence of the parts (Makarov's bounds). Any s does; which
# one gives the narrowest limits the model knows.

SPLITS, SAMPLED = 33, 5_000
"""Ways to split a weighted sum in two parts, and rows of the model that choose among them."""

Way = tuple[Plane, Plane]


def best_splits(
    node: Plane, domain: Domain, model: JunctionModel, tables: Sequence[MeasuredTable]
) -> tuple[Way, Way, int]:
    """The way to split that promises the highest lower limit, the one with the lowest upper limit,
    and out of how many: limits must share their level among all of them."""
    pairs: list[tuple[int, ...]] = [
        pair
        for pair in itertools.combinations(sorted(set(node.axes) - {model.target}), 2)
        if len(node.axes) > 2 and any(set(pair) <= set(table.columns) for table in tables)
    ]
    ways = [way for chosen in pairs or [node.axes[:1]] for way in splits(node, domain, chosen)]
    codes = model.sample_codes(SAMPLED, np.random.default_rng(0))
    middle = {
        axis: np.pad(bin_means(domain.axes[axis]), (0, 2), constant_values=np.nan)[codes[axis]]
        for axis in node.axes
    }

    def held(part: Plane) -> int:
        pairs_of = zip(part.axes, part.weights, strict=True)
        return int(np.count_nonzero(sum(w * middle[axis] for axis, w in pairs_of) >= part.bound))

    shares = [held(one) + held(other) for one, other in ways]
    return ways[int(np.argmax(shares))], ways[int(np.argmin(shares))], len(ways)


def splits(node: Plane, domain: Domain, chosen: Sequence[int]) -> list[Way]:
    """Public ways to put a bound on a weighted sum down to one on some of its columns and one on
    the others."""
    weight = dict(zip(node.axes, node.weights, strict=True))
    one, other = tuple(chosen), tuple(axis for axis in node.axes if axis not in chosen)
    factors = [tuple(weight[axis] for axis in part) for part in (one, other)]
    (low, high), (least, most) = (
        least_and_most([domain.axes[axis] for axis in part], factor)
        for part, factor in zip((one, other), factors, strict=True)
    )
    ends = max(low, node.bound - most), min(high, node.bound - least)
    return [
        (Plane(one, factors[0], at, False), Plane(other, factors[1], node.bound - at, node.strict))
        for at in np.linspace(*ends, SPLITS).tolist()
    ]
