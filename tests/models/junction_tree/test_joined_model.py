"""The model: exact sums against listing every row, and drawn rows against exact sums."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpublish.models.junction_tree import model as module
from dpublish.models.junction_tree.fit import MeasuredColumn, MeasuredTable, fit_model
from dpublish.models.junction_tree.model import JunctionModel, TableTooLarge

SHAPE = (3, 4, 2, 3, 2)


def small(target: int | None = 4, *, pairs: bool = True, loops: bool = False) -> JunctionModel:
    """Five columns in two trees: 0 - 1 - 2 and 3; with `loops`, 0 - 2 and 1 - 3 and the three
    columns 0, 1, 2 as well."""
    rng = np.random.default_rng(8)
    labels = 1 if target is None else SHAPE[target]
    columns = [
        None
        if i == target
        else MeasuredColumn(rng.integers(0, 90, (size, labels)).astype(float), 4.0)
        for i, size in enumerate(SHAPE)
    ]
    groups = [np.array([0, 1, 1]), np.array([0, 0, 1, 2]), np.array([0, 1])]
    measured = [
        MeasuredTable(
            (0, 1), (groups[0], groups[1]), rng.integers(0, 60, (2, 3, labels)).astype(float), 1.0
        ),
        MeasuredTable(
            (2, 1),
            (groups[2], np.array([0, 1, 1, 1])),
            rng.integers(0, 60, (2, 2, labels)).astype(float),
            1.0,
        ),
    ]
    if loops:
        sides = (groups[0], groups[1], groups[2])
        measured += [
            MeasuredTable(
                (0, 2),
                (groups[0], groups[2]),
                rng.integers(0, 60, (2, 2, labels)).astype(float),
                1.0,
                1,
            ),
            MeasuredTable(
                (1, 3),
                (groups[1], np.arange(3)),
                rng.integers(0, 60, (3, 3, labels)).astype(float),
                1.0,
                1,
            ),
            MeasuredTable(
                (0, 1, 2), sides, rng.integers(0, 20, (2, 3, 2, labels)).astype(float), 1.0, 2
            ),
        ]
    return fit_model(columns, measured if pairs else [], target=target, total=None)


def whole_table(model: JunctionModel) -> np.ndarray:
    """Every cell of the product, by the formula of the model alone: cliques over ties, levels
    within states."""
    out = np.zeros(SHAPE)
    beliefs = model.beliefs
    for cell in itertools.product(*map(range, SHAPE)):
        for label in [0] if model.target is None else [cell[model.target]]:
            value = model.labels[label]
            for one, before in beliefs.order:
                separator, new = beliefs.sides(one, before)
                given = beliefs.conditional(one, before, new)
                value *= given[
                    (
                        label,
                        *(model.state_of[column][cell[column]] for column in (*separator, *new)),
                    )
                ]
            for column in model.columns:
                value *= model.within_state(column)[cell[column], label]
            out[cell] += value
    return out


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("target", [4, None])
def test_sums_of_any_columns_are_those_of_the_whole_table(target: int | None, loops: bool) -> None:
    model = small(target, loops=loops)
    table = whole_table(model)
    assert np.isclose(table.sum(), model.total)
    for size in (1, 2, 3, 4):
        for columns in itertools.permutations(range(5), size):
            others = tuple(i for i in range(5) if i not in columns)
            kept = sorted(columns)
            wanted = table.sum(axis=others).transpose([kept.index(column) for column in columns])
            assert np.allclose(model.joint(columns), wanted, atol=1e-6), columns
    singly = {column: model.spread(column, np.arange(SHAPE[column])) for column in model.columns}
    for first in model.columns:
        for second, found in model.pairwise_marginals(first, singly).items():
            assert np.allclose(found.sum(axis=2), model.joint([first, second]), atol=1e-6)


def test_loops_are_fitted() -> None:
    """Tables of one true table, hardly any noise: the model has all of them, and is nearer the
    truth than its forest alone."""
    rng = np.random.default_rng(9)
    truth = rng.dirichlet(np.full(int(np.prod(SHAPE)), 0.5)).reshape(SHAPE) * 10_000
    columns = [None if i == 4 else MeasuredColumn(_margin(truth, (i, 4)), 1e-6) for i in range(5)]

    def counted(number: int, *names: int) -> MeasuredTable:
        return MeasuredTable(
            names,
            tuple(np.arange(SHAPE[c]) for c in names),
            _margin(truth, (*names, 4)),
            1e-6,
            number,
        )

    forest = [counted(0, 0, 1), counted(0, 1, 2), counted(0, 2, 3)]
    more = [counted(1, 0, 3), counted(1, 0, 2), counted(2, 1, 3), counted(2, 0, 1, 2)]
    model = fit_model(columns, [*forest, *more], target=4, total=None)
    for table in [*forest, *more]:
        assert np.abs(model.joint([*table.columns, 4]) - table.counts).sum() < 0.01 * model.total, (
            table.columns
        )
    alone = fit_model(columns, forest, target=4, total=None)
    errors = [np.abs(one.joint(range(5)) - truth).sum() for one in (model, alone)]
    assert errors[0] < 0.8 * errors[1]


def _margin(truth: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    kept = sorted(columns)
    summed = truth.sum(axis=tuple(i for i in range(5) if i not in columns))
    return np.transpose(summed, [kept.index(column) for column in columns])


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
    """Systematic draws: a count of one column is within a few rows of its expectation, a pair's
    within a few dozen.

    Deterministic by its seed; a shift of one percent of the rows in any pair would show.
    """
    model = small(loops=True)
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
    columns = [
        MeasuredColumn(np.full((4, 1), -3.0), 1.0),
        MeasuredColumn(np.full((2, 1), -1.0), 1.0),
    ]
    model = fit_model(columns, [], target=None, total=None)
    assert model.total == 0
    assert len(np.unique(model.sample_codes(100, np.random.default_rng(0))[0])) == 4
