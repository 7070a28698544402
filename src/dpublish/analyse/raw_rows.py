"""An analyst's own raw rows as codes of a release's columns, for prediction: every row gets codes,
none is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.declare.domain import Axis, Domain
from dpublish.declare.encode import encode_frame
from dpublish.errors import QueryError


def row_codes(rows: Any, axes: Sequence[Axis]) -> list[NDArray[np.int64]]:
    """One array of codes an axis; code `cardinality` stands for a value that the axis has no code
    for."""
    frame = as_frame(rows, [axis.name for axis in axes])
    lenient = Domain(tuple(_lenient(axis) for axis in axes))
    codes = encode_frame(frame, lenient).codes
    return [_strict_codes(axis)[np.asarray(code)] for axis, code in zip(axes, codes, strict=True)]


def as_frame(rows: Any, names: Sequence[str]) -> pl.DataFrame:
    """Rows given as a polars or pandas frame, an arrow table or a mapping of columns, with the
    named columns in order."""
    if isinstance(rows, pl.LazyFrame):
        rows = rows.collect()
    if not isinstance(rows, pl.DataFrame):
        columns = getattr(rows, "columns", None)
        if columns is not None and hasattr(rows, "iloc"):
            rows = pl.DataFrame(
                {name: _series(name, rows[name]) for name in names if name in set(columns)}
            )
        else:
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
    unknown = axis.cardinality
    other = axis.other_code if axis.other_code is not None else unknown
    missing = axis.missing_code if axis.missing_code is not None else other
    return np.array(
        [*range(axis.base), *([other] if _lenient(axis).other else []), missing], dtype=np.int64
    )
