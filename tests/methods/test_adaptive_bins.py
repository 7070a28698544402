"""Bins that are found from the rows, in histogram and projected-histogram."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.counting.compute import compute
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import CodedRows, Tabulation
from dpublish.methods.base import Output
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.sources.sources import open_source

ROWS = 10_000
SCHEMA = """
[dataset]
name = "incomes"
size = 10000
target = "rich"
[columns.income]
kind = "real"
lower = 0
upper = 1000000
missing = true
{income}
[columns.age]
kind = "integer"
lower = 0
upper = 110
missing = true
[columns.rich]
kind = "boolean"
"""


def schema(income: str = "") -> Schema:
    return Schema.from_toml(SCHEMA.format(income=income))


def rows() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    income = np.exp(10 + rng.normal(size=ROWS))
    return pl.DataFrame(
        {
            "income": [None if i % 50 == 0 else float(one) for i, one in enumerate(income)],
            "age": np.clip(rng.normal(45, 15, ROWS), 0, 110).astype(int),
            "rich": rng.random(ROWS) < 1 / (1 + np.exp(-2 * (np.log(income) - 10))),
        }
    )


def published(method: dp.Mechanism, declared: Schema, seed: int = 3) -> tuple[Output, object]:
    plan = method.plan(declared, Cost.pure(1))
    source = open_source(rows(), declared)
    numbers = compute(method.statistic(plan), source, declared, key=bytes(16))
    return method.run(SeededNoise(seed), numbers, plan), plan.settings


def test_a_histogram_finds_bins_where_the_rows_are() -> None:
    method = dp.Histogram(columns=["income", "age"])
    assert isinstance(method.statistic(method.plan(schema(), Cost.pure(1))), Tabulation)
    content, settings = published(method, schema())
    search = settings.search
    assert search.columns == ("income", "age")
    assert search.epsilon + settings.cell_epsilon + settings.count_epsilon == 1
    domain = content.domain
    assert domain is not None
    assert all(axis.base <= search.bins for axis in domain.axes)
    assert domain.size <= settings.domain.size
    # error in rank of a quantile: a bin or two, and with even bins a half
    edges = np.array(domain.axis("income").edges)
    cells, counts = (np.asarray(content.tables["cells"][key]) for key in ("cell", "count"))
    place = cells // np.uint64(domain.axis("age").cardinality)
    mass = np.bincount(place.astype(int), np.maximum(counts, 0), minlength=len(edges))
    below = np.append(0, np.cumsum(mass[: len(edges) - 1])) / mass[: len(edges) - 1].sum()
    known = rows()["income"].drop_nulls().to_numpy()
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    ranks = [(known <= value).mean() for value in np.interp(levels, below, edges)]
    assert np.abs(np.array(ranks) - levels).max() < 0.03
    # missing values have a level of their own, as before
    assert domain.axis("income").missing
    assert mass[-1] == pytest.approx(ROWS / 50, abs=60)


def test_even_and_declared_bins_are_as_before() -> None:
    even = dp.Histogram(columns=["income", "age"], bin_share=0).plan(schema(), Cost.pure(1))
    assert even.settings.search is None
    assert even.settings.cell_epsilon == 1
    assert "bin_epsilon" not in even.facts
    positive = SCHEMA.replace("lower = 0\nupper = 1000000", "lower = 1\nupper = 1000000")
    for line in ("bins = 5", "edges = [1000, 50000]", 'bins = 4\nspacing = "log"\n'):
        declared = Schema.from_toml(positive.format(income=line))
        plan = dp.Histogram(columns=["income", "age"]).plan(declared, Cost.pure(1))
        assert plan.settings.search is not None
        assert plan.settings.search.columns == ("age",)


def test_few_rows_keep_even_bins_unless_asked() -> None:
    few = Schema.from_toml(SCHEMA.format(income="").replace("size = 10000", "size = 100"))
    plan = dp.Histogram(columns=["income", "age"]).plan(few, Cost.pure("1/10"))
    assert plan.settings.search is None
    asked = dp.Histogram(columns=["income", "age"], bin_share="1/4").plan(few, Cost.pure("1/10"))
    assert asked.settings.search is not None
    assert asked.settings.search.epsilon == Fraction(1, 40)


def test_a_projected_histogram_learns_from_skewed_columns() -> None:
    method = dp.ProjectedHistogram()
    assert isinstance(method.statistic(method.plan(schema(), Cost.pure(1))), CodedRows)
    found, _ = published(method, schema())
    even, _ = published(dp.ProjectedHistogram(bin_share=0), schema())
    assert found.domain is not None
    assert even.domain is not None
    assert "income" in found.facts["chosen"]
    inside = [
        sum(edge < 200_000 for edge in one.domain.axis("income").edges) for one in (found, even)
    ]
    assert inside[0] > 2 * inside[1]


def test_one_schema_for_all_methods() -> None:
    """A column may declare bounds and edges, and interval trees take both."""
    declared = schema("edges = [1000, 50000]")
    tree = dp.IntervalTree(columns=["income"]).plan(declared, Cost.pure(1))
    (grid,) = tree.settings.shape.grids
    assert (float(grid.lower), float(grid.upper)) == (0, 1_000_000)
    counted = dp.Histogram(columns=["income"]).plan(declared, Cost.pure(1))
    assert counted.domain is not None
    assert counted.domain.axes[0].edges == (0, 1000, 50000, 1_000_000)
