"""Train scikit-learn estimators on weighted cells, and use them on raw rows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.domain import Axis, Domain
from dpublish.encode import encode_frame
from dpublish.errors import QueryError
from dpublish.public.frames import column_values

if TYPE_CHECKING:
    from dpublish.public.releases.histogram import HistogramRelease

try:
    from sklearn.base import BaseEstimator, TransformerMixin, clone
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter
except ImportError:
    raise QueryError("Training needs scikit-learn. Install it with: pip install 'dpublish[learn]'.") from None

MAX_WIDTH = 1 << 20
DENSE_WIDTH = 1024

Matrix = Any
"""A dense array, or a scipy sparse matrix when there are many columns."""


class CellEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Raw rows into numbers, by the public domain alone: nothing is learnt from data, so there is nothing to fit.

    Categorical columns become one indicator a level, numbers the midpoint of their bin scaled to [0, 1], ordered levels their
    rank scaled to [0, 1]; a missing or undeclared value has an indicator of its own where the domain has a code for it.
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = axes

    def fit(self, rows: Any, y: Any = None) -> CellEncoder:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, rows: Any) -> Matrix:
        frame = as_frame(rows, [axis.name for axis in self.axes])
        # at prediction time no row may be dropped, so every column gets codes for values that training never saw
        lenient = Domain(tuple(replace(axis, other=True, missing=True, outside=_lenient(axis)) for axis in self.axes))
        codes = encode_frame(frame, lenient).codes
        return self.matrix([_strict_codes(axis, np.asarray(code)) for axis, code in zip(self.axes, codes, strict=True)])

    def matrix(self, codes: Sequence[NDArray[np.int64]]) -> Matrix:
        """Features of rows given as codes; code `cardinality` stands for a value the domain has no code for."""
        blocks = [_axis_table(axis) for axis in self.axes]
        width = sum(block.shape[1] for block in blocks)
        if width > MAX_WIDTH:
            raise QueryError(f"These columns make {width} features; at most {MAX_WIDTH} are supported. Name fewer features.")
        if width <= DENSE_WIDTH:
            return np.hstack([block[code] for block, code in zip(blocks, codes, strict=True)])
        from scipy import sparse

        return sparse.hstack([sparse.csr_matrix(block)[code] for block, code in zip(blocks, codes, strict=True)], format="csr")

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        names: list[str] = []
        for axis in self.axes:
            extra = [axis.label(code) for code in range(axis.base, axis.cardinality)]
            labels = ["", *extra] if axis.ordered else list(axis.labels)
            names += [f"{axis.name}={label}" if label else axis.name for label in labels]
        return np.array(names, dtype=object)


def _lenient(axis: Axis) -> str:
    return "clip" if axis.outside == "clip" else "other"


def _strict_codes(axis: Axis, lenient: NDArray[Any]) -> NDArray[np.int64]:
    """Codes of the lenient axis (other, then missing) as codes of the axis itself."""
    unknown = axis.cardinality
    other = axis.other_code if axis.other_code is not None else unknown
    missing = axis.missing_code if axis.missing_code is not None else other
    translate = np.array([*range(axis.base), other, missing], dtype=np.int64)
    return translate[lenient.astype(np.int64)]


@functools.lru_cache(maxsize=256)
def _axis_table(axis: Axis) -> NDArray[np.float64]:
    """One row of features a code, and a last row for values without a code."""
    if not axis.ordered:
        return np.vstack([np.eye(axis.cardinality), np.zeros((1, axis.cardinality))])
    if axis.numeric:
        edges = np.array([float(edge) for edge in axis.edges])
        middle = np.array([axis.midpoint(code) for code in range(axis.base)])
        place = (middle - edges[0]) / (edges[-1] - edges[0])
    else:
        place = np.arange(axis.base) / max(1, axis.base - 1)
    extra = axis.cardinality - axis.base
    table = np.zeros((axis.cardinality + 1, 1 + extra))
    table[: axis.base, 0] = place
    table[axis.base :, 0] = 0.5
    table[axis.base : axis.cardinality, 1:] = np.eye(extra)
    return table


def as_frame(rows: Any, names: Sequence[str]) -> pl.DataFrame:
    """Rows given as a polars or pandas frame, an arrow table or a mapping of columns, with the named columns in order."""
    if isinstance(rows, pl.LazyFrame):
        rows = rows.collect()
    if not isinstance(rows, pl.DataFrame):
        columns = getattr(rows, "columns", None)
        if columns is not None and hasattr(rows, "iloc"):
            rows = pl.DataFrame({name: _series(name, rows[name]) for name in names if name in set(columns)})
        else:
            try:
                rows = pl.DataFrame(rows, strict=False)
            except Exception as error:
                raise QueryError(
                    f"Rows must be a polars or pandas frame or a mapping of columns, not {type(rows).__name__}."
                ) from error
    lacking = [name for name in names if name not in rows.columns]
    if lacking:
        raise QueryError(f"The rows lack the columns {', '.join(lacking)}. Needed: {', '.join(names)}.")
    frame: pl.DataFrame = rows.select(names)
    return frame


def _series(name: str, values: Any) -> pl.Series:
    try:
        return pl.Series(name, values.to_numpy())
    except Exception:  # mixed objects: let polars take them one by one
        return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)


def fit_pipeline(release: HistogramRelease, estimator: Any, *, target: str | None, features: Sequence[str] | None) -> Any:
    """A fitted pipeline: `CellEncoder`, then the estimator trained on the released cells weighted by their counts."""
    domain = release.domain
    target = target or release.target
    if target is None:
        raise QueryError(f"Name the column to predict: target=... Columns: {', '.join(domain.names)}.")
    chosen = list(features) if features is not None else [name for name in domain.names if name != target]
    if target in chosen:
        raise QueryError(f"The target '{target}' cannot be a feature too.")
    wanted = [target, *chosen]
    if not chosen:
        raise QueryError("Name at least one feature.")
    codes = [release.codes(name) for name in wanted]
    axes = [domain.axis(name) for name in wanted]
    codes, weights = _merge(codes, axes, release.counts)
    labels = column_values(axes[0], codes[0])
    known = labels.is_not_null().to_numpy()
    if not known.any():
        raise QueryError(f"The release holds no cell with a known '{target}', so there is nothing to train on.")
    encoder = CellEncoder(axes[1:])
    matrix = encoder.matrix([code[known] for code in codes[1:]])
    answers = labels.filter(pl.Series(known)).to_numpy()
    model = clone(estimator)
    model.fit(matrix, answers, **{_weight_argument(model): weights[known].astype(np.float64)})
    return Pipeline([("encode", encoder), ("model", model)])


def _merge(
    codes: list[NDArray[np.int64]], axes: Sequence[Axis], counts: NDArray[np.int64]
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Cells that agree on the chosen columns become one, with the sum of their weights."""
    shape = tuple(axis.cardinality for axis in axes)
    keys = np.zeros(len(counts), dtype=np.uint64)
    for code, size in zip(codes, shape, strict=True):
        keys = keys * np.uint64(size) + code.astype(np.uint64)
    unique, first, place = np.unique(keys, return_index=True, return_inverse=True)
    weights = np.zeros(len(unique), dtype=np.int64)
    np.add.at(weights, place, counts)
    return [code[first] for code in codes], weights


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
