"""Boxes and hyperplanes: how much of every box lies above one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpublish.declare.grid import Boxes, Floats, TreeShape
from dpublish.models.hierarchical_counts import spread_points

POINTS = 512
"""Evenly spread points that stand for a box which the plane cuts."""
CHUNK = 1 << 12
_DUST = 1e-9


def above_plane(
    shape: TreeShape, boxes: Boxes, weights: Sequence[float], bound: float
) -> tuple[Floats, Floats, Floats]:
    """For every box the share of it where the weighted sum of columns is at least `bound`, with
    rows spread evenly inside; whether all of it is above the plane; and whether any of it may be.

    What lies on the plane is neither surely above nor surely below.
    """
    starts, ends = shape.corners(boxes)
    first, last = [], []
    for place, grid in enumerate(shape.grids):
        first.append(grid.value(starts[place]))
        # the last value of a run of whole numbers is one before the next run starts
        last.append(grid.value(ends[place]) - (float(grid.step) if grid.whole else 0.0))
    low, high = np.stack(first, axis=1), np.stack(last, axis=1)
    factors = np.asarray(weights, dtype=np.float64)
    least = (np.minimum(factors * low, factors * high)).sum(axis=1)
    most = (np.maximum(factors * low, factors * high)).sum(axis=1)
    dust = _DUST * (np.abs(factors * low).sum(axis=1) + np.abs(factors * high).sum(axis=1) + 1)
    inside, touched = least > bound + dust, most >= bound - dust
    share = (least >= bound - dust).astype(np.float64)
    cut = np.flatnonzero((share == 0) & touched)
    spread = spread_points(POINTS, len(shape.grids))
    whole = np.array([grid.whole for grid in shape.grids])
    steps = np.array([float(grid.step) for grid in shape.grids])
    for start in range(0, len(cut), CHUNK):
        some = cut[start : start + CHUNK]
        span = high[some] - low[some] + np.where(whole, steps, 0.0)
        points = low[some][:, None, :] + spread * span[:, None, :]
        grid_points = low[some][:, None, :] + np.floor(spread * (span / steps)[:, None, :]) * steps
        sums = np.where(whole, grid_points, points) @ factors
        share[some] = (sums >= bound - dust[some][:, None]).mean(axis=1)
    return share, inside.astype(np.float64), touched.astype(np.float64)
