"""Boxes and hyperplanes: how much of every box lies above one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.domain import Axis
from dpublish.models.bin_shapes import place_of, tilts_of
from dpublish.models.hierarchical_counts import spread_points

Floats = NDArray[np.float64]
Sides = tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]

POINTS, FEWEST = 512, 2
"""Evenly spread points that stand for a box which the plane cuts; fewer where many are cut."""
WORK = 1 << 19
CHUNK = 1 << 12
_DUST = 1e-9


def above_plane(
    low: Floats,
    high: Floats,
    weights: Sequence[float],
    bound: float,
    *,
    steps: Sequence[float],
    strict: bool = False,
    tilts: Floats | None = None,
) -> Sides:
    """For every box (one row each, one column a column) the share of it where the weighted sum is
    at least `bound`, or above it; whether all of it surely is; and whether any of it may be.

    `high` is the last value of a column of whole numbers, which lie `steps` apart, and the upper
    edge of others, whose step is 0. Rows are spread evenly inside a box, or with `tilts` as
    `models.bin_shapes` says. What lies on the plane is neither surely above nor surely below.
    """
    factors, apart = np.asarray(weights, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    least = (np.minimum(factors * low, factors * high)).sum(axis=1)
    most = (np.maximum(factors * low, factors * high)).sum(axis=1)
    dust = _DUST * (np.abs(factors * low).sum(axis=1) + np.abs(factors * high).sum(axis=1) + 1)
    edge = bound + dust if strict else bound - dust
    inside, touched = least > bound + dust, most >= bound - dust
    share = (least >= edge).astype(np.float64)
    cut = np.flatnonzero((share == 0) & (most >= edge) & (most > least))
    count = int(np.clip(WORK // max(1, len(cut)), FEWEST, POINTS))
    spread = spread_points(count, len(factors))
    whole = apart > 0
    for start in range(0, len(cut), CHUNK):
        some = cut[start : start + CHUNK]
        first = low[some][:, None, :]
        span = (high[some] - low[some] + apart)[:, None, :]
        place = np.broadcast_to(spread, (len(some), *spread.shape))
        if tilts is not None:
            place = place_of(np.broadcast_to(tilts[some][:, None, :], place.shape), place)
        number = np.floor(place * span / np.where(whole, apart, 1.0))
        last = np.where(whole, span / np.where(whole, apart, 1.0) - 1, np.inf)
        points = np.where(whole, np.minimum(number, last) * apart, place * span)
        share[some] = ((first + points) @ factors >= edge[some][:, None]).mean(axis=1)
    return share, inside, touched


def cells_above(
    axes: Sequence[Axis],
    weights: Sequence[float],
    bound: float,
    strict: bool,
    codes: Callable[[int], NDArray[np.int64]],
    count: int,
) -> Sides:
    """The same for cells given by their codes along some columns. A row without a value, or with
    one that is not declared, meets no such condition."""
    low, high, tilts = (np.zeros((count, len(axes))) for _ in range(3))
    valued = np.ones(count, dtype=np.bool_)
    for place, axis in enumerate(axes):
        code = codes(place)
        valued &= code < axis.base
        within = np.minimum(code, axis.base - 1)
        edges = np.array(axis.edges, dtype=np.float64)
        low[:, place] = edges[within]
        high[:, place] = edges[within + 1] - (0.0 if axis.kind == "real" else 1.0)
        tilts[:, place] = tilts_of(axis)[within]
    steps = [0.0 if axis.kind == "real" else 1.0 for axis in axes]
    share, inside, touched = above_plane(
        low, high, weights, bound, steps=steps, strict=strict, tilts=tilts if tilts.any() else None
    )
    return share * valued, inside & valued, touched & valued


def least_and_most(axes: Sequence[Axis], weights: Sequence[float]) -> tuple[float, float]:
    """The least and the largest weighted sum that there can be."""
    ends = [
        sorted((weight * float(axis.edges[0]), weight * float(axis.edges[-1])))
        for axis, weight in zip(axes, weights, strict=True)
    ]
    return math.fsum(end[0] for end in ends), math.fsum(end[1] for end in ends)
