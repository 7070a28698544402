"""The classifiers that the paper compares, each as `train(codes, ...) -> scores on test rows`.

These are simulations: noise is seeded, and mechanisms are called directly, without ledger and gate.
Nothing here is private.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.domain import Axis, Domain, resolve_axis
from dpublish.declare.encode import encode_frame
from dpublish.errors import PlanError
from dpublish.methods.private_classifier.mechanism import PrivateClassifier
from dpublish.methods.projected_histogram.mechanism import ProjectedHistogram
from dpublish.models.linear_features import LinearFeatures
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan
from dpublish.releases.frames import decode_cells

from .tables import Table

Floats = NDArray[np.float64]
FINE = 1024
WEAK = 1e4
"""Inverse ridge of the models that the paper fits without any: enough to stay finite, too little to
matter."""


class Bench:
    """One table in all the forms that the classifiers need, coded once."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.names = tuple(name for name in table.schema.columns if name != table.target)
        self.target = self._axis(table.target, None)
        self.fine = tuple(self._axis(name, FINE) for name in self.names)
        self.labels = self._codes((self.target,))[0]
        self.classes = len(table.classes)
        self.features = self._features(self.fine, self._codes(self.fine))
        self._cache: dict[tuple[Axis, ...], list[NDArray[Any]]] = {}
        self._plans: dict[tuple[str, int, float], Plan] = {}

    def _axis(self, name: str, bins: int | None) -> Axis:
        column = self.table.schema.column(name)
        return resolve_axis(column, schema_name=self.table.schema.name, default_bins=bins)

    def _codes(self, axes: tuple[Axis, ...]) -> list[NDArray[Any]]:
        encoded = encode_frame(self.table.frame, Domain(axes))
        assert encoded.keep is None, "the tables of the paper have no row outside their schema"
        return [np.asarray(codes) for codes in encoded.codes]

    def codes(self, axes: tuple[Axis, ...]) -> list[NDArray[Any]]:
        if axes not in self._cache:
            self._cache[axes] = self._codes(axes)
        return self._cache[axes]

    @staticmethod
    def _features(axes: tuple[Axis, ...], codes: list[NDArray[Any]]) -> Floats:
        coding = LinearFeatures(axes)
        out = np.empty((len(codes[0]), coding.dimension))
        coding.fill(codes, out)
        return out * coding.divisor

    def fine_features(self, names: tuple[str, ...]) -> Floats:
        """Raw values of some columns: what a test row brings, whatever bins the release has."""
        axes = tuple(axis for axis in self.fine if axis.name in names)
        codes = self.codes(self.fine)
        return self._features(axes, [codes[self.names.index(axis.name)] for axis in axes])

    def _projected_plan(self, method: ProjectedHistogram, rows: int, epsilon: float) -> Plan:
        """Folds differ by a row or two; k and gamma are worked out once for each size."""
        key = (repr(method), rows, epsilon)
        if key not in self._plans:
            self._plans[key] = method.plan(self.table.schema.with_size(rows), Cost.pure(epsilon))
        return self._plans[key]

    def can_publish(self, *, epsilon: float, **settings: Any) -> bool:
        """Whether a plan with these settings is accepted: a wide domain may expect too many false
        cells."""
        try:
            self._projected_plan(as_published(settings), len(self.labels), epsilon)
        except PlanError:
            return False
        return True

    def open_regression(self, train: NDArray[np.int64], test: NDArray[np.int64]) -> Floats:
        """(M)LR on the rows themselves, all columns: no privacy."""
        return logistic(
            self.features[train], self.labels[train], None, self.features[test], self.classes
        )

    def projected(
        self,
        train: NDArray[np.int64],
        test: NDArray[np.int64],
        *,
        epsilon: float,
        seed: int,
        **settings: Any,
    ) -> tuple[Floats, dict[str, Any]]:
        """H(M)LR: the same regression on the cells of a projected histogram."""
        method = as_published(settings)
        plan = self._projected_plan(method, len(train), epsilon)
        assert plan.domain is not None
        codes = [column[train] for column in self.codes(plan.domain.axes)]
        content = method.run(SeededNoise(seed), codes, plan)
        assert content.domain is not None
        cells, counts = (np.asarray(content.tables["cells"][name]) for name in ("cell", "count"))
        *columns, labels = (
            decode_cells(cells, content.domain, i) for i in range(len(content.domain.axes))
        )
        axes = content.domain.axes[:-1]
        known = labels < self.classes
        rows = (
            self._features(axes, [column[known] for column in columns])
            if known.any()
            else np.zeros((0, 1))
        )
        facts = {
            "k": content.facts["k"],
            "gamma": float(Fraction(content.facts["gamma"])),
            "chosen": content.facts["chosen"],
        }
        tests = self.fine_features(tuple(axis.name for axis in axes))[test]
        return logistic(
            rows, labels[known], counts[known].astype(np.float64), tests, self.classes
        ), facts

    def private_regression(
        self,
        train: NDArray[np.int64],
        test: NDArray[np.int64],
        *,
        epsilon: float,
        seed: int,
        **settings: Any,
    ) -> Floats:
        """P(M)LR: private empirical risk minimisation, one model a class with epsilon / q."""
        method = PrivateClassifier(resolution=FINE, **settings)
        plan = method.plan(self.table.schema.with_size(len(train)), Cost.pure(epsilon))
        assert plan.domain is not None
        codes = [column[train] for column in self.codes(plan.domain.axes)]
        content = method.run(SeededNoise(seed), codes, plan)
        coding = LinearFeatures(plan.settings.domain.axes[:-1], content.facts["coding"])
        multiples = np.asarray(content.tables["coefficients"]["multiple"])
        weights = multiples.reshape(-1, coding.dimension).astype(np.float64)
        vectors = np.empty((len(test), coding.dimension))
        coding.fill([column[test] for column in self.codes(coding.axes)], vectors)
        scores = vectors @ weights.T * float(Fraction(content.facts["grid"]))
        chances = 1 / (1 + np.exp(-np.clip(scores, -700, 700)))
        if self.classes == 2:
            return np.hstack([1 - chances, chances])
        return chances / chances.sum(axis=1, keepdims=True)


def as_published(settings: dict[str, Any]) -> ProjectedHistogram:
    """k and gamma by the paper's rules, whatever the defaults are."""
    score = settings.get("score", "discernibility")
    return ProjectedHistogram(**{"choose_k": "simulate", **settings, "score": score})


def logistic(
    rows: Floats, labels: NDArray[Any], weights: Floats | None, tests: Floats, classes: int
) -> Floats:
    """Scores of all classes; constant where training rows show fewer than two of them."""
    from sklearn.linear_model import LogisticRegression

    seen = np.unique(labels)
    out = np.zeros((len(tests), classes))
    if seen.size < 2:
        out[:, seen.astype(int)] = 1
        return out
    model = LogisticRegression(
        C=WEAK, solver="newton-cholesky", max_iter=200, tol=1e-6, fit_intercept=False
    )
    model.fit(rows, labels, sample_weight=weights)
    out[:, model.classes_.astype(int)] = model.predict_proba(tests)
    return out


def stratified_folds(
    labels: NDArray[Any], folds: int, seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    from sklearn.model_selection import StratifiedKFold

    split = StratifiedKFold(folds, shuffle=True, random_state=seed).split(
        np.zeros(len(labels)), labels
    )
    return [(np.asarray(train), np.asarray(test)) for train, test in split]
