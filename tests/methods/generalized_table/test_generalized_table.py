"""The relational version: scores and their sensitivities, exact and replayed privacy, releases from
end to end."""

from __future__ import annotations

import decimal
import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish import audit
from dpublish.cli.app import run as cli
from dpublish.methods.generalized_table.mechanism import (
    GRID_BITS,
    entropy_step,
    sensitivity,
    split_score,
)

TINY = dp.Schema.from_toml(
    '[dataset]\nname = "tiny"\nneighbours = "add-remove-one"\nnominal_size = 4\ntarget = "y"\n'
    '[columns.a]\nkind = "categorical"\nlevels = ["p", "q"]\noutside = "drop"\n'
    '[columns.y]\nkind = "boolean"\noutside = "drop"\n'
)
SCHEMA = dp.Schema.from_toml(
    '[dataset]\nname = "t"\nneighbours = "add-remove-one"\nnominal_size = 5000\ntarget = "rich"\n'
    '[columns.age]\nkind = "integer"\nlower = 0\nupper = 79\nbins = 16\n'
    '[columns.town]\nkind = "categorical"\nlevels = ["a", "b", "c", "d", "e"]\noutside = "drop"\n'
    '[columns.rich]\nkind = "boolean"\noutside = "drop"\n'
)
SCORES = ("max", "gini", "information-gain")


@pytest.mark.parametrize("score", SCORES)
def test_one_record_changes_a_score_by_at_most_its_sensitivity(score: Any) -> None:
    """All tables of two parts by two classes with counts up to 5 (exhaustive), and large random
    ones."""
    rng = np.random.default_rng(1)
    tables = [np.array(c).reshape(2, 2) for c in itertools.product(range(6), repeat=4)]
    tables += [rng.integers(0, 10 ** int(rng.integers(1, 8)), size=(3, 4)) for _ in range(200)]
    worst = Fraction(0)
    for table in tables:
        before = split_score(score, table)
        for place in itertools.product(*map(range, table.shape)):
            more = table.copy()
            more[place] += 1
            change = split_score(score, more) - before
            worst = max(worst, abs(change))
            assert abs(change) <= sensitivity(score, table.shape[1])
            if score == "max":
                assert change >= 0
    assert worst >= (1 if score != "information-gain" else 2)


def test_information_gain_is_exact_for_any_number_of_rows() -> None:
    """Parts that a record does not touch count the same to the last digit: no number of rows is too
    large for the proof."""
    rng = np.random.default_rng(34)
    for _ in range(50):
        one, other = (
            rng.integers(0, 1 << 20, size=(int(rng.integers(1, 40)), 3)) for _ in range(2)
        )
        apart = split_score("information-gain", one) + split_score("information-gain", other)
        assert split_score("information-gain", np.concatenate([one, other])) == apart
    many = np.full((1 << 16, 3), 1_000_003)
    assert many.sum() > 1 << 34
    more = many.copy()
    more[5, 1] += 1
    few = np.array([[1_000_003] * 3])
    change = split_score("information-gain", more) - split_score("information-gain", many)
    assert change == split_score("information-gain", more[5:6]) - split_score(
        "information-gain", few
    )


def test_steps_of_the_entropy_are_floors() -> None:
    assert [entropy_step(x) >> GRID_BITS for x in (0, 1, 2, 4, 1 << 40)] == [0, 0, 2, 8, 40 << 40]
    # irrational ones against logarithms with sixty digits
    with decimal.localcontext(decimal.Context(prec=60)):
        for x in (3, 5, 7, 1_000_003, (1 << 40) - 1, (1 << 40) + 1):
            assert entropy_step(x) == int(
                decimal.Decimal(x).ln() / decimal.Decimal(2).ln() * x * (1 << GRID_BITS)
            )


def numbers(schema: dp.Schema, rows: Any, method: Any) -> tuple[list[Any], Any]:
    plan = method.plan(schema, dp.Cost.pure(1))
    table = np.array(rows, dtype=np.int64).reshape(-1, len(plan.domain.axes))
    return [table[:, place] for place in range(table.shape[1])], plan


@pytest.mark.parametrize("score", ["max", "gini"])
def test_exact_privacy_on_a_tiny_table(score: Any) -> None:
    """Every outcome of neighbouring pairs, answers clipped to 0..1."""
    method = dp.GeneralizedTable(score=score, fanout=2, split_at="1/1000")
    plan = method.plan(TINY, dp.Cost.pure(1))

    def run(noise: Any, rows: Any) -> Any:
        table = np.array(rows, dtype=np.int64).reshape(-1, 2)
        return method.run(noise, [table[:, 0], table[:, 1]], plan).tables["regions"]

    report = audit.exact(run, [((), ((0, 1),))], epsilon=1, window=(0, 1))
    assert report.passed, report.summary()
    assert report.loss >= 0.5


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("target", ["rich", None])
def test_replay(score: Any, target: str | None) -> None:
    schema = (
        SCHEMA if target else dp.Schema.from_toml(SCHEMA.to_toml().replace('target = "rich"\n', ""))
    )
    method = dp.GeneralizedTable(score=score, splits=4, split_at=1)
    rng = np.random.default_rng(2)
    rows = [
        tuple(row)
        for row in np.column_stack(
            [rng.integers(0, 16, 60), rng.integers(0, 5, 60), rng.integers(0, 2, 60)]
        )
    ]

    def run(noise: Any, data: Any) -> Any:
        codes, plan = numbers(schema, data, method)
        return method.run(noise, codes, plan).tables["regions"]

    report = audit.replay(run, [(rows, rows[:-1]), (rows, [*rows, (3, 3, 1)])], epsilon=1, runs=3)
    assert report.passed, report.summary()
    assert report.loss > Fraction(1, 2)


def test_a_planted_bug_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last counts take the whole epsilon, although the splits above them had half of it."""
    from dpublish.methods.generalized_table import mechanism as generalized_table

    right = generalized_table._counted

    def whole(noise: Any, regions: Any, plan: Any) -> Any:
        free = replace(plan.settings, step_epsilon=Fraction(0))
        return right(noise, regions, replace(plan, settings=free))

    monkeypatch.setattr(generalized_table, "_counted", whole)
    method = dp.GeneralizedTable(splits=2, split_at=1)
    plan = method.plan(SCHEMA, dp.Cost.pure(1))

    def run(noise: Any, data: Any) -> Any:
        table = np.array(data, dtype=np.int64)
        return method.run(noise, [table[:, 0], table[:, 1], table[:, 2]], plan).tables["regions"]

    rows = [(1, 1, 1)] * 40
    report = audit.replay(run, [(rows, rows[:-1])], epsilon=1, runs=3)
    assert "claim" in {finding.check for finding in report.findings}


def made_up(size: int) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    age = rng.integers(0, 80, size)
    return pl.DataFrame(
        {
            "age": age,
            "town": rng.choice(list("abcde"), size, p=[0.5, 0.2, 0.2, 0.05, 0.05]),
            "rich": rng.random(size) < age / 90,
        }
    )


@pytest.mark.parametrize("score", SCORES)
def test_a_release_from_end_to_end(score: Any, tmp_path: Path) -> None:
    data = made_up(5000)
    curator = dp.Curator(data, SCHEMA, ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=9))
    method = dp.GeneralizedTable(score=score, taxonomies={"town": [["a", "e"], ["b", "c", "d"]]})
    curator.publish(method, epsilon=4, out=tmp_path / "t.dpr")
    release: Any = dp.open_release(tmp_path / "t.dpr")
    assert release.verify().ok
    for predicate, truth in (
        ("age >= 40 and rich", data.filter((pl.col("age") >= 40) & pl.col("rich")).height),
        (
            "town = 'a' or age < 20",
            data.filter((pl.col("town") == "a") | (pl.col("age") < 20)).height,
        ),
        ("true", data.height),
    ):
        got = release.estimate(predicate, level=0.9999)
        assert got.low <= truth <= got.high, (predicate, got, truth)
        assert abs(got.value - truth) < 500
    sample = release.sample(2000, seed=1)
    assert sample.columns == ["age", "town", "rich"]
    assert abs(sample["rich"].mean() - data["rich"].mean()) < 0.06
    assert release.to_frame().height == release.counts.size


def test_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made_up(1000).write_csv("t.csv")
    Path("t.toml").write_text(SCHEMA.to_toml())
    words = [
        "release",
        "t.csv",
        "-s",
        "t.toml",
        "-m",
        "generalized-table",
        "-e",
        "1",
        "-l",
        "l.db",
        "--budget",
        "2",
        "--out",
        "t.dpr",
    ]
    assert cli(words) == 0, capsys.readouterr().err
    assert cli(["query", "t.dpr", "age < 30 and rich"]) == 0
    assert cli(["export", "t.dpr", "--out", "t2.csv"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"score": "best"}, "score must be"),
        ({"splits": 0}, "splits must"),
        ({"split_at": 0}, "split_at"),
        ({"columns": ["age", "age"]}, "none twice"),
        ({"taxonomies": {"street": []}}, "must name columns"),
        ({"taxonomies": "{"}, "not valid JSON"),
        ({"fanout": 1}, "fanout"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(dp.PlanError, match=text):
        dp.GeneralizedTable(**settings).plan(SCHEMA, dp.Cost.pure(1))


def test_regions_must_cover_the_domain_once(tmp_path: Path) -> None:
    from dpublish.releases.base import make_release

    curator = dp.Curator(
        made_up(500), SCHEMA, ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=9)
    )
    release: Any = curator.publish(dp.GeneralizedTable(), epsilon=2, seed=1)
    tables = {**release.tables, "regions": release.tables["regions"].head(3)}
    with pytest.raises(dp.BundleError, match="cover the domain once"):
        make_release(release.manifest, tables)


def wide(columns: int, rows: int) -> dp.Schema:
    text = f'[dataset]\nname = "wide"\nsize = {rows}\ntarget = "c0"\n'
    for i in range(columns):
        text += f'[columns.c{i}]\nkind = "categorical"\nlevels = ["a", "b", "c", "d"]\n'
    return dp.Schema.from_toml(text)


def test_splits_are_as_many_as_rows_can_pass() -> None:
    found = [
        dp.GeneralizedTable().plan(wide(4, rows), dp.Cost.pure(1)).settings.steps
        for rows in (100, 1000, 20_000, 1_000_000)
    ]
    assert found == sorted(found)
    assert found[0] == 1
    assert 2 < found[-1] <= 8
    given = dp.GeneralizedTable(splits=2).plan(wide(4, 1_000_000), dp.Cost.pure(1))
    assert given.settings.steps == 2


def test_wide_tables_are_refused_and_the_better_method_is_named() -> None:
    with pytest.raises(dp.PlanError, match="joined-histograms"):
        dp.GeneralizedTable().plan(wide(21, 9276), dp.Cost.pure(1))
    named = dp.GeneralizedTable(columns=[f"c{i}" for i in range(21)])
    (warning,) = named.plan(wide(21, 9276), dp.Cost.pure(1)).warnings
    assert "joined-histograms" in warning
    few = dp.GeneralizedTable(columns=["c1", "c2"])
    (warning,) = few.plan(wide(21, 9276), dp.Cost.pure(1)).warnings
    assert "histogram of these columns (125 cells)" in warning


def test_columns_that_collapse_to_one_cell_are_refused() -> None:
    """Numbers without bins, too many for the rows: one region was paid for, and a histogram named
    instead, which refuses too."""
    numbers = [f'[columns.n{i}]\nkind = "integer"\nlower = 0\nupper = 99\n' for i in range(21)]
    text = '[dataset]\nname = "wide"\nsize = 5000\n' + "".join(numbers)
    cost = dp.Cost.pure(1)
    with pytest.raises(dp.PlanError, match="one region, which says nothing"):
        dp.GeneralizedTable().plan(dp.Schema.from_toml(text), cost)
    one = text.replace("upper = 99", "upper = 99\nbins = 1")
    assert dp.GeneralizedTable().plan(dp.Schema.from_toml(one), cost).settings.domain.size == 1


def test_nothing_is_named_where_nothing_serves() -> None:
    with pytest.raises(dp.PlanError, match="no release of all of them would say much"):
        dp.GeneralizedTable().plan(wide(21, 300), dp.Cost.pure(1))
    named = dp.GeneralizedTable(columns=[f"c{i}" for i in range(21)])
    (warning,) = named.plan(wide(21, 300), dp.Cost.pure(1)).warnings
    assert "joined-histograms" not in warning


def test_taxonomies_of_ones_own_are_not_warned_of_unless_they_are_many() -> None:
    own = {"c1": [["a", "b"], ["c", "d", "(other)"]]}
    few = dp.GeneralizedTable(columns=["c1", "c2", "c3"], taxonomies=own)
    assert not few.plan(wide(21, 9276), dp.Cost.pure(1)).warnings
    many = dp.GeneralizedTable(columns=[f"c{i}" for i in range(21)], taxonomies=own)
    (warning,) = many.plan(wide(21, 9276), dp.Cost.pure(1)).warnings
    assert "most of them will not be told apart" in warning
