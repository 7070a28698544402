"""The loops of `kernels` written for numpy, for readers of a release.

Compiling the loops takes half a minute once, and loading what compiles them half a second every
time: more than it takes to fit a model of a few thousand cells without. A reader says so
(`reading`), and models that are not large are then fitted by the loops here. Both add up the same
numbers, in another order: results agree but for rounding. While a release is made, the compiled
loops are used, whatever the rows and the process are like.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.int32]

WHOLE, ALIGNED, LOOKED_UP = 0, 1, 2
"""How a run of the last column falls: on one place, on as many places in a row, or where `inner`
says."""
LARGE = 400_000
"""Cells of a model from which on compiled loops pay."""
STEPS = 40
SMALL_STEP = 1e-3
NOTHING = 1e-9
LONGEST = 3.0
"""A step changes no count by more than a factor of exp(3)."""
SMALLEST, LARGEST, LEAP = 1.0 / 256.0, 2.0**33, 16.0
"""Sizes of departures that are tried, in variances of the noise; below the smallest there are
none."""


_READING: ContextVar[bool] = ContextVar("reading", default=False)


@contextmanager
def reading() -> Iterator[None]:
    """For readers of a release alone: what is fitted inside need not be compiled."""
    token = _READING.set(True)
    try:
        yield
    finally:
        _READING.reset(token)


def is_reading() -> bool:
    return _READING.get()


def loops(cells: int, *, reader: bool) -> Any:
    """The loops for a model of so many cells: the compiled ones, or for readers these."""
    if reader and cells <= LARGE:
        return sys.modules[__name__]
    from dpublish.models.junction_tree.kernels import compiled

    return compiled()


def sum_cells(table: Floats, base: Places, inner: Places, kind: int, out: Floats) -> None:
    """The table summed by where its cells fall. `out` is labels x places."""
    labels, places = out.shape
    cells, spots = table.reshape(labels, base.size * inner.size), base
    if kind == WHOLE:
        cells = table.reshape(labels, base.size, inner.size).sum(axis=2)
    else:
        spots = (base[:, None] + inner[None, :]).ravel()
    for label in range(labels):
        out[label] = np.bincount(spots, weights=cells[label], minlength=places)


def scale_cells(table: Floats, base: Places, inner: Places, kind: int, factor: Floats) -> None:
    """Every cell times the factor of where it falls. `factor` is labels x places."""
    cells = table.reshape(factor.shape[0], base.size, inner.size)
    if kind == WHOLE:
        cells *= factor[:, base][:, :, None]
    else:
        cells *= factor[:, base[:, None] + inner[None, :]]


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
    scale_cells(table, base, inner, kind, factor)
    sum_cells(table, sum_base, sum_inner, sum_kind, out)


def factors(wanted: Floats, now: Floats, out: Floats) -> float:
    """What takes each sum to the one wanted, 0 where there is nothing to scale; and how far the
    sums are off, all together."""
    out[:] = np.divide(wanted, now, out=np.zeros_like(out), where=now > 0.0)
    return float(np.abs(wanted - now).sum())


def fit_axis(table: Floats, wanted: Floats) -> float:
    """Scale a table (outer, axis, inner, label) to its margin (axis, label), and tell how far the
    margin was off at most."""
    held = table.sum(axis=(0, 2))
    off = float(np.abs(held - wanted).max(initial=0.0))
    factor = np.divide(wanted, held, out=np.zeros_like(held), where=held > 0.0)
    table *= factor[None, :, None, :]
    return off


def evidence(
    away: Floats, shares: Floats, sizes: Floats, splits: Floats, whole: float, split: float
) -> float:
    """How likely the noisy departures are, as a logarithm up to a constant (see the compiled
    one)."""
    apart = split * splits
    more = whole * sizes - apart
    spread = 1.0 + apart[:, None] * shares
    square = (away * away / spread).sum(axis=1)
    along = (shares * shares / spread).sum(axis=1)
    across = (shares * away / spread).sum(axis=1)
    rest = 1.0 + more * along
    volume = np.log(spread).sum(axis=1) + np.log(rest)
    return float(-0.5 * (volume + square - more * across * across / rest).sum())


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

    def at(size: float) -> float:
        pair = (size, split) if of_whole else (whole, size)
        return evidence(away, shares, sizes, splits, *pair)

    best, size, most = 0.0, SMALLEST, at(0.0)
    while size <= LARGEST:
        value = at(size)
        if value > most:
            best, most = size, value
        size *= LEAP
    factor = math.sqrt(LEAP)
    while best > 0.0 and factor >= 2.0:
        middle = best
        for size in (middle / factor, middle * factor):
            value = at(size)
            if value > most:
                best, most = size, value
        factor = math.sqrt(factor)
    return best


def departures(
    away: Floats, shares: Floats, sizes: Floats, splits: Floats, whole: float, split: float
) -> Floats:
    """The expected true departures, given the noisy ones."""
    apart = split * splits
    more = whole * sizes - apart
    spread = 1.0 + apart[:, None] * shares
    along = (shares * shares / spread).sum(axis=1)
    across = (shares * away / spread).sum(axis=1)
    pull = more * across / (1.0 + more * along)
    out = (away - shares * pull[:, None]) / spread
    sum_of = (shares * out).sum(axis=1)
    found: Floats = shares * (apart[:, None] * out + (more * sum_of)[:, None])
    return found


def smooth_counts(
    noisy: Floats, precision: Floats, base: Floats, priors: Floats, volumes: Floats
) -> tuple[Floats, float]:
    """The average of the fits, each weighted by how likely it makes the noisy counts (its
    evidence).

    The fit for a prior Q is base * exp(f), f least in

        (1/2) (base e^f - noisy)' precision (base e^f - noisy) + (1/2) f' Q f

    found by Gauss and Newton's steps, each halved until it goes down. Priors go from stiff to
    loose, and each fit begins where the one before ended; `volumes` are the logarithms of their
    determinants. The evidence is Laplace's approximation around the fit. The second number is how
    many counts the fit could follow freely (its degrees of freedom): of the noise, about that share
    of all levels is left.
    """
    fits, levels = len(priors), len(noisy)
    curve = np.zeros(levels)
    found, evidence = np.zeros((fits, levels)), np.zeros(fits)
    for place in range(fits):
        prior = priors[place]
        counts = base * np.exp(curve)
        away, pull = counts - noisy, prior @ curve
        least = 0.5 * (away @ (precision @ away)) + 0.5 * (curve @ pull)
        for _ in range(STEPS):
            slope = counts * (precision @ away) + pull
            bend = prior + precision * counts * counts.reshape(-1, 1)
            step = np.linalg.solve(bend, -slope)
            step *= min(1.0, LONGEST / max(1e-300, np.abs(step).max()))
            length, gain = 1.0, 0.0
            while length > SMALL_STEP:
                tried = curve + length * step
                counts = base * np.exp(tried)
                away, pull = counts - noisy, prior @ tried
                now = 0.5 * (away @ (precision @ away)) + 0.5 * (tried @ pull)
                gain = least - now
                if gain > 0.0:
                    break
                length /= 2.0
            if not gain > 0.0:
                break
            curve, least = tried, now
            if gain < SMALL_STEP:
                break
        counts = base * np.exp(curve)
        bend = prior + precision * counts * counts.reshape(-1, 1)
        found[place] = counts
        evidence[place] = -least + 0.5 * (volumes[place] - np.linalg.slogdet(bend)[1])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    freedom = 0.0
    for place in range(fits):
        if weights[place] > NOTHING:
            bend = priors[place] + precision * found[place] * found[place].reshape(-1, 1)
            freedom += weights[place] * (levels - np.trace(np.linalg.solve(bend, priors[place])))
    return weights @ found, freedom
