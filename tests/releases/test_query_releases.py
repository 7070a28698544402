"""What analysts can do with synthetic weights and with halfspaces: tables, SQL, rows with types,
pictures, conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.cli.app import run as command
from dpublish.errors import QueryError
from dpublish.releases.interval_tree.ranges import ranges_of

SCHEMA = """
[dataset]
name = "clinic"
size = 3000
[columns.age]
kind = "integer"
lower = 0
upper = 99
[columns.weight]
kind = "real"
lower = 0
upper = 200
precision = 0.1
[columns.ill]
kind = "boolean"
outside = "drop"
"""


def people(rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(2)
    age = np.clip(rng.normal(50, 18, rows), 0, 99).astype(int)
    return pl.DataFrame(
        {
            "age": age,
            "weight": rng.normal(70, 12, rows).clip(0, 199),
            "ill": rng.random(rows) < age / 120,
        }
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("queries")
    (path / "clinic.toml").write_text(SCHEMA)
    curator = dp.Curator(
        people(3000),
        path / "clinic.toml",
        ledger=f"sqlite:///{path}/a.ledger",
        budget=dp.Budget(epsilon=99),
    )
    learned = dp.MultiplicativeWeights(queries="marginals:2", columns=["age", "ill"], bins=5)
    curator.publish(learned, epsilon=4, seed=3, out=path / "learned.dpr")
    curator.publish(
        dp.Halfspaces(by="sectors", columns=["age", "weight"]),
        epsilon=4,
        seed=3,
        out=path / "planes.dpr",
    )
    return path


@pytest.fixture(scope="module")
def learned(home: Path) -> Any:
    return dp.open_release(home / "learned.dpr")


def test_tables_by_column_agree_with_single_questions(learned: Any) -> None:
    table = learned.marginal("ill", "age")
    assert table.columns == ["ill", "age", "count", "standard_error", "low", "high"]
    assert table.height == 2 * 5
    assert table["count"].sum() == pytest.approx(float(learned.weights.sum()))
    one = learned.estimate("ill and age < 20")
    row = table.row(by_predicate=(pl.col("ill") == "true") & (pl.col("age") == "0..19"), named=True)
    assert (row["count"], row["low"], row["high"]) == pytest.approx((one.value, one.low, one.high))


def test_what_is_certain_has_no_standard_error(learned: Any) -> None:
    for nothing in ("age < 0", "age >= 40 and age < 30", "ill is null"):
        found = learned.estimate(nothing)
        assert (found.value, found.standard_error, found.low, found.high) == (0, 0, 0, 0), nothing
    wide = learned.estimate("ill")
    assert 0 < wide.standard_error <= (wide.high - wide.low) / 2


def test_sql_and_rows_have_the_types_of_their_columns(learned: Any) -> None:
    assert learned.to_frame().schema["ill"] == pl.Boolean
    answer = learned.sql(
        "select ill, count(*) as people from release where age < 40 group by ill order by ill"
    )
    counts = [
        learned.estimate(f"age < 40 and {'ill' if ill else 'not ill'}").value
        for ill in (False, True)
    ]
    assert answer["people"].to_list() == pytest.approx(counts)
    rows = learned.sample(2000, seed=1)
    assert rows.schema == {"age": pl.Int64, "ill": pl.Boolean}
    assert rows["age"].is_between(0, 99).all()
    assert rows["age"].n_unique() > 60  # spread inside the bins, not their midpoints
    share = learned.estimate("ill").value / float(learned.weights.sum())
    # five standard deviations of 2,000 draws
    assert abs(rows["ill"].mean() - share) < 5 * np.sqrt(0.25 / 2000)
    assert learned.sample().height == 3000


def test_pictures_of_synthetic_weights(learned: Any, tmp_path: Path) -> None:
    for columns in (("age",), ("age", "ill")):
        learned.plot(*columns).savefig(tmp_path / "plot.png")
        assert (tmp_path / "plot.png").stat().st_size > 5_000


def test_requests_that_make_no_sense_are_refused(learned: Any) -> None:
    with pytest.raises(QueryError, match="at least one column"):
        learned.marginal()
    with pytest.raises(QueryError, match="stated at 95%"):
        learned.marginal("age", level=0.99)
    with pytest.raises(QueryError, match="whole number"):
        learned.sample(-1)


def test_a_condition_is_the_same_as_a_count(home: Path) -> None:
    release: Any = dp.open_release(home / "planes.dpr")
    assert release.estimate("2 * age + weight >= 170") == release.count(
        {"age": 2, "weight": 1}, above=170
    )
    above, below = release.estimate("age >= 50"), release.estimate("age < 50")
    assert above.value + below.value == pytest.approx(release.counts.sum(axis=1).mean())
    true = int((2 * people(3000)["age"] + people(3000)["weight"] >= 170).sum())
    assert abs(release.estimate("2 * age + weight >= 170").value - true) < 300


def test_a_value_lies_inside_its_interval(home: Path) -> None:
    release: Any = dp.open_release(home / "planes.dpr")
    release.counts = release.counts - 100  # noise that takes sums below 0
    for above in (20, 60, 95, 99):
        one = release.count({"age": 1}, above=above)
        assert one.low <= one.value <= one.high
    zero = np.zeros(1)
    below = ranges_of(
        zero - 33.8, (zero - 33.8, zero + 9), (zero, zero), (zero - 33.8, zero + 9), level=0.95
    ).one()
    assert (below.value, below.low) == (0, 0)


def test_halfspaces_on_the_command_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["query", str(home / "planes.dpr"), "age + weight >= 120", "age < 30"]) == 0
    assert "age + weight >= 120" in capsys.readouterr().out
    assert command(["query", str(home / "planes.dpr"), "age * weight >= 120"]) == 2
    assert "not linear" in capsys.readouterr().err
