"""Sensitivities of the scores on every tiny table, and what the scores prefer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from dpublish.audit import neighbours
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.discernibility import non_private_kd
from dpublish.methods.projected_histogram.scores import (
    PairCount,
    PairsPerRow,
    Purity,
    SelectionScore,
    pair_rate_change,
)

Row = tuple[int, ...]


def table_of(rows: tuple[Row, ...], levels: tuple[int, ...]) -> CodedTable:
    codes = np.array(rows, dtype=np.int64).reshape(len(rows), len(levels))
    return CodedTable(
        [codes[:, i] for i in range(len(levels) - 1)], levels[:-1], codes[:, -1], levels[-1]
    )


def scores_of(
    score: SelectionScore, rows: tuple[Row, ...], levels: tuple[int, ...], chosen: tuple[int, ...]
) -> list[Fraction]:
    partition = score.start(table_of(rows, levels))
    for column in chosen:
        partition.refine(column)
    return score.of(partition, [i for i in range(len(levels) - 1) if i not in chosen])


def largest_change(
    score: SelectionScore,
    pairs: Iterator[tuple[tuple[Row, ...], tuple[Row, ...]]],
    levels: tuple[int, ...],
) -> Fraction:
    known: dict[tuple[tuple[Row, ...], tuple[int, ...]], list[Fraction]] = {}
    worst = Fraction(0)
    for pair in pairs:
        for chosen in ((), (0,)):
            values = []
            for rows in pair:
                if (rows, chosen) not in known:
                    known[rows, chosen] = scores_of(score, rows, levels, chosen)
                values.append(known[rows, chosen])
            worst = max(worst, *(abs(a - b) for a, b in zip(*values, strict=True)))
    return worst


def universe(levels: tuple[int, ...]) -> list[Row]:
    return list(itertools.product(*map(range, levels)))


def without_units(
    pairs: Iterator[tuple[tuple[tuple[int, Row], ...], tuple[tuple[int, Row], ...]]],
) -> Iterator[tuple[tuple[Row, ...], tuple[Row, ...]]]:
    for one, other in pairs:
        yield tuple(row for _, row in one), tuple(row for _, row in other)


BINARY = (2, 2, 2)


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_pair_count_is_tight_under_replace_one(rows: int) -> None:
    score = PairCount(rows)
    worst = largest_change(score, neighbours.replace_one(universe(BINARY), rows=rows), BINARY)
    assert worst == score.sensitivity == rows - 1


def test_pair_count_with_two_rows_a_unit() -> None:
    """Units may own fewer rows than allowed, none included. The bound needs three labels to be
    reached."""
    levels = (2, 1, 3)
    score = PairCount(2, 2)
    pairs = without_units(
        neighbours.replace_one_unit(universe(levels), units=2, max_rows_per_unit=2)
    )
    worst = largest_change(score, pairs, levels)
    assert score.sensitivity == 5
    assert 4 <= worst <= score.sensitivity


@pytest.mark.parametrize("levels", [(2, 2, 2), (2, 1, 3)])
def test_pairs_per_row_under_add_remove(levels: tuple[int, ...]) -> None:
    score = PairsPerRow(levels[-1])
    worst = largest_change(score, neighbours.add_remove(universe(levels), max_rows=5), levels)
    assert worst <= score.sensitivity
    # the proof's bound is the limit of many rows, times N / (N + 1): with N = 4 it is reached up to
    # that for two labels
    assert worst >= Fraction(4, 5) * score.sensitivity * (1 if levels[-1] == 2 else Fraction(9, 10))


def test_pairs_per_row_under_replace_one() -> None:
    score = PairsPerRow(2, 2)
    assert (
        largest_change(score, neighbours.replace_one(universe(BINARY), rows=4), BINARY)
        <= score.sensitivity
        == 1
    )


def test_the_rate_of_pairs_in_many_labels_and_rows() -> None:
    """The bound over label shares, by search on a grid of shares: never exceeded, and
    approached."""
    for labels in (2, 3, 4):
        best = Fraction(0)
        for shares in itertools.product(range(13), repeat=labels - 1):
            if sum(shares) <= 12:
                parts = [Fraction(s, 12) for s in (*shares, 12 - sum(shares))]
                pairs = (1 - sum(p * p for p in parts)) / 2
                best = max(best, *((1 - p + pairs) / 2 for p in parts))
        assert best == pair_rate_change(labels)


@pytest.mark.parametrize("charge", [1, 2])
def test_purity_under_both_relations(charge: int) -> None:
    added = largest_change(
        Purity(charge), neighbours.add_remove(universe(BINARY), max_rows=5), BINARY
    )
    assert Fraction(1, 2) < added <= 1
    score = Purity(charge, 2)
    replaced = largest_change(score, neighbours.replace_one(universe(BINARY), rows=4), BINARY)
    assert (1 if charge == 1 else Fraction(1, 2)) <= replaced <= score.sensitivity == 2


def test_the_bound_is_needed_one_less_would_be_exceeded() -> None:
    """The audit has teeth: the sensitivity of pairs per row, taken for pairs that are not divided,
    is exceeded."""
    worst = largest_change(
        PairCount(4), neighbours.add_remove(universe(BINARY), max_rows=4), BINARY
    )
    assert worst > PairsPerRow(2).sensitivity


def noisy_table(seed: int, rows: int = 4000) -> CodedTable:
    """A column of 500 levels that says nothing, and two binary ones that say something."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, rows)
    useful = [np.where(rng.random(rows) < share, label, 1 - label) for share in (0.8, 0.7)]
    return CodedTable([rng.integers(0, 500, rows), *useful], [500, 2, 2], label, 2)


@pytest.mark.parametrize("seed", range(5))
def test_the_papers_score_takes_the_widest_column_and_ours_does_not(seed: int) -> None:
    table = noisy_table(seed)
    assert non_private_kd(table, 1) == (0,)
    assert non_private_kd(table, 1, score=PairCount(table.rows)) == (0,)
    assert non_private_kd(table, 2, score=Purity(charge=5)) == (1, 2)
    assert non_private_kd(table, 2, score=Purity(charge=1)) == (1, 2)
