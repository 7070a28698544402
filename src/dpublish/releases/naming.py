"""Columns that an analyst names, and tables of counts by them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from dpublish.declare.domain import Domain
from dpublish.errors import QueryError, SchemaError
from dpublish.releases.frames import free_name

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
    for named in (manifest["parameters"].get("target"), manifest.get("target")):
        if isinstance(named, str) and named in domain.names:
            return named
    return None


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
