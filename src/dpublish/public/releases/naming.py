"""Columns that an analyst names."""

from __future__ import annotations

from collections.abc import Sequence

from dpublish.domain import Domain
from dpublish.errors import QueryError, SchemaError


def named_columns(domain: Domain, columns: Sequence[str]) -> list[int]:
    """The places of columns in a domain. Raises `QueryError` for none, for one named twice and for unknown ones."""
    if not columns:
        raise QueryError(f"Name at least one column. Columns: {', '.join(domain.names)}.")
    if len(set(columns)) != len(columns):
        raise QueryError("A column is named twice.")
    try:
        return [domain.axes.index(domain.axis(column)) for column in columns]
    except SchemaError as error:
        raise QueryError(str(error)) from None
