"""A noisy histogram that a session buys when it is opened, and what it says about a query without
looking at the data again.

In: exact counts of all cells (private), once. Out: noisy counts. An answer from them has noise of a
known law, so its interval is known before the session is paid for, for every query.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpublish.methods.draws import laplace_deviation
from dpublish.noise.base import IntArray, Noise

Floats = NDArray[np.float64]
MAX_CELLS = 1 << 16
"""Larger domains have no noisy histogram: it would be too long to keep in a session's header."""


def draw_synopsis(
    noise: Noise, counts: IntArray, *, sensitivity: Fraction, epsilon: Fraction
) -> list[int]:
    """Every cell with noise; one unit moves all of them together by at most `sensitivity`."""
    noisy = noise.laplace(counts, sensitivity=sensitivity, epsilon=epsilon, label="synopsis")
    return [int(count) for count in noisy]


@dataclass(eq=False)
class Synopsis:
    """Noisy counts with noise of this scale; `rows` is the public number of rows, where it is."""

    counts: Floats
    scale: Fraction
    rows: int | None

    @cached_property
    def likely(self) -> Floats:
        """Counts without what is probably noise: as in a released histogram, small ones are taken
        as 0, since most cells of most tables are empty."""
        mark = float(self.scale) * math.log(max(2, len(self.counts))) / 2
        found: Floats = np.where(self.counts > mark, self.counts, 0.0)
        return found

    def estimate(self, shares: Floats, level: float) -> tuple[float, float, float]:
        """The query's unbiased value, its standard error, and how far its interval reaches.

        Where the number of rows is public, what all cells together are off by is known, and is
        taken from the query in proportion to its mean weight.
        """
        value, weights = float(self.counts @ shares), shares
        if self.rows is not None:
            mean = float(shares.mean())
            value += mean * (self.rows - float(self.counts.sum()))
            weights = shares - mean
        spread = math.sqrt(float((weights**2).sum()))
        # noise is whole, so its sums have jumps of up to the largest weight: without a jump more,
        # an interval may end just short of a value that has much probability
        jump = float(np.abs(weights).max())
        reach = tail_deviation(self.scale) * spread * width(weights, level) + jump
        return value, laplace_deviation(self.scale) * spread, reach


def tail_deviation(scale: Fraction) -> float:
    """The deviation of the continuous law whose tail discrete noise has: its variance is larger by
    at most 1/6."""
    return math.sqrt(laplace_deviation(scale) ** 2 + 1 / 6)


def width(weights: Floats, level: float) -> float:
    """Half the length of an interval, in standard deviations, for a weighted sum of Laplace noise:
    between that of one and that of many."""
    normal, more = _normal_and_more(level)
    square = float((weights**2).sum())
    many = square**2 / float((weights**4).sum()) if square > 0 else 1.0
    return normal + more / math.sqrt(max(1.0, many))


def _normal_and_more(level: float) -> tuple[float, float]:
    """Half widths in standard deviations: of a normal variable, and how much more a Laplace one
    needs."""
    normal = NormalDist().inv_cdf((1 + level) / 2)
    return normal, max(0.0, math.log(1 / (1 - level)) / math.sqrt(2) - normal)


def worst_reach(cells: int, scale: Fraction, level: float, *, known_total: bool) -> float:
    """How far an answer can be off at this level, whatever the query: no weights have a larger sum
    of squares than those of half of the cells where the number of rows is public, and of all of
    them otherwise; and none has more of the tail of a single cell than one cell has."""
    if cells < 2 and known_total:
        return 0.0
    spread = math.sqrt(cells / 4 if known_total else cells)
    normal, more = _normal_and_more(level)
    # `width` times the spread is at most normal * spread + more * sqrt(sum of fourth powers / sum
    # of squares), and that root is at most the largest weight
    largest = 1 - 1 / cells if known_total else 1.0
    return tail_deviation(scale) * (normal * spread + more * largest) + 1  # the largest jump
