"""Rows into points of a grid: for each kept row one code, sorted and counted; or its sectors.

A value is read as `declare/encode.py` reads it. A value beyond a bound goes to the nearest position
(`clip`) or drops its row; a missing value drops its row, or has a code of its own where it is asked
for. The rule looks at one row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Flags, Ints, Words
from dpublish.counting.bound import (
    Columns,
    Progress,
    Said,
    bounded_rows,
    codes_said,
    numbers_said,
    reported,
)
from dpublish.counting.cells import PIECE_ROWS, merged
from dpublish.declare.encode import numbers_on
from dpublish.declare.grid import Grid
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import GridPoints, SparseCounts
from dpublish.sources.sources import Source

if TYPE_CHECKING:
    from dpublish.methods.halfspaces.mechanism import SectorCounts


def count_points(
    asked: GridPoints,
    source: Source,
    schema: Schema,
    *,
    key: bytes,
    progress: Progress | None = None,
) -> SparseCounts:
    """How many kept rows have each code of the grid."""
    total = SparseCounts.none()
    small: list[Words] = []
    rows = 0

    def read() -> Iterator[tuple[Columns, pl.Series | None]]:
        for frame in _batches(source, asked.shape.grids, schema.unit.column, progress):
            codes, keep = point_codes(frame, asked)
            yield [codes], _units(frame, schema.unit.column, keep)

    for (codes,) in _bounded(read, lambda held: numbers_said(held[0]), schema, key):
        small.append(codes)
        rows += codes.size
        if rows > PIECE_ROWS:
            total = merged(total, count_codes(np.concatenate(small)))
            small, rows = [], 0
    return merged(total, count_codes(np.concatenate(small))) if small else total


def _bounded(
    read: Callable[[], Iterator[tuple[Columns, pl.Series | None]]],
    said_of: Callable[[Columns], Said],
    schema: Schema,
    key: bytes,
) -> Iterator[Columns]:
    if schema.unit.column is None:
        return (columns for columns, _ in read())
    bounded = cast("Callable[[], Iterator[tuple[Columns, pl.Series]]]", read)
    return bounded_rows(bounded, said_of, schema.unit.max_rows, key)


def _positions(
    source: Source,
    grids: Sequence[Grid],
    unit: str | None,
    progress: Progress | None,
) -> Iterator[tuple[list[Ints], pl.Series | None]]:
    """The positions of the rows that have one in every grid, and their units."""
    for frame in _batches(source, grids, unit, progress):
        positions, keep, _ = place_rows(frame, grids)
        if keep is not None:
            positions = [found[keep] for found in positions]
        yield positions, _units(frame, unit, keep)


def _batches(
    source: Source,
    grids: Sequence[Grid],
    unit: str | None,
    progress: Progress | None,
) -> Iterator[pl.DataFrame]:
    names = [grid.name for grid in grids]
    extra = [unit] if unit is not None and unit not in names else []
    return reported(source.batches(names + extra), progress)


def _units(frame: pl.DataFrame, unit: str | None, keep: Flags | None) -> pl.Series | None:
    """The units of the rows that are kept."""
    if unit is None or keep is None:
        return None if unit is None else frame.get_column(unit)
    return frame.get_column(unit).filter(pl.Series(keep))


def point_codes(frame: pl.DataFrame, asked: GridPoints) -> tuple[NDArray[np.uint64], Flags | None]:
    """The codes of the rows that are kept, and which rows those are (None: all)."""
    positions, keep, lacking = place_rows(frame, asked.shape.grids)
    if keep is None:
        return asked.shape.codes(positions), None
    if not asked.absent or lacking is None:
        return asked.shape.codes([found[keep] for found in positions]), keep
    every = keep | lacking
    codes = asked.shape.codes([found[every] for found in positions])
    codes[lacking[every]] = np.uint64(asked.shape.absent)
    return codes, every


def place_rows(
    frame: pl.DataFrame, grids: Sequence[Grid]
) -> tuple[list[Ints], Flags | None, Flags | None]:
    """The position of every row in every grid, which rows have one in all (None: all have), and
    which others lack nothing but values that the schema says may be missing (None: no row does)."""
    positions: list[Ints] = []
    keep: Flags | None = None
    excused: Flags | None = None
    for grid in grids:
        found, kept, holes = positions_of(frame.get_column(grid.name), grid)
        positions.append(found)
        if kept is None:
            continue
        fine = kept | holes if grid.missing and holes is not None else kept
        keep = kept if keep is None else keep & kept
        excused = fine if excused is None else excused & fine
    return positions, keep, None if keep is None or excused is None else excused & ~keep


def positions_of(series: pl.Series, grid: Grid) -> tuple[Ints, Flags | None, Flags | None]:
    """The position of every cell, which cells have one, and which are missing (None: all have, and
    none is)."""
    found = numbers_on(grid.kind, series)
    if found is None:  # cells of a type that holds no numbers say nothing: all are missing
        none = np.zeros(len(series), dtype=np.bool_)
        return np.zeros(len(series), dtype=np.int64), none, ~none
    values, holes = found
    last = grid.positions - 1
    if grid.kind == "real":
        lower, upper = float(grid.lower), float(grid.upper)
        values = values if holes is None else np.where(holes, lower, values)
        scaled = (values - lower) / float(grid.step)
        positions = np.floor(np.clip(scaled, 0.0, float(last))).astype(np.int64)
    else:
        lower, upper = int(grid.lower), int(grid.lower) + last
        positions = np.clip(values, lower, upper) - lower
    keep = None if holes is None else ~holes
    if grid.outside != "clip":
        inside = (values >= lower) & (values <= upper)
        keep = inside if keep is None else keep & inside
    return positions, keep, holes


def count_codes(points: NDArray[np.uint64]) -> SparseCounts:
    """Sorted distinct codes and how often each occurs."""
    if not points.size:
        return SparseCounts.none()
    # half the width is sorted in half the time
    narrow = points.astype(np.uint32) if int(points.max()) < 1 << 32 else points
    codes, counts = np.unique(narrow, return_counts=True)
    return SparseCounts(codes.astype(np.uint64), counts.astype(np.int64))


def count_sectors(
    statistic: SectorCounts,
    source: Source,
    schema: Schema,
    *,
    key: bytes,
    progress: Progress | None = None,
) -> Ints:
    """How many kept rows fall into each cell of each projection."""
    sectors = statistic.sectors
    shape = [grid.positions for grid in sectors.grids]
    total = np.zeros((sectors.projections, sectors.cells), dtype=np.int64)
    for positions in _bounded(
        lambda: _positions(source, sectors.grids, schema.unit.column, progress),
        lambda held: codes_said(held, shape),
        schema,
        key,
    ):
        total += sectors.counts(positions)
    return total
