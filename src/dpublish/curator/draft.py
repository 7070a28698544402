"""A first schema guessed from rows, for a person to correct.

What it holds was read off private data, so a release must never rest on it: the schema is stamped
as a draft and refused until its levels, bounds and sizes have been replaced by public knowledge.
The guesses aim at what a person would have written: marks for missing values are no levels, few
whole numbers are codes, bounds are round, levels stand in their natural order, ids and free text
and survey weights stay out. Each bound and level set says that it was taken from the rows, until
somebody names a better source.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import polars as pl

from dpublish.curator.check import named_as_unit
from dpublish.curator.formats import DECIMAL_COMMA, MARKS, date_format, in_words, misread, unusual
from dpublish.declare.columns import BOOLEAN_LEVELS, MISSING, OTHER, Column, Kind, Wording
from dpublish.declare.encode import bounded_times
from dpublish.declare.schema import ItemUniverse, PrivacyUnit, Schema
from dpublish.declare.source_format import SourceFormat
from dpublish.declare.spelling import BLANKS, ZERO_FRACTION, natural
from dpublish.errors import InputError
from dpublish.quiet import no_logs
from dpublish.sources.sources import Source, TransactionLines, open_source

FROM_ROWS: Final = "taken from the rows"
MAX_LEVELS = 100
CODES = 20
"""Whole numbers with at most so many different values are taken for codes."""

_NO_LEVEL = "replace me"
_TRACKED = 20_000
_LARGEST = (1 << 62) - 1
_BOOLEAN_WORDS = ({"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"}, {"0", "1"})
_WEAK = {"N", "none", "None", "unknown", "Unknown", "UNKNOWN"}
"""Marks that may as well be levels, or numbers."""
_TEXT_MARKS = [mark for mark in MARKS if not re.fullmatch(r"-?[0-9]+", mark)]
_WEIGHTS = re.compile(r"(wgt|weightings?$|sample_?weight|survey_?weight|^pweight|replicate)", re.I)
_SCALES = (
    ("none", "mild", "moderate", "severe"),
    ("very low", "low", "medium", "high", "very high"),
    ("low", "normal", "high"),
    ("never", "rarely", "sometimes", "often", "always"),
    ("xs", "s", "m", "l", "xl", "xxl"),
    ("small", "medium", "large"),
    ("very bad", "bad", "fair", "good", "very good", "excellent"),
    ("very poor", "poor", "fair", "good", "very good", "excellent"),
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    ("january", "february", "march", "april", "may", "june", "july", "august", "september",
     "october", "november", "december"),
)  # fmt: skip
_PLAIN = r"(?:0|[1-9][0-9,]*)(?:\.[0-9]+)?"
_BAND = re.compile(rf"^(?:[<>]=?|under|over)? ?{_PLAIN}(?: ?(?:-|to|–) ?{_PLAIN}| ?\+)?$", re.I)


@dataclass(frozen=True)
class Draft:
    """A guessed schema, with remarks on the columns where the guess needs a second look, and what
    was left out with the reason."""

    schema: Schema
    remarks: dict[str, str]
    left_out: dict[str, str] = field(default_factory=dict)

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
            elif line == "[dataset]":
                lines += [f"# {self.remarks['']}"] if "" in self.remarks else []
        if self.left_out:
            lines.append("# Left out:")
            lines += [f"# - {_shown(name)}: {why}" for name, why in self.left_out.items()]
            lines.append("")
        return "\n".join(lines)


def _shown(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)


def draft_schema(data: object, *, name: str, sheet: str | None = None) -> Schema:
    """A schema guessed from all rows of `data`, marked as a draft."""
    return draft(data, name=name, sheet=sheet).schema


def draft(data: object, *, name: str, sheet: str | None = None) -> Draft:
    """The same with remarks, for `dpublish schema draft`; `sheet` of a workbook with several."""
    with no_logs():
        form, _ = misread(data, None)
        written = None if form is None else unusual(form, data)
        written = SourceFormat(sheet=sheet) if sheet is not None else written
        source = open_source(data, Schema(name=name, source=written))
        if isinstance(source, TransactionLines):
            return _baskets(source, name)
        return _table(source, name, written or SourceFormat())


def _baskets(source: Source, name: str) -> Draft:
    """Set-valued data: the items that occur, in their natural order."""
    items: set[str] = set()
    rows = 0
    for frame in source.batches(source.columns()):
        rows += frame.height
        cells = frame.to_series(0).str.split(" ").explode().str.strip_chars(BLANKS)
        items.update(cells.filter(cells.str.len_bytes() > 0).unique().to_list())
    if not items:
        raise InputError("The data has no item, so there is nothing to draft a schema from.")
    universe = ItemUniverse(items=tuple(sorted(items, key=natural)), source=FROM_ROWS)
    schema = Schema(
        name=name,
        items=universe,
        neighbours="add-remove-one",
        nominal_size=round_up(rows) if rows else None,
        draft=True,
    )
    return Draft(schema, {})


def _table(source: Source, name: str, written: SourceFormat) -> Draft:
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
    left_out = {c: why for c, g in guesses.items() if (why := g.why_left_out(rows))}
    unit = next((c for c in left_out if guesses[c].is_unit(rows)), None)
    if len(left_out) == len(names):  # a draft of nothing helps nobody
        left_out = {}
    kept = {c: guess for c, guess in guesses.items() if c not in left_out}
    levels = {mark for guess in kept.values() for mark in guess.weak_marks}
    marks = {mark for guess in kept.values() for mark in guess.strong_marks} - levels
    columns = {c: guess.column(marks) for c, guess in kept.items()}
    written = replace(written, missing=tuple(sorted(marks)), **_spelling(list(kept.values())))
    remarks = {c: guesses[c].remark for c in columns if guesses[c].remark}
    # no row at all is no size: 'release' counts the rows where none is declared
    schema = Schema(name=name, columns=columns, size=min(rows, _LARGEST) or None, draft=True)
    if written != SourceFormat():
        schema = replace(schema, source=written)
    if unit is not None:
        most = _largest_unit(source, unit)
        schema = replace(schema, unit=PrivacyUnit(column=unit, max_rows=most), size=None)
        remarks[""] = f"'{_shown(unit)}' looks like the privacy unit: one person, several rows."
    return Draft(schema, remarks, left_out)


def _spelling(guesses: Sequence[_Guess]) -> dict[str, Any]:
    """How dates and numbers are written, where not in the usual way."""
    found: dict[str, Any] = {}
    forms = {guess.form for guess in guesses if guess.form}
    if forms:
        iso = {"%Y-%m-%d"} if any(g.date and g.low and not g.form for g in guesses) else set()
        found["dates"] = tuple(sorted(forms | iso))
    commas = [guess for guess in guesses if guess.commas]
    points = any(g.low is not None and not g.whole and not g.date for g in guesses if not g.commas)
    if commas and not points:
        found["decimal"] = ","
        if any("." in text for guess in commas for text in guess.seen):
            found["thousands"] = "."
    return found


def _largest_unit(source: Source, column: str) -> int:
    """A round number of rows that covers most units."""
    hashes = pl.concat([frame.to_series(0).hash() for frame in source.batches([column])])
    sizes = hashes.alias("unit").to_frame().group_by("unit").len().get_column("len")
    return max(1, round_up(int(sizes.quantile(0.99, "higher") or 1)))


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
    marks: Counter[str] = field(default_factory=Counter)
    too_many: bool = False
    filled: int = 0
    letters: int = 0
    hashes: list[pl.Series] = field(default_factory=list)
    remark: str = ""
    form: str | None = None
    commas: bool = False

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
        marked = filled.is_in(_TEXT_MARKS)
        if marked.any():
            self.marks.update(filled.filter(marked).to_list())
            filled = filled.filter(~marked)
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
        texts = values.cast(pl.String)
        self.filled += len(texts)
        self.letters += int(texts.str.len_chars().sum())
        self.hashes.append(texts.hash().unique())
        if self.too_many:
            return
        for text, times in texts.alias("level").value_counts(name="times").iter_rows():
            self.seen[text] += times
        if len(self.seen) > _TRACKED:
            self.too_many = True
            self.seen = Counter(dict(self.seen.most_common(MAX_LEVELS)))

    def different(self) -> int:
        if not self.too_many:
            return len(self.seen)
        joined = pl.concat(self.hashes).unique()
        self.hashes = [joined]
        return len(joined)

    @property
    def _labelled(self) -> bool:
        """Texts, or whole numbers: what names things, rather than measures them."""
        return self.low is None or (self.whole and not self.date)

    def is_unit(self, rows: int) -> bool:
        """Named as an id, with values that come several times."""
        return (
            self._labelled
            and named_as_unit(self.name)
            and max(CODES, 0.001 * rows) < self.different() < 0.95 * self.filled
        )

    def why_left_out(self, rows: int) -> str | None:
        if self.is_unit(rows):
            return 'looks like the privacy unit, and is declared as unit = "..." above'
        if self.whole and self.low is not None and _WEIGHTS.search(self.name):
            return "looks like survey weights, which belong to the sample and not to a person"
        if rows < CODES or not self.filled or not self._labelled:
            return None
        if self._has_commas() or self._written_date():
            return None
        different = self.different()
        text = self.low is None
        if different == self.filled and (text or named_as_unit(self.name)):
            return "looks like an identifier: no two rows agree. It does not belong in a release"
        if text and different > MAX_LEVELS:
            long = self.letters / self.filled > 30
            if different > 0.5 * self.filled or long:
                return "looks like free text or names, which do not belong in a release"
        return None

    @property
    def _numeric(self) -> bool:
        return self.low is not None and (self.date or self.whole or self.number)

    @property
    def weak_marks(self) -> dict[str, int]:
        """Marks that are levels here."""
        written = self._written_date() or self._has_commas()
        numbers = self._numeric or written
        return {} if numbers else {m: n for m, n in self.marks.items() if m in _WEAK}

    @property
    def strong_marks(self) -> list[str]:
        weak = self.weak_marks
        read = ("NaN", "nan") if self._numeric else ()  # numbers have a way to say it
        return [mark for mark in self.marks if mark not in weak and mark not in read]

    def _written_date(self) -> str | None:
        odd = self.low is None and self.seen and not self.too_many
        return date_format(list(self.seen)) if odd else None

    def _has_commas(self) -> bool:
        odd = self.low is None and self.seen and not self.too_many
        matches = (re.match(DECIMAL_COMMA, text) or text.isdigit() for text in self.seen)
        return bool(odd) and all(matches)

    def column(self, declared: set[str]) -> Column:
        """The column, where [source] declares these marks for missing values."""
        numbers, weak, strong = self._numeric, self.weak_marks, self.strong_marks
        form = self._written_date()
        if form is not None:
            return self._written_dates(form)
        if self._has_commas():
            return self._decimal_commas()
        self.missing |= bool(strong) or (numbers and bool(self.marks))
        strong = strong if numbers else [mark for mark in strong if mark not in declared]
        self.seen.update(weak)
        words = {text.lower() for text in self.seen}
        if words and any(words <= pair for pair in _BOOLEAN_WORDS) and not self.date:
            return self._labels("boolean", BOOLEAN_LEVELS, strong)
        if numbers:
            return self._numbers(strong)
        if not self.seen:
            self.remark = "No value was seen. Declare the levels, or delete this column."
            return self._labels("categorical", (_NO_LEVEL,), strong)
        if self.too_many or len(self.seen) > MAX_LEVELS:
            self.remark = (
                f"More than {MAX_LEVELS} different texts: the most frequent are listed, the rest "
                "become '(other)'."
            )
        # as in rows of an earlier release: these names come with the column
        common = [text for text, _ in self.seen.most_common(MAX_LEVELS)]
        levels = sorted((text for text in common if text not in (OTHER, MISSING)), key=natural)
        scale = next((s for s in _SCALES if {t.lower() for t in levels} <= {*s}), None)
        if scale is not None and len(levels) > 2:
            levels.sort(key=lambda text: scale.index(text.lower()))
            return self._labels("ordinal", tuple(levels), strong)
        if len(levels) > 2 and all(_BAND.match(text) for text in levels):
            return self._labels("ordinal", tuple(sorted(levels, key=_band)), strong)
        return self._labels("categorical", tuple(levels) or (_NO_LEVEL,), strong)

    def _labels(self, kind: Kind, levels: tuple[str, ...], marks: list[str]) -> Column:
        if marks:
            shown = ", ".join(f"'{mark}'" for mark in marks)
            self._say(f"{shown} marks missing values. It is no level, and is counted as '(other)'.")
        missing = self.missing and not marks
        source = "" if kind == "boolean" else FROM_ROWS
        return Column(
            name=self.name,
            kind=kind,
            levels=levels,
            missing=missing,
            outside="other",
            wording=Wording(source=source),
        )

    def _say(self, text: str) -> None:
        self.remark = f"{self.remark} {text}".strip()

    def _numbers(self, marks: list[str]) -> Column:
        if self.whole and not self.date and self._are_codes(int(self.low), int(self.high)):
            return self._codes(marks)
        if marks:
            self._say(f"{', '.join(f'{mark!r}' for mark in marks)} marks missing values.")
        wording = Wording(source=FROM_ROWS)
        common: dict[str, Any] = {"name": self.name, "missing": self.missing, "wording": wording}
        if self.date:
            low, high = dt.date(self.low.year, 1, 1), dt.date(self.high.year, 12, 31)
            return Column(kind="date", lower=low, upper=high, **common)
        if self.whole:
            low_, high_ = (
                max(-_LARGEST, min(_LARGEST, int(value))) for value in (self.low, self.high)
            )
            lower, upper = _round_bounds(self.name, low_, high_)
            return Column(kind="integer", lower=int(lower), upper=int(upper), **common)
        real_low, real_high = _round_bounds(self.name, float(self.low), float(self.high))
        if not real_low < real_high:
            real_high = (
                math.nextafter(real_low, math.inf) if abs(real_low) > 2**52 else real_low + 1
            )
        return Column(kind="real", lower=float(real_low), upper=float(real_high), **common)

    def _are_codes(self, low: int, high: int) -> bool:
        """Few different whole numbers, close together, each of which comes several times."""
        if self.too_many or not 2 <= len(self.seen) <= CODES or self.filled < 5 * len(self.seen):
            return False
        return high - low + 1 <= 2 * len(self.seen) and low >= -1

    def _codes(self, marks: list[str]) -> Column:
        """Codes have an order where they are many, as grades are, or where fewer and fewer have
        more and more."""
        levels = [str(code) for code in range(int(self.low), int(self.high) + 1)]
        counts = [self.seen[level] for level in levels]
        falling = len(levels) > 2 and all(a >= b for a, b in itertools.pairwise(counts))
        ordered = len(levels) >= 10 or (falling and int(levels[0]) == 0)
        if marks:
            self.missing = True
        self._say("Few different whole numbers: taken for codes.")
        return self._labels("ordinal" if ordered else "categorical", tuple(levels), marks)

    def _written_dates(self, form: str) -> Column:
        days = pl.Series(list(self.seen)).str.to_date(form)
        self.low, self.high, self.date, self.form = days.min(), days.max(), True, form
        self.missing |= bool(self.marks)
        self._say(f"Dates are written as {in_words(form)}, as [source] says.")
        return self._numbers([])

    def _decimal_commas(self) -> Column:
        values = [float(re.sub(r"[. ]", "", text).replace(",", ".")) for text in self.seen]
        self.low, self.high, self.whole, self.date = min(values), max(values), False, False
        self.missing |= bool(self.marks)
        self.commas = True
        self._say("Numbers have a decimal comma, as [source] says.")
        return self._numbers([])


def _band(text: str) -> tuple[float, int]:
    """Where a band such as '<20', '20-39' or '40+' begins."""
    digits = re.search(r"[0-9]+(?:\.[0-9]+)?", text.replace(",", ""))
    below = text.lower().startswith(("<", "under"))
    return (float(digits[0]) if digits else 0.0, -1 if below else 0)


def round_up(value: float) -> int:
    """The next number with one digit and zeros, and a half step between: 37 gives 40, 1,200
    gives 1,500."""
    if value <= 10:
        return max(1, math.ceil(value))
    step = int(10 ** math.floor(math.log10(value)))
    return math.ceil(2 * value / step) * step // 2


def _round_bounds(name: str, low: float, high: float) -> tuple[float, float]:
    """Round numbers on either side, so that the ends do not show who is at them."""
    words = re.split(r"[^a-z]+", name.lower())
    if {"age", "agep"} & {*words} and 0 <= low <= high <= 120:
        return 0, 120
    if abs(low) >= 2.0**52 or abs(high) >= 2.0**52:
        return low, high
    step = 10.0 ** math.floor(math.log10(max(high - low, abs(high) / 10, 1e-9)))
    upper = math.ceil(high / step) * step
    if low < 0:
        lower = -float(round_up(-low)) if low < -1 else -1.0
    else:
        lower = 0.0 if low <= 0.5 * high else math.floor(low / step) * step
    if isinstance(low, int):
        upper = max(upper, high)
        return math.floor(lower), math.ceil(upper)
    return float(f"{lower:.12g}"), float(f"{upper:.12g}")
