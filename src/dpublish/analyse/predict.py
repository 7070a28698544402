"""Predictions of a published classifier for an analyst's own rows, and how good they are where the
truth is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from dpublish.analyse.metrics import hand_till_auc
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
