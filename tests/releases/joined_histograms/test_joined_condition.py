"""The model given a condition: its count against the exact table, its rows against the condition
and against the model."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from dpublish.errors import QueryError
from dpublish.models.junction_tree import model as model_module
from dpublish.privacy.cost import Cost
from dpublish.query.predicate import Constant, columns_of, parse_predicate
from dpublish.releases.joined_histograms.condition import Conditioned, pieces_of, taken_apart
from dpublish.releases.joined_histograms.release import JoinedRelease
from models.junction_tree.joined_cases import SCHEMA, made

# the target cut in the middle of a bin, an age with missing and other values, and columns that
# nothing joins
ODD = """
[dataset]
name = "odd"
neighbours = "add-remove-one"
target = "score"

[columns.score]
kind = "integer"
lower = 0
upper = 29
bins = 3

[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 10
missing = true
outside = "other"

[columns.region]
kind = "categorical"
levels = ["n", "e", "s"]
"""
CONDITIONS = [
    "age = 37",
    "age >= 37 and age < 45 and region = 'n'",
    "not age = 37 and (age > 3 or age < 2) and ill",
    "age between 3 and 11 and not ill",
    "seen > '2020-03-07' and seen < '2020-04-11' and city in ('n1', 'w2')",
    "dose < 3.3",
    "dose is null and city = 'n1'",
    "dose < 3.3 and (region = 'n' or age < 33)",
    "age < 33 or dose > 4.2",
    "ill and (age < 33 or dose > 4.2) and region != 's'",
    "true",
]


@pytest.fixture(scope="module", params=[0, 2])
def release(request: pytest.FixtureRequest) -> JoinedRelease:
    """A forest of pairs, and a model with circles."""
    return made(cost=Cost.pure(3), rounds=request.param)


@pytest.fixture(scope="module")
def odd() -> JoinedRelease:
    from dpublish.noise.source import SeededNoise
    from models.junction_tree.joined_cases import planned, released

    rng = np.random.default_rng(3)
    age, region = rng.integers(0, 12, 4000), rng.integers(0, 3, 4000)
    score = np.minimum(2, (age + region + rng.integers(0, 5, 4000)) // 6)
    method, plan = planned(Cost.pure(4), text=ODD)
    assert plan.domain is not None
    assert plan.domain.names == ("score", "age", "region")
    return released(method.run(SeededNoise(1), [score, age, region], plan), plan)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_count_is_that_of_the_exact_table(
    release: JoinedRelease, condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = parse_predicate(condition, release.domain)
    exact = release._expected(node)
    monkeypatch.setattr(model_module, "MAX_JOINT", 1)
    given = release._expected(node)
    if Conditioned(release.model, release.domain, node).exact:
        assert given == pytest.approx(exact, rel=1e-9)
    else:  # 200,000 drawn rows, evenly spread: a share is off by far less than half a percent
        assert given == pytest.approx(exact, abs=0.005 * release.model.total)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_satisfy_the_condition_also_inside_bins(
    release: JoinedRelease, condition: str
) -> None:
    frame = release.sample(500, seed=1, where=condition)
    assert frame.height == 500
    assert frame.schema == release.sample(1).schema
    assert frame.sql(f"select * from self where {condition.replace('true', '1 = 1')}").height == 500


def test_as_many_rows_as_there_are_unless_told(release: JoinedRelease) -> None:
    for condition in ("region = 'n' and age < 33", "age < 33 or dose > 4.2"):
        assert release.sample(where=condition, seed=1).height == pytest.approx(
            release.estimate(condition).value, abs=200
        )


def test_rows_follow_the_model(release: JoinedRelease) -> None:
    """Total variation over 40 cells of 20,000 rows, drawn evenly: a fair sample of independent rows
    would be off by 0.02."""
    condition = "age >= 37 and age < 55 and region != 'w'"
    node = parse_predicate(condition, release.domain)
    wanted = Conditioned(release.model, release.domain, node).model.joint([2, 4])
    frame = release.sample(20_000, seed=2, where=condition)
    cities = release.domain.axes[2].levels
    city = np.array([cities.index(name) for name in frame["city"]])
    dose = frame["dose"].fill_null(10.5).to_numpy().astype(np.int64)
    found = np.bincount(city * 11 + dose, minlength=88).reshape(8, 11) / 20_000
    assert 0.5 * np.abs(found - wanted / wanted.sum()).sum() < 0.02


def test_rare_rows_are_drawn_without_waiting_for_them(release: JoinedRelease) -> None:
    condition = "age = 3 and city = 'w2' and seen = '2020-02-29' and ill"
    assert release.estimate(condition).value < 0.1
    frame = release.sample(2_000, seed=1, where=condition)
    assert frame["seen"].unique().to_list() == [dt.date(2020, 2, 29)]
    assert frame["age"].unique().to_list() == [3]


@pytest.mark.parametrize(
    "condition",
    ["false", "age >= 99 and age < 1", "age < 1 and (region = 'n' or city = 'n1') and age > 2"],
)
def test_what_no_row_can_satisfy_is_refused(release: JoinedRelease, condition: str) -> None:
    with pytest.raises(
        QueryError, match="too rare in this release to draw 5 of them: 0 were found"
    ):
        release.sample(5, where=condition)
    assert release.sample(0, where=condition).height == 0
    assert release.estimate(condition).value == 0.0


def test_a_cut_target_and_values_that_are_none(odd: JoinedRelease) -> None:
    for condition in (
        "score < 14",
        "score between 12 and 13 and region = 'e'",
        "age is null",
        "score > 25 or age < 15",
    ):
        node = parse_predicate(condition, odd.domain)
        given = Conditioned(odd.model, odd.domain, node)
        exact = odd._expected(node)
        assert given.expected(200_000, np.random.default_rng(0)) == pytest.approx(
            exact, rel=1e-9 if given.exact else 0.01
        )
        frame = odd.sample(300, seed=1, where=condition)
        assert frame.sql(f"select * from self where {condition}").height == 300
    assert odd.sample(300, seed=1, where="not age < 50")["age"].min() == 50


def test_pieces_of_a_bin_share_its_rows() -> None:
    axis = replace(made(100).domain.axes[0], tilts=())
    pieces = pieces_of(axis, [parse_predicate("age between 12 and 13", made(100).domain)])  # type: ignore[list-item]
    assert pieces.axis.edges[:6] == (0, 5, 10, 12, 14, 15)
    assert pieces.level[:6].tolist() == [0, 1, 2, 2, 2, 3]
    assert pieces.share[:6] == pytest.approx([1.0, 1.0, 0.4, 0.4, 0.2, 1.0])
    sloped = replace(axis, tilts=(0.0, 0.0, -2.0, *[0.0] * (axis.base - 3)))
    pieces = pieces_of(sloped, [parse_predicate("age between 12 and 13", made(100).domain)])  # type: ignore[list-item]
    assert pieces.share[2] > 0.4 > pieces.share[3] > pieces.share[4]
    assert pieces.share[2:5].sum() == pytest.approx(1)
    assert pieces.axis.tilts[2:5] == pytest.approx([-0.8, -0.8, -0.4])


def test_a_condition_is_taken_apart() -> None:
    domain = made(100).domain
    alone, rest = taken_apart(
        parse_predicate("age < 3 and (ill or age > 1) and (age > 0 and ill) and true", domain)
    )
    assert set(alone) == {0, 5}
    assert columns_of(rest) == {0, 5}
    assert taken_apart(parse_predicate("ill and false", domain))[1] == Constant(False)
    assert taken_apart(parse_predicate("ill", domain))[1] == Constant(True)


def test_no_seed_gives_other_rows_and_a_seed_the_same(release: JoinedRelease) -> None:
    condition = "dose < 3.3 and (region = 'n' or age < 33)"
    assert release.sample(50, seed=4, where=condition).equals(
        release.sample(50, seed=4, where=condition)
    )
    assert isinstance(release.sample(50, where=condition), pl.DataFrame)
    assert "[columns.dose]" in SCHEMA
