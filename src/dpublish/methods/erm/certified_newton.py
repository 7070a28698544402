"""Minimisation in balls of growing precision: slow, and sure to end whatever the rows are.

Every number here is a ball that holds the exact value. A point is accepted when the upper end of
the length of its gradient is within the tolerance. Until then a Newton step is tried, and taken if
it shortens the gradient by a sixteenth; otherwise a gradient step is taken, which always shortens
it (solver.proof.md, "It ends").
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb, ctx

from dpublish.methods.erm.design import Part
from dpublish.methods.erm.solver import Problem
from dpublish.models.linear_features import FloatArray
from dpublish.noise.balls import fraction_ball

FIRST_PRECISION = 128
_DAMPINGS = (Fraction(1), Fraction(1, 4), Fraction(1, 16))
Balls = list[arb]


def settle(problem: Problem, tolerance: Fraction, start: FloatArray) -> list[Fraction]:
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
            step = [-part / fraction_ball(steepest) for part in gradient]
            onward = [fraction_ball(place) + part for place, part in zip(point, step, strict=True)]
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
        ridges = [arb(ridge) for ridge in np.broadcast_to(problem.ridges, len(at)).tolist()]
        return [
            part / problem.normaliser + ridge * place
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
    return _exact(squares.abs_upper().sqrt().abs_upper())


def _radius(vector: Balls) -> Fraction:
    """At least the distance of any vector in the balls from their midpoints."""
    return sum((_exact(part.rad()) for part in vector), Fraction(0))


def _middle(ball: arb) -> Fraction:
    return _exact(ball.mid())


def _exact(ball: arb) -> Fraction:
    """The number that a ball of radius zero stands for."""
    mantissa, exponent = ball.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
