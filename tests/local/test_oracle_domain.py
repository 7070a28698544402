"""The asker chooses a question's domain, so a record outside it must not show by an error."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish import local
from dpublish.errors import InputError, PlanError


@pytest.mark.parametrize("levels", [2, 4, 6, 7, 8, 9])
def test_no_choice_of_domain_tells_a_record(levels: int) -> None:
    oracle = local.LocalOracle(np.array([7]), epsilon=1)
    report = oracle.ask(0, local.KaryResponse(levels, "1/100"))
    assert report is not None
    assert oracle.spent(0) == pytest.approx(0.01)


def test_only_the_record_itself_is_replaced() -> None:
    oracle = local.LocalOracle(np.array([1, 7, 0, 1]), epsilon=40)
    reports = oracle.ask_many(
        local.KaryResponse(2, 24)
    )  # epsilon 24 reports the truth, as good as always
    assert np.asarray(reports).tolist() == [1, 0, 0, 1]


def test_a_question_of_another_shape_is_refused_unpaid() -> None:
    oracle = local.LocalOracle(np.array([[0, 1], [1, 1]]), epsilon=1)
    with pytest.raises(InputError):
        oracle.ask_many(local.KaryResponse(2, "1/2"))
    assert oracle.spent(0) == 0


def test_records_are_numbers() -> None:
    """With other objects an error after the debit could tell one record from another."""
    for records in (np.array([1, "x"], dtype=object), ["a", "b"], [1, None], 3):
        with pytest.raises(InputError, match="Records must be numbers"):
            local.LocalOracle(records, epsilon=1)


@pytest.mark.parametrize(
    ("lower", "upper"), [(0, 10**400), (-(10**400), 0), (0, Fraction(5e-324)), (1, 1)]
)
def test_bounds_that_floating_point_cannot_hold_are_refused(lower: Any, upper: Any) -> None:
    with pytest.raises(PlanError):
        local.MeanResponse(lower, upper, 1)
