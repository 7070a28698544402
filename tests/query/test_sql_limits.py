"""Limits beside the counts of a SELECT: those of `estimate` for the rows that each line counts."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pytest

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
    plain, found = release.sql(query, level=None), release.sql(query, level=0.9)
    assert plain.columns == [*columns, "n"]
    assert found.columns[: len(columns) + 3] == [*columns, "n", "n_low", "n_high"]
    assert found.columns[len(columns) + 3 :] in ([], ["n_note"])
    lines = {line[: len(columns)]: line[len(columns) :] for line in found.iter_rows()}
    for values, condition in conditions.items():
        one = release.estimate(condition, level=0.9)
        value, low, high = lines[values][:3]
        assert (value, low, high) == pytest.approx((one.value, one.low, one.high))
        assert low <= value <= high
    # without a level, the numbers are those of the usual one
    usual = release.sql(query)["n"].to_list()
    assert plain["n"].to_list() == pytest.approx(usual)


@pytest.mark.parametrize(
    ("condition", "as_if"),
    [
        ("1 = 1", "true"),
        ("abs(-1) > 2", "false"),
        ("true > 30", "false"),
        ("age < 10 and 1 = 1", "age < 10"),
        ("age < 10 or not 2 > 1", "age < 10"),
    ],
)
def test_conditions_of_constants_hold_for_all_or_for_none(
    release: Any, condition: str, as_if: str
) -> None:
    query = "select count(*) as n, avg(age) as age from release where "
    if as_if == "false":  # nothing is left to average
        query = query.replace(", avg(age) as age", "")
    told = release.sql(query + as_if).row(0)
    assert release.sql(query + condition).row(0) == pytest.approx(told)


def test_a_number_is_no_condition_and_groups_of_constants_are_one(release: Any) -> None:
    (note,) = release.sql("select count(*) as n from release where 30")["n_note"]
    assert "A WHERE takes a condition" in note
    groups = release.sql("select 2 > 1 as yes, count(*) as n from release group by 1")
    assert groups["yes"].to_list() == [True]


def test_what_is_sorted_and_compared_is_what_is_shown(release: Any) -> None:
    """HAVING and ORDER BY speak of the estimates, not of the weights beneath them."""
    every = release.sql("select age, count(*) as n from release group by age", level=None)
    cut = sorted(every["n"].to_list())[2] + 1e-6
    query = f"select age, count(*) as n from release group by age having n > {cut} order by n desc"
    found = release.sql(query, level=None)["n"].to_list()
    assert found == pytest.approx(sorted((n for n in every["n"] if n > cut), reverse=True))
    hidden = "select age from release group by age order by -count(*), age limit 2"
    assert release.sql(hidden)["age"].to_list() == release.sql(query)["age"].to_list()[:2]
    inner = "select max(n) as m from (select age, count(*) as n from release group by age) as t"
    assert release.sql(inner, level=None).item() == pytest.approx(max(found))


def test_spelling_order_and_names(release: Any) -> None:
    query = (
        'SELECT "WARD" as w, Count(*), avg(weight) FROM release GROUP BY Ward HAVING '
        "count(*) > 1 LIMIT 5"
    )
    found = release.sql(query, level=0.95)
    counted = ["w", "count(*)", "count(*)_low", "count(*)_high"]
    assert found.columns[:4] == counted
    means = ["avg(weight)", "avg(weight)_low", "avg(weight)_high", "avg(weight)_note"]
    assert found.columns[-4:] == means
    taken = release.sql(
        "select ward as n_low, count(*) as n from release group by ward", level=0.95
    )
    assert taken.columns[:4] == ["n_low", "n", "n_low_", "n_high"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("select count(*) as n from (select ward from release) as p", "subquery"),
        ("with p as (select ward from release) select count(*) as n from p", "subquery"),
        ("select max(age) as n from release", "noise may have put"),
        ("select distinct count(*) as n from release group by ward", "DISTINCT"),
        ("select count(upper(ward)) as n from release", "columns only"),
        ("select round(avg(weight)) % 7 as n from release", "one by one"),
    ],
)
def test_what_has_no_limits_has_a_note(release: Any, query: str, text: str) -> None:
    """No number leaves without one or the other."""
    found = release.sql(query)
    assert text in found["n_note"][0]
    if "n_low" in found.columns:
        assert found["n_low"].null_count() == found.height
    assert release.sql(query, level=None).columns == ["n"]


def test_plain_rows_have_neither(release: Any) -> None:
    assert release.sql("select ward from release limit 1").columns[0] == "ward"
    assert release.sql("select ward from release limit 1").width == 2


def test_groups_that_are_not_shown_have_limits_too(release: Any) -> None:
    found = release.sql("select count(*) as n from release group by ward")
    assert found["n_low"].null_count() == 0


def test_levels_and_lines_are_limited(release: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QueryError, match=r"0\.5 and 0\.9999"):
        release.sql("select count(*) as n from release", level=2)
    monkeypatch.setattr(sql_limits, "MAX_LINES", 1)
    query = "select ward, count(*) as n from release group by ward order by ward"
    assert "Add a LIMIT" in release.sql(query)["n_note"][0]
    # of many lines those that are shown have estimates
    line = release.sql(f"{query} limit 1").row(0, named=True)
    one = release.estimate(f"ward = '{line['ward'].replace(chr(39), 2 * chr(39))}'")
    assert (line["n"], line["n_low"], line["n_high"]) == pytest.approx(
        (one.value, one.low, one.high)
    )


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
