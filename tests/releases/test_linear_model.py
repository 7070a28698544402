"""A published linear model: from the gate to predictions, and bundles that are not one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.analyse.predict import hand_till_auc
from dpublish.errors import BundleError, QueryError
from dpublish.methods.private_classifier.mechanism import PrivateClassifier
from dpublish.releases.base import make_release
from dpublish.releases.linear_model.release import LinearModelRelease

SCHEMA = """
[dataset]
name = "plants"
target = "species"
[columns.length]
kind = "real"
lower = 0
upper = 10
missing = true
[columns.site]
kind = "categorical"
levels = ["bog", "dune"]
outside = "drop"
[columns.species]
kind = "categorical"
levels = ["moss", "fern", "rush"]
"""


def plants(rows: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, rows)
    return pl.DataFrame(
        {
            "length": np.clip(2 + 3 * kind + rng.normal(size=rows), 0, 10),
            "site": np.where(rng.random(rows) < 0.2 + 0.3 * kind, "bog", "dune"),
            "species": np.array(["moss", "fern", "rush"])[kind],
        }
    )


def publish(
    tmp_path: Path, rows: pl.DataFrame, schema: str = SCHEMA, **settings: Any
) -> LinearModelRelease:
    curator = dp.Curator(
        rows,
        dp.Schema.from_toml(schema),
        ledger=tmp_path / "l.ledger",
        budget=dp.Budget(epsilon=30),
    )
    release = curator.publish(
        PrivateClassifier(**settings), epsilon=3, seed=1, out=tmp_path / "model.dpr"
    )
    assert isinstance(release, LinearModelRelease)
    return release


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> LinearModelRelease:
    return publish(tmp_path_factory.mktemp("plants"), plants(6000, 1))


def test_it_predicts_raw_rows_well(release: LinearModelRelease) -> None:
    test = plants(500, 2)
    chances = release.predict_proba(test)
    assert chances.shape == (500, 3)
    assert np.allclose(chances.sum(axis=1), 1)
    assert (
        hand_till_auc(test["species"].to_numpy(), chances, classes=release.classes.tolist()) > 0.9
    )
    assert set(release.predict(test)) <= {"moss", "fern", "rush"}
    assert release.decision_function(test).shape == (500, 3)


def test_frames_of_all_kinds_give_the_same(release: LinearModelRelease) -> None:
    test = plants(50, 3)
    expected = release.predict_proba(test)
    assert np.array_equal(release.predict_proba(test.lazy()), expected)
    assert np.array_equal(release.predict_proba(test.to_pandas()), expected)
    assert np.array_equal(release.predict_proba(test.to_dict(as_series=False)), expected)


def test_unknown_cells_are_answered_too(release: LinearModelRelease) -> None:
    odd = pl.DataFrame({"length": [None, 1e9, 3.0], "site": ["moon", None, "bog"]})
    chances = release.predict_proba(odd)
    assert np.isfinite(chances).all()
    # beyond the bounds is the bound; an unknown site adds nothing, which is the mean of all sites
    sites = list(release.features.axes[1].labels)
    known = pl.DataFrame({"length": [10.0] * len(sites), "site": sites})
    mean = release.decision_function(known).mean(axis=0)
    assert np.allclose(release.decision_function(odd)[1], mean)


def test_rows_that_cannot_be_read(release: LinearModelRelease) -> None:
    with pytest.raises(QueryError, match="lack the columns site"):
        release.predict(pl.DataFrame({"length": [1.0]}))
    with pytest.raises(QueryError, match="must be a polars or pandas frame"):
        release.predict(7)


def test_coefficients_as_a_table(release: LinearModelRelease) -> None:
    frame = release.to_frame()
    assert frame.columns == ["class", "column", "level", "coefficient"]
    # for each class the constant, the length, and every site, whose effects add up to nothing
    assert frame.height == 3 * (1 + 1 + 3)
    sites = frame.filter((pl.col("class") == "rush") & (pl.col("column") == "site"))
    assert sites["coefficient"].sum() == pytest.approx(0)
    rush = frame.filter(
        (pl.col("class") == "rush") & (pl.col("column") == "length") & (pl.col("level") == "")
    )
    assert rush["coefficient"][0] > 0
    assert "species (moss, fern, rush)" in release.summary()["predicts"]
    assert "length, site" in release.summary()["from"]


def test_saved_and_opened_again(release: LinearModelRelease, tmp_path: Path) -> None:
    release.save(tmp_path / "again.dpr")
    again = LinearModelRelease.open(tmp_path / "again.dpr")
    assert np.array_equal(again.coefficients, release.coefficients)
    assert again.verify().ok


def test_as_a_scikit_learn_classifier(release: LinearModelRelease) -> None:
    from sklearn.base import clone, is_classifier
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.metrics import get_scorer
    from sklearn.utils.validation import check_is_fitted

    test = plants(300, 4)
    rows, labels = test.drop("species").to_pandas(), test["species"].to_numpy()
    model = release.to_sklearn()
    check_is_fitted(model)
    assert is_classifier(model)
    assert clone(model).score(rows, labels) == model.score(rows, labels) > 0.6
    assert model.classes_.tolist() == ["fern", "moss", "rush"]
    assert get_scorer("roc_auc_ovo")(model, rows, labels) > 0.9
    assert CalibratedClassifierCV(model, cv=2).fit(rows, labels).score(rows, labels) > 0.6


def test_two_levels_make_one_model(tmp_path: Path) -> None:
    rows = plants(6000, 5).with_columns(species=pl.col("species") == "moss")
    schema = SCHEMA.replace(
        'kind = "categorical"\nlevels = ["moss", "fern", "rush"]', 'kind = "boolean"'
    )
    release = publish(tmp_path, rows, schema, loss="huber", perturbation="output")
    assert release.coefficients.shape[0] == 1
    chances = release.predict_proba(rows)
    assert release.classes.tolist() == [False, True]
    assert hand_till_auc(rows["species"].to_numpy(), chances, classes=[False, True]) > 0.85
    assert release.predict(rows).dtype == bool
    model = release.to_sklearn()
    assert np.array_equal(model.decision_function(rows) > 0, model.predict(rows))
    assert set(release.to_frame()["class"]) == {"true"}


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"loss": "square"}, "'loss' must be one of"),
        ({"coding": "mystery"}, "coding of features is not known"),
        ({"grid": "-1"}, "'grid' must be a fraction"),
        ({"grid": "0"}, "'grid' must be a fraction"),
        ({"models": 2}, "does not fit the levels"),
        ({"dimension": 3}, "does not fit the encoding"),
        ({"encoding": []}, "must list 1 to"),
        ({"encoding": 5}, "must list 1 to"),
    ],
)
def test_facts_that_are_wrong(
    release: LinearModelRelease, damage: dict[str, Any], words: str
) -> None:
    manifest = {**release.manifest, "facts": {**release.manifest["facts"], **damage}}
    with pytest.raises(BundleError, match=words):
        make_release(manifest, release.tables)


def test_encodings_that_are_wrong(release: LinearModelRelease) -> None:
    facts = dict(release.manifest["facts"])
    first = facts["encoding"][0]
    wide = {"name": "w", "kind": "categorical", "outside": "drop", "other": False, "missing": False}
    for encoding, words in (
        ([first, first], "names a column twice"),
        ([{**wide, "levels": [str(i) for i in range(6000)]}], "more than 4096 features"),
        ([{**wide, "levels": []}], "levels must be"),
    ):
        with pytest.raises(BundleError, match=words):
            make_release(
                {**release.manifest, "facts": {**facts, "encoding": encoding}}, release.tables
            )


def test_targets_and_tables_that_are_wrong(release: LinearModelRelease) -> None:
    target = release.manifest["domain"][0]
    for domain in ([{**target, "levels": ["a"]}], [target, {**target, "name": "z"}]):
        with pytest.raises(BundleError, match="one column here"):
            make_release({**release.manifest, "domain": domain}, release.tables)
    frame = release.tables["coefficients"]
    for tables, words in (
        ({}, "holds one table"),
        (
            {"coefficients": frame.with_columns(multiple=pl.col("multiple").cast(pl.Float64))},
            "must have the columns",
        ),
        ({"coefficients": frame.reverse()}, "every model and feature once"),
        ({"coefficients": frame.head(3)}, "every model and feature once"),
    ):
        with pytest.raises(BundleError, match=words):
            make_release(release.manifest, tables)
