"""What the tests of choices and lattice noise share: a stream that counts its words, and a
chi-square test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import chi2

from dpublish.noise.words import SeededStream, WordStream

ALPHA = 1e-6
TOP = (1 << 64) - 1


class RiggedStream(WordStream):
    """Hands out the given words first, then those of a seeded stream; counts them all."""

    def __init__(self, words: list[int], seed: int = 0) -> None:
        self._given = list(words)
        self._rest = SeededStream(seed)
        self.drawn = 0

    def fill(self, out: np.ndarray) -> None:
        self._rest.fill(out)
        for i in range(len(out)):
            if self._given:
                out[i] = self._given.pop(0)
        self.drawn += len(out)


def p_value(counts: Sequence[int], law: Sequence[float]) -> float:
    """Chi-square with cells of expectation below 8 pooled."""
    n = sum(counts)
    cells = [[0.0, 0.0]]
    for count, p in sorted(zip(counts, law, strict=True), key=lambda cell: cell[1]):
        if cells[-1][1] >= 8:
            cells.append([0.0, 0.0])
        cells[-1][0] += count
        cells[-1][1] += n * p
    statistic = sum((seen - due) ** 2 / due for seen, due in cells)
    return float(chi2.sf(statistic, len(cells) - 1))
