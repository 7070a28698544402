"""Rows into points of a grid: for each kept row one code, sorted and counted; or its sectors.

A value is read as `declare/encode.py` reads it. A value beyond a bound goes to the nearest position
(`clip`) or drops its row; a missing value drops its row. The rule looks at one row alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.counting.bound import keep_rows
from dpublish.declare.encode import as_text, floats, ordinals, whole_numbers
from dpublish.declare.grid import Grid, TreeShape
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import SparseCounts
from dpublish.methods.interval_tree.points import GridPoints
from dpublish.sources.sources import Source
from dpublish.sources.units import join_units

if TYPE_CHECKING:
    from dpublish.methods.halfspaces.mechanism import SectorCounts

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]


def compute(
    statistic: GridPoints,
    source: Source,
    schema: Schema,
    *,
    key: bytes,
    progress: Callable[[int], None] | None = None,
) -> SparseCounts:
    """How many kept rows have each code of the grid."""
    shape = statistic.shape
    names = [grid.name for grid in shape.grids]
    unit = schema.unit.column
    codes: list[NDArray[np.uint64]] = []
    keeps: list[Flags] = []
    units: list[pl.Series] = []
    for frame in source.batches(names + ([unit] if unit is not None and unit not in names else [])):
        if progress is not None:
            progress(0)
        found, kept = point_codes(frame, shape)
        if unit is None:
            codes.append(found if kept is None else found[kept])
        else:
            codes.append(found)
            keeps.append(np.ones(found.size, dtype=np.bool_) if kept is None else kept)
            units.append(frame.get_column(unit))
    points = np.concatenate(codes) if codes else np.empty(0, dtype=np.uint64)
    if unit is not None and points.size:
        # bounding sees all rows of a unit; rows that the grid drops are dropped from what it keeps
        points = points[
            keep_rows(join_units(units), schema.unit.max_rows, key) & np.concatenate(keeps)
        ]
    return count_codes(points)


def point_codes(frame: pl.DataFrame, shape: TreeShape) -> tuple[NDArray[np.uint64], Flags | None]:
    """The code of every row, and which rows are kept (None: all)."""
    positions: list[Ints] = []
    keep: Flags | None = None
    for grid in shape.grids:
        found, kept = positions_of(frame.get_column(grid.name), grid)
        positions.append(found)
        if kept is not None:
            keep = kept if keep is None else keep & kept
    return shape.codes(positions), keep


def positions_of(series: pl.Series, grid: Grid) -> tuple[Ints, Flags | None]:
    """The position of every cell, and which cells have one."""
    if series.dtype == pl.Categorical or isinstance(series.dtype, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype.is_decimal():
        series = as_text(series)
    readable = (
        series.dtype.is_integer()
        or series.dtype.is_float()
        or series.dtype in (pl.Boolean, pl.String)
    )
    last = grid.positions - 1
    if grid.kind == "date":
        days = ordinals(series)
        if days is None:
            return np.zeros(len(series), dtype=np.int64), np.zeros(len(series), dtype=np.bool_)
        values, holes = days
    elif not readable:
        return np.zeros(len(series), dtype=np.int64), np.zeros(len(series), dtype=np.bool_)
    elif grid.kind == "real":
        return _real_positions(*floats(series), grid)
    else:
        values, holes = whole_numbers(series)
    lower = int(grid.lower)
    keep = None if holes is None else ~holes
    if grid.outside != "clip":
        inside = (values >= lower) & (values <= lower + last)
        keep = inside if keep is None else keep & inside
    return np.clip(values, lower, lower + last) - lower, keep


def _real_positions(
    values: NDArray[np.float64], holes: Flags | None, grid: Grid
) -> tuple[Ints, Flags | None]:
    last = grid.positions - 1
    filled = values if holes is None else np.where(holes, float(grid.lower), values)
    scaled = (filled - float(grid.lower)) / float(grid.step)
    keep = None if holes is None else ~holes
    if grid.outside != "clip":
        inside = (filled >= float(grid.lower)) & (filled <= float(grid.upper))
        keep = inside if keep is None else keep & inside
    return np.floor(np.clip(scaled, 0.0, float(last))).astype(np.int64), keep


def count_codes(points: NDArray[np.uint64]) -> SparseCounts:
    """Sorted distinct codes and how often each occurs."""
    if not points.size:
        return SparseCounts(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))
    # half the width is sorted in half the time
    narrow = points.astype(np.uint32) if int(points.max()) < 1 << 32 else points
    ordered = np.sort(narrow)
    new = np.empty(ordered.size, dtype=np.bool_)
    new[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    counts = np.diff(starts, append=ordered.size)
    return SparseCounts(ordered[starts].astype(np.uint64), counts.astype(np.int64))


def count_sectors(
    statistic: SectorCounts,
    source: Source,
    schema: Schema,
    *,
    key: bytes,
    progress: Callable[[int], None] | None = None,
) -> Ints:
    """How many kept rows fall into each cell of each projection."""
    sectors, unit = statistic.sectors, schema.unit.column
    names = [grid.name for grid in sectors.grids]
    total = np.zeros((sectors.projections, sectors.cells), dtype=np.int64)
    held: list[tuple[list[Ints], Flags]] = []
    units: list[pl.Series] = []
    for frame in source.batches(names + ([unit] if unit is not None and unit not in names else [])):
        if progress is not None:
            progress(0)
        keep = np.ones(frame.height, dtype=np.bool_)
        positions: list[Ints] = []
        for grid in sectors.grids:
            found, kept = positions_of(frame.get_column(grid.name), grid)
            positions.append(found)
            if kept is not None:
                keep &= kept
        if unit is None:
            total += sectors.counts([place[keep] for place in positions])
        else:
            held.append((positions, keep))
            units.append(frame.get_column(unit))
    if unit is not None and held:
        chosen = keep_rows(join_units(units), schema.unit.max_rows, key)
        start = 0
        for positions, keep in held:
            both = keep & chosen[start : start + keep.size]
            start += keep.size
            total += sectors.counts([place[both] for place in positions])
    return total
