"""The order of levels in SQL against `estimate`, which reads conditions without the engine."""

from __future__ import annotations

import polars as pl
import pytest

from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.query.level_order import with_orders
from dpublish.query.sql import run_sql
from dpublish.releases.histogram.release import HistogramRelease
from releases.simulated import people_counts, release_of, varied_release


@pytest.fixture(scope="module")
def release() -> HistogramRelease:
    """Every cell is far above the threshold, so that estimates and SQL add up the same counts."""
    domain = Domain(
        (
            Axis(
                "degree",
                "ordinal",
                levels=("school", "bachelor", "master"),
                other=True,
                missing=True,
                outside="other",
            ),
            Axis("first", "ordinal", levels=("school", "bachelor", "master")),
            Axis("code", "categorical", levels=("1", "2")),
            Axis("grade", "ordinal", levels=("3", "2", "1")),
        )
    )
    return release_of(domain, people_counts(domain, 50_000, 5) + 100)


@pytest.mark.parametrize(
    "condition",
    [
        "degree >= 'bachelor'",
        "degree < 'bachelor'",
        "'bachelor' < degree",
        "not (degree >= 'master')",
        "degree between 'school' and 'bachelor'",
        "degree not between 'bachelor' and 'master'",
        "degree = '(other)'",
        "degree != 'master'",
        "degree in ('school', '(other)')",
        "degree is null",
        "grade > 2",
        "grade <= '2'",
    ],
)
def test_conditions_agree_with_estimates(release: HistogramRelease, condition: str) -> None:
    found = release.sql(f"select count(*) as n from release where {condition}")["n"][0]
    assert found > 0
    assert found == pytest.approx(release.estimate(condition).value, rel=0.01, abs=30)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "select degree from release group by degree order by degree",
            ["school", "bachelor", "master", "(other)", None],
        ),
        (
            "select distinct degree as d from release order by d desc",
            [None, "(other)", "master", "bachelor", "school"],
        ),
        ("select min(degree) from release", ["school"]),
        ("select max(degree) from release", ["master"]),
        (
            "select max(d) from (select code, min(degree) as d from release group by code) as t",
            ["school"],
        ),
        (
            "select code from release group by code having max(degree) > 'bachelor' order by code",
            ["1", "2"],
        ),
        (
            "with t as (select degree as d from release) select distinct d from t where d > "
            "'bachelor'",
            ["master"],
        ),
        ("select distinct upper(degree) as u from release where degree like 's%'", ["SCHOOL"]),
        (
            "select distinct coalesce(degree, 'none') as u from release where degree is null",
            ["none"],
        ),
        (
            "select distinct first from release where first > degree and degree = 'bachelor'",
            ["master"],
        ),
        (
            "select distinct cast(first as text) as t from release order by t",
            ["bachelor", "master", "school"],
        ),
        (
            "select distinct case when first >= 'bachelor' then 'up' else first end as t from "
            "release where code = '1'",
            ["school", "up"],
        ),
    ],
)
def test_sorting_and_extremes_follow_the_levels(
    release: HistogramRelease, query: str, expected: list[str | None]
) -> None:
    found = release.sql(query).to_series().to_list()
    assert (found if "order by" in query else sorted(found)) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select count(*) from release where degree > 'Master'", "Did you mean 'master'"),
        ("select count(*) from release where degree > '(other)'", "has no order"),
        ("select count(*) from release where degree > code", "Compare with a level"),
        ("select count(*) from release where degree > grade", "levels differ"),
        ("select max(coalesce(degree, 'school')) from release", "cast(... as text)"),
        ("select coalesce(degree, 'none') as d from release order by d", "cast(... as text)"),
    ],
)
def test_what_has_no_order_is_refused(release: HistogramRelease, query: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        release.sql(query)
    assert message in str(caught.value)


def test_texts_are_read_as_the_encoder_reads_them() -> None:
    axis = Axis("degree", "ordinal", levels=("school", "bachelor"), other=True, outside="other")
    frame = pl.DataFrame(
        {"degree": [" bachelor", "school", "cook", None], "weight": [1.0, 2.0, 4.0, 8.0]}
    )
    table, orders = with_orders(frame, [axis])
    assert table["degree"].to_list() == ["bachelor", "school", "cook", None]
    assert orders["degree"].beside == ("cook",)
    found = run_sql(
        "select count(*) as n from release where degree > 'school'", frame, ("degree",), [axis]
    )
    assert found["n"][0] == 1.0


def test_numbers_keep_their_own_order() -> None:
    axis = Axis("grade", "ordinal", levels=("9", "10"))
    frame = pl.DataFrame({"grade": [9, 10], "weight": [1.0, 2.0]})
    found = run_sql(
        "select avg(grade) as m, max(grade) as top from release", frame, ("grade",), [axis]
    )
    assert found.row(0) == (pytest.approx(29 / 3), 10)


def test_a_count_of_nothing_is_zero() -> None:
    found = varied_release().sql(
        "select count(*) as n, count(code) as c, sum(price) as s from release where price > 1000",
        level=None,
    )
    assert found.row(0) == (0, 0, None)
