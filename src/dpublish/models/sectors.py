"""Directions, projections and cells of halfspace releases: public geometry that both sides share.

A row becomes a point of the unit sphere: each column scaled to [-1, 1] by its bounds, a constant 1
added so that every halfspace passes through the origin, and the whole normalised. A sign projection
takes it to the circle (k = 2) or the sphere (k = 3), which is cut into cells of equal size. A
halfspace is then half of the circle or sphere: a sum of cells.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.declare.grid import Grid

BLOCK = 1 << 14
_ROUNDING = 1e-7
MAX_CORNERS = 1 << 17
"""Cells of which the corners are worked out; of more cells only a bound on how far away they are is
used."""


@dataclass(frozen=True)
class Sectors:
    """`projections` sign projections of rows of `grids` to dimension k, each cut into `cells`
    cells; `seed` names them."""

    grids: tuple[Grid, ...]
    k: int
    projections: int
    cells: int
    seed: int

    @cached_property
    def signs(self) -> Floats:
        """Matrices of -1 and 1, one a projection, fixed by the public seed alone; the identity
        where k is large enough."""
        rows = len(self.grids) + 1
        if self.lossless:
            return np.eye(rows, self.k)[None, :, :].repeat(self.projections, axis=0)
        out = np.empty((self.projections, rows, self.k))
        for projection in range(self.projections):
            stream = hashlib.shake_256(
                f"dpublish halfspaces {self.seed} {projection}".encode()
            ).digest(rows * self.k)
            out[projection] = (
                2.0 * (np.frombuffer(stream, dtype=np.uint8) & 1).reshape(rows, self.k) - 1.0
            )
        return out

    @cached_property
    def centres(self) -> Floats:
        """Unit vectors to the middles of the cells."""
        place: Floats = np.arange(self.cells, dtype=np.float64) + 0.5
        if self.k == 2:
            angle = 2 * math.pi * place / self.cells - math.pi
            return np.stack([np.cos(angle), np.sin(angle)], axis=1)
        height: Floats = 1 - 2 * place / self.cells  # a spiral with equal areas
        angle = place * math.pi * (3 - math.sqrt(5))
        ring = np.sqrt(1 - height**2)
        return np.stack([ring * np.cos(angle), ring * np.sin(angle), height], axis=1)

    @property
    def lossless(self) -> bool:
        """Whether rows fit into k dimensions as they are, so that projecting loses nothing."""
        return len(self.grids) + 1 <= self.k

    @property
    def half_width(self) -> float:
        """The angle from the middle of a cell to its rim (k = 3: of a disc of the same area)."""
        return math.pi / self.cells if self.k == 2 else math.acos(1 - 2 / self.cells)

    @property
    def margin(self) -> float:
        """The margin gamma for which the cells are a (3/4) gamma net of directions."""
        return min(1.0, 4 / 3 * math.sin(min(self.half_width, math.pi / 2)))

    def points(self, positions: Sequence[Ints]) -> Floats:
        """Rows as points of the unit sphere."""
        scaled = [
            2 * (place + 0.5) / grid.positions - 1
            for place, grid in zip(positions, self.grids, strict=True)
        ]
        out = np.stack([*scaled, np.ones(positions[0].size)], axis=1)
        length = np.sqrt(by_rows(out * out, np.ones((out.shape[1], 1))))
        return np.asarray(out / length)

    def counts(self, positions: Sequence[Ints]) -> Ints:
        """How many rows fall into each cell: one row per projection."""
        found = np.zeros((self.projections, self.cells), dtype=np.int64)
        for start in range(0, positions[0].size, BLOCK):
            points = self.points([place[start : start + BLOCK] for place in positions])
            for projection in range(self.projections):
                found[projection] += np.bincount(
                    self._cells_of(by_rows(points, self.signs[projection])), minlength=self.cells
                )
        return found

    def _cells_of(self, projected: Floats) -> Ints:
        if self.k == 2:
            turn = (np.arctan2(projected[:, 1], projected[:, 0]) + math.pi) / (2 * math.pi)
            return np.minimum((turn * self.cells).astype(np.int64), self.cells - 1)
        from dpublish.models.sector_kernels import nearest_centres

        return np.asarray(nearest_centres(projected, self.centres, self._latitudes))

    @cached_property
    def _latitudes(self) -> Floats:
        return np.asarray(np.arcsin(self.centres[:, 2]))

    def direction(self, weights: Sequence[float], above: float) -> Floats:
        """The direction of the halfspace sum(weights * values) >= above."""
        out = np.empty(len(self.grids) + 1)
        out[-1] = -above
        for place, (weight, grid) in enumerate(zip(weights, self.grids, strict=True)):
            half = float(grid.upper - grid.lower) / 2
            out[place] = weight * half
            out[-1] += weight * (float(grid.lower) + half)
        return out

    @cached_property
    def reach(self) -> Floats:
        """The angle from the middle of each cell to its farthest corner, or a little more."""
        if self.k == 2:
            return np.full(self.cells, self.half_width + _ROUNDING)
        if self.cells > MAX_CORNERS:
            return np.full(
                self.cells, 2 * self.half_width
            )  # cells of the spiral are rounder than that
        from scipy.spatial import ConvexHull

        # cells are the points nearest to a middle; where three meet is as far from all three, above
        # the face they span
        hull = ConvexHull(self.centres)
        corners = np.clip(
            (hull.equations[:, None, :3] * self.centres[hull.simplices]).sum(axis=2), -1.0, 1.0
        )
        out = np.zeros(self.cells)
        np.maximum.at(out, hull.simplices, np.arccos(corners))
        return out + _ROUNDING

    def angles(self, direction: Floats) -> Floats:
        """The angle of the middle of each cell above the plane of a direction: one row a
        projection."""
        out = np.zeros((self.projections, self.cells))
        for projection in range(self.projections):
            seen = direction @ self.signs[projection]
            length = float(np.linalg.norm(seen))
            if length > 0:  # a direction that a projection forgets has every cell on the plane
                out[projection] = np.arcsin(np.clip(self.centres @ seen / length, -1, 1))
        return out

    def shares(self, angles: Floats) -> Floats:
        """About how much of each cell lies in a halfspace, by the angles of the cells."""
        return np.asarray(np.clip(0.5 + angles / (2 * self.half_width), 0.0, 1.0))


def by_rows(points: Floats, matrix: Floats) -> Floats:
    """points @ matrix, each row computed by itself in a fixed order.

    A matrix product rounds a row differently by how many others there are, and then one row would
    move another's cell.
    """
    total: Floats = points[:, 0, None] * matrix[0]
    for column in range(1, points.shape[1]):
        total = total + points[:, column, None] * matrix[column]
    return total
