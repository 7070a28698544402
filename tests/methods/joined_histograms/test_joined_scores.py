"""Scores of rounds: every resolution of every column against plain counting, and which of them is
worth its noise."""

from __future__ import annotations

import itertools

import numpy as np

from dpublish.methods.joined_histograms.rounds import Rounds, coarsening
from dpublish.methods.joined_histograms.structure import NOISE_COST, LabelledRows
from dpublish.models.junction_tree.fit import MeasuredColumn, MeasuredTable, fit_model, grow_model
from dpublish.models.junction_tree.model import JunctionModel

LEVELS = (16, 8, 5, 2)
TARGET = 3


def rows_of(seed: int, number: int = 4000) -> LabelledRows:
    """The second column says which half of its levels the first is in, odd or even; the third is
    apart."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 16, number)
    second = np.where(
        rng.random(number) < 0.9,
        (first % 2) * 4 + rng.integers(0, 4, number),
        rng.integers(0, 8, number),
    )
    codes = [first, second, rng.integers(0, 5, number), rng.integers(0, 2, number)]
    return LabelledRows(codes, LEVELS, TARGET)


def columns_of(rows: LabelledRows) -> list[MeasuredColumn | None]:
    return [
        None
        if c == TARGET
        else MeasuredColumn(rows.count_column(c).reshape(-1, 2).astype(float), 1e-6)
        for c in range(len(LEVELS))
    ]


def counted(
    rows: LabelledRows, columns: tuple[int, int], groups: tuple[np.ndarray, np.ndarray], number: int
) -> MeasuredTable:
    shape = (int(groups[0].max()) + 1, int(groups[1].max()) + 1)
    coded = [
        rows.grouped(column, group_of) for column, group_of in zip(columns, groups, strict=True)
    ]
    table = rows.count_pair(coded[0], coded[1], shape).reshape(*shape, 2).astype(float)
    return MeasuredTable(columns, groups, table, 1e-6, number)


def looked_at(rows: LabelledRows) -> tuple[JunctionModel, Rounds]:
    model = fit_model(columns_of(rows), [], target=TARGET, total=None)
    coarsenings = {c: coarsening(model, c, ordered=c < 2, most=32) for c in range(3)}
    return model, Rounds(rows, coarsenings, [(0, 1, 2)])


def test_every_resolution_of_every_column_is_scored() -> None:
    rows = rows_of(1)
    model, rounds = looked_at(rows)
    tables = [*itertools.combinations(range(3), 2), (0, 1, 2)]
    weights = {columns: 1 + len(columns) for columns in tables}
    scores = rounds.scores(model, weights, {(1, 2)}, deviation=7.0)
    seen = set()
    for option, score in scores.items():
        groups = rounds.groups(option)
        shape = [int(group_of.max()) + 1 for group_of in groups]
        cell = np.zeros(len(rows.labels_of), dtype=np.int64)
        for column, group_of, count in zip(option.columns, groups, shape, strict=True):
            cell = cell * count + group_of[rows.codes[column]]
        counts = np.bincount(cell * 2 + rows.labels_of, minlength=int(np.prod(shape)) * 2)
        expected = model.joint([*option.columns, TARGET])
        for axis, group_of in enumerate(groups):
            grouped = np.zeros((*expected.shape[:axis], shape[axis], *expected.shape[axis + 1 :]))
            np.add.at(np.moveaxis(grouped, axis, 0), group_of, np.moveaxis(expected, axis, 0))
            expected = grouped
        if not option.by_label:
            counts, expected = counts.reshape(-1, 2).sum(axis=1), expected.sum(axis=-1)
        wrong = int(np.abs(counts - np.rint(expected.ravel())).sum())
        assert score == (wrong - round(NOISE_COST * 7.0 * counts.size)) * weights[option.columns], (
            option
        )
        seen.add((option.columns, option.resolutions, option.by_label))
    depth = [len(rounds.coarsenings[column].resolutions) for column in range(3)]
    wanted = {
        (columns, resolutions, by_label)
        for columns in tables
        if columns != (1, 2)
        for resolutions in itertools.product(*(range(depth[column]) for column in columns))
        for by_label in (True, False)
    }
    assert seen == wanted


def test_one_column_may_stay_fine_where_the_other_is_coarse() -> None:
    """All 16 levels of the first column are needed, and of the second only which half: coarser on
    both sides says nothing."""
    rows = rows_of(2)
    model, rounds = looked_at(rows)
    weights = dict.fromkeys(itertools.combinations(range(3), 2), 1) | {(0, 1, 2): 1}
    scores = rounds.scores(model, weights, {(0, 1, 2)}, deviation=12.0)
    best = max(scores, key=lambda option: scores[option])
    assert best.columns == (0, 1)
    assert best.resolutions[0] == 0 < best.resolutions[1]


def test_a_grown_model_is_near_one_fitted_anew() -> None:
    """And it is over finer states where the new tables have finer groups."""
    rows = rows_of(3)
    whole = [np.arange(levels) for levels in LEVELS]
    first = counted(rows, (0, 2), (whole[0] // 4, whole[2]), 0)
    second = counted(rows, (1, 0), (whole[1] // 2, whole[0]), 1)
    third = counted(rows, (1, 2), (whole[1], whole[2]), 1)
    columns = columns_of(rows)
    model = fit_model(columns, [first], target=TARGET, total=None)
    grown = grow_model(model, [second, third])
    anew = fit_model(columns, [first, second, third], target=TARGET, total=None)
    assert grown.beliefs.states == anew.beliefs.states
    for pair in ((0, 1), (0, 2), (1, 2)):
        apart = np.abs(grown.joint(pair) - anew.joint(pair)).sum()
        moved = np.abs(grown.joint(pair) - model.joint(pair)).sum()
        assert apart < 0.02 * model.total, pair
        assert moved > 0.3 * model.total or pair != (0, 1)
