"""Ordered levels have neighbours: noisy counts of bins or grades, smoothed as far as their noise
calls for.

Counts are base * exp(f), with f a curve along the levels: either its bends or its steps are random,
and small. How small, the noisy counts themselves say: each kind and size is weighted by how likely
it makes them, given the known noise. A column whose counts stand out of the noise stays as it was
measured; one that is mostly noise borrows from its neighbours. The column as a whole comes first,
then each label as a departure from it. This is post-processing, and biased as all smoothing is:
intervals are made from the unbiased counts instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dpublish.models.junction_tree.consistency import Floats, GroupSums
from dpublish.models.junction_tree.plain import is_reading, loops

MAX_LEVELS = 128
"""Longer columns are left as they are: the time of a fit goes with the third power of the
levels."""
BENDS = (3000.0, 300.0, 30.0, 3.0, 0.3)
"""1 / variance of a bend of the curve (a second difference): hills are smooth in this way."""
STEPS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
"""1 / variance of a step of the curve: from steps of a tenth to steps of a factor of 300. Jumps and
spikes are of this kind."""
LOOSE = 1e-3
"""Precision of a level that is tied to no other, such as that of missing values: hardly any."""
_LEAST_SHARE = 1e-7
_LARGEST, _PRECISE = 1e13, 1e-6
"""Beyond these the matrices of the fit could not be told from singular ones."""


def smooth_column(
    best: Floats,
    variance: float,
    more: Sequence[GroupSums],
    labels: Floats,
    widths: tuple[float, ...],
) -> tuple[Floats, float] | None:
    """Counts by label (levels x labels) from their least-squares estimates; the first levels follow
    each other, and `widths` holds how wide these are.

    `variance` and `more` say what the estimates are made of, as in `least_squares`. The second
    number is the share of the noise's variance that is left. None where the numbers are beyond what
    the fit can do, as a file may hold.
    """
    if (
        not 1.0 <= float(labels.sum()) <= _LARGEST
        or np.abs(best).max() > _LARGEST
        or not _PRECISE <= variance <= _LARGEST**2
    ):
        return None
    try:
        table, left = _smoothed(best, variance, more, labels, widths)
    except np.linalg.LinAlgError:
        return None
    return (table, left) if np.isfinite(table).all() else None


@lru_cache(maxsize=64)
def _priors(levels: int, ordered: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Precisions of the curve, from stiff to loose: by its bends first, then by its steps. And the
    logarithms of their determinants."""
    out = []
    for order, precisions in ((2, BENDS), (1, STEPS)):
        differences = np.zeros((len(ordered) - order, levels))
        differences[:, ordered] = np.diff(np.eye(len(ordered)), n=order, axis=0)
        out += [
            precision * differences.T @ differences + LOOSE * np.eye(levels)
            for precision in precisions
        ]
    priors = np.stack(out)
    return priors, np.linalg.slogdet(priors)[1]


def _smoothed(
    best: Floats,
    variance: float,
    more: Sequence[GroupSums],
    labels: Floats,
    widths: tuple[float, ...],
) -> tuple[Floats, float]:
    smooth_counts = loops(best.size, reader=is_reading()).smooth_counts
    levels, total = best.shape[0], float(labels.sum())
    priors, volumes = _priors(levels, tuple(np.flatnonzero(widths).tolist()))
    measured = np.eye(levels) / variance
    for one in more:
        measured += (one.group_of[:, None] == one.group_of[None, :]) / one.variance
    precision = measured + 1.0 / variance

    def fit(noisy: Floats, count: float, base: Floats, summed: int) -> tuple[Floats, float]:
        """Shares, and the freedom of the fit; `noisy` is the sum over so many labels."""
        # the total is known better than any one count: it speaks as one more of them
        balanced = np.linalg.solve(precision, measured @ noisy + count / variance).astype(
            np.float64
        )
        fitted, freedom = smooth_counts(balanced, precision / summed, base * count, priors, volumes)
        return fitted / fitted.sum(), float(freedom)

    out = np.zeros_like(best)
    shares, freedom = fit(best.sum(axis=1), total, _flat(levels, widths), len(labels))
    if len(labels) == 1:
        return shares[:, None] * total, _share(freedom / levels)
    shares = np.maximum(shares, _LEAST_SHARE)
    for label, count in enumerate(labels):
        if count > 0.0:
            fitted, more_freedom = fit(best[:, label], float(count), shares, 1)
            out[:, label] = count * fitted
            freedom += more_freedom
    # a fit of the whole and one of each label: together they follow no more than there is to follow
    return out, _share(freedom / best.size)


def _flat(levels: int, widths: tuple[float, ...]) -> Floats:
    """The shares of levels of equal density: a bin of three years holds more than one of two."""
    wide = np.array(widths)
    place = np.flatnonzero(wide)
    out = np.full(levels, 1.0 / levels)
    out[place] = np.maximum(wide[place] / wide.sum() * (len(place) / levels), _LEAST_SHARE)
    return out


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
