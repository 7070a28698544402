"""What an analyst can ask of a generalised table: counts by column, SQL, a page, and intervals that
hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.cli.app import run as cli

SCHEMA = dp.Schema.from_toml(
    '[dataset]\nname = "towns <1>"\nneighbours = "add-remove-one"\nnominal_size = 4000\ntarget = '
    '"rich"\n'
    '[columns.age]\nkind = "integer"\nlower = 0\nupper = 79\nbins = 16\n'
    '[columns.town]\nkind = "categorical"\nlevels = ["a", "b", "c", "d", "e"]\noutside = "drop"\n'
    '[columns.rich]\nkind = "boolean"\noutside = "drop"\n'
)


def rows(seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 80, 4000)
    town = rng.choice(list("abcde"), 4000, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    return pl.DataFrame({"age": age, "town": town, "rich": rng.random(4000) < age / 160})


def publish(folder: Path, *, epsilon: Any = 1, seed: int = 1, **settings: Any) -> Any:
    curator = dp.Curator(
        rows(), SCHEMA, ledger=folder / f"{seed}.db", budget=dp.Budget(epsilon=epsilon)
    )
    return curator.publish(dp.GeneralizedTable(**settings), epsilon=epsilon, seed=seed)


def test_without_noise_and_with_every_split_everything_is_exact(tmp_path: Path) -> None:
    release = publish(tmp_path, epsilon=9000, split_at="1/1000")
    data = rows()
    got = release.marginal("town", "rich")
    truth = data.group_by("town", "rich").len()
    for town, rich, count in truth.iter_rows():
        row = got.filter((pl.col("town") == town) & (pl.col("rich") == str(rich).lower()))
        assert row["count"].item() == row["low"].item() == row["high"].item() == count
    counted = release.sql(
        "select town, count(*) as n from release where rich group by town", level=None
    )
    assert dict(counted.iter_rows()) == {t: n for t, r, n in truth.iter_rows() if r}
    assert release.sql("select count(*) as n from release", level=None).item() == 4000
    assert (
        release.estimate("town = 'a' and rich").value
        == truth.filter(pl.col("rich"), pl.col("town") == "a")["len"].item()
    )


def test_marginals_are_estimates_of_their_cells(tmp_path: Path) -> None:
    release = publish(tmp_path, splits=2)
    frame = release.marginal("town")
    for town, count, error, low, high in frame.iter_rows():
        got = release.estimate(f"town = '{town}'")
        assert (count, error, low, high) == pytest.approx(
            (got.value, got.standard_error, got.low, got.high)
        )
    by_sql = release.sql("select town, count(*) as n from release group by town order by town")
    assert by_sql["n"].sum() == pytest.approx(int(release.counts.sum()))


def test_intervals_cover_the_truth(tmp_path: Path) -> None:
    """20 releases of 5 + 16 groups at 90%: a true coverage of 90% fails with probability below
    1e-6, one of 75% is caught."""
    data = rows()
    truth = data.group_by("town").len()
    ages = np.bincount(data["age"].to_numpy() // 5, minlength=16)
    hits = asked = 0
    for seed in range(20):
        release = publish(tmp_path, seed=seed)
        towns = release.marginal("town", level=0.9).join(truth, on="town")
        hits += int(((towns["low"] <= towns["len"]) & (towns["len"] <= towns["high"])).sum())
        bins = release.marginal("age", level=0.9)
        hits += int(((bins["low"].to_numpy() <= ages) & (ages <= bins["high"].to_numpy())).sum())
        asked += 21
    assert hits >= 0.82 * asked


def test_standard_errors_are_of_the_size_of_errors(tmp_path: Path) -> None:
    """At this cost no region is split by town, so each says the same wrong thing of towns: as if
    they were even."""
    truth = rows().group_by("town").len()
    for seed in range(5):
        towns = publish(tmp_path, epsilon="3/10", seed=seed).marginal("town").join(truth, on="town")
        off = (towns["count"] - towns["len"]).abs()
        assert (off <= 3 * towns["standard_error"]).all()


def test_bad_questions_are_explained(tmp_path: Path) -> None:
    release = publish(tmp_path, splits=2)
    for columns, text in (((), "at least one"), (("age", "age"), "twice"), (("height",), "height")):
        with pytest.raises(dp.QueryError, match=text):
            release.marginal(*columns)
    with pytest.raises(dp.QueryError, match="no column"):
        release.sql("select height from release")
    with pytest.raises(dp.QueryError):
        release.sql("delete from release")


def test_page_picture_and_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = publish(tmp_path)
    path = tmp_path / "t.dpr"
    release.save(path)
    page = dp.open_release(path).report(tmp_path / "t.html").read_text()  # type: ignore[attr-defined]
    assert "towns &lt;1&gt;" in page
    assert "The largest regions" in page
    assert "<script" not in page
    assert release.plot("town") is not None
    assert release.plot("town", "rich") is not None
    assert cli(["query", str(path), "--by", "town,rich"]) == 0
    assert cli(["sql", str(path), "select town, count(*) from release group by town"]) == 0
    assert cli(["report", str(path), "--out", str(tmp_path / "u.html")]) == 0
    assert cli(["export", str(path), "--out", str(tmp_path / "u.csv"), "--to", "csv"]) == 0
    assert "rich" in capsys.readouterr().out
