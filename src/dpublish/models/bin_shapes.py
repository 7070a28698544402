"""How rows lie inside a bin, as far as the counts of its neighbours tell.

Bins of a skewed column are wide where rows are few, and most rows of a wide bin lie near the
neighbour that is dense. Inside a bin the density is taken as proportional to exp(tilt u), u running
from 0 to 1 across the bin; a tilt of 0 is an even spread. The tilt is found from densities at the
two edges, each between the mean densities of the bins that meet there. Where one of them is far
denser than the bin itself, its rows crowd there, however long it goes on, and that edge alone
decides; so it does in the outermost bins, which have no other.

This is a guess at what was never counted, for values that need one number: a mean, the part of a
bin that a condition cuts, a synthetic row. Limits never rest on it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.declare.domain import Axis

NEAR = 0.9
"""How much an edge between two bins is like the denser of them, on a logarithmic scale. Chosen on
generated columns by benchmarks/joined_tuning/bin_shapes.py, as is the next."""
CROWDED = 0.75
"""An edge alone decides where the logarithm of its density over that of the bin is above this, even
with fewer rows beyond it by so many standard deviations of their noise:"""
SURELY = 2.0
MAX_TILT = 1e9
_SMALL = 1e-4
_LEAST = 5e-324
_LARGE = 700.0
"""What exp can still take; beyond it all rows but a vanishing part are at one end."""


def tilted(axis: Axis, widths: Floats, counts: Floats, least: float) -> Axis:
    """A numeric column that knows how its rows lie inside its bins."""
    return replace(axis, tilts=tuple(learn_tilts(widths, counts, least).tolist()))


def tilts_of(axis: Axis) -> Floats:
    return np.array(axis.tilts, dtype=np.float64) if axis.tilts else np.zeros(axis.base)


def bin_means(axis: Axis) -> Floats:
    """The mean value of the rows of each bin (dates: the ordinal)."""
    edges = np.array(axis.edges, dtype=np.float64)
    place = mean_place(tilts_of(axis))
    means = (1.0 - place) * edges[:-1] + place * edges[1:]
    if axis.kind == "real":
        return means
    return np.clip(means - 0.5, edges[:-1], edges[1:] - 1.0)


def part_between(axis: Axis, code: int, low: float, high: float) -> float:
    """The share of a bin's rows between two values of it."""
    start, end = float(axis.edges[code]), float(axis.edges[code + 1])
    places = np.clip((np.array([low, high]) - start) / (end - start), 0.0, 1.0)
    below = share_below(np.full(2, axis.tilts[code] if axis.tilts else 0.0), places)
    return float(below[1] - below[0])


def share_below(tilt: Floats, place: Floats) -> Floats:
    """The share of a bin below a place in it; places run from 0 to 1."""
    flat, up, rate, grown, _ = _powers(tilt)
    # seen from the dense end, where nothing overflows
    tilted = np.expm1(rate * np.where(up, 1.0 - place, place)) / grown
    return np.where(flat, place, np.where(up, 1.0 - tilted, tilted))


def place_of(tilt: Floats, share: Floats) -> Floats:
    """The place in a bin below which a share of it lies: the inverse of `share_below`."""
    return _placed(_powers(tilt), share)


def place_in_bin(tilts: Floats, bins: NDArray[np.int64], share: Floats) -> Floats:
    """The same for many rows of few bins, whose powers are worked out once."""
    flat, up, rate, grown, least = _powers(tilts)
    return _placed((flat[bins], up[bins], rate[bins], grown[bins], least[bins]), share)


Powers = tuple[NDArray[np.bool_], NDArray[np.bool_], Floats, Floats, Floats]


def _powers(tilt: Floats) -> Powers:
    flat = np.abs(tilt) < _SMALL
    rate = np.where(flat, 1.0, -np.abs(tilt))
    return flat, tilt > 0, rate, np.expm1(rate), np.exp(rate)


def _placed(powers: Powers, share: Floats) -> Floats:
    flat, up, rate, grown, least = powers
    near = np.where(up, 1.0 - share, share)
    place = np.log(np.maximum(1.0 + near * grown, np.maximum(least, _LEAST))) / rate
    return np.clip(np.where(flat, share, np.where(up, 1.0 - place, place)), 0.0, 1.0)


def mean_place(tilt: Floats) -> Floats:
    """The mean place of the rows of a bin."""
    flat = np.abs(tilt) < _SMALL
    rate = np.where(flat, 1.0, np.abs(tilt))
    near = 1.0 / rate - 1.0 / np.expm1(np.minimum(rate, _LARGE))
    return np.where(flat, 0.5 + tilt / 12.0, np.where(tilt > 0, 1.0 - near, near))


def learn_tilts(widths: Floats, counts: Floats, least: float) -> Floats:
    """The tilt of every bin, from the estimated rows of all. Fewer than `least` rows in a bin may
    be noise, and count as so many. A bin of width 0 is a heap of rows at one value: it has no
    slope, and those on either side of it are neighbours."""
    tilts = np.zeros(len(counts))
    wide = np.flatnonzero(widths > 0)
    if len(wide) < 2:
        return tilts
    density = np.log(np.maximum(counts[wide], max(least, 1e-9))) - np.log(widths[wide])
    step = np.diff(density)
    # how far the density at either edge of a bin is from its mean density
    right = np.where(step > 0, NEAR, 1 - NEAR) * step
    left = right - step
    found = np.zeros(len(wide))
    found[1:-1] = right[1:] - left[:-1]
    found[0], found[-1] = -_tilt_from(right[0]), _tilt_from(left[-1])
    # bins that are surely crowded at one end by the neighbour there
    surely = np.log(np.maximum(counts[wide] - SURELY * least, 1e-9)) - np.log(widths[wide])
    at_left, at_right = (NEAR * (beside - density[1:-1]) for beside in (surely[:-2], surely[2:]))
    for place in (np.flatnonzero(np.maximum(at_left, at_right) > CROWDED) + 1).tolist():
        falls = at_left[place - 1] >= at_right[place - 1]
        found[place] = _tilt_from(left[place - 1]) if falls else -_tilt_from(right[place])
    tilts[wide] = np.clip(found, -MAX_TILT, MAX_TILT)
    return tilts


def _tilt_from(height: float) -> float:
    """The tilt t at which the logarithm of the density at the beginning of a bin, t / (exp(t) - 1),
    over the mean density is `height`."""
    if height > 4.0:  # exp(t) is nothing beside 1
        return -math.exp(min(height, math.log(MAX_TILT)))
    ratio = math.exp(height)
    low, high = -_LARGE, _LARGE
    for _ in range(60):
        middle = (low + high) / 2
        at = 1.0 if abs(middle) < 1e-9 else middle / math.expm1(middle)
        low, high = (middle, high) if at > ratio else (low, middle)
    return (low + high) / 2
