"""Joined histograms of rows that obey declared rules: what is impossible has no people."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.counting.compute import compute
from dpublish.declare.schema import Schema
from dpublish.errors import BundleError
from dpublish.models.junction_tree.measured import read_measured
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.releases.joined_histograms.release import _arrays
from dpublish.sources.sources import open_source
from models.junction_tree.joined_cases import released

SCHEMA = """
[dataset]
name = "people with rules"
neighbours = "add-remove-one"
{target}
[columns.age]
kind = "integer"
lower = 0
upper = 99
[columns.married]
kind = "categorical"
levels = ["no", "yes", "widowed"]
[columns.income]
kind = "real"
lower = 0
upper = 100000
[columns.work]
kind = "categorical"
levels = ["no", "yes"]
[[rules]]
if = "age < 15"
then = "married = 'no'"
[[rules]]
if = "age < 12"
then = "work = 'no'"
[[rules]]
if = "work = 'no' and age < 30"
then = "income < 5000"
"""
BROKEN = [
    "age < 15 and married <> 'no'",
    "age < 12 and work = 'yes'",
    "work = 'no' and age < 30 and income >= 5000",
    "age between 3 and 9 and married = 'widowed' and income > 77",
]
"""What the rules forbid, or a part of it."""


def rows(number: int = 8000) -> pl.DataFrame:
    rng = np.random.default_rng(4)
    age = rng.integers(0, 100, number)
    married = np.where(age < 15, 0, rng.choice(3, number, p=[0.3, 0.5, 0.2]))
    work = np.where(age < 12, 0, rng.random(number) < 0.6).astype(int)
    income = rng.lognormal(10, 0.6, number).clip(0, 1e5)
    income = np.where((work == 0) & (age < 30), rng.random(number) * 4999, income)
    married[:40], age[:40] = 1, 3  # forty rows break the first rule
    words = {"married": ["no", "yes", "widowed"], "work": ["no", "yes"]}
    return pl.DataFrame(
        {
            "age": age,
            "married": np.array(words["married"])[married],
            "income": income,
            "work": np.array(words["work"])[work],
        }
    )


@pytest.fixture(
    scope="module",
    params=[("", Cost.pure(2)), ('target = "work"', Cost.approximate(1, "1e-6"))],
    ids=["no target, laplace", "a target in a rule, gaussian"],
)
def release(request: pytest.FixtureRequest) -> Any:
    target, cost = request.param
    schema, method = Schema.from_toml(SCHEMA.format(target=target)), dp.JoinedHistograms(rounds=1)
    plan = method.plan(schema, cost)
    source = open_source(rows(), schema)
    numbers = compute(method.statistic(plan), source, schema, key=bytes(16))
    return released(method.run(SeededNoise(5), numbers, plan), plan)


@pytest.mark.parametrize("condition", BROKEN)
def test_what_is_impossible_has_no_people(release: Any, condition: str) -> None:
    found = release.estimate(condition)
    assert (found.value, found.standard_error, found.low, found.high) == (0, 0, 0, 0)
    assert "rule" in found.note
    assert release.sql(f"select count(*) as n from release where {condition}")["n"][0] == 0


def test_other_answers_are_near_the_kept_rows(release: Any) -> None:
    kept = rows().filter((pl.col("age") >= 15) | (pl.col("married") == "no"))
    for condition in ["age < 15", "married = 'yes'", "work = 'no'", "income < 5000"]:
        truth = kept.filter(pl.sql_expr(condition)).height
        assert release.estimate(condition).value == pytest.approx(truth, abs=0.05 * kept.height)
    assert release.model.total == pytest.approx(float(release.model.joint([0, 1]).sum()), rel=0.02)


def test_no_synthetic_row_breaks_a_rule(release: Any) -> None:
    drawn = release.to_frame(5000, seed=1)
    for condition in BROKEN:
        assert drawn.filter(pl.sql_expr(condition)).height == 0
    assert drawn.filter(pl.col("age") < 15).height > 300


def test_tables_show_zeros_where_nothing_is_possible(release: Any) -> None:
    table = release.marginal("age", "married")
    ages = table["age"].str.extract(r"^(\d+)").cast(pl.Int64)
    impossible = table.filter((ages < 15) & (table["married"] != "no"))
    assert impossible.height > 4
    assert impossible.select(pl.col("count", "low", "high", "standard_error").sum()).row(0) == (
        0,
        0,
        0,
        0,
    )
    assert table.filter((ages < 15) & (table["married"] == "no"))["count"].min() > 0


def test_bins_that_were_found_end_at_the_numbers_of_rules(release: Any) -> None:
    assert {12, 15, 30} <= set(release.domain.axis("age").edges)
    assert 5000 in release.domain.axis("income").edges


def test_a_file_with_other_rules_is_refused(release: Any) -> None:
    facts = release.manifest["facts"]
    assert len(facts["rules"]) == 3
    for wrong in (3, [3], [{"if": "age < 15"}], [{"if": "ages < 1", "then": "age < 1"}]):
        with pytest.raises(BundleError):
            read_measured(release.domain, {**facts, "rules": wrong}, _arrays(release.tables))


def test_replicates_obey_too(release: Any) -> None:
    (other,) = release.replicates(1, seed=3)
    assert other.estimate(BROKEN[0]).value == 0
    assert other.model.joint([0, 1])[:3, 1:].sum() == 0
