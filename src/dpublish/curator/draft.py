"""A first schema guessed from rows, for a person to correct.

What it holds was read off private data, so a release must never rest on it: the schema is stamped
as a draft and refused until its levels, bounds and sizes have been replaced by public knowledge.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from dpublish.declare.columns import BOOLEAN_LEVELS, MISSING, OTHER, Column, Kind
from dpublish.declare.encode import bounded_times
from dpublish.declare.schema import Schema
from dpublish.declare.spelling import BLANKS, ZERO_FRACTION
from dpublish.errors import InputError
from dpublish.quiet import no_logs
from dpublish.sources.sources import open_source

_NO_LEVEL = "replace me"
MAX_LEVELS = 100
_TRACKED = 20_000
_LARGEST = (1 << 62) - 1
_BOOLEAN_WORDS = ({"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"}, {"0", "1"})


@dataclass(frozen=True)
class Draft:
    """A guessed schema, with remarks on the columns where the guess needs a second look."""

    schema: Schema
    remarks: dict[str, str]

    def to_toml(self) -> str:
        """The schema's text with each remark as a comment under the column's heading."""
        lines: list[str] = []
        columns = iter(self.schema.columns)
        for line in self.schema.to_toml().split("\n"):
            lines.append(line)
            if line.startswith("[columns."):
                remark = self.remarks.get(next(columns))
                if remark:
                    lines.append(f"# {remark}")
        return "\n".join(lines)


def draft_schema(data: object, *, name: str) -> Schema:
    """A schema guessed from all rows of `data`, marked as a draft."""
    return draft(data, name=name).schema


def draft(data: object, *, name: str) -> Draft:
    """The same with remarks, for `dpublish schema draft`."""
    with no_logs():
        return _draft(data, name)


def _draft(data: object, name: str) -> Draft:
    source = open_source(data)
    names = [column for column in source.columns() if column]
    if not names:
        raise InputError(
            "The data has no named column, so there is nothing to draft a schema from."
        )
    guesses = {column: _Guess(column) for column in names}
    rows = 0
    for frame in source.batches(names):
        rows += frame.height
        for column, guess in guesses.items():
            guess.look(frame.get_column(column))
    columns = {column: guess.column() for column, guess in guesses.items()}
    remarks = {column: guess.remark for column, guess in guesses.items() if guess.remark}
    # no row at all is no size: 'release' counts the rows where none is declared
    schema = Schema(name=name, columns=columns, size=min(rows, _LARGEST) or None, draft=True)
    return Draft(schema, remarks)


@dataclass
class _Guess:
    """What has been seen of one column so far. A kind stays possible until a value contradicts
    it."""

    name: str
    whole: bool = True
    number: bool = True
    date: bool = True
    missing: bool = False
    low: Any = None
    high: Any = None
    seen: Counter[str] = field(default_factory=Counter)
    too_many: bool = False
    remark: str = ""

    def look(self, series: pl.Series) -> None:
        kind = series.dtype
        if kind.is_nested() or kind in (
            pl.Binary,
            pl.Object,
            pl.Unknown,
            pl.Null,
            pl.Time,
            pl.Duration,
        ):
            self.missing |= len(series) > 0
            return
        if kind in (pl.Date, pl.Datetime):
            self._note_values(bounded_times(series).dt.date(), dates=True)
        elif kind.is_numeric() and not kind.is_decimal():
            self._note_values(series.fill_nan(None) if kind.is_float() else series, dates=False)
        else:
            self._look_at_text(series.cast(pl.String))

    def _look_at_text(self, series: pl.Series) -> None:
        texts = series.str.strip_chars(BLANKS)
        texts = texts.set(texts.str.len_bytes() == 0, None)
        filled = texts.drop_nulls()
        self.missing |= len(filled) < len(series)
        if len(filled) == 0:
            return
        numbers = filled.cast(pl.Float64, strict=False)
        if numbers.null_count() == 0:
            readable = filled.filter(numbers.is_not_nan())
            self.missing |= len(readable) < len(filled)
            wholes = readable.str.replace(ZERO_FRACTION, "${1}").cast(pl.Int64, strict=False)
            self._note_values(
                wholes if wholes.null_count() == 0 else numbers.fill_nan(None).drop_nulls(),
                dates=False,
            )
            return
        days = filled.str.extract(r"^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ].*)?$", 1).str.to_date(
            "%Y-%m-%d", strict=False
        )
        if days.null_count() == 0:
            self._note_values(days, dates=True)
            return
        self.whole = self.number = self.date = False
        self._note_levels(filled)

    def _note_values(self, values: pl.Series, *, dates: bool) -> None:
        filled = values.drop_nulls()
        self.missing |= len(filled) < len(values)
        if len(filled) == 0:
            return
        if dates:
            self.whole = self.number = False
        else:
            self.date = False
            filled = filled.filter(filled.is_finite()) if filled.dtype.is_float() else filled
            if filled.dtype.is_float() and bool((filled != filled.floor()).any()):
                self.whole = False
            if len(filled) == 0:
                return
        low, high = filled.min(), filled.max()
        if self.low is None or isinstance(low, dt.date) == isinstance(self.low, dt.date):
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)
        whole = filled.dtype.is_float() and self.whole
        self._note_levels(filled.clip(-(2.0**62), 2.0**62).cast(pl.Int64) if whole else filled)

    def _note_levels(self, values: pl.Series) -> None:
        if self.too_many:
            return
        for text, times in (
            values.cast(pl.String).alias("level").value_counts(name="times").iter_rows()
        ):
            self.seen[text] += times
        if len(self.seen) > _TRACKED:
            self.too_many = True
            self.seen = Counter(dict(self.seen.most_common(MAX_LEVELS)))

    def column(self) -> Column:
        words = {text.lower() for text in self.seen}
        if words and any(words <= pair for pair in _BOOLEAN_WORDS) and not self.date:
            return self._labels("boolean", BOOLEAN_LEVELS)
        if self.low is None:
            if not self.seen:
                self.remark = "No value was seen. Declare the levels, or delete this column."
                return self._labels("categorical", (_NO_LEVEL,))
        elif self.date or self.whole or self.number:
            return self._numbers()
        if self.too_many or len(self.seen) > MAX_LEVELS:
            self.remark = (
                f"More than {MAX_LEVELS} different texts: the most frequent are listed, the rest "
                f"become '(other)'. "
                "Free text and identifiers do not belong in a release."
            )
        # as in rows of an earlier release: these names come with the column
        levels = tuple(
            sorted(
                text
                for text, _ in self.seen.most_common(MAX_LEVELS)
                if text not in (OTHER, MISSING)
            )
        )
        return self._labels("categorical", levels or (_NO_LEVEL,))

    def _labels(self, kind: Kind, levels: tuple[str, ...]) -> Column:
        return Column(
            name=self.name, kind=kind, levels=levels, missing=self.missing, outside="other"
        )

    def _numbers(self) -> Column:
        if self.date:
            return Column(
                name=self.name, kind="date", lower=self.low, upper=self.high, missing=self.missing
            )
        if self.whole:
            low, high = (
                max(-_LARGEST, min(_LARGEST, int(value))) for value in (self.low, self.high)
            )
            return Column(
                name=self.name, kind="integer", lower=low, upper=high, missing=self.missing
            )
        real_low, real_high = float(self.low), float(self.high)
        if not real_low < real_high:
            real_high = (
                math.nextafter(real_low, math.inf) if abs(real_low) > 2**52 else real_low + 1
            )
        return Column(
            name=self.name, kind="real", lower=real_low, upper=real_high, missing=self.missing
        )
