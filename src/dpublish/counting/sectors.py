"""Rows into sector counts, for halfspace releases. Values are read and placed as in
`positions.py`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from dpublish.counting.bound import keep_rows
from dpublish.counting.points import Flags, Ints, positions_of
from dpublish.declare.schema import Schema
from dpublish.methods.halfspaces.mechanism import SectorCounts
from dpublish.sources.sources import Source
from dpublish.sources.units import join_units


def compute(
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
