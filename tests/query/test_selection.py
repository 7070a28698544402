"""Selections against an independent judge: SQLite, on a table with every value of every bin of a
small domain."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import sqlite3
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.query.masks import Coverage, Selection, select
from dpublish.query.predicate import parse_predicate
from dpublish.releases.frames import decode_cells

FIRST = dt.date(2020, 1, 1)
SMALL = Domain(
    (
        Axis("n", "integer", edges=(0, 3, 4, 8), missing=True),
        Axis(
            "kind", "categorical", levels=("a", "b", "c"), other=True, missing=True, outside="other"
        ),
        Axis(
            "day", "date", edges=(FIRST.toordinal(), FIRST.toordinal() + 4, FIRST.toordinal() + 6)
        ),
        Axis("flag", "boolean", levels=("false", "true"), missing=True, outside="drop"),
    )
)


def points(axis: Axis, code: int) -> list[object]:
    """Every value that a code may stand for, as SQLite sees it."""
    if code == axis.missing_code:
        return [None]
    if code == axis.other_code:
        return ["(other)"]
    if axis.kind == "date":
        return [
            dt.date.fromordinal(day).isoformat()
            for day in range(int(axis.edges[code]), int(axis.edges[code + 1]))
        ]
    if axis.numeric:
        return list(range(int(axis.edges[code]), int(axis.edges[code + 1])))
    return [axis.levels[code]]


@pytest.fixture(scope="module")
def judge() -> sqlite3.Connection:
    base = sqlite3.connect(":memory:")
    base.execute(
        "create table t (cell integer, share real, n integer, kind text, day text, flag text)"
    )
    shape = [range(axis.cardinality) for axis in SMALL.axes]
    for cell, codes in enumerate(itertools.product(*shape)):
        each = [points(axis, code) for axis, code in zip(SMALL.axes, codes, strict=True)]
        rows = list(itertools.product(*each))
        base.executemany(
            "insert into t values (?, ?, ?, ?, ?, ?)", [(cell, 1 / len(rows), *row) for row in rows]
        )
    return base


def cover_all(selection: Selection, domain: Domain) -> Coverage:
    cells = np.arange(domain.size, dtype=np.uint64)
    return selection.cover(lambda index: decode_cells(cells, domain, index), len(cells))


def random_predicate(dice: random.Random, depth: int) -> str:
    if depth and dice.random() < 0.65:
        joined = f" {dice.choice(['and', 'or'])} ".join(
            random_predicate(dice, depth - 1) for _ in range(dice.randint(2, 3))
        )
        return f"{'not ' if dice.random() < 0.3 else ''}({joined})"
    sign = dice.choice(["=", "!=", "<", "<=", ">", ">=", "<>"])
    days = [(FIRST + dt.timedelta(days=i)).isoformat() for i in range(-1, 8)]
    leaf = dice.choice(
        [
            f"n {sign} {dice.choice([-1, 0, 1, 2, 3, 4, 5, 7, 8, 2.5, 3.0])}",
            f"{dice.randint(-1, 8)} {sign} n",
            f"n between {dice.randint(-1, 5)} and {dice.randint(0, 9)}",
            f"n in ({', '.join(str(dice.randint(-1, 8)) for _ in range(dice.randint(1, 4)))})",
            f"kind {dice.choice(['=', '!='])} '{dice.choice(['a', 'b', 'c', '(other)'])}'",
            f"kind in ('{dice.choice('abc')}', '{dice.choice('abc')}')",
            f"day {sign} '{dice.choice(days)}'",
            f"flag = '{dice.choice(['true', 'false'])}'",
            f"{dice.choice(['n', 'kind', 'day', 'flag'])} is {dice.choice(['', 'not '])}null",
        ]
    )
    return f"not {leaf}" if dice.random() < 0.2 else leaf


def test_random_predicates_agree_with_sqlite(judge: sqlite3.Connection) -> None:
    dice = random.Random(5)
    for _ in range(400):
        text = random_predicate(dice, dice.randint(0, 3))
        share = np.zeros(SMALL.size)
        for cell, part in judge.execute(
            f"select cell, sum(share) from t where {text} group by cell"
        ):
            share[cell] = part
        selection = select(parse_predicate(text, SMALL), SMALL)
        got = cover_all(selection, SMALL)
        assert np.allclose(got.share, share, atol=1e-9), text
        assert np.array_equal(got.touched, share > 0), text
        assert np.array_equal(got.inside, share > 1 - 1e-9), text
        assert selection.inside == int(got.inside.sum()), text
        assert selection.touched == int(got.touched.sum()), text
        assert selection.share == pytest.approx(float(share.sum())), text


def test_counts_are_exact_on_a_domain_of_2_to_the_63() -> None:
    domain = Domain(tuple(Axis(f"x{i}", "categorical", levels=tuple("ab")) for i in range(63)))
    assert domain.size == 1 << 63
    one = select(parse_predicate("x0 = 'a' and x5 != 'b'", domain), domain)
    assert one.inside == 1 << 61
    some = select(
        parse_predicate("x0 = 'a' or x1 = 'a' or (x2 = 'a' and x3 = 'b')", domain), domain
    )
    assert Fraction(some.inside, domain.size) == 1 - Fraction(1, 4) * Fraction(3, 4)
    long = " and ".join(f"x{i} = 'a'" for i in range(63))
    assert select(parse_predicate(long, domain), domain).inside == 1
    anything = " or ".join(f"x{i} = 'a'" for i in range(63))
    assert select(parse_predicate(anything, domain), domain).inside == (1 << 63) - 1


def test_a_wide_axis_stays_cheap() -> None:
    domain = Domain(
        (
            Axis("id", "integer", edges=tuple(range(500_001))),
            Axis("y", "boolean", levels=("false", "true")),
        )
    )
    chosen = select(
        parse_predicate("(id < 250000 and y) or (id >= 400000 and not y)", domain), domain
    )
    assert chosen.inside == 250_000 + 100_000


def test_a_predicate_that_ties_too_much_together_is_refused() -> None:
    domain = Domain(tuple(Axis(f"x{i}", "integer", edges=tuple(range(41))) for i in range(6)))
    parts = [" and ".join(f"x{i} = {k}" for i in range(6)) for k in range(20)]
    with pytest.raises(QueryError, match="too many"):
        select(parse_predicate(" or ".join(f"({part})" for part in parts), domain), domain)


REAL = Domain((Axis("price", "real", edges=(0.0, 1.5, 3.0, 10.0), other=True, outside="other"),))


@pytest.mark.parametrize(
    ("text", "inside", "touched", "share"),
    [
        ("price < 1.5", [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]),
        ("price <= 1.5", [1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]),
        ("price > 1.5", [0, 0, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0]),
        ("price >= 0.75", [0, 1, 1, 0], [1, 1, 1, 0], [0.5, 1, 1, 0]),
        ("price = 3", [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]),
        ("price <= 10", [1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0]),
        ("price < 10", [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0]),
        ("price > 10", [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]),
        ("price = '(other)'", [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]),
        ("price is not null", [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]),
    ],
)
def test_real_bins(text: str, inside: list[int], touched: list[int], share: list[float]) -> None:
    got = cover_all(select(parse_predicate(text, REAL), REAL), REAL)
    assert got.inside.astype(int).tolist() == inside
    assert got.touched.astype(int).tolist() == touched
    assert np.allclose(got.share, share)


def test_codes_are_asked_for_named_columns_only() -> None:
    asked: list[int] = []

    def codes(index: int) -> NDArray[np.int64]:
        asked.append(index)
        return np.zeros(1, dtype=np.int64)

    select(parse_predicate("kind = 'a' and n > 2", SMALL), SMALL).cover(codes, 1)
    assert sorted(asked) == [0, 1]
