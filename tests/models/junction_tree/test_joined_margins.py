"""Least squares, projections and groups of noisy tables."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish.models.junction_tree.cliques import group_levels, group_limits, level_order
from dpublish.models.junction_tree.consistency import (
    GroupSums,
    fit_margins,
    least_squares,
    onto_simplex,
    solve_precision,
    sum_groups,
)
from dpublish.models.junction_tree.fit import MeasuredTable, common_states, fit_table, join_tables


def test_projection_is_the_nearest_non_negative_table_with_the_totals() -> None:
    rng = np.random.default_rng(1)
    table, totals = rng.normal(0, 5, (30, 3)), np.array([10.0, 1.0, 0.0])
    got = onto_simplex(table, totals)
    assert got.min() >= 0
    assert np.allclose(got.sum(axis=0), totals)
    for _ in range(200):  # no other table of that kind is nearer
        other = rng.dirichlet(np.full(30, 0.3), 3).T * totals
        assert np.all(((got - table) ** 2).sum(axis=0) <= ((other - table) ** 2).sum(axis=0) + 1e-9)


def test_least_squares_is_that_of_the_normal_equations() -> None:
    rng = np.random.default_rng(2)
    table = rng.normal(20, 3, (12, 2))
    first, second = np.arange(12) // 3, np.arange(12) % 5
    more = [
        GroupSums(first, rng.normal(60, 4, (4, 2)), 7.0),
        GroupSums(second, rng.normal(48, 4, (5, 2)), 2.0),
    ]
    rows = [np.eye(12) / 3.0] + [
        np.eye(len(one.sums))[one.group_of].T / np.sqrt(one.variance) for one in more
    ]
    right = [table / 3.0] + [one.sums / np.sqrt(one.variance) for one in more]
    wanted = np.linalg.lstsq(np.vstack(rows), np.vstack(right), rcond=None)[0]
    assert np.allclose(least_squares(table, 9.0, more), wanted, atol=1e-6)
    precision = np.vstack(rows).T @ np.vstack(rows)
    assert np.allclose(solve_precision(np.eye(12), 9.0, more), np.linalg.inv(precision), atol=1e-7)
    assert least_squares(table, 9.0, []) is table


def test_proportional_fitting_meets_both_margins() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.random((4, 2)), rng.random((6, 2))
    second *= first.sum(axis=0) / second.sum(axis=0)
    got = fit_margins(rng.random((4, 6, 2)), [first, second], rounds=500)
    assert np.allclose(got.sum(axis=1), first, atol=1e-5)
    assert np.allclose(got.sum(axis=0), second, atol=1e-5)


def test_a_pair_agrees_with_its_columns_whatever_the_noise() -> None:
    rng = np.random.default_rng(4)
    labels = np.array([300.0, 0.0])
    singles = [onto_simplex(rng.normal(0, 30, (n, 2)), labels) for n in (5, 7)]
    groups = [np.array([0, 0, 1, 1, 2]), np.arange(7) % 2]
    pair = MeasuredTable((0, 1), (groups[0], groups[1]), rng.normal(0, 50, (3, 2, 2)), 2500.0)
    states = {column: common_states(count, column, [pair]) for column, count in ((0, 5), (1, 7))}
    assert states[0].tolist() == groups[0].tolist()
    fitted = fit_table(pair, join_tables(labels, singles, states, [], target=None), singles, labels)
    assert fitted.table.min() >= 0
    assert np.allclose(fitted.table.sum(axis=1), sum_groups(singles[0], groups[0], 3), atol=1e-3)
    assert np.allclose(fitted.table.sum(axis=0), sum_groups(singles[1], groups[1], 2), atol=1e-3)


@pytest.mark.parametrize("most", [1, 2, 5, 40])
@pytest.mark.parametrize("ordered", [True, False])
def test_groups_are_few_and_follow_the_order(most: int, ordered: bool) -> None:
    rng = np.random.default_rng(6)
    table = rng.exponential(10, (40, 2)) * (rng.random((40, 1)) < 0.7)
    order = level_order(table, ordered=ordered)
    assert sorted(order) == list(range(40))
    groups = group_levels(table.sum(axis=1), order, most)
    assert np.array_equal(np.unique(groups), np.arange(groups.max() + 1))
    assert groups.max() < most
    assert np.all(np.diff(groups[order]) >= 0)


def test_heavy_levels_stay_alone_and_empty_columns_have_one_group() -> None:
    mass = np.array([1.0, 900.0, 1.0, 1.0, 700.0, 1.0])
    groups = group_levels(mass, np.arange(6), 5)
    assert groups[1] not in groups[[0, 2, 3, 4, 5]]
    assert set(group_levels(np.zeros(9), np.arange(9), 4)) == {0}
    assert set(group_levels(np.zeros(1), np.arange(1), 4)) == {0}


def test_limits_give_room_to_the_larger_side() -> None:
    assert group_limits(2, 100, 200.0) == (2, 100)
    assert group_limits(2, 300, 200.0) == (2, 100)
    assert group_limits(300, 3, 90.0) == (30, 3)
    assert group_limits(50, 50, 100.0) == (10, 10)
    assert group_limits(50, 50, 0.1) == (1, 1)
