"""A tap that gives less noise than it is asked for: the planted bug that every trial must be able to find."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpublish.noise.base import Noise
from dpublish.noise.source import SeededNoise


class CheapNoise(SeededNoise):
    """Draws as if every epsilon and rho were `factor` (its square, for rho) times what the mechanism pays for."""

    def __init__(self, seed: int, factor: int) -> None:
        super().__init__(seed)
        self._factor = Fraction(factor)

    def laplace(self, values: Any, *, epsilon: Fraction, **rest: Any) -> Any:
        return super().laplace(values, epsilon=epsilon * self._factor, **rest)

    def sparse_laplace(self, cells: Any, counts: Any, *, epsilon: Fraction, **rest: Any) -> Any:
        return super().sparse_laplace(cells, counts, epsilon=epsilon * self._factor, **rest)

    def gaussian(self, values: Any, *, rho: Fraction, **rest: Any) -> Any:
        return super().gaussian(values, rho=rho * self._factor**2, **rest)

    def choose(self, scores: Any, *, epsilon: Fraction, **rest: Any) -> int:
        return super().choose(scores, epsilon=epsilon * self._factor, **rest)

    def gamma_norm(self, values: Any, *, epsilon: Fraction, **rest: Any) -> Any:
        return super().gamma_norm(values, epsilon=epsilon * self._factor, **rest)

    def lattice_gaussian(self, values: Any, *, rho: Fraction, **rest: Any) -> Any:
        return super().lattice_gaussian(values, rho=rho * self._factor**2, **rest)


def cheap(factor: int) -> Any:
    def draws(seed: int) -> Noise:
        return CheapNoise(seed, factor)

    return draws
