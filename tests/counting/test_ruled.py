"""Rules of a schema hold for every statistic, whichever columns it reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.counting.compute import compute
from dpublish.declare.schema import Schema
from dpublish.errors import SchemaError
from dpublish.privacy.cost import Cost
from dpublish.sources.sources import open_source

SCHEMA = """
[dataset]
name = "people"
neighbours = "{neighbours}"
{extra}
target = "sick"
[columns.age]
kind = "integer"
lower = 0
upper = 99
missing = true
[columns.married]
kind = "categorical"
levels = ["no", "yes"]
outside = "{outside}"
[columns.income]
kind = "real"
lower = 0
upper = 100
bins = 4
[columns.sick]
kind = "boolean"
[[rules]]
if = "age < 15"
then = "married = 'no'"
[[rules]]
if = "age < 12"
then = "income < 30"
"""


def schema(neighbours: str = "add-remove-one", outside: str = "other", extra: str = "") -> Schema:
    extra = extra or ("nominal_size = 500" if neighbours == "add-remove-one" else "size = 500")
    return Schema.from_toml(SCHEMA.format(neighbours=neighbours, outside=outside, extra=extra))


def rows(number: int = 500) -> pl.DataFrame:
    rng = np.random.default_rng(7)
    age = rng.integers(0, 40, number)
    return pl.DataFrame(
        {
            "age": [None if one == 39 else int(one) for one in age],
            "married": np.array(["no", "yes", "elsewhere"])[rng.integers(0, 3, number)],
            "income": rng.random(number) * 100,
            "sick": rng.random(number) < 0.3,
        }
    )


def kept(outside: str) -> pl.DataFrame:
    """The rule by hand: an undeclared value is another one, or nothing where it drops rows."""
    young, child = (pl.col("age").fill_null(99) < limit for limit in (15, 12))
    wed = pl.col("married").is_in(["yes"] if outside == "drop" else ["yes", "elsewhere"])
    return rows().filter(~((young & wed) | (child & (pl.col("income") >= 30))))


def answer(method: dp.Mechanism, outside: str, folder: Path | None) -> object:
    declared = schema(outside=outside)
    plan = method.plan(declared, Cost.pure(1))
    assert any("age < 15 implies married = 'no'" in one for one in plan.sentences)
    data: object = rows()
    if folder is not None:
        rows().write_csv(folder / "rows.csv")
        data = str(folder / "rows.csv")
    source = open_source(data, declared)
    return compute(method.statistic(plan), source, declared, key=bytes(16))


@pytest.mark.parametrize("outside", ["other", "drop"])
@pytest.mark.parametrize("file", [True, False], ids=["csv", "frame"])
def test_every_method_leaves_out_the_rows_that_break_a_rule(
    outside: str, file: bool, tmp_path: Path
) -> None:
    folder, left = tmp_path if file else None, kept(outside)
    known = left if outside == "other" else left.filter(pl.col("married") != "elsewhere")
    for columns, wanted in (
        (["sick"], left),  # no column of a rule
        (["income", "sick"], left),  # a bin that a rule cuts
        (["married", "age"], known),
    ):
        counts = answer(dp.Histogram(columns=columns, bin_share=0), outside, folder)
        assert counts.total == wanted.height
    sick = answer(dp.Histogram(columns=["sick"]), outside, folder)
    assert sick.counts.tolist() == [left.filter(~pl.col("sick")).height, left["sick"].sum()]
    tree = answer(dp.IntervalTree(columns=["income"]), outside, folder)
    assert tree.total == left.height
    for method, wanted in (
        (dp.PrivateClassifier(features=["income"]), left),
        (dp.ProjectedHistogram(k=1), known),
    ):
        codes = answer(method, outside, folder)
        assert {len(column) for column in codes} == {wanted.height}


def test_codes_are_those_of_the_kept_rows() -> None:
    method = dp.GeneralizedTable(columns=["income", "sick"], target="sick")
    codes = answer(method, "other", None)
    counts = answer(dp.Histogram(columns=["income", "sick"]), "other", None)
    bins = (kept("other")["income"].to_numpy() // 25).astype(int)
    cells = np.bincount(bins * 2 + kept("other")["sick"].to_numpy(), minlength=8)
    assert counts.counts.tolist() == cells.tolist()
    assert codes is not None


def test_with_rules_no_number_of_rows_is_public() -> None:
    plan = dp.Histogram(columns=["sick"]).plan(schema("replace-one"), Cost.pure(1))
    assert plan.settings.count_epsilon > 0
    tree = dp.IntervalTree(columns=["age"]).plan(schema("replace-one"), Cost.pure(1))
    assert tree.settings.missing == "among rest"


def test_rules_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    curator = dp.Curator(
        rows().drop("married"),
        schema=schema(),
        ledger=tmp_path / "l.db",
        budget=dp.Budget(epsilon=1),
    )
    with pytest.raises(SchemaError, match="married"):
        curator.publish(dp.Histogram(columns=["sick"]), epsilon=1)
    assert curator.ledger.verify().spent.epsilon == 0
