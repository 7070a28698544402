"""Sensitivities of the scores on every tiny table, and what the scores prefer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish.audit import neighbours
from dpublish.errors import PrivateSideError
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.discernibility import non_private_kd
from dpublish.methods.projected_histogram.scores import (
    Contrast,
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


@pytest.mark.parametrize("levels", [(2, 2, 2), (2, 1, 3), (1, 3, 2)])
def test_contrast_under_both_relations(levels: tuple[int, ...]) -> None:
    """The proof's bound is (1 - p)(N - b) / (N + 1): with five rows at most 4/5, on the grid."""
    added = largest_change(Contrast(5), neighbours.add_remove(universe(levels), max_rows=5), levels)
    assert Fraction(1, 2) <= added <= Fraction(4, 5) < Contrast(5).sensitivity
    score = Contrast(4, 2)
    replaced = largest_change(score, neighbours.replace_one(universe(levels), rows=4), levels)
    assert Fraction(1, 2) < replaced <= score.sensitivity == 2


def test_contrast_with_two_rows_a_unit() -> None:
    """Units of up to two rows: what they move is above the bound of one row, and within that of
    two (add-remove-one) or four (replace-one)."""
    levels = (2, 1, 3)
    pairs = without_units(
        neighbours.add_remove_unit(universe(levels), units=3, max_rows_per_unit=2)
    )
    assert 1 < largest_change(Contrast(6, 2), pairs, levels) <= Contrast(6, 2).sensitivity == 2
    pairs = without_units(
        neighbours.replace_one_unit(universe(levels), units=2, max_rows_per_unit=2)
    )
    assert 1 <= largest_change(Contrast(4, 4), pairs, levels) <= Contrast(4, 4).sensitivity == 4


def test_contrast_that_is_not_halved_exceeds_its_bound() -> None:
    """The audit has teeth: both sides of the difference counted, at the sensitivity of one."""

    class Whole(Contrast):
        def of(self, *args: Any, **keys: Any) -> list[Fraction]:
            return [2 * value for value in super().of(*args, **keys)]

    pairs = neighbours.add_remove(universe(BINARY), max_rows=5)
    assert largest_change(Whole(5), pairs, BINARY) > Whole(5).sensitivity


def test_contrast_does_not_read_the_number_of_rows_for_its_charge() -> None:
    table = table_of(((0, 0, 0),) * 3, BINARY)
    score = Contrast(100)
    assert score.of(score.start(table), [0]) == [Fraction(-score.charge(2), 64)]
    assert score.charge(2) == 135  # 0.15 * 64 * sqrt(200) = 135.8
    assert score.charge(10**9) == score.charge(100)  # no more cells than rows


@pytest.mark.parametrize("seed", range(3))
def test_contrast_finds_a_rare_label_that_purity_hardly_sees(seed: int) -> None:
    """6% positives, of which a column has 9% and 3%: contrast is 8 times as large beside the same
    sensitivity."""
    rng = np.random.default_rng(seed)
    column = rng.integers(0, 2, 20_000)
    label = (rng.random(20_000) < np.where(column, 0.09, 0.03)).astype(np.int64)
    table = CodedTable([column, rng.integers(0, 2, 20_000)], [2, 2], label, 2)
    gains = {}
    for score in (Contrast(20_000), Purity(1)):
        useful, useless = score.of(score.start(table), [0, 1])
        gains[score.name] = useful - useless
    assert gains["contrast"] > 5 * gains["prediction"] > 0


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
    assert non_private_kd(table, 2, score=Contrast(table.rows)) == (1, 2)


def test_more_rows_than_units_have_end_a_choice_by_pairs() -> None:
    """A row has as many pairs as there are other rows: the sensitivity counts those of n units."""
    table = table_of(((0, 0, 0), (1, 1, 1), (0, 1, 1)), (2, 2, 2))
    assert PairCount(3).start(table).value() == 2
    assert PairCount(2, 2).start(table).value() == 2
    for few in (PairCount(2), PairCount(1, 2)):
        with pytest.raises(PrivateSideError):
            few.start(table)
