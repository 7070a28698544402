"""Public distances between public places: a matrix, points in the plane or in space, or points on
the earth.

Distances are whole numbers of a public unit, so that sums of them are exact. Rounding happens
before any private number is seen: it is part of the metric, not of the mechanism. `cap` lets
distances beyond it count as the cap, which keeps them a metric and lowers the sensitivity of
everything that sums them.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.errors import PlanError
from dpublish.methods.solvers.k_median.kernels import Singles, point_distances
from dpublish.methods.solvers.planning import digest_of

EARTH_KM = 6371.0088
STEPS = 40_000
MAX_UNITS = 1 << 24  # whole numbers up to here are exact in single precision


class Metric(abc.ABC):
    """Distances between `size` places, each a whole number of `unit`, at most `diameter` units."""

    size: int
    unit: float
    diameter: int
    digest: str

    @abc.abstractmethod
    def row(self, place: int) -> Ints:
        """Distances from one place to all."""

    @abc.abstractmethod
    def columns(self, places: Ints, other: int) -> Singles:
        """Distances from some places to one."""

    @staticmethod
    def matrix(distances: Any, *, cap: float | None = None) -> Metric:
        """A symmetric matrix of distances. Whole numbers are kept; others are rounded to 1/40,000
        of the largest."""
        return MatrixMetric(np.asarray(distances, dtype=np.float64), cap)

    @staticmethod
    def euclidean(points: Any, *, cap: float | None = None) -> Metric:
        """Points with two or three coordinates."""
        array = np.asarray(points, dtype=np.float64)
        if (
            array.ndim != 2
            or array.shape[1] not in (2, 3)
            or not len(array)
            or not np.isfinite(array).all()
        ):
            raise PlanError("Points must be rows of two or three finite coordinates.")
        array = array - array.min(axis=0)
        widest = math.hypot(*array.max(axis=0)) or 1.0
        if not 1e-30 <= widest <= 1e30:  # points are kept in single precision
            raise PlanError(
                f"The points lie {widest:.3g} apart. Give coordinates in another unit, between "
                f"1e-30 and 1e30."
            )
        return PointMetric(array, sphere=False, widest=widest, cap=cap)

    @staticmethod
    def haversine(
        latitudes: Sequence[float] | Any,
        longitudes: Sequence[float] | Any,
        *,
        cap: float | None = None,
    ) -> Metric:
        """Points on the earth in degrees; distances in kilometres along the surface."""
        up, along = (
            np.radians(np.asarray(latitudes, dtype=np.float64)),
            np.radians(np.asarray(longitudes, dtype=np.float64)),
        )
        if (
            up.ndim != 1
            or up.shape != along.shape
            or not len(up)
            or not (np.isfinite(up) & np.isfinite(along)).all()
        ):
            raise PlanError("Latitudes and longitudes must be equally many finite numbers.")
        if np.abs(up).max() > math.pi / 2 + 1e-9:
            raise PlanError("A latitude lies outside -90 to 90 degrees.")
        points = np.column_stack(
            [np.cos(up) * np.cos(along), np.cos(up) * np.sin(along), np.sin(up)]
        )
        # noise goes with the largest distance, and places of one country are not half the earth
        # apart
        apart = _apart(points)
        return PointMetric(
            points,
            sphere=True,
            widest=math.pi * EARTH_KM,
            cap=apart if cap is None else min(cap, apart),
        )


def _apart(points: Floats) -> float:
    """A distance in kilometres that no two of these points on the unit sphere exceed, from public
    coordinates.

    Twice the way from the point in their middle, or the arc over the diagonal of the box that holds
    them.
    """
    middle = points.mean(axis=0)
    length = float(np.linalg.norm(middle))
    around = (
        2 * _arc(float(np.linalg.norm(points - middle / length, axis=1).max()))
        if length > 0
        else math.pi
    )
    across = _arc(float(np.linalg.norm(points.max(axis=0) - points.min(axis=0))))
    return max(1e-3, EARTH_KM * (1 + 1e-6) * min(math.pi, around, across))


def _arc(chord: float) -> float:
    return 2 * math.asin(min(1.0, chord / 2))


def _top(widest: float, unit: float, cap: float | None) -> int:
    if cap is not None and not (math.isfinite(cap) and cap > 0):
        raise PlanError(f"cap must be a positive distance, not {cap}.")
    return max(1, math.ceil(min(widest, cap if cap is not None else widest) / unit))


class MatrixMetric(Metric):
    """All distances between places, as given."""

    def __init__(self, distances: Floats, cap: float | None) -> None:
        if distances.ndim != 2 or distances.shape[0] != distances.shape[1] or not len(distances):
            raise PlanError("A distance matrix must be square.")
        if np.isinf(distances).any():
            raise PlanError(
                "Some places cannot reach each other: the graph of distances is disconnected."
            )
        if np.isnan(distances).any() or (distances < 0).any():
            raise PlanError("Distances must be numbers of at least 0.")
        if (
            np.abs(distances - distances.T).max() > 1e-9 * distances.max()
            or np.diag(distances).any()
        ):
            raise PlanError("A distance matrix must be symmetric with zeros on its diagonal.")
        distances = np.minimum(
            distances, distances.T
        )  # exactly symmetric from here on: the proofs use both directions
        widest = float(distances.max()) or 1.0
        whole = bool((distances == np.floor(distances)).all()) and widest < MAX_UNITS
        self.size = len(distances)
        self.unit = 1.0 if whole else widest / STEPS
        self.diameter = _top(widest, self.unit, cap)
        self._matrix = np.minimum(np.floor(distances / self.unit + 0.5), self.diameter).astype(
            np.float32
        )
        self.digest = digest_of("matrix", self._matrix, self.unit)

    def row(self, place: int) -> Ints:
        row: Ints = self._matrix[place].astype(np.int64)
        return row

    def columns(self, places: Ints, other: int) -> Singles:
        column: Singles = self._matrix[places, other]
        return column

    @property
    def values(self) -> Singles:
        """All distances, in units."""
        return self._matrix


class PointMetric(Metric):
    """Places in the plane, in space or on the earth. `points` holds their coordinates as columns,
    in single precision."""

    def __init__(self, points: Floats, *, sphere: bool, widest: float, cap: float | None) -> None:
        self.size = len(points)
        self.unit = widest / STEPS
        self.diameter = _top(widest, self.unit, cap)
        self.digest = digest_of("sphere" if sphere else "plane", points, self.diameter)
        self.sphere = sphere
        self.scale = (EARTH_KM if sphere else 1.0) / self.unit
        space = np.zeros((3, self.size), dtype=np.float32)
        space[: points.shape[1]] = points.T
        self.points: Singles = space

    @property
    def edge(self) -> float:
        """Up to here, in units, a distance is within a tenth of a unit of the true one before
        rounding; see `FAR_SLACK`."""
        return 0.9 * math.pi * self.scale if self.sphere else math.inf

    def between(self, points: Singles, place: int) -> Singles:
        """Distances from points given by their coordinates to one place."""
        out = np.empty(points.shape[1], dtype=np.float32)
        at = self.points[:, place]
        point_distances(
            points,
            at[0],
            at[1],
            at[2],
            0,
            len(out),
            self.sphere,
            self.scale,
            float(self.diameter),
            out,
        )
        return out

    def row(self, place: int) -> Ints:
        return self.between(self.points, place).astype(np.int64)

    def columns(self, places: Ints, other: int) -> Singles:
        return self.between(np.ascontiguousarray(self.points[:, places]), other)
