"""Train scikit-learn estimators on weighted cells, and use them on raw rows; a published linear
model is one. Imported when it is asked for, because scikit-learn is an extra."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.analyse.predict import row_codes
from dpublish.arrays import Floats
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.releases.frames import Codes, Weights, column_values

if TYPE_CHECKING:
    from dpublish.releases.linear_model.release import LinearModelRelease

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter
except ImportError:
    raise QueryError(
        "This needs scikit-learn. Install it with: pip install 'dpublish[learn]'."
    ) from None

MAX_WIDTH = 1 << 20
DENSE_WIDTH = 1024

Matrix = Any
"""A dense array, or a scipy sparse matrix when there are many columns."""


class Cells(Protocol):
    """A release that consists of weighted cells."""

    @property
    def domain(self) -> Domain: ...

    @property
    def target(self) -> str | None: ...

    def weighted_codes(self, columns: Sequence[str]) -> tuple[list[Codes], Weights]: ...


class CellEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Raw rows into numbers, by the public domain alone: nothing is learnt from data, so there is
    nothing to fit.

    Categorical columns become one indicator per level, numbers the midpoint of their bin scaled to
    [0, 1], ordered levels their rank scaled to [0, 1]; a missing or undeclared value has an
    indicator of its own where the domain has a code for it.
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = axes

    def fit(self, rows: Any, y: Any = None) -> CellEncoder:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, rows: Any) -> Matrix:
        return self.matrix(row_codes(rows, self.axes))

    def matrix(self, codes: Sequence[NDArray[np.int64]]) -> Matrix:
        """Features of rows given as codes; code `cardinality` stands for a value the domain has no
        code for."""
        blocks = [_axis_table(axis) for axis in self.axes]
        width = sum(block.shape[1] for block in blocks)
        if width > MAX_WIDTH:
            raise QueryError(
                f"These columns make {width} features; at most {MAX_WIDTH} are supported. Name "
                f"fewer features."
            )
        if width <= DENSE_WIDTH:
            return np.hstack([block[code] for block, code in zip(blocks, codes, strict=True)])
        from scipy import sparse

        return sparse.hstack(
            [sparse.csr_matrix(block)[code] for block, code in zip(blocks, codes, strict=True)],
            format="csr",
        )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        names: list[str] = []
        for axis in self.axes:
            labels = ["", *axis.labels[axis.base :]] if axis.ordered else axis.labels
            names += [f"{axis.name}={label}" if label else axis.name for label in labels]
        return np.array(names, dtype=object)


@functools.lru_cache(maxsize=256)
def _axis_table(axis: Axis) -> NDArray[np.float64]:
    """One row of features a code, and a last row for values without a code."""
    if not axis.ordered:
        return np.vstack([np.eye(axis.cardinality), np.zeros((1, axis.cardinality))])
    if axis.numeric:
        first, last = float(axis.edges[0]), float(axis.edges[-1])
        middle = np.array([axis.midpoint(code) for code in range(axis.base)])
        place = (middle - first) / (last - first)
    else:
        place = np.arange(axis.base) / max(1, axis.base - 1)
    extra = axis.cardinality - axis.base
    table = np.zeros((axis.cardinality + 1, 1 + extra))
    table[: axis.base, 0] = place
    table[axis.base :, 0] = 0.5
    table[axis.base : axis.cardinality, 1:] = np.eye(extra)
    return table


def fit_pipeline(
    release: Cells, estimator: Any, *, target: str | None, features: Sequence[str] | None
) -> Any:
    """A fitted pipeline: `CellEncoder`, then the estimator trained on the released cells weighted
    by their counts."""
    domain = release.domain
    target, chosen = target_and_features(target or release.target, features, domain.names)
    codes, weights = release.weighted_codes([target, *chosen])
    axes = [domain.axis(name) for name in (target, *chosen)]
    codes, weights = _merge(codes, axes, weights)
    labels = column_values(axes[0], codes[0])
    # where all cells are published, noise makes some counts negative: no weight, and no class of
    # its own
    known = labels.is_not_null().to_numpy() & (weights > 0)
    if not known.any():
        raise QueryError(
            f"The release holds no cell with a known '{target}', so there is nothing to train on."
        )
    encoder = CellEncoder(axes[1:])
    matrix = encoder.matrix([code[known] for code in codes[1:]])
    answers = labels.filter(pl.Series(known)).to_numpy()
    return trained(estimator, encoder, matrix, answers, weights[known])


def trained(
    estimator: Any, encoder: CellEncoder, matrix: Matrix, answers: Any, weights: Any = None
) -> Any:
    """A pipeline of the encoder and the estimator, trained on features and answers of rows that may
    have weights."""
    from sklearn.base import is_classifier

    if is_classifier(estimator) and len(found := np.unique(answers)) == 1:
        raise QueryError(
            f"All that the release tells of the target is '{found[0]}': too few rows of any other "
            "stand out of the noise, so there is nothing to tell apart. It takes more rows, a "
            "larger epsilon or fewer columns."
        )
    model = clone(estimator)
    model.fit(matrix, answers, **({} if weights is None else {_weight_argument(model): weights}))
    if weights is not None:
        _warn_of_a_constant(model, matrix)
    return Pipeline([("encode", encoder), ("model", model)])


def _warn_of_a_constant(model: Any, matrix: Matrix) -> None:
    """Boosting and forests count training rows, whatever they weigh, and a release may have few
    cells: then they learn nothing, without a word."""
    answer = getattr(model, "predict_proba", model.predict)(matrix)
    cells = len(answer)
    if cells > 1 and bool((np.asarray(answer) == answer[0]).all()):
        warnings.warn(
            f"{type(model).__name__} learnt a constant from {cells} weighted cells: to it they are "
            "as few rows. Lower what it asks of a leaf (min_samples_leaf=1), or train it on "
            "release.sample(), which has one row per counted row.",
            stacklevel=4,
        )


def target_and_features(
    target: str | None, features: Sequence[str] | None, columns: Sequence[str]
) -> tuple[str, list[str]]:
    """What to predict and from what: all other columns, unless some are named. One name is a list
    of one."""
    if target is None:
        raise QueryError(f"Name the column to predict: target=... Columns: {', '.join(columns)}.")
    if isinstance(features, str):
        features = [features]
    chosen = [name for name in columns if name != target] if features is None else list(features)
    if target in chosen:
        raise QueryError(f"The target '{target}' cannot be a feature too.")
    if not chosen:
        raise QueryError("Name at least one feature.")
    return target, chosen


def _merge(
    codes: Sequence[Codes], axes: Sequence[Axis], counts: Weights
) -> tuple[list[Codes], NDArray[np.float64]]:
    """Cells that agree on the chosen columns become one, with the sum of their weights."""
    keys = np.zeros(len(counts), dtype=np.uint64)
    for code, axis in zip(codes, axes, strict=True):
        keys = keys * np.uint64(axis.cardinality) + code.astype(np.uint64)
    unique, first, place = np.unique(keys, return_index=True, return_inverse=True)
    weights = np.bincount(place.ravel(), weights=counts, minlength=len(unique))
    return [code[first] for code in codes], weights.astype(np.float64)


def _weight_argument(model: Any) -> str:
    if isinstance(model, Pipeline):
        last, final = model.steps[-1]
        return f"{last}__{_weight_argument(final)}"
    if not has_fit_parameter(model, "sample_weight"):
        raise QueryError(
            f"{type(model).__name__} cannot use weights (its fit takes no sample_weight). "
            "Choose another estimator, or train it on release.sample()."
        )
    return "sample_weight"


class LinearModelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A published linear model as a scikit-learn classifier, fitted from the start; `fit`
    keeps the published coefficients, whatever it is given. Classes are sorted, as elsewhere."""

    def __init__(self, release: LinearModelRelease) -> None:
        self.release = release

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> LinearModelClassifier:
        # a release is immutable, so a clone may share it
        return LinearModelClassifier(self.release)

    @property
    def classes_(self) -> NDArray[Any]:
        return np.sort(self.release.classes)

    @property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self.release.classes)

    def fit(self, rows: Any, y: Any = None, sample_weight: Any = None) -> LinearModelClassifier:
        return self

    def decision_function(self, rows: Any) -> Floats:
        scores = self.release.decision_function(rows)
        if scores.shape[1] > 1:
            return scores[:, self._order]
        # the one score speaks for the second declared level
        return scores[:, 0] if self._order[1] == 1 else -scores[:, 0]

    def predict_proba(self, rows: Any) -> Floats:
        return self.release.predict_proba(rows)[:, self._order]

    def predict(self, rows: Any) -> NDArray[Any]:
        return self.release.predict(rows)
