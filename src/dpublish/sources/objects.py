"""Columns of Python objects, as databases and object frames hand them out, to columns of text.

Each cell is spelled by itself. A type chosen for a whole column would depend on all of its cells,
and then one row could change how the others are read. Reading a number, a truth or a date from its
text gives the same code as reading the value.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from dpublish.declare.calendar import on_the_clock_of
from dpublish.declare.encode import EXACT_WHOLE, as_text, spelled_double
from dpublish.sources.texts import plain_text

_FIRST = dt.datetime(1, 1, 1)
_LAST = dt.datetime(9999, 12, 31, 23, 59, 59)
_DAY = dt.timedelta(days=1)
_HUGE_DIGITS = 30
_TINY_DIGITS = -400
_HUGE = 10**_HUGE_DIGITS


def series_from_objects(values: Sequence[Any], zone: str | None = None) -> pl.Series:
    """Text for cells that hold one plain value, null for nulls, NaN and everything else. Moments
    that have a zone are spelled by the clock of `zone`, by their own where none is given."""
    texts = pl.Series([cell_text(value) for value in values], dtype=pl.String)
    if zone is None:
        return texts
    # by the calendar that also reads columns of moments: two of them may not know the same zones
    instants = pl.Series([_instant(value) for value in values], dtype=pl.Datetime("us", "UTC"))
    moved = as_text(on_the_clock_of(zone, instants))
    return pl.select(pl.when(instants.is_null()).then(texts).otherwise(moved)).to_series()


def list_from_object(value: Any, cut: Callable[[str], list[str]]) -> list[str | None]:
    """The items of one cell: those of a list, or what `cut` makes of a text. Any other value is one
    item."""
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return [cell_text(item) for item in value]
    text = cell_text(value)
    return [] if text is None else list(cut(text)) if isinstance(value, str) else [text]


def rounded_wholes(values: Sequence[Any]) -> list[Any]:
    """Whole numbers beyond 2^53 as the nearest double: what pandas makes of them once another cell
    of theirs is missing."""
    return [
        float(max(-_HUGE, min(_HUGE, int(value))))
        if isinstance(value, int | np.integer) and abs(int(value)) >= EXACT_WHOLE
        else value
        for value in values
    ]


def spelled_floats(values: pl.Series) -> pl.Series:
    """Text of doubles, cell by cell as `series_from_objects` spells them; each distinct number is
    spelled once."""
    distinct = values.unique()
    spelled = series_from_objects(distinct.to_list())
    return values.replace_strict(distinct, spelled, default=None, return_dtype=pl.String)


def cell_text(value: Any) -> str | None:
    """The spelling of one plain value; None for everything else."""
    if isinstance(value, np.floating):
        value = float(value)  # as in a column of them; the item of a long double is a long double
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return plain_text(str(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(
            max(-_HUGE, min(_HUGE, int(value)))
        )  # beyond every bound, and long integers refuse to be spelled
    if isinstance(value, float):
        return None if value != value else spelled_double(float(value))
    if isinstance(value, decimal.Decimal):
        return _decimal(value)
    if isinstance(value, dt.datetime):
        return _clock(value)
    if isinstance(value, dt.date | uuid.UUID):
        return str(value)
    if isinstance(value, dt.time):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, dt.timedelta):  # how some databases and sheets hold a time of day
        inside = dt.timedelta(0) <= value < _DAY
        return (dt.datetime.min + value).time().isoformat() if inside else None
    return None


def _decimal(value: decimal.Decimal) -> str | None:
    """By the place of its first digit alone: arithmetic overflows, and a hundred million zeros take
    all memory there is."""
    if value.is_nan():
        return None
    place = value.adjusted()
    if value.is_infinite() or (place >= _HUGE_DIGITS and not value.is_zero()):
        return "-inf" if value.is_signed() else "inf"
    if place > _TINY_DIGITS:
        return f"{value:f}"
    # below every double: read as 0 where numbers are read, and as text no whole number unless it is
    # 0
    return "0" if value.is_zero() else f"{value:E}"


def _clock(value: dt.datetime) -> str | None:
    """The wall clock, which decides the date. Times of pandas beyond Python's years are moved as by
    `bounded_times`."""
    if value != value:  # pandas' "not a time" equals nothing
        return None
    try:
        value = _inside(value)
        return str(dt.datetime.combine(value.date(), value.time()))
    except Exception:  # a zone of somebody's making
        return None


def _instant(value: Any) -> dt.datetime | None:
    """A moment that has a zone, in UTC; None for every other cell, and where `_clock` says none."""
    if not isinstance(value, dt.datetime) or value != value or value.tzinfo is None:
        return None
    try:
        there = _inside(value).astimezone(dt.UTC)
        return dt.datetime.combine(there.date(), there.time(), dt.UTC)
    except Exception:  # as above
        return None


def _inside(value: dt.datetime) -> dt.datetime:
    first, last = _FIRST, _LAST
    if value.tzinfo is not None:  # a day inside, because a wall clock may be ahead or behind
        first, last = (end.replace(tzinfo=dt.UTC) for end in (first + _DAY, last - _DAY))
    inside = dt.MINYEAR <= value.year <= dt.MAXYEAR  # other times cannot be compared
    if not inside or not first <= value <= last:
        end = first if value.year < dt.MAXYEAR else last
        return end if value.tzinfo is None else end.astimezone(value.tzinfo)
    return value
