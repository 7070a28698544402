"""Cells of any type as days, times of day and timestamps: the numbers of `declare/calendar.py`, and
columns made of such numbers. Each cell by itself; none raises."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.declare.calendar import DAY, EPOCH, FIRST, LAST, LAST_ORDINAL
from dpublish.declare.spelling import BLANKS

_DAY_TEXT: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK_TEXT: Final = r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,][0-9]+)?)?"
_ZONE_TEXT: Final = r"(?: ?(Z|z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?))?"
_ISO_DATE: Final = rf"(?s)^({_DAY_TEXT})(?:[T ].*)?$"
_ISO_TIME: Final = rf"^(?:({_DAY_TEXT})[T ])?{_CLOCK_TEXT}{_ZONE_TEXT}$"
_ISO_TIMESTAMP: Final = rf"^({_DAY_TEXT})(?:[T ]{_CLOCK_TEXT}{_ZONE_TEXT})?$"

_TICKS: Final = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]


def series_of(kind: str, numbers: _Ints) -> pl.Series:
    """A column of days, times or timestamps."""
    if kind == "date":
        return pl.Series((numbers - EPOCH).astype(np.int32)).cast(pl.Date)
    if kind == "time":
        return pl.Series(numbers * 1_000_000_000).cast(pl.Time)
    return pl.Series((numbers - EPOCH * DAY) * 1_000_000).cast(pl.Datetime("us"))


def numbers_of(kind: str, series: pl.Series) -> tuple[_Ints, _Flags | None] | None:
    """The number of each cell, and which are missing; None for types that hold nothing of the
    kind. Texts are ISO 8601; what a date or a time of day leaves out of a timestamp is ignored, and
    a day alone is its midnight."""
    cells = series.dtype
    if cells == pl.String:
        return _of_texts(kind, series.str.strip_chars(BLANKS))
    if isinstance(cells, pl.Datetime):
        clock = bounded_times(series).dt.replace_time_zone(None).to_physical()
        counted = clock // _TICKS[cells.time_unit] + EPOCH * DAY
        if kind != "timestamp":
            counted = counted // DAY if kind == "date" else counted % DAY
    elif cells == pl.Date and kind != "time":
        counted = series.to_physical().cast(pl.Int64) + EPOCH
        if kind == "timestamp":
            counted = counted.clip(FIRST["date"], LAST["date"]) * DAY
    elif cells == pl.Time and kind == "time":
        counted = series.to_physical() // _TICKS["ns"]
        counted = counted.set(counted >= DAY, None)  # the 24:00 of some databases
    else:
        return None
    return _known(counted, 0)


def _of_texts(kind: str, texts: pl.Series) -> tuple[_Ints, _Flags | None]:
    if kind == "date":
        days = texts.str.extract(_ISO_DATE, 1).str.to_date("%Y-%m-%d", strict=False)
        return _known(days.to_physical().cast(pl.Int64) + EPOCH, FIRST["date"])
    pattern = _ISO_TIME if kind == "time" else _ISO_TIMESTAMP
    found = texts.str.extract_groups(pattern).struct.unnest()
    day, hour, minute, second = (found.to_series(place) for place in range(4))
    clock = [part.cast(pl.Int64, strict=False).fill_null(0) for part in (hour, minute, second)]
    seconds = clock[0] * 3600 + clock[1] * 60 + clock[2].clip(0, 59)
    sound = (clock[0] < 24) & (clock[1] < 60) & (clock[2] <= 60)
    if kind == "time":
        return _known(seconds.set(~sound | hour.is_null(), None), 0)
    days = day.str.to_date("%Y-%m-%d", strict=False).to_physical().cast(pl.Int64) + EPOCH
    return _known((days * DAY + seconds).set(~sound, None), FIRST["timestamp"])


def _known(counted: pl.Series, first: int) -> tuple[_Ints, _Flags | None]:
    """Numbers, and where there is none: null, or before the calendar starts with year 1."""
    holes = counted.is_null().to_numpy()
    values = counted.fill_null(first).cast(pl.Int64).to_numpy()
    if first:
        holes = holes | (values < first)
    return values, holes if holes.any() else None


def on_the_clock_of(zone: str, cells: pl.Series) -> pl.Series:
    """Cells that name an offset, or whose column has a zone, by the clock of another zone; others
    are left as they are."""
    if isinstance(cells.dtype, pl.Datetime):
        if cells.dtype.time_zone is None:
            return cells
        return bounded_times(cells).dt.convert_time_zone(zone).dt.replace_time_zone(None)
    if cells.dtype != pl.String:
        return cells
    stripped = cells.str.strip_chars(BLANKS)
    offset = stripped.str.extract(_ISO_TIMESTAMP, 5)
    places = np.flatnonzero(offset.is_not_null().to_numpy())
    if not places.size:
        return cells
    some, named = stripped.gather(places), offset.gather(places)
    numbers, holes = _of_texts("timestamp", some)
    digits = named.str.replace_all(r"[^0-9]", "").str.pad_end(4, "0")
    ahead = (
        digits.str.slice(0, 2).cast(pl.Int64, strict=False).fill_null(0) * 3600
        + digits.str.slice(2, 2).cast(pl.Int64, strict=False).fill_null(0) * 60
    ).to_numpy()
    ahead = np.where(named.str.starts_with("-").to_numpy(), -ahead, ahead)
    inside = np.clip(numbers - ahead, FIRST["timestamp"] + DAY, LAST["timestamp"] - DAY)
    there = series_of("timestamp", inside).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    texts = there.dt.replace_time_zone(None).dt.strftime("%Y-%m-%d %H:%M:%S")
    if holes is not None:
        texts = pl.select(pl.when(pl.Series(holes)).then(some).otherwise(texts)).to_series()
    return cells.scatter(places, texts)


def bounded_times(series: pl.Series) -> pl.Series:
    """The same dates or date-times, moved inside years 1 to 9999: calendar arithmetic fails beyond,
    and no bound lies there."""
    kind = series.dtype
    day, spare, tick = 1, 0, 1
    if isinstance(kind, pl.Datetime):
        day = DAY * _TICKS[kind.time_unit]
        spare = 0 if kind.time_zone is None else day  # a wall clock may be ahead or behind
        tick = (
            day // DAY
            # the last second of all, whatever the unit is: pandas chooses that by looking at all
            # rows
        )
    first, last = (
        (1 - EPOCH) * day + spare,
        (LAST_ORDINAL + 1 - EPOCH) * day - tick - spare,
    )
    limit = (1 << 63) - 1 - spare
    return series.to_physical().clip(max(first, -limit), min(last, limit)).cast(kind)
