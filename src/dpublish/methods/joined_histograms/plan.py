"""The plan of joined histograms: which noise, which shares, what to expect, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpublish.declare.domain import Domain
from dpublish.declare.rules import Fact, Total, cells_where, with_cuts
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError, did_you_mean
from dpublish.methods.adaptive_bins import STAGES, bins_in_noise, finds_bins, fine_domain
from dpublish.methods.field_types import require_columns
from dpublish.methods.histogram.mechanism import counted_rows, keeps_every_row
from dpublish.methods.joined_histograms.public_table import (
    CHECK_PART,
    MAX_PAIRS,
    PublicRows,
    load_public,
)
from dpublish.methods.joined_histograms.structure import table_parts
from dpublish.methods.joined_histograms.words import quantile_warning, unused_totals
from dpublish.methods.joined_histograms.workload import (
    Workload,
    declared_triples,
    lists_of_pairs,
    read_workload,
)
from dpublish.models.junction_tree.known_sums import known_sums
from dpublish.models.junction_tree.measured import MAX_ROUNDS
from dpublish.privacy.budget_split import BudgetSplit, Law
from dpublish.privacy.cost import Cost, exact, largest_rho
from dpublish.privacy.gaussian import EXTRA_VARIANCE, Steps, largest_gaussian_rho
from dpublish.privacy.plan import Plan, Settings, as_json, hidden, some_of

if TYPE_CHECKING:
    from dpublish.methods.joined_histograms.mechanism import JoinedHistograms

MAX_LABELS = 16
MAX_COLUMN_CELLS = 1 << 22
MAX_COLUMNS = 500
LEAST_SHARE = Fraction(1, 1000)
"""Of the budget, for a step: with less, its noise would be wider than a file can hold, beside
tables with far less of it."""
BIN_SHARE: Mapping[Law, Fraction] = {"laplace": Fraction(1, 5), "gaussian": Fraction(3, 20)}
"""For finding the bins of a table in which all columns need it: tuned on synthetic columns
(benchmarks/joined_tuning/quantiles.py)."""
TIGHT_BIN_SHARE: Mapping[Law, Fraction] = {"laplace": Fraction(3, 10), "gaussian": Fraction(1, 5)}
"""The same where tables of pairs have little room."""
COLUMN_SHARE = Fraction(2, 5)
TIGHT_COLUMN_SHARE = Fraction(3, 5)
"""For single columns, and where tables of pairs have little room: with few rows for the budget a
pair says hardly more than its columns, whose own noise is then most of the error. Tuned on
synthetic tables (benchmarks/joined_tuning/tune.py --learn --set column_share=...)."""
SMALL_ROOM: Mapping[Law, float] = {"laplace": 70.0, "gaussian": 35.0}
"""Cells of a pair's table, for each label, below which there is little room."""
USUAL_ROWS = 10_000
"""Taken for the number of rows where none is declared: for the choice of shares alone."""
QUANTILE_NOISE: Mapping[Law, float] = {"laplace": 0.03, "gaussian": 0.05}
"""From which `quantile_noise` on more than a twentieth of the quantiles of a column whose bins are
found from the rows come back at a rank that is off by more than 0.02: read off
benchmarks/joined_tuning/quantiles.py --grid."""
OFFERED_DELTA = Fraction(1, 10**9)
WORTH_A_DELTA = 0.8
"""The plan of a pure cost names a delta where noise is at most so many times as large with it."""
ROUND_PART = Fraction(1, 2)
"""What rounds get of the budget for choosing and counting pairs, when there are rounds."""
STEPS_PER_COLUMN: Mapping[Law, float] = {"laplace": 0.5, "gaussian": 0.75}
"""Pairs that one round may choose, for each column. More tables cost Laplace noise more."""
MAX_STEPS = 20
MAX_ROUND_COLUMNS = 64
"""Up to so many columns there are rounds unasked: the time of a round goes with the square of their
number."""
ROUNDS_BY_ROOM: Mapping[Law, Sequence[tuple[float, int]]] = {
    "laplace": ((900.0, 3), (300.0, 2)),
    "gaussian": ((100.0, 2), (30.0, 1)),
}
"""From how many cells per table, for each label, there are how many rounds. With Gaussian noise a
third one wins hardly anything, for a third more time. Tuned on synthetic tables
(benchmarks/joined_tuning)."""


@dataclass(frozen=True, kw_only=True)
class JoinedSettings(Settings):
    """What the mechanism works with: which noise from how much, shares of it, and the domain."""

    domain: Domain
    noise: Law
    amount: Fraction
    extra_variance: Fraction
    sensitivity: Fraction
    target: str | None
    labels: int
    column_share: Fraction
    choice_share: Fraction
    pair_share: Fraction
    misfit_share: Fraction
    rounds: int | None
    workload: Workload
    public_rows: int | None
    bin_share: Fraction
    adaptive: tuple[str, ...]
    bins: int = hidden()
    fine: Domain = hidden()
    cell_deviations: Fraction = hidden()
    totals: tuple[Total, ...] = hidden()
    public: PublicRows | None = hidden(default=None, compare=False)
    check_share: Fraction = hidden(default=Fraction(0))

    def facts(self) -> dict[str, Any]:
        """With a public table also what its checks cost, so that the shares add up to one."""
        checks = {"check_share": str(self.check_share)} if self.check_share else {}
        return {**super().facts(), **checks}

    @property
    def target_index(self) -> int | None:
        return None if self.target is None else self.domain.names.index(self.target)

    def rule_ends(self, column: int) -> list[float]:
        """Where bins of a column end because a rule or total compares its values with these
        numbers."""
        axis = self.fine.axes[column]
        whole = replace(axis, edges=(axis.edges[0], axis.edges[-1]))
        facts: list[Fact] = [*self.fine.rules, *self.totals]
        return list(with_cuts(whole, facts, self.fine).edges[1:-1])

    @property
    def features(self) -> tuple[int, ...]:
        """All columns but the target."""
        return tuple(c for c, name in enumerate(self.domain.names) if name != self.target)


def plan_joined(method: JoinedHistograms, schema: Schema, cost: Cost) -> Plan[JoinedSettings]:
    """Price the release from public facts."""
    require_columns(schema, "Joined histograms need")
    names = _column_names(method, schema)
    warnings: list[str] = []
    plain = schema.domain(names, bins=method.bins)
    target = _target(method, schema, plain, warnings)
    totals = _totals(schema, plain, target, warnings)
    domain = _ruled(schema, plain, totals)
    labels = 1 if target is None else domain.axis(target).cardinality
    for axis in domain.axes:
        if axis.cardinality * labels > MAX_COLUMN_CELLS:
            raise PlanError(
                f"Column '{axis.name}' has {axis.cardinality:,} levels and the target {labels}: "
                f"{axis.cardinality * labels:,} "
                f"cells; at most {MAX_COLUMN_CELLS:,} are measured for a column. Give it fewer "
                f"bins, or leave it out."
            )
    choice_share = exact(method.choice_share, "choice_share")
    check_share = Fraction(0) if method.public is None else CHECK_PART * choice_share
    choice_share -= check_share
    misfit_share = exact(method.misfit_share, "misfit_share")
    if misfit_share and not LEAST_SHARE <= misfit_share < 1:
        raise PlanError(
            f"misfit_share must be 0, or at least {LEAST_SHARE} and below 1, not "
            f"{method.misfit_share}."
        )
    count = len(names) - (target is not None)
    # the columns whose bins are found from the rows: numbers that declare none, and that have more
    # values than there are bins
    adaptive = tuple(
        axis.name for axis in domain.axes if axis.name != target and finds_bins(schema, axis)
    )
    numeric = Fraction(len(adaptive), count)

    def priced(tight: bool) -> tuple[BudgetSplit, Cost, str, Fraction, Fraction]:
        """What is charged, and the shares of columns and bins, with or without much room."""
        column_share = _column_share(method, numeric, tight=tight)
        rest = 1 - column_share - choice_share - check_share - misfit_share
        bin_shares = {law: _bin_share(method, law, numeric, rest, tight=tight) for law in BIN_SHARE}
        steps = None
        if cost.kind == "approximate":
            left = rest - bin_shares["gaussian"]
            steps = _gaussian_steps(
                schema, count, choice_share, left, checks=method.public is not None
            )
        budget, paid, reason = _budget(method, schema, cost, count, steps)
        return budget, paid, reason, column_share, bin_shares[budget.law]

    budget, paid, reason, column_share, bin_share = priced(tight=False)
    chosen_share = choice_share + check_share
    left = 1 - column_share - chosen_share - misfit_share - bin_share
    rows = (schema.size_or_nominal or USUAL_ROWS) * schema.unit.max_rows
    cell_deviations = exact(method.cell_deviations, "cell_deviations")
    if count > 1 and left > 0 and chosen_share + misfit_share <= Fraction(1, 5):
        room = rows / (float(cell_deviations) * budget.deviation(left / (count - 1))) / labels
        even = budget.deviation(column_share / count)
        blurred = quantile_noise(even, method.bins * labels, rows) > QUANTILE_NOISE[budget.law]
        if room < SMALL_ROOM[budget.law] or (adaptive and blurred):
            budget, paid, reason, column_share, bin_share = priced(tight=True)
    adaptive = adaptive if bin_share else ()
    if column_share + chosen_share + misfit_share + bin_share > 1 - LEAST_SHARE:
        raise PlanError(
            "column_share, choice_share, misfit_share and bin_share must leave something "
            "for the pairs: together they must be at most "
            f"{1 - LEAST_SHARE}."
        )
    if count == 1:
        column_share, choice_share, misfit_share = 1 - bin_share, Fraction(0), Fraction(0)
        check_share = Fraction(0)
    pair_share = 1 - column_share - choice_share - check_share - misfit_share - bin_share
    bins = bins_in_noise(method.bins, rows / labels**0.5, budget.deviation(column_share / count))
    if count > 1 and budget.bounded_range_epsilon(choice_share / (2 * MAX_ROUNDS * count)) == 0:
        raise PlanError(
            "The cost is so small that no pair of columns could be chosen for its share. Give a "
            "larger rho or epsilon."
        )
    parts = table_parts(
        budget.law, [axis.cardinality * labels for axis in domain.axes if axis.name != target]
    )
    column_deviation = [budget.deviation(column_share * part) for part in parts]
    pair_deviation = budget.deviation(pair_share / (count - 1)) if count > 1 else None
    public_rows = next((one.rows for one in totals if not one.where), counted_rows(schema, domain))
    fine = fine_domain(schema, domain, adaptive, totals)
    public = (
        None
        if method.public is None
        else load_public(method.public, method.public_title, schema, fine, target, warnings)
    )
    settings = JoinedSettings(
        domain=domain,
        noise=budget.law,
        amount=budget.amount,
        extra_variance=budget.extra_variance,
        sensitivity=budget.sensitivity,
        target=target,
        labels=labels,
        column_share=column_share,
        choice_share=choice_share,
        pair_share=pair_share,
        misfit_share=misfit_share,
        rounds=method.rounds,
        workload=read_workload(method.workload, domain),
        public_rows=public_rows,
        totals=totals,
        bin_share=bin_share,
        adaptive=adaptive,
        bins=bins,
        fine=fine,
        cell_deviations=cell_deviations,
        public=public,
        check_share=check_share,
    )
    _check_rules(settings.fine)
    sentences = [
        f"All of {len(names)} columns"
        + (f", each with the target '{target}'." if target else ", without a target."),
        f"Cost {paid.describe()}, protecting {schema.unit.describe()} ({schema.neighbours}).",
        reason,
        f"A count of one level has noise of standard deviation {min(column_deviation):.3g} to "
        f"{max(column_deviation):.3g}.",
    ]
    if adaptive:
        sentences.append(
            f"The bins of {some_of(adaptive)} are found from the rows, with noise, for "
            f"{float(bin_share):.3g} of the cost: about {bins} each, narrow where rows are."
        )
    if pair_deviation is not None:
        with_rounds = _deviation_with_rounds(method, budget, pair_share, count)
        sentences.append(
            f"Up to {count - 1} pairs of columns are joined"
            + (", the first of them without the target" if target else "")
            + (
                ", and more in rounds where the noisy number of rows justifies them"
                if with_rounds
                else ""
            )
            + f"; a cell of a pair has noise of standard deviation about {pair_deviation:.3g}"
            + (f", or {with_rounds:.3g} with rounds" if with_rounds else "")
            + ", more in small tables and less in large ones"
            + "; levels are grouped so that a cell holds about "
            f"{float(settings.cell_deviations):g} times as many rows."
        )
    sentences += lists_of_pairs(domain.shape, schema.size_or_nominal, budget)
    if domain.rules:
        sentences.append("What a declared rule makes impossible has no people.")
    if totals:
        sentences.append(
            "These public totals are taken for true, and hold exactly in the release: "
            f"{'; '.join(one.describe() for one in totals)}."
        )
    if public is not None:
        sentences.append(public.describe(check_share))
    triples = len(declared_triples(settings))
    if triples and method.rounds != 0:
        sentences.append(
            f"If there are rounds, {triples} {'set' if triples == 1 else 'sets'} of three columns "
            f"within the workload may be "
            "counted together, where that is worth its noise."
        )
    size = schema.size_or_nominal
    if (
        size is not None
        and pair_deviation is not None
        and size * schema.unit.max_rows < 20 * pair_deviation
    ):
        warnings.append(
            "There are so few rows for this budget that pairs will hardly stand out of the noise."
        )
    if adaptive and size is not None:
        noisiest = max(
            deviation
            for deviation, name in zip(
                column_deviation, (n for n in names if n != target), strict=True
            )
            if name in adaptive
        )
        if quantile_noise(noisiest, method.bins * labels, size) > QUANTILE_NOISE[budget.law]:
            warnings.append(quantile_warning(adaptive, cost))
    return Plan(
        method=method.method,
        kind=method.kind,
        schema=schema,
        cost=paid,
        parameters={
            "columns": list(names),
            "target": target,
            "bins": method.bins,
            "noise": method.noise,
            "column_share": None if method.column_share is None else str(method.column_share),
            "choice_share": str(method.choice_share),
            "misfit_share": str(misfit_share),
            "bin_share": None if method.bin_share is None else str(method.bin_share),
            "cell_deviations": str(settings.cell_deviations),
            "rounds": method.rounds,
            "workload": [["*".join(some), as_json(weight)] for some, weight in settings.workload],
            **({} if public is None else {"public": [public.facts()]}),
        },
        settings=settings,
        forecast={
            "column_deviation_low": min(column_deviation),
            "column_deviation_high": max(column_deviation),
            "pair_deviation": pair_deviation,
        },
        sentences=tuple(sentences),
        warnings=tuple(warnings),
    )


def quantile_noise(deviation: float, cells: int, rows: int) -> float:
    """The noise of all cells of a column, added up, in parts of the rows: ranks move by some of
    it."""
    return deviation * math.sqrt(cells) / rows


def _column_share(method: JoinedHistograms, part: Fraction, *, tight: bool) -> Fraction:
    """What single columns get, when bins have to be found for `part` of them."""
    if method.column_share is not None:
        return exact(method.column_share, "column_share")
    return TIGHT_COLUMN_SHARE - part / 10 if tight else COLUMN_SHARE


def _bin_share(
    method: JoinedHistograms, law: Law, part: Fraction, rest: Fraction, *, tight: bool
) -> Fraction:
    """What finding bins costs, when they have to be found for `part` of the columns, and the other
    steps leave `rest`."""
    if not part:
        return Fraction(0)
    if method.bin_share is not None:
        return exact(method.bin_share, "bin_share")
    wanted = (TIGHT_BIN_SHARE if tight else BIN_SHARE)[law] * part
    return max(Fraction(0), min(wanted, rest * Fraction(4, 5) if tight else rest / 2))


def _ruled(schema: Schema, domain: Domain, totals: Sequence[Total]) -> Domain:
    """The domain with the rules that speak of its columns, and with bins that neither a rule nor a
    total cuts, unless they were declared so."""
    rules = tuple(rule for rule in schema.rules if set(rule.columns) <= set(domain.names))
    facts: list[Fact] = [*rules, *totals]
    if not facts:
        return domain
    declared = {
        name for name in domain.names if schema.column(name).bins or schema.column(name).edges
    }
    return Domain(
        tuple(
            axis if axis.name in declared else with_cuts(axis, facts, domain)
            for axis in domain.axes
        ),
        rules,
    )


def _totals(
    schema: Schema, domain: Domain, target: str | None, warnings: list[str]
) -> tuple[Total, ...]:
    """The public totals that the model can have exactly; of others a warning says why not."""
    if not schema.totals:
        return ()
    if schema.unit.column is not None or not keeps_every_row(domain):
        warnings.append(unused_totals(schema, domain))
        return ()
    spoken = [total for total in schema.totals if set(total.columns) <= set(domain.names)]
    place = None if target is None else domain.names.index(target)
    sums = known_sums(spoken, _ruled(schema, domain, spoken), place)
    used = []
    for total, known in zip(spoken, sums, strict=True):
        if known is not None or not total.where:
            used.append(total)
            continue
        why = (
            "it ties columns together; one column, with or without the target, can be held to"
            if len(set(total.columns) - {target}) > 1
            else "it cuts a declared bin, or there are too many totals of this column"
        )
        warnings.append(f"The public total of {total.describe()} is not used: {why}.")
    return tuple(used)


def _check_rules(fine: Domain) -> None:
    """Rules must be such that a row's codes say whether it breaks them."""
    for rule in fine.rules:
        found = cells_where(rule, fine)
        if found is not None and found.cut.any():
            raise PlanError(
                f"The rule '{rule.describe()}' compares with a number inside a declared bin, so "
                "that it cannot be told which rows break it. Declare edges with that number."
            )


def _gaussian_steps(
    schema: Schema,
    columns: int,
    choice_share: Fraction,
    pair_share: Fraction,
    *,
    checks: bool = False,
) -> Steps | None:
    """What the exact account of Gaussian noise has to know of the steps; None where choices cost so
    much beside the counts that follow them that it says nothing."""
    tables = columns * (STAGES + 2) + MAX_ROUNDS * MAX_STEPS + 1
    touched = (tables + checks * MAX_PAIRS) * schema.relation.rows
    if columns == 1:
        return Steps(Fraction(0), Fraction(0), touched)
    fewest = min(columns - 1, round_steps("gaussian", columns))
    if pair_share <= 0 or choice_share >= pair_share * fewest:
        return None
    return Steps(choice_share, choice_share / (pair_share * fewest), touched)


def _budget(
    method: JoinedHistograms, schema: Schema, cost: Cost, columns: int, steps: Steps | None
) -> tuple[BudgetSplit, Cost, str]:
    """Which noise, from how much; what is charged; and why."""
    if method.noise not in ("auto", "laplace", "gaussian"):
        raise PlanError(f"noise must be auto, laplace or gaussian, not '{method.noise}'.")
    if cost.kind == "pure":
        if method.noise == "gaussian":
            raise PlanError(
                "Gaussian noise needs delta = ... beside epsilon, or rho = ... instead of it."
            )
        only = BudgetSplit("laplace", cost.epsilon, schema.relation)
        return (
            only,
            cost,
            "Discrete Laplace noise: the cost has no delta." + _with_delta(only, columns),
        )
    if cost.kind == "zcdp":
        if method.noise == "laplace":
            raise PlanError("Laplace noise is paid in epsilon: give epsilon = ... instead of rho.")
        if cost.delta:
            raise PlanError("Give rho alone, or epsilon and delta.")
        return (
            BudgetSplit("gaussian", cost.rho, schema.relation),
            cost,
            "Discrete Gaussian noise: the cost is in rho.",
        )
    laplace = BudgetSplit("laplace", cost.epsilon, schema.relation)
    gaussian = BudgetSplit("gaussian", largest_rho(cost.epsilon, cost.delta), schema.relation)
    part = Fraction(1, max(1, 2 * columns))
    rho = None if steps is None else largest_gaussian_rho(steps, cost.epsilon, cost.delta)
    if rho is not None:
        exactly = BudgetSplit("gaussian", rho, schema.relation, EXTRA_VARIANCE)
        gaussian = min(exactly, gaussian, key=lambda one: one.scale(part))
    nearer = laplace.deviation(part) <= gaussian.deviation(part)
    if method.noise == "laplace" or (method.noise == "auto" and nearer):
        return (
            laplace,
            Cost.pure(cost.epsilon),
            f"Discrete Laplace noise: for {columns} columns it is no worse, and needs no delta.",
        )
    return (
        gaussian,
        cost,
        f"Discrete Gaussian noise: for {columns} columns at this delta it is smaller than Laplace "
        f"noise.",
    )


def _with_delta(laplace: BudgetSplit, columns: int) -> str:
    """What a delta would buy, where it is much: a sentence for the plan of a pure cost."""
    part = Fraction(1, max(1, 2 * columns))
    rho = largest_rho(laplace.amount, OFFERED_DELTA)
    if rho == 0:
        return ""
    gaussian = BudgetSplit("gaussian", rho, laplace.relation)
    ratio = gaussian.deviation(part) / laplace.deviation(part)
    if ratio > WORTH_A_DELTA:
        return ""
    return (
        f" For {columns} columns the noise with delta = 1e-9 beside epsilon is about {ratio:.2f} "
        "times this: take that where a delta is allowed."
    )


def round_steps(noise: Law, columns: int) -> int:
    """How many tables a round may choose at most."""
    return min(MAX_STEPS, max(1, round(STEPS_PER_COLUMN[noise] * columns)))


def _deviation_with_rounds(
    method: JoinedHistograms, budget: BudgetSplit, pair_share: Fraction, columns: int
) -> float | None:
    """The noise of a cell in a table of usual size if there are rounds, which leave less for the
    first pairs; None where there will be none."""
    unasked = (
        max(number for _, number in ROUNDS_BY_ROOM[budget.law])
        if columns <= MAX_ROUND_COLUMNS
        else 0
    )
    rounds = unasked if method.rounds is None else method.rounds
    if columns < 3 or not rounds:
        return None
    first = budget.deviation((1 - ROUND_PART) * pair_share / (columns - 1))
    later = budget.deviation(ROUND_PART / rounds * pair_share / round_steps(budget.law, columns))
    return max(first, later)


def _column_names(method: JoinedHistograms, schema: Schema) -> tuple[str, ...]:
    names = tuple(method.columns) if method.columns is not None else tuple(schema.columns)
    if not names:
        raise PlanError("Joined histograms need at least one column.")
    if len(names) > MAX_COLUMNS:
        raise PlanError(
            f"{len(names)} columns; at most {MAX_COLUMNS} are joined. Name those that matter with "
            f"columns = ..."
        )
    for i, name in enumerate(names):
        schema.column(name)
        if name in names[:i]:
            raise PlanError(f"Column '{name}' is named twice.")
    return names


def _target(
    method: JoinedHistograms, schema: Schema, domain: Domain, warnings: list[str]
) -> str | None:
    if method.target == "none" and "none" not in domain.names:
        return None
    name = method.target or (schema.target if schema.target in domain.names else None)
    if name is None:
        return None
    if name not in domain.names:
        raise PlanError(
            f"The target '{name}' is not among the columns.{did_you_mean(name, domain.names)}"
        )
    labels = domain.axis(name).cardinality
    if len(domain.names) == 1:
        return None
    if domain.axis(name).base < 2:
        raise PlanError(
            f"Target '{name}' has one level only, so there is nothing to tell apart. Choose "
            'another target, or target = "none".'
        )
    if labels > MAX_LABELS:
        warnings.append(
            f"The target '{name}' has {labels} levels; histograms are crossed with at most "
            f"{MAX_LABELS}, so it is published "
            "as an ordinary column. Give it fewer bins to have every column counted with it."
        )
        return None
    return name
