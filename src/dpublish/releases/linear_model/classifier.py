"""A published linear model as a scikit-learn classifier. Imported when it is asked for, because
scikit-learn is an extra."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import QueryError
from dpublish.models.linear_features import FloatArray

if TYPE_CHECKING:
    from dpublish.releases.linear_model.release import LinearModelRelease

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
except ImportError:
    raise QueryError(
        "This needs scikit-learn. Install it with: pip install 'dpublish[learn]'."
    ) from None


class LinearModelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fitted from the start; `fit` keeps the published coefficients, whatever it is given. Classes
    are sorted, as elsewhere."""

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

    def decision_function(self, rows: Any) -> FloatArray:
        scores = self.release.decision_function(rows)
        if scores.shape[1] > 1:
            return scores[:, self._order]
        # the one score speaks for the second declared level
        return scores[:, 0] if self._order[1] == 1 else -scores[:, 0]

    def predict_proba(self, rows: Any) -> FloatArray:
        return self.release.predict_proba(rows)[:, self._order]

    def predict(self, rows: Any) -> NDArray[Any]:
        return self.release.predict(rows)
