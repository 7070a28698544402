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
) -> IntArray:
    """A table of counts of a partition of the rows, with noise in every cell, for `share` of the
    budget."""
    amount = budget.amount * share
    if budget.law == "laplace":
        return noise.laplace(counts, sensitivity=budget.sensitivity, epsilon=amount, label=label)
    return noise.gaussian(counts, sensitivity=budget.sensitivity, rho=amount, label=label)


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
