"""Noisy tables, moved towards what a model expects of them as far as their noise calls for.

A table departs from the expected one in two ways. A cell holds more or fewer rows than expected;
and its rows are split among labels in another way. Most true departures are of the first kind:
columns go together. That they also act on the label together, other than each by itself, is rarer,
and noise that looks like it misleads whoever learns to tell labels. So each kind has a size of its
own, found from the table: the one that makes the noisy counts most likely, given the known noise.

Departures of the first kind have a variance in proportion to the rows expected in a cell. Those of
the second kind, to the square of the rows that are there: log odds vary alike in all cells. So
noise in cells that are all but empty is not taken for departures, which one rate for all cells, as
of James and Stein, cannot tell. This is post-processing, and biased as all shrinkage is: intervals
are made from the unbiased counts instead.
"""

from __future__ import annotations

import numpy as np

from dpublish.arrays import Floats
from dpublish.models.junction_tree.consistency import onto_simplex
from dpublish.models.junction_tree.plain import is_reading, loops

_LEAST_ROWS = 1.0
"""No cell is so empty that nothing can be learnt about it."""
_LEAST_SHARE = 1e-3
"""Rows that every cell of the expected table is thought to have more, split as all rows are: where
none are expected there would be no shares of labels."""
_LEAST_DOUBT = 1e-6
SIZES = (0.0, *np.geomspace(0.01, 9.0, 20).tolist())
"""Standard deviations of the log odds over levels that are tried."""
SWEEPS = 30
_LEAST = 1e-9
_LARGEST = 1e100
"""Beyond this a file's numbers are no counts, and their squares no numbers."""


def shrink(counts: Floats, expected: Floats, variance: float) -> Floats:
    """The most believable table (columns..., labels) between the measured and the expected one."""
    chosen = loops(counts.size, reader=is_reading())
    best_size, departures = chosen.best_size, chosen.departures
    labels = counts.shape[-1]
    guess = np.maximum(0.0, expected).reshape(-1, labels)
    away = (counts - expected).reshape(-1, labels)
    rows = guess.sum(axis=1)
    if not (
        variance > 0.0
        and rows.sum() < _LARGEST
        and np.abs(away).max(initial=0.0) < _LARGEST * np.sqrt(variance)
    ):
        return counts
    noisy = away / np.sqrt(variance)
    shares = _shares(guess)
    sizes = _relative(rows + _LEAST_ROWS)
    doubt = np.maximum(_LEAST_DOUBT, 1.0 - (shares * shares).sum(axis=1))
    splits = _splits(rows, doubt)
    whole = best_size(noisy, shares, sizes, splits, 1.0, 1.0 if labels > 1 else 0.0, True)
    split = 0.0
    if labels > 1:
        split = best_size(noisy, shares, sizes, splits, whole, 1.0, False)
        # how rows are split depends on how many there are: now that is known better
        more = departures(noisy, shares, sizes, splits, whole, split).sum(axis=1) * np.sqrt(
            variance
        )
        splits = _splits(np.maximum(0.0, rows + more), doubt)
        split = best_size(noisy, shares, sizes, splits, whole, split, False)
        whole = best_size(noisy, shares, sizes, splits, whole, split, True)
    true = departures(noisy, shares, sizes, splits, whole, split) * np.sqrt(variance)
    shrunk: Floats = expected + true.reshape(counts.shape)
    return shrunk


def _shares(guess: Floats) -> Floats:
    """How the rows of each cell are split among labels, as far as is expected."""
    labels = guess.sum(axis=0)
    labels = (labels + _LEAST_SHARE) / (labels + _LEAST_SHARE).sum()
    filled = guess + _LEAST_SHARE * labels
    out: Floats = filled / filled.sum(axis=1, keepdims=True)
    return out


def _splits(rows: Floats, doubt: Floats) -> Floats:
    """How much the split of a cell's rows may vary, next to other cells. For two labels of shares p
    and q, the variance comes to (rows p q)^2: what a change of the log odds does to the counts."""
    return _relative((rows + _LEAST_ROWS) ** 2 * doubt)


def _relative(values: Floats) -> Floats:
    out: Floats = values / values.mean()
    return out


def split_labels(
    best: Floats, variances: Floats, labels: Floats, expected: Floats | None = None
) -> Floats:
    """Non-negative counts (levels x labels) that add up to the rows of each label, from unbiased
    ones; `variances` are those of the noise of each level; `expected` are the shares of labels that
    each level is thought to have, where that is not what all rows have.

    The levels of an unordered column have no neighbours to learn from, and of a noisy count by
    label each is taken for itself. With little budget the noise then looks like a relation of the
    column to the target, which misleads whoever learns to tell labels. So the number of rows of
    every level is kept, and how they are split moves towards the split of the whole table. How far,
    the column itself says: log odds vary alike over its levels, by an amount that makes its noisy
    counts most likely given the known noise, averaged over amounts.
    """
    plain = onto_simplex(best, labels)
    total = float(labels.sum())
    if len(labels) < 2 or not (_LEAST < total < _LARGEST and np.abs(best).max() < _LARGEST):
        return plain
    shares = labels / total if expected is None else expected
    rows = plain.sum(axis=1)
    away = best - best.sum(axis=1, keepdims=True) * shares
    # a level's departures from the common split add up to nothing: less noise than in its counts
    noise = variances[:, None] * (1.0 - 2.0 * shares + len(labels) * shares**2)
    prior = (rows[:, None] * shares * (1.0 - shares)) ** 2
    fits = [_likelihood(away, noise + size**2 * prior) for size in SIZES]
    weights = np.exp(np.array(fits) - max(fits))
    true: Floats = np.zeros_like(away)
    for size, weight in zip(SIZES, weights / weights.sum(), strict=True):
        if weight > _LEAST:
            true += weight * size**2 * prior / (noise + size**2 * prior) * away
    split: Floats = np.maximum(0.0, rows[:, None] * shares + true) + _LEAST * rows[:, None] * shares
    for _ in range(SWEEPS):
        split *= _ratio(rows, split.sum(axis=1))[:, None]
        split *= _ratio(labels, split.sum(axis=0))
    return split


def _likelihood(away: Floats, variances: Floats) -> float:
    """Of departures that add up to nothing over labels, as a logarithm up to a constant."""
    labels = int(away.shape[1])
    spread = np.maximum(variances, _LEAST)
    return -0.5 * float((np.log(spread) + away**2 / spread).sum()) * (labels - 1) / labels


def _ratio(wanted: Floats, now: Floats) -> Floats:
    return np.where(now > 0.0, wanted / np.where(now > 0.0, now, 1.0), 0.0)
