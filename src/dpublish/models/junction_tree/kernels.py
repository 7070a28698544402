"""The compiled loops of junction trees (`plain` has the same for readers): over the cells of a
clique's table, of margins, and of departures from them.

A clique's table is flat: labels, then all columns but the last, then the last column. `base` says
where in the smaller table (of one label) each run of the last column begins, and `inner` what each
place of the run adds to that. Products with indicator matrices or an index for every cell would
take several times the memory and time.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.compiled import njit
from dpublish.models.junction_tree.plain import (
    ALIGNED,
    WHOLE,
    likeliest_size,
    smooth_counts as smooth_counts,  # compiling it takes longer than it ever saves
)

Places = NDArray[np.int32]

BLOCK = 1 << 12
"""Cells that are scaled and summed while they are at hand, in the fastest memory."""


@njit(cache=True, nogil=True)
def sum_cells(table: Floats, base: Places, inner: Places, kind: int, out: Floats) -> None:
    """The table summed by where its cells fall. `out` is labels x places."""
    out[:] = 0.0
    size = base.size * inner.size
    for label in range(out.shape[0]):
        _add(table[label * size : (label + 1) * size], base, inner, kind, out[label])


@njit(cache=True, nogil=True)
def scale_cells(table: Floats, base: Places, inner: Places, kind: int, factor: Floats) -> None:
    """Every cell times the factor of where it falls. `factor` is labels x places."""
    size = base.size * inner.size
    for label in range(factor.shape[0]):
        _multiply(table[label * size : (label + 1) * size], base, inner, kind, factor[label])


@njit(cache=True, nogil=True)
def scale_and_sum(
    table: Floats,
    base: Places,
    inner: Places,
    kind: int,
    factor: Floats,
    sum_base: Places,
    sum_inner: Places,
    sum_kind: int,
    out: Floats,
) -> None:
    """Both at once: scaled by one small table, then summed into another."""
    out[:] = 0.0
    runs, width = base.size, inner.size
    many = max(1, BLOCK // width)
    for label in range(factor.shape[0]):
        start = label * runs * width
        for first in range(0, runs, many):
            last = min(runs, first + many)
            block = table[start + first * width : start + last * width]
            _multiply(block, base[first:last], inner, kind, factor[label])
            _add(block, sum_base[first:last], sum_inner, sum_kind, out[label])


@njit(cache=True, nogil=True)
def factors(wanted: Floats, now: Floats, out: Floats) -> float:
    """What takes each sum to the one wanted, 0 where there is nothing to scale; and how far the
    sums are off, all together."""
    off = 0.0
    for label in range(wanted.shape[0]):
        for i in range(wanted.shape[1]):
            off += abs(wanted[label, i] - now[label, i])
            out[label, i] = wanted[label, i] / now[label, i] if now[label, i] > 0.0 else 0.0
    return off


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _add(table: Floats, base: Places, inner: Places, kind: int, sums: Floats) -> None:
    width = inner.size
    if kind == WHOLE:
        for run in range(base.size):
            cells, total = table[run * width : (run + 1) * width], 0.0
            for i in range(width):
                total += cells[i]
            sums[base[run]] += total
    elif kind == ALIGNED:
        for run in range(base.size):
            cells, small = (
                table[run * width : (run + 1) * width],
                sums[base[run] : base[run] + width],
            )
            for i in range(width):
                small[i] += cells[i]
    else:
        for run in range(base.size):
            cells, small = table[run * width : (run + 1) * width], sums[base[run] :]
            for i in range(width):
                small[inner[i]] += cells[i]


@njit(cache=True, nogil=True)
def _multiply(table: Floats, base: Places, inner: Places, kind: int, factor: Floats) -> None:
    width = inner.size
    if kind == WHOLE:
        for run in range(base.size):
            by = factor[base[run]]
            cells = table[run * width : (run + 1) * width]
            for i in range(width):
                cells[i] *= by
    elif kind == ALIGNED:
        for run in range(base.size):
            cells, small = (
                table[run * width : (run + 1) * width],
                factor[base[run] : base[run] + width],
            )
            for i in range(width):
                cells[i] *= small[i]
    else:
        for run in range(base.size):
            cells, small = table[run * width : (run + 1) * width], factor[base[run] :]
            for i in range(width):
                cells[i] *= small[inner[i]]


# Proportional fitting of a small table to one of its margins.


@njit(cache=True, nogil=True)
def fit_axis(table: Floats, wanted: Floats) -> float:
    """Scale a table (outer, axis, inner, label) to its margin (axis, label), and tell how far the
    margin was off at most."""
    outer, groups, inner, labels = table.shape
    off = 0.0
    held = np.empty(labels)
    for group in range(groups):
        held[:] = 0.0
        for i in range(outer):
            for j in range(inner):
                for label in range(labels):
                    held[label] += table[i, group, j, label]
        for label in range(labels):
            off = max(off, abs(held[label] - wanted[group, label]))
            held[label] = wanted[group, label] / held[label] if held[label] > 0.0 else 0.0
        for i in range(outer):
            for j in range(inner):
                for label in range(labels):
                    table[i, group, j, label] *= held[label]
    return off


# Noisy tables against what is expected of them: the most likely sizes of true departures, and the
# departures that follow.

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


best_size = partial(likeliest_size, evidence)


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
