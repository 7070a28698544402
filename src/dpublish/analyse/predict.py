"""Predictions of a published classifier for an analyst's own rows, and how good they are where the
truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from dpublish.arrays import Floats
from dpublish.declare.domain import Axis, Domain
from dpublish.declare.encode import encode_frame
from dpublish.errors import InputError, QueryError
from dpublish.releases.frames import free_name

if TYPE_CHECKING:
    from dpublish.releases.linear_model.release import LinearModelRelease


# An analyst's own raw rows as codes of a release's columns, for prediction: every row gets codes,
# none is dropped.


def row_codes(rows: Any, axes: Sequence[Axis]) -> list[NDArray[np.int64]]:
    """One array of codes an axis; code `cardinality` stands for a value that the axis has no code
    for."""
    frame = as_frame(rows, [axis.name for axis in axes])
    codes = encode_frame(frame, Domain(tuple(_lenient(axis) for axis in axes))).codes
    return [_strict_codes(axis)[np.asarray(code)] for axis, code in zip(axes, codes, strict=True)]


def as_frame(rows: Any, names: Sequence[str]) -> pl.DataFrame:
    """Rows given as a polars or pandas frame, an arrow table or a mapping of columns, with the
    named columns in order."""
    if isinstance(rows, pl.LazyFrame):
        rows = rows.collect()
    elif hasattr(rows, "iloc") and hasattr(rows, "columns"):
        rows = pl.DataFrame(
            {name: _series(name, rows[name]) for name in names if name in set(rows.columns)}
        )
    elif not isinstance(rows, pl.DataFrame):
        try:
            rows = pl.DataFrame(rows, strict=False)
        except Exception as error:
            raise QueryError(
                f"Rows must be a polars or pandas frame or a mapping of columns, not "
                f"{type(rows).__name__}."
            ) from error
    lacking = [name for name in names if name not in rows.columns]
    if lacking:
        raise QueryError(
            f"The rows lack the columns {', '.join(lacking)}. Needed: {', '.join(names)}."
        )
    frame: pl.DataFrame = rows.select(names)
    return frame


def _series(name: str, values: Any) -> pl.Series:
    try:
        return pl.Series(name, values.to_numpy())
    except Exception:  # mixed objects: let polars take them one by one
        return pl.Series(
            name, [None if value is None else str(value) for value in values], dtype=pl.String
        )


def _lenient(axis: Axis) -> Axis:
    """The axis with a code for everything; values outside its bounds are still clipped where the
    column says so."""
    if axis.outside == "clip":
        return replace(axis, missing=True)
    return replace(axis, missing=True, other=True, outside="other")


def _strict_codes(axis: Axis) -> NDArray[np.int64]:
    """For each code of the lenient axis (declared, other, missing) the code of the axis,
    `cardinality` where it has none."""
    other = axis.other_code if axis.other_code is not None else axis.cardinality
    missing = axis.missing_code if axis.missing_code is not None else other
    return np.array(
        [*range(axis.base), *([other] if _lenient(axis).other else []), missing], dtype=np.int64
    )


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


def predict_rows(release: LinearModelRelease, rows: pl.DataFrame) -> Predictions:
    """Predict every row. Where the column of the target is there, rows with one of its levels also
    tell how good it is."""
    chances = release.predict_proba(rows)
    name = release.target.name
    predicted = release.classes[chances.argmax(axis=1)].tolist()
    # the type of the classes, also for a file that has a header and no rows
    new = {"predicted": pl.Series(predicted, dtype=pl.Series(release.classes.tolist()).dtype)}
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
    blank = np.where(np.isnan(table).any(axis=1), np.nan, 0.0)
    _, weight = _checked(blank, weights, names.shape)
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
) -> tuple[Floats, Floats]:
    values = np.asarray(scores, dtype=np.float64)
    weight = np.ones(shape) if weights is None else np.asarray(weights, dtype=np.float64)
    if len(shape) != 1 or values.shape != shape or weight.shape != shape:
        raise InputError("labels, scores and weights must be as long as each other.")
    if np.isnan(values).any() or not np.isfinite(weight).all() or (weight < 0).any():
        raise InputError("scores must be numbers, and weights finite and not negative.")
    return values, weight


def _area(positive: NDArray[np.bool_], scores: Floats, weights: Floats) -> float | None:
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
