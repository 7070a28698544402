"""Public rows that weights are put on: read, typed by the schema, encoded, and identified by a
hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.declare.calendar import CALENDAR, numbers_of, series_of
from dpublish.declare.domain import Axis, Domain
from dpublish.declare.encode import encode_frame
from dpublish.errors import InputError, PlanError
from dpublish.releases.frames import column_values, drawn_values
from dpublish.sources.files import existing_file

UNIFORM = "uniform"
FEW_BINS = 40
_UNIFORM_SEED = 2013
"""Rows drawn evenly over the domain are public and always the same, so that their hash is."""


@dataclass(frozen=True)
class PublicSet:
    """Public rows as they will be published, their codes, and base weights that add up to 1."""

    name: str
    frame: pl.DataFrame
    codes: tuple[NDArray[Any], ...]
    base: Floats
    dropped: int

    @property
    def rows(self) -> int:
        return self.frame.height

    @property
    def digest(self) -> str:
        return frame_digest(self.frame)

    def columns(self) -> dict[str, NDArray[Any]]:
        return {name: plain_array(self.frame.get_column(name)) for name in self.frame.columns}

    def recoded(self, axes: Sequence[Axis]) -> PublicSet:
        return encode_public(self.name, self.frame, axes, self.base)


def read_public(
    source: object, labels: Iterable[str] | None, *, what: str = "public rows"
) -> pl.DataFrame:
    """A frame from a path or a frame. `labels` are columns to be read as text whatever they look
    like; None: all of them."""
    if isinstance(source, pl.DataFrame):
        return source
    if isinstance(source, pl.LazyFrame):
        return source.collect()
    if isinstance(source, str | Path):
        return _read_file(Path(source), None if labels is None else list(labels), what)
    kind = f"{type(source).__module__.partition('.')[0]}.{type(source).__name__}"
    try:
        if kind == "pandas.DataFrame":
            columns: Any = source
            return pl.DataFrame(
                {
                    str(name): pl.Series(columns[name].to_list(), strict=False)
                    for name in columns.columns
                }
            )
        if isinstance(source, Mapping):
            return pl.DataFrame(dict(source), strict=False)
        return pl.DataFrame(pl.from_arrow(source))
    except Exception:
        raise InputError(
            f"Public rows cannot be read from a {kind}. Give the path of a CSV, TSV or Parquet "
            f"file or of a release, a polars "
            "or pandas DataFrame, a pyarrow Table, SqlSource(url, query), or 'uniform'."
        ) from None


def _read_file(path: Path, labels: Sequence[str] | None, what: str) -> pl.DataFrame:
    existing_file(path, what)
    name = path.name.lower().removesuffix(".gz")
    try:
        if name.endswith((".csv", ".tsv")):
            separator = "\t" if name.endswith(".tsv") else ","
            header = pl.read_csv(path, separator=separator, n_rows=0).columns
            text = {label: pl.String for label in header if labels is None or label in labels}
            return pl.read_csv(
                path, separator=separator, infer_schema_length=None, schema_overrides=text
            )
        if name.endswith(".parquet"):
            return pl.read_parquet(path)
        if name.endswith((".arrow", ".feather", ".ipc")):
            return pl.read_ipc(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"The {what} in '{path}' cannot be read: {str(error).splitlines()[0][:200]}"
        ) from None
    raise InputError(
        f"The format of '{path}' is not known. Use .csv, .tsv (also .gz), .parquet, .arrow, or a "
        f"release (.dpr)."
    )


def uniform_rows(axes: Sequence[Axis], rows: int) -> pl.DataFrame:
    """Rows drawn evenly over the declared domain: each column's codes are equally likely."""
    generator = np.random.default_rng(_UNIFORM_SEED)
    return pl.DataFrame(
        [
            drawn_values(axis, generator.integers(0, axis.cardinality, rows), generator).alias(
                axis.name
            )
            for axis in axes
        ]
    )


def encode_public(
    name: str, frame: pl.DataFrame, axes: Sequence[Axis], base: Floats | None = None
) -> PublicSet:
    """Type, check and encode public rows; rows that the schema's rules drop are left out. They are
    public: errors may quote."""
    if frame.height == 0:
        raise PlanError(f"The public rows '{name}' are empty.")
    weights = np.full(frame.height, 1.0) if base is None else np.asarray(base, dtype=np.float64)
    if not np.all(np.isfinite(weights)) or np.any(weights < 0.0) or weights.sum() <= 0.0:
        raise PlanError(
            f"The base weights of the public rows '{name}' must be finite, not negative, and not "
            f"all zero."
        )
    frame = frame.with_columns(_typed(frame.get_column(axis.name), axis) for axis in axes)
    for column in frame.get_columns():
        if column.dtype.is_float() and not bool(column.drop_nulls().is_finite().all()):
            raise PlanError(
                f"Column '{column.name}' of the public rows '{name}' holds NaN or infinite cells. "
                f"Make them null."
            )
    batch = encode_frame(frame, Domain(tuple(axes)))
    keep = weights > 0.0 if batch.keep is None else batch.keep & (weights > 0.0)
    if not keep.any():
        raise PlanError(
            f"No public row of '{name}' has declared values in all of: "
            f"{', '.join(axis.name for axis in axes)}."
        )
    weights = weights[keep]
    return PublicSet(
        name=name,
        frame=_plain(frame.filter(pl.Series(keep))),
        codes=tuple(np.asarray(codes)[keep] for codes in batch.codes),
        base=weights / weights.sum(),
        dropped=int(len(keep) - keep.sum()),
    )


def _typed(column: pl.Series, axis: Axis) -> pl.Series:
    """Numbers of a numeric column as numbers, truth of a boolean one as such; the rest is left to
    the encoder's rules."""
    if axis.kind == "boolean" and column.dtype != pl.Boolean:
        wide = replace(axis, other=True, missing=True, outside="other")
        codes = encode_frame(pl.DataFrame([column]), Domain((wide,))).codes[0].astype(np.int64)
        if (
            codes == wide.other_code
        ).any():  # neither true nor false, and not missing: kept apart, as in private rows
            labels = [
                None if code == wide.missing_code else wide.label(code)
                for code in range(wide.cardinality)
            ]
            return pl.Series(axis.name, labels).gather(codes)
        return column_values(wide, codes).alias(axis.name)
    if axis.kind in ("integer", "real") and column.dtype == pl.String:
        return column.str.strip_chars().cast(pl.Float64, strict=False)
    if axis.kind in CALENDAR and column.dtype == pl.String:
        numbers, holes = numbers_of(axis.kind, column) or (np.zeros(0, dtype=np.int64), None)
        moments = series_of(axis.kind, numbers)
        return moments if holes is None else moments.set(pl.Series(holes), None)
    return column


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Only types that a release can hold: numbers, text, booleans, dates and times."""
    columns = []
    for column in frame.get_columns():
        kind = column.dtype
        if kind in (pl.Categorical, pl.Enum, pl.Null) or (
            kind == pl.Boolean and column.null_count()
        ):
            columns.append(column.cast(pl.String))
        elif kind.is_decimal() or (kind.is_numeric() and column.null_count()):
            columns.append(column.cast(pl.Float64))
        elif kind.is_numeric() or kind in (pl.String, pl.Boolean, pl.Date, pl.Datetime, pl.Time):
            columns.append(column)
    return pl.DataFrame(columns)


def plain_array(column: pl.Series) -> NDArray[Any]:
    """A column as an array that polars reads back as the same column (missing numbers as NaN)."""
    if column.dtype == pl.String:
        return np.array(column.to_list(), dtype=object)
    return column.to_numpy()


def with_truth(frame: pl.DataFrame, axes: Iterable[Axis]) -> pl.DataFrame:
    """Boolean columns as booleans again, where missing values had made them text; not those that
    hold anything else."""
    truth = {"true": True, "false": False}
    texts = [
        axis.name
        for axis in axes
        if axis.kind == "boolean"
        and frame.schema.get(axis.name) == pl.String
        and bool(frame.get_column(axis.name).drop_nulls().is_in(list(truth)).all())
    ]
    return frame.with_columns(
        pl.col(name).replace_strict(truth, default=None, return_dtype=pl.Boolean) for name in texts
    )


def frame_digest(frame: pl.DataFrame) -> str:
    """SHA-256 of names and values, in order."""
    return hashlib.sha256(frame.fill_nan(None).write_csv(null_value="\\N").encode()).hexdigest()


def absent_levels(
    axes: Sequence[Axis], codes: Sequence[NDArray[Any]]
) -> list[tuple[str, list[str]]]:
    """For each column of few values, the declared values that no public row has."""
    found = []
    for axis, column in zip(axes, codes, strict=True):
        if axis.numeric and axis.base > FEW_BINS:
            continue  # gaps between fine bins are no lack of support
        counts = np.bincount(column.astype(np.int64), minlength=axis.cardinality)
        lacking = [axis.label(int(code)) for code in np.flatnonzero(counts[: axis.base] == 0)]
        if lacking:
            found.append((axis.name, lacking))
    return found


def constant_columns(axes: Sequence[Axis], codes: Sequence[NDArray[Any]]) -> list[str]:
    return [
        axis.name
        for axis, column in zip(axes, codes, strict=True)
        if len(column) and bool((column == column[0]).all())
    ]
