"""Cells back into rows: typed columns with one value per cell, and synthetic rows drawn inside the
bins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.declare.calendar import CALENDAR, series_of
from dpublish.declare.columns import OTHER
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import BundleError, QueryError, SchemaError
from dpublish.estimate import Estimate, whole_number
from dpublish.models.bin_shapes import bin_means, place_in_bin, tilts_of

Codes = NDArray[np.int64]
Weights = NDArray[np.int64] | NDArray[np.float64]

MAX_SAMPLE = 100_000_000


@dataclass(frozen=True)
class Answers:
    """Answers to many questions at once: values with standard errors and limits."""

    value: Floats
    standard_error: Floats
    low: Floats
    high: Floats
    level: float

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        columns = zip(*(part.figures().values() for part in parts), strict=True)
        value, error, low, high = map(np.concatenate, columns)
        return cls(value, error, low, high, parts[0].level)

    def one(self) -> Estimate:
        """The first of them."""
        value, error, low, high = (float(column[0]) for column in self.figures().values())
        return Estimate(value, error, low, high, self.level)

    def figures(self) -> dict[str, Floats]:
        """The columns of a table of counts."""
        return {
            "count": self.value,
            "standard_error": self.standard_error,
            "low": self.low,
            "high": self.high,
        }


def frame_of(columns: Mapping[str, NDArray[Any]]) -> pl.DataFrame:
    """A table of a release from its columns. Arrays of objects hold text: polars would guess that
    from the first cell alone."""
    return pl.DataFrame(
        [
            pl.Series(name, values.tolist(), dtype=pl.String)
            if values.dtype == object
            else pl.Series(name, values)
            for name, values in columns.items()
        ]
    )


def read_columns(
    frame: pl.DataFrame, schema: Mapping[str, Any], refusal: str
) -> list[NDArray[Any]]:
    """The columns of a table of a bundle, in the order of the schema; a `BundleError` unless it has
    these and no others, without nulls."""
    if dict(frame.schema) != schema or any(frame.null_count().row(0)):
        raise BundleError(refusal)
    return [frame[name].to_numpy() for name in schema]


def decode_cells(cells: NDArray[np.uint64], domain: Domain, index: int) -> Codes:
    """The codes of cells along one axis."""
    stride, count = np.uint64(domain.strides[index]), np.uint64(domain.axes[index].cardinality)
    return ((cells // stride) % count).astype(np.int64)


def column_values(axis: Axis, codes: Codes) -> pl.Series:
    """One value a code: levels as text, booleans, exact integers, dates and times, midpoints of
    bins; missing as null.

    '(other)' stays a text where the column is text and is null elsewhere: it stands for no one
    number.
    """
    if axis.kind == "boolean":
        known = pl.Series([False, True])
    elif not axis.numeric:
        known = pl.Series([*axis.levels, *([OTHER] if axis.other else [])], dtype=pl.String)
    elif axis.kind in CALENDAR:
        known = series_of(axis.kind, np.floor(bin_means(axis)).astype(np.int64))
    elif axis.exact_values:
        known = pl.Series(np.array(axis.edges[:-1], dtype=np.int64))
    else:
        known = pl.Series(bin_means(axis))
    null = pl.Series([None] * (axis.cardinality - len(known)), dtype=known.dtype)
    return known.append(null).gather(pl.Series(codes)).alias(axis.name)


def other_names(axes: Sequence[Axis]) -> dict[str, str]:
    """The SQL columns that say where '(other)' is, for columns of numbers, dates and truths: it is
    null there, like missing."""
    taken = tuple(axis.name for axis in axes)
    found: dict[str, str] = {}
    for axis in axes:
        if axis.other and (axis.numeric or axis.kind == "boolean"):
            found[axis.name] = free_name(f"{axis.name}_other", (*taken, *found.values()))
    return found


def sql_table(axes: Sequence[Axis], codes: Mapping[int, Codes], weights: Weights) -> pl.DataFrame:
    """The SQL table of cells, the weight last, from their codes along the columns that a query
    names."""
    flags = other_names(axes)
    columns = []
    for place, code in codes.items():
        axis = axes[place]
        columns.append(column_values(axis, code))
        if axis.name in flags:
            columns.append(pl.Series(flags[axis.name], code == axis.other_code))
    weight = free_name("weight", tuple(one.name for one in columns))
    return pl.DataFrame([*columns, pl.Series(weight, weights)])


def drawn_values(axis: Axis, codes: Codes, generator: np.random.Generator) -> pl.Series:
    """As `column_values`, with numbers drawn inside their bins."""
    if not axis.numeric or axis.exact_values:
        return column_values(axis, codes)
    declared = codes < axis.base
    bins = np.where(declared, codes, 0)
    if axis.kind == "real":
        edges = np.array(axis.edges, dtype=np.float64)
        low, high = edges[bins], edges[bins + 1]
        place = place_in_bin(tilts_of(axis), bins, generator.random(len(codes)))
        drawn = np.minimum(low + (high - low) * place, np.nextafter(high, low))
    else:
        whole = np.array(axis.edges, dtype=np.int64)
        if axis.tilts:
            place = place_in_bin(tilts_of(axis), bins, generator.random(len(codes)))
            width = whole[bins + 1] - whole[bins]
            drawn = whole[bins] + np.minimum((place * width).astype(np.int64), width - 1)
        else:
            drawn = generator.integers(whole[bins], whole[bins + 1])
    values = series_of(axis.kind, drawn) if axis.kind in CALENDAR else pl.Series(drawn)
    return pl.select(
        pl.when(pl.Series(declared)).then(values).otherwise(None).alias(axis.name)
    ).to_series()


def free_name(wanted: str, taken: tuple[str, ...]) -> str:
    """`wanted`, with underscores appended until no column has that name."""
    while wanted in taken:
        wanted += "_"
    return wanted


def cell_frame(
    cells: NDArray[np.uint64], counts: Weights, domain: Domain, *, intervals: bool
) -> pl.DataFrame:
    """One row a released cell, with its noisy count as `weight`."""
    columns: list[pl.Series] = []
    taken = domain.names
    for index, axis in enumerate(domain.axes):
        codes = decode_cells(cells, domain, index)
        columns.append(column_values(axis, codes))
        if intervals and not axis.exact_values:
            name = free_name(f"{axis.name}_bin", taken)
            taken = (*taken, name)
            # what a person reads for each code, such as '20..29'
            columns.append(pl.Series(name, axis.labels, dtype=pl.String).gather(pl.Series(codes)))
    columns.append(pl.Series(free_name("weight", taken), counts))
    return pl.DataFrame(columns)


def sql_frame(cells: NDArray[np.uint64], counts: Weights, domain: Domain) -> pl.DataFrame:
    """The SQL table of released cells."""
    codes = {place: decode_cells(cells, domain, place) for place in range(len(domain.axes))}
    return sql_table(domain.axes, codes, counts)


def counted_table(
    domain: Domain, places: Sequence[int], codes: Sequence[Codes], weights: Floats
) -> Floats:
    """What cells weigh in every combination of codes of some columns."""
    shape = tuple(domain.axes[place].cardinality for place in places)
    group = np.ravel_multi_index(tuple(codes), shape)
    counted = np.bincount(group, weights=weights, minlength=math.prod(shape))
    return counted.reshape(shape).astype(np.float64)


def rows_to_draw(number: int) -> int:
    """How many rows to draw, as it was asked for."""
    return whole_number("n", number, 0, MAX_SAMPLE)


def generator_of(seed: int | None) -> np.random.Generator:
    """What rows are drawn with. No privacy is at stake here, so a seed is harmless."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0):
        raise QueryError(
            f"seed must be a whole number of at least 0, or None for other rows every time, not "
            f"{seed!r}."
        )
    return np.random.default_rng(None if seed is None else int(seed))


def sample_rows(
    cells: NDArray[np.uint64], counts: Weights, domain: Domain, number: int, seed: int | None
) -> pl.DataFrame:
    """Rows drawn with replacement in proportion to the noisy counts."""
    number = rows_to_draw(number)
    if number and not len(cells):
        raise QueryError(
            "No cell of this release passed the threshold, so there is nothing to draw rows from."
        )
    generator = generator_of(seed)
    chosen = np.zeros(0, dtype=np.int64)
    if number:
        ends = np.cumsum(counts, dtype=np.float64)
        chosen = np.searchsorted(ends, generator.random(number) * ends[-1], side="right")
        chosen = np.minimum(chosen, len(cells) - 1)
    picked = cells[chosen]
    return pl.DataFrame(
        [
            drawn_values(axis, decode_cells(picked, domain, i), generator)
            for i, axis in enumerate(domain.axes)
        ]
    )


# Columns that an analyst names, and tables of counts by them.

MAX_GROUPS = 1_000_000


def named_columns(domain: Domain, columns: Sequence[str]) -> list[int]:
    """The places of columns in a domain. Raises `QueryError` for none, for one named twice and for
    unknown ones."""
    if len(columns) == 1 and isinstance(columns[0], list | tuple):
        columns = columns[0]  # a list of names means the names
    if not columns:
        raise QueryError(f"Name at least one column. Columns: {', '.join(domain.names)}.")
    for column in columns:
        if not isinstance(column, str):
            raise QueryError(
                f"A column's name is a text, not {column!r}. Columns: "
                f"{', '.join(domain.names[:40])}."
            )
    if len(set(columns)) != len(columns):
        raise QueryError("A column is named twice.")
    try:
        return [domain.axes.index(domain.axis(column)) for column in columns]
    except SchemaError as error:
        raise QueryError(str(error)) from None


def named_target(manifest: Mapping[str, Any], domain: Domain) -> str | None:
    """The column that a release was made to predict, or else the one of its schema; None where the
    release has neither."""
    named = (manifest["parameters"].get("target"), manifest.get("target"))
    return next((one for one in named if isinstance(one, str) and one in domain.names), None)


def marginal_shape(domain: Domain, places: Sequence[int]) -> tuple[int, ...]:
    """How many codes each of the named columns has. Raises `QueryError` when a table of them would
    be too large to show."""
    shape = tuple(domain.axes[place].cardinality for place in places)
    groups = math.prod(shape)
    if groups > MAX_GROUPS:
        names = ", ".join(domain.axes[place].name for place in places)
        raise QueryError(
            f"A table of {names} has {groups:,} cells; at most {MAX_GROUPS:,} are shown at once."
        )
    return shape


def marginal_frame(
    domain: Domain, places: Sequence[int], figures: Mapping[str, Any]
) -> pl.DataFrame:
    """One row a combination of codes, in order: their labels, then the figures."""
    axes = [domain.axes[place] for place in places]
    shape = tuple(axis.cardinality for axis in axes)
    codes = np.unravel_index(np.arange(math.prod(shape)), shape)
    labels = [
        pl.Series(axis.name, axis.labels, dtype=pl.String).gather(code.astype(np.uint32))
        for axis, code in zip(axes, codes, strict=True)
    ]
    names = tuple(axis.name for axis in axes)
    return pl.DataFrame(
        [*labels, *(pl.Series(free_name(name, names), values) for name, values in figures.items())]
    )
