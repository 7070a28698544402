"""What a projected histogram is expected to be like, in numbers and words, and where another method
is likely to serve better: from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpublish.declare.domain import MAX_CELLS, Domain
from dpublish.errors import PlanError
from dpublish.methods.draws import smallest_threshold, survival_probability, visible_count
from dpublish.methods.histogram.mechanism import THRESHOLD_FOLLOWS
from dpublish.methods.projected_histogram.column_count import ColumnCount
from dpublish.methods.projected_histogram.discernibility import fitting_columns
from dpublish.methods.projected_histogram.mechanism import (
    ProjectedHistogram,
    ProjectedSettings,
    ScoreName,
)

PLENTY, PLENTY_WHERE_PLAIN = 400, 150
PLAIN_COLUMNS, PLAIN_FEATURES = 20, 1.5
"""Rows times epsilon per feature above which a classifier of all columns is as good or better,
where more columns are declared than may be chosen. The second holds where half of them would be
left out, and they are few, and most of them one feature (a number, or two levels): a cut number
loses what a linear model keeps, and among few columns a single one that matters is seldom hidden.
By `python -m benchmarks.defaults warnings`."""
ENOUGH_FOR_MANY = 50
"""The same where many columns matter, which only the owner can tell (`... defaults many`)."""
ENOUGH_ON_AVERAGE = 200
"""Above this the classifier is ahead on average, whichever it is (`... defaults many --both`)."""


def expectations(settings: ProjectedSettings, count: ColumnCount) -> dict[str, Any]:
    """Expected support, for the smallest and largest domain that may be chosen (the paper's
    equations 6 and 7)."""
    *levels, labels = settings.domain.shape
    levels.sort()
    smallest = math.prod(levels[: count.least]) * labels
    largest = math.prod(levels[len(levels) - count.most :]) * labels
    if settings.stop_cells is not None:
        span = [levels[i] for i in fitting_columns(levels, (), settings.stop_cells)]
        smallest = min(span, default=1) * labels
        largest = min(largest, max(settings.stop_cells, min(span, default=1)) * labels)
    if largest > MAX_CELLS:
        raise PlanError(
            f"{count.most} columns may span {largest:.3g} cells; at most 2^63 can be published. "
            "Choose a smaller k, leave out the candidates with most levels, or give numeric "
            "columns fewer bins."
        )
    scale, threshold, rows = settings.scale, settings.threshold, settings.rows
    sizes: dict[str, Any] = {"domain_size_low": smallest, "domain_size_high": largest}
    if rows is not None:
        sizes["rows_per_cell_low"] = rows / (largest / labels)
        sizes["rows_per_cell_high"] = rows / (smallest / labels)
    if threshold is None:
        return sizes
    survive = survival_probability(scale, threshold)
    if largest * survive > settings.max_support:
        needed = smallest_threshold(scale, largest, settings.max_support)
        raise PlanError(
            f"The {count.most} widest columns span {largest:,} cells, of which about "
            f"{largest * survive:,.0f} empty ones would pass the threshold {threshold} by noise "
            f"alone; at most {settings.max_support:,} fit (max_support). Choose a smaller k, fewer "
            f"bins, or a higher threshold (a larger threshold_factor, or threshold = {needed})."
        )
    occupied = None if rows is None else min(largest, rows)
    return {
        **sizes,
        "survival_probability": survive,
        "expected_false_cells_low": smallest * survive,
        "expected_false_cells_high": largest * survive,
        "expected_support_low": smallest * survive,
        "expected_support_high": None
        if occupied is None
        else occupied + (largest - occupied) * survive,
        "visible_count": visible_count(scale, threshold),
    }


def expected_sentences(
    method: ProjectedHistogram, settings: ProjectedSettings, expected: Mapping[str, Any]
) -> list[str]:
    if settings.threshold is None:
        return [THRESHOLD_FOLLOWS]
    held = []
    if settings.rows is not None:
        low, high = expected["rows_per_cell_low"], expected["rows_per_cell_high"]
        held = [
            f"A cell of the chosen columns is expected to hold {low:,.0f} to {high:,.0f} of "
            f"{settings.rows:,} rows on average, all labels together."
        ]
    by_factor = f" ({float(settings.threshold_factor):g} ln n / epsilon)"
    return [
        *held,
        f"The chosen columns and the target span {expected['domain_size_low']:,} to "
        f"{expected['domain_size_high']:,} cells. Those with a noisy count of "
        f"{settings.threshold} or less are left out"
        f"{by_factor if method.threshold is None else ''}.",
        f"Expect {expected['expected_false_cells_low']:,.1f} to "
        f"{expected['expected_false_cells_high']:,.1f} empty cells to appear by noise; a cell "
        f"needs a true count of about {expected['visible_count']} to appear with 95% probability.",
    ]


def choice_sentences(settings: ProjectedSettings, count: ColumnCount) -> list[str]:
    """Where choices are little better than random ones. That is no reason to take another method:
    on tables so small the others that were tried do no better."""
    columns, rows = len(settings.domain.axes) - 1, settings.rows
    epsilon = float(settings.selection_epsilon)
    if rows is None or epsilon == 0 or settings.selection_score == "discernibility":
        return []
    # a choice by rows told right is off by about this share of the rows
    noise = 2 * float(settings.score.sensitivity) * count.most / epsilon
    if noise * math.log(max(2, columns)) <= rows:
        return []
    return [
        f"With {rows:,} rows the choice among {columns} columns is little better than a random "
        "one. Name the few candidates that matter, or count over columns of your choice with "
        "histogram."
    ]


@dataclass(frozen=True)
class Room:
    """Rows times epsilon per feature of a linear model of all columns; whether most columns are one
    feature each; whether they are few, with half of them left out; whether most are numbers."""

    plenty: float
    plain: bool
    few: bool
    numbers: bool

    @property
    def for_all(self) -> bool:
        return self.plenty > (PLENTY_WHERE_PLAIN if self.plain and self.few else PLENTY)

    @property
    def for_many(self) -> bool:
        """Whether a classifier of all columns is better where many of them say a little."""
        return self.plenty > ENOUGH_FOR_MANY and not self.for_all

    @property
    def on_average(self) -> bool:
        """Whether it is ahead on average, over tables where many matter and tables where few do."""
        return self.plenty > ENOUGH_ON_AVERAGE and self.for_many


def room_for_all(settings: ProjectedSettings, count: ColumnCount) -> Room | None:
    """None where the rows are not public, or nothing is chosen by what predicts."""
    *axes, label = settings.domain.axes
    rows, free = settings.rows, settings.selection_epsilon == 0
    if rows is None or free or settings.selection_score == "discernibility":
        return None
    if len(axes) <= count.most:
        return None
    paid = float(
        settings.selection_epsilon
        + settings.cell_epsilon
        + settings.count_epsilon
        + (0 if settings.search is None else settings.search.epsilon)
    )
    features = 1 + sum(1 if axis.ordered else axis.cardinality - 1 for axis in axes)
    return Room(
        rows * paid / features / (1 if label.base == 2 else label.base),
        features - 1 <= PLAIN_FEATURES * len(axes),
        2 * count.most <= len(axes) <= PLAIN_COLUMNS,
        2 * sum(axis.ordered for axis in axes) > len(axes),
    )


def service_warnings(settings: ProjectedSettings, count: ColumnCount) -> list[str]:
    """Where, by public facts, another method is likely to serve better (benchmarks/defaults)."""
    room, columns = room_for_all(settings, count), len(settings.domain.axes) - 1
    if room is None or not room.for_all:
        return []
    return [
        f"There are rows enough for all {columns} columns ({room.plenty:,.0f} n epsilon per "
        f"feature), of which at most {count.most} are published here. To predict "
        f"'{settings.target}', private-classifier is likely to be as good or better; "
        "joined-histograms publish all columns."
    ]


def service_sentences(settings: ProjectedSettings, count: ColumnCount) -> list[str]:
    """Where it depends on how many columns matter, which no public fact tells: no warning, as most
    of those would be wrong where few do (`python -m benchmarks.defaults many`)."""
    room, columns = room_for_all(settings, count), len(settings.domain.axes) - 1
    if room is None or not room.for_many:
        return []
    otherwise = "either may be better" if room.numbers else "these are about as good or better"
    unsure = "If you cannot tell, take private-classifier: with so many rows it leads on average."
    two = settings.domain.axes[-1].base == 2
    return [
        f"If many of the {columns} columns say a little about '{settings.target}', "
        f"private-classifier is likely to be better than the {count.most} at most that are "
        f"published here; if a few of them say most of it, {otherwise}.",
        *([unsure] if room.on_average and two else []),
    ]


def warnings_for(settings: ProjectedSettings, count: ColumnCount) -> list[str]:
    if settings.selection_epsilon > 0 or count.least >= len(settings.domain.axes) - 1:
        return []
    return ["gamma = 1 leaves nothing for choosing: the columns are drawn at random."]


def level_warnings(score: ScoreName, count: ColumnCount, domain: Domain) -> list[str]:
    widest = max(domain.axes[:-1], key=lambda axis: axis.cardinality)
    if score != "discernibility" or widest.cardinality < 50 or count.least >= len(domain.axes) - 1:
        return []
    return [
        f"score = 'discernibility' favours columns with many levels, such as '{widest.name}' "
        f"({widest.cardinality}). For prediction, consider score = 'prediction', or leave such "
        "columns out of the candidates."
    ]
