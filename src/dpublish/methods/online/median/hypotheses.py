"""What the data may look like, given the answers shown so far: a table with one histogram (summing
to 1) a row.

Two ways to make it. `ListedHypotheses` lists every database of a small size and strikes out those
that disagree with an answer: the mechanism of the thesis to the letter, for small domains and for
tests. `SampledHypotheses` draws from the polytope of all histograms that agree with the answers, by
hit-and-run. Both are functions of public numbers, so their errors cost accuracy and never privacy.
"""

from __future__ import annotations

import abc
import itertools
import math

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import PlanError
from dpublish.methods.online.kernels import tilt, walk_flags, walk_shares

Floats = NDArray[np.float64]
MAX_LISTED = 200_000
SAMPLES = 128
BURN_IN = 32
"""Sweeps (as many steps as cells) before the first sample is kept."""
SWEEPS = 2
"""Sweeps between two samples."""
_FIT_PASSES = 200


class Hypotheses(abc.ABC):
    @abc.abstractmethod
    def values(self, query: Floats) -> Floats:
        """The query on every hypothesis, in no particular order; empty when no hypothesis is
        left."""

    @abc.abstractmethod
    def learn(self, query: Floats, answer: float, tolerance: float) -> None:
        """Keep to histograms whose value of `query` is `answer`, up to `tolerance`. All three are
        shares of the rows."""


def listed_count(cells: int, size: int) -> int:
    """How many databases of `size` rows there are over `cells` cells."""
    return math.comb(cells + size - 1, size)


class ListedHypotheses(Hypotheses):
    """All databases of `size` rows, as histograms."""

    def __init__(self, cells: int, size: int) -> None:
        if listed_count(cells, size) > MAX_LISTED:
            raise PlanError(
                f"There are more than {MAX_LISTED:,} databases of {size} rows over {cells} cells; "
                f"use sampling."
            )
        rows = list(itertools.combinations_with_replacement(range(cells), size))
        self._table = np.zeros((len(rows), cells))
        for place in range(size):
            self._table[np.arange(len(rows)), [row[place] for row in rows]] += 1 / size

    def values(self, query: Floats) -> Floats:
        return self._table @ query

    def learn(self, query: Floats, answer: float, tolerance: float) -> None:
        # a hair of slack, because shares such as 1/3 are not exact
        self._table = self._table[np.abs(self._table @ query - answer) <= tolerance + 1e-12]


class SampledHypotheses(Hypotheses):
    """`SAMPLES` histograms drawn by hit-and-run from the simplex cut by two halfspaces an answer.

    The walk starts at the histogram of largest entropy that agrees with the answers. It is made
    anew after each answer, from a seed that is public, so the sample is a function of seed and
    answers: a resumed session has the same one. When noise has made the answers contradict each
    other, all bands are widened by what the best fit misses.
    """

    def __init__(self, cells: int, seed: bytes) -> None:
        self._cells = cells
        self._seed = int.from_bytes(seed[:8], "little")
        self._queries = np.empty((0, cells))
        self._answers = np.empty(0)
        self._tolerance = 0.0
        self._table: Floats | None = None

    @property
    def table(self) -> Floats:
        if self._table is None:
            self._table = self._draw()
        return self._table

    def values(self, query: Floats) -> Floats:
        return self.table @ query

    def learn(self, query: Floats, answer: float, tolerance: float) -> None:
        self._queries = np.vstack([self._queries, query])
        # strictly inside (0, 1), so that some histogram with no empty cell agrees
        self._answers = np.append(self._answers, min(max(answer, tolerance / 2), 1 - tolerance / 2))
        self._tolerance = tolerance
        self._table = (
            None  # drawn when next asked for: a resumed session learns all answers and draws once
        )

    def _draw(self) -> Floats:
        cells = self._cells
        state = np.array(
            [(self._seed + len(self._answers) * 0xD1B54A32D192ED03) & (1 << 64) - 1],
            dtype=np.uint64,
        )
        point = np.full(cells, 1.0 / cells)
        miss = tilt(point, self._queries, self._answers, self._tolerance / 2, _FIT_PASSES)
        point /= point.sum()
        band = max(self._tolerance, miss * (1 + 1e-9) + 1e-12)
        flags = bool(np.isin(self._queries, (0.0, 1.0)).all())
        # single precision holds 0 and 1 exactly and fits twice as many queries in a vector register
        matrix = np.ascontiguousarray(self._queries.T, dtype=np.float32 if flags else np.float64)
        walk = walk_flags if flags else walk_shares
        table = np.empty((SAMPLES, cells))
        for sample in range(SAMPLES):
            off = self._queries @ point - self._answers
            walk(point, matrix, off, band, cells * (BURN_IN if sample == 0 else SWEEPS), state)
            table[sample] = point
        return table
