"""A list of queries, answered by whatever answers it best: the common entrance for query lists.

In: exact tables of counts (private). Out: noisy tables from which every query of the list has an
unbiased estimate with an exact variance; or the noisy answers themselves; or the release of another
method, where that is expected to err less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, get_args

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.domain import Domain, lei_bins
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import ContingencyTables, TableCounts
from dpublish.errors import PlanError
from dpublish.methods.base import CellCounts, Mechanism, Output, SparseCounts, Statistic
from dpublish.methods.draws import noisy_counts
from dpublish.methods.field_types import Interval, require_columns
from dpublish.methods.histogram.mechanism import (
    public_rows,
    require_bins,
    total_is_public,
)
from dpublish.methods.query_list import true_answers, without_precision
from dpublish.methods.workload.lists import Errors, Together, best_lists, squares_of, told
from dpublish.methods.workload.measurement import Measurement, list_sensitivity, padded
from dpublish.methods.workload.plan import (
    OTHERS,
    comparison,
    consider,
    quoted,
    shortened,
)
from dpublish.methods.workload.strategy import asked_columns, parts_of, width_of
from dpublish.models.residuals import Grouping
from dpublish.noise.base import Noise
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan, Settings, hidden
from dpublish.workloads.query_classes import QueryClass, members_of, query_class

Answer = Literal["best", "direct", "histogram", "multiplicative-weights", "net"]
How = Literal["tables", "queries", "lists", "other"]


def measured_tables(
    noise: Noise, numbers: TableCounts, settings: WorkloadSettings, where: str = ""
) -> Output:
    """The mechanism over tables: add up, take the residual where that is measured, add noise."""
    grouping, budget = settings.grouping, settings.budget
    assert sum(one.share for one in settings.measurements) <= 1
    values, facts = [], []
    for place, one in enumerate(settings.measurements):
        exact = table_at(numbers, one, grouping)
        if one.form == "residual":
            exact = grouping.whole_residual(exact, one.at)
        values.append(
            noisy_counts(
                noise,
                budget,
                np.ascontiguousarray(exact).reshape(-1),
                label=f"{where}table {place + 1}",
                share=one.share,
                sensitivity=one.sensitivity(grouping, budget),
            )
        )
        facts.append(
            {
                "form": one.form,
                "at": [list(level) for level in one.at],
                "scale": str(one.scale(grouping, budget)),
            }
        )
    return Output(
        facts={
            **_facts(settings),
            "coarsenings": [list(column.radices) for column in grouping.columns],
            "measured": facts,
        },
        tables={
            "measured": {
                "table": np.repeat(
                    np.arange(len(values), dtype=np.uint32), [len(one) for one in values]
                ),
                "value": np.concatenate(values).astype(np.int64),
            }
        },
    )


def measured_queries(
    noise: Noise, numbers: SparseCounts, settings: WorkloadSettings, where: str = ""
) -> Output:
    """The mechanism over answers: every query with noise of one scale."""
    queries, budget = settings.query_class, settings.budget
    table = queries.table(settings.domain)
    moved = list_sensitivity(table, budget)
    truth = true_answers(table, numbers, settings.domain)
    values = noisy_counts(noise, budget, truth, label=f"{where}answers", sensitivity=moved)
    return Output(
        facts={**_facts(settings), "scale": str(budget.scale_for(moved, Fraction(1)))},
        tables={"answers": {"value": values}},
    )


def measured_lists(noise: Noise, numbers: TableCounts, settings: WorkloadSettings) -> Output:
    """The mechanism over several lists: each as if it were alone, with its share of the budget."""
    assert sum(one.share for one in settings.lists) <= 1
    facts: list[dict[str, Any]] = []
    tables: dict[str, Mapping[str, Any]] = {}
    for place, one in enumerate(settings.lists, start=1):
        own = one.settings
        assert own.budget == settings.budget.holding(settings.budget.amount * one.share)
        if own.how == "tables":
            made = measured_tables(noise, numbers, own, f"list {place}, ")
        else:
            cells = cells_of(numbers, _places(own.domain, settings.domain))
            made = measured_queries(noise, cells, own, f"list {place}, ")
        facts.append(
            {"classes": list(one.classes), **made.facts, "columns": list(own.domain.names)}
        )
        tables |= {f"{name}_{place}": table for name, table in made.tables.items()}
    return Output(facts={**_facts(settings), "lists": facts}, tables=tables)


def _places(some: Domain, domain: Domain) -> tuple[int, ...]:
    return tuple(domain.names.index(name) for name in some.names)


def _facts(settings: WorkloadSettings) -> dict[str, Any]:
    return {
        "queries": settings.query_class.text(),
        "how": settings.how,
        "law": settings.budget.law,
        "rows": settings.rows,
    }


def table_at(numbers: TableCounts, one: Measurement, grouping: Grouping) -> Ints:
    """The exact counts of a measured table, from the smallest counted one that holds it."""
    places = _holding(numbers, {place for place, _ in one.at})
    finest = grouping.finest(places)
    leaves = padded(numbers.tables[places], grouping, finest)
    return np.asarray(grouping.sums(leaves, finest, one.at), dtype=np.int64)


def _holding(numbers: TableCounts, wanted: set[int]) -> tuple[int, ...]:
    """The smallest counted table that has these columns."""
    return min(
        (places for places in numbers.tables if wanted <= set(places)),
        key=lambda some: (numbers.tables[some].size, some),
    )


def cells_of(numbers: TableCounts, places: tuple[int, ...]) -> SparseCounts:
    """The exact counts of all cells of some columns, from a counted table that holds these."""
    held = _holding(numbers, set(places))
    rest = tuple(axis for axis, place in enumerate(held) if place not in places)
    counts = numbers.tables[held].sum(axis=rest, dtype=np.int64).reshape(-1)
    return SparseCounts(np.arange(counts.size, dtype=np.uint64), counts)


def counted_tables(settings: WorkloadSettings) -> tuple[tuple[int, ...], ...]:
    """The tables that hold all measured ones, without those that another holds."""
    places = {
        tuple(place for place, _ in one.at)
        for some in (settings, *(one.settings for one in settings.lists))
        for one in some.measurements
    }
    places |= {
        _places(one.settings.domain, settings.domain)
        for one in settings.lists
        if one.settings.how == "queries"
    }
    return tuple(
        sorted(
            some for some in places if some and not any(set(some) < set(other) for other in places)
        )
    ) or ((0,),)


@dataclass(frozen=True, kw_only=True)
class WorkloadSettings(Settings):
    """What answering a list works with: tables to measure, or all queries with one noise, or
    several lists that are measured apart, or another method with a plan of its own."""

    domain: Domain
    query_class: QueryClass = hidden()
    how: How
    chosen: str
    budget: BudgetSplit = hidden()
    grouping: Grouping = hidden()
    measurements: tuple[Measurement, ...] = hidden()
    sensitivity: Fraction
    rows: int | None = hidden()
    """The number of rows, where it is public."""
    lists: tuple[Sublist, ...] = hidden(default=())
    inner: Plan | None = hidden(default=None)
    method: Mechanism | None = hidden(default=None)

    def facts(self) -> dict[str, Any]:
        theirs = {} if self.inner is None else self.inner.settings.facts()
        return {**theirs, **super().facts()}


@dataclass(frozen=True)
class Sublist:
    """Classes of a list that are measured together, by their places, with a share of the budget of
    the list: `settings` has that much and no more."""

    classes: tuple[int, ...]
    share: Fraction
    settings: WorkloadSettings


@dataclass(frozen=True, kw_only=True)
class Workload(Mechanism):
    """A list of queries, by the way that is expected to err least.

    Input: exact tables of counts of the kept rows. Neighbours: replace-one or add-remove-one, of a
    unit with at most c rows.
    Output: noisy tables or residuals of tables, whose number and sizes follow from the list and the
    schema; or noisy answers; or what another method publishes.
    Privacy: epsilon-DP or rho-zCDP (theorem 1 of workload.proof.md); another method's own theorem
    where one is taken.
    Relies on: `Noise.laplace` and `Noise.gaussian` being exact; rows per unit bounded by c before
    counting.
    Shows / hides: the answers of the list, and what follows from the measured tables; hides the
    rest.
    Accuracy: measured directly, every answer is unbiased with a variance that the plan states
    exactly, whatever the rows are; other methods as on the plan's stand-ins.

    Parameters
    ----------
    queries : a query class, or its text ("marginals:2", "intervals:age", "predicates:age > 40"); or
        several in one list ("marginals:2;intervals:age;predicates:age > 40;age < 20"), of which
        each class counts alike.
    answer : "best" takes what is expected to err least; or the way itself: "direct", "histogram",
        "multiplicative-weights", "net".
    columns, bins : the columns, and the number of bins of numeric columns that declare none.

    Examples
    --------
    >>> Workload(queries="marginals:2;intervals:age").answer
    'best'
    """

    queries: QueryClass | str = "marginals:2"
    answer: Answer = "best"
    columns: Sequence[str] | None = None
    bins: Annotated[int | None, Interval(1)] = None

    def plan(self, schema: Schema, cost: Cost) -> Plan[WorkloadSettings]:
        require_columns(schema, "A list of queries needs")
        if self.answer not in get_args(Answer):
            raise PlanError(
                f"answer must be one of {', '.join(get_args(Answer))}, not {self.answer!r}."
            )
        budget = BudgetSplit.of(cost, schema.relation)
        if budget.amount <= 0:
            raise PlanError("A list of queries costs an epsilon (with or without delta) or a rho.")
        queries = query_class(query_class(self.queries).text())
        domain, bins = self._domain(schema, queries)
        coarse = without_precision(schema, self.bins)
        groups = [parts_of(one, domain) for one in members_of(queries)]
        for one, parts in zip(members_of(queries), groups, strict=True):
            if not parts:
                raise PlanError(
                    f"The class '{one.text()}' has no query over {', '.join(domain.names)}."
                )
            if all(part.values is not None and not part.values.any() for part in parts):
                raise PlanError(
                    f"The class '{shortened(one.text())}' holds for no value of the declared "
                    "domain, so that its answers are 0 whatever the rows are. Ask for values "
                    "inside the declared bounds."
                )
        known = public_rows(schema) if total_is_public(schema, domain) else None
        direct, alone = best_lists(queries, domain, groups, budget, known)
        squares = {"direct": squares_of(direct)} if direct else {}
        plans: dict[str, tuple[Mechanism, Plan]] = {}
        reasons: dict[str, str] = {}
        for name in OTHERS:
            if self.answer in ("best", name):
                consider(name, queries, coarse, cost, domain, bins, groups, plans, squares, reasons)
        counts = tuple(sum(part.count for part in parts) for parts in groups)
        errors = Errors(queries, counts, tuple(alone), squares)
        return self._planned(
            schema,
            cost,
            domain,
            queries,
            budget,
            known,
            direct,
            plans,
            errors,
            reasons,
            self._choose(errors, reasons, bool(direct), plans),
        )

    def statistic(self, plan: Plan[WorkloadSettings]) -> Statistic:
        settings = plan.settings
        if settings.method is not None and settings.inner is not None:
            return settings.method.statistic(settings.inner)
        if settings.how == "queries":
            return CellCounts(settings.domain)
        return ContingencyTables(settings.domain, counted_tables(settings))

    def run(self, noise: Noise, numbers: Any, plan: Plan[WorkloadSettings]) -> Output:
        settings = plan.settings
        if settings.method is not None and settings.inner is not None:
            return settings.method.run(noise, numbers, settings.inner)
        if settings.how == "lists":
            return measured_lists(noise, numbers, settings)
        measured = measured_queries if settings.how == "queries" else measured_tables
        return measured(noise, numbers, settings)

    def _domain(self, schema: Schema, queries: QueryClass) -> tuple[Domain, int | None]:
        """The cells of the columns that the list looks at, and the bins of columns that declare
        none."""
        names = tuple(schema.columns) if self.columns is None else tuple(self.columns)
        if not names or len(set(names)) != len(names):
            raise PlanError("columns must list at least one column, and none twice.")
        for name in names:
            column = schema.column(name)
            if schema.size_or_nominal is None and self.bins is None and column.kind == "real":
                require_bins(column)
        coarse = without_precision(schema, self.bins)
        every = coarse.domain(names, bins=self.bins or 64)
        kept = tuple(names[place] for place in asked_columns(queries, every))
        bins = self.bins
        if bins is None and schema.rows_or_nominal is not None:
            wide = max(width_of(one, coarse.domain(kept, bins=64)) for one in members_of(queries))
            bins = lei_bins(schema.rows_or_nominal, min(wide, len(kept)))
        domain = coarse.domain(kept, bins=bins)
        if domain.size < 2:
            raise PlanError("The columns of the list have one cell: there is nothing to ask.")
        return domain, bins

    def _choose(
        self,
        errors: Errors,
        reasons: Mapping[str, str],
        direct: bool,
        plans: Mapping[str, Any],
    ) -> str:
        if self.answer == "best":
            if not errors.squares:
                raise PlanError(
                    "No method answers this list: it needs a table that is too large to measure, "
                    "and " + "; ".join(f"{name}: {why}" for name, why in reasons.items())
                )
            return errors.least()
        if self.answer == "direct" and not direct:
            raise PlanError(
                "This list cannot be measured directly: it needs a table that is too large. "
                "Choose fewer columns, fewer bins or narrower queries."
            )
        if self.answer != "direct" and self.answer not in plans:
            raise PlanError(f"{self.answer} does not answer this list: {reasons[self.answer]}")
        return self.answer

    def _planned(
        self,
        schema: Schema,
        cost: Cost,
        domain: Domain,
        queries: QueryClass,
        budget: BudgetSplit,
        known: int | None,
        direct: Sequence[Together],
        plans: Mapping[str, tuple[Mechanism, Plan]],
        errors: Errors,
        reasons: Mapping[str, str],
        chosen: str,
    ) -> Plan[WorkloadSettings]:
        method, inner = plans.get(chosen, (None, None)) if chosen != "direct" else (None, None)
        ours = direct if chosen == "direct" else ()
        parts = [
            Sublist(
                one.classes,
                one.share,
                _settings(one, budget.holding(budget.amount * one.share), known),
            )
            for one in ours
        ]
        if len(parts) == 1:
            settings = parts[0].settings
        else:
            settings = WorkloadSettings(
                domain=domain,
                query_class=queries,
                how="lists" if parts else "other",
                chosen=chosen,
                budget=budget,
                grouping=Grouping(()),
                measurements=(),
                sensitivity=budget.sensitivity,
                rows=known,
                lists=tuple(parts),
                inner=inner,
                method=method,
            )
        count, said = sum(errors.counts), errors.overall()
        return Plan(
            method=self.method,
            kind=self.kind if inner is None else inner.kind,
            schema=schema,
            cost=cost,
            parameters={
                "queries": queries.text(),
                "answer": self.answer,
                "columns": None if self.columns is None else list(self.columns),
                "bins": self.bins,
            },
            settings=settings,
            forecast={
                "expected_error": said.get(chosen),
                "expected_errors": said,
                "expected_errors_by_class": errors.by_class(),
                "not_compared": dict(reasons),
            },
            sentences=(
                f"{count:,} queries ({shortened(queries.text())}) over {', '.join(domain.names)}.",
                f"Cost {cost.describe()}, protecting {schema.unit.describe()} "
                f"({schema.neighbours}).",
                *comparison(said, reasons, chosen, self.answer),
                *errors.sentences(chosen),
                *(line for one in ours for line in told(one, domain, budget, len(ours))),
                *quoted(chosen, inner),
            ),
            warnings=() if inner is None else tuple(inner.warnings),
        )


def _settings(one: Together, budget: BudgetSplit, known: int | None) -> WorkloadSettings:
    strategy = one.direct.strategy
    return WorkloadSettings(
        domain=one.domain,
        query_class=one.queries,
        how="tables" if strategy else "queries",
        chosen="direct",
        budget=budget,
        grouping=strategy.grouping if strategy else Grouping(()),
        measurements=strategy.measurements if strategy else (),
        sensitivity=one.direct.sensitivity,
        rows=known,
    )
