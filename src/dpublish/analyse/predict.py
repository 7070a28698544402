"""Predictions of a published classifier for an analyst's own rows, and how good they are where the
truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from dpublish.analyse.raw_rows import row_codes
from dpublish.errors import InputError
from dpublish.releases.frames import free_name

if TYPE_CHECKING:
    from dpublish.releases.linear_model.release import LinearModelRelease


@dataclass(frozen=True)
class Predictions:
    """`frame` has the rows with a predicted class and the probability of every class. The rest is
    None without labelled rows.

    `area` is the area under the curve (Hand and Till's for more than two classes), None when only
    one class occurs.
    """

    frame: pl.DataFrame
    labelled: int = 0
    accuracy: float | None = None
    area: float | None = None


def _type_of(release: LinearModelRelease) -> pl.DataType:
    """The type of the classes, also for a file that has a header and no rows."""
    return pl.Series(release.classes.tolist()).dtype


def predict_rows(release: LinearModelRelease, rows: pl.DataFrame) -> Predictions:
    """Predict every row. Where the column of the target is there, rows with one of its levels also
    tell how good it is."""
    chances = release.predict_proba(rows)
    name = release.target.name
    new = {
        "predicted": pl.Series(
            release.classes[chances.argmax(axis=1)].tolist(), dtype=_type_of(release)
        )
    }
    for place, level in enumerate(release.target.labels[: release.target.base]):
        new[f"probability_{level}"] = pl.Series(chances[:, place])
    added: list[pl.Series] = []
    for label, values in new.items():
        taken = (*rows.columns, *(series.name for series in added))
        added.append(values.alias(free_name(f"{name}_{label}", taken)))
    frame = rows.with_columns(added)
    if name not in rows.columns:
        return Predictions(frame)
    codes = row_codes(rows, [release.target])[0]
    known = codes < release.target.base
    if not known.any():
        return Predictions(frame)
    right = chances[known].argmax(axis=1) == codes[known]
    try:
        area = hand_till_auc(codes[known], chances[known], classes=range(release.target.base))
    except InputError:  # rows of one class only
        area = None
    return Predictions(frame, int(known.sum()), float(right.mean()), area)


# How well scores rank: the area under the ROC curve, for two classes and (Hand and Till 2001) for
# more.
#
# Rows may be weighted, so a weighted release can be scored as it is. Ties count one half.

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
