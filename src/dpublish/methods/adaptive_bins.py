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

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpublish.declare.domain import Axis, Domain, fine_edges
from dpublish.declare.rules import with_cuts
from dpublish.declare.schema import Schema
from dpublish.methods.draws import noisy_counts
from dpublish.models.junction_tree.consistency import (
    Floats,
    GroupSums,
    Ints,
    least_squares,
    onto_simplex,
)
from dpublish.noise.base import IntArray, Noise
from dpublish.privacy.budget_split import BudgetSplit

STAGES = 3
PARTS = 32
"""Into how many a part is cut: three times make more than all cells that `fine_edges` gives."""
SIGNAL = 3.0
"""A part is cut when its noisy count is above so many standard deviations of the noise."""


def choose_bins(
    noise: Noise,
    budget: BudgetSplit,
    counts: IntArray,
    *,
    share: Fraction,
    rows: int | None,
    bins: int,
    label: str,
    fixed: Sequence[int] = (),
    most: int | None = None,
) -> Ints:
    """Where bins end, counted in cells: from 0 to the number of cells. `rows` is the public number
    of rows, where there is one; at the `fixed` places bins end in any case. `bins` of the same
    number of rows are aimed at, and besides the fixed places there are no more than `most`."""
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
    found = _even(ends, positive, wanted)
    while most is not None and len(found) - 1 > most:  # with all rows wanted there is one bin
        wanted *= 1.125
        found = _even(ends, positive, wanted)
    return np.union1d(found, np.array(fixed, dtype=np.int64))


def _consistent(known: Sequence[tuple[Ints, Floats]], variance: float) -> Floats:
    """The rows of the last partition's parts, from all histograms so far: each partition is finer
    than the one before."""
    ends, last = known[-1]
    groups = [
        GroupSums(np.searchsorted(before, ends[:-1], side="right") - 1, sums, variance)
        for before, sums in known[:-1]
    ]
    return least_squares(last, variance, groups)[:, 0]


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


def fine_domain(schema: Schema, domain: Domain, adaptive: Sequence[str]) -> Domain:
    """What rows are coded over: fine cells of the columns whose bins are found, else the domain."""
    axes = [
        replace(axis, edges=fine_edges(schema.column(axis.name), schema_name=schema.name))
        if axis.name in adaptive
        else axis
        for axis in domain.axes
    ]
    cut = [
        with_cuts(axis, domain.rules, domain) if axis.name in adaptive else axis for axis in axes
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
        if held > 0.0 and (pieces > 1 or rows >= wanted or held + rows > wanted):
            out.append(low)
            held = 0.0
        if pieces > 1:
            out += [low + piece * (high - low) // pieces for piece in range(1, pieces)]
        held += rows / pieces
        if rows >= wanted:
            out.append(high)
            held = 0.0
    return np.unique(np.array([*out, int(ends[-1])], dtype=np.int64))
