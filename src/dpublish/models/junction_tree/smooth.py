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
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpublish.arrays import Floats
from dpublish.models.junction_tree.consistency import GroupSums
from dpublish.models.junction_tree.model_error import MODEL_VERSION
from dpublish.models.junction_tree.plain import is_reading, loops

MAX_LEVELS = 128
"""Longer columns are left as they are: the time of a fit goes with the third power of the
levels."""
BENDS = (1000.0, 100.0, 10.0, 1.0)
"""1 / variance of a bend of the curve (a second difference): hills are smooth in this way."""
STEPS = (100.0, 10.0, 1.0, 0.1)
"""1 / variance of a step of the curve: from steps of a tenth to steps of a factor of 20. Jumps and
spikes are of this kind."""
EARLIER = (3000.0, 300.0, 30.0, 3.0, 0.3), (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
"""Both before version 7 of the model: finer than the counts can tell."""
LOOSE = 1e-3
"""Precision of a level that is tied to no other, such as that of missing values: hardly any."""
_LEAST_SHARE = 1e-7
_LARGEST, _PRECISE = 1e13, 1e-6
"""Beyond these the matrices of the fit could not be told from singular ones."""


@dataclass(frozen=True)
class Rough:
    """A column before it is smoothed: the least-squares estimates of its counts by label (levels x
    labels); what these are made of, as in `least_squares`; how wide the first levels are, which
    follow each other; and shares of labels that each level is thought to have, from which the
    curves of labels depart, where that is not what all rows have."""

    best: Floats
    variance: float
    more: Sequence[GroupSums]
    widths: tuple[float, ...]
    split: Floats | None = None

    @property
    def ordered(self) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self.widths).tolist())


def smooth_columns(
    columns: Sequence[Rough],
    labels: Floats,
    *,
    version: int = MODEL_VERSION,
    noise_left: bool = True,
) -> list[tuple[Floats, float] | None]:
    """Counts by label of every column, and the share of the noise's variance that is left, if that
    is asked for. None where the numbers are beyond what the fit can do, as a file may hold."""
    out: list[tuple[Floats, float] | None] = [None] * len(columns)
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for place, one in enumerate(columns):
        if (
            1.0 <= float(labels.sum()) <= _LARGEST
            and np.abs(one.best).max() <= _LARGEST
            and _PRECISE <= one.variance <= _LARGEST**2
        ):
            alike.setdefault((len(one.best), one.ordered), []).append(place)
    for places in alike.values():
        try:
            fitted = _smoothed([columns[place] for place in places], labels, version, noise_left)
        except np.linalg.LinAlgError:
            if len(places) > 1:  # one of them: the others are fitted all the same
                for place in places:
                    out[place] = smooth_columns(
                        [columns[place]], labels, version=version, noise_left=noise_left
                    )[0]
            continue
        for place, (table, left) in zip(places, fitted, strict=True):
            out[place] = (table, left) if np.isfinite(table).all() else None
    return out


@lru_cache(maxsize=64)
def _priors(levels: int, ordered: tuple[int, ...], version: int) -> tuple[Floats, Floats]:
    """Precisions of the curve, from stiff to loose: by its bends first, then by its steps. And the
    logarithms of their determinants."""
    out = []
    bends, steps = (BENDS, STEPS) if version >= 7 else EARLIER
    for order, precisions in ((2, bends), (1, steps)):
        differences = np.zeros((len(ordered) - order, levels))
        differences[:, ordered] = np.diff(np.eye(len(ordered)), n=order, axis=0)
        out += [
            precision * differences.T @ differences + LOOSE * np.eye(levels)
            for precision in precisions
        ]
    priors = np.stack(out)
    return priors, np.linalg.slogdet(priors)[1]


def _smoothed(
    columns: Sequence[Rough], labels: Floats, version: int, noise_left: bool
) -> list[tuple[Floats, float]]:
    """Columns of as many levels, of which the same follow each other."""
    smooth_counts = loops(columns[0].best.size, reader=is_reading()).smooth_counts
    levels, total, many = len(columns[0].best), float(labels.sum()), len(columns)
    priors, volumes = _priors(levels, columns[0].ordered, version)
    variance = np.array([one.variance for one in columns])[:, None]
    measured = np.stack([_measured(one) for one in columns])
    precision = measured + 1.0 / variance[:, :, None]

    def fit(noisy: Floats, count: Floats, base: Floats, summed: int) -> tuple[Floats, Floats]:
        """Shares, and the freedom of the fits; `noisy` are sums over so many labels, one row after
        the other for each column."""
        times = len(noisy) // many
        # the total is known better than any one count: it speaks as one more of them
        given = np.tile(measured, (times, 1, 1)) @ noisy[:, :, None]
        given += (count[:, None] / np.tile(variance, (times, 1)))[:, :, None]
        precise = np.tile(precision, (times, 1, 1))
        balanced = np.linalg.solve(precise, given)[:, :, 0]
        fitted, freedom = smooth_counts(
            balanced,
            precise / summed,
            base * count[:, None],
            priors,
            volumes,
            twice=version >= 7,
            freedom=noise_left,
        )
        return fitted / fitted.sum(axis=1, keepdims=True), freedom

    flat = np.stack([_flat(levels, one.widths) for one in columns])
    best = np.stack([one.best for one in columns])
    shares, freedom = fit(best.sum(axis=2), np.full(many, total), flat, len(labels))
    if len(labels) == 1:
        return [
            (one[:, None] * total, _share(free / levels))
            for one, free in zip(shares, freedom.tolist(), strict=True)
        ]
    out = np.zeros_like(best)
    some = np.flatnonzero(labels > 0.0)
    counts = np.repeat(labels[some], many)
    bases = np.tile(np.maximum(shares, _LEAST_SHARE), (len(some), 1))
    for number, one in enumerate(columns):
        if one.split is not None:
            for place, label in enumerate(some):
                base = np.maximum(shares[number] * one.split[:, label], _LEAST_SHARE)
                bases[place * many + number] = base / base.sum()
    fitted, more_freedom = fit(np.concatenate([best[:, :, one] for one in some]), counts, bases, 1)
    for place, label in enumerate(some):
        out[:, :, label] = labels[label] * fitted[place * many : (place + 1) * many]
    freedom = freedom + more_freedom.reshape(len(some), many).sum(axis=0)
    # a fit of the whole and one of each label: together they follow no more than there is to follow
    return [
        (table, _share(free / table.size))
        for table, free in zip(out, freedom.tolist(), strict=True)
    ]


def _measured(column: Rough) -> Floats:
    """The precision of a column's counts."""
    out = np.eye(len(column.best)) / column.variance
    for one in column.more:
        out += (one.group_of[:, None] == one.group_of[None, :]) / one.variance
    return out


def _flat(levels: int, widths: tuple[float, ...]) -> Floats:
    """The shares of levels of equal density: a bin of three years holds more than one of two."""
    wide = np.array(widths)
    place = np.flatnonzero(wide)
    out = np.full(levels, 1.0 / levels)
    out[place] = np.maximum(wide[place] / wide.sum() * (len(place) / levels), _LEAST_SHARE)
    return out


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
