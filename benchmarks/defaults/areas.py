"""The AUC that each method reaches on a coded table: trained on three quarters, tested on the rest.

Noise is seeded and mechanisms are called directly: simulations, nothing here is a release.
"""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.analyse.predict import hand_till_auc
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.methods.private_classifier.mechanism import PrivateClassifier
from dpublish.methods.projected_histogram.mechanism import ProjectedHistogram
from dpublish.models.linear_features import LinearFeatures
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan
from dpublish.releases.frames import decode_cells

from .tables import Column, Floats, Table

warnings.filterwarnings("ignore", module="sklearn")


def area(labels: NDArray[Any], scores: Floats) -> float:
    return hand_till_auc(labels, np.column_stack([-scores, scores]), classes=range(2))


def codes_of(column: Column, axis: Axis) -> NDArray[np.int64]:
    if column.levels is not None:
        return np.asarray(column.values, dtype=np.int64)
    place = np.searchsorted(axis.edges, column.values, side="right") - 1
    return np.clip(place, 0, axis.base - 1)


def coded(
    table: Table, plan: Plan, rows: NDArray[np.int64], domain: Domain | None = None
) -> list[NDArray[np.int64]]:
    *axes, _ = (domain or plan.settings.domain).axes
    columns = [codes_of(table.columns[int(axis.name[1:])], axis)[rows] for axis in axes]
    return [*columns, table.labels[rows]]


def one_hot(column: Column, values: NDArray[Any]) -> Floats:
    return values[:, None] if column.levels is None else np.eye(column.levels)[values]


def features(table: Table, rows: NDArray[np.int64]) -> Floats:
    return np.hstack([one_hot(column, column.values[rows]) for column in table.columns])


def projected(table: Table, seed: int, epsilon: float, **settings: Any) -> float:
    return tested(table, seed, projected_odds(table, seed, epsilon, **settings))


def classifier(table: Table, seed: int, epsilon: float, **settings: Any) -> float:
    return tested(table, seed, classifier_odds(table, seed, epsilon, **settings))


def both(table: Table, seed: int, epsilon: float, share: float = 0.7) -> float:
    """Two releases: that share of epsilon for a classifier, the rest for a projected histogram;
    their log odds are added."""
    cells = projected_odds(table, seed, epsilon * (1 - share))
    return tested(table, seed, cells + classifier_odds(table, seed, epsilon * share))


def tested(table: Table, seed: int, odds: Floats) -> float:
    return area(table.labels[table.split(seed)[1]], odds)


def projected_odds(table: Table, seed: int, epsilon: float, **settings: Any) -> Floats:
    """Logistic regression on the cells of a projected histogram: log odds of the left-out rows."""
    from sklearn.linear_model import LogisticRegression

    train, test = table.split(seed)
    method = ProjectedHistogram(**settings)
    plan = method.plan(table.schema(len(train)), Cost.pure(epsilon))
    read = method.statistic(plan).domain
    content = method.run(SeededNoise(seed), coded(table, plan, train, read), plan)
    assert content.domain is not None
    cells, weights = (np.asarray(content.tables["cells"][name]) for name in ("cell", "count"))
    axes = content.domain.axes
    *codes, labels = (decode_cells(cells, content.domain, i) for i in range(len(axes)))
    kept = weights > 0
    if np.unique(labels[kept]).size < 2:
        return np.zeros(len(test))
    rows, tests = [], []
    for axis, code in zip(axes, codes, strict=False):
        column = table.columns[int(axis.name[1:])]
        tested = codes_of(column, axis)[test]
        for found, one in ((rows, code), (tests, tested)):
            found.append(one_hot(column, (one + 0.5) / axis.base if axis.numeric else one))
    model = LogisticRegression(max_iter=300)
    model.fit(np.hstack(rows)[kept], labels[kept], sample_weight=weights[kept])
    return np.asarray(model.decision_function(np.hstack(tests)))


def classifier_odds(table: Table, seed: int, epsilon: float, **settings: Any) -> Floats:
    train, test = table.split(seed)
    method = PrivateClassifier(**settings)
    plan = method.plan(table.schema(len(train)), Cost.pure(epsilon))
    content = method.run(SeededNoise(seed), coded(table, plan, train), plan)
    coding = LinearFeatures(plan.settings.domain.axes[:-1], content.facts["coding"])
    vectors = np.empty((len(test), coding.dimension))
    coding.fill(coded(table, plan, test)[:-1], vectors)
    multiples = np.asarray(content.tables["coefficients"]["multiple"]).astype(np.float64)
    return np.asarray(vectors @ multiples * float(Fraction(content.facts["grid"])))


def joined(table: Table, seed: int, epsilon: float) -> float:
    """Logistic regression on a joined histogram, by the product's own way from rows to a model."""
    import tempfile

    import polars as pl
    from sklearn.linear_model import LogisticRegression

    import dpublish as dp

    train, test = table.split(seed)

    def frame(rows: NDArray[np.int64]) -> pl.DataFrame:
        columns = {
            f"c{i}": column.values[rows]
            if column.levels is None
            else column.values[rows].astype(str)
            for i, column in enumerate(table.columns)
        }
        return pl.DataFrame({**columns, "y": table.labels[rows].astype(str)})

    with tempfile.TemporaryDirectory() as folder:
        curator = dp.Curator(
            frame(train),
            table.schema(len(train)),
            ledger=f"sqlite:///{folder}/ledger",
            budget=dp.Budget(epsilon=epsilon),
        )
        release = curator.publish(dp.JoinedHistograms(target="y"), epsilon=epsilon, seed=seed)
        try:
            model = release.fit(LogisticRegression(max_iter=300), target="y")  # type: ignore[attr-defined]
        except QueryError:  # of one label only
            return 0.5
        return area(table.labels[test], model.predict_proba(frame(test))[:, 1])


def diffprivlib(table: Table, seed: int, epsilon: float, inverse: float) -> float | None:
    """IBM's logistic regression with indicators and scaled numbers, the norm from public bounds;
    None where the package is not installed (0.6 needs scikit-learn below 1.6)."""
    try:
        from diffprivlib.models import LogisticRegression
    except ImportError:
        return None
    train, test = table.split(seed)
    norm = math.sqrt(len(table.columns))
    model = LogisticRegression(
        epsilon=epsilon, data_norm=norm, C=inverse, max_iter=1000, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(features(table, train), table.labels[train])
    scores = features(table, test) @ model.coef_[0] + model.intercept_[0]
    return area(table.labels[test], scores)


def no_privacy(table: Table, seed: int) -> float:
    from sklearn.linear_model import LogisticRegression

    train, test = table.split(seed)
    model = LogisticRegression(max_iter=500).fit(features(table, train), table.labels[train])
    return area(table.labels[test], model.decision_function(features(table, test)))
