"""Halfspace counts: how many rows lie above a hyperplane, for every hyperplane, from noisy sector
counts.

In: how many rows fall into each sector of each projection (private). Out: the same with noise.
Chapter 3.6 of Roth's thesis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Literal, get_args

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.domain import Domain
from dpublish.declare.grid import TreeShape, grid_of
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism, Output, Statistic
from dpublish.methods.field_types import Interval, require_columns, require_pure
from dpublish.methods.interval_tree.mechanism import IntervalTree
from dpublish.methods.joined_histograms.mechanism import JoinedHistograms
from dpublish.models.noisy_counts import laplace_cumulants
from dpublish.models.sectors import Sectors
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan, Settings, hidden
from dpublish.workloads import theory

MAX_CELLS = 1 << 22
MAX_COLUMNS = 64
By = Literal["best", "sectors", "tree", "joined"]


def noisy_sectors(noise: Noise, numbers: Ints, plan: Plan[SectorSettings]) -> Output:
    """The mechanism: noise on every sector count. A row is in one sector of each projection."""
    settings, sectors = plan.settings, plan.settings.sectors
    noisy = noise.laplace(
        numbers.reshape(-1),
        sensitivity=settings.sensitivity,
        epsilon=plan.cost.epsilon,
        label="sectors",
    )
    return Output(
        facts={
            "grid": [grid.to_json() for grid in sectors.grids],
            "scale": str(settings.scale),
            "k": sectors.k,
            "projections": sectors.projections,
            "cells": sectors.cells,
            "projection_seed": sectors.seed,
        },
        tables={"counts": {"count": np.asarray(noisy, dtype=np.int64)}},
    )


@dataclass(frozen=True)
class SectorCounts(Statistic):
    """A statistic: how many kept rows fall into each cell of each projection. Answered by an array,
    one row per projection."""

    sectors: Sectors


@dataclass(frozen=True, kw_only=True)
class SectorSettings(Settings):
    """What the sector counts are made with."""

    domain: Domain
    sectors: Sectors = hidden()
    sensitivity: Fraction
    scale: Fraction

    def facts(self) -> dict[str, Any]:
        return {"grid": [grid.to_json() for grid in self.sectors.grids], **super().facts()}


@dataclass(frozen=True, kw_only=True)
class Halfspaces(Mechanism):
    """Noisy counts of the sectors of random projections, from which any halfspace is answered.

    Input: sector counts of the kept rows. Neighbours: replace-one or add-remove-one, of a unit with
    at most c rows.
    Output: a noisy count for every sector of every projection; the set of possible outputs is
    public.
    Privacy: epsilon-DP (theorem 1 of halfspaces.proof.md).
    Relies on: `Noise.laplace` being exact; rows per unit bounded by c before counting; projections
    that ignore the data.
    Shows / hides: the share of rows on each side of a hyperplane; hides rows nearer to it than the
    margin.
    Accuracy: theorem 11 needs far larger k and m than are useful; limits cover noise, cut cells and
    the spread of projections.

    Parameters
    ----------
    columns : columns of numbers, dates or times with declared bounds; all of them when left out.
    k : dimension of the projections, 2 (sectors of a circle) or 3 (cells of a sphere); 2 for one
        column, else 3.
    projections : m, how many projections; the answer is the median of theirs. One where k exceeds
        the number of columns, since nothing is lost there; otherwise 9 when left out.
    cells : how many cells each circle or sphere is cut into: the resolution of the net of
        directions.
    projection_seed : names the public random projections.
    by : what is published: "sectors" of projections (the thesis), the boxes of an interval "tree"
        or "joined" histograms, which answer linear conditions too. "best" takes the one with the
        least expected error (the plan names them all), and the sectors where a setting of theirs
        is given.

    Examples
    --------
    >>> Halfspaces(columns=["height", "weight"]).by
    'best'
    """

    columns: Sequence[str] | None = None
    k: int | None = None
    projections: Annotated[int | None, Interval(1)] = None
    cells: int | None = None
    projection_seed: int = 0
    by: By = "best"

    def plan(self, schema: Schema, cost: Cost) -> Plan[Any]:
        require_columns(schema, "Halfspaces need")
        if self.by not in get_args(By):
            raise PlanError(f"by = '{self.by}' is not known. Use {', '.join(get_args(By))}.")
        names = self._names(schema)
        errors = expected_errors(schema, len(names), cost)
        way = self._way(errors, len(names))
        plan: Plan[Any] = (
            self._sector_plan(schema, cost)
            if way == "sectors"
            else self._inner(way, names).plan(schema, cost)
        )
        reason = "as asked for" if self.by == way else "the best way for so many columns"
        if self.by == "best" and way == "sectors":
            reason = "since a setting of theirs is given"
        why = [f"Linear conditions are answered from {NAMES[way]}: {reason}."]
        if errors:
            each = ", ".join(f"{NAMES[one]} {error:,.3g}" for one, error in errors.items())
            why.append(
                f"Expected error in rows, on made-up tables of this size: {each}. Columns with "
                "heaps of equal values err more."
            )
        if way == "tree" and len(names) > 2:
            why.append(
                "Where columns hardly depend on each other, and none is skewed, by = 'joined' is "
                "nearer, with wider limits. No public fact tells."
            )
        if way == "joined":
            why.append(
                "Limits of conditions on more than two columns hold whatever the dependence of "
                "columns that were not counted together, and are wide."
            )
        warnings = [*plan.warnings]
        best = min(errors, key=lambda one: errors[one], default=way)
        # between the others the dependence of columns decides, which no public fact tells
        if errors and way == "sectors" and errors[best] < CLEAR * errors[way]:
            warnings.append(
                f"by = '{best}' is expected to be nearer: {errors[best]:,.3g} rows against "
                f"{errors[way]:,.3g}."
            )
        asked = {
            "k": self.k,
            "projections": self.projections,
            "cells": self.cells,
            "projection_seed": self.projection_seed,
        }
        return replace(
            plan,
            method=self.method,
            parameters={
                **(plan.parameters if way == "sectors" else asked),
                "columns": list(names),
                "by": self.by,
            },
            forecast={**plan.forecast, "halfspace_errors": {**errors}},
            sentences=(*why, *plan.sentences),
            warnings=tuple(warnings),
        )

    def _way(self, errors: dict[Way, float], columns: int) -> Way:
        if self.by != "best":
            return self.by
        asked = (self.k, self.projections, self.cells)
        return best_way(errors, columns) if asked == (None, None, None) else "sectors"

    @staticmethod
    def _inner(way: str, names: Sequence[str]) -> IntervalTree | JoinedHistograms:
        """The method of a release that answers linear conditions too."""
        return IntervalTree(columns=names) if way == "tree" else JoinedHistograms(columns=names)

    def _sector_plan(self, schema: Schema, cost: Cost) -> Plan[SectorSettings]:
        require_pure(cost, "Halfspaces cost")
        names = self._names(schema)
        k, projections, cells = self._sizes(len(names))
        grids = [grid_of(schema.column(name), schema_name=schema.name) for name in names]
        sectors = Sectors(tuple(grids), k, projections, cells, self.projection_seed)
        sensitivity = schema.relation.l1 * projections
        scale = sensitivity / cost.epsilon
        deviation = math.sqrt(laplace_cumulants(scale)[0] * cells / 2)
        rows = schema.rows_or_nominal
        asked = theory.halfspace_parameters(
            0.1, 0.05, 0.1, bits=max(grid.bits for grid in grids), columns=len(names) + 1
        )
        # the corner of the grid and its neighbours along each column that has two positions lie on
        # no common hyperplane
        shattered = 1 + sum(grid.bits > 0 for grid in grids)
        sentences = [
            f"Halfspaces of {' x '.join(names)}: {projections} projection(s) to k = {k}, {cells} "
            f"cells each.",
            f"Cost {cost.describe()}, protecting {schema.unit.describe()} ({schema.neighbours}).",
            f"The answer of one projection has a standard error of about {deviation:,.4g} rows "
            f"from noise; the release "
            "reports the median, valid up to rows within the margin "
            f"{sectors.margin:.3g} of the hyperplane"
            + (
                ": nothing is projected away."
                if sectors.lossless
                else " and up to what projecting loses."
            ),
            f"Theorem 11 (error 0.1, margin 0.1) asks for k = {asked['k']:,}, m = {asked['m']:,} "
            "and for a net of directions and a number of rows that are too large to be of use, so "
            "its promise does not hold here.",
            *theory.limit_sentence(
                shattered,
                float(cost.epsilon),
                "over all halfspaces without a margin",
                f"theorem 27, VC dimension {shattered}",
                neighbours=schema.neighbours,
                rows=rows,
                rows_per_unit=schema.unit.max_rows,
            ),
        ]
        warnings = []
        if not sectors.lossless:
            warnings.append(
                f"{len(names)} columns are projected to {k} dimensions: answers near the middle "
                f"of the data err by a tenth or "
                "more of the rows. With at most two columns nothing is lost."
            )
        if rows is not None and deviation > rows / 4:
            warnings.append(
                "The noise is as large as the answers: use fewer projections or cells, or a "
                "larger epsilon."
            )
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters={
                "columns": list(names),
                "k": k,
                "projections": projections,
                "cells": cells,
                "projection_seed": self.projection_seed,
                "by": self.by,
            },
            settings=SectorSettings(
                domain=TreeShape(tuple(grids), tuple(grid.bits for grid in grids)).domain(),
                sectors=sectors,
                sensitivity=sensitivity,
                scale=scale,
            ),
            forecast={
                "margin": sectors.margin,
                "projection_standard_deviation": deviation,
                "rows": rows,
                "theorem_11": asked,
            },
            sentences=tuple(sentences),
            warnings=tuple(warnings),
        )

    def statistic(self, plan: Plan[Any]) -> Statistic:
        if isinstance(plan.settings, SectorSettings):
            return SectorCounts(plan.settings.sectors)
        return self._planned(plan).statistic(plan)

    def run(self, noise: Noise, numbers: Any, plan: Plan[Any]) -> Output:
        if isinstance(plan.settings, SectorSettings):
            return noisy_sectors(noise, numbers, plan)
        return self._planned(plan).run(noise, numbers, plan)

    def _planned(self, plan: Plan[Any]) -> IntervalTree | JoinedHistograms:
        way = "tree" if plan.kind == IntervalTree.kind else "joined"
        return self._inner(way, self._names(plan.schema))

    def _sizes(self, columns: int) -> tuple[int, int, int]:
        k = self.k if self.k is not None else (2 if columns == 1 else 3)
        if k not in (2, 3):
            raise PlanError(f"k must be 2 or 3, not {k}.")
        lossless = columns + 1 <= k
        projections = self.projections if self.projections is not None else (1 if lossless else 9)
        if lossless and projections > 1:
            raise PlanError(
                f"With {columns} column(s) and k = {k} nothing is projected away: leave "
                f"projections out."
            )
        cells = self.cells if self.cells is not None else (32 if k == 2 else 200)
        if cells < 4 or (k == 2 and cells % 2):
            raise PlanError(f"cells must be at least 4, and even when k = 2; it is {cells}.")
        if projections * cells > MAX_CELLS:
            raise PlanError(
                f"{projections:,} projections of {cells:,} cells are {projections * cells:,} "
                f"counts; at most {MAX_CELLS:,} "
                "fit. Use fewer projections or cells."
            )
        return k, projections, cells

    def _names(self, schema: Schema) -> tuple[str, ...]:
        numeric = (name for name, column in schema.columns.items() if column.numeric)
        names = tuple(numeric if self.columns is None else self.columns)
        if not 1 <= len(names) <= MAX_COLUMNS or len(set(names)) != len(names):
            raise PlanError(f"columns must list 1 to {MAX_COLUMNS} different numeric columns.")
        return names


# What a linear condition is off by, from public facts: the number of columns and rows, and the
# cost.
#
# On made-up tables the mean error of a random halfspace, as a share of the rows, falls as a power
# of rows times epsilon. The powers are those that benchmarks/defaults/halfspaces.py prints, one for
# each number of columns that was tried; numbers between them are interpolated. Tables are of
# columns that depend on each other and of columns that hardly do, half of them each: joined
# histograms are 0.6 to 9 times as wrong as a tree on the first, and a tenth to three times on the
# others.

Way = Literal["tree", "joined", "sectors"]

TRIED = (2, 3, 4, 6, 8)
LAWS: dict[Way, tuple[tuple[float, float], ...]] = {
    "tree": ((8.53, -0.827), (1.74, -0.573), (0.337, -0.338), (0.59, -0.32), (0.59, -0.32)),
    "joined": ((2.77, -0.584), (1.04, -0.467), (0.123, -0.226), (0.379, -0.315), (1.05, -0.338)),
    "sectors": ((0.0873, -0.054), (0.218, -0.047), (0.207, 0.0), (0.25, 0.0), (0.25, 0.0)),
}
"""Factor and power of rows times epsilon, for each number of columns; `TREE_COLUMNS` is the most
that a tree was tried on. Those of two and eight columns, and of sectors, are of tables of columns
that depend on each other alone."""
TREE_COLUMNS = 6
CLEAR = 0.9
"""A tree has narrower limits: joined histograms are taken where their error is this much less."""
NAMES: dict[Way, str] = {
    "tree": "an interval tree",
    "joined": "joined histograms",
    "sectors": "sectors of projections",
}


def expected_error(way: Way, columns: int, rows: int, size: float) -> float:
    """Rows by which a halfspace is off on average; `size` is rows times epsilon."""
    factors, powers = zip(*LAWS[way], strict=True)
    place = float(min(max(columns, TRIED[0]), TRIED[-1]))
    factor = math.exp(float(np.interp(place, TRIED, np.log(factors))))
    power = float(np.interp(place, TRIED, powers))
    return rows * min(0.5, factor * math.pow(max(1.0, size), power))


def expected_errors(schema: Schema, columns: int, cost: Cost) -> dict[Way, float]:
    """Of each way that there is; empty where the number of rows is not declared."""
    rows = schema.rows_or_nominal
    if rows is None or cost.epsilon <= 0:
        return {}
    # the tables were made up with one row a unit, of which one is exchanged
    size = rows * float(cost.epsilon) * 2 / float(schema.relation.l1)
    ways: list[Way] = ["tree"] if columns <= TREE_COLUMNS else []
    return {way: expected_error(way, columns, rows, size) for way in [*ways, "joined", "sectors"]}


def best_way(errors: dict[Way, float], columns: int) -> Way:
    """A tree for few columns, unless joined histograms are clearly nearer."""
    if columns > TREE_COLUMNS or (errors and errors["joined"] < CLEAR * errors["tree"]):
        return "joined"
    return "tree"
