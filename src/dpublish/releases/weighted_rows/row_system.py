"""Linear systems in the features of weighted rows, solved without their matrix.

With many tables of two columns there are tens of thousands of features, and a matrix of all pairs
of them would not fit into memory. A product with it needs two passes over the codes of the rows;
conjugate gradients need about a hundred products for an error bar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.models.linear_features import FloatArray
from dpublish.models.weight_features import WeightFeatures

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
        masses: FloatArray,
        ridge: FloatArray,
    ) -> None:
        self._masses, self._ridge, self._size = masses, ridge, features.dimension
        self._codes = np.empty((len(features.groups), len(masses)), dtype=np.uint32)
        for line, group, start in zip(self._codes, features.groups, features.starts, strict=False):
            line[:] = features.group_codes(codes, group)
            line += np.uint32(start)
        self._shares = self._sums(masses)

    def solve(self, slope: FloatArray) -> FloatArray:
        """(X' W X + ridge)^-1 slope."""

        def product(vector: FloatArray) -> FloatArray:
            return self._sums(self._masses * self.scores(vector)) + self._ridge * vector

        return _conjugate_gradients(product, slope, self._shares + self._ridge, TOLERANCE)

    def explained(self, slope: FloatArray) -> float:
        """slope' (X' W X - mean mean')^+ slope: how much of a function's variance is linear in the
        features."""

        def product(vector: FloatArray) -> FloatArray:
            scores = self.scores(vector)
            return self._sums(self._masses * (scores - float(self._masses @ scores)))

        found = _conjugate_gradients(
            product, slope, np.maximum(self._shares, 1e-12), SHARE_TOLERANCE
        )
        return float(slope @ found)

    def variance(self, vector: FloatArray) -> float:
        """The variance of `vector` . x over the rows."""
        scores = self.scores(vector)
        return float(self._masses @ (scores - float(self._masses @ scores)) ** 2)

    def scores(self, vector: FloatArray) -> FloatArray:
        from dpublish.models.lookup_kernels import add_all_looked_up

        total = np.zeros(len(self._masses))
        add_all_looked_up(self._codes, vector, total)
        return total

    def _sums(self, amounts: FloatArray) -> FloatArray:
        from dpublish.models.lookup_kernels import add_all_masses

        total = np.zeros(self._size)
        add_all_masses(self._codes, amounts, total)
        return total


def _conjugate_gradients(
    product: Callable[[FloatArray], FloatArray],
    wanted: FloatArray,
    diagonal: FloatArray,
    tolerance: float,
) -> FloatArray:
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
