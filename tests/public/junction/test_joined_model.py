"""The model: exact sums against listing every row, and drawn rows against exact sums."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpublish.public.junction import model as module
from dpublish.public.junction.fit import MeasuredColumn, MeasuredPair, fit_model
from dpublish.public.junction.model import JunctionModel, TableTooLarge

SHAPE = (3, 4, 2, 3, 2)


def small(target: int | None = 4, *, pairs: bool = True) -> JunctionModel:
    """Five columns in two trees: 0 - 1 - 2 and 3."""
    rng = np.random.default_rng(8)
    labels = 1 if target is None else SHAPE[target]
    columns = [
        None if i == target else MeasuredColumn(rng.integers(0, 90, (size, labels)).astype(float), 4.0)
        for i, size in enumerate(SHAPE)
    ]
    groups = [np.array([0, 1, 1]), np.array([0, 0, 1, 2]), np.array([0, 1])]
    measured = [
        MeasuredPair(0, 1, groups[0], groups[1], rng.integers(0, 60, (2, 3, labels)).astype(float), 1.0),
        MeasuredPair(2, 1, groups[2], np.array([0, 1, 1, 1]), rng.integers(0, 60, (2, 2, labels)).astype(float), 1.0),
    ]
    return fit_model(columns, measured if pairs else [], target=target, total=None)


def whole_table(model: JunctionModel) -> np.ndarray:
    """Every cell of the product, by the formula of the model alone."""
    out = np.zeros(SHAPE)
    for cell in itertools.product(*map(range, SHAPE)):
        for label in [0] if model.target is None else [cell[model.target]]:
            value = model.labels[label]
            for column, pair in model.order():
                level = cell[column]
                if pair is None:
                    value *= model.given_label(column)[level, label]
                    continue
                group = pair.second_groups[level]
                value *= pair.second_given_first[pair.first_groups[cell[pair.first]], group, label]
                value *= model.within_group(column, pair.second_groups)[level, label]
            out[cell] += value
    return out


@pytest.mark.parametrize("target", [4, None])
def test_sums_of_any_columns_are_those_of_the_whole_table(target: int | None) -> None:
    model = small(target)
    table = whole_table(model)
    assert np.isclose(table.sum(), model.total)
    for size in (1, 2, 3, 4):
        for columns in itertools.permutations(range(5), size):
            others = tuple(i for i in range(5) if i not in columns)
            kept = sorted(columns)
            wanted = table.sum(axis=others).transpose([kept.index(column) for column in columns])
            assert np.allclose(model.joint(columns), wanted, atol=1e-6), columns


def test_the_order_of_parents_does_not_matter_to_margins() -> None:
    model = small()
    for column in range(4):
        assert np.allclose(model.joint([column, 4]), model.singles[column], atol=1e-2)


def test_columns_apart_are_independent_given_the_label() -> None:
    model = small(pairs=False)
    joint = model.joint([0, 1, 4])
    assert np.allclose(joint, model.singles[0][:, None] * model.singles[1][None] / model.labels)


def test_too_large_a_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_JOINT", 10)
    with pytest.raises(TableTooLarge):
        small().joint([0, 1, 2])


def test_drawn_rows_show_the_model() -> None:
    """Systematic draws: a count of one column is within a few rows of its expectation, a pair's within a few dozen.

    Deterministic by its seed; a shift of one percent of the rows in any pair would show.
    """
    model = small()
    rows = 40_000
    codes = model.sample_codes(rows, np.random.default_rng(3))
    for columns in itertools.combinations(range(5), 2):
        cells = np.ravel_multi_index([codes[c] for c in columns], [SHAPE[c] for c in columns])
        counts = np.bincount(cells, minlength=SHAPE[columns[0]] * SHAPE[columns[1]])
        wanted = model.joint(columns).ravel() * rows / model.total
        assert np.abs(counts - wanted).sum() < 0.02 * rows
    assert np.abs(np.bincount(codes[4]) - model.label_shares * rows).max() <= 1


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_few_rows_can_be_drawn(rows: int) -> None:
    codes = small().sample_codes(rows, np.random.default_rng(1))
    assert [len(code) for code in codes] == [rows] * 5


def test_a_model_without_any_row_is_uniform() -> None:
    columns = [MeasuredColumn(np.full((4, 1), -3.0), 1.0), MeasuredColumn(np.full((2, 1), -1.0), 1.0)]
    model = fit_model(columns, [], target=None, total=None)
    assert model.total == 0
    assert len(np.unique(model.sample_codes(100, np.random.default_rng(0))[0])) == 4
