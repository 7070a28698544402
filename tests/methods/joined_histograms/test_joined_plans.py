"""Plans of joined histograms: what they say, cost and refuse, and how the budget is divided."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

import dpublish as dp
from dpublish.declare.relation import ROOT_TWO, Relation
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError, SchemaError
from dpublish.methods.joined_histograms import mechanism as module
from dpublish.methods.joined_histograms.structure import (
    table_parts,
)
from dpublish.privacy.budget_split import BudgetSplit, root_below
from dpublish.privacy.cost import Cost, largest_rho

from .test_joined_histograms import tiny

# ---- plans


def test_plans_name_workload_for_as_many_pairs_as_it_counts_well() -> None:
    """Noise below a tenth of the rows of an average cell; no pair at all where rows are few, or
    where nobody says how many there are."""
    text = "".join(
        f'[columns.c{i}]\nkind = "categorical"\nlevels = ["a", "b", "c", "d"]\noutside = "drop"\n'
        for i in range(8)
    )
    said = {}
    for rows in (200, 20_000, 1_000_000):
        head = f'[dataset]\nname = "t"\nneighbours = "replace-one"\nsize = {rows}\n'
        plan = dp.JoinedHistograms().plan(dp.Schema.from_toml(head + text), Cost.pure("1/10"))
        said[rows] = plan.text()
    assert "take workload" not in said[200]
    head = '[dataset]\nname = "t"\nneighbours = "replace-one"\nsize = 4000\n'
    plan = dp.JoinedHistograms().plan(dp.Schema.from_toml(head + text), Cost.pure("1/10"))
    assert "it counts one pair with an error of about " in plan.text()
    assert "1 pairs" not in plan.text()
    # 16 cells of 1,250 rows each; a pair is off by 20 rows on average, six of them by 120
    assert "at most 6 pairs of columns are all that is asked for, take workload" in said[20_000]
    assert "counts all 28 pairs" in said[1_000_000]


def test_plan_says_what_it_costs_and_shares_add_up() -> None:
    plan = dp.JoinedHistograms().plan(tiny(columns="abc"), Cost.pure(1))
    assert plan.cost == Cost.pure(1)
    assert (
        sum(
            Fraction(plan.facts[key])
            for key in ("column_share", "choice_share", "pair_share", "misfit_share")
        )
        == 1
    )
    assert plan.facts["noise"] == "laplace"
    assert "Up to 2 pairs" in plan.text()


def test_plan_says_what_rounds_cost_the_first_pairs() -> None:
    """Without rounds the pairs share everything; with two rounds of two tables each, a table of a
    round has the least."""
    text = '[dataset]\nname = "t"\nneighbours = "add-remove-one"\n' + "".join(
        f'[columns.{name}]\nkind = "categorical"\nlevels = ["x", "y"]\n' for name in "abcd"
    )
    plans = [
        dp.JoinedHistograms(rounds=rounds).plan(dp.Schema.from_toml(text), Cost.pure(1))
        for rounds in (0, 2)
    ]
    pairs = Fraction(plans[0].facts["pair_share"])
    assert not any("rounds" in sentence for sentence in plans[0].sentences)
    least = math.sqrt(2) / float(pairs * module.ROUND_PART / 2 / 2)
    assert any(f"or {least:.3g} with rounds" in sentence for sentence in plans[1].sentences), plans[
        1
    ].sentences


def test_the_better_noise_is_recommended() -> None:
    few, many = tiny(columns="ab"), tiny(columns="abcdefghijklmnopqrstuvwxyz")
    cost = Cost.approximate(1, "1e-9")
    chosen = dp.JoinedHistograms().plan(few, cost)
    assert chosen.facts["noise"] == "laplace"
    assert chosen.cost == Cost.pure(1)  # no delta is spent that is not needed
    wide = dp.JoinedHistograms().plan(many, cost)
    assert wide.facts["noise"] == "gaussian"
    assert wide.cost == cost
    assert Fraction(wide.facts["amount"]) > Fraction(110, 100) * largest_rho(1, "1e-9")
    crowded = dp.JoinedHistograms(choice_share="0.5", column_share="0.4", bins=4)
    few_gauss = dp.JoinedHistograms(noise="gaussian", choice_share="0.5", column_share="0.4")
    assert few_gauss.plan(few, cost).facts["amount"] == str(largest_rho(1, "1e-9"))
    assert Fraction(crowded.plan(many, cost).facts["extra_variance"]) in (0, 2)
    assert dp.JoinedHistograms(noise="gaussian").plan(few, cost).facts["noise"] == "gaussian"


@pytest.mark.parametrize(
    ("settings", "cost", "text"),
    [
        ({"columns": ["a", "a"]}, Cost.pure(1), "named twice"),
        ({"columns": []}, Cost.pure(1), "at least one column"),
        ({"noise": "gaussian"}, Cost.pure(1), "needs delta"),
        ({"noise": "laplace"}, Cost.zcdp(1), "paid in epsilon"),
        ({"noise": "loud"}, Cost.pure(1), "auto, laplace or gaussian"),
        ({"column_share": 1}, Cost.pure(1), "below 1"),
        ({"column_share": "1/2", "choice_share": "1/2"}, Cost.pure(1), "leave something"),
        ({"cell_deviations": 0}, Cost.pure(1), "above 0"),
        ({"bins": 0}, Cost.pure(1), "bins"),
        ({"target": "z"}, Cost.pure(1), "not among the columns"),
        ({"workload": ["a*q"]}, Cost.pure(1), "workload names 'q'"),
        ({"workload": ["a*b:0"]}, Cost.pure(1), "between 1/100 and 100"),
        ({"workload": {"a": "much"}}, Cost.pure(1), "the weight of 'a'"),
        ({"misfit_share": 1}, Cost.pure(1), "misfit_share"),
        ({"misfit_share": "1/2"}, Cost.pure(1), "leave something"),
        ({"misfit_share": "1e-15"}, Cost.pure(1), "0, or at least 1/1000"),
        ({"column_share": "1e-15"}, Cost.pure(1), "at least 0.001"),
        ({"rounds": 9}, Cost.pure(1), "rounds must"),
        ({"rounds": True}, Cost.pure(1), "rounds must be"),
        ({}, Cost.zcdp("1e-30"), "so small"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_spent(
    settings: dict[str, Any], cost: Cost, text: str
) -> None:
    with pytest.raises(PlanError, match=text):
        dp.JoinedHistograms(**settings).plan(tiny(), cost)


def test_unknown_columns_and_items_are_refused() -> None:
    with pytest.raises(SchemaError, match="no column 'q'"):
        dp.JoinedHistograms(columns=["a", "q"]).plan(tiny(), Cost.pure(1))
    baskets = Schema.from_toml('[dataset]\nname = "b"\n[items]\nuniverse = ["x"]\n')
    with pytest.raises(PlanError, match="columns"):
        dp.JoinedHistograms().plan(baskets, Cost.pure(1))


def test_a_target_with_one_level_is_refused() -> None:
    text = (
        '[dataset]\nname = "t"\nsize = 900\n{target}\n'
        '[columns.a]\nkind = "categorical"\nlevels = ["x"]\nmissing = true\n'
        '[columns.b]\nkind = "boolean"\n'
    )
    named = Schema.from_toml(text.format(target='target = "a"'))
    plain = Schema.from_toml(text.format(target=""))
    for method, schema in (
        (dp.JoinedHistograms(), named),
        (dp.JoinedHistograms(target="a"), plain),
    ):
        with pytest.raises(PlanError, match=r"'a' has one level only.* target = \"none\""):
            method.plan(schema, Cost.pure(1))
    dp.JoinedHistograms(target="none").plan(named, Cost.pure(1))


def test_a_target_with_many_levels_becomes_a_column() -> None:
    schema = Schema.from_toml(
        '[dataset]\nname = "t"\ntarget = "n"\nsize = 9\n[columns.n]\nkind = "integer"\nlower = '
        "0\nupper = 99\n"
        '[columns.b]\nkind = "boolean"\n'
    )
    plan = dp.JoinedHistograms().plan(schema, Cost.pure(1))
    assert plan.facts["target"] is None
    assert "ordinary column" in plan.warnings[0]
    assert dp.JoinedHistograms(bins=8).plan(schema, Cost.pure(1)).facts["target"] == "n"
    assert (
        dp.JoinedHistograms(bins=8, target="none").plan(schema, Cost.pure(1)).facts["target"]
        is None
    )


def test_a_pure_plan_names_a_delta_where_it_would_make_the_noise_much_smaller() -> None:
    def said(columns: int) -> str:
        text = '[dataset]\nname = "t"\nsize = 9\n'
        text += "".join(f'[columns.c{i}]\nkind = "boolean"\n' for i in range(columns))
        return dp.JoinedHistograms().plan(Schema.from_toml(text), Cost.pure(1)).sentences[2]

    assert "with delta = 1e-9" in said(20)
    assert "delta = " not in said(5)


# ---- the budget


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("cells", [[1], [4, 4], [2, 64, 5000, 31]])
def test_parts_add_up_to_one(noise: Any, cells: list[int]) -> None:
    assert sum(table_parts(noise, cells)) == 1


def test_roots_are_rounded_the_safe_way() -> None:
    assert ROOT_TWO**2 > 2
    for value in (Fraction(1, 3), Fraction(2), Fraction(1, 10**9), Fraction(0)):
        root = root_below(value)
        assert root**2 <= value < (root + Fraction(1, 10**11)) ** 2


def test_sensitivities_of_both_relations() -> None:
    add, replace = Relation("add-remove-one", 3), Relation("replace-one", 3)
    assert [
        BudgetSplit("laplace", Fraction(1), relation).sensitivity for relation in (add, replace)
    ] == [3, 6]
    assert [
        BudgetSplit("gaussian", Fraction(1), relation).sensitivity for relation in (add, replace)
    ] == [3, 3 * ROOT_TWO]
    assert (add.linf, replace.linf) == (3, 3)


@pytest.mark.parametrize(("columns", "offered"), [(4, False), (36, True)])
def test_the_plan_of_a_pure_cost_names_a_delta_where_it_halves_the_noise(
    columns: int, offered: bool
) -> None:
    """Of a table like a satellite's, with 36 brightnesses, and of a narrow one."""
    text = "[dataset]\nname = 't'\nsize = 5000\n" + "".join(
        f"[columns.x{i}]\nkind = 'integer'\nlower = 0\nupper = 255\n" for i in range(columns)
    )
    declared = dp.Schema.from_toml(text)
    alone = dp.JoinedHistograms().plan(declared, Cost.pure(1))
    assert ("take that where a delta is allowed" in alone.text()) is offered
    both = dp.JoinedHistograms().plan(declared, Cost.approximate(1, "1e-9"))
    ratio = both.forecast["pair_deviation"] / alone.forecast["pair_deviation"]
    assert ratio < 0.6 or not offered


def test_plans_of_many_columns_name_some_of_them() -> None:
    text = "".join(
        f'[columns.c{i}]\nkind = "real"\nlower = 0\nupper = 1\nmissing = true\n' for i in range(200)
    )
    head = '[dataset]\nname = "t"\nneighbours = "replace-one"\nsize = 900\n'
    plan = dp.JoinedHistograms().plan(Schema.from_toml(head + text), Cost.pure(1))
    said = [one for one in (*plan.sentences, *plan.warnings) if "c0" in one]
    assert len(said) == 2
    assert all("of c0, c1, c2, c3, c4 and 195 more" in one for one in said)
    assert not any("c5" in one for one in said)
