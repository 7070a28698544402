"""Paid discovery: levels, bounds and edges of columns for which nobody has a code book.

In: what single columns hold (private). Out: texts that enough units have, and bounds and edges on a
public grid, for a part of the budget. They are not counts to work with: a schema is made of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
from flint import ctx

from dpublish.declare.columns import Column, shown
from dpublish.declare.domain import Axis, edge_bound, fine_edges, public_grid
from dpublish.declare.relation import Relation
from dpublish.declare.schema import Schema
from dpublish.declare.spelling import natural
from dpublish.declare.statistic import ColumnReader, ColumnValues
from dpublish.errors import PlanError
from dpublish.methods.adaptive_bins import choose_bins
from dpublish.methods.base import Mechanism, Output
from dpublish.methods.draws import MAX_THRESHOLD, smallest_threshold, visible_count
from dpublish.methods.field_types import Interval
from dpublish.noise.balls import fraction_ball
from dpublish.noise.base import Noise
from dpublish.noise.geometric import pass_probability
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan, Settings, hidden

Task = Literal["texts", "universe", "bounds"]
FALSE_ALARM = Fraction(1, 100)
"""Chance that any empty cell of a public grid, or any absent level of a universe, is taken for a
filled one."""
EDGE_SHARE = Fraction(1, 2)
"""Share of a column that goes to edges, where those are asked for."""


def discover(noise: Noise, numbers: ColumnReader, settings: DiscoverySettings) -> Output:
    """The mechanism: column after column, each for its own share."""
    found = []
    for part in settings.parts:
        if part.task == "texts":
            texts, counts = numbers.texts(part.column.name)
            levels, noisy = noise.partitions(
                texts,
                counts,
                threshold=part.threshold,
                sensitivity=settings.relation.l1,
                epsilon=part.epsilon,
                label=f"levels of {part.column.name}",
            )
            found.append(_levels(part, levels, noisy.tolist(), settings.max_levels))
        elif part.task == "universe":
            axis = Axis(part.column.name, part.column.kind, levels=part.column.levels)
            noisy = _noisy(noise, numbers, axis, part, settings.relation)
            kept = np.flatnonzero(noisy > part.threshold).tolist()
            levels = tuple(axis.levels[i] for i in kept)
            found.append(_levels(part, levels, [int(noisy[i]) for i in kept], len(axis.levels)))
        else:
            found.append(_bounds(noise, numbers, part, settings))
    return Output(facts={"columns": found})


def _noisy(noise: Noise, numbers: ColumnReader, axis: Axis, part: Part, relation: Relation) -> Any:
    return noise.laplace(
        numbers.counts(axis),
        sensitivity=relation.l1,
        epsilon=part.epsilon,
        label=f"{part.task} of {axis.name}",
    )


def _levels(part: Part, levels: Sequence[str], counts: Sequence[int], most: int) -> dict[str, Any]:
    """Levels with noisy counts, in their natural order; of too many, those with the largest."""
    pairs = sorted(zip(levels, counts, strict=True), key=lambda pair: (-pair[1], pair[0]))[:most]
    pairs.sort(key=lambda pair: (natural(pair[0]), pair[0]))
    return {
        "name": part.column.name,
        "kind": part.column.kind,
        "levels": [level for level, _ in pairs],
        "counts": [count for _, count in pairs],
        "threshold": part.threshold,
    }


def _bounds(
    noise: Noise, numbers: ColumnReader, part: Part, settings: DiscoverySettings
) -> dict[str, Any]:
    """The first and the last cell of the public grid that are clearly not empty, and between them
    edges of bins with about as many rows each."""
    column = part.column
    axis = Axis(column.name, column.kind, edges=part.grid, outside="clip")
    noisy = _noisy(noise, numbers, axis, part, settings.relation)
    full = np.flatnonzero(noisy > part.threshold).tolist()
    out: dict[str, Any] = {"name": column.name, "kind": column.kind, "lower": None, "upper": None}
    out |= {"edges": None, "threshold": part.threshold}
    if not full:
        return out
    lower = edge_bound(column, part.grid[full[0]])
    upper = edge_bound(column, part.grid[full[-1] + 1], last=True)
    if part.edge_epsilon:
        assert settings.edges is not None
        inside = Column(name=column.name, kind=column.kind, lower=lower, upper=upper)
        fine = Axis(
            column.name,
            column.kind,
            edges=fine_edges(inside, schema_name=column.name),
            outside="drop",
        )
        ends = choose_bins(
            noise,
            BudgetSplit("laplace", part.edge_epsilon, settings.relation),
            numbers.counts(fine),
            share=Fraction(1),
            rows=None,
            bins=settings.edges,
            label=f"edges of {column.name}",
        )
        inner = {_rounded(column, fine.edges[int(end)]) for end in ends[1:-1]}
        between = sorted(edge for edge in inner if lower < edge < upper)
        out["edges"] = [shown(edge) for edge in (lower, *between, upper)]
    return out | {"lower": shown(lower), "upper": shown(upper)}


def _rounded(column: Column, edge: float) -> Any:
    """An edge between two bounds, without the least step by which a round number stands alone."""
    if column.kind != "real":
        return edge_bound(column, edge)
    return min(float(edge), math.nextafter(edge, -math.inf), key=lambda one: len(repr(one)))


@dataclass(frozen=True)
class Part:
    """What is looked for in one column, and what it costs."""

    column: Column
    task: Task
    epsilon: Fraction
    edge_epsilon: Fraction
    delta: Fraction
    threshold: int
    grid: tuple[float, ...] | tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DiscoverySettings(Settings):
    """The parts, in the order of the columns."""

    sensitivity: Fraction
    edges: int | None
    max_levels: int
    relation: Relation = hidden()
    parts: tuple[Part, ...] = hidden()


@dataclass(frozen=True, kw_only=True)
class Discovery(Mechanism):
    """Levels, bounds and edges of the columns that say `discover = true`, for a schema.

    Input: what the kept rows hold in each of these columns. Neighbours: replace-one or
    add-remove-one, of a unit with at most c rows.
    Output: per column, texts that enough units have, or bounds (and edges) on a public grid.
    Privacy: (epsilon, delta)-DP, delta being for texts that no universe lists (theorems 1 to 3 of
    discovery.proof.md); without such columns epsilon-DP.
    Relies on: `Noise.partitions` and `Noise.laplace` being exact; at most c texts, or rows, per
    unit.
    Shows / hides: levels of many units and round bounds; hides texts that few have, and a text that
    one unit alone has comes out with a probability of at most delta.
    Accuracy: `plan` says how many units a level or a bound needs; rarer ones are not found.

    Parameters
    ----------
    columns : names of the columns to look at; all that say discover = true when left out.
    edges : also find edges of about so many bins with about as many rows each.
    max_levels : keep at most so many levels of a column, those with the largest noisy counts.

    Examples
    --------
    >>> Discovery(columns=["city"]).max_levels
    1000
    """

    columns: Sequence[str] | None = None
    edges: Annotated[int | None, Interval(2, below=1 << 12)] = None
    max_levels: Annotated[int, Interval(1, below=1 << 20)] = 1000

    def plan(self, schema: Schema, cost: Cost) -> Plan[DiscoverySettings]:
        columns = self._chosen(schema)
        unknown = [c.name for c in columns if not c.numeric and not c.levels]
        if cost.epsilon <= 0 or cost.rho:
            raise PlanError("Discovery costs an epsilon above 0, and a delta for levels.")
        if unknown and not cost.delta:
            raise PlanError(
                f"Levels of '{unknown[0]}' can be anything, so finding them needs a delta: give "
                "delta = 1e-9 or smaller, or list all levels that are possible beside discover = "
                "true."
            )
        if cost.delta and not unknown:
            raise PlanError("Nothing here needs a delta: leave it out.")
        relation, share = schema.relation, Fraction(1, len(columns))
        delta = cost.delta / max(1, len(unknown))
        parts = tuple(
            self._part(column, relation, cost.epsilon * share, delta) for column in columns
        )
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters={
                "columns": [column.name for column in columns],
                "edges": self.edges,
                "max_levels": self.max_levels,
            },
            settings=DiscoverySettings(
                sensitivity=relation.l1,
                edges=self.edges,
                max_levels=self.max_levels,
                relation=relation,
                parts=parts,
            ),
            forecast={
                "needed": {part.column.name: _needed(part, relation) for part in parts},
                "thresholds": {part.column.name: part.threshold for part in parts},
            },
            sentences=(
                f"Looks into {', '.join(c.name for c in columns)} for what a schema has to say of "
                "them.",
                f"Cost {cost.describe()}, protecting {schema.unit.describe()} "
                f"({schema.neighbours}); an equal share for each column.",
                *(_sentence(part, relation, schema) for part in parts),
            ),
            warnings=_warnings(parts, relation, schema),
        )

    def statistic(self, plan: Plan[DiscoverySettings]) -> ColumnValues:
        return ColumnValues(tuple(part.column.name for part in plan.settings.parts))

    def run(self, noise: Noise, numbers: ColumnReader, plan: Plan[DiscoverySettings]) -> Output:
        return discover(noise, numbers, plan.settings)

    def _chosen(self, schema: Schema) -> list[Column]:
        if schema.items is not None:
            raise PlanError("Discovery needs [columns]; this schema declares [items].")
        names = schema.columns if self.columns is None else self.columns
        found = [schema.column(name) for name in dict.fromkeys(names)]
        unasked = [c.name for c in found if not c.discover]
        if self.columns is not None and unasked:
            raise PlanError(
                f"Column '{unasked[0]}' does not say discover = true in schema '{schema.name}'."
            )
        chosen = [column for column in found if column.discover]
        if not chosen:
            raise PlanError(
                f"No column of schema '{schema.name}' says discover = true: there is nothing to "
                "find."
            )
        return chosen

    def _part(self, column: Column, relation: Relation, epsilon: Fraction, delta: Fraction) -> Part:
        if not column.numeric and not column.levels:
            threshold = text_threshold(relation, epsilon, delta)
            return Part(column, "texts", epsilon, Fraction(0), delta, threshold)
        edge = epsilon * EDGE_SHARE if column.numeric and self.edges else Fraction(0)
        own = epsilon - edge
        grid = public_grid(column) if column.numeric else ()
        cells = len(grid) - 1 if grid else len(column.levels)
        threshold = max(
            1, smallest_threshold(relation.l1 / own, cells * FALSE_ALARM.denominator, 1)
        )
        task: Task = "bounds" if column.numeric else "universe"
        return Part(column, task, own, edge, Fraction(0), threshold, grid)


def text_threshold(relation: Relation, epsilon: Fraction, delta: Fraction) -> int:
    """A threshold at which a text that one unit alone has passes so rarely that all c of them
    together do with a probability of at most delta (proof: theorem 1); hardly above the least."""
    scale, c = relation.l1 / epsilon, relation.max_rows
    guess = float(scale) * math.log(c / float(delta)) if delta else math.inf
    if guess >= MAX_THRESHOLD // 2:
        raise PlanError(
            f"epsilon = {float(epsilon):g} a column is too small: no level would be found."
        )
    threshold = max(1, math.floor(guess) - 2 - math.ceil(float(scale)))
    while not _passes_rarely(scale, threshold, delta / c):
        threshold += max(1, math.ceil(float(scale)) // 64)
    return threshold


def _passes_rarely(scale: Fraction, threshold: int, chance: Fraction) -> bool:
    """Whether 1 + X > threshold has at most this chance, and one of at most 1 - exp(-1 / scale)."""
    with ctx.workprec(128):
        passing = pass_probability(scale, threshold - 1)
        rest = 1 - (-fraction_ball(1 / scale)).exp()
        return bool(passing <= fraction_ball(chance)) and bool(passing <= rest)


def _needed(part: Part, relation: Relation) -> int:
    """Units, or rows, that are found with a probability of about 95%."""
    return visible_count(relation.l1 / part.epsilon, part.threshold)


def _sentence(part: Part, relation: Relation, schema: Schema) -> str:
    name, needed = part.column.name, _needed(part, relation)
    whom = "rows" if schema.unit.column is None else f"values of '{schema.unit.column}'"
    if part.task == "texts":
        return (
            f"{name}: a level is found with a probability of about 95% if {needed:,} {whom} have "
            f"it; one that a single one has, with at most {float(part.delta):.3g}."
        )
    if part.task == "universe":
        return (
            f"{name}: of {len(part.column.levels):,} listed levels, those that about {needed:,} "
            "rows have are found."
        )
    more = " and edges between them" if part.edge_epsilon else ""
    return (
        f"{name}: bounds{more} on a public grid of {len(part.grid) - 1:,} cells; the outermost "
        f"cells that about {needed:,} rows lie in are found, and rows beyond them will be clipped."
    )


def _warnings(parts: Sequence[Part], relation: Relation, schema: Schema) -> tuple[str, ...]:
    rows = schema.rows_or_nominal
    if rows is None:
        return ()
    return tuple(
        f"Column '{part.column.name}': about {_needed(part, relation):,} of {rows:,} rows are "
        "needed for anything to be found. Give a larger epsilon, or look into fewer columns."
        for part in parts
        if 4 * _needed(part, relation) > rows
    )
