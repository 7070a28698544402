"""Rows into codes: the rules by which any cell of any table becomes a code of a declared axis, or
drops its row.

Both sides of the wall use it: the private side before counting, the public side to feed raw rows to
a fitted model. It is total: no cell, of whatever type, raises. The rules, which depend on nothing
but the cell and the axis:

* Labels. Text matches a level after surrounding blanks are stripped; a number matches the level
  that spells it, so 1, 1.0 and the text "1.0" all match "1". A boolean column reads true/false,
  yes/no, t/f, y/n and 1/0 in any case; in other label columns true, True and TRUE are one level
  unless several of them are declared, and so are the words for false. Any other text, "?" and "NA"
  included, is outside the levels: declare "?" as a level to keep it apart.
* Numbers. Text is read as a whole number or as the nearest double ("42", " 42 ", "42.0", "1e3",
  "-inf"); true is 1 and false is 0, as text too. A number between two integers counts as the lower
  one in an integer column. Infinite and huge values lie outside, at the end they point to.
  Dates are ISO text (2020-01-31, a time may follow and is ignored), dates, or date-times by their
  own wall clock. Times of day (08:30, 8:30:15) and timestamps (2020-01-31 08:30, with a T too) are
  read to the second, by their own wall clock; a day alone is its midnight.
* Missing is null, empty or blank text, NaN, text that is not a number, date or time in a column of
  those, and any cell of a type that cannot be read (lists, structures, bytes, durations).
* What a cell means does not depend on the type of its column, because one other row may have
  decided that: a frame's library turns whole numbers into doubles, truths into objects and all into
  text as soon as one cell asks for it.
* Outside the declared values: `clip` takes the nearest end, `other` its own code, `drop` the row. A
  missing value takes the missing code if there is one, else the other code if there is one, else
  drops the row.
"""

from __future__ import annotations

import abc
import functools
import itertools
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Flags, Ints
from dpublish.declare.calendar import CALENDAR, bounded_times, numbers_of
from dpublish.declare.domain import Axis, Domain
from dpublish.declare.rules import cells_where
from dpublish.declare.spelling import BLANKS, ZERO_FRACTION
from dpublish.declare.statistic import Private
from dpublish.errors import SchemaError, did_you_mean

CodeArray = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.uint32]

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_MAX_TABLE = 1 << 20
_NARROW = (pl.UInt8, pl.Int8, pl.UInt16, pl.Int16)
_TRUE, _FALSE = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")
_TRUTHS = (
    ("true", "True", "TRUE"),
    ("false", "False", "FALSE"),
)  # as polars, pandas and R write them
EXACT_WHOLE = 1 << 53
"""Doubles are exact below; beyond, a whole number may be a rounded one, and is spelled with an
exponent."""


@dataclass(frozen=True, repr=False)
class EncodedBatch(Private):
    """One array of codes a column, all rows long; rows where `keep` is false are dropped and their
    codes mean nothing."""

    codes: list[CodeArray]
    keep: Flags | None = None

    def kept(self) -> list[CodeArray]:
        """The codes of the kept rows only."""
        return self.codes if self.keep is None else [codes[self.keep] for codes in self.codes]


@dataclass(frozen=True)
class CodeRule:
    """What decides the code of a cell of one axis, for what counts where rows lie: `codes` of the
    slots (None drops the row), the slots of `words`, of whole numbers and of doubles that match a
    level, or the `edges` of bins. Slots as in `_AxisEncoder`."""

    axis: Axis
    codes: tuple[int | None, ...]
    words: dict[str, int]
    wholes: dict[int, int]
    doubles: dict[float, int]

    @property
    def above(self) -> int:
        return self.axis.base + 1

    @property
    def missing(self) -> int:
        return self.axis.base + 2


class Encoder:
    """Encodes any number of frames into one domain; look-up tables are built once."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._axes = [
            _NumberEncoder(axis) if axis.numeric else _LabelEncoder(axis) for axis in domain.axes
        ]
        self._rules = [found for rule in domain.rules if (found := cells_where(rule, domain))]

    @property
    def dtypes(self) -> list[type[np.unsignedinteger]]:
        """The type of each column's codes."""
        return [code_dtype(axis.cardinality) for axis in self.domain.axes]

    def encode_column(self, place: int, series: pl.Series) -> tuple[CodeArray, Flags | None]:
        """Codes of one column of the domain, and which rows it keeps (None: all). Looks at nothing
        but each cell."""
        return self._axes[place].encode(series)

    def rule(self, place: int) -> CodeRule:
        """The tables that decide the codes of one column."""
        return self._axes[place].rule()

    def encode(self, frame: pl.DataFrame) -> EncodedBatch:
        for name in self.domain.names:
            if name not in frame.columns:
                raise SchemaError(
                    f"The rows have no column '{name}'.{did_you_mean(name, frame.columns)}"
                )
        return self.joined(one.encode(frame.get_column(one.axis.name)) for one in self._axes)

    def joined(self, columns: Iterable[tuple[CodeArray, Flags | None]]) -> EncodedBatch:
        """Rows by the codes of all columns, and which rows each of these keeps."""
        found = list(columns)
        keeps = [kept for _, kept in found if kept is not None]
        keep = functools.reduce(operator.and_, keeps) if keeps else None
        return self.batch([codes for codes, _ in found], keep)

    def batch(self, codes: list[CodeArray], keep: Flags | None) -> EncodedBatch:
        """Rows by their codes, without those that break a rule of the domain, which each row's own
        codes decide."""
        for rule in self._rules:
            left = slice(None) if keep is None else np.flatnonzero(keep)  # other codes mean nothing
            broken = rule.cells[tuple(codes[place][left] for place in rule.places)]
            keep = np.ones(codes[0].size, dtype=np.bool_) if keep is None else keep.copy()
            keep[left] = ~broken
        return EncodedBatch(codes, None if keep is None or bool(keep.all()) else keep)


def encode_frame(frame: pl.DataFrame, domain: Domain) -> EncodedBatch:
    """Codes of `frame` in `domain`. Raises `SchemaError` for an absent column, never for a cell."""
    return Encoder(domain).encode(frame)


def code_dtype(cardinality: int) -> type[np.uint8] | type[np.uint16] | type[np.uint32]:
    """The smallest unsigned type that holds codes 0..cardinality-1."""
    return np.uint8 if cardinality <= 1 << 8 else np.uint16 if cardinality <= 1 << 16 else np.uint32


class _AxisEncoder(abc.ABC):
    """Cells to slots to codes. Slots: 0 below, 1..base declared, base+1 above or undeclared, base+2
    missing.

    Every rule about what becomes of a cell outside the declared values lives in two short tables
    over slots.
    """

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        base = axis.base
        self.above, self.missing = base + 1, base + 2
        clips = not axis.other and axis.numeric and axis.outside == "clip"
        outside = (0, base - 1) if clips else (axis.other_code, axis.other_code)
        missing = axis.missing_code if axis.missing else axis.other_code
        wanted = [outside[0], *range(base), outside[1], missing]
        self._codes: Any = np.array(
            [code or 0 for code in wanted], dtype=code_dtype(axis.cardinality)
        )
        keeps = np.array([code is not None for code in wanted])
        self._keeps = None if keeps.all() else keeps
        self._narrow: dict[pl.DataType, tuple[CodeArray, Flags | None, int]] = {}

    def encode(self, series: pl.Series) -> tuple[CodeArray, Flags | None]:
        if series.dtype in _NARROW:
            return self._encode_narrow(series)
        if isinstance(series.dtype, pl.Enum):
            return self._encode_enum(series)
        return self._finish(self.slots(series))

    @abc.abstractmethod
    def slots(self, series: pl.Series) -> NDArray[np.int64]: ...

    def rule(self) -> CodeRule:
        kept = itertools.repeat(True) if self._keeps is None else self._keeps.tolist()
        codes = tuple(code if keep else None for code, keep in zip(self._codes.tolist(), kept))  # noqa: B905 - one of them may be endless
        return CodeRule(self.axis, codes, {}, {}, {})

    def _finish(self, slots: NDArray[np.int64]) -> tuple[CodeArray, Flags | None]:
        return self._codes[slots], None if self._keeps is None else self._keeps[slots]

    def _encode_narrow(self, series: pl.Series) -> tuple[CodeArray, Flags | None]:
        """8 and 16-bit integers: every possible value is encoded once, then rows are looked up."""
        kind = series.dtype
        if kind not in self._narrow:
            native = np.dtype(str(kind).lower())
            every = np.arange(1 << 8 * native.itemsize, dtype=f"u{native.itemsize}").view(native)
            codes, keeps = self._finish(self.slots(pl.Series(every)))
            same = (codes == np.arange(codes.size)) & (True if keeps is None else keeps)
            self._narrow[kind] = codes, keeps, int(same.size if same.all() else np.argmin(same))
        table, keeps, unchanged = self._narrow[kind]
        holes = series.is_null().to_numpy() if series.null_count() else None
        values = (series if holes is None else series.fill_null(0)).to_numpy()
        if (
            holes is None
            and values.dtype == table.dtype
            and values.size
            and int(values.max()) < unchanged
        ):
            return values, None  # already codes: no copy
        index = values.view(f"u{values.itemsize}")
        codes, kept = table[index], None if keeps is None else keeps[index]
        if holes is not None:
            codes[holes] = self._codes[self.missing]
            if kept is not None and self._keeps is not None:
                kept[holes] = self._keeps[self.missing]
        return codes, kept

    def _encode_enum(self, series: pl.Series) -> tuple[CodeArray, Flags | None]:
        categories = cast(pl.Enum, series.dtype).categories
        slots = np.append(self.slots(categories.cast(pl.String)), self.missing)
        index = series.to_physical().cast(pl.UInt32).fill_null(len(categories)).to_numpy()
        return self._finish(slots[index])

    def _all_missing(self, series: pl.Series) -> NDArray[np.int64]:
        return np.full(len(series), self.missing, dtype=np.int64)


class _LabelEncoder(_AxisEncoder):
    """Categorical, ordinal and boolean columns."""

    def __init__(self, axis: Axis) -> None:
        super().__init__(axis)
        spelled: dict[str, int] = {}
        if axis.kind == "boolean":
            for slot, words in ((1, _FALSE), (2, _TRUE)):
                spelled.update((text, slot) for word in words for text in _cases(word))
        else:
            for slot, level in enumerate(axis.levels, start=1):
                spelled.setdefault(level.strip(BLANKS), slot)
            spelled.pop("", None)
            for same in _TRUTHS:
                declared = next((spelled[word] for word in same if word in spelled), None)
                if declared is not None:
                    spelled.update((word, declared) for word in same if word not in spelled)
        self._spelled = spelled
        self._words = pl.Enum(list(spelled))
        self._word_slots = np.array([*spelled.values(), self.above], dtype=np.int64)
        self._known: dict[type[np.generic], tuple[NDArray[Any], Ints]] = {}
        """By type, the numbers that spell a level and their slots, and that of all others."""

    def slots(self, series: pl.Series) -> NDArray[np.int64]:
        kind = series.dtype
        if kind == pl.String:
            return self._text_slots(series)
        if kind == pl.Boolean:
            truths = [self._spelled.get(words[0], self.above) for words in _TRUTHS]
            return np.array([*truths, self.missing], dtype=np.int64)[_choice(series)]
        if kind.is_integer():
            return self._number_slots(np.int64, *integer_values(series))
        if kind.is_float():
            return self._number_slots(
                np.float64 if kind == pl.Float64 else np.float32, *floats(series)
            )
        if kind.is_decimal() or kind in (pl.Date, pl.Datetime, pl.Time, pl.Categorical):
            return self._text_slots(as_text(series))
        return self._all_missing(series)

    def _text_slots(self, series: pl.Series) -> NDArray[np.int64]:
        words = len(self._spelled)
        found = _match(series, self._words, words)
        rest = np.flatnonzero(found == words)
        slots = self._word_slots[found]
        if rest.size == 0:
            return slots
        texts = series.gather(rest).str.strip_chars(BLANKS)
        again = _match(texts, self._words, words)
        unknown = np.flatnonzero(again == words)
        if unknown.size:
            again[unknown] = _match(
                texts.gather(unknown).str.replace(ZERO_FRACTION, "${1}"), self._words, words
            )
        found_now = self._word_slots[again]
        blank = (texts.is_null() | (texts.str.len_bytes() == 0).fill_null(True)).to_numpy()
        found_now[blank] = self.missing
        slots[rest] = found_now
        return slots

    def rule(self) -> CodeRule:
        return replace(
            super().rule(), words=self._spelled, wholes=self._wholes(), doubles=self._doubles(False)
        )

    def _wholes(self) -> dict[int, int]:
        """The slots of 64-bit whole numbers that spell a level."""
        found = {int(text): slot for text, slot in self._spelled.items() if _WHOLE.fullmatch(text)}
        return {n: slot for n, slot in sorted(found.items()) if -1 << 63 <= n < 1 << 63}

    def _doubles(self, single: bool) -> dict[float, int]:
        """The slots of doubles, or singles, that spell a level."""
        found: dict[float, int] = {}
        for text, slot in self._spelled.items():
            number = _spelled_number(text, single)
            if number is not None:
                found.setdefault(number, slot)
        return dict(sorted(found.items()))

    def _number_slots(
        self,
        kind: type[np.int64] | type[np.float64] | type[np.float32],
        values: NDArray[Any],
        holes: Flags | None,
    ) -> NDArray[np.int64]:
        if kind not in self._known:
            found = self._wholes() if kind is np.int64 else self._doubles(kind is np.float32)
            self._known[kind] = (
                np.array(list(found), dtype=kind),
                np.array([*found.values(), self.above], dtype=np.int64),
            )
        keys, slots = self._known[kind]
        values = values.astype(kind, copy=False)
        if keys.size == 0:
            out = np.full(values.size, self.above, dtype=np.int64)
        else:
            at = np.minimum(np.searchsorted(keys, values), keys.size - 1)
            out = slots[np.where(keys[at] == values, at, keys.size)]
        if holes is not None:
            out[holes] = self.missing
        return out


class _NumberEncoder(_AxisEncoder):
    """Numbers, dates and times: the slot is the number of edges at or below the value."""

    def __init__(self, axis: Axis) -> None:
        super().__init__(axis)
        self._edges = np.array(axis.edges, dtype=np.float64 if axis.kind == "real" else np.int64)
        self._table: NDArray[np.int64] | None = None
        if axis.kind != "real" and axis.edges[-1] - axis.edges[0] < _MAX_TABLE:
            span = np.arange(int(axis.edges[0]) - 1, int(axis.edges[-1]) + 1)
            self._table = np.searchsorted(self._edges, span, side="right")

    def slots(self, series: pl.Series) -> NDArray[np.int64]:
        found = numbers_on(self.axis.kind, series)
        if found is None:
            return self._all_missing(series)
        values, holes = found
        if self._table is None:
            slots = np.searchsorted(self._edges, values, side="right")
        else:
            first = int(self.axis.edges[0]) - 1
            slots = self._table[np.clip(values, first, first + self._table.size - 1) - first]
        if self.axis.kind == "real":  # the last bin includes its upper edge
            slots[values == self._edges[-1]] = self.axis.base
        if holes is not None:
            slots[holes] = self.missing
        return slots


def numbers_on(kind: str, series: pl.Series) -> tuple[NDArray[Any], Flags | None] | None:
    """The cells of a column as numbers of this kind, and which are missing; None for types that
    hold nothing of it."""
    if series.dtype == pl.Categorical or isinstance(series.dtype, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype.is_decimal():
        series = as_text(series)
    if kind in CALENDAR:
        return numbers_of(kind, series)
    if not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.String)):
        return None
    return floats(series) if kind == "real" else integer_values(series)


def _cases(word: str) -> Iterable[str]:
    return {
        "".join(letters) for letters in itertools.product(*((c.lower(), c.upper()) for c in word))
    }


def _match(texts: pl.Series, words: pl.Enum, unknown: int) -> NDArray[np.uint32]:
    """Which word each text is, `unknown` where it is none of them."""
    if unknown == 0:
        return np.zeros(len(texts), dtype=np.uint32)
    found = texts.cast(words, strict=False).to_physical().cast(pl.UInt32)
    # a fresh array when there is nothing to fill, because the caller writes into it
    return np.array(found.fill_null(unknown).to_numpy(), dtype=np.uint32)


def _choice(series: pl.Series) -> NDArray[np.int64]:
    """0 for true, 1 for false, 2 for null."""
    return (1 - series.cast(pl.Int8)).fill_null(2).cast(pl.Int64).to_numpy()


def _spelled_number(text: str, single: bool) -> float | None:
    """The double (or single) whose shortest spelling is `text`, exact whole numbers being spelled
    without a point."""
    try:
        number = np.float32(text) if single else np.float64(text)
    except ValueError:
        return None
    if np.isnan(number):
        return None
    whole = abs(float(number)) < EXACT_WHOLE and number == np.floor(number)
    single_text = str(int(number)) if whole else str(number)
    return (
        float(number)
        if (single_text if single else spelled_double(float(number))) == text
        else None
    )


def spelled_double(value: float) -> str:
    """The shortest text of a double other than NaN: no point if it is an exact whole number, an
    exponent from 2^53 on.

    Python has an exponent from 10^16 on only, and what it writes between, 9007199254740992.0, would
    pass for an exact number.
    """
    if abs(value) < EXACT_WHOLE:
        return str(int(value)) if value == int(value) else repr(value)
    text = repr(value)
    return text if "e" in text or "inf" in text else np.format_float_scientific(value, trim="-")


def as_text(series: pl.Series) -> pl.Series:
    kind = series.dtype
    if isinstance(kind, pl.Datetime):
        # the wall clock to the microsecond, as Python spells it: without a fraction of zero
        clock = bounded_times(series).dt.replace_time_zone(None).dt.cast_time_unit("us")
        return clock.dt.strftime("%Y-%m-%d %H:%M:%S%.6f").str.strip_suffix(".000000")
    if kind == pl.Date:
        series = bounded_times(series)
    if kind == pl.Time:
        return series.dt.strftime("%H:%M:%S%.6f").str.strip_suffix(".000000")
    return series.cast(pl.String, strict=False)


def floats(series: pl.Series) -> tuple[NDArray[np.float64], Flags | None]:
    """Doubles, and which of them are missing (null, NaN or unreadable text)."""
    plain = series.cast(pl.Int8) if series.dtype == pl.Boolean else series
    read = plain.cast(pl.Float64, strict=False)
    if series.dtype == pl.String and read.null_count() > series.null_count():
        read = _doubles(series.str.strip_chars(BLANKS))
    values = read.fill_null(float("nan")).to_numpy()
    holes = np.isnan(values)
    return values, holes if holes.any() else None


def _doubles(texts: pl.Series) -> pl.Series:
    """Numbers of stripped texts, truths being 1 and 0; null for the rest."""
    read = texts.cast(pl.Float64, strict=False)
    words = texts.str.to_lowercase()
    truth = pl.when(words == "true").then(1.0).when(words == "false").then(0.0)
    return pl.select(truth.otherwise(read)).to_series()


def _floored(values: NDArray[np.float64]) -> Ints:
    """Whole numbers at or below finite or infinite doubles; what does not fit into 64 bits goes to
    the end it points to."""
    return np.clip(np.floor(values), -(2.0**63), 2.0**63 - 1024).astype(np.int64)


def integer_values(series: pl.Series) -> tuple[Ints, Flags | None]:
    """64-bit integers, and which of them are missing. Bounds are below 2^62, so saturating beyond
    64 bits changes no code."""
    kind = series.dtype
    if kind == pl.String:
        return _whole_text(series)
    if kind.is_float():
        values, holes = floats(series)
        return _floored(values if holes is None else np.where(holes, 0.0, values)), holes
    if kind == pl.UInt64:
        series = series.clip(upper_bound=(1 << 63) - 1)
    elif kind in (pl.Int128, pl.UInt128):
        series = series.clip(None if kind == pl.UInt128 else -(1 << 63), (1 << 63) - 1)
    holes = series.is_null().to_numpy() if series.null_count() else None
    whole = series.cast(pl.Int8) if kind == pl.Boolean else series
    return whole.cast(pl.Int64).fill_null(0).to_numpy(), holes


def _whole_text(series: pl.Series) -> tuple[Ints, Flags | None]:
    read = series.cast(pl.Int64, strict=False)
    if read.null_count() == 0:
        return read.to_numpy(), None
    rest = np.flatnonzero(read.is_null().to_numpy())
    texts = series.gather(rest).str.strip_chars(BLANKS)
    again = texts.cast(pl.Int64, strict=False)
    doubles = _doubles(texts).fill_null(float("nan")).to_numpy()
    unread = np.isnan(doubles)
    floored = _floored(np.where(unread, 0.0, doubles))
    values = np.array(read.fill_null(0).to_numpy())
    values[rest] = np.where(again.is_null().to_numpy(), floored, again.fill_null(0).to_numpy())
    holes = np.zeros(len(series), dtype=np.bool_)
    holes[rest] = unread
    return values, holes
