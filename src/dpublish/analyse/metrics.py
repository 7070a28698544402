"""How well scores rank: the area under the ROC curve, for two classes and (Hand and Till 2001) for
more.

Rows may be weighted, so a weighted release can be scored as it is. Ties count one half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpublish.errors import InputError

FloatArray = NDArray[np.float64]


def binary_auc(
    positive: ArrayLike, scores: ArrayLike, *, weights: ArrayLike | None = None
) -> float:
    """The chance that a random positive row scores higher than a random other row, ties counting
    one half.

    Parameters
    ----------
    positive : true for rows of the class that high scores should point to.
    scores : one number per row.
    weights : non-negative weight of each row; 1 when left out.
    """
    marks = np.asarray(positive, dtype=np.bool_)
    values, weight = _checked(scores, weights, marks.shape)
    area = _area(marks, values, weight)
    if area is None:
        raise InputError("The area under the curve needs rows of both classes.")
    return area


def hand_till_auc(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    classes: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
) -> float:
    """Hand and Till's M: the mean over pairs of classes of how well the two are told apart.

    For a pair (i, j) it is the mean of two areas on the rows of i and j: class i ranked by score i,
    class j by score j. Pairs of which one class has no rows are left out of the mean. With two
    classes it is the mean of both one-against-the-other areas, which agree when the two scores add
    up to a constant.

    Parameters
    ----------
    labels : the class of each row.
    scores : array of rows x classes, such as `predict_proba` returns.
    classes : what the columns of `scores` stand for; the sorted distinct labels when left out.
    weights : non-negative weight of each row; 1 when left out.
    """
    names = np.asarray(labels)
    known = np.unique(names) if classes is None else np.asarray(classes)
    table = np.asarray(scores, dtype=np.float64)
    if table.shape != (names.size, known.size) or names.ndim != 1:
        raise InputError(
            f"scores must have {names.size} rows and {known.size} columns, not the shape "
            f"{table.shape}."
        )
    _, weight = _checked(table[:, 0] if known.size else np.zeros(names.size), weights, names.shape)
    if not np.isin(names, known).all():
        raise InputError("labels has a class that is not in classes.")
    found = []
    for i in range(known.size):
        for j in range(i):
            pair = (names == known[i]) | (names == known[j])
            first = _area(names[pair] == known[i], table[pair, i], weight[pair])
            second = _area(names[pair] == known[j], table[pair, j], weight[pair])
            if first is not None and second is not None:
                found.append((first + second) / 2)
    if not found:
        raise InputError("The area under the curve needs rows of at least two classes.")
    return float(np.mean(found))


def _checked(
    scores: ArrayLike, weights: ArrayLike | None, shape: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    values = np.asarray(scores, dtype=np.float64)
    weight = np.ones(shape) if weights is None else np.asarray(weights, dtype=np.float64)
    if len(shape) != 1 or values.shape != shape or weight.shape != shape:
        raise InputError("labels, scores and weights must be as long as each other.")
    if np.isnan(values).any() or not np.isfinite(weight).all() or (weight < 0).any():
        raise InputError("scores must be numbers, and weights finite and not negative.")
    return values, weight


def _area(positive: NDArray[np.bool_], scores: FloatArray, weights: FloatArray) -> float | None:
    """The weighted area, or None when a class has no weight."""
    place = np.unique(scores, return_inverse=True)[1].reshape(-1)
    size = int(place.max()) + 1 if place.size else 0
    ups = np.bincount(place, weights=np.where(positive, weights, 0.0), minlength=size)
    downs = np.bincount(place, weights=np.where(positive, 0.0, weights), minlength=size)
    total = ups.sum() * downs.sum()
    if not total > 0:
        return None
    below = np.cumsum(downs) - downs
    return float((ups * (below + downs / 2)).sum() / total)
