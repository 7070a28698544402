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

from dpublish.methods.base import SparseCounts
from dpublish.methods.interval_tree.trees import Calibration
from dpublish.models.hierarchical_counts import best_for_ranges
from dpublish.models.thresholded_counts import laplace_cumulants
from dpublish.noise.base import IntArray, Noise

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
    counts: IntArray = np.zeros(1 << pilot.levels, dtype=np.int64)
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
