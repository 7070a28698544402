"""Parts of a plan as JSON and back, and pairs of columns as people write them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpublish.errors import PlanError
from dpublish.methods.erm.calibration import Tilt
from dpublish.methods.importance_weights.balanced import BalancedCalibration
from dpublish.methods.importance_weights.moments import Amounts, Pair
from dpublish.privacy.budget_split import BudgetSplit


def read_pairs(pairs: Sequence[str], names: Sequence[str]) -> tuple[Pair, ...]:
    """Places of the named pairs; "*b" stands for b with every other column."""
    found: dict[Pair, None] = {}
    for text in pairs:
        left, star, right = (part.strip() for part in str(text).partition("*"))
        if not star or not right:
            raise PlanError(
                f'pairs: \'{text}\' is not a pair. Write "a*b", or "*b" for b with every other '
                f"column."
            )
        for name in (left, right):
            if name and name not in names:
                raise PlanError(
                    f"pairs: there is no column '{name}' in common. Columns: {', '.join(names)}."
                )
        if left == right:
            raise PlanError(f"pairs: '{text}' names one column twice.")
        second = list(names).index(right)
        firsts = (
            [list(names).index(left)]
            if left
            else [place for place in range(len(names)) if place != second]
        )
        for first in firsts:
            found.setdefault((min(first, second), max(first, second)))
    return tuple(found)


def amounts_facts(amounts: Amounts) -> dict[str, Any]:
    """Amounts as JSON; they stay exact."""
    names = ("set_choice", "pair_choice", "pair_table")
    return {
        "law": amounts.budget.law,
        "tables": [str(amount) for amount in amounts.tables],
        **{name: str(getattr(amounts, name)) for name in names},
        "unit_rows": amounts.budget.relation.max_rows,
        "replaced": amounts.budget.relation.replaces,
    }


def read_amounts(facts: dict[str, Any], budget: BudgetSplit) -> Amounts:
    names = ("set_choice", "pair_choice", "pair_table")
    return Amounts(
        budget=budget,
        tables=tuple(Fraction(amount) for amount in facts["tables"]),
        **{name: Fraction(facts[name]) for name in names},
    )


def calibration_facts(calibration: BalancedCalibration) -> dict[str, Any]:
    names = ("ridge", "tolerance", "sensitivity", "amount", "grid")
    facts: dict[str, Any] = {name: str(getattr(calibration, name)) for name in names}
    tilt = calibration.tilt
    facts["gaussian"] = calibration.gaussian
    facts["tilt"] = (
        None
        if tilt is None
        else {key: str(value) for key, value in dataclasses.asdict(tilt).items()}
    )
    return facts


def read_calibration(facts: dict[str, Any]) -> BalancedCalibration:
    names = ("ridge", "tolerance", "sensitivity", "amount", "grid")
    tilt = facts["tilt"]
    return BalancedCalibration(
        **{name: Fraction(facts[name]) for name in names},
        gaussian=bool(facts["gaussian"]),
        tilt=None
        if tilt is None
        else Tilt(**{key: Fraction(value) for key, value in tilt.items()}),
    )
