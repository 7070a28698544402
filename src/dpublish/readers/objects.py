"""Columns of Python objects, as databases and object frames hand them out, to columns of text.

Each cell is spelled by itself. A type chosen for a whole column would depend on all of its cells, and then one row could change
how the others are read. Reading a number or a date from its text gives the same code as reading the value.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

_HUGE = 10**30


def series_from_objects(values: Sequence[Any]) -> pl.Series:
    """Text for cells that hold one plain value, null for nulls, NaN and everything else."""
    return pl.Series([_text(value) for value in values], dtype=pl.String)


def _text(value: Any) -> str | None:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        # lone surrogates have no UTF-8 form
        return str(value) if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(max(-_HUGE, min(_HUGE, int(value))))  # beyond every bound, and long integers refuse to be spelled
    if isinstance(value, float):
        if value != value:
            return None
        return str(int(value)) if abs(value) < _HUGE and value == int(value) else repr(float(value))
    if isinstance(value, decimal.Decimal):
        if value.is_nan():
            return None
        return f"{value:f}" if abs(value) < _HUGE else ("-inf" if value < 0 else "inf")
    if isinstance(value, dt.datetime):
        # pandas' "not a time" equals nothing; the wall clock decides the date
        return str(dt.datetime.combine(value.date(), value.time())) if value == value else None
    if isinstance(value, dt.date | uuid.UUID):
        return str(value)
    return None
