"""Regularised risk minimisation to a certified gradient.

In: coded rows (private), their labels and weights, a loss and public constants. Out: a vector f
such that the exact gradient of

    J(f) = (1/N) sum_i w_i loss(y_i x_i . f) + sum_j ridge_j f_j^2 / 2 + (tilt . f) / N

at f is surely no longer than a public tolerance. "Surely" means that the rounding errors of
computing the gradient are bounded and added to its computed length (solver.proof.md). J is
ridge-strongly convex, so f is within tolerance / ridge of the minimiser.

Doubles get there in practice (`descend`). Where they do not, balls of growing precision do
(certified_newton.py), whatever the rows are: there is no table on which `minimise` fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, ctx

from dpublish.arrays import Floats
from dpublish.declare.statistic import Private
from dpublish.methods.erm.design import BLOCK, CHUNK, SUM_BITS, Design, Part
from dpublish.methods.erm.losses import Loss
from dpublish.models.quasi_newton import InverseHessian
from dpublish.noise.balls import fraction_ball

# Minimisation in balls of growing precision: slow, and sure to end whatever the rows are.
#
# Every number here is a ball that holds the exact value. A point is accepted when the upper end
# of the length of its gradient is within the tolerance. Until then a Newton step is tried, and
# taken if it shortens the gradient by a sixteenth; otherwise a gradient step is taken, which
# always shortens it (solver.proof.md, "It ends").

FIRST_PRECISION = 128
_DAMPINGS = (Fraction(1), Fraction(1, 4), Fraction(1, 16))
Balls = list[arb]


def certified_newton(problem: Problem, tolerance: Fraction, start: Floats) -> list[Fraction]:
    """A point whose exact gradient is no longer than `tolerance`; `start` is where to begin."""
    sums = _Sums(problem)
    begin = start if bool(np.isfinite(start).all()) else np.zeros_like(start)
    point = [Fraction(value) for value in begin.tolist()]
    ridge = Fraction(problem.lowest_ridge)
    steepest = problem.loss.curvature_bound * sums.mass / problem.normaliser + Fraction(
        problem.highest_ridge
    )
    precision = FIRST_PRECISION
    while True:
        with ctx.workprec(precision):
            gradient = sums.gradient(point)
            length = _upper(gradient)
            if length <= tolerance:
                return point
            onward = [
                fraction_ball(place) + -part / fraction_ball(steepest)
                for place, part in zip(point, gradient, strict=True)
            ]
            if _radius(gradient) > tolerance / 128 or steepest * _radius(
                onward
            ) > ridge * tolerance / (4 * steepest):
                precision *= 2
                continue
            point = _newton(problem, sums, point, gradient, length) or [
                _middle(ball) for ball in onward
            ]


def _newton(
    problem: Problem, sums: _Sums, point: Sequence[Fraction], gradient: Balls, length: Fraction
) -> list[Fraction] | None:
    """A point with a shorter gradient by Newton's step in doubles, if there is one."""
    with np.errstate(all="ignore"):
        try:
            doubles = np.array([float(place) for place in point])
            slope = np.array([float(part.mid()) for part in gradient])
            step = np.linalg.solve(problem.hessian(problem.margins(doubles)), slope)
        except (np.linalg.LinAlgError, OverflowError):
            return None
    if not bool(np.isfinite(step).all()):
        return None
    for damping in _DAMPINGS:
        tried = [
            _middle(fraction_ball(place - damping * Fraction(move)))
            for place, move in zip(point, step.tolist(), strict=True)
        ]
        if _upper(sums.gradient(tried)) <= length * Fraction(15, 16):
            return tried
    return None


class _Sums:
    """The gradient of J in balls. Rows that are the same in every way are added up as one."""

    def __init__(self, problem: Problem) -> None:
        self._problem, design = problem, problem.design
        everything = slice(0, design.rows)
        weights = np.ones(design.rows) if problem.weights is None else problem.weights
        codes = [design.codes(part, everything).astype(np.float64) for part in design.parts]
        distinct, counts = np.unique(
            np.column_stack([*codes, problem.signs, weights]), axis=0, return_counts=True
        )
        self._rows = [tuple(int(code) for code in row) for row in distinct[:, :-2].tolist()]
        self._signs = [Fraction(sign) for sign in distinct[:, -2].tolist()]
        self._weights = [
            int(count) * Fraction(weight)
            for count, weight in zip(counts, distinct[:, -1].tolist(), strict=True)
        ]
        self.mass = sum(self._weights, Fraction(0))
        self._tilt = problem.exact_tilt or [Fraction(value) for value in problem.tilt.tolist()]
        self._used = [
            sorted({row[place] for row in self._rows}) for place in range(len(design.parts))
        ]

    def gradient(self, point: Sequence[Fraction]) -> Balls:
        problem = self._problem
        parts = problem.design.parts
        at = [fraction_ball(place) for place in point]
        pieces = [
            {code: _piece(part, code) for code in used}
            for part, used in zip(parts, self._used, strict=True)
        ]
        products = [
            {code: sum((x * at[j] for j, x in piece), arb(0)) for code, piece in by_code.items()}
            for by_code in pieces
        ]
        sums = [dict.fromkeys(used, arb(0)) for used in self._used]
        for row, sign, weight in zip(self._rows, self._signs, self._weights, strict=True):
            margin = fraction_ball(sign) * sum(
                (by_code[code] for by_code, code in zip(products, row, strict=True)), arb(0)
            )
            slope = fraction_ball(sign * weight) * problem.loss.slope_ball(margin)
            for by_code, code in zip(sums, row, strict=True):
                by_code[code] += slope
        total = [fraction_ball(value) for value in self._tilt]
        for piece_of, amounts in zip(pieces, sums, strict=True):
            for code, amount in amounts.items():
                for j, x in piece_of[code]:
                    total[j] += amount * x
        ridges = np.broadcast_to(problem.ridges, len(at)).tolist()
        return [
            part / problem.normaliser + arb(ridge) * place
            for part, ridge, place in zip(total, ridges, at, strict=True)
        ]


def _piece(part: Part, code: int) -> list[tuple[int, arb]]:
    """The coordinates of a code's piece of a vector that are not zero."""
    if part.table is None:
        return [(part.start + code, arb(part.value))]
    return [(part.start + j, arb(x)) for j, x in enumerate(part.table[code].tolist()) if x]


def _upper(vector: Balls) -> Fraction:
    """At least the length of every vector in the balls."""
    squares = sum((part * part for part in vector), arb(0))
    return exact_number(squares.abs_upper().sqrt().abs_upper())


def _radius(vector: Balls) -> Fraction:
    """At least the distance of any vector in the balls from their midpoints."""
    return sum((exact_number(part.rad()) for part in vector), Fraction(0))


def _middle(ball: arb) -> Fraction:
    return exact_number(ball.mid())


def exact_number(ball: arb) -> Fraction:
    """The number that a ball of radius zero stands for."""
    mantissa, exponent = ball.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


UNIT = 2.0**-53


@dataclass(frozen=True, repr=False)
class Problem(Private):
    """J. `signs` are the labels, +1 or -1, times the number from 0 to 1 by which a row is
    shortened: the vector of a row is the design's times that number. `weights` are 1 where left
    out. `constant_ridge` is the ridge of the first coordinate where it has one of its own.

    `tilt` is the linear term of objective perturbation. Its doubles are the nearest to
    `exact_tilt`, where that is given.
    """

    design: Design
    signs: Floats
    loss: Loss
    normaliser: int
    ridge: float
    tilt: Floats
    weights: Floats | None = None
    exact_tilt: Sequence[Fraction] | None = None
    constant_ridge: float | None = None

    @cached_property
    def mass(self) -> float:
        """All weights added up, or a little more."""
        if self.weights is None:
            return float(self.design.rows)
        return math.fsum(self.weights.tolist()) * (1.0 + 2.0**-50)

    @cached_property
    def heaviest(self) -> float:
        return (
            1.0
            if self.weights is None or not self.weights.size
            else max(1.0, float(self.weights.max()))
        )

    @cached_property
    def ridges(self) -> Floats | float:
        """The ridge of each coordinate: `ridge`, but for the first where it has one of its own."""
        if self.constant_ridge is None:
            return self.ridge
        ridges = np.full(self.design.dimension, self.ridge)
        ridges[0] = self.constant_ridge
        return ridges

    @property
    def lowest_ridge(self) -> float:
        return self.ridge if self.constant_ridge is None else min(self.ridge, self.constant_ridge)

    @property
    def highest_ridge(self) -> float:
        return self.ridge if self.constant_ridge is None else max(self.ridge, self.constant_ridge)

    def penalty(self, one: Floats, other: Floats) -> float:
        """sum_j ridge_j one_j other_j."""
        if self.constant_ridge is None:
            return self.ridge * float(one @ other)
        return float((self.ridges * one) @ other)

    def margins(self, point: Floats) -> Floats:
        margins = self.design.products(point)
        margins *= self.signs
        return margins

    def weighted(self, values: Floats, rows: slice) -> Floats:
        return values if self.weights is None else values * self.weights[rows]

    def gradient(self, point: Floats, margins: Floats) -> Floats:
        unit = sum_unit(self.heaviest)

        def amounts(rows: slice) -> np.ndarray:
            slopes = self.weighted(self.loss.slopes(margins[rows]), rows) * self.signs[rows]
            return np.rint(slopes / unit).astype(np.int64)

        total = self.design.sum_of(amounts) * unit
        return (total + self.tilt) / self.normaliser + self.ridges * point

    def hessian(self, margins: Floats, stride: int = 1) -> Floats:
        """The Hessian, from every stride-th row."""
        weights = self.weighted(self.loss.curvatures(margins), slice(None)) * self.signs**2
        hessian = self.design.gram(weights, stride) / self.normaliser
        hessian.flat[:: self.design.dimension + 1] += self.ridges
        return hessian


def sum_unit(heaviest: float) -> float:
    """Slopes are rounded to multiples of this power of two, of which a chunk of rows adds up to
    less than 2^SUM_BITS."""
    bits = math.ceil(math.log2(heaviest))
    if 2.0**bits < heaviest:  # the logarithm is rounded too
        bits += 1
    return 2.0 ** (bits - SUM_BITS) * CHUNK


def rounding_bound(
    *,
    rows: int,
    mass: float,
    heaviest: float,
    dimension: int,
    normaliser: int,
    loss: Loss,
    ridge: float,
    length: float,
    tilt_length: float,
) -> float:
    """How far the computed gradient at a point of this length may be from the exact one, in
    Euclidean norm."""
    weight = mass / normaliser
    margin_error = (2 * dimension + 4) * UNIT * length
    slope_error = float(loss.curvature_bound) * margin_error + loss.slope_error + 2 * UNIT
    rounded = rows / normaliser * sum_unit(heaviest)
    sums = (BLOCK + 8) * UNIT * weight
    tail = 8 * UNIT * (weight + ridge * length + tilt_length / normaliser)
    # the factor pays for second-order terms and for the roundings of this formula
    return 2.0 * (weight * slope_error + rounded + sums + tail)


def certified_length(problem: Problem, point: Floats, gradient: Floats) -> float:
    """An upper bound on the length of the exact gradient."""
    error = rounding_bound(
        rows=problem.design.rows,
        mass=problem.mass,
        heaviest=problem.heaviest,
        dimension=problem.design.dimension,
        normaliser=problem.normaliser,
        loss=problem.loss,
        ridge=problem.highest_ridge,
        length=length_of(point),
        tilt_length=length_of(problem.tilt),
    )
    return (length_of(gradient) + error) * (1.0 + 2.0**-40)


def certified(problem: Problem, point: Floats, tolerance: float) -> bool:
    """Whether the exact gradient at `point` is surely no longer than `tolerance`. False where
    anything is not finite."""
    if not bool(np.isfinite(point).all()):
        return False
    gradient = problem.gradient(point, problem.margins(point))
    return certified_length(problem, point, gradient) <= tolerance


def minimise(problem: Problem, tolerance: Fraction | float) -> list[Fraction]:
    """A point whose exact gradient is surely no longer than `tolerance`. Never fails, and draws
    nothing."""
    with np.errstate(all="ignore"):
        point = descend(problem, float(tolerance))
        if certified(problem, point, float(tolerance)):
            return [Fraction(value) for value in point.tolist()]
    return certified_newton(problem, Fraction(tolerance), point)


def nearest_doubles(values: Sequence[Fraction]) -> Floats:
    """The doubles nearest to exact numbers, infinite beyond their range: such a tilt cannot be
    certified, and is settled."""

    def nearest(value: Fraction) -> float:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf

    return np.array([nearest(value) for value in values], dtype=np.float64)


def length_of(vector: Floats) -> float:
    """The length; infinite, where squares are too large for doubles."""
    if not float(np.abs(vector).max(initial=0.0)) < 2.0**500:
        return math.inf
    return math.sqrt(math.fsum((vector * vector).tolist()))


# Quasi-Newton steps in doubles, for tables of any length.
#
# Nothing here is relied upon: what comes out is certified by the solver, or settled in balls. So
# Hessians may be taken from some of the rows, kept for several steps, and corrected by what the
# gradients did since (the two-loop form of limited-memory BFGS, with the Hessian in the middle). A
# step costs two passes over the rows whatever the line search does.

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


def descend(problem: Problem, tolerance: float) -> Floats:
    """The best point found: its gradient is at most half of `tolerance` long as far as doubles can
    tell, if they get there."""
    return _Descent(problem, tolerance).run()


class _Descent:
    def __init__(self, problem: Problem, tolerance: float) -> None:
        self.problem, self.enough = problem, tolerance / 2.0
        self.point: Floats = np.zeros(problem.design.dimension)
        self.margins = np.zeros(problem.design.rows)
        self.gradient = problem.gradient(self.point, self.margins)
        self.stride = first_stride(problem.design.rows, problem.design.dimension)
        self.inverse: InverseHessian | None = None

    def run(self) -> Floats:
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
            problem = self.problem
            curvature = float(problem.loss.curvature_bound) * problem.mass / problem.normaliser
            step = -self.gradient / (curvature + problem.highest_ridge)
        moves = self.problem.margins(step)
        length = self._length(step, moves)
        old, change = self.gradient, length * step
        self.point = self.point + change
        self.margins += length * moves
        self.gradient = self.problem.gradient(self.point, self.margins)
        self.inverse.learn(change, self.gradient - old)

    def _length(self, step: Floats, moves: Floats) -> float:
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


def _solver(hessian: Floats) -> Callable[[Floats], Floats]:
    """Solves with a Hessian, or divides by its largest diagonal entries where it is singular in
    floating point."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        factor = cho_factor(hessian)
    except (LinAlgError, ValueError):
        largest = max(float(np.trace(hessian)), 1e-300)
        return lambda vector: vector / largest
    return lambda vector: np.asarray(cho_solve(factor, vector, check_finite=False))
