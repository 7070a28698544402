"""Limits beside the counts of a SELECT: those of `estimate` for the rows that each line counts."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dpublish as dp
from dpublish.errors import QueryError
from dpublish.query import sql_limits
from models.junction_tree.joined_cases import made

SCHEMA = """
[dataset]
name = "visits"
neighbours = "replace-one"

[columns.age]
kind = "integer"
lower = 0
upper = 39
bins = 4
missing = true
outside = "other"

[columns.weight]
kind = "real"
lower = 0.0
upper = 100.0
bins = 2

[columns.ward]
kind = "categorical"
levels = ["it's", "b"]

[columns.seen]
kind = "date"
lower = 2024-01-01
upper = 2024-01-04
"""
METHODS = {
    "histogram": dp.Histogram(threshold=0),
    "generalized-table": dp.GeneralizedTable(),
    "multiplicative-weights": dp.MultiplicativeWeights(queries="marginals:2"),
    "joined-histograms": dp.JoinedHistograms(),
}


def rows() -> pl.DataFrame:
    count = 2_000
    return pl.DataFrame(
        {
            "age": [None if i % 9 == 0 else i % 40 if i % 7 else 99 for i in range(count)],
            "weight": [float(i % 101) for i in range(count)],
            "ward": ["it's" if i % 3 else "b" for i in range(count)],
            "seen": [dt.date(2024, 1, 1 + i % 4) for i in range(count)],
        }
    )


@pytest.fixture(scope="module", params=list(METHODS))
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("limits")
    curator = dp.Curator(
        rows(),
        dp.Schema.from_toml(SCHEMA),
        ledger=folder / "l.ledger",
        budget=dp.Budget(epsilon=100),
        store=folder / "store",
    )
    return curator.publish(METHODS[request.param], epsilon=20, seed=1)


@pytest.mark.parametrize(
    ("columns", "where", "conditions"),
    [
        ((), "", {(): "true"}),
        ((), "ward = 'it''s' and age < 20", {(): "ward = 'it''s' and age < 20"}),
        (("ward",), "", {("it's",): "ward = 'it''s'", ("b",): "ward = 'b'"}),
        (("ward", "age"), "age >= 30", {("it's", 34.5): "ward = 'it''s' and age >= 30"}),
        (
            ("seen",),
            "weight >= 50",
            {(dt.date(2024, 1, 2),): "seen = '2024-01-02' and weight >= 50"},
        ),
        (("weight",), "", {(25.0,): "weight < 50", (75.0,): "weight >= 50"}),
        (("age",), "", {(4.5,): "age < 10", (None,): "age is null or age = '(other)'"}),
    ],
)
def test_limits_are_those_of_an_estimate(
    release: Any, columns: tuple[str, ...], where: str, conditions: dict[tuple[Any, ...], str]
) -> None:
    names = ", ".join(columns)
    query = f"select {names + ', ' if names else ''}count(*) as n from release"
    query += (f" where {where}" if where else "") + (
        f" group by {names} order by {names}" if names else ""
    )
    plain, found = release.sql(query), release.sql(query, level=0.9)
    assert found.columns == [*columns, "n", "n_low", "n_high"]
    # a number that weights alone would put beside its limits is moved to them
    inside = plain.with_columns(pl.col("n").clip(found["n_low"], found["n_high"]))
    # the engine adds weights that are not whole in parts, in no fixed order: their last digits may
    # differ
    assert_frame_equal(found.select(plain.columns), inside, rel_tol=1e-12, check_dtypes=False)
    lines = {line[: len(columns)]: line[len(columns) :] for line in found.iter_rows()}
    for values, condition in conditions.items():
        one = release.estimate(condition, level=0.9)
        value, low, high = lines[values]
        assert (low, high) == pytest.approx((one.low, one.high))
        assert low <= value <= high


def test_spelling_order_and_names(release: Any) -> None:
    query = (
        'SELECT "WARD" as w, Count(*), avg(weight) FROM release GROUP BY Ward HAVING '
        "count(*) > 1 LIMIT 5"
    )
    found = release.sql(query, level=0.95)
    counted = ["w", "count(*)", "count(*)_low", "count(*)_high"]
    assert found.columns[:5] == [*counted, "avg(weight)"]
    assert found.columns[5:] == ["avg(weight)_low", "avg(weight)_high", "avg(weight)_note"]
    taken = release.sql(
        "select ward as n_low, count(*) as n from release group by ward", level=0.95
    )
    assert taken.columns == ["n_low", "n", "n_low_", "n_high"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("select ward from release", "count"),
        ("select count(*) as n from (select ward from release) as p", "straight from release"),
        (
            "with p as (select ward from release) select count(*) as n from p",
            "straight from release",
        ),
        ("select count(*) as n from release group by ward", "select 'ward' too"),
    ],
)
def test_what_has_no_limits_is_refused_with_a_reason(release: Any, query: str, text: str) -> None:
    assert release.sql(query).width
    with pytest.raises(QueryError, match=text):
        release.sql(query, level=0.95)


def test_levels_and_lines_are_limited(release: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QueryError, match=r"0\.5 and 0\.9999"):
        release.sql("select count(*) as n from release", level=2)
    monkeypatch.setattr(sql_limits, "MAX_LINES", 1)
    with pytest.raises(QueryError, match="at most 1"):
        release.sql("select ward, count(*) as n from release group by ward", level=0.95)


def test_limits_of_a_model_hold_the_truth() -> None:
    """The same rows as in the tests of joined releases; one release, every group of two columns."""
    joined = made(rows=20_000)
    found = joined.sql(
        "select region, city, count(*) as n from release where ill group by region, city",
        level=0.99,
    )
    assert found.height == 32
    assert (found["n_low"] <= found["n"]).all()
    assert (found["n"] <= found["n_high"]).all()
