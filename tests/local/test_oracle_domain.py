"""The asker chooses a question's domain, so a record outside it must not show by an error."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish import local
from dpublish.errors import InputError


@pytest.mark.parametrize("levels", [2, 4, 6, 7, 8, 9])
def test_no_choice_of_domain_tells_a_record(levels: int) -> None:
    oracle = local.LocalOracle(np.array([7]), epsilon=1)
    report = oracle.ask(0, local.KaryResponse(levels, "1/100"))
    assert report is not None
    assert oracle.spent(0) == pytest.approx(0.01)


def test_only_the_record_itself_is_replaced() -> None:
    oracle = local.LocalOracle(np.array([1, 7, 0, 1]), epsilon=40)
    reports = oracle.ask_many(local.KaryResponse(2, 24))  # epsilon 24 reports the truth, as good as always
    assert np.asarray(reports).tolist() == [1, 0, 0, 1]


def test_a_question_of_another_shape_is_refused_unpaid() -> None:
    oracle = local.LocalOracle(np.array([[0, 1], [1, 1]]), epsilon=1)
    with pytest.raises(InputError):
        oracle.ask_many(local.KaryResponse(2, "1/2"))
    assert oracle.spent(0) == 0
