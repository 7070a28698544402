"""Theorem 27 as it is stated here: against the best private methods of tiny classes, and against
noise that is really drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dpublish.errors import PlanError
from dpublish.workloads import theory
from dpublish.workloads.shattering import two_digits

RELATIONS = ("replace-one", "add-remove-one")


def least_loss(
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    loss: Callable[[Any, Any], float],
    near: Callable[[Any, Any], bool],
    epsilon: float,
) -> float:
    """The least worst expected loss of an epsilon-private method with these outputs: a linear
    program."""
    from scipy.optimize import linprog

    each = len(outputs)
    size = len(inputs) * each + 1  # the last unknown is the worst loss
    limits, sums = [], []
    for place, given in enumerate(inputs):
        row, total = np.zeros(size), np.zeros(size)
        row[place * each : (place + 1) * each] = [loss(given, output) for output in outputs]
        row[-1] = -1
        total[place * each : (place + 1) * each] = 1
        limits.append(row)
        sums.append(total)
        for other, second in enumerate(inputs):
            if place != other and near(given, second):
                for output in range(each):
                    line = np.zeros(size)
                    line[place * each + output], line[other * each + output] = 1, -math.exp(epsilon)
                    limits.append(line)
    found = linprog(
        np.eye(size)[-1],
        A_ub=np.array(limits),
        b_ub=np.zeros(len(limits)),
        A_eq=np.array(sums),
        b_eq=np.ones(len(sums)),
    )
    assert found.success
    return float(found.fun)


def distance(one: Sequence[int], two: Sequence[int]) -> int:
    return sum(abs(a - b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0])
def test_the_best_private_count_meets_the_bound(epsilon: float) -> None:
    """One point that is there or not: the best method errs by exactly what is stated."""
    grid = [place / 8 for place in range(9)]
    least = least_loss([(0,), (1,)], grid, lambda x, a: abs(a - x[0]), lambda x, y: True, epsilon)
    stated = theory.dimension_lower_bound(1, epsilon, neighbours="add-remove-one", rows=1)
    assert (
        stated
        == pytest.approx(least, rel=1e-6)
        == pytest.approx(1 / (1 + math.exp(epsilon)), rel=1e-6)
    )


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_the_best_private_answers_to_all_sets_of_two_points(epsilon: float) -> None:
    """All subsets of two points, every table of at most one row per point: within twice of the
    bound, never below it."""
    inputs = list(itertools.product((0, 1), repeat=2))
    half = (0, 0.5, 1)
    outputs = list(itertools.product(half, half, (0, 0.5, 1, 1.5, 2)))

    def loss(x: Any, a: Any) -> float:
        return max(abs(a[0] - x[0]), abs(a[1] - x[1]), abs(a[2] - x[0] - x[1]))

    least = least_loss(inputs, outputs, loss, lambda x, y: distance(x, y) == 1, epsilon)
    stated = theory.dimension_lower_bound(2, epsilon, neighbours="add-remove-one", rows=2)
    assert stated <= least + 1e-9
    assert least <= 2 * stated


@pytest.mark.parametrize("pairs", [1, 2])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0])
def test_randomised_response_meets_the_bound_under_replace_one(pairs: int, epsilon: float) -> None:
    """Each of two rows stands at one of two points, all sets of the four points are asked: answers
    from rows that are each flipped with probability 1 / (1 + e^epsilon) err by the number of flips,
    and that is what is stated."""
    flip = 1 / (1 + math.exp(epsilon))
    stated = theory.dimension_lower_bound(2 * pairs, epsilon, neighbours="replace-one", rows=pairs)
    assert stated == pytest.approx(pairs * flip)
    # a set that holds the points that rows left, and not those they came to, is off by the number
    # of flips
    for flipped in itertools.product((0, 1), repeat=pairs):
        sets = itertools.product((0, 1), repeat=2 * pairs)
        worst = max(
            abs(sum((s[2 * i] - s[2 * i + 1]) for i in range(pairs) if flipped[i])) for s in sets
        )
        assert worst == sum(flipped)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_no_method_beats_the_bound_under_replace_one(epsilon: float) -> None:
    """Two rows on three points, all subsets asked, every neighbouring pair of tables."""
    inputs = [x for x in itertools.product(range(3), repeat=3) if sum(x) == 2]
    sets = [s for s in itertools.product((0, 1), repeat=3) if 0 < sum(s) < 3]
    points = [
        tuple(value / 2 for value in x)
        for x in itertools.product(range(5), repeat=3)
        if sum(x) == 4
    ]

    def loss(x: Any, a: Any) -> float:
        return max(abs(sum(s[i] * (x[i] - a[i]) for i in range(3))) for s in sets)

    least = least_loss(inputs, points, loss, lambda x, y: distance(x, y) == 2, epsilon)
    assert (
        theory.dimension_lower_bound(3, epsilon, neighbours="replace-one", rows=2) <= least + 1e-9
    )


def test_what_is_constant_costs_nothing_under_replace_one() -> None:
    """A class that shatters one point need not tell two points apart, and the number of rows is
    public."""
    assert theory.vc_dimension([[0, 0], [1, 1]]) == 1
    assert theory.dimension_lower_bound(1, 1.0, neighbours="replace-one") == 0
    assert theory.dimension_lower_bound(1, 1.0, neighbours="add-remove-one") > 0
    assert (
        theory.class_sentences([[0, 0], [1, 1]], rows=9, epsilon=1.0, neighbours="replace-one")
        == []
    )


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("failure", [0.01, 0.05, 0.2])
def test_noise_that_is_drawn_reaches_the_stated_error_as_often(
    epsilon: float, failure: float
) -> None:
    """Discrete Laplace noise on one count: P(|X| >= t) is above `failure` at the stated t, and t is
    near its quantile."""
    stated = theory.dimension_lower_bound(1, epsilon, neighbours="add-remove-one", failure=failure)
    decay = math.exp(-epsilon)
    least = math.ceil(stated)
    assert (1.0 if least == 0 else 2 * decay**least / (1 + decay)) > failure
    if epsilon <= 0.3:
        assert stated >= 0.4 * math.log((1 - failure) / failure) / epsilon


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_expected_error_of_many_counts_is_above_the_bound(relation: str) -> None:
    """All subsets of d points answered from noisy counts of the points: the largest error, on
    average over 400 draws."""
    rng = np.random.default_rng(4)
    for size, epsilon in itertools.product((1, 2, 5, 12), (0.1, 1.0)):
        scale = (2 if relation == "replace-one" else 1) / epsilon
        decay = math.exp(-1 / scale)
        tails = rng.geometric(1 - decay, (2, 400, size))
        noise = tails[0] - tails[1]
        largest = np.maximum(np.maximum(noise, 0).sum(axis=1), np.maximum(-noise, 0).sum(axis=1))
        for failure in (None, 0.05):
            stated = theory.dimension_lower_bound(
                size, epsilon, neighbours=relation, failure=failure
            )
            seen = largest.mean() if failure is None else np.quantile(largest, 0.95)
            assert stated <= seen


@pytest.mark.parametrize("relation", RELATIONS)
def test_delta_rows_and_units(relation: str) -> None:
    def bound(dimension: int = 8, epsilon: float = 1.0, **more: Any) -> float:
        return theory.dimension_lower_bound(dimension, epsilon, neighbours=relation, **more)

    assert bound(delta=0.1) == pytest.approx(0.9 * bound())
    assert bound(delta=1.0) == 0
    assert 0 < bound(epsilon=0.1, delta=0.01) < bound(epsilon=0.1)
    assert bound(epsilon=3) < bound(epsilon=1) < bound(epsilon=0.1)
    assert bound(gamma=0.25) == pytest.approx(bound() / 2)
    assert bound(rows_per_unit=3, rows=300) == pytest.approx(3 * bound(rows=100))
    assert bound(rows=0) == 0
    assert bound(rows=1) < bound(rows=100)
    assert bound(failure=0.4) == 0
    assert bound(dimension=0) == 0
    # with few units at stake the largest error is of the order of 1 / epsilon
    assert bound(epsilon=0.001) == pytest.approx(100 * bound(epsilon=0.1), rel=0.05)
    # the constant of a large class: d / 4 of the least chance to mistake one neighbour for the
    # other
    assert bound(dimension=400, epsilon=2.0) == pytest.approx(100 / (1 + math.exp(2)))
    assert bound(dimension=400, epsilon=2.0, failure=0.05) == pytest.approx(
        100 * (1 / (1 + math.exp(2)) - 0.05) / 0.95
    )


def test_wrong_arguments() -> None:
    with pytest.raises(PlanError, match="neighbours"):
        theory.dimension_lower_bound(2, 1.0, neighbours="both")
    with pytest.raises(PlanError, match="gamma"):
        theory.dimension_lower_bound(2, 1.0, neighbours="replace-one", gamma=0.6)


def test_bounds_are_rounded_to_the_safe_side() -> None:
    assert (two_digits(0.26894), two_digits(0.26894, up=True)) == ("0.26", "0.27")
    assert (two_digits(1.0), two_digits(1.0, up=True)) == ("1", "1")
    assert (two_digits(0.00251), two_digits(0.00251, up=True)) == ("0.0025", "0.0026")
    assert float(two_digits(123456.0)) <= 123456
