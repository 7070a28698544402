"""A cheap look before cutting: would PrivTree's boxes serve ranges better than counting every
position?

Two numbers are measured with a small share of epsilon: about how many boxes PrivTree would split,
and how uneven the boxes are that it would leave whole. Both are sums over a binary tree of terms
that one point moves by at most 1 a level, so their noise is small beside what they decide. The law
is in interval_tree.proof.md, theorem 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.grid import Boxes, TreeShape
from dpublish.declare.statistic import Private, SparseCounts
from dpublish.models.hierarchical_counts import best_for_ranges, spread_points
from dpublish.models.noisy_counts import laplace_cumulants
from dpublish.noise.base import Noise

# Three ways to cut a grid into boxes: PrivTree, the thesis's binary search, and equal cells.
#
# All work on the sorted codes of the points, so that the count of a box is two binary searches.
# Every private number leaves through a tap of `noise`. The laws are proved in
# interval_tree.proof.md.

LN2_ABOVE = Fraction(69_314_718_056, 10**11)
"""At least ln 2: rounding the decay up is on the safe side."""


@dataclass(frozen=True)
class Calibration:
    """PrivTree's noise: `scale` of every decision, `decay` a level; `sensitivity` is the L1 change
    of one level's scores."""

    scale: Fraction
    decay: int
    sensitivity: Fraction

    @classmethod
    def of(cls, epsilon: Fraction, *, fanout: int, rows: int, replace: bool) -> Calibration:
        """Noise that makes the tree epsilon-private when a unit adds or removes `rows` points
        (replace: both)."""
        one_point = Fraction(2 * fanout - 1, fanout - 1) + (1 if replace else 0)
        scale = one_point * rows / epsilon
        levels = (fanout - 1).bit_length()
        decay = -((-scale * levels * LN2_ABOVE) // 1)
        return cls(scale, max(1, int(decay)), Fraction(rows * (2 if replace else 1)))

    @property
    def epsilon(self) -> Fraction:
        """What a tap is told, so that its scale is `scale`."""
        return self.sensitivity / self.scale


class BoxCounts(Private):
    """Counts of boxes of one shape over given points."""

    def __init__(self, shape: TreeShape, points: SparseCounts) -> None:
        self._shape = shape
        self._cells = points.cells
        self._below = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(points.counts)])

    def of(self, boxes: Boxes) -> Ints:
        first, after = self._shape.spans(boxes)
        low, high = np.searchsorted(self._cells, first), np.searchsorted(self._cells, after)
        return np.asarray(self._below[high] - self._below[low])


def priv_tree(noise: Noise, counts: BoxCounts, shape: TreeShape, calibration: Calibration) -> Boxes:
    """Split a box while its noisy, depth-discounted count is above 0; the boxes that are left, in
    order."""
    boxes, done = shape.root(), []
    floor = -calibration.decay
    for level in range(shape.depth):
        scores = np.maximum(counts.of(boxes) - level * calibration.decay, floor)
        noisy = noise.laplace(
            scores,
            sensitivity=calibration.sensitivity,
            epsilon=calibration.epsilon,
            label=f"split at depth {level}",
        )
        split = noisy > 0
        done.append(Boxes(boxes.depth[~split], boxes.prefix[~split]))
        boxes = shape.children(Boxes(boxes.depth[split], boxes.prefix[split]))
        if not len(boxes):
            break
    return in_order(shape, [*done, boxes])


def binary_search(
    noise: Noise,
    counts: BoxCounts,
    shape: TreeShape,
    *,
    queries: int,
    split_above: int,
    scale: Fraction,
    sensitivity: Fraction,
) -> Boxes:
    """The thesis's search: ask for the parts of a box, split those above a fixed count, until
    `queries` are used up.

    `scale` is the noise of each answer, for a share 1 / queries of epsilon.
    """
    waiting, left, done = shape.root(), queries, []
    answers = np.full(1, np.iinfo(np.int64).max)
    for _ in range(shape.depth):
        split = answers > split_above
        split &= np.cumsum(np.where(split, shape.fanout, 0)) <= left
        done.append(Boxes(waiting.depth[~split], waiting.prefix[~split]))
        waiting = shape.children(Boxes(waiting.depth[split], waiting.prefix[split]))
        if not len(waiting):
            break
        # a tap sees all queries of one level at once, so its sensitivity is that of the level
        answers = noise.laplace(
            counts.of(waiting),
            sensitivity=sensitivity,
            epsilon=sensitivity / scale,
            label=f"queries at depth {int(waiting.depth[0])}",
        )
        left -= len(waiting)
    return in_order(shape, [*done, waiting])


def equal_cells(shape: TreeShape, depth: int) -> Boxes:
    """All boxes of one depth. A public list."""
    boxes = shape.root()
    for _ in range(depth):
        boxes = shape.children(boxes)
    return boxes


def in_order(shape: TreeShape, parts: list[Boxes]) -> Boxes:
    boxes = Boxes(
        np.concatenate([part.depth for part in parts]),
        np.concatenate([part.prefix for part in parts]),
    )
    first, _ = shape.spans(boxes)
    order = np.argsort(first, kind="stable")
    return Boxes(boxes.depth[order], boxes.prefix[order])


FIRST_LEVEL = 5
"""Unevenness is summed from this level on: the few wide boxes above would cost most of the
sensitivity and say little."""
REACH = 4
"""How many scales above its threshold a box may still be left whole by the noise of its
decision."""
CLEAR_GAIN = 1.04
"""Equal cells are taken for a clear gain only: where the two are close, the noise of the look would
decide. This and the two numbers above were chosen on generated shapes (uniform, Zipf, mixtures,
spikes, steps, walks)."""
SMALLER_PART = 0.35
"""Noise and unevenness together: all of the larger and so much of the smaller. A root of squares,
whose weight near 0 is 0, is too small for unevenness, which falls on a few ranges only."""
MEAN_OF_NORMAL = math.sqrt(2 / math.pi)


@dataclass(frozen=True)
class Pilot:
    """The public facts of a look: levels of the grid, PrivTree's calibration, and what the counts
    would get."""

    levels: int
    positions: int
    calibration: Calibration
    tree_scale: Fraction
    cell_scale: Fraction
    fixed: bool = False

    @property
    def width(self) -> int:
        """Half of the stretch over which a decision goes from unlikely to likely."""
        return math.ceil(self.calibration.scale)

    @property
    def first(self) -> int:
        return min(FIRST_LEVEL, self.levels - 1)

    @property
    def splits_sensitivity(self) -> Fraction:
        return self.calibration.sensitivity * self.levels

    @property
    def uneven_sensitivity(self) -> Fraction:
        return self.calibration.sensitivity * ((1 << (self.levels - self.first)) - 1)

    def favours_cells(self, splits: int, uneven: int) -> bool:
        """Compare the mean errors that both trees would make, from the two noisy numbers."""
        boxes = min(max(1, round(1 + splits / (2 * self.width))), self.positions)
        # a range that ends in a box left whole is wrong by about a quarter of the difference of the
        # box's halves
        bias = max(0, uneven) / (1 << (self.levels + 1))
        spread = _noise(boxes, self.tree_scale, self.fixed)
        tree = max(spread, bias) + SMALLER_PART * min(spread, bias)
        return CLEAR_GAIN * _noise(self.positions, self.cell_scale, self.fixed) < tree


def widest_sum(calibration: Calibration, levels: int) -> int:
    """No score of a box, and no term of a look, is larger in size than this and the rows of the
    box: public."""
    return levels * calibration.decay + max(REACH, 2) * math.ceil(calibration.scale)


@lru_cache(maxsize=256)
def _noise(boxes: int, scale: Fraction, fixed: bool) -> float:
    """The mean absolute error of a range from the noise of so many boxes alone."""
    _, spread = best_for_ranges(np.arange(boxes + 1, dtype=np.int64), fixed=fixed)
    return MEAN_OF_NORMAL * spread * math.sqrt(laplace_cumulants(scale)[0])


def cells_serve_better(noise: Noise, points: SparseCounts, pilot: Pilot, epsilon: Fraction) -> bool:
    """Measure both numbers, each with half of `epsilon`, and decide."""
    splits, uneven = tree_sums(points, pilot)
    seen = [
        noise.laplace(
            np.array([value], dtype=np.int64),
            sensitivity=sensitivity,
            epsilon=epsilon / 2,
            label=label,
        )
        for value, sensitivity, label in (
            (splits, pilot.splits_sensitivity, "look: splits"),
            (uneven, pilot.uneven_sensitivity, "look: unevenness"),
        )
    ]
    return pilot.favours_cells(int(seen[0][0]), int(seen[1][0]))


def tree_sums(points: SparseCounts, pilot: Pilot) -> tuple[int, int]:
    """Sums over all boxes of soft splits (times 2 `width`), and of the unevenness of boxes that may
    stay whole.

    A box of level k counts 2^(levels - 1 - k) times in the second sum: as often as it has pairs of
    positions.
    """
    counts: Ints = np.zeros(1 << pilot.levels, dtype=np.int64)
    counts[points.cells.astype(np.int64)] = points.counts
    splits = uneven = 0
    width, decay = pilot.width, pilot.calibration.decay
    for level in range(pilot.levels - 1, -1, -1):
        left, right = counts[::2], counts[1::2]
        counts = left + right
        above = counts - level * decay
        splits += int(np.clip(above + width, 0, 2 * width).sum())
        if level >= pilot.first:
            whole = np.minimum(np.abs(left - right), np.maximum(REACH * width - above, 0))
            uneven += int(whole.sum()) << (pilot.levels - 1 - level)
    return splits, uneven


# A look after cutting, for several columns: how wrong would PrivTree's boxes be for boxes that end
# inside them?
#
# Rows that heap on some values (round numbers, whole hours) make all boxes along an edge wrong in
# the same direction, which adds up, and no count of a box shows it. So the error itself is
# measured: for a public list of questions, what the true counts of the tree's boxes would answer,
# against the truth. A row counts only for questions that cut its box, and boxes that many
# questions cut are left out: then one row moves the sum by little. The law is in
# interval_tree.proof.md, theorem 6.

QUESTIONS = 192
UNIT = 1 << 10
"""Shares of a box are whole numbers of this part, so that all sums are exact."""
MAX_CUTS = QUESTIONS // 4
"""A box that more questions cut is left out: it is wide, stayed whole because it holds few rows,
and would cost sensitivity."""
CHUNK = 1 << 22


@dataclass(frozen=True)
class BoxBias:
    """The public side of a look: questions with whole ends, the boxes that count, and how many
    questions cut one of them."""

    shape: TreeShape
    boxes: Boxes
    low: Ints
    high: Ints
    counted: Ints
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
        counted = cuts <= MAX_CUTS
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

    def shares(self, start: int, stop: int) -> Ints:
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
            found += int(np.abs(answered - UNIT * (inside @ rows)).sum())
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
        told = noise.laplace(
            np.array([bias.total(points)], dtype=np.int64),
            sensitivity=bias.sensitivity,
            epsilon=epsilon,
            label="look: misfit",
        )
        lost = max(0.0, int(told[0]) / (UNIT * QUESTIONS))
    tree, cells = (
        MEAN_OF_NORMAL * spread * math.sqrt(laplace_cumulants(scale)[0]) for spread in spreads
    )
    return CLEAR_GAIN * cells < max(tree, lost) + SMALLER_PART * min(tree, lost)
