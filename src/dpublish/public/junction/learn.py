"""Train scikit-learn estimators on synthetic rows of a joined release, and use them on raw rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from dpublish.errors import QueryError
from dpublish.public.frames import column_values

if TYPE_CHECKING:
    from dpublish.public.releases.joined import JoinedRelease


def fit_rows(
    release: JoinedRelease,
    estimator: Any,
    *,
    target: str | None,
    features: Sequence[str] | None,
    rows: int,
    seed: int | None,
) -> Any:
    """A fitted pipeline: the encoder of the public domain, then the estimator trained on synthetic rows."""
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline

    from dpublish.public.learn import CellEncoder  # says how to get scikit-learn where it is absent

    names = release.domain.names
    target = target or release.target
    if target is None:
        raise QueryError(f"Name the column to predict: target=... Columns: {', '.join(names)}.")
    chosen = list(features) if features is not None else [name for name in names if name != target]
    if target in chosen:
        raise QueryError(f"The target '{target}' cannot be a feature too.")
    if not chosen:
        raise QueryError("Name at least one feature.")
    label, *codes = release.codes([target, *chosen], rows, seed=seed)
    answers = column_values(release.domain.axis(target), label)
    known = answers.is_not_null().to_numpy()
    if not known.any():
        raise QueryError(f"The release holds no row with a known '{target}', so there is nothing to train on.")
    encoder = CellEncoder([release.domain.axis(name) for name in chosen])
    model = clone(estimator)
    model.fit(encoder.matrix([code[known] for code in codes]), answers.filter(pl.Series(known)).to_numpy())
    return Pipeline([("encode", encoder), ("model", model)])
