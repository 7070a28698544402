"""Cells of a sphere: which of many centres, listed from pole to pole, is nearest to a point."""

from __future__ import annotations

import math

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.compiled import njit

SLACK = 1e-9
"""Far above the rounding of an angle and far below the width of a cell."""


@njit(cache=True, nogil=True)
def nearest_centres(
    points: Floats, centres: Floats, latitudes: Floats
) -> Ints:  # pragma: no cover - compiled
    """For each point of R^3 the centre with the largest inner product, the first of equals.
    `latitudes` fall from pole to pole.

    A centre is no nearer than its latitude is to the point's, so a search from the point's own
    latitude outwards may stop where that alone is further than the best so far. Each point is
    placed by itself, whatever others there are.
    """
    count = centres.shape[0]
    found = np.zeros(points.shape[0], dtype=np.int64)
    for row in range(points.shape[0]):
        x, y, z = points[row, 0], points[row, 1], points[row, 2]
        length = math.sqrt(x * x + y * y + z * z)
        if length == 0.0:
            continue
        latitude = math.asin(min(1.0, max(-1.0, z / length)))
        # heights fall evenly, so the place of a latitude follows from its sine
        middle = min(count - 1, max(0, int((1.0 - z / length) / 2.0 * count)))
        best, where, reach = -math.inf, middle, math.inf
        for step in (1, -1):
            at = middle if step == 1 else middle - 1
            while 0 <= at < count and abs(latitudes[at] - latitude) <= reach:
                product = x * centres[at, 0] + y * centres[at, 1] + z * centres[at, 2]
                if product > best:
                    best, where = product, at
                    reach = math.acos(min(1.0, max(-1.0, product / length))) + SLACK
                elif product == best and at < where:
                    where = at
                at += step
        found[row] = where
    return found
