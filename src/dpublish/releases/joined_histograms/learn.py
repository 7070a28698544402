"""Train scikit-learn estimators on synthetic rows of a joined release, and use them on raw rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from dpublish.errors import QueryError
from dpublish.releases.frames import column_values

if TYPE_CHECKING:
    from dpublish.releases.joined_histograms.release import JoinedRelease


def fit_rows(
    release: JoinedRelease,
    estimator: Any,
    *,
    target: str | None,
    features: Sequence[str] | None,
    rows: int,
    seed: int | None,
) -> Any:
    """A fitted pipeline: the encoder of the public domain, then the estimator trained on synthetic
    rows."""
    from dpublish.analyse.learn import (  # says how to get scikit-learn where it is absent
        CellEncoder,
        target_and_features,
        trained,
    )

    target, chosen = target_and_features(target or release.target, features, release.domain.names)
    label, *codes = release.codes([target, *chosen], rows, seed=seed)
    answers = column_values(release.domain.axis(target), label)
    known = answers.is_not_null().to_numpy()
    if not known.any():
        raise QueryError(
            f"The release holds no row with a known '{target}', so there is nothing to train on."
        )
    encoder = CellEncoder([release.domain.axis(name) for name in chosen])
    matrix = encoder.matrix([code[known] for code in codes])
    return trained(estimator, encoder, matrix, answers.filter(pl.Series(known)).to_numpy())
