"""Scores of splitting a set of records by a column: how well its parts tell the target's classes apart.

Each score is a function of the table of counts, part by class. What one record can change is proved in
generalized_table.proof.md; all scores are exact numbers, as the choice needs them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

SplitScore = Literal["max", "gini", "information-gain"]

GRID = Fraction(1, 1024)
"""Information gain is irrational: it is rounded down to this grid, which is added to its sensitivity."""

CAP = 1 << 20
"""Class counts are capped here for the information gain, whose sensitivity grows with their size."""


def sensitivity(score: SplitScore, classes: int) -> Fraction:
    """What adding or removing one record can change."""
    if score in ("max", "gini"):
        return Fraction(1)
    # log2(m + 1) + 1 / ln 2 for at most m = classes * CAP records a part, rounded up, and the grid twice
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
    capped = np.minimum(counts, CAP).astype(np.float64)
    sizes = capped.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(capped > 0, capped * np.log2(capped / sizes), 0.0)
    return Fraction(math.floor(math.fsum(terms.ravel()) / float(GRID))) * GRID
