from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dpublish.analyse.learn import CellEncoder, trained
from dpublish.declare.domain import Axis
from dpublish.errors import QueryError
from releases.simulated import people, people_counts, people_release, release_of, varied_release


def test_a_model_learns_what_the_rows_would_teach() -> None:
    domain = people()
    counts = people_counts(domain, 10_000, 3)
    release, truth = people_release(), release_of(domain, counts, threshold=0, scale=1, seed=9)
    rows = truth.sample(4000, seed=1)
    private = release.fit(LogisticRegression(max_iter=500))
    exact = truth.fit(LogisticRegression(max_iter=500), target="income")
    scores = [
        roc_auc_score(rows["income"].to_numpy(), model.predict_proba(rows)[:, 1])
        for model in (private, exact)
    ]
    assert scores[0] > scores[1] - 0.03
    assert scores[0] > 0.6


def test_prediction_takes_any_frame_and_any_value() -> None:
    model = people_release().fit(DecisionTreeClassifier(), target="income")
    rows = people_release().sample(50, seed=2).drop("income")
    answers = model.predict(rows)
    assert np.array_equal(answers, model.predict(rows.to_pandas()))
    assert np.array_equal(answers, model.predict(rows.to_dict(as_series=False)))
    assert np.array_equal(answers, model.predict(rows.lazy()))
    strange = pl.DataFrame(
        {"age": [None, 500, -3], "sex": ["?", None, "Male"], "education-num": ["x", "2", ""]},
        strict=False,
    )
    assert len(model.predict(strange)) == 3
    with pytest.raises(QueryError, match="lack the columns sex"):
        model.predict(rows.drop("sex"))


def test_features_targets_and_pipelines() -> None:
    release = people_release()
    model = release.fit(
        make_pipeline(StandardScaler(), LogisticRegression()),
        target="sex",
        features=["age", "income"],
    )
    assert set(model.classes_) <= {"Female", "Male", "(other)"}
    ages = release.fit(LinearRegression(), target="age").predict(release.sample(20, seed=1))
    assert np.all((ages > 0) & (ages < 120))
    assert (
        len(
            varied_release()
            .fit(LinearRegression(), target="price")
            .predict(varied_release().sample(9, seed=1))
        )
        == 9
    )


def test_a_constant_model_of_few_cells_is_not_silent() -> None:
    """Boosting wants twenty training rows in a leaf, and a release may have fewer cells."""
    release = people_release()
    with pytest.warns(UserWarning, match="learnt a constant from"):
        release.fit(HistGradientBoostingClassifier(), target="income", features=["sex"])
    willing = HistGradientBoostingClassifier(min_samples_leaf=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release.fit(willing, target="income", features=["sex"])


def test_weights_reach_the_estimator() -> None:
    seen: dict[str, float] = {}

    class Probe(LogisticRegression):  # type: ignore[misc]
        def fit(self, X, y, sample_weight=None):  # type: ignore[no-untyped-def]
            seen["weight"], seen["rows"] = float(np.sum(sample_weight)), len(y)
            return super().fit(X, y, sample_weight)

    release = people_release()
    release.fit(Probe(), target="income", features=["sex"])
    assert seen["weight"] == release.counts.sum()
    assert seen["rows"] <= 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "incom"}, "income"),
        ({"target": "income", "features": ["income"]}, "cannot be a feature"),
        ({"target": "income", "features": []}, "at least one feature"),
        ({"target": "income", "features": ["agee"]}, "age"),
    ],
)
def test_mistakes(options: dict[str, object], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        people_release().fit(LogisticRegression(), **options)  # type: ignore[arg-type]


def test_estimators_without_weights_are_refused() -> None:
    with pytest.raises(QueryError, match="sample_weight"):
        people_release().fit(KNeighborsClassifier())


def test_a_release_without_target_asks_for_one() -> None:
    with pytest.raises(QueryError, match="column to predict"):
        varied_release().fit(LogisticRegression())


@pytest.mark.parametrize("estimator", [LogisticRegression(), DecisionTreeClassifier()])
def test_one_answer_alone_is_nothing_to_learn(estimator: object) -> None:
    """As of a rare label that drowned in noise: a tree would answer it without a word."""
    encoder = CellEncoder(people().axes[:1])
    with pytest.raises(QueryError, match="is 'no': too few rows of any other"):
        trained(estimator, encoder, np.zeros((3, 1)), np.array(["no"] * 3))
    trained(LinearRegression(), encoder, np.zeros((3, 1)), np.ones(3))


def test_encoder_layout() -> None:
    encoder = CellEncoder(people().axes[:3])
    assert list(encoder.get_feature_names_out()) == [
        "age",
        "sex=Female",
        "sex=Male",
        "sex=(other)",
        "education-num",
        "education-num=(missing)",
    ]
    matrix = encoder.transform(
        pl.DataFrame({"age": [17], "sex": ["Male"], "education-num": [None]})
    )
    assert matrix[0, 1:].tolist() == [0, 1, 0, 0.5, 1]


def test_wide_columns_become_sparse() -> None:
    axis = Axis(
        "x", "categorical", levels=tuple(str(i) for i in range(3000)), other=True, outside="other"
    )
    matrix = CellEncoder([axis]).transform(pl.DataFrame({"x": ["7", "nothing"]}))
    assert matrix.shape == (2, 3001)
    assert matrix.nnz == 2


def test_missing_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['sklearn.base'] = None\ntry:\n import "
        "dpublish.analyse.learn\nexcept Exception as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "dpublish[learn]" in done.stdout


def test_out_of_bounds_numbers_are_clipped_at_prediction() -> None:
    """A column that clips has its extreme bins at prediction too, also when the domain has no code
    for other values."""
    from dpublish.analyse.predict import row_codes
    from dpublish.declare.domain import Axis

    axis = Axis("age", "integer", edges=(0, 10, 20, 30), outside="clip")
    (codes,) = row_codes({"age": [-5, 15, 99, None]}, [axis])
    assert codes.tolist() == [0, 1, 2, 3]  # 3: no code, the missing value
    strict = Axis("age", "integer", edges=(0, 10, 20, 30), outside="drop")
    assert row_codes({"age": [-5, 15, 99]}, [strict])[0].tolist() == [3, 1, 3]
