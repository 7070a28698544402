"""What a rule of the schema forbids has no rows in releases of any kind of table: such rows were
left out before anything was counted."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import BundleError
from dpublish.query.predicate import parse_predicate
from dpublish.query.ruled import RULED_OUT, Ruled
from dpublish.releases.base import make_release

SCHEMA = """
[dataset]
name = "people"
neighbours = "{neighbours}"
{size}
target = "sick"
[columns.age]
kind = "integer"
lower = 0
upper = 79
bins = 4
[columns.married]
kind = "categorical"
levels = ["no", "yes"]
outside = "other"
missing = true
[columns.sick]
kind = "boolean"
[[rules]]
if = "age < 20"
then = "married = 'no'"
"""
FORBIDDEN = "age < 20 and married = 'yes'"
INSIDE = "age < 7 and married in ('yes', '(other)')"
METHODS: dict[str, Any] = {
    "histogram": dp.Histogram(columns=["age", "married"], threshold=0),
    "generalized": dp.GeneralizedTable(columns=["age", "married"], splits=1),
    "projected": dp.ProjectedHistogram(k=2),
    "synthetic": dp.MultiplicativeWeights(columns=["age", "married"]),
    "workload": dp.Workload(columns=["age", "married"], answer="direct"),
    "joined": dp.JoinedHistograms(),
}


def rows(number: int = 4000) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    age = rng.integers(0, 80, number)
    married = np.where((age >= 20) & (rng.random(number) < 0.6), "yes", "no")
    return pl.DataFrame({"age": age, "married": married, "sick": rng.random(number) < 0.3})


def publish(folder: Path, method: Any, neighbours: str = "add-remove-one") -> Any:
    size = "nominal_size = 4000" if neighbours == "add-remove-one" else "size = 4000"
    curator = dp.Curator(
        rows(),
        dp.Schema.from_toml(SCHEMA.format(neighbours=neighbours, size=size)),
        ledger=folder / "a.ledger",
        budget=dp.Budget(epsilon=10),
        store=folder / "store",
    )
    return curator.publish(method, epsilon=1, seed=1)


@pytest.mark.parametrize("name", METHODS)
def test_a_condition_that_a_rule_forbids_has_no_rows(name: str, tmp_path: Path) -> None:
    release = publish(tmp_path, METHODS[name])
    for condition in (FORBIDDEN, INSIDE):
        found = release.estimate(condition)
        assert (found.value, found.low, found.high) == (0, 0, 0)
        assert found.standard_error == 0
        assert found.note == RULED_OUT
    assert release.estimate("age >= 20 and married = 'yes'").high > 1000
    assert release.estimate("age < 21 and married = 'yes'").note != RULED_OUT
    # what contradicts itself is no matter of rules
    assert release.estimate("married = 'yes' and married = 'no'").note != RULED_OUT
    table = release.marginal("age", "married")
    young = table.filter((pl.col("age") == "0..19") & pl.col("married").is_in(["yes", "(other)"]))
    assert young.height == 2
    assert young.select("count", "standard_error", "low", "high").to_numpy().sum() == 0
    assert table.filter(pl.col("married") == "yes")["high"].to_numpy()[1:].min() > 0
    if not hasattr(release, "sql"):
        return
    for where in (FORBIDDEN, "case when age < 20 then married = 'yes' else false end"):
        said = release.sql(f"select count(*) as n from release where {where}")
        assert said.select("n", "n_low", "n_high").row(0) == (0, 0, 0)


def test_a_public_number_of_rows_is_not_that_of_the_rows_that_obey(tmp_path: Path) -> None:
    release = publish(tmp_path, METHODS["generalized"], "replace-one")
    assert release.public_total is None
    assert release.estimates == pytest.approx(release.counts)


def test_weighted_rows_know_the_rules_of_the_columns_that_they_were_fitted_on(
    tmp_path: Path,
) -> None:
    release = publish(tmp_path, dp.ImportanceWeights(public=rows(300)))
    found = release.estimate(FORBIDDEN)
    assert (found.value, found.low, found.high, found.note) == (0, 0, 0, RULED_OUT)
    assert release.share("married = 'yes'", where="age < 20").high == 0
    assert release.share("married = 'yes'", where="age > 20").value > 0.3
    assert release.sql(f"select count(*) as n from release where {FORBIDDEN}")["n_high"][0] == 0


def test_rules_of_a_manifest_are_checked(tmp_path: Path) -> None:
    release = publish(tmp_path, METHODS["histogram"])
    for rules in (
        {"if": "age < 20"},
        ["age < 20"],
        [{"if": "age < 20", "then": 3, "columns": ["age"]}],
        [{"if": "age < 20", "then": "married = 'no'", "columns": "age"}],
    ):
        manifest = copy.deepcopy(release.manifest) | {"rules": rules}
        with pytest.raises(BundleError, match="rule"):
            make_release(manifest, release.tables)
    odd = [{"if": "age <", "then": "married = 'no'", "columns": ["age", "married"]}]
    broken = make_release(copy.deepcopy(release.manifest) | {"rules": odd}, release.tables)
    with pytest.raises(BundleError, match="rules: "):
        broken.estimate("age < 3")  # type: ignore[attr-defined]


def test_rules_together_and_columns_that_only_a_rule_names() -> None:
    def axis(name: str) -> Axis:
        return Axis(name=name, kind="boolean", levels=("false", "true"), outside="refuse")

    domain = Domain((axis("a"), axis("b"), axis("c")))
    listed = [
        {"if": "a", "then": "b", "columns": ["a", "b"]},
        {"if": "a", "then": "not b", "columns": ["a", "b"]},
        {"if": "a", "then": "z", "columns": ["a", "z"]},
    ]
    ruled = Ruled.read(listed, domain)
    assert len(ruled.broken) == 2
    # whoever is a would have to be b and not b
    asked = {"a": True, "a and c": True, "b": False, "a or c": False, "not a": False, "c": False}
    assert {text: ruled.forbid(parse_predicate(text, domain)) for text in asked} == asked
