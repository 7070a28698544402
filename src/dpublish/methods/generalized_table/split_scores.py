"""Scores of splitting a set of records by a column: how well its parts tell the target's classes
apart.

Each score is a function of the table of counts, part by class. What one record can change is proved
in generalized_table.proof.md; all scores are exact numbers, as the choice needs them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

SplitScore = Literal["max", "gini", "information-gain"]

GRID_BITS = 20
GRID = Fraction(1, 1 << GRID_BITS)
"""Information gain is irrational: each x log2 x in it is rounded down to this grid, which is added
to its sensitivity."""

CAP = 1 << 20
"""Class counts are capped here for the information gain, whose sensitivity grows with their
size."""


def sensitivity(score: SplitScore, classes: int) -> Fraction:
    """What adding or removing one record can change."""
    if score in ("max", "gini"):
        return Fraction(1)
    # log2(m + 1) + 1 / ln 2 for at most m = classes * CAP records a part, rounded up, and the grid
    # twice
    bound = math.log2(classes * CAP + 1) + 1 / math.log(2)
    return Fraction(math.ceil(bound * 1024) + 1, 1024) + 2 * GRID


def split_score(score: SplitScore, counts: NDArray[np.int64]) -> Fraction:
    """The score of one split; `counts[part, label]`."""
    if score == "max":
        return Fraction(int(counts.max(axis=1).sum()))
    if score == "gini":
        total = Fraction(0)
        for row in counts.tolist():
            size = sum(row)
            total += Fraction(sum(count * count for count in row), size) if size else 0
        return total
    capped = np.minimum(counts, CAP)
    return Fraction(_entropy_steps(capped) - _entropy_steps(capped.sum(axis=1)), 1 << GRID_BITS)


def _entropy_steps(counts: NDArray[np.int64]) -> int:
    """The sum of x log2 x over all counts, each in whole steps of the grid, which add up
    exactly."""
    values, times = np.unique(counts, return_counts=True)
    return sum(
        entropy_step(value) * number
        for value, number in zip(values.tolist(), times.tolist(), strict=True)
    )


@lru_cache(maxsize=1 << 16)
def entropy_step(x: int) -> int:
    """floor(2^GRID_BITS x log2 x) for a whole number x >= 0, exactly.

    At a power of two this is a whole number. Elsewhere log2 x is irrational, so balls of growing
    precision end.
    """
    if x & (x - 1) == 0:
        return x * max(0, x.bit_length() - 1) << GRID_BITS
    precision = 128
    while True:
        with ctx.workprec(precision):
            floor = (arb(x << GRID_BITS) * arb(x).log_base(2)).floor().unique_fmpz()
        if floor is not None:
            return int(floor)
        precision *= 2
