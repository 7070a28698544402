"""Checks of a bundle of weighted rows: nothing in it is believed before it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.declare.domain import Axis, Domain
from dpublish.declare.encode import encode_frame
from dpublish.errors import BundleError, SchemaError
from dpublish.models.junction_tree.fit import MeasuredColumn, MeasuredTable
from dpublish.models.junction_tree.measured import Measured
from dpublish.models.linear_features import NUMBERS, WeightFeatures
from dpublish.privacy.budget_split import laplace_variance
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


# The noisy tables that weights were fitted to, as a release of weighted rows holds them.

_BELIEVABLE = 1e24


def read_counts(
    manifest: Mapping[str, Any], features: WeightFeatures, values: NDArray[np.int64]
) -> Measured | None:
    """What was counted, with its noise; None where the file does not say it plainly, and so no
    count can be relied on."""
    facts = manifest["facts"]
    purse = manifest["plan"].get("facts", {}).get("purse")
    if (
        facts.get("variant") != "moments"
        or features.numbers != "bins"
        or not isinstance(purse, Mapping)
    ):
        return None
    variances = _variances(purse, len(features.groups))
    if variances is None:
        return None
    parts = np.split(values.astype(np.float64), features.starts[1:-1])
    columns, tables = [], []
    for group, counts, variance in zip(features.groups, parts, variances, strict=True):
        if len(group.axes) == 1:
            columns.append(MeasuredColumn(counts[:, None], variance))
        else:
            shape = tuple(features.axes[axis].cardinality for axis in group.axes)
            levels = tuple(np.arange(size, dtype=np.int64) for size in shape)
            tables.append(MeasuredTable(group.axes, levels, counts.reshape(*shape, 1), variance))
    total = facts.get("public_total")
    known = isinstance(total, int) and not isinstance(total, bool) and total > 0
    return Measured(
        "gaussian" if purse["law"] == "gaussian" else "laplace",
        None,
        tuple(columns),
        tuple(tables),
        total if known else None,
    )


def _variances(purse: Mapping[str, Any], groups: int) -> list[float] | None:
    """The noise variance of a cell of each table: columns and named pairs in turn, then the pairs
    that were chosen."""
    try:
        rows, replaced = int(purse["unit_rows"]), bool(purse["replaced"])
        named = [float(Fraction(amount)) for amount in purse["tables"]]
        amounts = [*named, *[float(Fraction(purse["pair_table"]))] * (groups - len(named))][:groups]
        if purse["law"] == "laplace":
            found = [laplace_variance(rows * (1 + replaced) / amount) for amount in amounts]
        elif purse["law"] == "gaussian":
            extra = float(Fraction(purse.get("extra_variance", 0)))
            # the square of the root of two that the mechanism rounds up
            found = [
                rows**2 * (2.000_002 if replaced else 1.0) / (2 * amount) + extra
                for amount in amounts
            ]
        else:
            return None
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None
    sound = (
        len(found) == groups
        and rows > 0
        and all(math.isfinite(one) and 0.0 < one < _BELIEVABLE for one in found)
    )
    return found if sound else None
