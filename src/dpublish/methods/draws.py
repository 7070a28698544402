"""The two things that methods over a shared budget do with noise: publish a table of counts, and
choose among candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.noise.base import Noise
from dpublish.privacy.budget_split import BudgetSplit

_WORD = 1 << 62


def noisy_total(noise: Noise, rows: int, epsilon: Fraction, schema: Schema) -> dict[str, Any]:
    """The number of counted rows, or transactions, with noise, if epsilon is above 0."""
    if epsilon == 0:
        return {"kind": "unknown", "value": None, "scale": None}
    # one unit adds, removes or changes at most c of the counted rows, under either relation
    per_unit = Fraction(schema.unit.max_rows)
    answer = noise.laplace(
        np.array([rows], dtype=np.int64), sensitivity=per_unit, epsilon=epsilon, label="total"
    )
    return {"kind": "noisy", "value": int(answer[0]), "scale": str(per_unit / epsilon)}


def noisy_counts(
    noise: Noise,
    budget: BudgetSplit,
    counts: Ints,
    *,
    label: str,
    share: Fraction = Fraction(1),
    sensitivity: Fraction | None = None,
) -> Ints:
    """A table of counts of a partition of the rows, with noise in every cell, for `share` of the
    budget; or other whole numbers that one unit moves by at most `sensitivity`."""
    moved = budget.sensitivity if sensitivity is None else sensitivity
    if budget.law == "laplace":
        epsilon = budget.amount * share
        return noise.laplace(counts, sensitivity=moved, epsilon=epsilon, label=label)
    rho = moved**2 / (2 * budget.scale_for(moved, share))
    return noise.gaussian(counts, sensitivity=moved, rho=rho, label=label)


def in_words(scores: Sequence[int]) -> Sequence[int] | Ints:
    """Scores as an array, where none is too large: the same choice, made faster."""
    small = min(scores) > -_WORD and max(scores) < _WORD
    return np.array(scores, dtype=np.int64) if small else scores


def choose(
    noise: Noise,
    budget: BudgetSplit,
    scores: Sequence[int] | Ints,
    *,
    weight: int,
    share: Fraction,
    label: str,
) -> int:
    """One index, for `share` of the budget. Scores move by at most `weight` per changed row."""
    sensitivity = budget.relation.l1 * weight
    if not isinstance(scores, np.ndarray):
        scores = in_words(scores)
    epsilon = budget.bounded_range_epsilon(share)
    if budget.law == "laplace":
        return noise.choose(scores, sensitivity=sensitivity, epsilon=epsilon, label=label)
    return noise.choose(
        scores, sensitivity=sensitivity, epsilon=epsilon, rule="exponential", label=label
    )


# Thresholds of sparse noisy histograms, and what to expect of them, from public facts alone.
#
# Floats are fine here: a threshold is a public integer, and any rounding on the way to it is as
# private as any other.

MAX_THRESHOLD = 1 << 61


def log_threshold(factor: Fraction, rows: int, epsilon: Fraction) -> int:
    """floor(A ln(n) / epsilon), Lei's threshold."""
    value = float(factor) * math.log(rows) / float(epsilon)
    if value >= MAX_THRESHOLD:
        raise PlanError(
            f"epsilon = {float(epsilon):g} is too small: the threshold would be {value:.3g}."
        )
    return math.floor(value)


def survival_probability(scale: Fraction, threshold: int) -> float:
    """P(X > threshold) of discrete Laplace noise, for expectations in a plan."""
    rate = 1 / float(scale)
    return math.exp(-rate * (threshold + 1)) / (1 + math.exp(-rate))


def visible_count(scale: Fraction, threshold: int) -> int:
    """The true count that appears with a probability of about 95%."""
    return threshold + 1 + math.ceil(float(scale) * math.log(10))


def smallest_threshold(scale: Fraction, cells: int, limit: int) -> int:
    """The least threshold at which at most `limit` of `cells` empty cells are expected to pass."""
    base = survival_probability(scale, -1)
    if cells * base <= limit:
        return 0
    guess = max(0, math.floor(float(scale) * math.log(cells * base / limit)) - 2)
    while cells * survival_probability(scale, guess) > limit:
        guess += 1
    return guess


def laplace_deviation(scale: Fraction) -> float:
    """Standard deviation of discrete Laplace noise."""
    rate = 1 / float(scale)
    return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)
