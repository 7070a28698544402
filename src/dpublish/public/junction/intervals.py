"""Intervals of counts from the measured tables, whatever the model says.

A count over one column, over the target, or over a measured pair has an unbiased estimate and a known variance. Every other
count is bounded by such counts: a conjunction by its parts (Frechet's bounds), and so on. These bounds hold for any table
that has the measured margins, so that they contain the misfit of the model; the errors of the parts share the level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpublish.domain import Domain
from dpublish.errors import QueryError
from dpublish.public.junction.cover import cover_table
from dpublish.public.junction.fit import MeasuredColumn, MeasuredPair, label_estimate
from dpublish.public.junction.margins import Floats, GroupSums, Ints, least_squares, solve_precision
from dpublish.public.junction.measured import Measured
from dpublish.public.predicate import All, Any, Constant, Node, columns_of

MAX_CELLS = 1 << 22
_DENSE = 1500


@dataclass(frozen=True)
class Range:
    """An interval, and the standard error of its middle."""

    low: float
    high: float
    error: float


def quantile(alpha: float, noise: str) -> float:
    """Standard deviations that a sum of noise terms stays within, on one side, but for alpha.

    Sums of Laplace terms lie between one Laplace term and a normal variable; the wider of the two is taken.
    """
    from scipy.stats import norm

    normal = float(norm.isf(alpha))
    return normal if noise == "gaussian" else max(normal, -math.log(2 * alpha) / math.sqrt(2))


class Intervals:
    """Answers `range_of(predicate)` from what was measured."""

    def __init__(self, measured: Measured, domain: Domain) -> None:
        self._measured, self._domain = measured, domain
        self._target, self._labels = measured.target, measured.labels
        self._pairs = {frozenset((pair.first, pair.second)): pair for pair in measured.pairs}
        self._combined = cache(self._combine)

    def range_of(self, node: Node, level: float) -> Range:
        if not 0 < level < 1:
            raise QueryError(f"level must lie between 0 and 1, not {level}.")
        found = self._range(node, 1 - level)
        top = self._total(1 - level).high
        return Range(max(0.0, min(found.low, top)), max(0.0, min(found.high, top)), found.error)

    def column_ranges(self, column: int, level: float) -> tuple[Floats, Floats, Floats]:
        """Low, high and standard error of every level of a column (of every label, for the target)."""
        if column == self._target:
            value, variance = self._label_estimate()
            error = np.full(len(value), math.sqrt(variance))
        else:
            value, deviations = self._levels(column)
            value, error = value.sum(axis=1), deviations * math.sqrt(self._labels)
        return self._spread(value, error, level)

    def column_label_ranges(self, column: int, level: float) -> tuple[Floats, Floats, Floats]:
        """The same of every level and label: levels x labels."""
        value, deviations = self._levels(column)
        return self._spread(value, np.broadcast_to(deviations[:, None], value.shape), level)

    def pair_ranges(self, first: int, second: int, level: float) -> tuple[Floats, Floats] | None:
        """Low and high of every cell of a measured pair with the label, seen with `first` first; None for other pairs."""
        pair = self._pairs.get(frozenset((first, second)))
        if pair is None:
            return None
        low, high, _ = self._spread(pair.counts, np.full(pair.counts.shape, math.sqrt(pair.variance)), level)
        sizes = np.outer(np.bincount(pair.first_groups), np.bincount(pair.second_groups))
        # a cell that stands for several combinations says nothing about the least that one of them has
        low = np.where(sizes[:, :, None] == 1, low, 0.0)
        spot = np.ix_(pair.first_groups, pair.second_groups)
        fine = low[spot], high[spot]
        return fine if first == pair.first else (fine[0].transpose(1, 0, 2), fine[1].transpose(1, 0, 2))

    def _spread(self, value: Floats, error: Floats, level: float) -> tuple[Floats, Floats, Floats]:
        top = self._total(1 - level).high
        width = quantile((1 - level) / 2, self._measured.noise) * error
        return np.clip(value - width, 0.0, top), np.clip(value + width, 0.0, top), error

    def _range(self, node: Node, alpha: float) -> Range:
        columns = columns_of(node)
        features = sorted(columns - {self._target})
        if isinstance(node, Constant):
            return self._total(alpha) if node.holds else Range(0.0, 0.0, 0.0)
        if not features:
            inside = cover_table(node, self._domain, sorted(columns)).inside
            value, variance = self._label_estimate()
            return self._linear(float(value @ inside), variance * float(np.count_nonzero(inside)), alpha)
        if len(features) == 1:
            return self._one_column(node, features[0], alpha)
        pair = self._pairs.get(frozenset(features)) if len(features) == 2 else None
        if pair is not None and self._cells(features) <= MAX_CELLS:
            return self._one_pair(node, pair, alpha)
        return self._bounds(node, alpha)

    def _bounds(self, node: Node, alpha: float) -> Range:
        """Bounds from the parts of a conjunction or disjunction."""
        if not isinstance(node, All | Any):
            return Range(0.0, self._total(alpha).high, self._total(alpha).high / 2)
        parts = list(node.parts)
        joined = [type(node)(tuple(some)) for some in self._joined_parts(parts)]
        share = alpha / (len(parts) + len(joined) + 1)
        total = self._total(share)
        ranges = [self._range(part, share) for part in parts]
        more = [self._range(part, share) for part in joined]
        if isinstance(node, All):
            low = max(0.0, sum(one.low for one in ranges) - (len(parts) - 1) * total.high)
            high = min(one.high for one in [*ranges, *more])
        else:
            low = max(one.low for one in [*ranges, *more])
            high = min(total.high, sum(one.high for one in ranges))
        low = min(low, high)
        return Range(low, high, (high - low) / (2 * quantile(alpha / 2, "gaussian")))

    def _joined_parts(self, parts: Sequence[Node]) -> list[list[Node]]:
        """Parts that fall within one measured pair together, and so have a tighter range than each alone."""
        out = []
        for pair in self._measured.pairs:
            within = {pair.first, pair.second, self._target}
            some = [part for part in parts if columns_of(part) <= within]
            if len(some) > 1 and frozenset().union(*(columns_of(part) for part in some)) >= {pair.first, pair.second}:
                out.append(some)
        return out

    def _one_column(self, node: Node, column: int, alpha: float) -> Range:
        inside, touched = self._masks(node, [column])
        value, groups, measured = self._combined(column)

        def answer(mask: NDArray[np.bool_]) -> tuple[float, float]:
            chosen = mask.astype(np.float64)
            variance = float((chosen * solve_precision(chosen, measured.variance, groups)).sum())
            return float((value * chosen).sum()), variance

        return self._between(answer(inside), answer(touched), alpha)

    def _one_pair(self, node: Node, pair: MeasuredPair, alpha: float) -> Range:
        inside, touched = self._masks(node, [pair.first, pair.second])
        shape = pair.counts.shape[:2]
        cell = (pair.first_groups[:, None] * shape[1] + pair.second_groups[None, :]).ravel()
        wholly = np.ones((shape[0] * shape[1], self._labels), dtype=np.bool_)
        partly = np.zeros_like(wholly)
        np.logical_and.at(wholly, cell, inside.reshape(-1, self._labels))
        np.logical_or.at(partly, cell, touched.reshape(-1, self._labels))

        def answer(mask: NDArray[np.bool_]) -> tuple[float, float]:
            chosen = mask.reshape(pair.counts.shape)
            return float(pair.counts[chosen].sum()), pair.variance * float(np.count_nonzero(chosen))

        return self._between(answer(wholly), answer(partly), alpha)

    def _masks(self, node: Node, features: list[int]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Inside and touched over levels (x levels) x labels."""
        named = self._target is not None and self._target in columns_of(node)
        found = cover_table(node, self._domain, [*features, self._target] if named and self._target is not None else features)
        if named:
            return found.inside, found.touched
        shape = (*found.inside.shape, self._labels)
        return np.broadcast_to(found.inside[..., None], shape), np.broadcast_to(found.touched[..., None], shape)

    def _between(self, inside: tuple[float, float], touched: tuple[float, float], alpha: float) -> Range:
        width = quantile(alpha / 2, self._measured.noise)
        errors = [math.sqrt(max(0.0, variance)) for _, variance in (inside, touched)]
        low, high = inside[0] - width * errors[0], touched[0] + width * errors[1]
        return Range(low, max(low, high), max(errors) + max(0.0, touched[0] - inside[0]) / (2 * width))

    def _linear(self, value: float, variance: float, alpha: float) -> Range:
        error = math.sqrt(variance)
        width = quantile(alpha / 2, self._measured.noise) * error
        return Range(value - width, value + width, error)

    def _total(self, alpha: float) -> Range:
        if self._measured.total is not None:
            return Range(float(self._measured.total), float(self._measured.total), 0.0)
        value, variance = self._label_estimate()
        return self._linear(float(value.sum()), variance * len(value), alpha)

    def _label_estimate(self) -> tuple[Floats, float]:
        return label_estimate([one for one in self._measured.columns if one is not None], self._measured.pairs)

    def _combine(self, column: int) -> tuple[Floats, list[GroupSums], MeasuredColumn]:
        measured = self._measured.columns[column]
        assert measured is not None
        groups = [pair.sums_for(column) for pair in self._measured.pairs if column in (pair.first, pair.second)]
        return least_squares(measured.counts, measured.variance, groups), groups, measured

    def _levels(self, column: int) -> tuple[Floats, Floats]:
        """The unbiased estimate of a column by label, and the standard error of a level."""
        value, groups, measured = self._combined(column)
        levels = value.shape[0]
        if not groups or levels > _DENSE:
            return value, np.full(levels, math.sqrt(measured.variance))
        precision = np.eye(levels) / measured.variance
        for one in groups:
            precision += (one.group_of[:, None] == one.group_of[None, :]) / one.variance
        return value, np.sqrt(np.diag(np.linalg.inv(precision)))

    def _cells(self, features: Sequence[int]) -> int:
        return math.prod(self._domain.axes[column].cardinality for column in features) * self._labels


def rank_codes(shape: Sequence[int]) -> list[Ints]:
    """The codes of all cells of a table, one array an axis."""
    return [code.astype(np.int64) for code in np.unravel_index(np.arange(math.prod(shape)), tuple(shape))]
