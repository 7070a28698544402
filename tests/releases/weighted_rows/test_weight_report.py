"""The page about weighted rows: what it shows, what it escapes, and a release without rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.cli.app import run as command
from dpublish.errors import QueryError
from dpublish.present.charts import weight_histogram
from dpublish.present.report import report_html

SCHEMA = """
[dataset]
name = "clinic <b>"
size = 800
[columns.sick]
kind = "boolean"
outside = "other"
[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 5
[columns.town]
kind = "categorical"
levels = ["north", "so<i>uth"]
outside = "other"
"""


def people(rows: int, seed: int, tilt: float) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(50 + tilt, 18, rows), 0, 99).astype(int)
    town = np.where(rng.random(rows) < age / 120, "north", "so<i>uth")
    return pl.DataFrame(
        {
            "sick": rng.random(rows) < age / 150,
            "age": age,
            "town": town,
            "walk": rng.normal(8 - age / 15, 1, rows),
        }
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report")
    people(600, 1, -12.0).write_csv(path / "volunteers.csv")
    people(800, 2, 12.0).drop("walk").write_csv(path / "patients.csv")
    (path / "clinic.toml").write_text(SCHEMA)
    curator = dp.Curator(
        path / "patients.csv",
        path / "clinic.toml",
        ledger=f"sqlite:///{path}/a.ledger",
        budget=dp.Budget(epsilon=9, delta="1e-3"),
    )
    for publish in ("rows", "hash"):
        method = dp.ImportanceWeights(public=str(path / "volunteers.csv"), publish=publish)  # type: ignore[arg-type]
        curator.publish(method, epsilon=1, seed=3, out=path / f"{publish}.dpr")
    return path


def test_the_page_has_weights_columns_means_and_warnings(home: Path) -> None:
    assert command(["report", str(home / "rows.dpr"), "--out", str(home / "page.html")]) == 0
    page = (home / "page.html").read_text()
    for words in (
        "effective rows",
        "The weights",
        "Means by town",
        "walk",
        "Coefficients",
        "How it was made",
        "fixed seed",
        "In the words of the release file",
        "nor how they were chosen",
        "Check it",
    ):
        assert words in page
    release = dp.open_release(home / "rows.dpr")
    assert f"{release.effective_rows:,.0f}" in page
    # one chart a column, one of the weights; nothing to load and no script
    assert page.count("<svg") == 4
    assert "<script" not in page
    assert "default-src 'none'" in page


def test_text_of_the_release_is_escaped(home: Path) -> None:
    page = report_html(dp.open_release(home / "rows.dpr"))  # type: ignore[arg-type]
    assert "clinic &lt;b&gt;" in page
    assert "so&lt;i&gt;uth" in page
    assert "so<i>uth" not in page


def test_a_release_without_rows_says_what_to_do(home: Path) -> None:
    release = dp.open_release(home / "hash.dpr")
    page = report_html(release)  # type: ignore[arg-type]
    assert "release.attach(rows)" in page
    assert "Means by" not in page
    assert "Means by town" in report_html(release.attach(str(home / "volunteers.csv")))


def test_a_page_that_cannot_be_written(home: Path) -> None:
    with pytest.raises(QueryError, match="cannot be written"):
        dp.open_release(home / "rows.dpr").report(home / "none" / "page.html")


def test_the_histogram_counts_every_weight() -> None:
    picture, lines = weight_histogram(np.array([0.0, 0.3, 0.3, 1.0, 5000.0]))
    counts = [int(part.split(" rows")[0].replace(",", "")) for part in picture.split("<title>")[1:]]
    assert sum(counts) == 5
    assert sum(int(rows.replace(",", "")) for _, rows in lines) == 5
    assert ">0</text>" in picture
    assert ">more</text>" in picture
