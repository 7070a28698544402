"""Three ways to cut a grid into boxes: PrivTree, the thesis's binary search, and equal cells.

All work on the sorted codes of the points, so that the count of a box is two binary searches. Every
private number leaves through a tap of `noise`. The laws are proved in interval_tree.proof.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpublish.declare.grid import Boxes, TreeShape
from dpublish.methods.base import SparseCounts
from dpublish.noise.base import IntArray, Noise

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


class BoxCounts:
    """Counts of boxes of one shape over given points."""

    def __init__(self, shape: TreeShape, points: SparseCounts) -> None:
        self._shape = shape
        self._cells = points.cells
        self._below = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(points.counts)])

    def __repr__(self) -> str:  # a repr ends up in tracebacks and logs
        return "BoxCounts(private)"

    def of(self, boxes: Boxes) -> IntArray:
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
    boxes = _joined(parts)
    order = _order(shape, parts)
    return Boxes(boxes.depth[order], boxes.prefix[order])


def _joined(parts: list[Boxes]) -> Boxes:
    return Boxes(
        np.concatenate([part.depth for part in parts]),
        np.concatenate([part.prefix for part in parts]),
    )


def _order(shape: TreeShape, parts: list[Boxes]) -> IntArray:
    first, _ = shape.spans(_joined(parts))
    return np.argsort(first, kind="stable")
