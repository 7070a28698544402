"""Joined histograms: every column of a table, as small noisy histograms that are joined into one model of the whole table.

In: rows coded over all columns (private). Out: a noisy histogram of every column with the target, a private choice of pairs of
columns, and a noisy histogram of every chosen pair with the target over groups of levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from dpublish.cost import Cost
from dpublish.mechanisms.base import CodedRows, Content, Mechanism
from dpublish.mechanisms.tables.joined_budget import NoiseName, Purse
from dpublish.mechanisms.tables.joined_structure import Edge, LabelledRows, Published, choose_forest, pair_scores
from dpublish.noise.base import IntArray, Noise
from dpublish.plan import Plan
from dpublish.public.junction.fit import MeasuredColumn, fit_column, fit_labels
from dpublish.public.junction.grouping import group_limits
from dpublish.public.junction.margins import Ints
from dpublish.schema import Schema

FINEST = 3
"""How many times as many cells the pair chosen first may have as the last one."""


@dataclass(frozen=True, kw_only=True)
class JoinedHistograms(Mechanism):
    """All columns of a table, joined: a model that answers counts, gives synthetic rows and trains classifiers.

    Input: rows coded over the columns. Neighbours: replace-one or add-remove-one, of a unit with at most c rows.
    Output: which pairs of columns were joined; noisy counts of every column and of every such pair, with the target.
    Privacy: epsilon-DP with discrete Laplace noise, rho-zCDP or (epsilon, delta)-DP with discrete Gaussian noise (theorems 1
    and 2 of joined_histograms.proof.md); all steps share one budget by exact parts.
    Relies on: `Noise.laplace`, `Noise.gaussian` and `Noise.choose` being exact; rows per unit bounded by c before coding.
    Shows / hides: how columns go with the target and with one another in pairs; interactions of more columns are not measured.
    Accuracy: a count over one column has the noise of its cells; the plan states the noise of both kinds of table.

    Parameters
    ----------
    columns : names of the columns to publish; all declared columns when left out.
    target : the column that every histogram is crossed with; the schema's target when left out, "none" for no target.
    bins : number of bins for numeric columns that declare none.
    noise : "laplace" (pure epsilon), "gaussian" (needs delta or rho) or "auto": the one with less noise.
    column_share : share of the budget for the histograms of single columns.
    choice_share : share of the budget for choosing pairs; the rest is for measuring them.
    cell_deviations : groups are made so large that a cell of a pair holds about so many standard deviations of its noise.
    workload : marginals that matter most, such as "age*sex", or single columns; pairs in them weigh four times as much.
    """

    method: ClassVar[str] = "joined-histograms"
    kind: ClassVar[str] = "joined-histograms"

    columns: Sequence[str] | None = None
    target: str | None = None
    bins: int = 32
    noise: Literal["auto", "laplace", "gaussian"] = "auto"
    column_share: Fraction | float | int | str = Fraction(2, 5)
    choice_share: Fraction | float | int | str = Fraction(1, 10)
    cell_deviations: Fraction | float | int | str = Fraction(3, 2)
    workload: Sequence[str] | None = None

    def plan(self, schema: Schema, cost: Cost) -> Plan:
        from dpublish.mechanisms.tables.joined_plan import plan_joined

        return plan_joined(self, schema, cost)

    def needs(self, plan: Plan) -> CodedRows:
        assert plan.domain is not None
        return CodedRows(plan.domain)

    def run(self, noise: Noise, numbers: Any, plan: Plan) -> Content:
        return joined_histograms(noise, numbers, plan)


def joined_histograms(noise: Noise, codes: Any, plan: Plan) -> Content:
    """The mechanism: measure every column, choose pairs, measure the pairs."""
    assert plan.domain is not None
    facts, domain = plan.facts, plan.domain
    target = None if facts["target"] is None else domain.names.index(facts["target"])
    purse = Purse.for_schema(purse_noise(facts), Fraction(facts["amount"]), plan.schema)
    rows = LabelledRows(codes, domain.shape, target)
    columns = [column for column in range(len(domain.axes)) if column != target]

    shares = column_shares(purse, plan, columns, rows.labels)
    singles = {
        column: purse.count(noise, rows.count_column(column), shares[column], label=f"column {column + 1}")
        for column in columns
    }
    known = publish_columns(singles, shares, purse, plan, rows.labels)

    chosen: list[Edge] = []
    if len(columns) > 1:
        part = Fraction(facts["pair_share"])
        deviation = purse.deviation(part / (len(columns) - 1))
        cells = float(known.labels.sum()) / (float(Fraction(plan.parameters["cell_deviations"])) * deviation)
        weights, heaviest = pair_weights(plan, columns)
        scores = pair_scores(rows, known, columns, weights, cells=cells, deviation=deviation)
        chosen = choose_forest(noise, scores, columns, purse, weight=heaviest, share=Fraction(facts["choice_share"]))
    groups = pair_groups(known, chosen, purse, plan, rows.labels)
    sizes = [(int(first.max()) + 1) * (int(second.max()) + 1) * rows.labels for first, second in groups]
    parts = [Fraction(facts["pair_share"]) * part for part in purse.split(sizes)] if chosen else []
    pairs = [
        purse.count(
            noise,
            rows.count_pair(
                rows.grouped(edge[0], sides[0]),
                rows.grouped(edge[1], sides[1]),
                (int(sides[0].max()) + 1, int(sides[1].max()) + 1),
            ),
            part,
            label=f"counts of pair {place + 1}",
        )
        for place, (edge, sides, part) in enumerate(zip(chosen, groups, parts, strict=True))
    ]
    return Content(
        facts={
            "noise": purse.noise,
            "target": facts["target"],
            "labels": rows.labels,
            "pairs": [[domain.names[first], domain.names[second]] for first, second in chosen],
            "column_scales": [str(purse.scale(shares[column])) for column in columns],
            "pair_scales": [str(purse.scale(part)) for part in parts],
            "total": {"kind": "public", "value": facts["public_rows"], "scale": None}
            if facts["public_rows"] is not None
            else {"kind": "unknown", "value": None, "scale": None},
        },
        tables={
            "columns": _stacked("column", columns, [singles[column] for column in columns]),
            "pairs": _stacked("pair", range(len(pairs)), pairs),
            "groups": _stacked(
                "side", range(2 * len(groups)), [side for sides in groups for side in sides], value="group", kind=np.int64
            ),
        },
    )


def purse_noise(facts: Any) -> NoiseName:
    return "laplace" if facts["noise"] == "laplace" else "gaussian"


def column_shares(purse: Purse, plan: Plan, columns: Sequence[int], labels: int) -> dict[int, Fraction]:
    """The part of the whole budget that each column's histogram gets; depends on public sizes only."""
    assert plan.domain is not None
    share = Fraction(plan.facts["column_share"])
    parts = purse.split([plan.domain.shape[column] * labels for column in columns])
    return {column: share * part for column, part in zip(columns, parts, strict=True)}


def publish_columns(
    singles: dict[int, IntArray], shares: dict[int, Fraction], purse: Purse, plan: Plan, labels: int
) -> Published:
    """What a reader of the noisy columns would make of them: the mechanism itself looks at nothing else from here on."""
    assert plan.domain is not None
    measured = {
        column: MeasuredColumn(counts.reshape(-1, labels).astype(np.float64), purse.deviation(shares[column]) ** 2)
        for column, counts in singles.items()
    }
    totals = fit_labels(list(measured.values()), [], plan.facts["public_rows"])
    return Published(
        labels=totals,
        singles={column: fit_column(one, [], totals) for column, one in measured.items()},
        deviations={column: purse.deviation(share) for column, share in shares.items()},
        ordered=[axis.ordered for axis in plan.domain.axes],
    )


def pair_weights(plan: Plan, columns: Sequence[int]) -> tuple[dict[Edge, int], int]:
    """How much each pair matters, and the largest of these weights."""
    assert plan.domain is not None
    names = plan.domain.names
    wanted = [frozenset(item) for item in plan.facts["workload"]]
    weights: dict[Edge, int] = {}
    for i, first in enumerate(columns):
        for second in columns[i + 1 :]:
            pair = {names[first], names[second]}
            named = any(pair <= item or (len(item) == 1 and item <= pair) for item in wanted)
            weights[first, second] = 4 if named else 1
    return weights, max(weights.values())


def pair_groups(known: Published, chosen: Sequence[Edge], purse: Purse, plan: Plan, labels: int) -> list[tuple[Ints, Ints]]:
    """The groups of levels that each chosen pair is counted over, from public numbers.

    The pairs chosen first depend most. Their rows crowd in few cells, which stand out of the noise over finer groups too.
    """
    if not chosen:
        return []
    assert plan.domain is not None
    deviation = purse.deviation(Fraction(plan.facts["pair_share"]) / len(chosen))
    cells = float(known.labels.sum()) / (float(Fraction(plan.parameters["cell_deviations"])) * deviation)
    out = []
    for place, (first, second) in enumerate(chosen):
        finer = FINEST - (FINEST - 1) * place / len(chosen)
        levels = [int(np.count_nonzero(known.singles[column].sum(axis=1))) or 1 for column in (first, second)]
        limits = group_limits(levels[0], levels[1], labels, finer * cells)
        out.append((known.groups(first, limits[0]), known.groups(second, limits[1])))
    return out


def _stacked(
    name: str, keys: Sequence[int] | range, parts: Sequence[Any], *, value: str = "count", kind: Any = np.int64
) -> Any:
    """Arrays of different lengths as one long table: which array, and its values in order."""
    lengths = [len(part) for part in parts]
    return {
        name: np.repeat(np.array(list(keys), dtype=np.int64), lengths),
        value: np.concatenate(parts).astype(kind) if parts else np.zeros(0, dtype=kind),
    }
