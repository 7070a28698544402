"""Checks of a bundle of weighted rows: nothing in it is believed before it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from dpublish.declare.domain import Axis, Domain
from dpublish.declare.encode import encode_frame
from dpublish.errors import BundleError, SchemaError
from dpublish.models.weight_features import NUMBERS, WeightFeatures
from dpublish.releases.bundle.manifest import MAX_AXES, read_domain, text

MAX_DIMENSION = 1 << 16


def read_features(facts: Mapping[str, Any]) -> WeightFeatures:
    items = facts.get("encoding")
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_AXES:
        raise BundleError(f"facts: 'encoding' must list 1 to {MAX_AXES} columns.")
    try:
        # one at a time: the columns together may span more cells than a domain that is counted over
        axes = tuple(read_domain([item]).axes[0] for item in items)
    except SchemaError as error:
        raise BundleError(f"facts: 'encoding' cannot be read ({type(error).__name__}).") from None
    if len({axis.name for axis in axes}) != len(axes):
        raise BundleError("facts: 'encoding' names a column twice.")
    numbers = text(facts, "numbers", "facts")
    if numbers not in NUMBERS:
        raise BundleError(f"facts: 'numbers' must be one of {', '.join(NUMBERS)}.")
    features = WeightFeatures(
        axes, _read_pairs(facts, len(axes)), "bins" if numbers == "bins" else "scaled"
    )
    if features.dimension > MAX_DIMENSION:
        raise BundleError(f"facts: 'encoding' and 'pairs' make more than {MAX_DIMENSION} features.")
    return features


def _read_pairs(facts: Mapping[str, Any], axes: int) -> tuple[tuple[int, int], ...]:
    pairs = facts.get("pairs")
    if not isinstance(pairs, list) or len(pairs) > MAX_AXES:
        raise BundleError("facts: 'pairs' must be a list.")
    found = []
    for pair in pairs:
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(type(place) is int and 0 <= place < axes for place in pair)
        ):
            raise BundleError("facts: 'pairs' must list places of two columns each.")
        found.append((pair[0], pair[1]))
    return tuple(found)


def check_numbers(frame: pl.DataFrame, file: str, schema: Mapping[str, Any], rows: int) -> None:
    if dict(frame.schema) != dict(schema):
        raise BundleError(f"{file} must have the columns {', '.join(schema)}.")
    if frame.height != rows:
        raise BundleError(f"{file} must have {rows} rows.")
    for column in frame.get_columns():
        if column.null_count() or (column.dtype.is_float() and not bool(column.is_finite().all())):
            raise BundleError(f"{file} holds nulls or numbers that are not finite.")


def check_rows(frame: pl.DataFrame, axes: Sequence[Axis], rows: int) -> None:
    if frame.height != rows:
        raise BundleError(f"rows.parquet must have {rows} rows.")
    for axis in axes:
        if axis.name not in frame.columns:
            raise BundleError(f"rows.parquet has no column '{axis.name}'.")
    try:
        keep = encode_frame(frame.fill_nan(None), Domain(tuple(axes))).keep
    except SchemaError as error:
        raise BundleError(
            f"rows.parquet cannot be read in the coding of the release ({type(error).__name__})."
        ) from None
    if keep is not None:
        raise BundleError("rows.parquet holds values that the coding of the release does not know.")
