"""Tables of cliques: their loops against plain sums, and the fit against proportional fitting of
the whole table."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpublish.models.junction_tree.beliefs import Beliefs, Target
from dpublish.models.junction_tree.cliques import CliqueTree
from dpublish.models.junction_tree.consistency import fit_margins
from dpublish.models.junction_tree.kernels import (
    BLOCK,
    scale_and_sum,
    scale_cells,
    sum_cells,
)

STATES = {0: 3, 1: 4, 2: 2, 3: 5, 4: 3}
LABELS = 2


def whole(beliefs: Beliefs) -> np.ndarray:
    """The table of all columns, in order, then the label: cliques over ties."""
    names = "abcdefg"
    out = np.ones((*STATES.values(), LABELS))
    for one, before in beliefs.order:
        separator, new = beliefs.sides(one, before)
        conditional = beliefs.conditional(one, before, new)
        word = "z" + "".join(names[column] for column in (*separator, *new))
        out = np.einsum(f"{names[:5]}z,{word}->{names[:5]}z", out, conditional)
    labels: np.ndarray = beliefs.over(0, [])
    return out * labels


def margin(table: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    gone = tuple(column for column in STATES if column not in columns)
    kept = sorted(columns)
    return np.transpose(
        table.sum(axis=gone), [*(kept.index(column) for column in columns), len(kept)]
    )


def targets(truth: np.ndarray) -> list[Target]:
    """A circle of pairs, a three, and groups: all of one true table, so that all can hold."""
    out = [
        Target(
            columns, tuple(np.arange(STATES[column]) for column in columns), margin(truth, columns)
        )
        for columns in [(0, 1), (2, 1), (3, 2), (0, 3), (4, 2, 0)]
    ]
    group_of = np.array([0, 1, 1, 0, 2])
    coarse = np.zeros((3, STATES[1], LABELS))
    np.add.at(coarse, group_of, margin(truth, (3, 1)))
    return [*out, Target((3, 1), (group_of, np.arange(STATES[1])), coarse)]


def start(truth: np.ndarray, wanted: list[Target]) -> Beliefs:
    beliefs = Beliefs(
        CliqueTree.of(STATES, [target.columns for target in wanted], STATES), STATES, LABELS
    )
    beliefs.start(
        {column: margin(truth, (column,)) for column in STATES}, truth.sum(axis=tuple(STATES))
    )
    return beliefs


def a_table(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.gamma(0.4, 100.0, (*STATES.values(), LABELS))


def test_the_start_is_independent_given_the_label() -> None:
    truth = a_table()
    beliefs = start(truth, targets(truth))
    totals = truth.sum(axis=tuple(STATES))
    expected = totals.copy()
    for column in STATES:
        expected = expected[..., None, :] * (margin(truth, (column,)) / totals)
    assert np.allclose(whole(beliefs), expected)


def test_the_fit_is_that_of_the_whole_table() -> None:
    """Proportional fitting on the tree against the same on all cells; both have one limit, the
    table of largest entropy."""
    truth = a_table()
    wanted = targets(truth)
    beliefs = start(truth, wanted)
    plain = whole(beliefs)
    sweeps = beliefs.fit(wanted, sweeps=400)
    assert sweeps < 400
    for _ in range(400):
        for target in wanted:
            now = np.zeros_like(target.table)
            spots = np.ix_(*(group for group in target.groups))
            np.add.at(now, spots, margin(plain, target.columns))
            factor = (target.table / now)[spots]
            order = np.argsort(target.columns)
            shape = [STATES[column] if column in target.columns else 1 for column in STATES] + [
                LABELS
            ]
            plain = plain * np.transpose(factor, [*order, len(order)]).reshape(shape)
    assert np.abs(whole(beliefs) - plain).sum() < 1e-3 * plain.sum()
    for target in wanted[:-1]:
        assert (
            np.abs(margin(whole(beliefs), target.columns) - target.table).sum() < 1e-3 * plain.sum()
        )


def test_a_fit_goes_on_from_an_earlier_one() -> None:
    """With the factors of some tables known, the walks begin where these fit, and end where they
    end from scratch."""
    truth = a_table(1)
    wanted = targets(truth)
    some = start(truth, wanted[:3])
    some.fit(wanted[:3], sweeps=100)
    wider = start(truth, wanted)
    wider.fit(wanted[:3], sweeps=0, known=some.factors)  # a wider tree, the same model
    assert np.allclose(whole(wider), whole(some))
    on, anew = start(truth, wanted), start(truth, wanted)
    on.fit(wanted, sweeps=400, known=some.factors)
    anew.fit(wanted, sweeps=400)
    assert np.abs(whole(on) - whole(anew)).sum() < 1e-3 * truth.sum()


def test_walks_end_when_they_help_no_more() -> None:
    """Tables that contradict each other: the walks would go on for ever."""
    truth = a_table(2)
    rng = np.random.default_rng(3)
    noisy = [
        Target(one.columns, one.groups, one.table * rng.uniform(0.7, 1.3, one.table.shape))
        for one in targets(truth)
    ]
    assert 3 <= start(truth, noisy).fit(noisy, sweeps=400) < 20


def test_nothing_comes_of_empty_cells() -> None:
    truth = a_table(4)
    truth[1], truth[..., 1] = 0.0, 0.0
    wanted = targets(truth)
    beliefs = start(truth, wanted)
    beliefs.fit(wanted, sweeps=30)
    table = whole(beliefs)
    assert np.isfinite(table).all()
    assert table[1].sum() == 0.0
    assert np.isclose(table.sum(), truth.sum())


@pytest.mark.parametrize("shape", [(7,), (4, 9), (3, 1, 8), (2, 3, 5, 6), (40, 30, 9)])
def test_loops_are_sums_and_products(shape: tuple[int, ...]) -> None:
    """Every choice of columns, whole or in groups, summed and scaled, against sums over an index of
    every cell."""
    rng = np.random.default_rng(len(shape))
    labels, width = 3, shape[-1]
    every = [
        some
        for size in range(len(shape) + 1)
        for some in itertools.combinations(range(len(shape)), size)
    ]
    ways = [(some, grouped) for some in every for grouped in (False, True)]
    cases = []
    for some, grouped in ways:
        groups = [
            rng.permutation(np.arange(shape[axis]) % max(1, shape[axis] // 2)) for axis in some
        ]
        groups = groups if grouped else [np.arange(shape[axis]) for axis in some]
        spot = np.zeros((1,) * len(shape), dtype=np.int64)
        for axis, group_of in zip(some, groups, strict=True):
            wide = [1] * len(shape)
            wide[axis] = -1
            spot = spot * (int(group_of.max()) + 1) + group_of.reshape(wide)
        index = np.broadcast_to(spot, shape).reshape(-1, width)
        last = len(shape) - 1 in some
        kind = 0 if not last else 2 if grouped else 1
        inner = groups[-1].astype(np.int32) if last else np.zeros(width, dtype=np.int32)
        base = (index[:, 0] - inner[0]).astype(np.int32)
        assert np.array_equal(base[:, None] + inner, index)
        cases.append((base, inner, kind, index.ravel(), int(index.max()) + 1))
    for base, inner, kind, index, cells in cases:
        table = rng.random(labels * math.prod(shape))
        sums, factor = np.empty((labels, cells)), rng.random((labels, cells))
        plain = np.stack(
            [np.bincount(index, part, minlength=cells) for part in table.reshape(labels, -1)]
        )
        sum_cells(table, base, inner, kind, sums)
        assert np.allclose(sums, plain)
        scaled = (table.reshape(labels, -1) * factor[:, index]).ravel()
        other = cases[int(rng.integers(len(cases)))]
        both, after = table.copy(), np.empty((labels, other[4]))
        scale_and_sum(both, base, inner, kind, factor, *other[:3], after)
        scale_cells(table, base, inner, kind, factor)
        assert np.allclose(table, scaled)
        assert np.array_equal(both, table)
        assert np.allclose(
            after,
            np.stack(
                [
                    np.bincount(other[3], part, minlength=other[4])
                    for part in scaled.reshape(labels, -1)
                ]
            ),
        )
    assert (
        shape != (40, 30, 9) or math.prod(shape) > 2 * BLOCK
    )  # the largest goes through more than one block


@pytest.mark.parametrize("shape", [(3, 4, 2), (5, 2, 3, 1)])
def test_margins_are_fitted(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    axes = range(len(shape) - 1)
    wanted, table = rng.gamma(1.0, 10.0, shape), rng.gamma(1.0, 10.0, shape)
    margins = [wanted.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]
    fitted = fit_margins(table, margins)
    for axis, given in enumerate(margins):
        assert np.allclose(
            fitted.sum(axis=tuple(other for other in axes if other != axis)), given, rtol=1e-5
        )
    # what proportional fitting keeps: ratios of ratios
    ratio = fitted / table
    assert np.isclose(ratio[0, 0] * ratio[1, 1], ratio[0, 1] * ratio[1, 0]).all()
