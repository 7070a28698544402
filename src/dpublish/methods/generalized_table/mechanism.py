"""A table generalised along taxonomies: the partitioning of set-valued data carried over to
columns.

In: rows as codes of a declared domain (private). Out: disjoint regions that cover the domain, each
a group of values in every column, with noisy counts. Which column a region is split by is chosen
privately, by how well it predicts the target.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.declare.taxonomy import Taxonomy, context_free, written
from dpublish.errors import PlanError
from dpublish.methods.adaptive_bins import refuse_one_cell
from dpublish.methods.base import CodedRows, Mechanism, Output
from dpublish.methods.draws import laplace_deviation
from dpublish.methods.field_types import Interval, require_columns, require_pure
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, Settings, hidden

Number = Fraction | float | int | str
LEAF_SHARE = Fraction(1, 2)
MAX_CODES = 1 << 22
MAX_SPLITS = 8
WIDE, TOO_WIDE = 2, 3
"""Columns for each split that a row is expected to pass, above which a plan warns, and refuses
where the columns were not named."""
FEW_CELLS = 500
"""Up to so many a histogram is nearer than joined histograms."""
POOR = 10
"""Rows for each column, in units of the noise of a count at all of epsilon, below which joined
histograms are no nearer either."""


def noisy_regions(
    noise: Noise, numbers: Sequence[NDArray[Any]], plan: Plan[RegionSettings]
) -> Output:
    """The mechanism: split while noisy counts are large, then count every region with all that is
    left of its budget."""
    settings, trees, domain = plan.settings, plan.settings.trees, plan.settings.domain
    per_unit = settings.sensitivity
    codes = [_positions(tree)[column] for tree, column in zip(trees, numbers, strict=True)]
    target = domain.names.index(settings.target) if settings.target is not None else None
    # half of a step chooses the column, half counts the parts; without a target there is nothing to
    # choose
    choice = settings.step_epsilon / 2 if target is not None else Fraction(0)
    count_epsilon = settings.step_epsilon - choice
    threshold = int(settings.split_at * per_unit / count_epsilon)
    start = np.arange(codes[0].size if codes else 0, dtype=np.int64)
    waiting = [_Region(tuple(~0 for _ in trees), start, 0)]
    done: list[_Region] = []
    while waiting:
        region = waiting.pop(0)
        open_columns = [
            place for place, node in enumerate(region.nodes) if node < 0 and place != target
        ]
        if region.depth == settings.steps or not open_columns:
            done.append(region)
            continue
        place = open_columns[region.depth % len(open_columns)]
        if target is not None:
            # even a single open column is chosen, so that every split costs the same whatever is
            # left to split
            place = _choose_column(noise, codes, region, open_columns, target, choice, settings)
        parts, which = _split(codes, region, trees, place)
        sizes = np.bincount(which, minlength=len(parts)).astype(np.int64)
        noisy = noise.laplace(sizes, sensitivity=per_unit, epsilon=count_epsilon, label="parts")
        for number, nodes in enumerate(parts):
            child = _Region(nodes, region.rows[which == number], region.depth + 1)
            (waiting if noisy[number] > threshold else done).append(child)
    if target is not None:
        done = [part for region in done for part in _by_class(codes, region, trees[target], target)]
    return _counted(noise, done, plan)


@dataclass(frozen=True, kw_only=True)
class RegionSettings(Settings):
    """What the splitting works with; `trees` has one taxonomy per column."""

    domain: Domain
    trees: tuple[Taxonomy, ...] = hidden()
    score: SplitScore = hidden()
    split_at: Fraction = hidden()
    sensitivity: Fraction
    steps: int
    step_epsilon: Fraction
    target: str | None


@dataclass
class _Region:
    """`nodes` holds one node per column (a leaf as its position, a group as ~number); `rows` are
    private."""

    nodes: tuple[int, ...]
    rows: NDArray[np.int64]
    depth: int


@dataclass(frozen=True, kw_only=True)
class GeneralizedTable(Mechanism):
    """Regions of a table with noisy counts, found by splitting column by column along public
    taxonomies.

    Input: rows as codes. Neighbours: replace-one or add-remove-one, of a unit with at most c rows.
    Output: disjoint regions that cover the domain, with noisy counts; their shape is decided by
    noisy answers alone.
    Privacy: epsilon-DP (theorem 1 of generalized_table.proof.md): every row meets one chain of
    choices and counts.
    Relies on: `Noise.choose` and `Noise.laplace` being exact; rows per unit bounded by c before the
    run.
    Shows / hides: fine regions where rows are many, coarse ones where they are few; hides which
    fine cells are occupied.
    Accuracy: a region's count has noise of scale between s / epsilon and 2s / epsilon, s = c or 2c;
    inside, rows count as even.

    Parameters
    ----------
    columns : names of the columns; all declared columns when left out.
    target : the column that splits should predict; the schema's target when left out. Without one,
        columns take turns.
    score : "max" (most frequent class), "gini" or "information-gain".
    fanout : how many neighbouring values or groups a context-free taxonomy joins a level.
    taxonomies : your own, a column's name to nested groups of its labels, as Python or JSON.
    splits : how many splits a row may pass at most; when left out, as many as rows are expected to
        pass, up to 8: a split that no region is large enough for would cost and show nothing.
    split_at : a region is split on while its noisy count is above this many noise scales.
    bins : number of bins for numeric columns that declare none.

    Examples
    --------
    >>> GeneralizedTable(columns=["age", "city"], target="ill").score
    'max'
    """

    columns: Sequence[str] | None = None
    target: str | None = None
    score: SplitScore = "max"
    fanout: int = 4
    taxonomies: str | Mapping[str, object] | None = None
    splits: Annotated[int | None, Interval(1, 1000)] = None
    split_at: Annotated[Number, Interval(above=0)] = 8
    bins: Annotated[int | None, Interval(1)] = None

    def plan(self, schema: Schema, cost: Cost) -> Plan[RegionSettings]:
        require_columns(schema, "A generalised table needs")
        require_pure(cost, "A generalised table costs")
        names = list(self.columns) if self.columns is not None else list(schema.columns)
        target = self.target if self.target is not None else schema.target
        if len(set(names)) != len(names) or not names:
            raise PlanError("Name at least one column, and none twice.")
        if target is not None and target not in names:
            names.append(target)
        if self.score not in ("max", "gini", "information-gain"):
            raise PlanError(f"score must be max, gini or information-gain, not '{self.score}'.")
        rows = schema.rows_or_nominal
        domain = schema.domain(
            names, rows=rows, bins=self.bins if rows is None or self.bins else None
        )
        if self.bins is None:
            refuse_one_cell(schema, domain, rows, "there would be one region, which says nothing")
        trees = self.trees(domain)
        scale_of = schema.relation.l1
        own = [tree for tree, name in zip(trees, names, strict=True) if name != target]
        expected = self._expected_splits(own, rows, scale_of / cost.epsilon, target is not None)
        height = sum(int(tree.height[0]) for tree in own)
        steps = max(1, min(self.splits or expected, height))
        if self.columns is None and rows is not None and len(own) > TOO_WIDE * expected:
            raise PlanError(
                f"With {rows:,} rows at {cost.describe()} a region is expected to be split about "
                f"{expected} time{'s' if expected > 1 else ''}, so that of {len(own)} columns "
                "hardly any would be told apart. Name the few that matter (columns = ...)"
                + (
                    ": no release of all of them would say much."
                    if rows * cost.epsilon < POOR * scale_of * len(own)
                    else ", or use joined-histograms, which publish all columns."
                )
            )
        finest = scale_of / (cost.epsilon * LEAF_SHARE)
        settings = RegionSettings(
            domain=domain,
            trees=tuple(trees),
            score=self.score,
            split_at=exact(self.split_at, "split_at"),
            sensitivity=scale_of,
            steps=steps,
            step_epsilon=cost.epsilon * (1 - LEAF_SHARE) / steps,
            target=target,
        )
        chooser = (
            f"The column to split by is chosen by {self.score} on '{target}'"
            if target
            else "Columns are split in turn"
        )
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters={
                "columns": names,
                "target": target,
                "score": self.score,
                "fanout": self.fanout,
                "taxonomies": self.taxonomies
                if isinstance(self.taxonomies, str) or self.taxonomies is None
                else dict(self.taxonomies),
                "splits": steps if self.splits is None else self.splits,
                "split_at": str(settings.split_at),
                "bins": self.bins,
            },
            settings=settings,
            forecast={
                "finest_scale": finest,
                "coarsest_scale": scale_of / cost.epsilon,
                "count_standard_deviation": laplace_deviation(finest),
            },
            sentences=(
                f"Regions over {' x '.join(names)}: {domain.size:,} cells, at most {steps} splits "
                f"deep.",
                f"Cost {cost.describe()}, protecting {schema.unit.describe()} "
                f"({schema.neighbours}).",
                f"{chooser}; counts have noise of scale up to {float(finest):.4g}.",
            ),
            warnings=self._warnings(domain, rows, len(own), expected, scale_of / cost.epsilon),
        )

    def statistic(self, plan: Plan[RegionSettings]) -> CodedRows:
        return CodedRows(plan.settings.domain)

    def run(
        self, noise: Noise, numbers: Sequence[NDArray[Any]], plan: Plan[RegionSettings]
    ) -> Output:
        return noisy_regions(noise, numbers, plan)

    def _warnings(
        self, domain: Domain, rows: int | None, columns: int, expected: int, scale: Fraction
    ) -> tuple[str, ...]:
        """What serves better, by public facts. Regions spread rows evenly over what they do not
        tell apart, so without groups that somebody meant counts of conditions are nearer
        elsewhere: by `python -m benchmarks.defaults.regions`."""
        if rows is not None and domain.size > FEW_CELLS and rows < POOR * scale * columns:
            return (
                f"{rows:,} rows are so few for {columns} columns at this epsilon that no release "
                "of all of them says much. Name the few that matter (columns = ...).",
            )
        if self.taxonomies is None:
            other = (
                f"a histogram of these columns ({domain.size:,} cells)"
                if domain.size <= FEW_CELLS
                else "joined-histograms"
            )
            return (
                "Regions spread rows evenly over the values that they do not tell apart. Counts of "
                f"conditions are likely to be nearer from {other}; take regions for taxonomies of "
                "your own (taxonomies = ...).",
            )
        if rows is None or columns <= WIDE * expected:
            return ()
        return (
            f"A region of {rows:,} rows is expected to be split about {expected} times, and "
            f"there are {columns} columns: most of them will not be told apart in most "
            "regions. joined-histograms publish all columns.",
        )

    def _expected_splits(
        self, trees: Sequence[Taxonomy], rows: int | None, scale: Fraction, choosing: bool
    ) -> int:
        """How many splits a region of average size passes, when epsilon is divided among so many:
        public facts alone. `scale` is that of a count which costs all of epsilon."""
        if rows is None:
            return MAX_SPLITS
        parts = [len(tree.children(0)) for tree in trees if tree.height[0] > 0] or [2]
        fanout = Fraction(sum(parts), len(parts))
        share = (1 - LEAF_SHARE) / (2 if choosing else 1)
        least = exact(self.split_at, "split_at") * scale / share
        return max(
            (
                steps
                for steps in range(1, MAX_SPLITS + 1)
                if rows > least * steps * fanout ** (steps - 1)
            ),
            default=1,
        )

    def trees(self, domain: Domain) -> list[Taxonomy]:
        """One taxonomy per column, over its codes."""
        given: object = self.taxonomies or {}
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except json.JSONDecodeError as error:
                raise PlanError(f"taxonomies is not valid JSON: {error}.") from None
        if not isinstance(given, Mapping) or set(given) - set(domain.names):
            raise PlanError(
                f"taxonomies must name columns of the release: {', '.join(domain.names)}."
            )
        for axis in domain.axes:
            if axis.cardinality > MAX_CODES:
                raise PlanError(
                    f"Column '{axis.name}' has {axis.cardinality:,} values; a tree over them is "
                    f"kept, so at most {MAX_CODES:,} "
                    "fit. Declare bins for it."
                )
        return [
            written(given[axis.name], axis.labels)
            if axis.name in given
            else context_free(axis.cardinality, self.fanout)
            for axis in domain.axes
        ]


def _choose_column(
    noise: Noise,
    codes: Sequence[NDArray[Any]],
    region: _Region,
    candidates: Sequence[int],
    target: int,
    epsilon: Fraction,
    settings: RegionSettings,
) -> int:
    """The column whose parts tell the classes of the target apart, chosen privately."""
    scores = [
        split_score(
            settings.score, _table(codes, region, settings.trees, place, target, settings.domain)
        )
        for place in candidates
    ]
    per_unit, classes = settings.sensitivity, settings.domain.axes[target].cardinality
    return candidates[
        noise.choose(
            scores,
            sensitivity=per_unit * sensitivity(settings.score, classes),
            epsilon=epsilon,
            monotone=settings.score == "max" and per_unit == 1,
            label="column",
        )
    ]


def _by_class(
    codes: Sequence[NDArray[Any]], region: _Region, tree: Taxonomy, target: int
) -> list[_Region]:
    """A finished region by every value of the target, which splits never touch: disjoint parts,
    counted side by side."""
    classes = codes[target][region.rows]
    return [
        _Region(
            (*region.nodes[:target], value, *region.nodes[target + 1 :]),
            region.rows[classes == value],
            region.depth,
        )
        for value in range(tree.items)
    ]


def _counted(noise: Noise, regions: list[_Region], plan: Plan[RegionSettings]) -> Output:
    trees, per_unit = plan.settings.trees, plan.settings.sensitivity
    # what a region of each depth has left
    left = [
        plan.cost.epsilon - depth * plan.settings.step_epsilon
        for depth in range(plan.settings.steps + 1)
    ]
    regions = sorted(regions, key=lambda region: (region.depth, region.nodes))
    counts = []
    for depth, epsilon in enumerate(left):
        alike = [region.rows.size for region in regions if region.depth == depth]
        if alike:
            sizes = np.array(alike, dtype=np.int64)
            counts.append(
                noise.laplace(sizes, sensitivity=per_unit, epsilon=epsilon, label="region")
            )
    bounds: dict[str, NDArray[Any]] = {}
    for place in range(len(trees)):
        edges = [_stretch(trees[place], region.nodes[place]) for region in regions]
        bounds[f"low_{place}"] = np.array([low for low, _ in edges], dtype=np.int32)
        bounds[f"high_{place}"] = np.array([high for _, high in edges], dtype=np.int32)
    return Output(
        facts={
            "scales": [str(per_unit / epsilon) for epsilon in left],
            "target": plan.settings.target,
        },
        tables={
            "regions": {
                **bounds,
                "count": np.concatenate(counts) if counts else np.empty(0, dtype=np.int64),
                "depth": np.array([region.depth for region in regions], dtype=np.int32),
            },
            **{f"order_{place}": {"code": tree.order} for place, tree in enumerate(trees)},
        },
    )


def _positions(tree: Taxonomy) -> NDArray[np.int32]:
    """Code to position in the taxonomy."""
    position = np.empty(tree.items, dtype=np.int32)
    position[tree.order] = np.arange(tree.items, dtype=np.int32)
    return position


def _stretch(tree: Taxonomy, node: int) -> tuple[int, int]:
    return (node, node + 1) if node >= 0 else (int(tree.start[~node]), int(tree.stop[~node]))


def _split(
    codes: Sequence[NDArray[Any]], region: _Region, trees: Sequence[Taxonomy], place: int
) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """The parts of a region by one column, all of them, and which part each of its rows is in."""
    tree, node = trees[place], ~region.nodes[place]
    parts = [
        (*region.nodes[:place], child, *region.nodes[place + 1 :]) for child in tree.children(node)
    ]
    return parts, tree.ordinal[tree.depth[node]][codes[place][region.rows]].astype(np.int64)


def _table(
    codes: Sequence[NDArray[Any]],
    region: _Region,
    trees: Sequence[Taxonomy],
    place: int,
    target: int,
    domain: Domain,
) -> NDArray[np.int64]:
    """Counts of a region's rows by part and class."""
    parts, which = _split(codes, region, trees, place)
    classes = domain.axes[target].cardinality
    return (
        np.bincount(which * classes + codes[target][region.rows], minlength=len(parts) * classes)
        .reshape(len(parts), classes)
        .astype(np.int64)
    )


# Scores of splitting a set of records by a column: how well its parts tell the target's classes
# apart.
#
# Each score is a function of the table of counts, part by class. What one record can change is
# proved in generalized_table.proof.md; all scores are exact numbers, as the choice needs them.

SplitScore = Literal["max", "gini", "information-gain"]

GRID_BITS = 20
GRID = Fraction(1, 1 << GRID_BITS)
"""Information gain is irrational: each x log2 x in it is rounded down to this grid, which is added
to its sensitivity."""

CAP = 1 << 20
"""Class counts are capped here for the information gain, whose sensitivity grows with their
size."""


def sensitivity(score: SplitScore, classes: int) -> Fraction:
    """What adding or removing one record can change."""
    if score in ("max", "gini"):
        return Fraction(1)
    # log2(m + 1) + 1 / ln 2 for at most m = classes * CAP records a part, rounded up, and the grid
    # twice
    bound = math.log2(classes * CAP + 1) + 1 / math.log(2)
    return Fraction(math.ceil(bound * 1024) + 1, 1024) + 2 * GRID


def split_score(score: SplitScore, counts: NDArray[np.int64]) -> Fraction:
    """The score of one split; `counts[part, label]`."""
    if score == "max":
        return Fraction(int(counts.max(axis=1).sum()))
    if score == "gini":
        squares = (
            Fraction(sum(count * count for count in row), sum(row))
            for row in counts.tolist()
            if any(row)
        )
        return sum(squares, Fraction(0))
    capped = np.minimum(counts, CAP)
    return Fraction(_entropy_steps(capped) - _entropy_steps(capped.sum(axis=1)), 1 << GRID_BITS)


def _entropy_steps(counts: NDArray[np.int64]) -> int:
    """The sum of x log2 x over all counts, each in whole steps of the grid, which add up
    exactly."""
    values, times = np.unique(counts, return_counts=True)
    return sum(
        entropy_step(value) * number
        for value, number in zip(values.tolist(), times.tolist(), strict=True)
    )


@lru_cache(maxsize=1 << 16)
def entropy_step(x: int) -> int:
    """floor(2^GRID_BITS x log2 x) for a whole number x >= 0, exactly.

    At a power of two this is a whole number. Elsewhere log2 x is irrational, so balls of growing
    precision end.
    """
    if x & (x - 1) == 0:
        return x * max(0, x.bit_length() - 1) << GRID_BITS
    precision = 128
    while True:
        with ctx.workprec(precision):
            floor = (arb(x << GRID_BITS) * arb(x).log_base(2)).floor().unique_fmpz()
        if floor is not None:
            return int(floor)
        precision *= 2
