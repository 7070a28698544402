"""Regularised risk minimisation to a certified gradient.

In: coded rows (private), their labels, a loss and public constants. Out: a vector f of doubles such that the exact gradient of

    J(f) = (1/N) sum_i loss(y_i x_i . f) + (ridge/2) |f|^2 + (tilt . f) / N

at f is surely no longer than a public tolerance. "Surely" means that the rounding errors of computing the gradient are bounded
and added to its computed length (solver.proof.md). J is ridge-strongly convex, so f is within
tolerance / ridge of the minimiser.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.mechanisms.learning.losses import Loss
from dpublish.public.linear_features import FloatArray, LinearFeatures

UNIT = 2.0**-53
BLOCK = 1024
"""Rows that are added up in floating point; sums of blocks are rounded once."""

MAX_STEPS = 300
MAX_TRIALS = 60
_DENSE = 1 << 26


class NotConverged(Exception):
    """The tolerance was not certified. Carries nothing; the gate turns it into its constant text."""


class Design:
    """The rows as vectors, in blocks. Small tables are kept, large ones are built again at each pass."""

    def __init__(self, features: LinearFeatures, codes: Sequence[NDArray[Any]]) -> None:
        self._features, self._codes = features, codes
        self.rows = len(codes[0]) if codes else 0
        self.dimension = features.dimension
        self._dense: FloatArray | None = None
        if self.rows * self.dimension <= _DENSE:
            self._dense = np.empty((self.rows, self.dimension))
            features.fill(codes, self._dense)

    def __repr__(self) -> str:  # a repr ends up in tracebacks and logs
        return "Design(private)"

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        for start in range(0, self.rows, BLOCK):
            rows = slice(start, min(start + BLOCK, self.rows))
            if self._dense is not None:
                yield rows, self._dense[rows]
                continue
            block = np.empty((rows.stop - rows.start, self.dimension))
            self._features.fill([column[rows] for column in self._codes], block)
            yield rows, block


@dataclass(frozen=True)
class Problem:
    """J. `signs` are the labels, +1 or -1; `tilt` is the linear term of objective perturbation, zero otherwise."""

    design: Design
    signs: FloatArray
    loss: Loss
    normaliser: int
    ridge: float
    tilt: FloatArray

    def __repr__(self) -> str:
        return "Problem(private)"

    def margins(self, point: FloatArray) -> FloatArray:
        margins = np.empty(self.design.rows)
        for rows, block in self.design.blocks():
            margins[rows] = block @ point
        margins *= self.signs
        return margins

    def gradient(self, point: FloatArray, margins: FloatArray) -> FloatArray:
        slopes = self.loss.slopes(margins) * self.signs
        parts = [slopes[rows] @ block for rows, block in self.design.blocks()]
        stacked = np.array(parts).reshape(len(parts), self.design.dimension)
        total = np.array([math.fsum(column) for column in stacked.T.tolist()])
        gradient: FloatArray = (total + self.tilt) / self.normaliser + self.ridge * point
        return gradient

    def hessian(self, margins: FloatArray) -> FloatArray:
        weights = self.loss.curvatures(margins)
        hessian = np.zeros((self.design.dimension, self.design.dimension))
        for rows, block in self.design.blocks():
            hessian += (block * weights[rows, None]).T @ block
        hessian /= self.normaliser
        hessian.flat[:: self.design.dimension + 1] += self.ridge
        return hessian


def rounding_bound(
    *, rows: int, dimension: int, normaliser: int, loss: Loss, ridge: float, length: float, tilt_length: float
) -> float:
    """How far the computed gradient at a point of this length may be from the exact one, in Euclidean norm."""
    weight = rows / normaliser
    margin_error = (dimension + 2) * UNIT * length
    slope_error = float(loss.curvature_bound) * margin_error + loss.slope_error
    sums = (BLOCK + 8) * UNIT * weight
    tail = 8 * UNIT * (weight + ridge * length + tilt_length / normaliser)
    # the factor pays for second-order terms and for the roundings of this formula
    return 2.0 * (weight * slope_error + sums + tail)


def certified_length(problem: Problem, point: FloatArray, gradient: FloatArray) -> float:
    """An upper bound on the length of the exact gradient."""
    error = rounding_bound(
        rows=problem.design.rows,
        dimension=problem.design.dimension,
        normaliser=problem.normaliser,
        loss=problem.loss,
        ridge=problem.ridge,
        length=_length(point),
        tilt_length=_length(problem.tilt),
    )
    return (_length(gradient) + error) * (1.0 + 2.0**-40)


def minimise(problem: Problem, tolerance: float) -> FloatArray:
    """A point whose exact gradient is surely no longer than `tolerance`, by Newton steps of suitable length from zero.

    The result is a function of the problem alone: nothing is drawn.
    """
    point: FloatArray = np.zeros(problem.design.dimension)
    for _ in range(MAX_STEPS):
        margins = problem.margins(point)
        gradient = problem.gradient(point, margins)
        if certified_length(problem, point, gradient) <= tolerance:
            return point
        step = _newton_step(problem, margins, gradient)
        point = point + _step_length(problem, point, margins, step) * step
    raise NotConverged


def _newton_step(problem: Problem, margins: FloatArray, gradient: FloatArray) -> FloatArray:
    """Newton's step, or the gradient's when the Hessian is singular in floating point. The proof claims nothing about steps."""
    try:
        step: FloatArray = -np.linalg.solve(problem.hessian(margins), gradient).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        steepest = problem.loss.curvature_bound * problem.design.rows / problem.normaliser + problem.ridge
        step = -gradient / float(steepest)
    return step


def _step_length(problem: Problem, point: FloatArray, margins: FloatArray, step: FloatArray) -> float:
    """How far to go along `step`: where the slope of J has fallen to a tenth, the full step being tried first.

    Margins are linear along the step, so a trial costs one pass over the margins and none over the rows.
    """
    moves = problem.margins(step)
    drift = problem.ridge * float(point @ step) + float(problem.tilt @ step) / problem.normaliser
    bend = problem.ridge * float(step @ step)

    def slope(length: float) -> float:
        return float(problem.loss.slopes(margins + length * moves) @ moves) / problem.normaliser + drift + length * bend

    flat = 0.1 * abs(slope(0.0))
    low, high, length = 0.0, math.inf, 1.0
    for _ in range(MAX_TRIALS):
        now = slope(length)
        if abs(now) <= flat:
            return length
        low, high = (length, high) if now < 0.0 else (low, length)
        length = 2.0 * low if math.isinf(high) else 0.5 * (low + high)
    return length


def _length(vector: FloatArray) -> float:
    return math.sqrt(math.fsum((vector * vector).tolist()))
