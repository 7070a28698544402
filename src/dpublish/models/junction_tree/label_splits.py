"""How the rows of a level are split among labels: noisy splits, shrunk towards that of all rows.

The levels of an unordered column have no neighbours to learn from, and of a noisy count by label
each is taken for itself. With little budget the noise then looks like a relation of the column to
the target, which misleads whoever learns to tell labels. So the number of rows of every level is
kept, and how they are split moves towards the split of the whole table. How far, the column itself
says: log odds vary alike over its levels, by an amount that makes its noisy counts most likely
given the known noise, averaged over amounts. This is post-processing, and biased as all shrinkage
is: intervals are made from the unbiased counts instead.
"""

from __future__ import annotations

import numpy as np

from dpublish.models.junction_tree.consistency import Floats, onto_simplex

SIZES = (0.0, *np.geomspace(0.01, 9.0, 20).tolist())
"""Standard deviations of the log odds over levels that are tried."""
SWEEPS = 30
_LEAST = 1e-9
_LARGEST = 1e100
"""Beyond this a file's numbers are no counts, and their squares no numbers."""


def split_labels(best: Floats, variances: Floats, labels: Floats) -> Floats:
    """Non-negative counts (levels x labels) that add up to the rows of each label, from unbiased
    ones; `variances` are those of the noise of each level."""
    plain = onto_simplex(best, labels)
    total = float(labels.sum())
    if len(labels) < 2 or not (_LEAST < total < _LARGEST and np.abs(best).max() < _LARGEST):
        return plain
    shares = labels / total
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
