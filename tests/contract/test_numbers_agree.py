"""What the numbers of one release say of each other, for every kind: estimates lie between their
limits, standard errors fit them, what the schema rules out has no people, and a public number of
rows is the total wherever a total is shown."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from tests import every_kind as kinds

from dpublish.errors import QueryError

CONDITIONS = (
    "true",
    "false",
    "a = 'x'",
    "not a = 'x'",
    "a = 'x' or not a = 'x'",
    "a is null",
    "b = 'yes'",
    "a = 'x' and b = 'yes'",
    "a = 'x' or b = 'yes'",
    "income >= 0",
    "income >= 100",
    "income between 101 and 107",
    "income < 250 and a = 'y'",
    "income is null",
    "income is not null",
    "height > 1.5 or income > 900",
    "bread",
    "bread and not milk",
    "beer or wine",
    "income + 400 * height >= 600",
)
PUBLIC = ("histogram", "projected", "joined", "generalized", "weighted", "tree", "synthetic")


@cache
def counted_to_the_last_row() -> dict[str, Any]:
    """The same releases from a schema that leaves no row out, so that their number is public."""
    text = kinds.TABLE.replace("bins = 8", "bins = 8\nmissing = true")
    text = text.replace("bins = 4", "bins = 4\nmissing = true")
    kept = kinds.TABLE
    with TemporaryDirectory() as made:
        try:
            kinds.TABLE = text
            return kinds._tables(Path(made))
        finally:
            kinds.TABLE = kept


def answers(release: Any, level: float) -> list[tuple[str, Any]]:
    found = []
    for text in CONDITIONS if hasattr(release, "estimate") else ():
        try:
            found.append((text, release.estimate(text, level=level)))
        except QueryError:  # another kind's language, or another release's columns
            continue
    return found


@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999])
@pytest.mark.parametrize("name", kinds.NAMES)
def test_estimates_lie_between_their_limits_and_standard_errors_fit_them(
    name: str, level: float
) -> None:
    """A standard error is 0 where nothing is open, and only there; intervals have at most 50."""
    release = kinds.every_kind()[name]
    found = answers(release, level)
    # a bound that is stated for one level is refused at others
    assert found or not hasattr(release, "estimate") or level == 0.9999
    for text, one in found:
        assert one.low <= one.value <= one.high, text
        assert one.low >= 0.0, text
        assert math.copysign(1.0, one.low) > 0, f"{text}: a negative zero"
        assert one.high <= release.max_rows, text
        if one.standard_error == 0.0 or level > 0.9:  # at 50% limits may meet at a whole number
            assert (one.standard_error == 0.0) == (one.low == one.high), (text, one)
        if one.high > one.low and math.isfinite(one.high):
            assert one.standard_error >= 0.02 * (one.high - one.low), (text, one)


@pytest.mark.parametrize("name", kinds.NAMES)
def test_tables_lie_between_their_limits(name: str) -> None:
    release = kinds.every_kind()[name]
    if "marginal" not in release.offers() or not hasattr(release, "domain"):
        return
    for axis in release.domain.axes:
        frame = release.marginal(axis.name)
        value, error, low, high = (frame.to_series(at) for at in (-4, -3, -2, -1))
        assert ((low <= value) & (value <= high)).all(), axis.name
        assert (error >= 0).all()


@pytest.mark.parametrize("name", ["histogram", "projected", "joined", "generalized", "synthetic"])
def test_what_the_schema_rules_out_has_no_people(name: str) -> None:
    release = kinds.every_kind()[name]
    for text in ("a is null", "a = 'x' and a = 'y'", "false"):
        one = release.estimate(text)
        assert (one.value, one.low, one.high, one.standard_error) == (0, 0, 0, 0), text


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_number_of_rows_is_the_total_everywhere(name: str) -> None:
    release = counted_to_the_last_row()[name]
    assert release.public_total == kinds.ROWS
    whole = 1.0 if name == "weighted" else float(kinds.ROWS)
    column = "income" if name == "tree" else "a"
    is_either = f"{column} is null or {column} is not null"
    for text in ("true", is_either):
        one = release.estimate(text)
        assert (one.low, one.value, one.high) == pytest.approx((whole,) * 3), text
        assert one.standard_error == pytest.approx(0.0, abs=1e-9)
    if name == "weighted":
        return
    assert round(float(release.rows), 6) == kinds.ROWS
    counted: pl.DataFrame = release.sql("select count(*) as n from release", level=0.95)
    assert counted.row(0)[:3] == pytest.approx((whole,) * 3)
    alone = release.sql("select count(*) as n from release", level=None)
    assert alone.item() == pytest.approx(whole)
    total = float(release.marginal(column).to_series(-4).sum())
    # a table of noisy counts whose rows are each cut at 0 may be a few rows above it
    assert total == pytest.approx(kinds.ROWS, abs=4.0)


@pytest.mark.parametrize("name", ["histogram", "joined", "generalized", "tree"])
@pytest.mark.parametrize("level", [None, 0.95])
def test_sql_says_what_query_says(name: str, level: float | None) -> None:
    """The same numbers with and without limits, by condition and by group; weights are no
    answer."""
    release = counted_to_the_last_row()[name]
    for condition in ("income >= 500", "income < 130", "true"):
        query = f"select count(*) as n, avg(income) as m from release where {condition}"
        line = release.sql(query, level=level).row(0, named=True)
        one, mean = release.estimate(condition), release.mean("income", where=condition)
        assert (line["n"], line["m"]) == pytest.approx((one.value, mean.value))
        if level is not None:
            assert (line["n_low"], line["n_high"]) == (one.low, one.high)
            assert line["m_low"] <= line["m"] <= line["m_high"]
    column = "income" if name == "tree" else "a"
    table = release.marginal(column).select(pl.nth(0).cast(pl.String), "count").rows()
    by_value = f"select {column}, count(*) as n from release group by {column}"
    grouped = release.sql(by_value, level=level)["n"].to_list()
    assert sorted(grouped) == pytest.approx(
        sorted(count for _, count in table if len(table) == len(grouped) or count > 0), abs=1e-6
    )


def test_sql_of_weighted_rows_says_what_their_tables_say() -> None:
    release = kinds.every_kind()["weighted"]
    table = release.marginal("a", "b").sort("a", "b")
    found = release.sql("select a, b, count(*) as n from release group by a, b order by a, b")
    for one, other in (("n", "count"), ("n_low", "low"), ("n_high", "high")):
        assert found[one].to_list() == pytest.approx(table[other].to_list())
    means = release.sql("select a, avg(income) as m from release group by a order by a")
    for line in means.iter_rows(named=True):
        one = release.mean("income", where=f"a = '{line['a']}'")
        assert (line["m"], line["m_low"], line["m_high"]) == pytest.approx(
            (one.value, one.low, one.high)
        )
        assert line["m_note"] == one.note
