"""Pages about interval trees, halfspaces, synthetic weights and linear models; every kind of
release has a page."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.catalogue import RELEASES
from dpublish.cli.app import run as command
from dpublish.errors import BundleError
from dpublish.present.report import report_html
from dpublish.releases.base import make_release, release_class
from dpublish.releases.interval_tree.report import column_bars

SCHEMA = """
[dataset]
name = "clinic <b>"
size = 2000
[columns.age]
kind = "integer"
lower = 0
upper = 9999
[columns.weight]
kind = "real"
lower = 0
upper = 200
precision = 0.1
[columns.day]
kind = "date"
lower = 2000-01-01
upper = 2030-12-31
[columns.ill]
kind = "boolean"
outside = "drop"
[columns.town]
kind = "categorical"
levels = ["north", "so<i>uth"]
outside = "drop"
"""
METHODS: dict[str, Any] = {
    "age": dp.IntervalTree(columns=["age"]),
    "day": dp.IntervalTree(columns=["day"]),
    "box": dp.IntervalTree(columns=["age", "weight"]),
    "plane": dp.Halfspaces(by="sectors", columns=["age", "weight"]),
    "learned": dp.MultiplicativeWeights(
        queries="marginals:2", columns=["weight", "ill", "town"], bins=4
    ),
    "net": dp.Net(queries="marginals:1", columns=["ill", "town"]),
    "model": dp.PrivateClassifier(target="ill", features=["age", "town"]),
    "classes": dp.PrivateClassifier(target="town", features=["age", "ill"], loss="huber"),
}
WORDS = {
    "age": ("into intervals", "Quantiles", "50% of the rows lie below", "release.quantile(0.5)"),
    "day": ("2010-", "Quantiles"),
    "box": ("into boxes", "<h3>weight</h3>"),
    "plane": ("above any plane", "or more", "may be counted on either side"),
    "learned": ("What was asked", "<td>ill = ", "error of every query"),
    "net": ("synthetic points", "what follows from those"),
    "model": ("predicts <b>ill</b>", "odds times", "town", "Noise is expected"),
    "classes": ("Huber loss", "not calibrated"),
}


def people(rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    age = np.clip(rng.normal(50, 18, rows), 0, 99).astype(int)
    return pl.DataFrame(
        {
            "age": age,
            "weight": np.clip(rng.normal(70, 12, rows), 0, 199).round(1),
            "day": [
                dt.date(2010, 1, 1) + dt.timedelta(days=int(day))
                for day in rng.integers(0, 300, rows)
            ],
            "ill": rng.random(rows) < age / 120,
            "town": np.where(rng.random(rows) < 0.4, "north", "so<i>uth"),
        }
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages")
    (path / "clinic.toml").write_text(SCHEMA)
    curator = dp.Curator(
        people(2000),
        path / "clinic.toml",
        ledger=f"sqlite:///{path}/a.ledger",
        budget=dp.Budget(epsilon=99),
    )
    for name, method in METHODS.items():
        curator.publish(method, epsilon=4, seed=3, out=path / f"{name}.dpr")
    return path


@pytest.mark.parametrize("kind", sorted(RELEASES))
def test_every_kind_of_release_has_a_page(kind: str) -> None:
    assert callable(getattr(release_class(kind), "report", None))


@pytest.mark.parametrize("name", METHODS)
def test_a_page_says_what_it_is_and_loads_nothing(home: Path, name: str) -> None:
    assert command(["report", str(home / f"{name}.dpr"), "--out", str(home / f"{name}.html")]) == 0
    page = (home / f"{name}.html").read_text()
    everywhere = (
        "clinic &lt;b&gt;",
        "In the words of the release file",
        "How it was made",
        "Check it",
        "Limitations",
        "fixed seed",
        "open_release",
    )
    for words in (*everywhere, *WORDS[name]):
        assert words in page, words
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "clinic <b>" not in page
    assert "so<i>uth" not in page


def test_bars_leave_out_what_wide_bounds_leave_empty(home: Path) -> None:
    """Ages up to 9,999 are declared and nobody is over 99: the bars lie where the rows are."""
    release: Any = dp.open_release(home / "age.dpr")
    bars = column_bars(release, "age")
    assert len(bars) <= 20
    assert sum(bar.value > 20 for bar in bars) >= 8
    assert abs(sum(bar.value for bar in bars) - 2000) < 100
    assert all(bar.low <= bar.value <= bar.high for bar in bars)


def test_columns_of_few_values_have_a_page_too(tmp_path: Path) -> None:
    schema = dp.Schema.from_toml(
        '[dataset]\nname = "one"\nsize = 9\n[columns.a]\nkind = "integer"\nlower = 3\nupper = 4\n'
    )
    rows = pl.DataFrame({"a": [3] * 9})
    curator = dp.Curator(
        rows, schema, ledger=f"sqlite:///{tmp_path}/a.ledger", budget=dp.Budget(epsilon=9)
    )
    for method in (dp.IntervalTree(columns=["a"]), dp.Halfspaces(by="sectors", columns=["a"])):
        release: Any = curator.publish(method, epsilon=1, seed=1)
        assert "Limitations" in release.report(tmp_path / "page.html").read_text()


def test_what_was_asked_must_be_numbers(home: Path) -> None:
    release: Any = dp.open_release(home / "learned.dpr")
    asked = release.tables["asked"].with_columns(pl.col("query").cast(pl.String))
    with pytest.raises(BundleError, match="asked"):
        make_release(release.manifest, {**release.tables, "asked": asked})


def test_a_model_without_a_stated_noise_has_a_page_too(home: Path) -> None:
    release: Any = dp.open_release(home / "model.dpr")
    facts = {
        key: value
        for key, value in release.manifest["facts"].items()
        if key != "expected_noise_length"
    }
    release.manifest = {**release.manifest, "facts": facts}
    assert "Noise is expected" not in report_html(release)


@pytest.mark.parametrize(
    "text",
    [
        "marginals:2",
        "parities:2",
        "intervals",
        "halfspaces:7",
        "predicates:ill = 'true';age < 40",
        "random:5",
    ],
)
def test_every_query_has_a_text(text: str) -> None:
    from dpublish.declare.schema import Schema
    from dpublish.workloads.query_classes import query_class

    domain = Schema.from_toml(SCHEMA).domain(["ill", "town", "age"], bins=4)
    queries = query_class(text)
    labels = list(queries.labels(domain))
    assert len(labels) == queries.size(domain) == len(list(queries.rows(domain)))
    assert len(set(labels)) == len(labels)


def test_texts_of_queries_are_those_of_their_cells() -> None:
    from dpublish.declare.schema import Schema
    from dpublish.workloads.query_classes import query_class

    domain = Schema.from_toml(SCHEMA).domain(["ill", "age"], bins=2)
    found = dict(
        zip(
            query_class("marginals:2").labels(domain),
            query_class("marginals:2").rows(domain),
            strict=True,
        )
    )
    assert found["ill = true and age = 0..4999"].tolist() == [False, False, True, False]
    assert list(query_class("intervals:age").labels(domain)) == [
        "age = 0..4999",
        "age = 0..4999 to 5000..9999",
        "age = 5000..9999",
    ]
    assert next(iter(query_class("parities:1").labels(domain))) == "an even number of: ill = true"
