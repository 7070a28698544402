from __future__ import annotations

import pytest
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres

from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.query.constants import quoted
from dpublish.query.masks import select
from dpublish.query.predicate import Constant, parse_predicate, parse_select
from releases.simulated import people, varied

PEOPLE = people()


def share(text: str, domain: Domain = PEOPLE) -> float:
    return select(parse_predicate(text, domain), domain).share / domain.size


@pytest.mark.parametrize(
    ("text", "fraction"),
    [
        ("true", 1.0),
        ("not true", 0.0),
        ("income", 0.5),
        ("not income", 0.5),
        ("income = 'TRUE'", 0.5),
        ("sex = 'Male'", 1 / 3),
        ("SEX = 'Male'", 1 / 3),
        ("release.sex = 'Male'", 1 / 3),
        ("sex != 'Male'", 2 / 3),
        ("sex not in ('Male', '(other)')", 1 / 3),
        ('"education-num" = 2', 1 / 5),
        ('"education-num" <> 2', 3 / 5),
        ('"education-num" is null', 1 / 5),
        ('"education-num" is not null', 4 / 5),
        ('not ("education-num" is not null)', 1 / 5),
        ("age < 27", 1 / 7),
        ("27 > age", 1 / 7),
        ("age <= 26.5", 1 / 7),
        ("age between 27 and 46", 2 / 7),
        ("age not between 27 and 46", 5 / 7),
        ("age between 46 and 27", 0.0),
        ("age = -1", 0.0),
        ("age < 22", 0.5 / 7),
        ("income is true", 0.5),
        ("income is not true", 0.5),
    ],
)
def test_meaning(text: str, fraction: float) -> None:
    assert share(text) == pytest.approx(fraction)


def test_other_kinds() -> None:
    domain = varied()
    assert share("size >= 'medium'", domain) == pytest.approx(2 / 4)
    assert share("size between 'small' and 'medium'", domain) == pytest.approx(2 / 4)
    assert (
        share("code = 1", domain)
        == share("code = 1.0", domain)
        == share("code = '1'", domain)
        == pytest.approx(1 / 4)
    )
    assert share("code = 'it''s'", domain) == pytest.approx(1 / 4)
    assert (
        share("day < '2020-01-11'", domain)
        == share("day < date '2020-01-11'", domain)
        == pytest.approx(1 / 3)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agee = 1", "Did you mean 'age'"),
        ("sex = 'Mal'", "Did you mean 'Male'"),
        ("sex = 'male'", "Did you mean 'Male'"),
        ("sex = 'x'", "has no level 'x'"),
        ("sex < 'Male'", "no order"),
        ("sex = Male", "single quotes: 'Male'"),
        ("education-num = 3", 'double quotes: "education-num"'),
        ("age = sex", "compares two columns"),
        ("age = null", "age is null"),
        ("sex = '(missing)'", "sex is null"),
        ("age = 'old'", "holds numbers"),
        ("age = true", "not with true"),
        ("sex", "not a condition"),
        ("1 = 1", "names no column"),
        ("age like '4%'", "not part of the predicate language"),
        ("lower(sex) = 'male'", "computes something from a column"),
        ("age in (select 1)", "list constants"),
        ("age between symmetric 1 and 2", "symmetric"),
        ("other.age = 1", "one table"),
        ("age = 1; age = 2", "one query"),
        ("", "empty"),
        ("   ", "empty"),
        ("age = 1e999", "too large"),
        ("age = " + "9" * 100, "60 digits"),
        ("select * from release", "not part of the predicate language"),
        ("'unclosed", "cannot be read"),
    ],
)
def test_mistakes_are_explained(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_predicate(text, PEOPLE)
    assert message in str(caught.value)


@pytest.mark.parametrize(("text", "caret"), [("age >=", 5), ("age = 1 and", 8), ("(age = 1", 7)])
def test_syntax_errors_point_at_the_place(text: str, caret: int) -> None:
    with pytest.raises(QueryError) as caught:
        parse_predicate(text, PEOPLE)
    lines = str(caught.value).splitlines()
    assert lines[1].strip() == text
    assert abs(lines[2].index("^") - 2 - caret) <= 1


def test_dates_must_be_dates() -> None:
    for text in ("day = 5", "day = 'soon'", "day = '2020-02-30'"):
        with pytest.raises(QueryError, match="dates"):
            parse_predicate(text, varied())


def test_long_and_deep_texts() -> None:
    long = " or ".join(f"age = {i}" for i in range(3000))
    assert share(long) == pytest.approx(1.0)
    for deep in (
        "(" * 5000 + "age = 1" + ")" * 5000,
        "not " * 5000 + "income",
        "age = 1 and (" * 400 + "income" + ")" * 400,
    ):
        with pytest.raises(QueryError):
            parse_predicate(deep, PEOPLE)
    with pytest.raises(QueryError, match="characters"):
        parse_predicate("x" * 200_000, PEOPLE)


def test_not_text() -> None:
    with pytest.raises(QueryError, match="text"):
        parse_predicate(5, PEOPLE)  # type: ignore[arg-type]


def test_constants_alone() -> None:
    assert parse_predicate("false", PEOPLE) == Constant(False)


def test_whole_numbers_beyond_the_float_range() -> None:
    big = 1 << 61
    domain = Domain((Axis("id", "integer", edges=(big, big + 1, big + 2, big + 3)),))
    assert share(f"id = {big + 1}", domain) == pytest.approx(1 / 3)
    assert share(f"id < {10**40}", domain) == pytest.approx(1.0)


def test_a_long_wrong_name_is_not_repeated_in_full() -> None:
    from every_kind import every_kind

    with pytest.raises(QueryError) as refused:
        every_kind()["histogram"].estimate("a" * 20_000)
    assert len(str(refused.value)) < 300


def test_a_column_that_is_a_word_of_sql() -> None:
    """German tables have 'alter' for age: what we write of it parses, and what people write of it
    bare is told what it lacks."""
    domain = Domain((Axis("alter", "categorical", ("a", "b")),))
    assert quoted("alter") == '"alter"'
    assert share("\"alter\" = 'a'", domain) == pytest.approx(1 / 2)
    for text in ("alter = 'a'", "true and alter = 'a'"):
        with pytest.raises(QueryError, match=r'word of SQL.*needs double quotes, "alter"'):
            parse_predicate(text, domain)
    with pytest.raises(QueryError, match=r"\^\n.alter. is a word of SQL"):
        parse_select("select alter, count(*) from release group by alter", domain.names)


def test_what_is_quoted_reads_as_the_column() -> None:
    for name in [*Postgres.Tokenizer.KEYWORDS, "age", "größe", "x-y", "two words", 'a"b']:
        tree = parse_select(
            f"select {quoted(name)} from release where {quoted(name)} = 1 group by {quoted(name)}",
            [name],
        )
        assert [one.name for one in tree.find_all(exp.Column)] == [name] * 3, name
