"""Choosing k columns that discern rows with different labels (Vinterbo 2012, section 2.2),
greedily.

In: coded rows with a label (private). Out: indices of columns in the order in which they were
chosen.

    private_kd        PrivateKD: each step is an exact private choice
    stopping_kd       the same, one choice after the other until cells would hold too few rows
    non_private_kd    the same with the best candidate each time; for public or made-up data only
    mda               the smallest greedy set that discerns all but a share sigma of what all
                      columns discern; likewise
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.partition import PairPartition
from dpublish.methods.projected_histogram.scores import SelectionScore
from dpublish.noise.base import ChoiceRule, Noise

DEFAULT_SIGMA = Fraction(1, 10)


def private_kd(
    noise: Noise,
    table: CodedTable,
    k: int,
    *,
    epsilon: Fraction,
    score: SelectionScore,
    rule: ChoiceRule = "permute-and-flip",
    label: str = "column",
) -> tuple[int, ...]:
    """Choose k of the table's columns; epsilon-DP in all (theorem 1 of discernibility.proof.md).

    Each of the k choices costs epsilon / k. When k takes all columns there is nothing to choose and
    nothing is spent; when epsilon is 0 every choice is uniform.
    """
    left = list(range(len(table.columns)))
    if k >= len(left):
        return tuple(left)
    chosen: list[int] = []
    partition = score.start(table) if epsilon > 0 else None
    for step in range(k):
        name = f"{label} {step + 1}"
        if partition is None:
            index = int(noise.integers(len(left), size=1, label=name)[0])
        else:
            index = noise.choose(
                score.of(partition, left, more=k - step - 1),
                sensitivity=score.sensitivity,
                epsilon=epsilon / k,
                rule=rule,
                label=name,
            )
        chosen.append(left.pop(index))
        if partition is not None and step + 1 < k:
            partition.refine(chosen[-1])
    if partition is not None and chosen:
        partition.keep_counts(chosen[-1])
    return tuple(chosen)


def stopping_kd(
    noise: Noise,
    table: CodedTable,
    *,
    most: int,
    cells: int,
    epsilon: Fraction,
    score: SelectionScore,
    rule: ChoiceRule = "permute-and-flip",
) -> tuple[tuple[int, ...], int]:
    """Choose up to `most` columns, one after the other, while their levels span at most `cells`
    cells; and how many choices were paid for, with `epsilon` each (theorem 2).

    What may be chosen next follows from the levels and from earlier choices. Where one column is
    left to choose, it is taken and nothing is paid.
    """
    everything = free_choice(table.levels, cells)
    if everything is not None:
        return everything, 0
    partition = score.start(table)
    chosen: list[int] = []
    paid = 0
    while len(chosen) < most and (fitting := fitting_columns(table.levels, chosen, cells)):
        index = 0
        if len(fitting) > 1:
            index = noise.choose(
                score.of(partition, fitting, more=most - len(chosen) - 1),
                sensitivity=score.sensitivity,
                epsilon=epsilon,
                rule=rule,
                label=f"column {len(chosen) + 1}",
            )
            paid += 1
        chosen.append(fitting[index])
        partition.refine(chosen[-1])
    return tuple(chosen), paid


def free_choice(levels: Sequence[int], cells: int) -> tuple[int, ...] | None:
    """All columns that can tell anything apart, if they span no more than `cells` cells: then
    there is nothing to choose."""
    useful = tuple(i for i, count in enumerate(levels) if count > 1)
    return useful if math.prod(levels) <= cells else None


def fitting_columns(levels: Sequence[int], chosen: Sequence[int], cells: int) -> list[int]:
    """What may be chosen next: columns of several levels that keep the number of cells within the
    limit; at first, where none does, those with the fewest levels."""
    left = [i for i, count in enumerate(levels) if count > 1 and i not in chosen]
    span = math.prod(levels[i] for i in chosen)
    fewest = min((levels[i] for i in left), default=0)
    fitting = [i for i in left if span * levels[i] <= cells]
    return fitting if fitting or chosen else [i for i in left if levels[i] == fewest]


def non_private_kd(
    table: CodedTable, k: int, *, score: SelectionScore | None = None
) -> tuple[int, ...]:
    """The greedy choice without noise, by pairs discerned or another score; ties go to the first.
    Never on private rows."""
    left = list(range(len(table.columns)))
    chosen: list[int] = []
    partition = PairPartition(table) if score is None else score.start(table)
    for _ in range(min(k, len(left))):
        values: Sequence[Fraction | int]
        values = (
            [-left_over for left_over in partition.after(left)]
            if score is None
            else score.of(partition, left)
        )
        chosen.append(left.pop(max(range(len(left)), key=lambda i: (values[i], -i))))
        partition.refine(chosen[-1])
    return tuple(chosen)


def mda(table: CodedTable, sigma: Fraction = DEFAULT_SIGMA) -> tuple[int, ...]:
    """A smallest greedy set S with F(S) / F(all columns) >= 1 - sigma (equation 10). Never on
    private rows."""
    partition = PairPartition(table)
    everything, nothing = partition.value(), undiscerned(table, range(len(table.columns)))
    goal = (1 - sigma) * (everything - nothing)
    left = list(range(len(table.columns)))
    chosen: list[int] = []
    discerned = 0
    while discerned < goal:
        after = partition.after(left)
        best = min(range(len(left)), key=lambda i: (after[i], i))
        discerned = everything - after[best]
        chosen.append(left.pop(best))
        partition.refine(chosen[-1])
    return tuple(chosen)


def undiscerned(table: CodedTable, columns: Sequence[int]) -> int:
    """Pairs of rows with different labels that agree in all the given columns."""
    partition = PairPartition(table)
    for column in columns:
        partition.refine(column)
    return partition.value()
