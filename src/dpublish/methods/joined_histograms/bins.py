"""Bins of numeric columns that declare none: found from the rows, with noise, where the rows are.

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

from dpublish.declare.domain import Axis
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
) -> Ints:
    """Where bins end, counted in cells: from 0 to the number of cells. `rows` is the public number
    of rows, where there is one; at the `fixed` places bins end in any case."""
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
    return np.union1d(_even(ends, positive, whole / bins), np.array(fixed, dtype=np.int64))


def _consistent(known: Sequence[tuple[Ints, Floats]], variance: float) -> Floats:
    """The rows of the last partition's parts, from all histograms so far: each partition is finer
    than the one before."""
    ends, last = known[-1]
    groups = [
        GroupSums(np.searchsorted(before, ends[:-1], side="right") - 1, sums, variance)
        for before, sums in known[:-1]
    ]
    return least_squares(last, variance, groups)[:, 0]


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
