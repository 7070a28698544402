"""Noisy tables against what is expected of them: the most likely sizes of true departures, and the
departures that follow."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit
from dpublish.models.junction_tree.plain import LARGEST, LEAP, SMALLEST

Floats = NDArray[np.float64]

_MANY = 1e200


@njit(cache=True, nogil=True)
def evidence(
    away: Floats, shares: Floats, sizes: Floats, splits: Floats, whole: float, split: float
) -> float:
    """How likely the noisy departures are, as a logarithm up to a constant, in units where the
    noise has variance 1.

    The departures of a cell have covariance split * splits (diag(p) - p p') + whole * sizes p p', p
    the shares of labels: a diagonal and a product, and so is what noise adds to it. Determinant and
    inverse of such a sum take one pass.
    """
    found = 0.0
    cells, labels = away.shape
    for cell in range(cells):
        apart = split * splits[cell]
        more = whole * sizes[cell] - apart
        volume, square, along, across = 1.0, 0.0, 0.0, 0.0
        for label in range(labels):
            share, value = shares[cell, label], away[cell, label]
            spread = 1.0 + apart * share
            volume *= spread
            if volume > _MANY:
                found -= 0.5 * math.log(volume)
                volume = 1.0
            square += value * value / spread
            along += share * share / spread
            across += share * value / spread
        rest = 1.0 + more * along
        found -= 0.5 * (math.log(volume * rest) + square - more * across * across / rest)
    return found


@njit(cache=True, nogil=True)
def best_size(
    away: Floats,
    shares: Floats,
    sizes: Floats,
    splits: Floats,
    whole: float,
    split: float,
    of_whole: bool,
) -> float:
    """The most likely value of `whole`, given `split`, or the other way around; within a factor of
    two."""
    best, size, most = 0.0, SMALLEST, 0.0
    most = evidence(
        away, shares, sizes, splits, 0.0 if of_whole else whole, split if of_whole else 0.0
    )
    while size <= LARGEST:
        value = evidence(
            away, shares, sizes, splits, size if of_whole else whole, split if of_whole else size
        )
        if value > most:
            best, most = size, value
        size *= LEAP
    factor = math.sqrt(LEAP)
    while best > 0.0 and factor >= 2.0:
        middle = best
        for size in (middle / factor, middle * factor):
            value = evidence(
                away,
                shares,
                sizes,
                splits,
                size if of_whole else whole,
                split if of_whole else size,
            )
            if value > most:
                best, most = size, value
        factor = math.sqrt(factor)
    return best


@njit(cache=True, nogil=True)
def departures(
    away: Floats, shares: Floats, sizes: Floats, splits: Floats, whole: float, split: float
) -> Floats:
    """The expected true departures, given the noisy ones."""
    cells, labels = away.shape
    out = np.zeros((cells, labels))
    for cell in range(cells):
        apart = split * splits[cell]
        more = whole * sizes[cell] - apart
        along, across = 0.0, 0.0
        for label in range(labels):
            share = shares[cell, label]
            spread = 1.0 + apart * share
            along += share * share / spread
            across += share * away[cell, label] / spread
        pull = more * across / (1.0 + more * along)
        sum_of = 0.0
        for label in range(labels):
            share = shares[cell, label]
            out[cell, label] = (away[cell, label] - share * pull) / (1.0 + apart * share)
            sum_of += share * out[cell, label]
        for label in range(labels):
            share = shares[cell, label]
            out[cell, label] = share * (apart * out[cell, label] + more * sum_of)
    return out
