"""2,000 odd predicates and SQL texts a run, 200,000 nightly: each is answered or refused with a
clear `QueryError`."""

from __future__ import annotations

import math
import random

import pytest

from dpublish.errors import QueryError
from dpublish.estimate import Estimate
from dpublish.releases.histogram.release import HistogramRelease
from releases.simulated import people_release, varied_release

WORDS = [
    *(
        "age",
        "sex",
        '"education-num"',
        "income",
        "agee",
        "release",
        "weight",
        "row_weight",
        "day",
        "price",
        "size",
        "code",
    ),
    *(
        "and",
        "or",
        "not",
        "in",
        "between",
        "is",
        "null",
        "like",
        "true",
        "false",
        "case",
        "when",
        "then",
        "else",
        "end",
    ),
    *(
        "=",
        "!=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "(",
        ")",
        ",",
        "*",
        "+",
        "-",
        "/",
        "%",
        "||",
        "::",
        ";",
        "--",
        "/*",
        "*/",
        "'",
        '"',
    ),
    *(
        "0",
        "1",
        "37",
        "-5",
        "1e9",
        "1e400",
        "9" * 50,
        "0.5",
        "'Male'",
        "'x'",
        "'2020-01-05'",
        "'(other)'",
        "''",
        "'\x00'",
        "'ü🙂'",
    ),
    *(
        "select",
        "count(*)",
        "sum(age)",
        "avg(price)",
        "from release",
        "where",
        "group by",
        "having",
        "order by",
        "limit 3",
    ),
    *(
        "distinct",
        "with t as (select * from release)",
        "union",
        "over ()",
        "join release b on true",
        "date '2020-01-05'",
    ),
    *(
        "read_csv('/etc/passwd')",
        "exists",
        "any",
        "all",
        "[1]",
        "{",
        "}",
        "$1",
        "?",
        "@",
        "\\",
        "\n",
        "\t",
        "\u202e",
    ),
]
PREDICATES = [
    "age >= 40 and income",
    "sex = 'Male' or \"education-num\" in (1, 2)",
    "not (age between 20 and 30)",
    "sex is null",
]
QUERIES = [
    "select income, count(*) from release group by income order by count(*) desc",
    "select sex, avg(age) as m from release where age > 30 group by sex having count(*) > 10 "
    "order by m limit 2",
    "with t as (select age from release where sex = 'Male') select count(*) from t",
]


def mutate(dice: random.Random, text: str) -> str:
    for _ in range(dice.randint(1, 4)):
        at, end = sorted((dice.randint(0, len(text)), dice.randint(0, len(text))))
        change = dice.random()
        if change < 0.3:
            text = text[:at] + text[min(end, at + 6) :]
        elif change < 0.6:
            text = text[:at] + dice.choice(WORDS) + text[at:]
        elif change < 0.8:
            text = (
                text[:at]
                + chr(dice.choice([0, 10, 39, 34, 92, 233, 0x202E, 0x1F600, dice.randint(32, 126)]))
                + text[at:]
            )
        else:
            text = text[:at] + text[at:end] * dice.randint(1, 3) + text[end:]
    return text


SWAPS = {
    "age": ["income", "sex", '"education-num"', "AGE"],
    "sex": ["age", "income", "Sex"],
    "income": ["sex", "true", "age"],
    ">=": ["<", "=", "!=", "<="],
    "=": ["!=", "<", ">="],
    "and": ["or", "and not"],
    "or": ["and"],
    "40": ["-1", "0", "27", "1000", "3.5"],
    "30": ["27", "90", "'30'"],
    "count(*)": ["sum(age)", "min(age)", "avg(age)", "count(sex)"],
    "desc": ["asc", ""],
    "select": ["select distinct", "select"],
}


def swap(dice: random.Random, text: str) -> str:
    """Replace a word or two by another that could stand there, so that many texts get past the
    parser."""
    words = text.split(" ")
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(words))
        words[at] = dice.choice(SWAPS.get(words[at], [words[at]]))
    return " ".join(words)


def odd(dice: random.Random, texts: list[str], start: str) -> str:
    """A third each: plausible texts, damaged texts, and words in any order."""
    style = dice.randrange(3)
    if style == 0:
        return swap(dice, dice.choice(texts))
    return mutate(dice, dice.choice(texts)) if style == 1 else start + soup(dice)


def soup(dice: random.Random) -> str:
    return " ".join(dice.choice(WORDS) for _ in range(dice.randint(1, 14)))


@pytest.fixture(scope="module")
def releases() -> list[HistogramRelease]:
    return [people_release(), varied_release()]


def clear(error: QueryError) -> None:
    text = str(error)
    assert 10 <= len(text) <= 2000
    assert "Traceback" not in text
    assert error.__cause__ is None


def test_predicates(releases: list[HistogramRelease]) -> None:
    dice = random.Random(20)
    answered = 0
    for _ in range(1200):
        text = odd(dice, PREDICATES, "")
        try:
            got = dice.choice(releases).estimate(text)
        except QueryError as error:
            clear(error)
            continue
        answered += 1
        assert isinstance(got, Estimate)
        assert all(
            math.isfinite(number) for number in (got.value, got.standard_error, got.low, got.high)
        )
        assert 0 <= got.low <= got.value <= got.high
    assert answered > 100  # the texts must reach the engine, not only the parser


def test_sql(releases: list[HistogramRelease]) -> None:
    dice = random.Random(21)
    answered = 0
    for _ in range(800):
        text = odd(dice, QUERIES, "select ")
        try:
            releases[0].sql(text)
            answered += 1
            releases[0].sql(text, level=0.9)
        except QueryError as error:
            clear(error)
    assert answered > 100  # the texts must reach the engine, not only the parser


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(40))
def test_many_more(releases: list[HistogramRelease], part: int) -> None:
    dice = random.Random(22 + part)
    for number in range(5_000):
        try:
            if number % 2:
                dice.choice(releases).estimate(odd(dice, PREDICATES, ""))
            else:
                releases[0].sql(odd(dice, QUERIES, "select "), level=dice.choice((None, 0.9)))
        except QueryError as error:
            clear(error)
