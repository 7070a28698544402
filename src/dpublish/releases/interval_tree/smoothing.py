"""Smoother counts of a few boxes: what the noise cannot tell from an even spread is drawn towards
it.

Least squares takes every measured difference for real. Where boxes are few and noise is large, most
of the difference between the halves of a box is noise, and a range pays for it. Here the counts are
given a prior that follows the tree: the halves of a box share its rows by their size, up to a
random deviation, as rows thrown at random deviate and by a share `roughness` of the rows. How rough
the data are, and whether roughness fades with depth, is not assumed: every setting is weighed by
how well it explains the measured counts, and the answers are averaged. Rough data are left nearly
as measured, even data are smoothed.

All this reads noisy counts alone. It is Bayes' rule for a Gaussian tree, in two passes: up, where
the counts below a box become one number with a variance; and down, where each box hands its rows to
its halves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Ints
from dpublish.declare.grid import Boxes, TreeShape

MAX_BOXES = 256
"""Boxes that are smoothed. One roughness cannot speak for thousands of boxes: many empty ones would
smooth a few full ones."""
ROUGHNESS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 2.0)
"""The relative difference of halves, from none to 'one is empty'."""
FADING = (0.0, 0.5, 1.0, 2.0, 5.0)
"""How roughness falls at half the width: not at all (spikes, steps), by half (smooth densities), or
at once (one large step).

Chosen on generated shapes (uniform, slopes, waves, walks, Zipf, mixtures, spikes, steps), with
paired noise."""
SETTINGS = np.array([(rough, fade) for rough in ROUGHNESS for fade in FADING if rough or not fade])


@dataclass(frozen=True)
class _Pairs:
    """The boxes of one level that are halves of a larger one: `left` and the next, seen from below
    under every setting."""

    left: Ints
    share: Floats
    width: Floats
    means: tuple[Floats, Floats]
    variances: tuple[Floats, Floats]


def smoothed(
    shape: TreeShape, boxes: Boxes, noisy: Floats, variance: float, total: int | None
) -> Floats:
    """Counts of the boxes from `noisy` ones, each with independent noise of one `variance`.

    Where `total` is given it is the sum of all true counts, and the last of `noisy` counts what
    lies in no box.
    """
    count = len(boxes)
    starts, ends = shape.corners(boxes)
    volume = np.multiply.reduce(
        [(e - s).astype(np.float64) for s, e in zip(starts, ends, strict=True)]
    )
    tree = _Climb(
        np.array(shape.used_bits, dtype=np.int64)[boxes.depth],
        boxes.prefix,
        volume,
        noisy[:count].astype(np.float64),
        np.tile(noisy[:count].astype(np.float64), (len(SETTINGS), 1)),
        np.full((len(SETTINGS), count), variance),
        columns=len(shape.grids),
    )
    levels = [tree.step(level) for level in range(shape.total_bits, 0, -1)]
    rows, scores = _root(
        tree.mean[:, 0], tree.variance[:, 0], tree.score, noisy[count:], variance, total
    )
    found = rows[:, None]
    for pairs in reversed(levels):
        found = _descend(found, pairs)
    weights = np.exp(scores - scores.max())
    return np.asarray((weights / weights.sum()) @ found)


class _Climb:
    """The way up: boxes not yet joined, from left to right, with what was measured inside them."""

    def __init__(
        self,
        bits: Ints,
        prefix: NDArray[np.uint64],
        volume: Floats,
        rows: Floats,
        mean: Floats,
        variance: Floats,
        *,
        columns: int,
    ) -> None:
        self.bits, self.prefix, self.volume, self.rows = bits, prefix, volume, rows
        self.mean, self.variance, self.columns = mean, variance, columns
        self.score: Floats = np.zeros(len(SETTINGS))

    def step(self, level: int) -> _Pairs:
        """Join all halves that `level` bits name; a half whose other half has no positions goes up
        alone."""
        deep = self.bits == level
        self.bits, self.prefix = (
            np.where(deep, level - 1, self.bits),
            np.where(deep, self.prefix >> np.uint64(1), self.prefix),
        )
        left = np.flatnonzero(deep[:-1] & deep[1:] & (self.prefix[:-1] == self.prefix[1:]))
        right = left + 1
        whole = self.volume[left] + self.volume[right]
        share = self.volume[left] / whole
        # rough and chance both need the rows inside, for which the plain sum is good enough
        inside = np.maximum(self.rows[left] + self.rows[right], 1.0)
        even = share * (1 - share)
        fading = SETTINGS[:, 0] * 2.0 ** (-SETTINGS[:, 1] * ((level - 1) // self.columns))
        width = (inside * even)[None, :] + (fading**2)[:, None] * (inside**2 * even)[None, :]
        pairs = _Pairs(
            left,
            share,
            width,
            (self.mean[:, left], self.mean[:, right]),
            (self.variance[:, left], self.variance[:, right]),
        )
        self.mean[:, left], self.variance[:, left], score = _joined(pairs)
        self.score += score.sum(axis=1)
        self.volume[left], self.rows[left] = whole, self.rows[left] + self.rows[right]
        self.bits, self.prefix = np.delete(self.bits, right), np.delete(self.prefix, right)
        self.volume, self.rows = np.delete(self.volume, right), np.delete(self.rows, right)
        self.mean = np.delete(self.mean, right, axis=1)
        self.variance = np.delete(self.variance, right, axis=1)
        return pairs


def _joined(pairs: _Pairs) -> tuple[Floats, Floats, Floats]:
    """What both halves say of the whole: mean, variance, and the logarithm of how likely they are
    together.

    Given the whole c, the halves are s c + e and (1 - s) c - e with e of variance P = `width`:
    their measured means have the covariance matrix [[v1 + P, -P], [-P, v2 + P]].
    """
    (m1, m2), (v1, v2), p, s = pairs.means, pairs.variances, pairs.width, pairs.share
    a, b, t = v1 + p, v2 + p, 1 - s
    det = v1 * v2 + p * (v1 + v2)
    variance = det / (s**2 * b + 2 * s * t * p + t**2 * a)
    mean = variance * (s * (b * m1 + p * m2) + t * (p * m1 + a * m2)) / det
    x, y = m1 - s * mean, m2 - t * mean
    misfit = (b * x**2 + 2 * p * x * y + a * y**2) / det
    return mean, variance, np.asarray(0.5 * (np.log(variance) - np.log(det) - misfit))


def _root(
    mean: Floats, variance: Floats, scores: Floats, outside: Floats, noise: float, total: int | None
) -> tuple[Floats, Floats]:
    """The rows in all boxes under every setting, and the scores of the settings."""
    if total is None:
        return mean, scores
    # either every row lies in a box, or any number of rows does not
    other = total - float(outside[0])
    all_in = _log_normal(mean - total, variance) + _log_normal(
        np.array([total - other]), np.array([noise])
    )
    some_out = _log_normal(mean - other, variance + noise) - math.log(total)
    between = np.minimum((mean * noise + other * variance) / (variance + noise), total)
    larger = np.maximum(all_in, some_out)
    together = np.exp(all_in - larger) + np.exp(some_out - larger)
    chance = np.exp(all_in - larger) / together
    return chance * total + (1 - chance) * between, scores + larger + np.log(together)


def _log_normal(distance: Floats, variance: Floats) -> Floats:
    return np.asarray(-0.5 * (np.log(2 * math.pi * variance) + distance**2 / variance))


def _descend(rows: Floats, pairs: _Pairs) -> Floats:
    """The rows of the boxes one level down: the pairs' wholes handed to their halves, all others as
    they are."""
    (m1, m2), (v1, v2), p, s = pairs.means, pairs.variances, pairs.width, pairs.share
    # a pair's place among the joined boxes: those before it that were joined have left one gap each
    places = pairs.left - np.arange(pairs.left.size)
    whole = rows[:, places]
    deviation = ((m1 - s * whole) / v1 - (m2 - (1 - s) * whole) / v2) / (1 / v1 + 1 / v2 + 1 / p)
    first = s * whole + deviation
    out = np.insert(rows, places + 1, 0.0, axis=1)
    out[:, pairs.left], out[:, pairs.left + 1] = first, whole - first
    return out
