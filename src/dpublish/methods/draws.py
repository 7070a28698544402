"""The two things that methods over a shared budget do with noise: publish a table of counts, and
choose among candidates."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpublish.noise.base import IntArray, Noise
from dpublish.privacy.budget_split import BudgetSplit

_WORD = 1 << 62


def noisy_counts(
    noise: Noise,
    budget: BudgetSplit,
    counts: IntArray,
    *,
    label: str,
    share: Fraction = Fraction(1),
    sensitivity: Fraction | None = None,
) -> IntArray:
    """A table of counts of a partition of the rows, with noise in every cell, for `share` of the
    budget; or other whole numbers that one unit moves by at most `sensitivity`."""
    moved = budget.sensitivity if sensitivity is None else sensitivity
    if budget.law == "laplace":
        epsilon = budget.amount * share
        return noise.laplace(counts, sensitivity=moved, epsilon=epsilon, label=label)
    rho = moved**2 / (2 * budget.scale_for(moved, share))
    return noise.gaussian(counts, sensitivity=moved, rho=rho, label=label)


def choose(
    noise: Noise,
    budget: BudgetSplit,
    scores: Sequence[int] | IntArray,
    *,
    weight: int,
    share: Fraction,
    label: str,
) -> int:
    """One index, for `share` of the budget. Scores move by at most `weight` per changed row."""
    sensitivity = budget.relation.l1 * weight
    if max(abs(score) for score in scores) < _WORD:
        scores = np.array(scores, dtype=np.int64)  # the same choice, made faster
    epsilon = budget.bounded_range_epsilon(share)
    if budget.law == "laplace":
        return noise.choose(scores, sensitivity=sensitivity, epsilon=epsilon, label=label)
    return noise.choose(
        scores, sensitivity=sensitivity, epsilon=epsilon, rule="exponential", label=label
    )
