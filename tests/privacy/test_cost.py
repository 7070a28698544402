"""Exact amounts, composition, and conversions that never round in the user's favour."""

from __future__ import annotations

import itertools
import json
import math
import random
import sys
from decimal import Decimal
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from dpublish.errors import BudgetError, PlanError
from dpublish.privacy.cost import (
    Budget,
    Cost,
    exact,
    largest_rho,
    positive,
    sequential,
    show,
    simple_epsilon,
    tight_epsilon,
)

RHOS = [F(1, 10**9), F(1, 10**4), F(1, 200), F(1, 8), F(1, 2), F(2), F(15)]
DELTAS = [F(1, 10**15), F(1, 10**9), F(1, 10**6), F(1, 1000), F(1, 10)]


# -- reading numbers
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (1, F(1)),
        (0.1, F(1, 10)),
        (1e-300, F(1, 10**300)),
        ("1/3", F(1, 3)),
        (" 0.5 ", F(1, 2)),
        ("1e-6", F(1, 10**6)),
        (".25", F(1, 4)),
        (Decimal("0.30"), F(3, 10)),
        (F(2, 7), F(2, 7)),
        (np.float64(0.1), F(1, 10)),
        (np.int64(3), F(3)),
        (-2, F(-2)),
    ],
)
def test_a_number_means_what_was_written(given: Any, value: F) -> None:
    assert exact(given) == value


@pytest.mark.parametrize(
    "given",
    [
        float("nan"),
        float("inf"),
        "nan",
        "-Infinity",
        Decimal("sNaN"),
        True,
        None,
        [],
        "abc",
        "",
        "1/0",
        "1e9999",
        "9" * 500,
        "١",
    ],
)
def test_what_is_not_a_number_is_named(given: Any) -> None:
    with pytest.raises(PlanError, match="rho"):
        exact(given, "rho")


def test_signs() -> None:
    for bad in (0, -1, "-1/2"):
        with pytest.raises(PlanError, match="above 0"):
            positive(bad)
    for fields in ({"epsilon": -1}, {"delta": -1}, {"rho": "-0.1"}, {"epsilon": 1, "rho": 1}):
        with pytest.raises(PlanError):
            Cost(**fields)
    for fields in (
        {},
        {"epsilon": 1, "rho": 1},
        {"epsilon": 0},
        {"epsilon": 1, "delta": 1},
        {"rho": 1, "delta_share": 2},
    ):
        with pytest.raises(PlanError):
            Budget(**fields)


def test_show_is_short_and_never_below() -> None:
    shown = [
        show(F(x)) for x in ("0", "300", "1/3", "0.1", "1e-18", "0.000123456789012345", "1/1234567")
    ]
    assert shown == ["0", "300", "1/3", "0.1", "1e-18", "0.000123456789012345", "8.10001e-7"]
    rng = random.Random(1)
    for _ in range(300):
        x = F(rng.randrange(1, 10**9), rng.randrange(1, 10**9))
        assert F(show(x)) >= x


# -- composition
# ------------------------------------------------------------------------------------------


def test_kinds_and_sums() -> None:
    pure, approximate, zcdp = (
        Cost.pure("1/2"),
        Cost.approximate(1, "1e-6"),
        Cost.zcdp("1/8", "1e-9"),
    )
    assert [c.kind for c in (Cost(), pure, approximate, zcdp)] == [
        "pure",
        "pure",
        "approximate",
        "zcdp",
    ]
    assert pure + pure == Cost.pure(1)
    assert pure.then(approximate) == Cost.approximate("3/2", "1e-6")
    assert pure + zcdp == zcdp + pure == Cost.zcdp(F(1, 8) + F(1, 8), "1e-9")
    assert approximate + zcdp == Cost.zcdp(F(1, 8) + F(1, 2), F(1, 10**6) + F(1, 10**9))
    assert sequential([pure] * 3) == pure.scaled(3) == Cost.pure("3/2")
    assert sequential([]) == Cost()
    assert zcdp.scaled(0) == Cost()
    for bad in (-1, 1.5, True):
        with pytest.raises(PlanError):
            pure.scaled(bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        pure + 1


# -- conversions
# ------------------------------------------------------------------------------------------


def gaussian_delta(rho: F, epsilon: F) -> float:
    """Exact delta of the Gaussian mechanism with this rho (Balle and Wang 2018), for epsilon given
    as a fraction."""
    from scipy.special import log_ndtr

    mu, eps = math.sqrt(2 * rho), float(epsilon)
    a, b = log_ndtr(mu / 2 - eps / mu), eps + log_ndtr(-mu / 2 - eps / mu)
    return math.exp(a) * -math.expm1(b - a)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_to_approximate_is_never_below_the_truth_and_agrees_with_dp_accounting(
    rho: F, delta: F
) -> None:
    from dp_accounting.rdp import compute_epsilon

    ours = tight_epsilon(rho, delta)
    assert ours <= simple_epsilon(rho, delta)
    # The Gaussian mechanism is rho-zCDP, so its exact delta at our epsilon must not pass the one we
    # promise.
    assert gaussian_delta(rho, ours) <= float(delta) * (1 + 1e-6)
    # The same bound, minimised over a dense grid of orders; the grid's best is at least the
    # optimum.
    orders = 1 + np.exp(np.linspace(-6, 26, 20_001))
    theirs, _ = compute_epsilon(orders, orders * float(rho), float(delta))
    if theirs > 0:  # for large delta it uses a further bound that gives 0
        assert float(ours) == pytest.approx(theirs, rel=0.01)
        assert float(ours) >= theirs * (1 - 1e-5)


def test_the_tight_bound_holds_in_high_precision() -> None:
    """Recompute proposition 12 with ball arithmetic at the best of many orders: never above what we
    return."""
    from flint import arb, ctx, fmpq

    before, ctx.prec = ctx.prec, 300
    try:
        for rho, delta in itertools.product(RHOS, DELTAS):
            ours = tight_epsilon(rho, delta)
            r, d = (
                arb(fmpq(rho.numerator, rho.denominator)),
                arb(fmpq(delta.numerator, delta.denominator)),
            )
            centre = 0.5 * math.log(math.log(1 / delta) / rho)
            orders = [1 + arb(centre + t / 50).exp() for t in range(-200, 201)]
            values = [a * r + (1 - 1 / a).log() + (-d.log() - a.log()) / (a - 1) for a in orders]
            best = min(float(value.mid()) for value in values)
            assert float(ours) <= max(best, 0) * (1 + 1e-9) + 1e-30
            assert float(ours) >= max(best, 0) * (1 - 1e-4)
            simple = r + 2 * (r * -d.log()).sqrt()
            bound = simple_epsilon(rho, delta)
            assert arb(fmpq(bound.numerator, bound.denominator)) >= simple
    finally:
        ctx.prec = before


@pytest.mark.parametrize("epsilon", [F(1, 1000), F(1, 10), F(1), F(8), F(40)])
@pytest.mark.parametrize("delta", DELTAS)
def test_largest_rho_comes_back_within_epsilon_and_is_nearly_largest(epsilon: F, delta: F) -> None:
    rho = largest_rho(epsilon, delta)
    assert tight_epsilon(rho, delta) <= epsilon
    assert tight_epsilon(rho * F(1001, 1000), delta) > epsilon
    budget = Budget(epsilon=epsilon, delta=delta, delta_share=1)
    assert budget.cap.covers(budget.charge(Cost.zcdp(rho)))


@pytest.mark.parametrize("left", [F(1, 10**4), F(1, 10**22), F(1, 10**60)])
def test_a_delta_that_is_nearly_one(left: F) -> None:
    rho = largest_rho(1, 1 - left)
    assert rho > 0
    assert tight_epsilon(rho, 1 - left) <= 1


def test_conversions_of_costs() -> None:
    assert Cost.pure("0.6").to_zcdp() == Cost.zcdp("0.18")
    assert Cost.approximate("0.6", "1e-9").to_zcdp() == Cost.zcdp("0.18", "1e-9")
    assert Cost.pure(1).to_approximate("1e-6") == Cost.approximate(1, "1e-6")
    converted = Cost.zcdp("0.1", "1e-7").to_approximate("1e-6")
    assert converted == Cost.approximate(tight_epsilon(F(1, 10), F(9, 10**7)), "1e-6")
    assert Cost.zcdp(F(1, 10**40)).to_approximate("0.1").epsilon >= 0
    for cost, delta in (
        (Cost.zcdp("0.1"), 0),
        (Cost.zcdp("0.1", "1e-6"), "1e-6"),
        (Cost.approximate(1, "1e-6"), "1e-7"),
    ):
        with pytest.raises(PlanError, match="delta"):
            cost.to_approximate(delta)
    for epsilon, delta in ((0, "1e-6"), (1, 0), (1, 1)):
        with pytest.raises(PlanError):
            largest_rho(epsilon, delta)


def test_budgets_charge_in_their_own_currency() -> None:
    pure, approximate, concentrated = (
        Budget(epsilon=3),
        Budget(epsilon=3, delta="1e-6"),
        Budget(rho="1/2", delta="1e-9"),
    )
    assert pure.charge(Cost.pure(1)) == Cost.pure(1)
    for cost in (Cost.zcdp("0.1"), Cost.approximate(1, "1e-9")):
        with pytest.raises(BudgetError):
            pure.charge(cost)
    assert approximate.charge(Cost.approximate(1, "1e-9")) == Cost.approximate(1, "1e-9")
    assert approximate.charge(Cost.zcdp("0.1")) == Cost.zcdp("0.1").to_approximate("1e-8")
    assert approximate.charge(Cost.zcdp("0.1"), delta_share="1/2") == Cost.zcdp(
        "0.1"
    ).to_approximate("5e-7")
    assert concentrated.charge(Cost.pure("0.6")) == Cost.zcdp("0.18")
    assert concentrated.charge(Cost.approximate("0.6", "1e-10")) == Cost.zcdp("0.18", "1e-10")
    with pytest.raises(BudgetError, match="delta"):
        Budget(rho=1).charge(Cost.approximate("0.6", "1e-10"))


# -- text and JSON
# ------------------------------------------------------------------------------------------


def test_json_round_trips() -> None:
    long = sequential(
        Cost.pure(F(1, p)) for p in (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061) * 3
    )
    for cost in (
        Cost(),
        Cost.pure("1/3"),
        Cost.approximate(1, "1e-6"),
        Cost.zcdp("1/8", "1e-9"),
        long,
    ):
        assert Cost.from_json(json.loads(json.dumps(cost.to_json()))) == cost
    for budget in (
        Budget(epsilon=3),
        Budget(epsilon="1/3", delta="1e-6"),
        Budget(rho="1/2", delta_share="1/7"),
    ):
        assert Budget.from_json(json.loads(json.dumps(budget.to_json()))) == budget
    for bad in ({}, {"epsilon": "1"}, {"epsilon": "1", "delta": "0", "rho": "0", "x": 1}, [], "1"):
        with pytest.raises(PlanError):
            Cost.from_json(bad)  # type: ignore[arg-type]
        with pytest.raises(PlanError):
            Budget.from_json(bad)  # type: ignore[arg-type]


def test_describe() -> None:
    assert Cost.pure(0.5).describe() == "epsilon = 0.5 (pure differential privacy)"
    assert (
        Cost.approximate(1, "1e-6").describe()
        == "epsilon = 1, delta = 1e-6 (approximate differential privacy)"
    )
    assert Cost.zcdp("1/8").describe() == "rho = 0.125 (zero-concentrated differential privacy)"
    assert Budget(rho="1/2", delta="1e-9").describe().startswith("rho = 0.5, delta = 1e-9")


def test_costs_are_values() -> None:
    import copy
    import dataclasses
    import pickle

    cost = Cost.approximate(1, "1e-6")
    assert pickle.loads(pickle.dumps(cost)) == copy.deepcopy(cost) == cost
    assert len({cost, Cost.approximate("1", 0.000001)}) == 1
    assert dataclasses.replace(cost, delta=F(0)) == Cost.pure(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        cost.epsilon = F(2)  # type: ignore[misc]


def test_cost_imports_no_heavy_library() -> None:
    import subprocess

    heavy = "{'numpy', 'polars', 'scipy', 'sqlalchemy', 'numba'}"
    code = f"import sys, dpublish.privacy.cost; print(sorted({heavy} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
