"""A look after cutting, for several columns: how wrong would PrivTree's boxes be for boxes that end
inside them?

Rows that heap on some values (round numbers, whole hours) make all boxes along an edge wrong in the
same direction, which adds up, and no count of a box shows it. So the error itself is measured: for
a public list of questions, what the true counts of the tree's boxes would answer, against the
truth. A row counts only for questions that cut its box, and boxes that many questions cut are left
out: then one row moves the sum by little. The law is in interval_tree.proof.md, theorem 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpublish.declare.grid import Boxes, TreeShape
from dpublish.methods.base import SparseCounts
from dpublish.methods.interval_tree.pilot import CLEAR_GAIN, MEAN_OF_NORMAL, SMALLER_PART
from dpublish.models.hierarchical_counts import spread_points
from dpublish.models.thresholded_counts import laplace_cumulants
from dpublish.noise.base import IntArray, Noise

QUESTIONS = 192
UNIT = 1 << 10
"""Shares of a box are whole numbers of this part, so that all sums are exact."""
MOST_CUTS = QUESTIONS // 4
"""A box that more questions cut is left out: it is wide, stayed whole because it holds few rows,
and would cost sensitivity."""
CHUNK = 1 << 22


@dataclass(frozen=True)
class BoxBias:
    """The public side of a look: questions with whole ends, the boxes that count, and how many
    questions cut one of them."""

    shape: TreeShape
    boxes: Boxes
    low: IntArray
    high: IntArray
    counted: IntArray
    cuts: int
    level_sensitivity: Fraction

    @classmethod
    def of(cls, shape: TreeShape, boxes: Boxes, level_sensitivity: Fraction) -> BoxBias:
        columns = len(shape.grids)
        points = np.sort(
            spread_points(QUESTIONS, 2 * columns).reshape(QUESTIONS, columns, 2), axis=2
        )
        limits = np.array([grid.positions for grid in shape.grids], dtype=np.float64)
        low, high = (np.rint(points[:, :, side] * limits).astype(np.int64) for side in (0, 1))
        cuts = np.zeros(len(boxes), dtype=np.int64)
        made = cls(
            shape, boxes, low, high, np.ones(len(boxes), dtype=np.int64), 0, level_sensitivity
        )
        for start, stop in made.chunks(len(boxes)):
            share = made.shares(start, stop)
            cuts += ((share > 0) & (share < UNIT)).sum(axis=0)
        counted = cuts <= MOST_CUTS
        most = int(cuts[counted].max(initial=0))
        return cls(shape, boxes, low, high, counted.astype(np.int64), most, level_sensitivity)

    @property
    def sensitivity(self) -> Fraction:
        """How far a privacy unit can move the total."""
        return self.level_sensitivity * UNIT * self.cuts

    @staticmethod
    def chunks(width: int) -> list[tuple[int, int]]:
        step = max(1, CHUNK // max(1, width))
        return [(start, min(start + step, QUESTIONS)) for start in range(0, QUESTIONS, step)]

    def shares(self, start: int, stop: int) -> IntArray:
        """How much of each box lies in each question, in parts of `UNIT`: 0 and `UNIT` mean none
        and all of it."""
        low, high = (
            self.low[start:stop].astype(np.float64),
            self.high[start:stop].astype(np.float64),
        )
        real = self.shape.shares(self.boxes, low, high)
        # a cut box is never rounded to a whole or an empty one
        inner = np.clip(np.rint(real * UNIT).astype(np.int64), 1, UNIT - 1)
        return np.asarray(np.where(real <= 0, 0, np.where(real >= 1, UNIT, inner)), dtype=np.int64)

    def total(self, points: SparseCounts) -> int:
        """The sum over all questions of the distance between both answers, in parts of `UNIT` of a
        row."""
        first, _ = self.shape.spans(self.boxes)
        owner = np.searchsorted(first, points.cells, side="right") - 1
        depth = np.full(points.cells.size, self.shape.depth, dtype=np.int64)
        places, _ = self.shape.corners(Boxes(depth, points.cells))
        rows = points.counts * self.counted[owner]
        held = np.zeros(len(self.boxes), dtype=np.int64)
        np.add.at(held, owner, rows)
        found = 0
        for start, stop in self.chunks(max(len(self.boxes), points.cells.size)):
            inside = np.ones((stop - start, points.cells.size), dtype=np.bool_)
            for axis, place in enumerate(places):
                inside &= (place >= self.low[start:stop, axis, None]) & (
                    place < self.high[start:stop, axis, None]
                )
            answered = self.shares(start, stop) @ held
            truth = inside @ rows
            found += int(np.abs(answered - UNIT * truth).sum())
        return found


def cells_fit_better(
    noise: Noise,
    points: SparseCounts,
    bias: BoxBias,
    epsilon: Fraction,
    *,
    spreads: tuple[float, float],
    scale: Fraction,
) -> bool:
    """Measure the bias and decide.

    `spreads` are what questions cost in the tree's boxes and in single cells, for noise of variance
    1; `scale` is the noise.
    """
    lost = 0.0
    if bias.cuts:
        total = np.array([bias.total(points)], dtype=np.int64)
        told = noise.laplace(
            total, sensitivity=bias.sensitivity, epsilon=epsilon, label="look: misfit"
        )
        lost = max(0.0, int(told[0]) / (UNIT * QUESTIONS))
    tree, cells = (
        MEAN_OF_NORMAL * spread * math.sqrt(laplace_cumulants(scale)[0]) for spread in spreads
    )
    return CLEAR_GAIN * cells < max(tree, lost) + SMALLER_PART * min(tree, lost)
