"""The sparse noisy histogram: counts over a product of declared columns, exact noise on every cell,
small cells left out.

In: exact counts of the occupied cells (private). Out: the cells whose noisy count is above a public
threshold, with those noisy counts, over a domain of up to 2^63 cells that is never enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any

from dpublish.declare.columns import Column
from dpublish.declare.domain import MAX_CELLS, Domain
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import Tabulation, Tabulator
from dpublish.errors import PlanError
from dpublish.methods.adaptive_bins import BinSearch, left_one_bin, plan_bins, refuse_one_cell
from dpublish.methods.base import CellCounts, Mechanism, Output, SparseCounts
from dpublish.methods.draws import (
    MAX_THRESHOLD,
    laplace_deviation,
    log_threshold,
    noisy_total,
    smallest_threshold,
    survival_probability,
    visible_count,
)
from dpublish.methods.field_types import Interval, require_columns, require_pure
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, Settings, hidden, some, some_of

DEFAULT_MAX_SUPPORT, LARGEST_SUPPORT = 50_000_000, 10**9
"""False cells that a plan may expect: noise refuses 2^30, after the debit."""
EVEN_MAY_SERVE = 1500
"""Rows times epsilon, per row that a unit changes, up to which bins that are found for several
columns cost columns without a skew more than 0.01 in rank: by `python -m benchmarks.defaults
bins`."""
DEFAULT_COUNT_SHARE = Fraction(1, 20)
Amount = Fraction | float | int | str


def noisy_histogram(
    noise: Noise, numbers: SparseCounts, settings: CountSettings, schema: Schema
) -> Output:
    """The mechanism: a noisy total where one is paid for, then noise on every cell of the domain,
    and the cells above a public threshold."""
    total = noisy_total(noise, numbers.total, settings.count_epsilon, schema)
    threshold = settings.threshold_given(total["value"])
    cells, values = noise.sparse_laplace(
        numbers.cells,
        numbers.counts,
        domain_size=settings.domain.size,
        threshold=threshold,
        sensitivity=settings.sensitivity,
        epsilon=settings.cell_epsilon,
        label="cells",
    )
    rows = counted_rows(schema, settings.domain)
    if total["kind"] == "unknown" and rows is not None:
        total = {"kind": "public", "value": rows, "scale": None}
    return Output(
        facts={
            "threshold": threshold,
            "scale": str(settings.scale),
            "domain_size": settings.domain.size,
            "total": total,
            "max_total": public_rows(schema),
        },
        tables={"cells": {"cell": cells, "count": values}},
    )


@dataclass(frozen=True, kw_only=True)
class CountSettings(Settings):
    """How the cells of a domain are counted. `threshold` is None where it follows from the noisy
    total; `rows` is the public number that stands for the number of rows; `search` says how bins
    are found, where they are, and `domain` then has as many even ones."""

    domain: Domain
    sensitivity: Fraction
    scale: Fraction
    cell_epsilon: Fraction
    count_epsilon: Fraction
    threshold: int | None
    rows: int | None
    given_threshold: int | None = hidden()
    threshold_factor: Fraction = hidden()
    max_support: int = hidden()
    search: BinSearch | None = hidden(default=None)

    def facts(self) -> dict[str, Any]:
        return {"domain_size": self.domain.size, **super().facts(), **search_facts(self.search)}

    def threshold_given(self, total: int | None) -> int:
        """The threshold; without a public size the noisy total stands in for n, and never more than
        `max_support` false cells are expected to pass."""
        if self.threshold is not None:
            return self.threshold
        assert total is not None, "a plan without a public size pays for a total"
        return max(
            log_threshold(self.threshold_factor, max(1, total), self.cell_epsilon),
            smallest_threshold(self.scale, self.domain.size, self.max_support),
        )


def search_sentences(
    search: BinSearch | None, epsilon: Fraction, schema: Schema
) -> tuple[str, ...]:
    """How bins are found, and where even ones may serve better: no public fact says whether a
    column is skewed."""
    if search is None:
        return ()
    told = None if search.rows is None else search.rows * epsilon / schema.relation.rows
    if len(search.columns) < 2 or told is None or told > EVEN_MAY_SERVE:
        return (search.describe(),)
    return (
        search.describe(),
        "With so few rows for this epsilon, quantiles of columns that fill their bounds evenly are "
        "up to 0.04 in rank nearer with even bins (bin_share = 0), and those of skewed columns up "
        "to 0.4 farther off: take even bins where the bounds are known to fit.",
    )


def search_facts(search: BinSearch | None) -> dict[str, Any]:
    """What a manifest quotes of how bins were found; nothing where they were not."""
    if search is None:
        return {}
    return {"bin_epsilon": str(search.epsilon), "adaptive": list(search.columns)}


def histogram_of_found_bins(
    noise: Noise, rows: Tabulator, settings: CountSettings, schema: Schema
) -> Output:
    """The same over bins that are found first."""
    search = settings.search
    assert search is not None, "only plans that find bins count so"
    counts = rows.tables([(search.fine.names.index(name),) for name in search.columns], {})
    domain, _ = search.found(noise, schema.relation, lambda place: counts[(place,)])
    found = replace(settings, domain=domain, search=None)
    return replace(noisy_histogram(noise, rows.cells(domain), found, schema), domain=domain)


@dataclass(frozen=True, kw_only=True)
class Histogram(Mechanism):
    """A noisy count for every cell of the product of the chosen columns, thresholded.

    Input: exact cell counts of the kept rows. Neighbours: replace-one or add-remove-one, of a unit
    with at most c rows.
    Output: sorted cells with noisy counts above the threshold; the set of possible outputs follows
    from the schema alone.
    Privacy: epsilon-DP (theorem 1 of histogram.proof.md); epsilon is split between bins that are
    found, a paid total, and cells.
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
    bin_share : share of epsilon for finding these bins from the rows, narrow where rows are; 0:
        even bins. When left out, 1/5 where there are rows enough to find them, else 0.
    threshold_factor : A in threshold = floor(A ln(n) / epsilon).
    threshold : the threshold itself, instead of A.
    count_share : share of epsilon spent on a noisy total; by default 1/20 where the number of
        counted rows is private, else 0.
    max_support : refuse a plan that expects more false cells than this.

    Examples
    --------
    >>> Histogram(columns=["age", "income"], bins=0)
    Traceback (most recent call last):
        ...
    dpublish.errors.PlanError: bins must be at least 1, not 0.
    >>> Histogram(columns=["age", "income"], bins=20).bins
    20
    """

    columns: Sequence[str] | None = None
    bins: Annotated[int | None, Interval(1)] = None
    bin_share: Annotated[Amount | None, Interval(0, below=1)] = None
    threshold_factor: Annotated[Amount, Interval(0)] = Fraction(1, 2)
    threshold: Annotated[int | None, Interval(0, below=MAX_THRESHOLD)] = None
    count_share: Annotated[Amount | None, Interval(0, below=1)] = None
    max_support: Annotated[int, Interval(1, LARGEST_SUPPORT)] = DEFAULT_MAX_SUPPORT

    def plan(self, schema: Schema, cost: Cost) -> Plan[CountSettings]:
        require_columns(schema, "A histogram needs")
        require_pure(cost, "A histogram costs")
        names = self._column_names(schema)
        factor = checked_factor(self.threshold_factor, self.threshold, type(self).threshold_factor)
        rows = schema.rows_or_nominal
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
                "published. Choose fewer columns, or give numeric columns fewer bins."
            )
        undeclared = left_one_bin(schema, domain) if self.bins is None else []
        if self.bins is None:
            refuse_one_cell(
                schema, domain, rows, "the histogram would be a single cell and say nothing"
            )
        domain, search = plan_bins(
            schema,
            domain,
            epsilon=cost.epsilon,
            share=None if self.bin_share is None else exact(self.bin_share, "bin_share"),
            rows=rows,
            asked=self.bins is not None,
        )
        share = share_for_total(self.count_share, schema, domain)
        left = cost.epsilon - (0 if search is None else search.epsilon)
        settings = count_settings(
            domain,
            schema.relation.l1,
            cell_epsilon=left - left * share,
            count_epsilon=left * share,
            threshold=self.threshold,
            factor=factor,
            rows=rows,
            max_support=self.max_support,
            search=search,
        )
        expected = self._expectations(settings)
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters={
                "columns": list(names),
                "bins": self.bins,
                **({} if self.bin_share is None else {"bin_share": str(self.bin_share)}),
                "threshold_factor": str(factor),
                "threshold": self.threshold,
                "count_share": str(share),
                "max_support": self.max_support,
            },
            settings=settings,
            forecast={"cell_standard_deviation": laplace_deviation(settings.scale), **expected},
            sentences=(
                f"Counts over {' x '.join(names)}: {domain.size:,} cells.",
                f"Cost {cost.describe()}, protecting {schema.unit.describe()} "
                f"({schema.neighbours}).",
                *search_sentences(search, cost.epsilon, schema),
                noise_sentence(settings),
                *total_sentences(schema, domain),
                *self._sentences(settings, expected),
            ),
            warnings=(
                *total_warnings(share, schema, domain),
                *unused_totals(schema, domain),
                *collapsed_warnings(undeclared),
                *drowned_warnings(settings, expected),
            ),
        )

    def statistic(self, plan: Plan[CountSettings]) -> CellCounts | Tabulation:
        search = plan.settings.search
        return CellCounts(plan.settings.domain) if search is None else Tabulation(search.fine)

    def run(
        self, noise: Noise, numbers: SparseCounts | Tabulator, plan: Plan[CountSettings]
    ) -> Output:
        if isinstance(numbers, Tabulator):
            return histogram_of_found_bins(noise, numbers, plan.settings, plan.schema)
        return noisy_histogram(noise, numbers, plan.settings, plan.schema)

    def _column_names(self, schema: Schema) -> tuple[str, ...]:
        names = tuple(self.columns) if self.columns is not None else tuple(schema.columns)
        if not names:
            raise PlanError("A histogram needs at least one column.")
        for i, name in enumerate(names):
            schema.column(name)
            if name in names[:i]:
                raise PlanError(f"Column '{name}' is listed twice.")
        return names

    def _check_size_is_known(self, schema: Schema, rows: int | None) -> None:
        if rows is not None or self.threshold is not None:
            return
        if schema.neighbours == "replace-one":
            raise PlanError(
                f"Schema '{schema.name}' declares no size, and the threshold depends on it. The "
                "number of units is public under replace-one: add size = ... to [dataset], or give "
                "threshold = ..."
            )
        check_total_is_paid(schema, self.count_share)

    @staticmethod
    def _declared_domain(schema: Schema, names: Sequence[str]) -> Domain:
        for name in names:
            column = schema.column(name)
            if column.kind == "real":
                require_bins(column)
        return schema.domain(names)

    def _expectations(self, settings: CountSettings) -> dict[str, Any]:
        scale, threshold, rows = settings.scale, settings.threshold, settings.rows
        if threshold is None:
            return {}
        cells = settings.domain.size
        survive = survival_probability(scale, threshold)
        if cells * survive > self.max_support:
            needed = smallest_threshold(scale, cells, self.max_support)
            remedy = f"threshold = {needed}"
            if rows is not None and rows > 1:
                # the factor that gives at least that threshold, rounded up to two digits
                enough = needed * float(settings.cell_epsilon) / math.log(rows)
                remedy = f"threshold_factor = {math.ceil(100 * enough) / 100:g}"
            raise PlanError(
                f"The domain has {cells:,} cells, of which about {cells * survive:,.0f} empty ones "
                f"would pass the threshold {threshold} by noise alone; at most "
                f"{self.max_support:,} fit (max_support). Choose fewer columns, fewer bins, or a "
                f"higher threshold ({remedy} would do)."
            )
        occupied = None if rows is None else min(cells, rows)
        return {
            "survival_probability": survive,
            "expected_false_cells": cells * survive,
            "expected_support_low": cells * survive,
            "expected_support_high": None
            if occupied is None
            else occupied + (cells - occupied) * survive,
            "visible_count": visible_count(scale, threshold),
        }

    def _sentences(self, settings: CountSettings, expected: Mapping[str, Any]) -> list[str]:
        if settings.threshold is None:
            return [THRESHOLD_FOLLOWS]
        factor = f" ({float(settings.threshold_factor):g} ln n / epsilon)"
        return [
            f"Cells with a noisy count of {settings.threshold} or less are left out"
            f"{factor if self.threshold is None else ''}.",
            f"Expect about {expected['expected_false_cells']:,.1f} empty cells to appear by noise; "
            f"a cell needs a true count of about {expected['visible_count']} to appear with 95% "
            "probability.",
        ]


THRESHOLD_FOLLOWS = (
    "The threshold follows from the noisy total, since the schema declares no nominal_size."
)


def count_settings(
    domain: Domain,
    sensitivity: Fraction,
    *,
    cell_epsilon: Fraction,
    count_epsilon: Fraction,
    threshold: int | None,
    factor: Fraction,
    rows: int | None,
    max_support: int,
    search: BinSearch | None = None,
) -> CountSettings:
    """What counting over `domain` works with; a threshold that is not given follows from `rows`."""
    return CountSettings(
        domain=domain,
        sensitivity=sensitivity,
        scale=sensitivity / cell_epsilon,
        cell_epsilon=cell_epsilon,
        count_epsilon=count_epsilon,
        threshold=log_threshold(factor, rows, cell_epsilon)
        if threshold is None and rows is not None
        else threshold,
        rows=rows,
        given_threshold=threshold,
        threshold_factor=factor,
        max_support=max_support,
        search=search,
    )


def checked_factor(given: Amount, threshold: int | None, default: Amount) -> Fraction:
    """A of the threshold, which works one out where none is given."""
    factor = exact(given, "threshold_factor")
    if threshold is not None and factor != default:
        raise PlanError(
            "threshold is given, and threshold_factor works one out. Give one of the two."
        )
    return factor


def share_for_total(given: Amount | None, schema: Schema, domain: Domain) -> Fraction:
    """The share of epsilon for a noisy total: as given, or 1/20 where the number of counted rows is
    private."""
    if given is not None:
        return exact(given, "count_share")
    return DEFAULT_COUNT_SHARE if counted_rows(schema, domain) is None else Fraction(0)


def check_total_is_paid(schema: Schema, count_share: Amount | None) -> None:
    """Without a public size and a threshold, a noisy total must stand in for n."""
    if count_share is not None and exact(count_share, "count_share") == 0:
        raise PlanError(
            f"Schema '{schema.name}' declares no nominal_size, and count_share = 0 buys no noisy "
            "total. Add nominal_size = ... (a public guess) to [dataset], or give threshold = ... "
            "or a count_share."
        )


def require_bins(column: Column) -> None:
    """A numeric column must say its own bins where no public size says them."""
    if column.bins is None and column.edges is None and column.precision is None:
        raise PlanError(
            f"Column '{column.name}' declares no bins, and the schema no size to choose them by. "
            "Add bins = ... to the column or nominal_size = ... to [dataset]."
        )


def noise_sentence(settings: CountSettings) -> str:
    scale, paid = settings.scale, float(settings.count_epsilon)
    total = f" A noisy number of all rows takes epsilon = {paid:.4g} of the cost." if paid else ""
    return (
        f"Every cell gets discrete Laplace noise of scale {float(scale):.4g} "
        f"(standard deviation {laplace_deviation(scale):.4g}).{total}"
    )


def total_sentences(schema: Schema, domain: Domain) -> tuple[str, ...]:
    """The public total of all rows, where it is used."""
    every = [total for total in schema.totals if not total.where]
    if not every or counted_rows(schema, domain) is None:
        return ()
    return (f"Public, and taken for true: {every[0].describe()}.",)


def total_warnings(share: Fraction, schema: Schema, domain: Domain) -> tuple[str, ...]:
    if share > 0 or counted_rows(schema, domain) is not None:
        return ()
    return (
        "No total is published (count_share = 0), so estimates cannot tell what the "
        "threshold hides.",
    )


def unused_totals(schema: Schema, domain: Domain) -> tuple[str, ...]:
    """Public totals that a table of cells is not held to."""
    unknown = counted_rows(schema, domain) is None
    unused = [total for total in schema.totals if total.where or unknown]
    if not unused:
        return ()
    return (
        f"{len(unused)} of {some(len(schema.totals), 'public total')} "
        f"{'is' if len(unused) == 1 else 'are'} not used: a histogram takes that "
        "of all rows, where none is left out. Joined histograms are held to totals of conditions.",
    )


def collapsed_warnings(names: Sequence[str]) -> tuple[str, ...]:
    """Numeric columns that a rule gave one bin."""
    if not names:
        return ()
    return (
        f"So many columns leave one bin for {some_of(names)}: nothing is told apart by them. "
        "Choose fewer columns, give bins = ..., or declare bins.",
    )


def drowned_warnings(settings: CountSettings, expected: Mapping[str, Any]) -> tuple[str, ...]:
    """Where more cells appear by noise than can hold rows enough to be seen: there more than half
    of what is published is noise, by `python -m benchmarks.defaults.drowned`."""
    if settings.rows is None or not expected:
        return ()
    seen = settings.rows // expected["visible_count"]
    if expected["expected_false_cells"] <= seen:
        return ()
    instead = (
        "Choose fewer columns or bins, or a larger epsilon; joined-histograms publish many columns."
        if len(settings.domain.axes) > 1
        else "Choose fewer bins or levels, or a larger epsilon."
    )
    return (
        f"The counts drown in noise: about {expected['expected_false_cells']:,.0f} empty cells "
        f"would appear, and at most {seen:,} can hold the {expected['visible_count']:,} rows that "
        f"it takes to be seen. {instead}",
    )


def public_rows(schema: Schema) -> int | None:
    """The most rows there can be, where the number of units is public."""
    if schema.neighbours == "replace-one" and schema.size:
        return schema.size * schema.unit.max_rows
    return None


def counted_rows(schema: Schema, domain: Domain) -> int | None:
    """The number of counted rows, where public facts tell it: the declared size, or a public total
    of all rows."""
    if total_is_public(schema, domain):
        return schema.size
    return schema.declared_rows if schema.unit.column is None and keeps_every_row(domain) else None


def total_is_public(schema: Schema, domain: Domain) -> bool:
    """Whether the number of counted rows follows from public facts: n is public, a unit is a row,
    and no rule drops a row."""
    return (
        schema.neighbours == "replace-one"
        and schema.size is not None
        and schema.unit.column is None
        and not schema.rules
        and keeps_every_row(domain)
    )


def keeps_every_row(domain: Domain) -> bool:
    """Whether no row can be left out by what a column declares."""
    return all(axis.other or (axis.missing and axis.outside == "clip") for axis in domain.axes)
