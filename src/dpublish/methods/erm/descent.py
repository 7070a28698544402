"""Quasi-Newton steps in doubles, for tables of any length.

Nothing here is relied upon: what comes out is certified by the solver, or settled in balls. So
Hessians may be taken from some of the rows, kept for several steps, and corrected by what the
gradients did since (the two-loop form of limited-memory BFGS, with the Hessian in the middle). A
step costs two passes over the rows whatever the line search does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpublish.methods.erm.solver import Problem, length_of
from dpublish.models.linear_features import FloatArray
from dpublish.models.quasi_newton import InverseHessian

MAX_STEPS = 200
PATIENCE = 25
"""Steps without a shorter gradient after which doubles have done what they can."""
_MAX_TRIALS = 40
_ROWS = 1 << 16
"""A Hessian is taken from at least this many rows, and from 64 for each dimension."""
_WORK = 1 << 36
"""...unless that took more multiplications than this."""
_SLOW = 0.1
"""A step that leaves more than this of the gradient calls for another Hessian."""


def descend(problem: Problem, tolerance: float) -> FloatArray:
    """The best point found: its gradient is at most half of `tolerance` long as far as doubles can
    tell, if they get there."""
    return _Descent(problem, tolerance).run()


class _Descent:
    def __init__(self, problem: Problem, tolerance: float) -> None:
        self.problem, self.enough = problem, tolerance / 2.0
        self.point: FloatArray = np.zeros(problem.design.dimension)
        self.margins = np.zeros(problem.design.rows)
        self.gradient = problem.gradient(self.point, self.margins)
        self.stride = first_stride(problem.design.rows, problem.design.dimension)
        self.inverse: InverseHessian | None = None

    def run(self) -> FloatArray:
        best, shortest, idle = self.point, length_of(self.gradient), 0
        for _ in range(MAX_STEPS):
            if shortest <= self.enough or idle >= PATIENCE:
                break
            fresh = self.inverse is None
            before = length_of(self.gradient)
            self._step()
            now = length_of(self.gradient)
            if now <= self.enough:
                # moves were added up; the certificate will use margins of the point itself
                self.margins = self.problem.margins(self.point)
                self.gradient = self.problem.gradient(self.point, self.margins)
                now = length_of(self.gradient)
            if not now < math.inf:
                break
            best, shortest, idle = (
                (self.point, now, 0) if now < shortest else (best, shortest, idle + 1)
            )
            if now > _SLOW * before:
                self.inverse = None
                if fresh and now > 0.5 * before:
                    self.stride = max(1, self.stride // 8)
        return best

    def _step(self) -> None:
        if self.inverse is None:
            self.inverse = InverseHessian(_solver(self.problem.hessian(self.margins, self.stride)))
        step = -self.inverse.times(self.gradient)
        if not float(step @ self.gradient) < 0.0:
            step = -self.gradient / self._steepest
        moves = self.problem.margins(step)
        length = self._length(step, moves)
        old, change = self.gradient, length * step
        self.point = self.point + change
        self.margins += length * moves
        self.gradient = self.problem.gradient(self.point, self.margins)
        self.inverse.learn(change, self.gradient - old)

    @property
    def _steepest(self) -> float:
        problem = self.problem
        return (
            float(problem.loss.curvature_bound) * problem.mass / problem.normaliser
            + problem.highest_ridge
        )

    def _length(self, step: FloatArray, moves: FloatArray) -> float:
        """How far to go along `step`: where the slope of J has fallen to a fifth, the full step
        being tried first.

        Margins are linear along the step, so a trial costs one pass over the margins and none over
        the codes.
        """
        problem = self.problem
        drift = problem.penalty(self.point, step) + float(problem.tilt @ step) / problem.normaliser
        bend = problem.penalty(step, step)

        def slope(length: float) -> float:
            def task(rows: slice) -> float:
                slopes = problem.loss.slopes(self.margins[rows] + length * moves[rows])
                return float(problem.weighted(slopes, rows) @ moves[rows])

            return (
                float(sum(problem.design.each(task))) / problem.normaliser + drift + length * bend
            )

        start = float(self.gradient @ step)
        low, high, length = 0.0, math.inf, 1.0
        for _ in range(_MAX_TRIALS):
            now = slope(length)
            if abs(now) <= 0.2 * abs(start):
                return length
            low, high = (length, high) if now < 0.0 else (low, length)
            length = 2.0 * low if math.isinf(high) else 0.5 * (low + high)
        return length


def first_stride(rows: int, dimension: int) -> int:
    wanted = min(max(_ROWS, 64 * dimension), max(2 * dimension, _WORK // dimension**2))
    return max(1, rows // wanted)


def _solver(hessian: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Solves with a Hessian, or divides by its largest diagonal entries where it is singular in
    floating point."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        factor = cho_factor(hessian)
    except (LinAlgError, ValueError):
        largest = max(float(np.trace(hessian)), 1e-300)
        return lambda vector: vector / largest
    return lambda vector: np.asarray(cho_solve(factor, vector, check_finite=False))
