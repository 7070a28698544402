"""What importance weights work with, typed, and as the JSON of a plan; pairs of columns as people
write them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dpublish.declare.domain import Domain
from dpublish.errors import PlanError
from dpublish.methods.importance_weights.balanced import BalancedCalibration
from dpublish.methods.importance_weights.moments import Amounts, Pair
from dpublish.privacy.plan import Settings, hidden

Variant = Literal["moments", "output", "gaussian", "objective"]


@dataclass(frozen=True, kw_only=True)
class MomentSettings(Settings):
    """Noisy tables of counts: what each of them spends, and how many pairs are chosen."""

    domain: Domain
    amounts: Amounts = hidden()
    variant: Variant
    dimension: int
    rounds: int
    largest_pair: int
    nominal_rows: int | None
    public_total: int | None

    def facts(self) -> dict[str, Any]:
        budget, shown = self.amounts.budget, super().facts()
        head = {name: shown.pop(name) for name in ("variant", "dimension")}
        law = {"sensitivity": str(budget.sensitivity), "law": budget.law}
        return {**head, **law, "purse": amounts_facts(self.amounts), **shown}


@dataclass(frozen=True, kw_only=True)
class BalancedSettings(Settings):
    """Noisy logistic regression: what is minimised, and with what noise."""

    domain: Domain
    amounts: Amounts = hidden()
    calibration: BalancedCalibration = hidden()
    variant: Variant
    dimension: int
    nominal_rows: int
    norm_bound: float
    regularization: float
    recommended_regularization: float

    @property
    def public_total(self) -> None:
        """The mean loss knows no public total."""
        return

    def facts(self) -> dict[str, Any]:
        shown = super().facts()
        head = {name: shown.pop(name) for name in ("variant", "dimension")}
        spent = {
            "sensitivity": str(self.calibration.sensitivity),
            "purse": amounts_facts(self.amounts),
        }
        return {**head, **spent, **shown, "calibration": calibration_facts(self.calibration)}


AnyWeights = MomentSettings | BalancedSettings


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
    extra = amounts.budget.extra_variance
    return {
        **({"extra_variance": str(extra)} if extra else {}),
        "law": amounts.budget.law,
        "tables": [str(amount) for amount in amounts.tables],
        **{name: str(getattr(amounts, name)) for name in names},
        "unit_rows": amounts.budget.relation.max_rows,
        "replaced": amounts.budget.relation.replaces,
    }


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
