"""A release that answers every interval of one numeric column, or every box of a few.

In: exact counts of the points of a grid (private). Out: a partition of the grid into boxes, with
noisy counts of boxes and of groups of neighbouring boxes. Chapter 3.4 of Roth's thesis, with
PrivTree (Zhang et al. 2016) in place of the binary search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Literal, get_args

import numpy as np

from dpublish.declare.domain import Domain
from dpublish.declare.grid import Boxes, TreeShape, grid_of
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import GridPoints
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism, Output, SparseCounts
from dpublish.methods.field_types import Interval, require_columns, require_pure
from dpublish.methods.interval_tree.pilot import (
    BoxBias,
    BoxCounts,
    Calibration,
    Pilot,
    binary_search,
    cells_fit_better,
    cells_serve_better,
    equal_cells,
    priv_tree,
    widest_sum,
)
from dpublish.models.hierarchical_counts import (
    Hierarchy,
    best_for_ranges,
    best_for_weights,
    spread_points,
)
from dpublish.models.noisy_counts import laplace_cumulants
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, Settings, hidden
from dpublish.workloads import theory

Tree = Literal["privtree", "dyadic", "binary-search"]
Missing = Literal["own", "rest", "among rest"]
Number = Fraction | float | int | str
MAX_COLUMNS = 6
MAX_CELLS = 1 << 22
SAMPLE_BOXES = 48
_LOOK_SHARES = (Fraction(1, 48), Fraction(1, 24))
LARGEST_SUM = 1 << 61
"""Scores of boxes, and what a look makes of them, stay below this many rows, so that they are exact
in 64 bits with the rows themselves."""
CROWDED, CROWDED_BOXES = Fraction(4), Fraction(1, 2)
"""A look is paid for from so many rows times epsilon a position on; below, PrivTree is the better
tree in any case. Boxes of several columns are cut by far more ranges than intervals are, so
unevenness shows earlier."""


def noisy_tree(noise: Noise, numbers: SparseCounts, plan: Plan[AnyTree]) -> Output:
    """The mechanism: cut the grid, then count what was cut."""
    settings, shape, total = plan.settings, plan.settings.shape, plan.settings.total
    numbers, absent = without_absent(shape, numbers)
    counts = BoxCounts(shape, numbers)
    tree, epsilon = settings.tree, settings.count_epsilon
    if isinstance(settings, SearchedBoxes):
        boxes = binary_search(
            noise,
            counts,
            shape,
            queries=settings.queries,
            split_above=settings.split_above,
            scale=settings.query_scale,
            sensitivity=settings.sensitivity,
        )
    elif isinstance(settings, EqualCells):
        boxes = equal_cells(shape, settings.depth)
    else:
        tree, boxes, epsilon = _chosen_tree(noise, numbers, counts, settings, plan.schema)
    # the boxes are public from here on, so the choice of groups is a function of public facts
    hierarchy, _ = best_hierarchy(shape, boxes, fixed=total is not None)
    listed = counts.of(boxes)
    if total is not None:
        # what lies in no box is counted as if it were one: then the sum of the list is public
        listed = np.append(listed, total - listed.sum())
    sums = hierarchy.sums(listed)
    if settings.missing == "own":
        # a row without a value is in this entry alone, and in no box or group
        sums = np.append(sums, absent)
    every = settings.sensitivity * hierarchy.height
    measured = noise.laplace(sums, sensitivity=every, epsilon=epsilon, label="counts")
    return _content(settings, tree, boxes, measured, hierarchy, every / epsilon)


@dataclass(frozen=True, kw_only=True)
class TreeSettings(Settings):
    """What every tree works with; `total` is the number of rows where it is public."""

    domain: Domain
    shape: TreeShape = hidden()
    tree: Tree
    positions: int
    bits: int
    sensitivity: Fraction
    rows: int | None
    total: int | None
    missing: Missing | None
    """How rows without a value are counted: as an entry of their own, as all that lies in no box,
    or among that; None where the schema has no missing values."""

    def facts(self) -> dict[str, Any]:
        return {"grid": self.shape.to_json(), **super().facts()}


@dataclass(frozen=True, kw_only=True)
class EqualCells(TreeSettings):
    """The grid cut `depth` times into cells of one size."""

    depth: int
    count_epsilon: Fraction
    boxes: int


@dataclass(frozen=True, kw_only=True)
class AdaptiveBoxes(TreeSettings):
    """PrivTree, with a look at what every position would do (`look_epsilon` = 0: none)."""

    look_epsilon: Fraction
    structure_epsilon: Fraction
    count_epsilon: Fraction
    split_scale: Fraction
    decay: int


@dataclass(frozen=True, kw_only=True)
class SearchedBoxes(TreeSettings):
    """The thesis's binary search: at most so many counts, each with so much noise."""

    queries: int
    query_scale: Fraction
    split_above: int
    structure_epsilon: Fraction
    count_epsilon: Fraction


AnyTree = EqualCells | AdaptiveBoxes | SearchedBoxes


def without_absent(shape: TreeShape, numbers: SparseCounts) -> tuple[SparseCounts, int]:
    """The counts of positions, and the number of rows without a value."""
    placed = numbers.cells < np.uint64(shape.absent)
    absent = int(numbers.counts[~placed].sum())
    return SparseCounts(numbers.cells[placed], numbers.counts[placed]), absent


def missing_rule(schema: Schema, shape: TreeShape) -> Missing | None:
    """Where the number of rows is public, what lies in no box is counted already, and is missing
    where nothing else can be left out; elsewhere missing rows get an entry of their own."""
    if not any(grid.missing for grid in shape.grids):
        return None
    if schema.neighbours != "replace-one":
        return "own"
    alone = (
        not schema.rules
        and schema.unit.column is None
        and all(grid.missing and grid.outside == "clip" for grid in shape.grids)
    )
    return "rest" if alone else "among rest"


@dataclass(frozen=True, kw_only=True)
class IntervalTree(Mechanism):
    """Noisy counts of adaptive boxes, from which any interval or box is answered.

    Input: exact counts over a grid of positions. Neighbours: replace-one or add-remove-one, of a
    unit with at most c rows.
    Output: boxes that partition the grid and noisy counts; the set of possible outputs follows from
    the schema alone.
    Privacy: epsilon-DP (theorems 1 to 6 of interval_tree.proof.md), split between look, shape of
    the tree and counts.
    Relies on: `Noise.laplace` being exact; rows per unit bounded by c before counting.
    Shows / hides: where the points are dense, at a resolution that follows the density; hides how
    points lie inside a box.
    Accuracy: the noise of a range grows with a power of the logarithm of the number of boxes;
    `plan` states it.

    Parameters
    ----------
    columns : one to six columns of numbers, dates or times with declared bounds; all of them when
        left out.
    tree : how the grid is cut: privtree, dyadic (equal cells) or binary-search (the thesis).
    structure_share : share of epsilon spent on where to cut (privtree and binary-search).
    look_share : share of epsilon with which privtree looks whether to count every position instead;
        0: never. When left out, 1/48 for one column and 1/24 for several.
    max_cells : number of equal cells that dyadic may use.
    accuracy : the error that binary-search aims for, as a share of the rows.

    Examples
    --------
    >>> IntervalTree(columns=["age"]).tree
    'privtree'
    """

    columns: Sequence[str] | None = None
    tree: Tree = "privtree"
    structure_share: Annotated[Number, Interval(above=0, below=1)] = Fraction(1, 8)
    look_share: Annotated[Number | None, Interval(0, below=1)] = None
    max_cells: Annotated[int, Interval(2, MAX_CELLS)] = 1 << 16
    accuracy: Annotated[Number, Interval(above=0, below=1)] = Fraction(1, 10)

    def plan(self, schema: Schema, cost: Cost) -> Plan[AnyTree]:
        self._check(schema, cost)
        names = self._names(schema)
        shape = TreeShape.over(
            [grid_of(schema.column(name), schema_name=schema.name) for name in names]
        )
        if shape.depth == 0:
            raise PlanError(
                f"Column '{names[0]}' has one position only, so there is nothing to cut."
            )
        share = exact(self.structure_share, "structure_share")
        look_share = exact(
            _LOOK_SHARES[len(names) > 1] if self.look_share is None else self.look_share,
            "look_share",
        )
        rows = schema.rows_or_nominal
        common: dict[str, Any] = {
            "domain": Domain(
                tuple(
                    replace(axis, wording=schema.column(axis.name).wording)
                    for axis in shape.domain().axes
                )
            ),
            "shape": shape,
            "tree": self.tree,
            "positions": math.prod(grid.positions for grid in shape.grids),
            "bits": shape.total_bits,
            "sensitivity": schema.relation.l1,
            "rows": rows,
            "total": rows if schema.neighbours == "replace-one" else None,
            "missing": missing_rule(schema, shape),
        }
        sentences = [
            f"Ranges of {' x '.join(names)}: {common['positions']:,} positions, cut by "
            f"{self.tree}.",
            f"Cost {cost.describe()}, protecting {schema.unit.describe()} ({schema.neighbours}).",
        ]
        settings: AnyTree
        if self.tree == "binary-search":
            settings, forecast, lines = self._plan_search(common, schema, cost.epsilon, share)
        elif self.tree == "dyadic":
            settings, forecast, lines = self._plan_cells(common, cost.epsilon)
        else:
            looks = look_share if self._looks(shape, rows, cost.epsilon) else Fraction(0)
            settings, forecast, lines = self._plan_adaptive(
                common, schema, cost.epsilon, share, looks
            )
        sentences += lines
        if rows is not None:
            sentences += theory.interval_sentences(
                rows=rows,
                epsilon=float(cost.epsilon),
                bits=shape.bits,
                neighbours=schema.neighbours,
                rows_per_unit=schema.unit.max_rows,
            )
        without = " or ".join(f"'{name}'" for name in names if schema.column(name).missing)
        if without:
            together = ", all together" if len(names) > 1 else ""
            sentences.append(f"Rows without a value of {without} are counted{together}.")
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters={
                "columns": list(names),
                "tree": self.tree,
                "structure_share": str(share),
                "look_share": str(look_share),
                "max_cells": self.max_cells,
                "accuracy": str(exact(self.accuracy, "accuracy")),
            },
            settings=settings,
            forecast=forecast,
            sentences=tuple(sentences),
            warnings=(),
        )

    def statistic(self, plan: Plan[AnyTree]) -> GridPoints:
        return GridPoints(plan.settings.shape, absent=plan.settings.missing == "own")

    def run(self, noise: Noise, numbers: SparseCounts, plan: Plan[AnyTree]) -> Output:
        return noisy_tree(noise, numbers, plan)

    def _check(self, schema: Schema, cost: Cost) -> None:
        require_columns(schema, "An interval tree needs")
        require_pure(cost, "An interval tree costs")
        if self.tree not in get_args(Tree):
            raise PlanError(f"tree = '{self.tree}' is not known. Use {', '.join(get_args(Tree))}.")

    def _names(self, schema: Schema) -> tuple[str, ...]:
        numeric = (name for name, column in schema.columns.items() if column.numeric)
        names = tuple(numeric if self.columns is None else self.columns)
        if not names:
            raise PlanError(
                "Name at least one column of numbers, dates or times in columns = [...]."
            )
        if len(set(names)) != len(names):
            raise PlanError("A column is listed twice in columns.")
        if len(names) > MAX_COLUMNS:
            raise PlanError(
                f"{len(names)} columns; boxes are answered for at most {MAX_COLUMNS}. List fewer "
                f"in columns."
            )
        return names

    def _looks(self, shape: TreeShape, rows: int | None, epsilon: Fraction) -> bool:
        enough = CROWDED if len(shape.grids) == 1 else CROWDED_BOXES
        return (1 << shape.total_bits) <= self.max_cells and (
            rows is None
            or rows * epsilon >= enough * math.prod(grid.positions for grid in shape.grids)
        )

    def _plan_cells(
        self, common: dict[str, Any], epsilon: Fraction
    ) -> tuple[EqualCells, dict[str, Any], list[str]]:
        depth = cell_depth(common["shape"], self.max_cells)
        boxes = equal_cells(common["shape"], depth)
        settings = EqualCells(**common, depth=depth, count_epsilon=epsilon, boxes=len(boxes))
        hierarchy, spread = best_hierarchy(settings.shape, boxes, fixed=settings.total is not None)
        error = spread * math.sqrt(laplace_cumulants(settings.sensitivity / epsilon)[0])
        return (
            settings,
            {"expected_error": error},
            [
                f"{len(boxes):,} equal cells, counted in {hierarchy.height} level(s) of groups of "
                f"{hierarchy.fanout}.",
                f"A range that ends between cells has a standard error of about {error:,.3g} rows.",
            ],
        )

    def _plan_adaptive(
        self,
        common: dict[str, Any],
        schema: Schema,
        epsilon: Fraction,
        share: Fraction,
        looks: Fraction,
    ) -> tuple[AdaptiveBoxes, dict[str, Any], list[str]]:
        shape, rows = common["shape"], common["rows"]
        looking = epsilon * looks
        structure = (epsilon - looking) * share
        calibration = calibration_of(schema, shape, structure)
        if widest_sum(calibration, shape.depth) > LARGEST_SUM:
            raise PlanError(
                f"Epsilon {float(structure):.3g} is too little for cutting: the noise of a "
                "decision would leave 64 bits. Give a larger structure_share, or use "
                "tree = 'dyadic'."
            )
        counts = epsilon - looking - structure
        settings = AdaptiveBoxes(
            **common,
            look_epsilon=looking,
            structure_epsilon=structure,
            count_epsilon=counts,
            split_scale=calibration.scale,
            decay=calibration.decay,
        )
        forecast: dict[str, Any] = {}
        lines = [
            f"A box is split while it holds more than about {calibration.decay} points a level "
            f"(noise of scale {float(calibration.scale):.4g} on each decision).",
        ]
        if looking:
            rest = (
                "the rest goes to counts alone"
                if len(shape.grids) == 1
                else "they are counted with what is left"
            )
            lines.append(
                f"Epsilon {float(looking):.4g} is spent on a look whether all "
                f"{settings.positions:,} positions are better "
                f"counted one by one; if so, {rest}."
            )
        if rows is not None:
            # boxes at depth k hold about k * decay points, so their number is at most about this
            boxes_guess = int(
                max(
                    1,
                    min(
                        settings.positions,
                        2 * rows / (calibration.decay * shape.depth / 2),
                        MAX_CELLS,
                    ),
                )
            )
            error = typical_error(settings, boxes_guess)
            forecast = {"expected_boxes": boxes_guess, "expected_error": error}
            lines.append(
                f"With at most about {boxes_guess:,} boxes, a range has a standard error of about "
                f"{error:,.3g} rows."
            )
        return settings, forecast, lines

    def _plan_search(
        self, common: dict[str, Any], schema: Schema, epsilon: Fraction, share: Fraction
    ) -> tuple[SearchedBoxes, dict[str, Any], list[str]]:
        shape, rows = common["shape"], common["rows"]
        if rows is None:
            raise PlanError(
                f"binary-search cuts by shares of the rows, and schema '{schema.name}' declares "
                f"no size. "
                "Add size = ... (replace-one) or nominal_size = ... to [dataset], or use tree = "
                "'privtree'."
            )
        accuracy = exact(self.accuracy, "accuracy")
        # enough for every level to split all boxes that may be split while no answer is far off
        # (theorem 7)
        splits = max(1, Fraction(40) // (9 * accuracy))
        queries = shape.fanout * shape.depth * splits
        structure = epsilon * share
        scale = Fraction(queries * schema.unit.max_rows) / structure
        settings = SearchedBoxes(
            **common,
            queries=queries,
            query_scale=scale,
            split_above=math.floor(3 * accuracy * rows / 10),
            structure_epsilon=structure,
            count_epsilon=epsilon - structure,
        )
        needed = theory.search_sample_size(
            float(accuracy),
            0.05,
            float(structure),
            queries=queries,
            rows_per_unit=schema.unit.max_rows,
        )
        boxes_guess = min(
            settings.positions, 1 + (shape.fanout - 1) * shape.depth * splits, MAX_CELLS
        )
        error = typical_error(settings, boxes_guess)
        crowded = 3 * float(accuracy) / 8
        lines = [
            f"At most {queries:,} counts decide where to cut, each with noise of scale "
            f"{float(scale):,.4g}.",
            f"From n = {needed:,} on no box of two or more positions holds more than "
            f"{crowded:.3g} n rows (95%, theorem 7)"
            + (
                f": an interval loses at most {2 * crowded:.3g} n to the two that it cuts."
                if len(shape.grids) == 1
                else "."
            )
            + f" Noise adds a standard error of about {error:,.3g} rows to a range, with "
            f"{boxes_guess:,} boxes.",
        ]
        if len(shape.grids) > 1:
            lines.append(
                "A range of several columns may cut many boxes: nothing is promised for what it "
                "loses to them."
            )
        return (
            settings,
            {"needed_rows": needed, "expected_boxes": boxes_guess, "expected_error": error},
            lines,
        )


def _chosen_tree(
    noise: Noise,
    numbers: SparseCounts,
    counts: BoxCounts,
    settings: AdaptiveBoxes,
    schema: Schema,
) -> tuple[Tree, Boxes, Fraction]:
    """PrivTree's boxes, or all positions where a look says so; and the epsilon that is left for
    counts."""
    shape, sensitivity, fixed = settings.shape, settings.sensitivity, settings.total is not None
    epsilon, looking, structure = (
        settings.count_epsilon,
        settings.look_epsilon,
        settings.structure_epsilon,
    )
    calibration = calibration_of(schema, shape, structure)
    single = len(shape.grids) == 1
    if looking and single:
        pilot = Pilot(
            shape.depth,
            shape.grids[0].positions,
            calibration,
            tree_scale=sensitivity / epsilon,
            cell_scale=sensitivity / (epsilon + structure),
            fixed=fixed,
        )
        if cells_serve_better(noise, numbers, pilot, looking):
            # nothing was spent on where to cut, so that share goes to the counts
            return "dyadic", equal_cells(shape, shape.depth), epsilon + structure
    boxes = priv_tree(noise, counts, shape, calibration)
    if looking and not single:
        cells = equal_cells(shape, shape.depth)
        spreads = (
            best_hierarchy(shape, boxes, fixed=fixed)[1],
            best_hierarchy(shape, cells, fixed=fixed)[1],
        )
        bias = BoxBias.of(shape, boxes, sensitivity)
        if cells_fit_better(
            noise, numbers, bias, looking, spreads=spreads, scale=sensitivity / epsilon
        ):
            return "dyadic", cells, epsilon
    return "privtree", boxes, epsilon


def _content(
    settings: TreeSettings,
    tree: str,
    boxes: Boxes,
    measured: Any,
    hierarchy: Hierarchy,
    scale: Fraction,
) -> Output:
    return Output(
        facts={
            "grid": settings.shape.to_json(),
            "total": settings.total,
            "tree": tree,
            "fanout": hierarchy.fanout,
            "height": hierarchy.height,
            "scale": str(scale),
            # left out where it says nothing, as in releases made before it was known
            **({} if settings.missing is None else {"missing": settings.missing}),
        },
        tables={
            "boxes": {"depth": boxes.depth.astype(np.uint8), "prefix": boxes.prefix},
            "counts": {"count": measured},
        },
    )


def best_hierarchy(shape: TreeShape, boxes: Boxes, *, fixed: bool) -> tuple[Hierarchy, float]:
    """The groups that answer typical ranges best, chosen from the boxes alone."""
    if len(shape.grids) == 1:
        starts, ends = shape.corners(boxes)
        return best_for_ranges(np.append(starts[0], ends[0][-1]), fixed=fixed)
    points = spread_points(SAMPLE_BOXES, 2 * len(shape.grids)).reshape(
        SAMPLE_BOXES, len(shape.grids), 2
    )
    limits = np.array([float(grid.positions) for grid in shape.grids])
    points = np.sort(points, axis=2) * limits[None, :, None]
    return best_for_weights(shape.shares(boxes, points[:, :, 0], points[:, :, 1]), fixed=fixed)


def typical_error(settings: AnyTree, boxes: int) -> float:
    """The standard error of typical ranges over so many boxes, from noise."""
    spread = typical_spread(settings.shape, boxes, fixed=settings.total is not None)
    return spread * math.sqrt(laplace_cumulants(settings.sensitivity / settings.count_epsilon)[0])


def typical_spread(shape: TreeShape, boxes: int, *, fixed: bool) -> float:
    """The standard error of typical ranges over so many boxes, in units of that of one count."""
    if len(shape.grids) == 1:
        return best_for_ranges(np.arange(boxes + 1, dtype=np.int64), fixed=fixed)[1]
    depth = 1
    while (
        depth < shape.depth
        and (1 << shape.used_bits[depth]) < boxes
        and (1 << shape.used_bits[depth + 1]) <= MAX_CELLS
    ):
        depth += 1
    return best_hierarchy(shape, equal_cells(shape, depth), fixed=fixed)[1]


def cell_depth(shape: TreeShape, most: int) -> int:
    """The deepest level with at most `most` boxes."""
    depth = 0
    while depth < shape.depth and (1 << shape.used_bits[depth + 1]) <= most:
        depth += 1
    if depth == 0:
        raise PlanError(
            f"One cut of the grid makes {1 << shape.used_bits[1]} cells, more than max_cells = "
            f"{most}."
        )
    return depth


def calibration_of(schema: Schema, shape: TreeShape, epsilon: Fraction) -> Calibration:
    """PrivTree's noise for a schema, when the tree may cost `epsilon`."""
    relation = schema.relation
    return Calibration.of(
        epsilon, fanout=shape.fanout, rows=relation.max_rows, replace=relation.replaces
    )
