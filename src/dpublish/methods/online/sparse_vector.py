"""The sparse vector technique through the tap: which queries are hard, paid for only when they are.

In: whole numbers, one a query, that move by at most a stated amount between neighbouring data. Out:
for each whether it reaches a noisy threshold. The noise of the threshold is drawn once for a
session and kept secret for all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpublish.errors import PlanError
from dpublish.noise.base import Noise

LIMIT = 1 << 61
"""Where the taps clamp their answers."""


@dataclass(frozen=True, kw_only=True)
class SparseVector:
    """The calibration of one session: at most `max_hits` yes answers cost `epsilon` in all, no
    answers nothing.

    `sensitivity` bounds how far each value moves between neighbouring data; values need not move
    the same way.
    """

    epsilon: Fraction
    sensitivity: int
    max_hits: int

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or self.sensitivity < 1 or self.max_hits < 1:
            raise PlanError(
                "A sparse vector needs epsilon > 0, a sensitivity and max_hits of at least 1."
            )

    @property
    def scales(self) -> tuple[Fraction, Fraction]:
        """Noise scales of the threshold and of each value (Lyu, Su and Li 2017, algorithm 1)."""
        from dpublish.noise.select import sparse_vector_scales

        return sparse_vector_scales(
            epsilon=self.epsilon, sensitivity=Fraction(self.sensitivity), max_hits=self.max_hits
        )

    def draw_threshold(self, noise: Noise, threshold: int) -> int:
        """The noisy threshold. Secret: it must never be shown, and must be the same for the whole
        session."""
        moves = Fraction(self.sensitivity)
        return exact_laplace(
            noise, threshold, sensitivity=moves, epsilon=moves / self.scales[0], label="threshold"
        )

    def reaches(self, noise: Noise, value: int, noisy_threshold: int) -> bool:
        """Whether the value plus fresh noise reaches the noisy threshold."""
        moves = Fraction(self.sensitivity)
        noisy = exact_laplace(
            noise, value, sensitivity=moves, epsilon=moves / self.scales[1], label="comparison"
        )
        return noisy >= noisy_threshold


def exact_laplace(
    noise: Noise, value: int, *, sensitivity: Fraction, epsilon: Fraction, label: str
) -> int:
    """value plus discrete Laplace noise without a limit on its size.

    The tap clamps at +-LIMIT, and a clamped threshold would not shift with the data as the proof of
    the sparse vector needs. Beyond the limit the law is memoryless: what is missing is a draw
    conditioned on being at least 0.
    """
    first = _draw(noise, value, sensitivity, epsilon, label)
    size = last = abs(first)
    while last >= LIMIT:
        last = -1
        while last < 0:
            last = _draw(noise, 0, sensitivity, epsilon, f"{label}, beyond the limit")
        size += last
    return size if first >= 0 else -size


def _draw(noise: Noise, value: int, sensitivity: Fraction, epsilon: Fraction, label: str) -> int:
    return int(
        noise.laplace(
            np.array([value], dtype=np.int64), sensitivity=sensitivity, epsilon=epsilon, label=label
        )[0]
    )
