"""Means over weighted public rows, with standard errors.

An estimate is f(beta) = sum_i w_i b_i / sum_i w_i. To first order it moves by alpha . (change of
beta), where alpha = sum_i w_i (b_i - f) x_i for weights that add up to 1: half the double sum of Ji
and Elkan's theorem 2, which is twice the derivative. The covariance of beta has three parts: noise
that was added to it, noise that was added to what it was fitted to (carried through the inverse
Hessian), and the randomness of the private rows themselves (lemma 5, with the weighted public rows
standing for the private ones).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.models.junction_tree.plain import reading
from dpublish.models.linear_features import WeightFeatures
from dpublish.models.one_thread import on_one_thread

_BLOCK = 1 << 14
MAX_DENSE = 1024
"""Features up to which matrices are made; with more of them, noisy moments are solved for
without."""


def effective_rows(masses: Floats) -> float:
    """(sum w)^2 / sum w^2: how many equally weighted rows carry as much information."""
    squares = float(masses @ masses)
    return float(masses.sum()) ** 2 / squares if squares > 0.0 else 0.0


def with_shrinkage(deviation: Floats, ridge: Floats, shares: Floats) -> Floats:
    """Deviations of noisy moments that also pay for what the ridge, which was calibrated to their
    noise, shrank away.

    The ridge is c = s^2 v / P for noise of deviation s, a cell of variance v among the public rows,
    and a difference of private and public shares of variance P before noise. It takes c / (v + c)
    of the difference away, so that s^2 (1 + c / v) carried through v / (v + c) is what is left in
    the mean square by noise and by shrinkage.
    """
    spread = np.maximum(shares * (1.0 - shares), 1e-12)
    return np.asarray(deviation * np.sqrt(1.0 + ridge / spread))


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How wrong beta may be: `gradient` is the deviation of the noise in each moment, `coefficient`
    in each coefficient."""

    balanced: bool
    ridge: Floats
    gradient: Floats
    coefficient: float
    rows: float
    """The number of private rows, as far as it is public."""


class Propagation:
    """Errors of any mean over one set of weights. The d x d matrices are made once, when first
    needed, unless d is large."""

    def __init__(
        self,
        features: WeightFeatures,
        codes: Sequence[NDArray[Any]],
        masses: Floats,
        base: Floats,
        coefficients: Floats,
        noise: Noise,
    ) -> None:
        self._features, self._codes = features, codes
        self._masses, self._base = masses, base
        self._coefficients, self._noise = coefficients, noise

    @reading()
    @on_one_thread
    def errors(self, slope: Floats) -> tuple[float, float, float]:
        """Standard deviation by noise, by sampling, and the first-order shrinkage, of a mean with
        this slope."""
        noise = self._noise
        large = self._large
        carried = self._inverse @ slope if large is None else large.solve(slope)
        by_noise = float(((noise.gradient * carried) ** 2).sum()) + noise.coefficient**2 * float(
            slope @ slope
        )
        spread = (
            float(carried @ self._spread @ carried) if large is None else large.variance(carried)
        )
        shrinkage = -float(carried @ (noise.ridge * self._coefficients))
        return math.sqrt(by_noise), math.sqrt(max(0.0, spread / noise.rows)), shrinkage

    @reading()
    @on_one_thread
    def explained(self, slope: Floats, variance: float) -> float:
        """The share of the weighted variance of a function of rows that is linear in the features
        (R^2)."""
        if variance <= 1e-15:
            return 1.0
        large = self._large
        linear = (
            float(slope @ (self._projection @ slope)) if large is None else large.explained(slope)
        )
        return min(1.0, max(0.0, linear / variance))

    @cached_property
    def _large(self) -> RowSystem | None:
        """How moments are solved for when there are many features."""
        features, noise = self._features, self._noise
        if noise.balanced or features.dimension <= MAX_DENSE:
            return None
        return RowSystem(features, self._codes, self._masses, np.maximum(noise.ridge, 1e-12))

    @cached_property
    def _chances(self) -> Floats:
        """p(private | x) under the balanced model, for each public row."""
        scores = self._features.scores(self._codes, self._coefficients)
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(scores, -500.0, 500.0))))

    @cached_property
    def _inverse(self) -> Floats:
        masses = self._masses
        if self._noise.balanced:
            masses = (self._base + masses) * (self._chances * (1.0 - self._chances))
        hessian = self._gram(masses)
        hessian.flat[:: len(hessian) + 1] += np.maximum(self._noise.ridge, 1e-12)
        return np.asarray(np.linalg.pinv(hessian, hermitian=True))

    @cached_property
    def _spread(self) -> Floats:
        """The covariance, over private rows, of what one row adds to the gradient."""
        parts = 1.0 - self._chances if self._noise.balanced else np.ones(len(self._masses))
        mean = self._features.sums(self._codes, self._masses * parts)
        return self._gram(self._masses * parts**2) - np.outer(mean, mean)

    @cached_property
    def _projection(self) -> Floats:
        mean = self._features.sums(self._codes, self._masses)
        centred = self._gram(self._masses) - np.outer(mean, mean)
        return np.asarray(np.linalg.pinv(centred, rcond=1e-9, hermitian=True))

    def _gram(self, weights: Floats) -> Floats:
        size = self._features.dimension
        total = np.zeros((size, size))
        for start in range(0, len(weights), _BLOCK):
            rows = slice(start, start + _BLOCK)
            block = self._features.vectors([column[rows] for column in self._codes])
            total += (block * weights[rows, None]).T @ block
        return total


# Linear systems in the features of weighted rows, solved without their matrix.
#
# With many tables of two columns there are tens of thousands of features, and a matrix of all pairs
# of them would not fit into memory. A product with it needs two passes over the codes of the rows;
# conjugate gradients need about a hundred products for an error bar.

MAX_STEPS = 1000
TOLERANCE = 1e-3
"""Error bars are found to about this share of themselves."""
SHARE_TOLERANCE = 1e-2
"""A share of explained variation is found to about the square of this."""


class RowSystem:
    """Rows of indicators: one code per group. `masses` are the rows' weights, `ridge` is what the
    diagonal gets in addition."""

    def __init__(
        self,
        features: WeightFeatures,
        codes: Sequence[NDArray[Any]],
        masses: Floats,
        ridge: Floats,
    ) -> None:
        self._masses, self._ridge, self._size = masses, ridge, features.dimension
        self._codes = np.empty((len(features.groups), len(masses)), dtype=np.uint32)
        for line, group, start in zip(self._codes, features.groups, features.starts, strict=False):
            line[:] = features.group_codes(codes, group)
            line += np.uint32(start)
        self._shares = self._sums(masses)

    def solve(self, slope: Floats) -> Floats:
        """(X' W X + ridge)^-1 slope."""

        def product(vector: Floats) -> Floats:
            return self._sums(self._masses * self.scores(vector)) + self._ridge * vector

        return _conjugate_gradients(product, slope, self._shares + self._ridge, TOLERANCE)

    def explained(self, slope: Floats) -> float:
        """slope' (X' W X - mean mean')^+ slope: how much of a function's variance is linear in the
        features."""

        def product(vector: Floats) -> Floats:
            scores = self.scores(vector)
            return self._sums(self._masses * (scores - float(self._masses @ scores)))

        diagonal = np.maximum(self._shares, 1e-12)
        return float(slope @ _conjugate_gradients(product, slope, diagonal, SHARE_TOLERANCE))

    def variance(self, vector: Floats) -> float:
        """The variance of `vector` . x over the rows."""
        scores = self.scores(vector)
        return float(self._masses @ (scores - float(self._masses @ scores)) ** 2)

    def scores(self, vector: Floats) -> Floats:
        from dpublish.models.lookup_kernels import add_all_looked_up

        total = np.zeros(len(self._masses))
        add_all_looked_up(self._codes, vector, total)
        return total

    def _sums(self, amounts: Floats) -> Floats:
        from dpublish.models.lookup_kernels import add_all_masses

        total = np.zeros(self._size)
        add_all_masses(self._codes, amounts, total)
        return total


def _conjugate_gradients(
    product: Callable[[Floats], Floats],
    wanted: Floats,
    diagonal: Floats,
    tolerance: float,
) -> Floats:
    """Solve a positive semi-definite system whose right side lies in its range; steps are scaled by
    the diagonal."""
    found = np.zeros_like(wanted)
    rest = wanted.copy()
    scaled = rest / diagonal
    step, size = scaled, float(rest @ scaled)
    enough = tolerance**2 * size
    for _ in range(MAX_STEPS):
        if size <= enough:
            break
        bent = product(step)
        curvature = float(step @ bent)
        if curvature <= 0.0:  # nothing but rounding is left
            break
        found = found + (size / curvature) * step
        rest = rest - (size / curvature) * bent
        scaled = rest / diagonal
        before, size = size, float(rest @ scaled)
        step = scaled + (size / before) * step
    return found
