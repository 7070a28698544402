"""The sparse noisy histogram: counts over a product of declared columns, exact noise on every cell,
small cells left out.

In: exact counts of the occupied cells (private). Out: the cells whose noisy count is above a public
threshold, with those noisy counts, over a domain of up to 2^63 cells that is never enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpublish.declare.domain import MAX_CELLS, Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import CellCounts, Mechanism, Output, SparseCounts
from dpublish.methods.thresholds import (
    MAX_THRESHOLD,
    laplace_deviation,
    log_threshold,
    smallest_threshold,
    survival_probability,
)
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan

DEFAULT_MAX_SUPPORT = 50_000_000
DEFAULT_COUNT_SHARE = Fraction(1, 20)


@dataclass(frozen=True, kw_only=True)
class Histogram(Mechanism):
    """A noisy count for every cell of the product of the chosen columns, thresholded.

    Input: exact cell counts of the kept rows. Neighbours: replace-one or add-remove-one, of a unit
    with at most c rows.
    Output: sorted cells with noisy counts above the threshold; the set of possible outputs follows
    from the schema alone.
    Privacy: epsilon-DP (theorem 1 of histogram.proof.md); with a paid total, epsilon is split
    between total and cells.
    Relies on: `Noise.sparse_laplace` and `Noise.laplace` being exact; rows per unit bounded by c
    before counting.
    Shows / hides: cells well above the threshold with error about c * 2 / epsilon; hides which
    small cells are occupied.
    Accuracy: a kept cell has standard deviation sqrt(2) * scale; small cells are missing; `plan`
    states all of it.

    Parameters
    ----------
    columns : names of the columns to count over; all declared columns when left out.
    bins : number of bins for numeric columns that declare none; Lei's rule from the public size
        when left out.
    threshold_factor : A in threshold = floor(A ln(n) / epsilon).
    threshold : the threshold itself, instead of A.
    count_share : share of epsilon spent on a noisy total; by default 1/20 where the number of
        counted rows is private, else 0.
    max_support : refuse a plan that expects more false cells than this.
    """

    method: ClassVar[str] = "histogram"
    kind: ClassVar[str] = "histogram"

    columns: Sequence[str] | None = None
    bins: int | None = None
    threshold_factor: Fraction | float | int | str = Fraction(1, 2)
    threshold: int | None = None
    count_share: Fraction | float | int | str | None = None
    max_support: int = DEFAULT_MAX_SUPPORT

    def plan(self, schema: Schema, cost: Cost) -> Plan:
        if schema.items is not None:
            raise PlanError(
                "A histogram needs [columns]; this schema declares set-valued data ([items])."
            )
        if cost.kind != "pure" or cost.epsilon <= 0:
            raise PlanError(
                "A histogram costs a pure epsilon above 0: give epsilon = ... and leave delta and "
                "rho out."
            )
        if self.max_support < 1:
            raise PlanError(f"max_support must be at least 1, not {self.max_support}.")
        names = self._column_names(schema)
        factor = self._factor()
        size = schema.size_or_nominal
        rows = None if size is None else size * schema.unit.max_rows
        self._check_size_is_known(schema, rows)
        # without any public size the bins must be declared: Lei's rule would need the private
        # number of rows
        domain = (
            schema.domain(names, rows=rows, bins=self.bins)
            if rows or self.bins
            else self._declared_domain(schema, names)
        )
        if domain.size > MAX_CELLS:
            raise PlanError(
                f"The {len(names)} columns span {domain.size:.3g} cells; at most 2^63 can be "
                f"published. "
                "Choose fewer columns, or give numeric columns fewer bins."
            )
        share = self._share(total_is_public(schema, domain))
        count_epsilon = cost.epsilon * share
        cell_epsilon = cost.epsilon - count_epsilon
        sensitivity = schema.relation.l1
        scale = sensitivity / cell_epsilon
        threshold = None
        if self.threshold is not None:
            threshold = self.threshold
        elif rows is not None:
            threshold = log_threshold(factor, rows, cell_epsilon)
        facts: dict[str, Any] = {
            "domain_size": domain.size,
            "sensitivity": str(sensitivity),
            "scale": str(scale),
            "cell_epsilon": str(cell_epsilon),
            "count_epsilon": str(count_epsilon),
            "threshold": threshold,
            "rows": rows,
            "cell_standard_deviation": laplace_deviation(scale),
        }
        sentences, warnings = (
            [
                f"Counts over {' x '.join(names)}: {domain.size:,} cells.",
                f"Cost {cost.describe()}, protecting {schema.unit.describe()} "
                f"({schema.neighbours}).",
                f"Every cell gets discrete Laplace noise of scale {float(scale):.4g} "
                f"(standard deviation {facts['cell_standard_deviation']:.4g}).",
            ],
            [],
        )
        if threshold is not None:
            sentences += self._expectations(facts, domain, scale, threshold, rows, factor, schema)
        else:
            sentences.append(
                "The threshold follows from the noisy total, since the schema declares no "
                "nominal_size."
            )
        if share == 0 and not total_is_public(schema, domain):
            warnings.append(
                "No total is published (count_share = 0), so estimates cannot tell what the "
                "threshold hides."
            )
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters={
                "columns": list(names),
                "bins": self.bins,
                "threshold_factor": str(factor),
                "threshold": self.threshold,
                "count_share": str(share),
                "max_support": self.max_support,
            },
            domain=domain,
            facts=facts,
            sentences=tuple(sentences),
            warnings=tuple(warnings),
        )

    def statistic(self, plan: Plan) -> CellCounts:
        assert plan.domain is not None
        return CellCounts(plan.domain)

    def run(self, noise: Noise, numbers: SparseCounts, plan: Plan) -> Output:
        return noisy_histogram(noise, numbers, plan, max_support=self.max_support)

    def _column_names(self, schema: Schema) -> tuple[str, ...]:
        names = tuple(self.columns) if self.columns is not None else tuple(schema.columns)
        if not names:
            raise PlanError("A histogram needs at least one column.")
        for i, name in enumerate(names):
            schema.column(name)
            if name in names[:i]:
                raise PlanError(f"Column '{name}' is listed twice.")
        return names

    def _factor(self) -> Fraction:
        factor = exact(self.threshold_factor, "threshold_factor")
        if factor < 0:
            raise PlanError(f"threshold_factor must be at least 0, not {self.threshold_factor}.")
        if self.threshold is not None and factor != type(self).threshold_factor:
            raise PlanError(
                "threshold is given, and threshold_factor works one out. Give one of the two."
            )
        if self.threshold is not None and not 0 <= self.threshold < MAX_THRESHOLD:
            raise PlanError(
                f"threshold must be a whole number of at least 0, not {self.threshold}."
            )
        if self.bins is not None and self.bins < 1:
            raise PlanError(f"bins must be at least 1, not {self.bins}.")
        return factor

    def _share(self, public_total: bool) -> Fraction:
        if self.count_share is None:
            return Fraction(0) if public_total else DEFAULT_COUNT_SHARE
        share = exact(self.count_share, "count_share")
        if not 0 <= share < 1:
            raise PlanError(f"count_share must be at least 0 and below 1, not {self.count_share}.")
        return share

    def _check_size_is_known(self, schema: Schema, rows: int | None) -> None:
        if rows is not None or self.threshold is not None:
            return
        if schema.neighbours == "replace-one":
            raise PlanError(
                f"Schema '{schema.name}' declares no size, and the threshold depends on it. The "
                f"number of units is public "
                "under replace-one: add size = ... to [dataset], or give threshold = ..."
            )
        if self._share(public_total=False) == 0:
            raise PlanError(
                f"Schema '{schema.name}' declares no nominal_size, and count_share = 0 buys no "
                f"noisy total. "
                "Add nominal_size = ... (a public guess) to [dataset], or give threshold = ... or "
                "a count_share."
            )

    @staticmethod
    def _declared_domain(schema: Schema, names: Sequence[str]) -> Domain:
        for name in names:
            column = schema.column(name)
            if (
                column.kind == "real"
                and column.bins is None
                and column.edges is None
                and column.precision is None
            ):
                raise PlanError(
                    f"Column '{name}' declares no bins, and the schema no size to choose them by. "
                    "Add bins = ... to the column or nominal_size = ... to [dataset]."
                )
        return schema.domain(names)

    def _expectations(
        self,
        facts: dict[str, Any],
        domain: Domain,
        scale: Fraction,
        threshold: int,
        rows: int | None,
        factor: Fraction,
        schema: Schema,
    ) -> list[str]:
        survive = survival_probability(scale, threshold)
        false_cells = domain.size * survive
        if false_cells > self.max_support:
            needed = smallest_threshold(scale, domain.size, self.max_support)
            remedy = f"threshold = {needed}"
            if rows is not None and rows > 1:
                # the factor that gives at least that threshold, rounded up to two digits
                enough = needed * float(Fraction(facts["cell_epsilon"])) / math.log(rows)
                remedy = f"threshold_factor = {math.ceil(100 * enough) / 100:g}"
            raise PlanError(
                f"The domain has {domain.size:,} cells, of which about {false_cells:,.0f} empty "
                f"ones would pass the threshold "
                f"{threshold} by noise alone; at most {self.max_support:,} fit (max_support). "
                f"Choose fewer columns, "
                f"fewer bins, or a higher threshold ({remedy} would do)."
            )
        occupied = min(domain.size, rows) if rows is not None else None
        visible = threshold + 1 + math.ceil(float(scale) * math.log(10))
        facts.update(
            survival_probability=survive,
            expected_false_cells=false_cells,
            expected_support_low=false_cells,
            expected_support_high=None
            if occupied is None
            else occupied + (domain.size - occupied) * survive,
            visible_count=visible,
        )
        from_factor = "" if self.threshold is not None else f" ({float(factor):g} ln n / epsilon)"
        return [
            f"Cells with a noisy count of {threshold} or less are left out{from_factor}.",
            f"Expect about {false_cells:,.1f} empty cells to appear by noise; a cell needs a true "
            f"count of about {visible} "
            "to appear with 95% probability.",
        ]


def noisy_histogram(noise: Noise, numbers: SparseCounts, plan: Plan, *, max_support: int) -> Output:
    """The mechanism: an optional noisy total, then noise on every cell of the domain and the public
    threshold."""
    assert plan.domain is not None
    schema, facts = plan.schema, plan.facts
    count_epsilon, cell_epsilon = Fraction(facts["count_epsilon"]), Fraction(facts["cell_epsilon"])
    total: dict[str, Any] = {"kind": "unknown", "value": None, "scale": None}
    if count_epsilon > 0:
        # one unit adds, removes or changes at most c of the counted rows, under either relation
        per_unit = Fraction(schema.unit.max_rows)
        answer = noise.laplace(
            np.array([numbers.total], dtype=np.int64),
            sensitivity=per_unit,
            epsilon=count_epsilon,
            label="total",
        )
        total = {"kind": "noisy", "value": int(answer[0]), "scale": str(per_unit / count_epsilon)}
    threshold = facts["threshold"]
    if threshold is None:
        # no public size: the noisy total stands in for n, and the threshold never lets more than
        # max_support false cells pass
        factor = Fraction(plan.parameters["threshold_factor"])
        scale = Fraction(facts["scale"])
        threshold = max(
            log_threshold(factor, max(1, total["value"]), cell_epsilon),
            smallest_threshold(scale, plan.domain.size, max_support),
        )
    cells, values = noise.sparse_laplace(
        numbers.cells,
        numbers.counts,
        domain_size=plan.domain.size,
        threshold=threshold,
        sensitivity=Fraction(facts["sensitivity"]),
        epsilon=cell_epsilon,
        label="cells",
    )
    public_rows = (
        schema.size * schema.unit.max_rows
        if schema.neighbours == "replace-one" and schema.size
        else None
    )
    if total["kind"] == "unknown" and total_is_public(schema, plan.domain):
        total = {"kind": "public", "value": public_rows, "scale": None}
    return Output(
        facts={
            "threshold": threshold,
            "scale": facts["scale"],
            "domain_size": plan.domain.size,
            "total": total,
            "max_total": public_rows,
        },
        tables={"cells": {"cell": cells, "count": values}},
    )


def total_is_public(schema: Schema, domain: Domain) -> bool:
    """Whether the number of counted rows follows from public facts: n is public, a unit is a row,
    and no rule drops a row."""
    fixed = (
        schema.neighbours == "replace-one"
        and schema.size is not None
        and schema.unit.column is None
    )
    return fixed and keeps_every_row(domain)


def keeps_every_row(domain: Domain) -> bool:
    """Whether no row can be left out by a column's rule."""
    return all(axis.other or (axis.missing and axis.outside == "clip") for axis in domain.axes)
