"""The parameters of Roth's thesis, (4.1) to (4.3) and (4.6), rounded to the safe side and exact.

They are a proof device: for every table of ordinary size the required n is astronomically larger,
and `plan` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpublish.errors import PlanError

_UP = Fraction(1000001, 1000000)
"""Covers the rounding of a float logarithm many times over."""
MAX_STEPS = 60


@dataclass(frozen=True, kw_only=True)
class ThesisParameters:
    """m, alpha', gamma, the limit of hard answers 20 m ln |X| and the n that theorem 18 asks
    for."""

    size: int
    step_epsilon: Fraction
    gamma: Fraction
    max_hard: int
    required_rows: int
    steps: int


def thesis_parameters(
    *, epsilon: Fraction, accuracy: Fraction, queries: int, cells: int, rows: int
) -> ThesisParameters:
    """For privacy `epsilon` (the thesis's alpha) and accuracy (its epsilon), `queries` = k, `cells`
    = |X|, `rows` = n."""
    if queries < 2 or cells < 2 or not 0 < accuracy < 1:
        raise PlanError(
            "The thesis's parameters need at least 2 queries, at least 2 cells and an accuracy "
            "between 0 and 1."
        )
    log_k, log_x = math.log(queries), Fraction(math.log(cells)) * _UP
    size = math.ceil(Fraction(160_000 * log_k * math.log(1 / accuracy)) * _UP / accuracy**2)
    step = epsilon / (720 * size * log_x)
    log_term = Fraction(math.log(2 * queries) - math.log(epsilon)) * _UP
    if log_term <= 0:
        raise PlanError("The thesis's parameters need epsilon below twice the number of queries.")
    gamma = 4 * log_term / (step * accuracy * rows)
    required = math.ceil(30 * log_term * Fraction(math.log2(queries)) * _UP / (step * accuracy))
    if queries > 180 * size * log_x / _UP**2:
        raise PlanError(
            f"{queries:,} queries exceed 180 m ln|X|, up to which the thesis's accounting is "
            f"pure. Ask for fewer."
        )
    return ThesisParameters(
        size=size,
        step_epsilon=step,
        gamma=gamma,
        max_hard=math.floor(20 * size * log_x / _UP**2),
        required_rows=required,
        steps=min(MAX_STEPS, math.floor(Fraction(3, 20) / gamma)),
    )
