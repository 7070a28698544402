"""The privacy statement says what was proved, for every kind of cost."""

from __future__ import annotations

import pytest

from dpublish.cost import Cost
from dpublish.plan import Plan
from dpublish.private.statement import privacy_statement
from dpublish.schema import Schema

SCHEMA = Schema.from_toml('[dataset]\nname = "t"\n[columns.a]\nkind = "boolean"\n')


def statement(cost: Cost, *, publishable: bool = True) -> str:
    return privacy_statement(Plan(method="m", kind="k", schema=SCHEMA, cost=cost), publishable=publishable)


def test_pure_and_approximate() -> None:
    assert "exp(1) = 2.72 times" in statement(Cost.pure(1))
    assert "(except with probability 1e-6)" in statement(Cost.approximate(1, "1e-6"))


def test_zcdp_is_never_said_to_bound_nothing_or_everything() -> None:
    """rho has no factor of its own: it is stated at a probability of exception, and grows with rho."""
    text = statement(Cost.zcdp("1/2"))
    assert "exp(0)" not in text
    assert "(except with probability 1e-9)" in text
    factors = [float(statement(Cost.zcdp(rho)).split("exp(")[1].split(")")[0]) for rho in ("1/100", "1/2", 2)]
    assert factors == sorted(factors)
    assert factors[1] == pytest.approx(6.6, abs=0.7)


def test_test_releases_say_so_first() -> None:
    assert statement(Cost.pure(1), publishable=False).startswith("NOT PUBLISHABLE")


@pytest.mark.parametrize(
    ("epsilon", "said"), [("0.7", "exp(0.7) = 2.02 times"), ("1.1", "exp(1.1) = 3.01 times"), ("1/3", "exp(1/3) = 1.40 times")]
)
def test_a_promise_is_never_rounded_down(epsilon: str, said: str) -> None:
    assert said in statement(Cost.pure(epsilon))
    assert "probability 1.2344e-5)" in statement(Cost.approximate(epsilon, "1.2344e-5"))
