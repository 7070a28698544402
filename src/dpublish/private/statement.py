"""The privacy statement of a release, in words that a data officer and a lawyer can read, made from public facts."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context

from dpublish.cost import show
from dpublish.plan import Plan

EXCEPTION = "1e-9"


def privacy_statement(plan: Plan, *, publishable: bool) -> str:
    """What the guarantee says and what it does not say, for the manifest and the report."""
    schema = plan.schema
    if schema.neighbours == "replace-one":
        change = f"if {schema.unit.describe()} had been replaced by any other"
        size = "The number of units in the data is treated as public."
    else:
        change = f"if {schema.unit.describe()} had been left out of the data, or added to it"
        size = "Whether a unit is in the data at all is protected."
    lines = [
        f"This release satisfies {plan.cost.describe()} for {schema.unit.describe()} ({schema.neighbours}).",
        f"In words: {change}, no result computed from this release could have become more than "
        f"{_factor(plan)} times more or less likely.",
        size,
        "It holds against any reader, whatever they already know, whatever they compute and however long they keep the file.",
        "It speaks of this release alone; releases about the same units add up, which is what the ledger's budget bounds.",
        "It assumes that the schema (columns, levels, bounds, sizes, unit) was written without looking at the private rows.",
    ]
    if not publishable:
        lines.insert(0, "NOT PUBLISHABLE: this release was made with fixed or replayed noise for tests, and protects nobody.")
    return " ".join(lines)


def _factor(plan: Plan) -> str:
    """The factor in words. A zCDP cost bounds none by itself, so it is stated at a small probability of exception."""
    cost = plan.cost.to_approximate(EXCEPTION) if plan.cost.kind == "zcdp" else plan.cost
    text = f"exp({show(cost.epsilon)})"
    if cost.epsilon < 50:
        text += f" = {_rounded_up(math.exp(float(cost.epsilon)))}"
    return text + (f" (except with probability {show(cost.delta)})" if cost.delta else "")


def _rounded_up(factor: float) -> str:
    """Three digits. A promise is never rounded down, and the double's own error is far below the part added here."""
    digits = Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(factor * (1 + 1e-12)))
    return f"{digits:f}" if factor < 1e6 else f"{digits:e}"
