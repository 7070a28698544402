"""A published classifier on rows of an analyst's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from cli.conftest import Command

SCHEMA = """
[dataset]
name = "clinic"
size = 4000
[columns.age]
kind = "integer"
lower = 0
upper = 99
[columns.ward]
kind = "categorical"
levels = ["a", "b"]
outside = "drop"
[columns.ill]
kind = "boolean"
outside = "drop"
[columns.grade]
kind = "categorical"
levels = ["1", "2", "3"]
outside = "drop"
"""


def people(rows: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 99, rows)
    grade = np.clip(age // 34 + 1, 1, 3)
    return pl.DataFrame(
        {
            "age": age,
            "ward": rng.choice(["a", "b"], rows),
            "ill": rng.random(rows) < age / 99,
            "grade": grade,
        }
    )


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(SCHEMA)
    curator = dp.Curator(
        people(4000, 1), "s.toml", ledger="sqlite:///a.ledger", budget=dp.Budget(epsilon=99)
    )
    curator.publish(
        dp.PrivateClassifier(target="ill", features=["age", "ward"]),
        epsilon=8,
        seed=1,
        out="ill.dpr",
    )
    curator.publish(
        dp.PrivateClassifier(target="grade", features=["age"]), epsilon=30, seed=1, out="grade.dpr"
    )
    curator.publish(dp.Histogram(columns=["age"]), epsilon=1, seed=1, out="table.dpr")
    people(500, 2).write_csv("mine.csv")
    return tmp_path


def test_rows_get_classes_and_probabilities(models: Path, dpublish: Command) -> None:
    shown = dpublish("predict", "ill.dpr", "mine.csv", "--out", "out.csv")
    assert shown.code == 0, shown.err
    assert "Of 500 rows with a known 'ill': accuracy" in shown.out
    frame = pl.read_csv("out.csv")
    assert frame.columns == [
        "age",
        "ward",
        "ill",
        "grade",
        "ill_predicted",
        "ill_probability_false",
        "ill_probability_true",
    ]
    assert np.allclose(frame["ill_probability_false"] + frame["ill_probability_true"], 1.0)
    assert (frame["ill_predicted"] == (frame["ill_probability_true"] > 0.5)).all()
    document = dpublish("predict", "ill.dpr", "mine.csv", "--out", "out.parquet", "--json").document
    assert document["rows"] == document["labelled"] == 500
    assert document["accuracy"] == pytest.approx(
        float((frame["ill_predicted"] == frame["ill"]).mean())
    )
    assert document["area"] > 0.7
    assert pl.read_parquet("out.parquet").height == 500


def test_several_classes_and_levels_that_look_like_numbers(models: Path, dpublish: Command) -> None:
    document = dpublish("predict", "grade.dpr", "mine.csv", "--out", "out.csv", "--json").document
    assert document["labelled"] == 500
    assert document["area"] > 0.7
    assert {"grade_probability_1", "grade_probability_2", "grade_probability_3"} < set(
        pl.read_csv("out.csv").columns
    )


def test_rows_without_the_target(models: Path, dpublish: Command) -> None:
    people(5, 3).select("ward", "age").with_columns(ill_predicted=pl.lit("mine")).write_csv(
        "bare.csv"
    )
    document = dpublish("predict", "ill.dpr", "bare.csv", "--out", "out.csv", "--json").document
    assert (document["labelled"], document["accuracy"], document["area"]) == (0, None, None)
    assert pl.read_csv("out.csv").columns[2:4] == [
        "ill_predicted",
        "ill_predicted_",
    ]  # nothing of the rows is overwritten


def test_rows_of_one_class_have_no_area(models: Path, dpublish: Command) -> None:
    people(200, 4).filter(pl.col("ill")).write_csv("ill.csv")
    document = dpublish("predict", "ill.dpr", "ill.csv", "--out", "out.csv", "--json").document
    assert document["accuracy"] > 0.3
    assert document["area"] is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("ill.dpr", "nowhere.csv", "--out", "out.csv"),
            "no file 'nowhere.csv' with rows to predict",
        ),
        (("ill.dpr", "mine.csv", "--out", "mine.csv"), "which would be lost"),
        (("ill.dpr", "mine.csv", "--out", "./mine.csv"), "which would be lost"),
        (("ill.dpr", "mine.csv", "--out", "out.xyz"), ".csv or .parquet"),
        (("ill.dpr", "mine.csv", "--out", "nowhere/out.csv"), "cannot be written"),
        (("table.dpr", "mine.csv", "--out", "out.csv"), "does not offer predictions"),
        (("ill.dpr", "other.csv", "--out", "out.csv"), "lack the columns"),
    ],
)
def test_wrong_requests(
    models: Path, dpublish: Command, words: tuple[str, ...], expected: str
) -> None:
    Path("other.csv").write_text("a,b\n1,2\n")
    shown = dpublish("predict", *words)
    assert (shown.code, shown.out) == (2, "")
    assert expected in shown.err


@pytest.mark.parametrize("model", ["ill", "grade"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_without_rows_gives_a_file_without_rows(
    models: Path, dpublish: Command, model: str, form: str
) -> None:
    people(0, 1).write_csv("none.csv")
    for rows in ("mine", "none"):
        shown = dpublish("predict", f"{model}.dpr", f"{rows}.csv", "--out", f"{rows}-out.{form}")
        assert shown.code == 0, shown.err
    read = pl.read_csv if form == "csv" else pl.read_parquet
    empty, full = read(f"none-out.{form}"), read(f"mine-out.{form}")
    assert empty.columns == full.columns
    assert empty.height == 0
    added = f"{model}_predicted"
    assert form == "csv" or empty[added].dtype == full[added].dtype


def test_a_model_offers_its_table_and_not_rows(models: Path, dpublish: Command) -> None:
    shown = dpublish("query", "ill.dpr", "age > 30")
    assert shown.code == 2
    assert "its table ('export')" in shown.err
    assert "weighted rows" not in shown.err
    assert (
        "weighted rows ('export')"
        in dpublish("predict", "table.dpr", "mine.csv", "--out", "out.csv").err
    )


def test_cells_of_a_csv_file_stay_as_they_are(models: Path, dpublish: Command) -> None:
    Path("ids.csv").write_text(
        'id,age,ward,price,note\n007,40,a,1.50,""\n08,41.0,b,1e400,"x, y"\n,,b,TRUE,\n'
    )
    assert dpublish("predict", "ill.dpr", "ids.csv", "--out", "out.csv").code == 0
    frame = pl.read_csv("out.csv", infer_schema=False).select("id", "age", "price", "note")
    expected = [
        ("007", "40", "1.50", ""),
        ("08", "41.0", "1e400", "x, y"),
        (None, None, "TRUE", None),
    ]
    assert frame.rows() == expected
    typed = pl.read_csv("ids.csv")
    typed.write_parquet("ids.parquet")
    assert dpublish("predict", "ill.dpr", "ids.parquet", "--out", "same.csv").code == 0
    columns = ["ill_predicted", "ill_probability_true"]
    assert pl.read_csv("same.csv").select(columns).equals(pl.read_csv("out.csv").select(columns))
