"""A tap that gives less noise than it is asked for: the planted bug that every trial must be able
to find."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpublish.noise.base import Draw, Noise
from dpublish.noise.source import SeededNoise


class CheapNoise(SeededNoise):
    """Draws as if every epsilon and rho were `factor` (its square, for rho) times what the
    mechanism pays for."""

    def __init__(self, seed: int, factor: int) -> None:
        super().__init__(seed)
        self._factor = Fraction(factor)

    def answer(self, draw: Draw) -> Any:
        return super().answer(
            draw._replace(epsilon=draw.epsilon * self._factor, rho=draw.rho * self._factor**2)
        )


def cheap(factor: int) -> Any:
    def draws(seed: int) -> Noise:
        return CheapNoise(seed, factor)

    return draws
