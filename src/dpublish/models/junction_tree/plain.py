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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats

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
FAR = 3.5
"""A fit that misses a count by more than so many standard deviations is tried from the counts."""
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
    from dpublish.models.junction_tree import kernels

    return kernels


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


def likeliest_size(
    evidence: Callable[[Floats, Floats, Floats, Floats, float, float], float],
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


best_size = partial(likeliest_size, evidence)


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
    noisy: Floats,
    precision: Floats,
    base: Floats,
    priors: Floats,
    volumes: Floats,
    *,
    twice: bool,
    freedom: bool,
) -> tuple[Floats, Floats]:
    """Of every row of `noisy`, with its own precision and base, the average of the fits, each
    weighted by how likely it makes the noisy counts (its evidence).

    The fit for a prior Q is base * exp(f), f least in

        (1/2) (base e^f - noisy)' precision (base e^f - noisy) + (1/2) f' Q f

    found by Gauss and Newton's steps, each halved until it goes down. Priors go from stiff to
    loose, and each fit begins where the one before ended; `volumes` are the logarithms of their
    determinants. That can end in a valley of its own: a count that a stiff curve left near 0 has no
    slope to come back by. So rows that end far from their counts are fitted `twice`, the second
    time from these, and the lower of both ends is taken. The evidence is Laplace's approximation
    around the fit. The second numbers are how many counts the fits could follow freely (their
    degrees of freedom; 0 unless they are asked for): of the noise, about that share of all levels
    is left. Rows do not know of one another: they are fitted side by side, since most of the time
    of such small fits would be spent between steps.
    """
    rows, levels = noisy.shape
    if (precision == precision[:1]).all():
        precision = precision[:1]  # one for all, which stays at hand
    curves, room = np.zeros((rows, levels)), np.empty((rows, levels, levels))
    found = np.zeros((len(priors), rows, levels))
    least, evidence = np.zeros((len(priors), rows)), np.zeros((len(priors), rows))

    def weigh(place: int, some: NDArray[np.intp]) -> None:
        bend = _bend(priors[place], _of(precision, some), found[place, some], room)
        volume = volumes[place] - np.linalg.slogdet(bend)[1]
        evidence[place, some] = -least[place, some] + 0.5 * volume

    def average() -> tuple[Floats, Floats]:
        weights = np.exp(evidence - evidence.max(axis=0))
        weights /= weights.sum(axis=0)
        return weights, (weights[:, :, None] * found).sum(axis=0)

    for place, prior in enumerate(priors):
        least[place] = _descend(curves, prior, noisy, precision, base, room)
        found[place] = base * np.exp(curves)
        weigh(place, np.arange(rows))
    weights, mean = average()
    sharp = np.sqrt(np.diagonal(precision, axis1=1, axis2=2))
    far = np.flatnonzero((np.abs(mean - noisy) * sharp).max(axis=1) > FAR)
    if twice and far.size:
        given = noisy[far], _of(precision, far), base[far]
        start = np.log(np.maximum(given[0], 1.0 / _of(sharp, far)) / given[2])
        for place, prior in enumerate(priors):
            curves = start.copy()
            there = _descend(curves, prior, *given, room)
            lower = there < least[place, far] - SMALL_STEP
            better = far[lower]
            least[place, better] = there[lower]
            found[place, better] = base[better] * np.exp(curves[lower])
            weigh(place, better)
        weights, mean = average()
    free = np.zeros(rows)
    for place, prior in enumerate(priors if freedom else ()):
        some = np.flatnonzero(weights[place] > NOTHING)
        if some.size:
            bend = _bend(prior, _of(precision, some), found[place, some], room)
            held = np.trace(np.linalg.solve(bend, prior), axis1=1, axis2=2)
            free[some] += weights[place, some] * (levels - held)
    return mean, free


def _descend(
    curves: Floats, prior: Floats, noisy: Floats, precision: Floats, base: Floats, room: Floats
) -> Floats:
    """Moves every curve to where its fit for one prior is least, and says how much that is."""

    def at(
        tried: Floats, noisy: Floats, precision: Floats, base: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Counts, the slope of the curve there, and how good it is."""
        counts = base * np.exp(tried)
        away, pull = counts - noisy, tried @ prior
        pressed = (precision @ away[:, :, None])[:, :, 0]
        value = 0.5 * (away * pressed).sum(axis=1) + 0.5 * (tried * pull).sum(axis=1)
        return counts, counts * pressed + pull, value

    left, given = np.arange(len(curves)), (noisy, precision, base)  # given: of the rows left
    counts, slope, least = at(curves, *given)
    for _ in range(STEPS):
        bend = _bend(prior, given[1], counts[left], room)
        step = np.linalg.solve(bend, -slope[left][:, :, None])[:, :, 0]
        largest = np.maximum(1e-300, np.abs(step).max(axis=1))
        step *= np.minimum(1.0, LONGEST / largest)[:, None]
        length, gains, trying = 1.0, np.zeros(len(left)), np.arange(len(left))
        while trying.size and length > SMALL_STEP:
            some = left[trying]
            tried = curves[some] + length * step[trying]
            all_of_them = trying.size == left.size
            there = at(tried, *(given if all_of_them else (_of(one, trying) for one in given)))
            gain = least[some] - there[2]
            better = gain > 0.0
            good = some[better]
            curves[good], gains[trying[better]] = tried[better], gain[better]
            counts[good], slope[good], least[good] = (one[better] for one in there)
            trying, length = trying[~better], length / 2.0
        on = gains >= SMALL_STEP
        if not on.any():
            break
        if not on.all():
            left, given = left[on], (given[0][on], _of(given[1], on), given[2][on])
    return least


def _of(given: Floats, rows: NDArray[Any]) -> Floats:
    """What is given of some rows; one for all is one for some."""
    return given if len(given) == 1 else given[rows]


def _bend(prior: Floats, precision: Floats, counts: Floats, room: Floats) -> Floats:
    """The second derivatives: of the prior, and the precision of counts as one of their logarithms.
    They are put where there is room."""
    out: Floats = np.multiply(precision, counts[:, None, :], out=room[: len(counts)])
    out *= counts[:, :, None]
    out += prior
    return out
