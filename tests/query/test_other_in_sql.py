"""'(other)' of a number, a date or a truth in SQL: null like a missing value, yet told apart from
it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dpublish as dp
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.releases.histogram.release import HistogramRelease
from releases.simulated import people_counts, release_of


@pytest.fixture(scope="module")
def release() -> HistogramRelease:
    domain = Domain(
        (
            Axis(
                "sick",
                "boolean",
                levels=("false", "true"),
                other=True,
                missing=True,
                outside="other",
            ),
            Axis("price", "real", edges=(0.0, 1.5, 3.0), other=True, missing=True, outside="other"),
            Axis(
                "day",
                "date",
                edges=(737_425, 737_435, 737_445),
                other=True,
                missing=True,
                outside="other",
            ),
        )
    )
    return release_of(domain, people_counts(domain, 50_000, 5) + 100)


@pytest.mark.parametrize("column", ["sick", "price", "day"])
def test_null_means_missing(release: HistogramRelease, column: str) -> None:
    counts = dict(release.marginal(column).select(column, "count").iter_rows())
    missing, other = counts["(missing)"], counts["(other)"]

    def found(condition: str) -> int:
        return int(release.sql(f"select count(*) as n from release where {condition}")["n"][0])

    total = int(release.counts.sum())
    assert found(f"{column} is null") == pytest.approx(missing, abs=30)
    assert found(f"{column}_other") == pytest.approx(other, abs=30)
    assert found(f"{column} is null") + found(f"{column} is not null") == total
    assert found(f"not (({column}) is null)") == found(f"{column} is not null")
    part = f"(select {column} as x, {column}_other as o from release) as t"
    assert release.sql(f"select count(*) as n from {part} where x is null")["n"][0] == found(
        f"{column} is null"
    )
    shown = release.sql(
        f"select {column}, {column}_other, count(*) as n from release group by {column}, "
        f"{column}_other"
    )
    assert shown.height == 4
    case = f"select sum(case when {column} is null then 1 else 0 end) as n from release"
    assert release.sql(case)["n"][0] == found(f"{column} is null")


def test_a_subquery_that_cannot_tell_is_refused(release: HistogramRelease) -> None:
    with pytest.raises(QueryError, match="does not say where 'x' is"):
        release.sql("select count(*) from (select price as x from release) as t where x is null")
    assert (
        release.sql("select count(*) as n from (select price as x from release) as t where x > 1")[
            "n"
        ][0]
        > 0
    )
    assert release.sql("select * from release").columns == [
        *("sick", "sick_other", "price", "price_other", "day", "day_other", "weight"),
    ]


@pytest.mark.parametrize("column", ["sick", "price", "day"])
def test_limits_tell_other_from_missing(release: HistogramRelease, column: str) -> None:
    told = {
        label: (low, high)
        for label, low, high in release.marginal(column).select(column, "low", "high").iter_rows()
    }
    query = (
        f"select {column}_other as o, {column}, count(*) as n from release group by "
        f"{column}, {column}_other"
    )
    found = {(line[0], line[1]): line[3:] for line in release.sql(query, level=0.95).iter_rows()}
    assert len(found) == 4
    assert found[(True, None)] == told["(other)"]
    assert found[(False, None)] == told["(missing)"]
    alone = release.sql(
        f"select {column}_other, count(*) as n from release group by {column}_other", level=0.95
    )
    assert alone.filter(pl.col(f"{column}_other")).row(0)[2:] == told["(other)"]


@pytest.mark.parametrize("column", ["sick", "price", "day"])
def test_limits_of_a_condition_on_a_flag(release: HistogramRelease, column: str) -> None:
    def limits(condition: str) -> tuple[float, ...]:
        return tuple(
            release.sql(f"select count(*) as n from release where {condition}", level=0.95).row(0)
        )

    other = release.estimate(f"{column} = '(other)'")
    rest = release.estimate(f"{column} is null or {column} <> '(other)'")
    assert (
        limits(f"{column}_other")[1:]
        == limits(f"{column}_other = true")[1:]
        == (other.low, other.high)
    )
    # unlike a comparison with '(other)', a flag is known of missing values
    assert (
        limits(f"not {column}_other")[1:]
        == limits(f"({column}_OTHER) is false")[1:]
        == (rest.low, rest.high)
    )


SCHEMA = """
[dataset]
name = "shop"
size = 2000
[columns.sick]
kind = "boolean"
missing = true
outside = "other"
[columns.degree]
kind = "ordinal"
levels = ["school", "bachelor", "master"]
outside = "drop"
"""


@pytest.mark.parametrize("method", ["JoinedHistograms", "GeneralizedTable"])
def test_other_kinds_of_releases(method: str, tmp_path: Path) -> None:
    """They spread out only the columns that a query names, so the flag must count as a name too."""
    sick = ["true", "false", "perhaps", None] * 500
    rows = pl.DataFrame(
        {"sick": sick, "degree": ["school", "bachelor", "bachelor", "master", "school"] * 400}
    )
    (tmp_path / "shop.toml").write_text(SCHEMA)
    curator = dp.Curator(
        rows, tmp_path / "shop.toml", ledger=tmp_path / "a.db", budget=dp.Budget(epsilon=9)
    )
    release: Any = curator.publish(getattr(dp, method)(), epsilon=9, seed=1)
    expected = {
        "sick is null": 500,
        "sick_other": 500,
        "sick is not null": 1500,
        "degree >= 'bachelor'": 1200,
    }
    for condition, wanted in expected.items():
        found = release.sql(f"select count(*) as n from release where {condition}")["n"][0]
        assert found == pytest.approx(wanted, abs=40), condition
