"""Public distances between public places: a matrix, points in the plane or in space, or points on the earth.

Distances are whole numbers of a public unit, so that sums of them are exact. Rounding happens before any private number is
seen: it is part of the metric, not of the mechanism. `cap` lets distances beyond it count as the cap, which keeps them a
metric and lowers the sensitivity of everything that sums them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import PlanError
from dpublish.mechanisms.kernels.optimize_swaps import BLOCK, account_matrix, account_points, point_columns, point_distances
from dpublish.mechanisms.optimize.planning import digest_of
from dpublish.noise.base import IntArray

EARTH_KM = 6371.0088
STEPS = 40_000
MAX_UNITS = 1 << 24  # whole numbers up to here are exact in single precision
Singles = NDArray[np.float32]


class Metric:
    """Distances between `size` places, each a whole number of `unit`, at most `diameter` units."""

    size: int
    unit: float
    diameter: int
    digest: str

    def row(self, place: int) -> IntArray:
        """Distances from one place to all."""
        raise AssertionError

    def columns(self, places: IntArray, other: int) -> Singles:
        """Distances from some places to one."""
        raise AssertionError

    def pieces(self, count: int) -> list[tuple[int, int]]:
        """The places cut into about `count` ranges that `account` can treat apart."""
        raise AssertionError

    def account(self, piece: tuple[int, int], *arguments: Any) -> None:
        """Bring the savings of all swaps up to date for one range; see `kernels.optimize_swaps`."""
        raise AssertionError

    @staticmethod
    def matrix(distances: Any, *, cap: float | None = None) -> Metric:
        """A symmetric matrix of distances. Whole numbers are kept; others are rounded to 1/40,000 of the largest."""
        return _Matrix(np.asarray(distances, dtype=np.float64), cap)

    @staticmethod
    def euclidean(points: Any, *, cap: float | None = None) -> Metric:
        """Points with two or three coordinates."""
        array = np.asarray(points, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] not in (2, 3) or not len(array) or not np.isfinite(array).all():
            raise PlanError("Points must be rows of two or three finite coordinates.")
        array = array - array.min(axis=0)
        widest = float(np.linalg.norm(array.max(axis=0))) or 1.0
        return _Points(array, sphere=False, widest=widest, cap=cap)

    @staticmethod
    def haversine(latitudes: Sequence[float] | Any, longitudes: Sequence[float] | Any, *, cap: float | None = None) -> Metric:
        """Points on the earth in degrees; distances in kilometres along the surface."""
        up, along = np.radians(np.asarray(latitudes, dtype=np.float64)), np.radians(np.asarray(longitudes, dtype=np.float64))
        if up.ndim != 1 or up.shape != along.shape or not len(up) or not (np.isfinite(up) & np.isfinite(along)).all():
            raise PlanError("Latitudes and longitudes must be equally many finite numbers.")
        if np.abs(up).max() > math.pi / 2 + 1e-9:
            raise PlanError("A latitude lies outside -90 to 90 degrees.")
        points = np.column_stack([np.cos(up) * np.cos(along), np.cos(up) * np.sin(along), np.sin(up)])
        return _Points(points, sphere=True, widest=math.pi * EARTH_KM, cap=cap)


def _top(widest: float, unit: float, cap: float | None) -> int:
    if cap is not None and not (math.isfinite(cap) and cap > 0):
        raise PlanError(f"cap must be a positive distance, not {cap}.")
    return max(1, math.ceil(min(widest, cap if cap is not None else widest) / unit))


class _Matrix(Metric):
    def __init__(self, distances: NDArray[np.float64], cap: float | None) -> None:
        if distances.ndim != 2 or distances.shape[0] != distances.shape[1] or not len(distances):
            raise PlanError("A distance matrix must be square.")
        if np.isinf(distances).any():
            raise PlanError("Some places cannot reach each other: the graph of distances is disconnected.")
        if np.isnan(distances).any() or (distances < 0).any():
            raise PlanError("Distances must be numbers of at least 0.")
        if np.abs(distances - distances.T).max() > 1e-9 * distances.max() or np.diag(distances).any():
            raise PlanError("A distance matrix must be symmetric with zeros on its diagonal.")
        distances = np.minimum(distances, distances.T)  # exactly symmetric from here on: the proofs use both directions
        widest = float(distances.max()) or 1.0
        whole = bool((distances == np.floor(distances)).all()) and widest < MAX_UNITS
        self.size = len(distances)
        self.unit = 1.0 if whole else widest / STEPS
        self.diameter = _top(widest, self.unit, cap)
        self._matrix = np.minimum(np.floor(distances / self.unit + 0.5), self.diameter).astype(np.float32)
        self.digest = digest_of("matrix", self._matrix, self.unit)

    def row(self, place: int) -> IntArray:
        row: IntArray = self._matrix[place].astype(np.int64)
        return row

    def columns(self, places: IntArray, other: int) -> Singles:
        column: Singles = self._matrix[places, other]
        return column

    def pieces(self, count: int) -> list[tuple[int, int]]:
        cuts = np.linspace(0, self.size, count + 1).astype(int).tolist()
        return list(itertools.pairwise(cuts))

    def account(self, piece: tuple[int, int], *arguments: Any) -> None:
        places, weights, changed, old, new, added, kept = arguments
        kernel: Any = account_matrix
        kernel(self._matrix, places, weights, changed, *old, *new, *piece, added, kept)


class _Points(Metric):
    """Places are renumbered inside along a curve, so that blocks of consecutive ones lie close together."""

    def __init__(self, points: NDArray[np.float64], *, sphere: bool, widest: float, cap: float | None) -> None:
        self.size = len(points)
        self.unit = widest / STEPS
        self.diameter = _top(widest, self.unit, cap)
        self.digest = digest_of("sphere" if sphere else "plane", points, self.diameter)
        self._sphere = sphere
        self._scale = (EARTH_KM if sphere else 1.0) / self.unit
        space = np.zeros((self.size, 3))
        space[:, : points.shape[1]] = points
        self._inside = _curve(space)  # inside number -> place
        self._outside = np.empty(self.size, dtype=np.int64)  # place -> inside number
        self._outside[self._inside] = np.arange(self.size)
        self._points = np.ascontiguousarray(space[self._inside].T.astype(np.float32))
        blocks = -(-self.size // BLOCK)
        self._middle = np.zeros((3, blocks), dtype=np.float32)
        self._radius = np.zeros(blocks, dtype=np.float32)
        for block in range(blocks):
            part = self._points[:, block * BLOCK : (block + 1) * BLOCK]
            self._middle[:, block] = part.mean(axis=1)
            far = np.linalg.norm(part - self._middle[:, block : block + 1], axis=0).max()
            self._radius[block] = far * 1.00001 + 1e-6 * widest_coordinate(self._points)

    def row(self, place: int) -> IntArray:
        out = np.empty(self.size, dtype=np.float32)
        inside = int(self._outside[place])
        point_distances(self._points, inside, 0, self.size, self._sphere, self._scale, float(self.diameter), out)
        return out[self._outside].astype(np.int64)

    def columns(self, places: IntArray, other: int) -> Singles:
        out = np.empty(len(places), dtype=np.float32)
        inside = int(self._outside[other])
        point_columns(self._points, self._outside[places], inside, self._sphere, self._scale, float(self.diameter), out)
        return out

    def pieces(self, count: int) -> list[tuple[int, int]]:
        cuts = np.linspace(0, len(self._radius), count + 1).astype(int).tolist()
        return list(itertools.pairwise(cuts))

    def account(self, piece: tuple[int, int], *arguments: Any) -> None:
        places, weights, changed, old, new, added, kept = arguments
        kernel: Any = account_points
        kernel(
            self._points, self._middle, self._radius, self._sphere, self._scale, float(self.diameter),
            self._outside[places], weights, changed, *old, *new, *piece, added, kept,
        )  # fmt: skip

    def to_places(self, inside: NDArray[Any]) -> NDArray[Any]:
        """Columns in inside numbers as columns in place numbers."""
        return inside[..., self._outside]


def widest_coordinate(points: Singles) -> float:
    return float(np.abs(points).max()) or 1.0


def _curve(points: NDArray[np.float64]) -> IntArray:
    """Places in the order of a Z curve through a 1024^3 grid."""
    low = points.min(axis=0)
    span = float((points.max(axis=0) - low).max()) or 1.0
    cells = np.minimum(1023, (points - low) / span * 1024).astype(np.int64)
    code = np.zeros(len(points), dtype=np.int64)
    for bit in range(10):
        for axis in range(3):
            code |= ((cells[:, axis] >> bit) & 1) << (3 * bit + axis)
    return np.argsort(code, kind="stable").astype(np.int64)
