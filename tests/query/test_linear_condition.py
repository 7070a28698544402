"""Conditions about weighted sums: how they are read, and what is refused."""

from __future__ import annotations

import datetime as dt

import pytest

from dpublish.errors import QueryError
from dpublish.query.linear_condition import linear_condition

COLUMNS = {"age": "integer", "weight": "real", "last visit": "date"}


@pytest.mark.parametrize(
    ("text", "weights", "bound"),
    [
        ("age >= 40", {"age": 1.0}, 40.0),
        ("2 * age + weight / 4 > 150", {"age": 2.0, "weight": 0.25}, 150.0),
        ("age < 40", {"age": -1.0}, -40.0),
        ("40 <= age", {"age": 1.0}, 40.0),
        ("age - weight >= 0", {"age": 1.0, "weight": -1.0}, 0.0),
        ("age + 3 >= weight * 2 - 1", {"age": 1.0, "weight": -2.0}, -4.0),
        ("(-(age) - (2 + 3) * 2) <= -50", {"age": 1.0}, 40.0),
        (
            "\"last visit\" >= '2020-01-31'",
            {"last visit": 1.0},
            float(dt.date(2020, 1, 31).toordinal()),
        ),
        ("age + age >= 10", {"age": 2.0}, 10.0),
    ],
)
def test_a_condition_is_a_weighted_sum_and_a_bound(
    text: str, weights: dict[str, float], bound: float
) -> None:
    found = linear_condition(text, COLUMNS)
    assert {name: weight for name, weight in found.weights.items() if weight} == weights
    assert found.bound == pytest.approx(bound)
    assert found.strict == (">" in text.replace(">=", "") or "<" in text.replace("<=", ""))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age", "not a comparison"),
        ("age = 3", "not a comparison"),
        ("age > 3 and weight > 4", "not a comparison"),
        ("age * weight > 3", "not linear"),
        ("3 / age > 3", "not linear"),
        ("age / 0 > 3", "not linear"),
        ("agee > 3", "did you mean|Did you mean"),
        ("3 > 2", "names no column"),
        ("age - age > 2", "names no column"),
        ("age > 'old'", "neither a number nor one of dates"),
        ("age > true", "not a number"),
        ("age > null", "not a number"),
        ("age > sqrt(3)", "not a constant"),
        ("age > 1e400", "too large"),
        ("1e300 * 1e300 * age > 1", "too large"),
        ("age >", "does not parse"),
        ("", "empty"),
        ("- " * 400 + "age > 1", "nested"),
    ],
)
def test_what_is_no_halfspace_is_refused_with_a_reason(text: str, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        linear_condition(text, COLUMNS)
