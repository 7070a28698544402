"""Days, times of day and timestamps as whole numbers, which is how they are binned and compared.

    date        days as `date.toordinal` counts them: 0001-01-01 is 1
    time        seconds since midnight: 0 to 86,399
    timestamp   86,400 seconds for each of those days, and the seconds since midnight

A second is the finest part that is told apart: fractions are cut off, and a leap second counts as
the one before it. All of them are readings of a clock on a wall. A cell that names a zone or an
offset is read by the clock it was written by, unless [source] declares the zone whose clock is
meant (`declare/source_format.py`). So every number is there and in order, whatever a country does
to its clocks.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, Literal, cast, get_args

import numpy as np
import polars as pl

from dpublish.arrays import Flags, Ints
from dpublish.declare.spelling import BLANKS

CalendarKind = Literal["date", "time", "timestamp"]
Moment = dt.date | dt.time
"""A day, a time of day, or both (a `datetime` is a `date`)."""

CALENDAR: Final[tuple[str, ...]] = get_args(CalendarKind)
EXAMPLES: Final = {"date": "2020-01-31", "time": "08:30:00", "timestamp": "2020-01-31 08:30:00"}
WORDS: Final = {"date": "dates", "time": "times of day", "timestamp": "timestamps"}
UNITS: Final = {"date": "days", "time": "seconds", "timestamp": "seconds"}
STEPS: Final = {
    "date": ("day", "week", "month", "quarter", "year"),
    "time": ("minute", "hour"),
    "timestamp": ("minute", "hour", "day", "week", "month", "quarter", "year"),
}
"""Bins that have a name; weeks begin on Monday."""

DAY: Final = 86_400
SECONDS: Final = {"minute": 60, "hour": 3600}
EPOCH: Final = 719_163
"""The ordinal of 1970-01-01."""
LAST_ORDINAL: Final = 3_652_059  # date(9999, 12, 31).toordinal()
FIRST: Final = {"date": 1, "time": 0, "timestamp": DAY}
LAST: Final = {"date": LAST_ORDINAL, "time": DAY - 1, "timestamp": LAST_ORDINAL * DAY + DAY - 1}


def number_of(moment: Moment) -> int:
    """The number of a day, a time of day or a timestamp."""
    clock = moment if isinstance(moment, dt.datetime | dt.time) else None
    seconds = 0 if clock is None else clock.hour * 3600 + clock.minute * 60 + clock.second
    if isinstance(moment, dt.datetime):
        return moment.toordinal() * DAY + seconds
    return moment.toordinal() if isinstance(moment, dt.date) else seconds


def moment_of(kind: str, number: int) -> Moment:
    """What a number of this kind stands for."""
    if kind == "date":
        return dt.date.fromordinal(number)
    hours, rest = divmod(number % DAY, 3600)
    clock = dt.time(hours, *divmod(rest, 60))
    if kind == "time":
        return clock
    return dt.datetime.combine(dt.date.fromordinal(number // DAY), clock)


def spelled(kind: str, number: int) -> str:
    """As conditions have it: 2020-01-31, 08:30:00 or 2020-01-31 08:30:00; empty where the calendar
    has ended."""
    return str(moment_of(kind, number)) if FIRST[kind] <= number <= LAST[kind] else ""


def read(kind: str, text: str) -> int:
    """The number that a text of a schema or a condition spells; `ValueError` if it spells none."""
    text = text.strip()
    if kind == "date":
        return number_of(dt.date.fromisoformat(text))
    found: dt.time | dt.datetime
    if kind == "time":
        found = dt.time.fromisoformat("0" + text if text[1:2] == ":" else text)
    else:
        found = dt.datetime.fromisoformat(text)
    if found.tzinfo is not None or found.microsecond:
        raise ValueError("a clock on a wall, to the second")
    return number_of(found)


def step_edges(kind: str, step: str, low: int, high: int) -> list[int]:
    """Edges of bins that begin with a minute, an hour, a day, ... from `low` to `high`."""
    unit = 1 if kind == "date" else DAY
    plain = SECONDS | {"day": unit, "week": 7 * unit}
    if step in plain:
        # ordinal 1, the first day of all, is a Monday
        start = unit if step == "week" else 0
        width = plain[step]
        first = low + (start - low) % width
        return [low, *range(first + (width if first == low else 0), high, width), high]
    months = {"month": 1, "quarter": 3, "year": 12}[step]
    begin, end = (dt.date.fromordinal(number // unit) for number in (low, high))
    begins = range(begin.year * 12, end.year * 12 + 12, months)
    inner = [dt.date(at // 12, at % 12 + 1, 1).toordinal() * unit for at in begins]
    return [low, *(edge for edge in inner if low < edge < high), high]


def named_step(kind: str, low: int, high: int, most: int) -> str | None:
    """The finest bins that have a name and are at most `most`; None where even years are more."""
    unit = 1 if kind == "date" else DAY
    width = SECONDS | {"day": unit, "week": 7 * unit}
    width |= {"month": 30 * unit, "quarter": 91 * unit, "year": 365 * unit}
    return next((s for s in STEPS[kind] if (high - low) // width[s] < most), None)


_FINE: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)


def fine_seconds(low: int, high: int, most: int) -> tuple[int, ...]:
    """Edges of at most about `most` cells between two seconds: round parts of an hour or of a day,
    or runs of days."""
    span = high - low + 1
    days = max(1, -(-span // (DAY * most)))
    width = next((one for one in _FINE if span // one <= most), days * DAY)
    first = low + -low % width
    return (low, *(edge for edge in range(first, high + 1, width) if edge > low), high + 1)


def is_moment(kind: str, value: Any) -> bool:
    """Whether a value of a schema is of this kind."""
    if kind == "time":
        return isinstance(value, dt.time)
    both = isinstance(value, dt.datetime)
    return both if kind == "timestamp" else isinstance(value, dt.date) and not both


def read_bound(kind: str, value: Any) -> Moment | None:
    """A bound as TOML or a text in quotes has it; None if it is none of this kind. A day alone is
    its midnight."""
    if isinstance(value, str):
        try:
            return moment_of(kind, read(kind, value))
        except (ValueError, OverflowError):
            return None
    if kind == "timestamp" and is_moment("date", value):
        return dt.datetime.combine(value, dt.time())
    if not is_moment(kind, value):
        return None
    if isinstance(value, dt.time | dt.datetime) and (value.tzinfo or value.microsecond):
        return None
    return cast(Moment, value)


# Cells of any type as days, times of day and timestamps: the numbers of `declare/calendar.py`, and
# columns made of such numbers. Each cell by itself; none raises.

_DAY_TEXT: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK_TEXT: Final = r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,][0-9]+)?)?"
_ZONE_TEXT: Final = r"(?: ?(Z|z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?))?"
_ISO_DATE: Final = rf"(?s)^({_DAY_TEXT})(?:[T ].*)?$"
_ISO_TIME: Final = rf"^(?:({_DAY_TEXT})[T ])?{_CLOCK_TEXT}{_ZONE_TEXT}$"
_ISO_TIMESTAMP: Final = rf"^({_DAY_TEXT})(?:[T ]{_CLOCK_TEXT}{_ZONE_TEXT})?$"

_TICKS: Final = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def series_of(kind: str, numbers: Ints) -> pl.Series:
    """A column of days, times or timestamps."""
    if kind == "date":
        return pl.Series((numbers - EPOCH).astype(np.int32)).cast(pl.Date)
    if kind == "time":
        return pl.Series(numbers * 1_000_000_000).cast(pl.Time)
    return pl.Series((numbers - EPOCH * DAY) * 1_000_000).cast(pl.Datetime("us"))


def numbers_of(kind: str, series: pl.Series) -> tuple[Ints, Flags | None] | None:
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


def _of_texts(kind: str, texts: pl.Series) -> tuple[Ints, Flags | None]:
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


def _known(counted: pl.Series, first: int) -> tuple[Ints, Flags | None]:
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
