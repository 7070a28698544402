"""Which way of answering a list errs least, and the words for it: from public facts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism
from dpublish.methods.histogram.mechanism import Histogram
from dpublish.methods.multiplicative_weights.mechanism import MultiplicativeWeights
from dpublish.methods.net.mechanism import Net
from dpublish.methods.workload.measurement import list_sensitivity, noise_scale
from dpublish.methods.workload.strategy import Part, Strategy, best_strategy
from dpublish.models.residuals import Grouping
from dpublish.privacy.budget_split import BudgetSplit, laplace_variance
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan
from dpublish.workloads.query_classes import Intervals, Marginals, Predicates, QueryClass

OTHERS: Mapping[str, Any] = {
    "histogram": Histogram,
    "multiplicative-weights": MultiplicativeWeights,
    "net": Net,
}
MAX_LISTED = 1 << 20
"""Cells over which answers are measured by themselves."""


@dataclass(frozen=True)
class Direct:
    """The better of two ways to measure: tables, or every query by itself (`strategy` None)."""

    strategy: Strategy | None
    sensitivity: Fraction
    mean_square: float


def best_direct(
    queries: QueryClass,
    domain: Domain,
    parts: Sequence[Part],
    budget: BudgetSplit,
    known: int | None,
) -> Direct | None:
    ranges = isinstance(queries, Intervals | Predicates)
    strategy = best_strategy(
        parts, domain, budget, rows_are_public=known is not None, ranges=ranges
    )
    found = [Direct(strategy, budget.sensitivity, strategy.mean_square)] if strategy else []
    try:
        table = None if isinstance(queries, Marginals) else queries.table(domain)
    except (PlanError, MemoryError):
        table = None
    if table is not None and domain.size <= MAX_LISTED:
        moved = list_sensitivity(table, budget)
        scale = float(noise_scale(moved, budget))
        variance = laplace_variance(scale) if budget.law == "laplace" else scale
        found.append(Direct(None, moved, variance / queries.unit**2))
    return min(found, key=lambda one: one.mean_square, default=None)


def consider(
    name: str,
    queries: QueryClass,
    schema: Schema,
    cost: Cost,
    domain: Domain,
    bins: int | None,
    parts: Sequence[Part],
    plans: dict[str, tuple[Mechanism, Plan]],
    errors: dict[str, float],
    reasons: dict[str, str],
) -> None:
    """Plan another method for the same list, and forecast its error, or say why not."""
    from dpublish.methods.workload import forecast

    if cost.kind != "pure":
        reasons[name] = "it needs a pure epsilon"
        return
    extra: dict[str, Any] = {"bin_share": 0} if name == "histogram" else {"queries": queries}
    method: Mechanism = OTHERS[name](columns=list(domain.names), bins=bins, **extra)
    try:
        inner = method.plan(schema, cost)
    except PlanError as error:
        reasons[name] = str(error).partition(". ")[0].rstrip(".")
        return
    if inner.domain != domain:
        reasons[name] = "it would use other bins"
        return
    plans[name] = (method, inner)
    rows = schema.size_or_nominal
    found = None
    if rows is not None and domain.size <= forecast.MAX_CELLS:
        rows *= schema.unit.max_rows
        if name == "histogram":
            found = forecast.histogram_error(parts, domain, rows, inner.settings)
        elif name == "net":
            epsilon = float(cost.epsilon)
            found = forecast.net_error(domain, rows, inner.settings, epsilon)
        else:
            found = forecast.weights_error(domain, rows, inner.settings)
    if found is None:
        reasons[name] = "trying it on made-up tables of this size takes too long"
        return
    errors[name] = found


def shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def comparison(
    errors: Mapping[str, float], reasons: Mapping[str, str], chosen: str, answer: str
) -> list[str]:
    names = {"direct": "measuring directly"}
    said = [
        f"{names.get(name, name)} {error:,.4g}"
        for name, error in sorted(errors.items(), key=lambda one: one[1])
    ]
    lines = []
    if said:
        lines.append(
            f"Expected error of a query (root mean square, in rows): {'; '.join(said)}. Measuring "
            "directly has this error on any rows; the others were tried on two made-up tables, and "
            "the larger error counts."
        )
    if reasons:
        each = "; ".join(f"{name} ({why[:90]})" for name, why in reasons.items())
        lines.append(f"Not compared: {each}.")
    what = names.get(chosen, chosen)
    lines.append(f"Taken: {what}." if answer == "best" else f"Taken, as asked for: {what}.")
    return lines


def words_of(ours: Direct, domain: Domain, budget: BudgetSplit) -> list[str]:
    law = "discrete Laplace" if budget.law == "laplace" else "discrete Gaussian"
    if ours.strategy is None:
        return [f"Every answer gets {law} noise by itself."]
    grouping, named = ours.strategy.grouping, []
    for one in sorted(ours.strategy.measurements, key=lambda one: -one.share)[:8]:
        columns = " x ".join(_resolved(domain, grouping, place, level) for place, level in one.at)
        what = "residual of " if one.form == "residual" else ""
        named.append(f"{what}{columns or 'all rows'} ({float(one.share):.1%})")
    count = len(ours.strategy.measurements)
    more = f" and {count - 8} more" if count > 8 else ""
    return [
        f"{count} table{'s are' if count > 1 else ' is'} measured with {law} noise, by shares of "
        f"the budget: {', '.join(named)}{more}. Every answer is unbiased, and its variance known."
    ]


def _resolved(domain: Domain, grouping: Grouping, place: int, level: int) -> str:
    column = grouping.columns[place]
    name = domain.axes[place].name
    return name if level == column.finest else f"{name} in {column.groups(level)} runs"


def quoted(chosen: str, inner: Plan | None) -> list[str]:
    return [] if inner is None else [f"{chosen}: {line}" for line in inner.sentences[2:4]]
