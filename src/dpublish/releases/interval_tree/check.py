"""Is what a bundle holds an interval tree? Every table and fact is read as if an enemy had written
it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from dpublish.declare.columns import NUMERIC_KINDS
from dpublish.declare.grid import MAX_DIGITS, MAX_POSITIONS, Boxes, TreeShape
from dpublish.errors import BundleError, PublishError
from dpublish.models.hierarchical_counts import Hierarchy
from dpublish.models.integer_limits import MAX_COUNT, within_limits
from dpublish.releases.bundle.manifest import fraction, table, text, whole

MAX_BOXES = 1 << 26
BOXES_SCHEMA: dict[str, Any] = {"depth": pl.UInt8, "prefix": pl.UInt64}
COUNTS_SCHEMA: dict[str, Any] = {"count": pl.Int64}


class ReadTree(NamedTuple):
    """What a bundle says, once it was believed."""

    shape: TreeShape
    boxes: Boxes
    total: int | None
    """The public number of rows; None where it is private, and in bundles written before totals
    were."""
    hierarchy: Hierarchy
    scale: Fraction
    missing: str | None
    """How rows without a value were counted: see `missing_rule` of the mechanism."""


def read_tree(manifest: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> ReadTree:
    """Raise a BundleError unless facts and tables fit together."""
    facts = table(manifest, "facts", "manifest")
    scale = fraction(facts, "scale", "facts")
    text(facts, "tree", "facts")
    shape = _read_shape(facts.get("grid"))
    if set(tables) != {"boxes", "counts"}:
        raise BundleError("An interval tree holds two tables, boxes.parquet and counts.parquet.")
    for name, expected in (("boxes", BOXES_SCHEMA), ("counts", COUNTS_SCHEMA)):
        frame = tables[name]
        if dict(frame.schema) != expected or any(frame[column].null_count() for column in expected):
            raise BundleError(
                f"{name}.parquet must have the columns {', '.join(expected)} without nulls."
            )
    depth, prefix = (tables["boxes"][name].to_numpy() for name in BOXES_SCHEMA)
    boxes = Boxes(depth.astype(np.int64), prefix)
    _check_boxes(shape, boxes)
    known = facts.get("total") is not None
    total = whole(facts, "total", "facts", limit=MAX_COUNT, lowest=1) if known else None
    fanout = whole(facts, "fanout", "facts", limit=MAX_BOXES, lowest=1)
    height = whole(facts, "height", "facts", limit=40, lowest=1)
    # where the total is public, one entry more counts what lies in no box
    leaves = len(boxes) + known
    if fanout**height < leaves or (fanout > 2 and (fanout - 1) ** height >= leaves and height > 1):
        raise BundleError("facts: 'fanout' and 'height' do not fit the number of boxes.")
    hierarchy = Hierarchy(leaves, fanout, height, known)
    missing = _missing_of(facts, shape, fixed=known)
    if hierarchy.measures + (missing == "own") != tables["counts"].height:
        raise BundleError(
            "counts.parquet has another number of rows than the boxes and their groups."
        )
    if not within_limits(tables["counts"]["count"].to_numpy()):
        raise BundleError("counts.parquet holds a count that is not believable.")
    return ReadTree(
        shape=shape, boxes=boxes, total=total, hierarchy=hierarchy, scale=scale, missing=missing
    )


def _missing_of(facts: Mapping[str, Any], shape: TreeShape, *, fixed: bool) -> str | None:
    """None where the schema has no missing values, and in bundles written before they were
    counted."""
    if facts.get("missing") is None:
        return None
    said = text(facts, "missing", "facts")
    if said not in (("rest", "among rest") if fixed else ("own",)):
        raise BundleError("facts: 'missing' does not fit 'total'.")
    if not any(grid.missing for grid in shape.grids):
        raise BundleError("facts: 'missing' speaks of columns that have no missing values.")
    return said


def _read_shape(data: Any) -> TreeShape:
    if not isinstance(data, list) or not 1 <= len(data) <= 16:
        raise BundleError("facts: 'grid' must list 1 to 16 columns.")
    for item in data:
        if not isinstance(item, Mapping):
            raise BundleError("facts: every column of 'grid' must be an object.")
        whole(item, "positions", "grid", limit=MAX_POSITIONS, lowest=1)
        text(item, "name", "grid")
        if text(item, "kind", "grid") not in NUMERIC_KINDS:
            raise BundleError("grid: a column must hold numbers, dates or times.")
        for key in ("lower", "step"):
            if len(text(item, key, "grid")) > MAX_DIGITS:
                raise BundleError(f"grid: '{key}' is too long.")
    try:
        shape = TreeShape.from_json(data)
    except (PublishError, ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise BundleError(f"facts: 'grid' cannot be read ({type(error).__name__}).") from None
    if len({grid.name for grid in shape.grids}) != len(shape.grids) or any(
        grid.step <= 0 for grid in shape.grids
    ):
        raise BundleError("grid: names must differ and steps must be above 0.")
    if shape.depth == 0:
        raise BundleError("grid: there must be at least two positions.")
    if any(max(abs(grid.lower), abs(grid.upper)) > 10**300 for grid in shape.grids):
        raise BundleError("grid: a bound is too large.")
    return shape


def _check_boxes(shape: TreeShape, boxes: Boxes) -> None:
    if not 1 <= len(boxes) <= MAX_BOXES:
        raise BundleError("boxes.parquet must list at least one box.")
    if int(boxes.depth.max()) > shape.depth:
        raise BundleError("boxes.parquet names a box deeper than the grid.")
    most = np.array([(1 << bits) - 1 for bits in shape.used_bits], dtype=np.uint64)[boxes.depth]
    if np.any(boxes.prefix > most):
        raise BundleError("boxes.parquet names a box outside the grid.")
    first, after = shape.spans(boxes)
    if np.any(first[1:] < after[:-1]):
        raise BundleError("boxes.parquet is not in order, or two boxes overlap.")
    starts, ends = shape.corners(boxes)
    if any(np.any(e <= s) for s, e in zip(starts, ends, strict=True)):
        raise BundleError("boxes.parquet names a box without positions.")
    sizes = np.stack(ends, axis=1) - np.stack(starts, axis=1)
    if sum(map(math.prod, sizes.tolist())) != math.prod(grid.positions for grid in shape.grids):
        raise BundleError("boxes.parquet does not cover the grid.")
