"""Planning a projected histogram: what can be said, refused and priced before any row is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpublish.declare.domain import MAX_CELLS, Domain, lei_bins
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.histogram.mechanism import total_is_public
from dpublish.methods.projected_histogram.choose_k import (
    choose_gamma,
    k_from_public,
    k_from_simulation,
)
from dpublish.methods.projected_histogram.mechanism import (
    ProjectedHistogram,
    part_score_for,
    score_for,
)
from dpublish.methods.projected_histogram.scores import pair_rate_change
from dpublish.methods.projected_histogram.settings import (
    candidates_of,
    check_settings,
    options_of,
    public_rows,
    share_of,
    target_of,
)
from dpublish.methods.thresholds import (
    laplace_deviation,
    log_threshold,
    smallest_threshold,
    survival_probability,
)
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan

DEFAULT_GAMMA = Fraction(1, 2)


@dataclass(frozen=True)
class ColumnCount:
    """How many columns will be chosen: `k`, or by splitting one of `options`; and why, in words."""

    k: int | None
    options: tuple[int, ...]
    reason: str

    @property
    def most(self) -> int:
        return max(self.options)

    @property
    def least(self) -> int:
        return min(self.options)

    @property
    def typical(self) -> int:
        return sorted(self.options)[len(self.options) // 2]


def plan_projected(method: ProjectedHistogram, schema: Schema, cost: Cost) -> Plan:
    """The plan of `ProjectedHistogram`; raises `PlanError` or `SchemaError` for what cannot be
    published."""
    if schema.items is not None:
        raise PlanError(
            "A projected histogram needs [columns]; this schema declares set-valued data ([items])."
        )
    if cost.kind != "pure" or cost.epsilon <= 0:
        raise PlanError(
            "A projected histogram costs a pure epsilon above 0: give epsilon = ... and leave "
            "delta and rho out."
        )
    check_settings(method)
    target = target_of(method, schema)
    candidates = candidates_of(method, schema, target)
    rows = public_rows(method, schema)
    count = count_columns(method, schema, target, candidates, rows)
    domain, bins = published_domain(method, schema, target, candidates, rows, count.most)
    labels = domain.shape[-1]
    share = share_of(method, schema, domain)
    factor, sensitivity = exact(method.threshold_factor, "threshold_factor"), schema.relation.l1
    gamma, why_gamma = gamma_of(method, schema, count, len(candidates), rows, labels, bins, factor)

    count_epsilon = cost.epsilon * share
    cell_epsilon = gamma * (cost.epsilon - count_epsilon)
    selection_epsilon = cost.epsilon - count_epsilon - cell_epsilon
    scale = sensitivity / cell_epsilon
    threshold = method.threshold
    if threshold is None and rows is not None:
        threshold = log_threshold(factor, rows, cell_epsilon)
    charge = method.cell_charge if method.cell_charge is not None else max(1, threshold or 1)
    facts: dict[str, Any] = {
        "target": target,
        "k": count.k,
        "k_options": list(count.options),
        "gamma": str(gamma),
        "sensitivity": str(sensitivity),
        "scale": str(scale),
        "selection_epsilon": str(selection_epsilon),
        "cell_epsilon": str(cell_epsilon),
        "count_epsilon": str(count_epsilon),
        "selection_score": method.score,
        "cell_charge": charge if method.score == "prediction" else None,
        "threshold": threshold,
        "rows": rows,
        "cell_standard_deviation": laplace_deviation(scale),
    }
    sentences = [
        f"Chooses {_columns(count)} of {len(candidates)} for the target '{target}' "
        f"({_aim(method.score)}), then counts over "
        "them and the target.",
        count.reason,
        why_gamma,
        f"Cost {cost.describe()}, protecting {schema.unit.describe()} ({schema.neighbours}): "
        f"{_parts(selection_epsilon, cell_epsilon, count_epsilon)}.",
        f"Every cell gets discrete Laplace noise of scale {float(scale):.4g} "
        f"(standard deviation {facts['cell_standard_deviation']:.4g}).",
        *expectations(method, facts, domain, count, scale, threshold, rows),
    ]
    plan = Plan(
        method=method.method,
        kind=method.kind,
        schema=schema,
        cost=cost,
        parameters={
            "target": target,
            "candidates": list(candidates),
            "k": count.k,
            "k_options": None if count.k is not None else list(count.options),
            "choose_k": method.choose_k,
            "sigma": str(exact(method.sigma, "sigma")),
            "gamma": str(gamma),
            "score": method.score,
            "cell_charge": method.cell_charge,
            "bins": method.bins,
            "bin_rule": method.bin_rule,
            "threshold_factor": str(factor),
            "threshold": method.threshold,
            "count_share": str(share),
            "max_support": method.max_support,
            "rule": method.rule,
        },
        domain=domain,
        facts=facts,
        sentences=tuple(sentences),
        warnings=tuple(warnings_for(method, schema, share, selection_epsilon, count, domain)),
    )
    score = score_for(plan, labels) if count.k is not None else part_score_for(plan, labels)
    facts["selection_sensitivity"] = str(score.sensitivity)
    return plan


def count_columns(
    method: ProjectedHistogram,
    schema: Schema,
    target: str,
    candidates: Sequence[str],
    rows: int | None,
) -> ColumnCount:
    """k as given, or chosen from public facts, or the values that data splitting will try."""
    most = len(candidates)
    if method.k is not None:
        return ColumnCount(method.k, (method.k,), f"k = {method.k} was given.")
    if rows is None:
        raise PlanError(
            f"Schema '{schema.name}' declares no nominal_size, and choosing k depends on it. Add "
            f"nominal_size = ... (a public "
            "guess) to [dataset], or give k = ..."
        )
    sigma = exact(method.sigma, "sigma")
    if method.choose_k == "split":
        options = options_of(method, most)
        reason = (
            f"k is one of {', '.join(map(str, options))}: the rows are dealt into "
            f"{len(options) + 1} parts, one part a value "
            "chooses columns, and the last part chooses among the sets found. A unit's rows touch "
            "no more than their own "
            "parts, so this costs what choosing columns once does; but each choice sees fewer rows."
        )
        return ColumnCount(None, options, reason)
    # Lei's rule for all columns, as in the paper: the bins of the release itself depend on k
    default = max(2, method.bins or lei_bins(rows, most + 1))
    domain = schema.domain([*candidates, target], bins=default)
    if method.choose_k == "public":
        if method.public_data is None:
            raise PlanError(
                'choose_k = "public" needs public_data = ..., a public table with the same columns.'
            )
        k = min(most, k_from_public(method.public_data, domain, sigma))
        source = "the public data"
    else:
        # a declared column may have fewer levels than the rule gives; more would say nothing about
        # the paper's model
        levels = [min(default, size) for size in domain.shape[:-1]]
        k = min(most, k_from_simulation(rows, levels, domain.shape[-1], sigma))
        source = (
            f"simulated data ({rows:,} rows, independent normal columns in up to {default} bins)"
        )
    discern = "1 column discerns" if k == 1 else f"{k} columns discern"
    reason = (
        f"k = {k}: in {source}, {discern} {float(1 - sigma):.0%} of the pairs of rows that "
        f"all columns discern."
    )
    return ColumnCount(k, (k,), reason)


def published_domain(
    method: ProjectedHistogram,
    schema: Schema,
    target: str,
    candidates: Sequence[str],
    rows: int | None,
    k: int,
) -> tuple[Domain, int]:
    """The domain of all candidates and the target, and the number of bins of numeric columns that
    declare none."""
    names = [*candidates, target]
    if method.bins is not None:
        bins = method.bins
    elif rows is not None:
        bins = max(2, lei_bins(rows, len(names) if method.bin_rule == "all-columns" else k + 1))
    else:
        for name in names:
            column = schema.column(name)
            if (
                column.numeric
                and column.bins is None
                and column.edges is None
                and column.precision is None
            ):
                raise PlanError(
                    f"Column '{name}' declares no bins, and the schema no size to choose them by. "
                    "Add bins = ... to the column or nominal_size = ... to [dataset]."
                )
        bins = 2
    domain = schema.domain(names, bins=bins)
    if domain.axes[-1].base < 2:
        raise PlanError(
            f"Target '{target}' has one bin only, so there is nothing to tell apart. Give it more "
            f"bins."
        )
    return domain, bins


def gamma_of(
    method: ProjectedHistogram,
    schema: Schema,
    count: ColumnCount,
    candidates: int,
    rows: int | None,
    labels: int,
    bins: int,
    factor: Fraction,
) -> tuple[Fraction, str]:
    """gamma as given or by the paper's rule, and why, in words."""
    if count.least >= candidates:
        return Fraction(1), "gamma = 1: all candidates are kept, so nothing is spent on choosing."
    if method.gamma is not None:
        gamma = exact(method.gamma, "gamma")
        if gamma == 1 and count.k is None:
            raise PlanError(
                "gamma = 1 leaves nothing for choosing k by splitting. Give a smaller gamma, or k "
                "= ..."
            )
        return (
            gamma,
            f"gamma = {float(gamma):g} was given: that share of epsilon goes to counting, the "
            f"rest to choosing.",
        )
    if rows is None:
        return (
            DEFAULT_GAMMA,
            "gamma = 0.5: without a nominal size, choosing and counting share epsilon equally.",
        )
    changes = schema.relation.rows
    if method.score == "prediction":
        blur = Fraction(
            changes, 4
        )  # there are n (q-1) / q rows to gain, twice the pairs a row that can be discerned
    elif schema.neighbours == "replace-one":
        blur = Fraction(changes, 2)
    else:
        blur = changes * pair_rate_change(labels)
    gamma = choose_gamma(
        rows=max(rows, 2),
        k=min(count.typical, candidates - 1),
        candidates=candidates,
        labels=labels,
        bins=bins,
        factor=factor,
        sensitivity=schema.relation.l1,
        blur=blur,
    )
    gain = (
        "discernible pairs"
        if method.score == "discernibility"
        else "rows that labels could be told for"
    )
    return gamma, (
        f"gamma = {float(gamma):g} of epsilon goes to counting: in proportion to what a cell of "
        f"average size needs to appear "
        f"in half of all releases, against what choosing needs to lose at most 5% of the {gain}."
    )


def expectations(
    method: ProjectedHistogram,
    facts: dict[str, Any],
    domain: Domain,
    count: ColumnCount,
    scale: Fraction,
    threshold: int | None,
    rows: int | None,
) -> list[str]:
    """Expected support, for the smallest and largest domain that may be chosen (the paper's
    equations 6 and 7)."""
    *levels, labels = domain.shape
    levels.sort()
    smallest = math.prod(levels[: count.least]) * labels
    largest = math.prod(levels[len(levels) - count.most :]) * labels
    facts.update(domain_size_low=smallest, domain_size_high=largest)
    if largest > MAX_CELLS:
        raise PlanError(
            f"{count.most} columns may span {largest:.3g} cells; at most 2^63 can be published. "
            f"Choose a smaller k, leave out "
            "the candidates with most levels, or give numeric columns fewer bins."
        )
    if threshold is None:
        return [
            "The threshold follows from the noisy total, since the schema declares no nominal_size."
        ]
    survive = survival_probability(scale, threshold)
    if largest * survive > method.max_support:
        needed = smallest_threshold(scale, largest, method.max_support)
        raise PlanError(
            f"The {count.most} widest columns span {largest:,} cells, of which about "
            f"{largest * survive:,.0f} empty ones would "
            f"pass the threshold {threshold} by noise alone; at most {method.max_support:,} fit "
            f"(max_support). Choose a "
            f"smaller k, fewer bins, or a higher threshold (a larger threshold_factor, or "
            f"threshold = {needed})."
        )
    occupied = None if rows is None else min(largest, rows)
    visible = threshold + 1 + math.ceil(float(scale) * math.log(10))
    facts.update(
        survival_probability=survive,
        expected_false_cells_low=smallest * survive,
        expected_false_cells_high=largest * survive,
        expected_support_low=smallest * survive,
        expected_support_high=None
        if occupied is None
        else occupied + (largest - occupied) * survive,
        visible_count=visible,
    )
    by_factor = (
        ""
        if method.threshold is not None
        else f" ({float(exact(method.threshold_factor)):g} ln n / epsilon)"
    )
    return [
        f"The chosen columns and the target span {smallest:,} to {largest:,} cells. Those with a "
        f"noisy count of {threshold} or "
        f"less are left out{by_factor}.",
        f"Expect {smallest * survive:,.1f} to {largest * survive:,.1f} empty cells to appear by "
        f"noise; a cell needs a true "
        f"count of about {visible} to appear with 95% probability.",
    ]


def warnings_for(
    method: ProjectedHistogram,
    schema: Schema,
    share: Fraction,
    selection_epsilon: Fraction,
    count: ColumnCount,
    domain: Domain,
) -> list[str]:
    found = []
    if selection_epsilon == 0 and count.least < len(domain.axes) - 1:
        found.append("gamma = 1 leaves nothing for choosing: the columns are drawn at random.")
    if share == 0 and not total_is_public(schema, domain):
        found.append(
            "No total is published (count_share = 0), so estimates cannot tell what the threshold "
            "hides."
        )
    widest = max(domain.axes[:-1], key=lambda axis: axis.cardinality)
    if (
        method.score == "discernibility"
        and widest.cardinality >= 50
        and count.least < len(domain.axes) - 1
    ):
        found.append(
            f"score = 'discernibility' favours columns with many levels, such as '{widest.name}' "
            f"({widest.cardinality}). "
            "For prediction, consider score = 'prediction', or leave such columns out of the "
            "candidates."
        )
    return found


def _columns(count: ColumnCount) -> str:
    if count.k is not None:
        return f"{count.k} column{'s' if count.k > 1 else ''}"
    return f"{count.least} to {count.most} columns"


def _aim(score: str) -> str:
    return (
        "those that discern rows with different labels"
        if score == "discernibility"
        else "those that predict the label"
    )


def _parts(selection: Fraction, cells: Fraction, total: Fraction) -> str:
    text = f"epsilon {float(selection):.4g} to choose columns, {float(cells):.4g} to count"
    return text + (f", {float(total):.4g} for a noisy total" if total else "")
