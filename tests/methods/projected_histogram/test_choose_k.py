"""Choosing k and gamma from public facts, and k by data splitting."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from dpublish import audit
from dpublish.audit import neighbours
from dpublish.declare.domain import Axis, Domain, lei_bins
from dpublish.errors import PlanError
from dpublish.methods.projected_histogram.choose_k import (
    choose_gamma,
    k_from_public,
    k_from_simulation,
    pair_utilities,
    public_table,
    simulated_table,
    split_kd,
)
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.discernibility import private_kd
from dpublish.methods.projected_histogram.scores import PairCount, PairsPerRow, Purity
from dpublish.noise.base import Noise
from dpublish.noise.source import SeededNoise

pytestmark = pytest.mark.usefixtures("compiled_kernels")

TENTH = Fraction(1, 10)
Rows = tuple[tuple[int, ...], ...]


def test_simulated_rows_are_the_papers() -> None:
    table = simulated_table(5000, [4] * 3, 3)
    assert table.rows == 5000
    for column in table.columns:
        share = np.bincount(column, minlength=4) / 5000
        # the ends of the range are about 3.7 standard deviations out, so the middle bins hold
        # nearly everything
        assert share[1] + share[2] > 0.9
        assert abs(share[1] - share[2]) < 0.4
        assert column.max() == 3
        assert column.min() == 0
    assert np.abs(np.bincount(table.labels_of) / 5000 - 1 / 3).max() < 0.05
    again = simulated_table(5000, [4] * 3, 3)
    assert all((a == b).all() for a, b in zip(table.columns, again.columns, strict=True))


def test_many_rows_are_scaled_without_being_drawn() -> None:
    small, large = (simulated_table(rows, [50], 2) for rows in (20_000, 10**9))
    assert large.rows == 20_000
    # a billion draws reach about 6 standard deviations, twenty thousand about 4: the same mass sits
    # in fewer bins
    assert np.unique(large.columns[0]).size < np.unique(small.columns[0]).size


@pytest.mark.parametrize(
    ("name", "rows", "predictors", "labels", "k"),
    [
        ("iris", 150, 4, 3, 3),
        ("satellite", 6435, 36, 6, 4),
        ("clinical", 1753, 44, 2, 4),
        ("adult", 45083, 14, 2, 4),
    ],
)
def test_k_of_the_papers_data_sets(
    name: str, rows: int, predictors: int, labels: int, k: int
) -> None:
    """Two bins each (Lei's rule, at least two): a share 1 - 2^-k is discerned, so 4 columns, and 3
    of 4 on Iris."""
    bins = max(2, lei_bins(rows, predictors + 1))
    assert bins == 2
    assert k_from_simulation(rows, [bins] * predictors, labels, TENTH) == k


def test_gamma_is_the_papers_formula() -> None:
    rows, k, candidates, labels, bins = 45083, 4, 14, 2, 2
    gamma = choose_gamma(
        rows=rows,
        k=k,
        candidates=candidates,
        labels=labels,
        bins=bins,
        factor=Fraction(1, 2),
        sensitivity=Fraction(2),
        blur=Fraction(1),
    )
    choosing = (
        rows * 0.5 * k**2 * math.log(candidates) / (0.05 * rows**2 * (labels - 1) / (2 * labels))
    )
    counting = 0.5 * math.log(rows) / (0.5**k * rows / labels)  # two bins of about one half each
    assert float(gamma) == pytest.approx(counting / (counting + choosing), abs=0.01)
    assert gamma.denominator <= 1000


def test_gamma_moves_the_right_way() -> None:
    settings = {
        "rows": 10_000,
        "k": 3,
        "candidates": 9,
        "labels": 2,
        "bins": 12,
        "factor": Fraction(1, 2),
    }
    plain = choose_gamma(**settings, sensitivity=Fraction(2), blur=Fraction(1))  # type: ignore[arg-type]
    assert choose_gamma(**settings, sensitivity=Fraction(2), blur=Fraction(4)) < plain  # type: ignore[arg-type]
    assert (
        choose_gamma(**{**settings, "labels": 4}, sensitivity=Fraction(2), blur=Fraction(1)) > plain
    )  # type: ignore[arg-type]
    assert choose_gamma(**{**settings, "k": 9}, sensitivity=Fraction(2), blur=Fraction(1)) == 1  # type: ignore[arg-type]
    assert choose_gamma(
        **{**settings, "factor": Fraction(0)}, sensitivity=Fraction(2), blur=Fraction(1)
    ) == Fraction(1, 20)  # type: ignore[arg-type]


DOMAIN = Domain(
    (
        Axis("a", "categorical", levels=("x", "y"), outside="drop"),
        Axis("b", "integer", edges=(0, 5, 10)),
        Axis("t", "categorical", levels=("no", "yes"), outside="drop"),
    )
)


def test_k_from_public_data() -> None:
    rows = [
        {"a": "x" if i % 2 else "y", "b": i % 10, "t": "yes" if i % 2 else "no", "more": i}
        for i in range(40)
    ]
    assert k_from_public(pl.DataFrame(rows), DOMAIN, TENTH) == 1
    mixed = [
        {"a": "xy"[i % 2], "b": 5 * (i // 2 % 2), "t": ("no", "yes")[(i + i // 2) % 2]}
        for i in range(40)
    ]
    assert k_from_public(pl.DataFrame(mixed), DOMAIN, TENTH) == 2


def test_public_data_must_have_the_columns_and_rows() -> None:
    with pytest.raises(PlanError, match=r"no column 'b'.*Did you mean 'B'\?|no column 'b'"):
        public_table(pl.DataFrame({"a": ["x"], "B": [1], "t": ["no"]}), DOMAIN)
    with pytest.raises(PlanError, match="no row with declared values"):
        public_table(pl.DataFrame({"a": ["other"], "b": [1], "t": ["no"]}), DOMAIN)


# Data splitting.

UNIVERSE = list(itertools.product(range(2), repeat=3))


def table_of(rows: Rows) -> CodedTable:
    codes = np.array(rows, dtype=np.int64).reshape(len(rows), 3)
    return CodedTable([codes[:, 0], codes[:, 1]], [2, 2], codes[:, 2], 2)


class Split:
    def __init__(self, score: PairsPerRow | Purity) -> None:
        self.score = score

    def __call__(self, noise: Noise, rows: Rows) -> tuple[int, ...]:
        return split_kd(
            noise,
            table_of(rows),
            (1, 2),
            epsilon=Fraction(1),
            score=self.score,
            sigma=TENTH,
            rows=4,
        )


@pytest.mark.parametrize("score", [PairsPerRow(2), Purity(1)], ids=["pairs per row", "purity"])
def test_splitting_costs_one_epsilon_exactly(score: PairsPerRow | Purity) -> None:
    pairs = list(neighbours.add_remove(UNIVERSE, max_rows=4))
    report = audit.exact(Split(score), pairs[::17], epsilon=1)
    assert report.passed, report.summary()


@pytest.mark.parametrize(
    "score", [PairsPerRow(2, 2), Purity(1, 2)], ids=["pairs per row", "purity"]
)
def test_splitting_costs_one_epsilon_under_replay(score: PairsPerRow | Purity) -> None:
    """The replayed losses of all choices in all parts add up to at most one epsilon, for replaced
    rows."""
    report = audit.replay(
        Split(score), list(neighbours.replace_one(UNIVERSE, rows=6))[::401], epsilon=1, runs=2
    )
    assert report.passed, report.summary()
    assert report.loss > 0


@pytest.mark.parametrize(
    "score", [PairsPerRow(2, 4), Purity(1, 4)], ids=["pairs per row", "purity"]
)
def test_splitting_with_two_rows_a_unit(score: PairsPerRow | Purity) -> None:
    pairs = [
        (tuple(row for _, row in one), tuple(row for _, row in other))
        for one, other in neighbours.replace_one_unit(UNIVERSE, units=2, max_rows_per_unit=2)
    ]
    report = audit.replay(Split(score), pairs[::607], epsilon=1, runs=2)
    assert report.passed, report.summary()


def dealt_by_position(noise: Noise, rows: Rows) -> tuple[int, ...]:
    """Planted: parts by position, so that one row more changes them all."""
    sets = [
        private_kd(noise, table_of(rows[i::3]), 1, epsilon=Fraction(1), score=Purity(1))
        for i in range(2)
    ]
    judge = table_of(rows[2::3])
    utilities = [Purity(1).of(Purity(1).start(judge), chosen)[0] for chosen in sets]
    return sets[noise.choose(utilities, sensitivity=Fraction(1), epsilon=Fraction(1))]


def judged_on_all_rows(noise: Noise, rows: Rows) -> tuple[int, ...]:
    """Planted: the last choice sees rows that the first ones have seen, so that epsilon is spent
    twice."""
    table = table_of(rows)
    chosen = private_kd(noise, table, 1, epsilon=Fraction(1), score=Purity(1))
    utilities = Purity(1).of(Purity(1).start(table), [0, 1])
    return (*chosen, noise.choose(utilities, sensitivity=Fraction(1), epsilon=Fraction(1)))


@pytest.mark.parametrize("bug", [dealt_by_position, judged_on_all_rows])
def test_planted_splits_are_found(bug: object) -> None:
    pairs = list(neighbours.add_remove(UNIVERSE, max_rows=5))[::17]
    assert not audit.replay(bug, pairs, epsilon=1, runs=1).passed  # type: ignore[arg-type]


def test_pair_utilities_have_the_sensitivity_of_the_score() -> None:
    sets = [(0,), (1,), (0, 1)]
    for rows, more in neighbours.add_remove(UNIVERSE, max_rows=5):
        one, other = (
            pair_utilities(table_of(r), sets, sigma=TENTH, worth=Fraction(1, 50))
            for r in (rows, more)
        )
        assert (
            max(abs(a - b) for a, b in zip(one, other, strict=True)) <= PairsPerRow(2).sensitivity
        )


def test_splitting_finds_a_k_that_suffices() -> None:
    """The label is the parity of two columns, among four: with much budget one column is not enough
    and three are too many."""
    rng = np.random.default_rng(5)
    columns = [rng.integers(0, 2, 9000) for _ in range(4)]
    table = CodedTable(columns, [2] * 4, columns[1] ^ columns[2], 2)
    chosen = [
        split_kd(
            SeededNoise(s),
            table,
            (1, 2, 4),
            epsilon=Fraction(50),
            score=Purity(1, 2),
            sigma=TENTH,
            rows=9000,
        )
        for s in range(6)
    ]
    assert all({1, 2} <= set(found) for found in chosen)


def test_pair_count_would_need_the_size_of_a_part() -> None:
    """Planted: n - 1 for the whole table, taken as a per-row bound inside a part, is refuted under
    add-remove-one."""
    pairs = list(neighbours.add_remove(UNIVERSE, max_rows=5))[::17]
    mechanism = lambda noise, rows: private_kd(  # noqa: E731
        noise, table_of(rows), 1, epsilon=Fraction(1), score=PairCount(2)
    )
    assert not audit.replay(mechanism, pairs, epsilon=1, runs=1).passed
