"""Bins of numeric columns that declare none: found from the rows, with noise, where the rows are.
One room for all methods that do so; the proof stands beside it.

In: the exact counts of a column over the fine cells of `fine_edges` (private). Out: which of these
cells each bin ends at. Three noisy histograms of the column, each over a partition that the one
before it fixed: a part that clearly holds more rows than a bin should is cut into finer parts, down
to single values where rows heap. The bins follow from all three together: each holds about as many
rows as the others, as far as the noise lets one tell. Tuned with
benchmarks/joined_tuning/quantiles.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.declare.domain import Axis, Domain, fine_edges, resolve_axis
from dpublish.declare.relation import Relation
from dpublish.declare.rules import Fact, with_cuts
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.draws import noisy_counts
from dpublish.models.junction_tree.consistency import GroupSums, least_squares, onto_simplex
from dpublish.noise.base import Noise
from dpublish.privacy.budget_split import BudgetSplit

STAGES = 3
PARTS = 32
"""Into how many a part is cut: three times make more than all cells that `fine_edges` gives."""
SIGNAL = 3.0
"""A part is cut when its noisy count is above so many standard deviations of the noise."""
HEAP_SIGNAL, HEAP_DENSITY = 2.0, 3.0
"""A part in which rows seem to heap holds so many standard deviations of the noise, and is so many
times as dense as both parts beside it."""


SHARE = Fraction(1, 5)
"""Of epsilon, for finding the bins of a histogram, where the rows are enough: by
`python -m benchmarks.defaults bins`, as are the two numbers below."""
ROWS_PER_BIN = 1.0
"""A bin is to hold so many standard deviations of the noise of one stage."""
FEWEST = 4
"""With fewer bins to be found, even ones serve as well."""
BIN_DEVIATIONS = 7.5
"""A bin is to hold so many standard deviations of the noise that its rows are counted with
afterwards. The noise of many small bins adds up in every rank: chosen on columns of drawn shapes
(benchmarks/joined_tuning/quantiles.py --drawn --set methods.adaptive_bins.BIN_DEVIATIONS=...)."""
FEWEST_IN_NOISE = 8
"""Fewer than these are not made of a column, however much noise there is."""


@dataclass(frozen=True)
class BinSearch:
    """Which columns of a histogram have their bins found, for which part of epsilon together, over
    which fine cells, and how many bins each at most. `rows` is the public number that stands for
    the number of rows."""

    columns: tuple[str, ...]
    epsilon: Fraction
    bins: int
    fine: Domain
    rows: int | None

    def describe(self) -> str:
        return (
            f"The bins of {', '.join(self.columns)} are found from the rows, with noise, for "
            f"epsilon {float(self.epsilon):.4g}: up to {self.bins} each, narrow where rows are."
        )

    def found(
        self, noise: Noise, relation: Relation, count: Callable[[int], Ints]
    ) -> tuple[Domain, dict[int, Ints]]:
        """The mechanism: the domain with bins in place of fine cells, and for each of these columns
        the new code of every fine one. `count` gives the exact counts of a column's fine codes."""
        budget = BudgetSplit("laplace", self.epsilon, relation)
        axes, codes = list(self.fine.axes), {}
        for place, axis in enumerate(self.fine.axes):
            if axis.name not in self.columns:
                continue
            ends = choose_bins(
                noise,
                budget,
                count(place)[: axis.base],
                share=Fraction(1, len(self.columns)),
                rows=self.rows,
                bins=self.bins,
                most=self.bins,
                label=f"bins of column {place + 1}",
            )
            axes[place], codes[place] = adapted(axis, ends), regrouping(axis, ends)
        return Domain(tuple(axes)), codes


def left_one_bin(schema: Schema, domain: Domain) -> list[str]:
    """Numeric columns of one bin that nobody declared so."""
    columns = [schema.column(axis.name) for axis in domain.axes if axis.numeric and axis.base == 1]
    return [one.name for one in columns if one.bins != 1 and one.edges is None]


def refuse_one_cell(schema: Schema, domain: Domain, rows: int | None, what: str) -> None:
    """Refuse a single cell that Lei's rule leaves, so that `what` follows."""
    if domain.size == 1 and left_one_bin(schema, domain):
        raise PlanError(
            f"By Lei's rule the {len(domain.axes)} columns get one bin each for {rows:,} rows, so "
            f"that {what} but the number of rows. Choose fewer columns, give bins = ... or declare "
            "bins; joined-histograms publish many columns."
        )


def plan_bins(
    schema: Schema,
    domain: Domain,
    *,
    epsilon: Fraction,
    share: Fraction | None,
    rows: int | None,
    asked: bool,
    target: str | None = None,
) -> tuple[Domain, BinSearch | None]:
    """The domain with as many bins as can be found, and how they are; None where bins are even:
    where no column needs any, where `share` is 0, or where it is left out and the rows are too few
    for this epsilon. The width of an axis of the domain says how many bins are wanted; fewer are
    found where noise asks for it, unless the number was `asked` for."""
    wanted = {
        axis.name: axis.base
        for axis in domain.axes
        if axis.name != target and finds_bins(schema, axis)
    }
    if not wanted or share == 0 or (share is None and rows is None):
        return domain, None
    part = epsilon * (SHARE if share is None else share)
    bins = most = max(wanted.values())
    if rows is not None:
        budget = BudgetSplit("laplace", part, schema.relation)
        deviation = budget.deviation(Fraction(1, STAGES * len(wanted)))
        bins = min(most, math.floor(rows / (ROWS_PER_BIN * deviation)))
    if share is None and bins < (most if asked else min(FEWEST, most)):
        return domain, None
    bins = most if asked else max(2, bins)
    axes = [
        resolve_axis(schema.column(axis.name), schema_name=schema.name, default_bins=bins)
        if axis.name in wanted
        else axis
        for axis in domain.axes
    ]
    fine = fine_domain(schema, domain, tuple(wanted))
    return Domain(tuple(axes)), BinSearch(tuple(wanted), part, bins, fine, rows)


def bins_in_noise(bins: int, rows: float, deviation: float) -> int:
    """How many of `bins` to look for where each is counted with noise of this deviation: from
    public numbers."""
    return min(bins, max(FEWEST_IN_NOISE, round(rows / (BIN_DEVIATIONS * deviation))))


def choose_bins(
    noise: Noise,
    budget: BudgetSplit,
    counts: Ints,
    *,
    share: Fraction,
    rows: int | None,
    bins: int,
    label: str,
    fixed: Sequence[int] = (),
    most: int | None = None,
    round_cells: Ints | None = None,
) -> Ints:
    """Where bins end, counted in cells: from 0 to the number of cells. `rows` is the public number
    of rows, where there is one; at the `fixed` places bins end in any case. `bins` of the same
    number of rows are aimed at, and there are no more than `most`, besides the fixed places and
    this: where rows seem to heap, the roundest number has a bin of its own, if `round_cells` says,
    publicly, how long the only number of each cell is, and 0 for cells of more than one."""
    ends, known = _cut(0, len(counts)), []
    part = share / STAGES
    deviation, variance = budget.deviation(part), budget.variance(part)
    for stage in range(1, STAGES + 1):
        counted = np.add.reduceat(counts, ends[:-1])
        noisy = noisy_counts(noise, budget, counted, share=part, label=f"{label}, stage {stage}")
        known.append((ends, noisy.astype(np.float64)[:, None]))
        mass = _consistent(known, variance)
        whole = float(rows if rows is not None else max(1.0, mass.sum()))
        if stage == STAGES:
            break
        full = mass > max(SIGNAL * deviation, whole / bins)
        parts = [
            _cut(int(low), int(high))[:-1] if one else np.array([low])
            for low, high, one in zip(ends[:-1], ends[1:], full, strict=True)
        ]
        ends = np.append(np.concatenate(parts), len(counts))
    positive = onto_simplex(mass[:, None], np.array([whole]))[:, 0]
    wanted = whole / bins
    alone = np.empty(0, dtype=np.int64)
    if round_cells is not None:
        least = max(wanted, HEAP_SIGNAL * deviation)
        alone = _heaps(ends, positive, round_cells, least)
    found = _even(ends, positive, wanted)
    while most is not None and len(found) - 1 > most:  # with all rows wanted there is one bin
        wanted *= 1.125
        found = _even(ends, positive, wanted)
    return np.unique(np.concatenate([found, alone, np.array(fixed, dtype=np.int64)]))


def _consistent(known: Sequence[tuple[Ints, Floats]], variance: float) -> Floats:
    """The rows of the last partition's parts, from all histograms so far: each partition is finer
    than the one before."""
    ends, last = known[-1]
    groups = [
        GroupSums(np.searchsorted(before, ends[:-1], side="right") - 1, sums, variance)
        for before, sums in known[:-1]
    ]
    return least_squares(last, variance, groups)[:, 0]


def _heaps(ends: Ints, mass: Floats, round_cells: Ints, least: float) -> Ints:
    """Where a bin begins and ends that holds the roundest number of a part in which rows seem to
    heap: of at least so many rows, and far denser than both parts beside it. So the counts that
    follow tell how many there are of just that number."""
    dense = np.concatenate([[0.0], mass / np.diff(ends), [0.0]])
    stands_out = dense[1:-1] >= HEAP_DENSITY * np.maximum(dense[:-2], dense[2:])
    parts = np.flatnonzero((np.diff(ends) > 1) & (mass > least) & stands_out)
    found: list[int] = []
    for low, high in zip(ends[parts].tolist(), ends[parts + 1].tolist(), strict=True):
        inside = round_cells[low:high]
        if inside.any():
            cell = low + int(np.argmin(np.where(inside > 0, inside, inside.max() + 1)))
            found += [cell, cell + 1]
    return np.array(found, dtype=np.int64)


def round_cells(axis: Axis) -> Ints:
    """How long the only number of each cell is: 1 for 0, 2 for 1, 2 and 5 with any noughts, 3 for
    other digits, and two more for each further digit, one where that is a 5. 0 for cells of more
    than one number, for those of more than three digits, and for dates and times."""
    lengths = np.zeros(axis.base, dtype=np.int64)
    if axis.kind not in ("real", "integer"):
        return lengths
    edges = np.array(axis.edges, dtype=np.float64)
    step = 1.0 if axis.kind == "integer" else 0.0
    single = edges[1:] <= np.nextafter(edges[:-1] + step, np.inf)
    values = np.where(single, np.abs(edges[:-1]), 1.0)
    size = np.floor(np.log10(np.where(values > 0, values, 1.0)))
    for digits in (3, 2, 1):
        scaled = values / 10.0 ** (size - (digits - 1))
        whole = np.rint(scaled)
        short = np.isin(whole, (1, 2, 5, 10)) if digits == 1 else whole % 5 == 0
        exact = np.abs(scaled - whole) <= 1e-9 * whole
        lengths[exact] = (2 * digits + 1 - short)[exact]
    lengths[values == 0] = 1
    return np.where(single, lengths, 0)


def finds_bins(schema: Schema, axis: Axis) -> bool:
    """Whether a column needs bins that nobody declared: numbers of more values than bins."""
    column = schema.column(axis.name)
    return (
        axis.numeric
        and not axis.exact_values
        and column.bins is None
        and column.edges is None
        and column.precision is None
    )


def fine_domain(
    schema: Schema, domain: Domain, adaptive: Sequence[str], facts: Sequence[Fact] = ()
) -> Domain:
    """What rows are coded over: fine cells of the columns whose bins are found, which end where
    rules and other declared facts compare, else the domain."""
    axes = [
        replace(axis, edges=fine_edges(schema.column(axis.name), schema_name=schema.name))
        if axis.name in adaptive
        else axis
        for axis in domain.axes
    ]
    cut = [
        with_cuts(axis, [*domain.rules, *facts], domain) if axis.name in adaptive else axis
        for axis in axes
    ]
    return Domain(tuple(cut), domain.rules)


def adapted(axis: Axis, ends: Ints) -> Axis:
    """The axis with bins that end at these cells."""
    return replace(axis, edges=tuple(axis.edges[int(end)] for end in ends))


def regrouping(axis: Axis, ends: Ints) -> Ints:
    """The new code of every old one; values without a bin keep their places after the bins."""
    inside = np.searchsorted(ends, np.arange(axis.base), side="right") - 1
    extra = len(ends) - 1 + np.arange(axis.cardinality - axis.base)
    return np.concatenate([inside, extra]).astype(np.int64)


def _cut(low: int, high: int) -> Ints:
    """Cells from low to high in up to `PARTS` runs, as even as can be."""
    parts = min(PARTS, high - low)
    return low + np.arange(parts + 1, dtype=np.int64) * (high - low) // parts


def _even(ends: Ints, mass: Floats, wanted: float) -> Ints:
    """Parts into bins of about `wanted` rows: full ones are cut, empty ones joined. A part of one
    cell that is full stays alone."""
    out, held = [0], 0.0
    for low, high, rows in zip(ends[:-1].tolist(), ends[1:].tolist(), mass.tolist(), strict=True):
        pieces = max(1, min(high - low, round(rows / wanted)))
        if pieces > 1 or rows >= wanted or held + rows > wanted:
            out.append(low)  # what is empty before a full part is none of it
            held = 0.0
        if pieces > 1:
            out += [low + piece * (high - low) // pieces for piece in range(1, pieces)]
        held += rows / pieces
        if rows >= wanted:
            out.append(high)
            held = 0.0
    return np.unique(np.array([*out, int(ends[-1])], dtype=np.int64))
