"""SQL over weighted cells against SQLite over the same cells repeated as often as their weights
say: what stands below the estimates that a release puts in their place."""

from __future__ import annotations

import sqlite3

import polars as pl
import pytest

from dpublish.errors import QueryError
from dpublish.query.sql import run_sql
from dpublish.releases.frames import sql_frame
from dpublish.releases.histogram.release import HistogramRelease
from releases.simulated import people_release, varied_release


@pytest.fixture(scope="module")
def release() -> HistogramRelease:
    return people_release()


def weighed(release: HistogramRelease, query: str) -> pl.DataFrame:
    """Sums of weights, before they become estimates."""
    domain = release.domain
    frame = sql_frame(release.cells, release.counts, domain)
    return run_sql(query, frame, domain.names, domain.axes)


@pytest.fixture(scope="module")
def rows(release: HistogramRelease) -> sqlite3.Connection:
    frame = release.to_frame()
    base = sqlite3.connect(":memory:")
    base.execute(
        'create table release (age real, sex text, "education-num" integer, income integer)'
    )
    for *values, weight in frame.iter_rows():
        base.executemany("insert into release values (?, ?, ?, ?)", [values] * weight)
    return base


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from release",
        "select count(1) as n from release",
        "select income, count(*) from release group by income order by income",
        'select count("education-num"), sum("education-num"), min(age), max(age) from release',
        'select sex, avg(age), avg("education-num") from release group by sex order by sex',
        "select age, count(*) as n from release where sex = 'Male' group by age having count(*) > "
        "100 order by n desc limit 3",
        "select age, count(*) from release group by age order by count(*) desc, age",
        "select sex, income, count(*) * 100.0 / 2 as x from release group by sex, income order by "
        "sex, income",
        "with old as (select age, sex from release where age > 50) select sex, count(*) from old "
        "group by sex order by sex",
        "select max(n), avg(n), count(*) from (select age, count(*) as n from release group by "
        "age) as t",
        "select case when age < 40 then 'young' else 'old' end as stage, count(*) from release "
        "group by stage order by stage",
        "select sum(case when income then 1 else 0 end), count(*) from release where age between "
        "20 and 60",
        "select count(*) from release where \"education-num\" is null or sex in ('Male', 'Female')",
        "select r.sex, count(*) as n from release as r group by r.sex order by n",
        "select distinct sex from release order by sex",
        "select count(*) from (select distinct sex, income from release) as t",
        "select upper(sex) as u, sum(age) / count(*) from release group by upper(sex) order by u",
        "select avg(age + 1) - avg(age) from release",
        "select sum(age) from release where not (age > 40 and income)",
    ],
)
def test_answers_agree_with_repeated_rows(
    release: HistogramRelease, rows: sqlite3.Connection, query: str
) -> None:
    expected = rows.execute(query).fetchall()
    got = [tuple(row) for row in weighed(release, query).iter_rows()]
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert (
                a == b if isinstance(b, str) or b is None else float(a) == pytest.approx(float(b))
            ), (query, got, expected)


@pytest.mark.parametrize(
    ("query", "sorted_by"),
    [
        ("select age, count(*) from release group by age", "age"),
        ("select count(*), age from release group by age limit 3", "age"),
        ("select sum(0) as z, age from release group by age order by z", "age"),
        ("select sum(0) as z from release group by age order by z, age desc", "z"),
        ("select 2 * age as twice, count(*) from release group by 1", "twice"),
        (
            "select case when age < 40 then 'young' else 'old' end as stage, count(*) from "
            "release group by stage",
            "stage",
        ),
        ("select distinct sex from release", "sex"),
        ("select distinct age from release limit 2", "age"),
    ],
)
def test_lines_have_an_order_of_their_own(
    release: HistogramRelease, query: str, sorted_by: str
) -> None:
    """So that a query, with LIMIT above all, gives the same lines each time."""
    frame = release.sql(query)
    assert frame.height > 1
    assert frame.equals(frame.sort(sorted_by, maintain_order=True, nulls_last=True))


def test_levels_that_lost_their_order_still_group() -> None:
    release = varied_release()
    found = release.sql(
        "select count(*) as n from release group by case when size = 'small' then size else "
        "'more' end"
    )
    assert found.height == 2
    # and levels that keep it come in the order of the schema, not of the alphabet
    order = list(release.domain.axes[release.domain.names.index("size")].levels)
    shown = [
        value
        for value in release.sql("select size, count(*) from release group by size")["size"]
        if value in order
    ]
    assert shown == [level for level in order if level in shown] != sorted(shown)


def test_plain_rows_show_their_weight(release: HistogramRelease) -> None:
    frame = release.sql("select * from release")
    assert frame.columns == ["age", "sex", "education-num", "income", "weight"]
    assert frame["weight"].sum() == release.counts.sum()
    assert release.sql("select sex from release limit 2").columns == ["sex", "weight"]
    assert release.sql("select age as weight from release limit 2").columns == ["weight", "weight_"]


def test_output_names(release: HistogramRelease) -> None:
    query = "SELECT Sex, COUNT(*), avg(age) AS m FROM Release GROUP BY Sex"
    frame = release.sql(query, level=None)
    assert frame.columns == ["Sex", "count(*)", "m"] or frame.columns == ["sex", "count(*)", "m"]
    assert not any(
        dtype == pl.Decimal
        for dtype in release.sql("select 1.5 * count(*) as x from release").dtypes
    )


def test_dates_and_text() -> None:
    release = varied_release()
    frame = release.sql(
        "select day, avg(price) as p from release where day < '2020-01-10' group by day"
    )
    assert frame.height == 1
    assert release.sql("select count(*) as n from release where code = 'it''s'")["n"][0] > 0
    assert release.sql("select count(*) as n from release where size like 's%'")["n"][0] > 0


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select count(distinct age) from release", "count noise"),
        ("select row_number() over (order by age) from release", "Window"),
        ("select sum(age) over () from release", "Window"),
        ("select a.age from release a join release b on a.age = b.age", "Joins"),
        ("select * from release, release as b", "Joins"),
        ("select * from read_csv('/etc/passwd')", "FROM takes"),
        ("select * from '/etc/passwd'", ""),
        ("select * from other", "no table 'other'"),
        ("select * from releas", "Did you mean 'release'"),
        ("select agee from release", "Did you mean 'age'"),
        ('select sex from release where sex = "Male"', "single quotes"),
        ("select stddev(age) from release", "not supported"),
        ("select quantile(age, 1.5) from release", "between 0 and 1"),
        ("select median(age) from (select age from release) t", "straight from release"),
        (
            "select percentile_cont(0.5) within group (order by age desc) from release",
            "quantile(age, 0.9)",
        ),
        ("select count(*) filter (where age > 3) from release", "FILTER"),
        ("select (select count(*) from release)", "FROM"),
        ("select age from release where age in (select age from release)", "subquery"),
        ("select age from release where exists (select 1 from release)", ""),
        ("select age from (select age from release limit 3) t", "LIMIT"),
        ("select sum(count(*)) from release", "inside an aggregate"),
        ("select age from release where count(*) > 3", "HAVING"),
        ("select age from release union select age from release", "Only a SELECT"),
        ("insert into release values (1)", "Only a SELECT"),
        ("drop table release", "Only a SELECT"),
        ("select 1", "no FROM"),
        ("select count(*), count(*) from release", "Two output columns"),
        ("select count(*) from release group by rollup (age)", ""),
        ("with recursive t as (select age from release) select * from t", "Recursive"),
        ("with release as (select age from release) select * from release", "twice"),
        ("select age from release; select 1", "one query"),
        ("select row_weight from release", "no column"),
        ("select pg_read_file('/etc/passwd') from release", "not supported"),
        ("select age from release tablesample (10)", ""),
        ("", "empty"),
        ("select count(* from release", "parse"),
    ],
)
def test_what_cannot_be_weighted_is_refused(
    release: HistogramRelease, query: str, message: str
) -> None:
    with pytest.raises(QueryError) as caught:
        release.sql(query)
    assert message in str(caught.value)


CHAIN = ", ".join(
    f"a{place} as (select age + age as age from {'release' if not place else f'a{place - 1}'})"
    for place in range(300)
)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            f"select count(*) from release where {' or '.join(['age > 3'] * 9000)}",
            "more than 500 steps",
        ),
        (f"select {'+'.join(['age'] * 20_000)} as x from release", "more than 500 steps"),
        (
            f"select case {'when age = 1 then 2 ' * 3000} end as x from release",
            "more than 500 steps",
        ),
        (f"with {CHAIN} select sum(age) from a299", "301 SELECTs"),
    ],
    ids=["or", "plus", "case", "with"],
)
def test_what_would_end_the_process_or_last_for_minutes_is_refused(
    release: HistogramRelease, query: str, message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        release.sql(query)


def test_long_queries_within_the_limits_are_run(release: HistogramRelease) -> None:
    everyone = release.sql("select count(*) as n from release", level=None).item()
    long = f"select count(*) as n from release where {' or '.join(['age > 3'] * 400)}"
    assert release.sql(long, level=None).item() == pytest.approx(everyone, rel=0.01)
    listed = ", ".join(str(age) for age in range(9000))
    assert release.sql(f"select count(*) as n from release where age in ({listed})").height == 1


@pytest.mark.parametrize(
    "query", ["explain select 1", "explain analyze select * from release", "vacuum", "call f()"]
)
def test_the_parser_says_nothing_of_its_own(
    release: HistogramRelease,
    query: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(QueryError, match="Only a SELECT can be run"):
        release.sql(query)
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_medians_are_called_as_the_query_spells_them(release: HistogramRelease) -> None:
    found = release.sql("select median(age), quantile(age, 0.9) from release", level=None)
    assert found.columns == ["median(age)", "quantile(age, 0.9)"]
