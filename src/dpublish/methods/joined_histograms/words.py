"""What plans of joined histograms say, where it takes more than a sentence."""

from __future__ import annotations

from dpublish.declare.domain import Axis, Domain
from dpublish.declare.schema import Schema
from dpublish.methods.histogram.mechanism import keeps_every_row
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import some_of


def unused_totals(schema: Schema, domain: Domain) -> str:
    """Why public totals are not used where rows may be left out, and what to declare."""
    if schema.unit.column is not None:
        why, mend = "those of units that have too many", ""
    else:
        why, mend = "those without a declared value", f" {_mended(domain)}"
    return (
        f"The public totals are not used: rows may be left out ({why}), and a total is that of "
        f"all rows.{mend}"
    )


def _mended(domain: Domain) -> str:
    """What the columns that leave out rows would have to declare."""
    by_key: dict[str, list[str]] = {}
    for axis in domain.axes:
        if not keeps_every_row(Domain((axis,))):
            by_key.setdefault(_key(axis), []).append(axis.name)
    return f"Declare {', and '.join(f'{key} for {some_of(by_key[key])}' for key in by_key)}."


def _key(axis: Axis) -> str:
    if axis.outside == "clip":
        return "missing = true"
    return 'outside = "clip" and missing = true' if axis.numeric else 'outside = "other"'


def quantile_warning(adaptive: tuple[str, ...], cost: Cost) -> str:
    """That there are few rows for quantiles, and what to take instead."""
    instead = (
        "A delta beside epsilon, such as 1e-9, makes the noise smaller where there are many "
        "columns; so do fewer columns, or an interval tree of the column whose quantiles matter."
        if cost.kind == "pure"
        else "Publish fewer columns, or an interval tree of the column whose quantiles matter."
    )
    return (
        f"There are few rows for this budget: quantiles of {some_of(adaptive)} may be off by "
        f"more than 0.02 in rank. {instead}"
    )
