"""From measured tables to the model: labels first, then every column, then every pair, each made to agree with the last.

This is post-processing of published numbers. The least-squares step is unbiased and keeps its precision, which is what the
intervals are made of; the steps to non-negative counts come after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpublish.public.junction.margins import Floats, GroupSums, Ints, fit_margins, least_squares, onto_simplex, sum_groups
from dpublish.public.junction.model import JunctionModel, Pair


@dataclass(frozen=True)
class MeasuredColumn:
    """Noisy counts of a column by label (levels x labels), each with the same noise variance."""

    counts: Floats
    variance: float


@dataclass(frozen=True)
class MeasuredPair:
    """Noisy counts of two columns by label over groups of levels."""

    first: int
    second: int
    first_groups: Ints
    second_groups: Ints
    counts: Floats
    variance: float

    def sums_for(self, column: int) -> GroupSums:
        """What the pair says about one of its columns alone."""
        other = 1 if column == self.first else 0
        group_of = self.first_groups if column == self.first else self.second_groups
        return GroupSums(group_of, self.counts.sum(axis=other), self.variance * self.counts.shape[other])


def fit_model(
    columns: Sequence[MeasuredColumn | None], pairs: Sequence[MeasuredPair], *, target: int | None, total: int | None
) -> JunctionModel:
    """The joined model. `columns[target]` is None; `total` is the public number of rows, where there is one."""
    labels = fit_labels([column for column in columns if column is not None], pairs, total)
    singles = [
        np.diag(labels)
        if column is None
        else fit_column(column, [pair.sums_for(index) for pair in pairs if index in (pair.first, pair.second)], labels)
        for index, column in enumerate(columns)
    ]
    return JunctionModel(labels, singles, [fit_pair(pair, singles, labels) for pair in pairs], target=target)


def fit_labels(columns: Sequence[MeasuredColumn], pairs: Sequence[MeasuredPair], total: int | None) -> Floats:
    """Rows of each label: every table has its own noisy answer, and they are averaged by precision."""
    value, _ = label_estimate(columns, pairs)
    if total is not None:
        return onto_simplex(value[:, None], np.array([float(total)]))[:, 0]
    return np.maximum(0.0, value)


def label_estimate(columns: Sequence[MeasuredColumn], pairs: Sequence[MeasuredPair]) -> tuple[Floats, float]:
    """The unbiased estimate of the rows of each label, and its variance."""
    answers = [(one.counts.sum(axis=0), one.variance * one.counts.shape[0]) for one in columns]
    answers += [(one.counts.sum(axis=(0, 1)), one.variance * one.counts.shape[0] * one.counts.shape[1]) for one in pairs]
    precision = sum(1 / variance for _, variance in answers)
    value = sum((answer / variance for answer, variance in answers), start=np.zeros(answers[0][0].shape))
    return value / precision, 1 / precision


def fit_column(column: MeasuredColumn, more: Sequence[GroupSums], labels: Floats) -> Floats:
    """Non-negative counts of a column by label that add up to the rows of each label."""
    best = least_squares(column.counts, column.variance, more)
    return onto_simplex(best, labels)


def fit_pair(pair: MeasuredPair, singles: Sequence[Floats], labels: Floats) -> Pair:
    """The table of a pair, shrunk towards independence as far as its noise calls for, non-negative, and with the margins
    that its two columns have."""
    first = sum_groups(singles[pair.first], pair.first_groups, pair.counts.shape[0])
    second = sum_groups(singles[pair.second], pair.second_groups, pair.counts.shape[1])
    sums = np.where(labels > 0, labels, 1.0)
    independent = first[:, None, :] * second[None, :, :] / sums
    table = shrink(pair.counts, independent, pair.variance)
    flat = onto_simplex(table.reshape(-1, len(labels)), labels).reshape(table.shape)
    # a little of the independent table keeps proportional fitting from being stuck at zeros
    fitted = fit_margins(flat + 1e-3 * independent, first, second)
    return Pair(pair.first, pair.second, pair.first_groups, pair.second_groups, fitted)


def shrink(counts: Floats, independent: Floats, variance: float) -> Floats:
    """The measured table moved towards the independent one: the positive-part rule of James and Stein, a label at a time."""
    away = counts - independent
    cells = away.shape[0] * away.shape[1]
    size = (away * away).sum(axis=(0, 1))
    keep = np.maximum(0.0, 1.0 - max(0, cells - 2) * variance / np.where(size > 0, size, 1.0))
    shrunk: Floats = independent + keep * away
    return shrunk
