"""How wrong a finished model is, at worst over boxes of pairs that were not counted: one number,
and its noise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.methods.draws import noisy_counts
from dpublish.methods.joined_histograms.structure import Edge, Labelled
from dpublish.models.junction_tree.model import JunctionModel
from dpublish.models.junction_tree.model_error import UNIT, level_blocks
from dpublish.noise.base import Noise
from dpublish.privacy.budget_split import BudgetSplit

MAX_BLOCKS = 64
_WORK = 10**9
_LARGEST_CELL = 1 << 46
"""No cell of the model counts for more, in units: sums over the 64 x 64 blocks of a pair and 16
labels must stay in 64 bits."""


def block_limit(columns: int, labels: int) -> int:
    """Into how many blocks the levels of a column are put at most: from public sizes, so that the
    search stays short."""
    pairs = max(1, columns * (columns - 1) // 2)
    return int(np.clip((2 * _WORK / (pairs * (labels + 1))) ** (1 / 3), 8, MAX_BLOCKS))


def largest_model_error(
    rows: Labelled, model: JunctionModel, columns: Sequence[int], counted: set[Edge], limit: int
) -> int:
    """The largest error over boxes, in units of 1/256 row. Moves by at most one row's units per row
    that comes or goes."""
    from dpublish.methods.joined_histograms.kernels import largest_box

    blocks = {column: level_blocks(rows.levels[column], limit) for column in columns}
    coded = {column: rows.grouped(column, blocks[column]) for column in columns}
    spreads = {column: model.spread(column, blocks[column]) for column in columns}
    largest = 0
    for first, second, expected in model.pairs(spreads, skip=counted):
        shape = (_count(blocks[first]), _count(blocks[second]))
        counts = rows.count_pair(coded[first], coded[second], shape).reshape(*shape, rows.labels)
        apart = UNIT * counts - integer_units(expected)
        layers = [np.ascontiguousarray(apart[:, :, label]) for label in range(rows.labels)]
        for layer in (sum(layers[1:], start=layers[0]), *(layers if rows.labels > 1 else ())):
            largest = max(largest, int(largest_box(layer)))
    return largest


def integer_units(expected: Floats) -> Ints:
    """A published table in whole units."""
    limited = np.clip(np.nan_to_num(np.rint(UNIT * expected), nan=0.0), 0, _LARGEST_CELL)
    return np.asarray(limited, dtype=np.int64)


def publish_model_error(
    noise: Noise, budget: BudgetSplit, model_error: int, share: Fraction
) -> tuple[int, Fraction]:
    """The noisy number, in units, and the scale of its noise."""
    # a box gains at most the rows that come and loses at most the rows that go: c, under either
    # relation
    sensitivity = Fraction(UNIT * budget.relation.max_rows)
    noisy = noisy_counts(
        noise,
        budget,
        np.array([model_error], dtype=np.int64),
        share=share,
        sensitivity=sensitivity,
        label="misfit",
    )
    return int(noisy[0]), budget.scale_for(sensitivity, share)


def _count(group_of: Ints) -> int:
    return int(group_of.max()) + 1
