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

import numpy as np
import polars as pl

from dpublish.curator.formats import (
    DECIMAL_COMMA,
    MARKS,
    in_order,
    in_words,
    item_lists,
    items_of,
    largest_unit,
    misread,
    moment_format,
    named_as_unit,
    repeated_id,
    unusual,
)
from dpublish.declare.calendar import DAY, WORDS, named_step, number_of, numbers_of, series_of
from dpublish.declare.columns import (
    BOOLEAN_LEVELS,
    MISSING,
    OTHER,
    Column,
    Kind,
    Wording,
    read_column,
)
from dpublish.declare.schema import ItemUniverse, PrivacyUnit, Schema
from dpublish.declare.source_format import ISO, SourceFormat, moments_written
from dpublish.declare.spelling import BLANKS, ZERO_FRACTION, natural
from dpublish.errors import InputError
from dpublish.quiet import no_logs
from dpublish.sources.sources import LINE_COLUMN, Source, TransactionLines, open_source

FROM_ROWS: Final = "taken from the rows"
MAX_LEVELS = 100
CODES = 20
"""Whole numbers with at most so many different values are taken for codes."""

MAX_BINS = 40
"""Timestamps are drafted in the finest bins that have a name and are fewer than so many."""

_LISTS: Final = {
    "date": ("dates", "%Y-%m-%d"),
    "time": ("times", ISO),
    "timestamp": ("timestamps", ISO),
}
"""What [source] calls formats, and the usual one, which it must list as well then."""
_UNIT: Final = 'looks like the privacy unit, and is declared as unit = "..." above'
_LISTS_APART: Final = "holds lists. Baskets are released from a file that has nothing else"
_NO_LEVEL = "replace me"
_TRACKED = 20_000
_OFFSET: Final = r":[0-9]{2}(?:[.,][0-9]+)? ?(?:Z|z|UTC|[+-][0-9]{2}:?[0-9]{0,2})$"
"""After a time of day: the last two digits of 2020-01-31 are no offset."""
_DATED: Final = r"^[0-9]{4}-"
_LARGEST = (1 << 62) - 1
_BOOLEAN_WORDS = ({"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"}, {"0", "1"})
_WEAK = {"N", "none", "None", "unknown", "Unknown", "UNKNOWN"}
"""Marks that may as well be levels, or numbers."""
_TEXT_MARKS = [mark for mark in MARKS if not re.fullmatch(r"-?[0-9]+", mark)]
_WEIGHTS = re.compile(r"(wgt|weightings?$|sample_?weight|survey_?weight|^pweight|replicate)", re.I)


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
            why_not = (f"# - {_shown(name)}: {why}" for name, why in self.left_out.items())
            lines += ["# Left out:", *why_not, ""]
        return "\n".join(lines)


def _shown(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)


def draft_schema(data: object, *, name: str, sheet: str | None = None) -> Schema:
    """A schema guessed from all rows of `data`, marked as a draft.

    >>> import polars as pl
    >>> draft_schema(pl.DataFrame({"age": [31, 45]}), name="visits").columns["age"].kind
    'integer'
    """
    return draft(data, name=name, sheet=sheet).schema


def draft(data: object, *, name: str, sheet: str | None = None) -> Draft:
    """The same with remarks, for `dpublish schema draft`; `sheet` of a workbook with several."""
    with no_logs():
        form, _ = misread(data, None)
        written = None if form is None else unusual(form, data)
        written = SourceFormat(sheet=sheet) if sheet is not None else written
        source = open_source(data, Schema(name=name, source=written))
        if isinstance(source, TransactionLines):
            return _baskets(source, name, LINE_COLUMN)
        lists = source.lists()
        if len(lists) == 1 and all(map(_names_baskets, {*source.columns()} - {*lists})):
            return _baskets(source.cutting(lists[0], str.split), name, lists[0])
        return _table(source, name, written or SourceFormat(), lists)


def _names_baskets(column: str) -> bool:
    """Whether a column beside baskets says no more than which basket, or whose, a row is."""
    return named_as_unit(column) or column.lower() in ("basket", "order", "transaction", "tid")


def _baskets(source: Source, name: str, column: str) -> Draft:
    """Set-valued data: the items that occur, in their natural order."""
    items: set[str] = set()
    rows = 0
    for lists in item_lists(source, column):
        rows += len(lists)
        items.update(items_of(lists).unique().to_list())
    if not items:
        raise InputError("The data has no item, so there is nothing to draft a schema from.")
    schema = Schema(
        name=name,
        items=ItemUniverse(items=tuple(sorted(items, key=natural)), source=FROM_ROWS),
        neighbours="add-remove-one",
        nominal_size=round_up(rows) if rows else None,
        draft=True,
    )
    remarks = (
        {}
        if column == LINE_COLUMN
        else {"": f"Items stand in column '{_shown(column)}': release with --set column=..."}
    )
    beside = (one for one in source.columns() if one not in (column, LINE_COLUMN))
    unit = next((one for one in beside if largest_unit(source, one) > 1), None)
    if unit is not None:
        schema = replace(schema, unit=_unit_of(source, unit), nominal_size=None)
    return Draft(schema, remarks)


def _unit_of(source: Source, column: str) -> PrivacyUnit:
    return PrivacyUnit(column=column, max_rows=round_up(largest_unit(source, column)))


def _table(source: Source, name: str, written: SourceFormat, lists: Sequence[str]) -> Draft:
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
    left_out |= dict.fromkeys(lists, _LISTS_APART)
    unit = next((c for c in left_out if guesses[c].is_unit(rows)), None)
    if unit is None:
        unit = repeated_id(
            source,
            candidates=[c for c, g in guesses.items() if g.may_be_unit(rows)],
            traits=[c for c, g in guesses.items() if 2 <= g.different() <= CODES],
        )
        left_out |= {} if unit is None else {unit: _UNIT}
    if len(left_out) == len(names):  # a draft of nothing helps nobody
        left_out = {}
    kept = {c: guess for c, guess in guesses.items() if c not in left_out}
    marks = {mark for guess in kept.values() for mark in guess.strong_marks} - {
        mark for guess in kept.values() for mark in guess.weak_marks
    }
    columns = {c: guess.column(marks) for c, guess in kept.items()}
    written = replace(written, missing=tuple(sorted(marks)), **_spelling(list(kept.values())))
    remarks = {c: guesses[c].remark for c in columns if guesses[c].remark}
    # no row at all is no size: 'release' counts the rows where none is declared
    schema = Schema(
        name=name,
        columns=columns,
        size=min(rows, _LARGEST) or None,
        source=None if written == SourceFormat() else written,
        draft=True,
    )
    if unit is not None:
        schema = replace(schema, unit=_unit_of(source, unit), size=None)
        remarks[""] = f"'{_shown(unit)}' looks like the privacy unit: one person, several rows."
    return Draft(schema, remarks, left_out)


def _spelling(guesses: Sequence[_Guess]) -> dict[str, Any]:
    """How dates and numbers are written, where not in the usual way."""
    found: dict[str, Any] = {}
    for kind, (key, iso) in _LISTS.items():
        same = [guess for guess in guesses if guess.moment == kind]
        if any(guess.form for guess in same):
            found[key] = tuple(sorted({guess.form or iso for guess in same}))
    commas = [guess for guess in guesses if guess.commas]
    points = any(
        g.low is not None and not g.whole and not g.moment for g in guesses if not g.commas
    )
    if commas and not points:
        found["decimal"] = ","
        if any("." in text for guess in commas for text in guess.seen):
            found["thousands"] = "."
    return found


@dataclass
class _Guess:
    """What has been seen of one column so far. A kind stays possible until a value contradicts
    it."""

    name: str
    whole: bool = True
    numbers: bool = False
    moment: str | None = None
    """Whether dates, times or timestamps were seen. `low` and `high` are seconds then."""
    mixed: bool = False
    """Whether something was seen that is no number, or numbers beside moments: labels."""
    zoned: bool = False
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
            pl.Duration,
        ):
            self.missing |= len(series) > 0
        elif kind in (pl.Date, pl.Datetime, pl.Time):
            self._note_moments(series)
        elif kind.is_numeric() and not kind.is_decimal():
            self._note_values(series.fill_nan(None) if kind.is_float() else series)
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
                wholes if wholes.null_count() == 0 else numbers.fill_nan(None).drop_nulls()
            )
        elif any(self._note_moments(filled, kind) for kind in ("time", "timestamp")):
            self.zoned |= bool(filled.str.contains(_OFFSET).any())
        else:
            self.mixed = True
            self._note_levels(filled)

    def _note_moments(self, cells: pl.Series, kind: str | None = None) -> bool:
        """Whether all cells are times of day, or all of them days or timestamps. Days are their
        midnights as long as no cell says more."""
        kind = kind or ("time" if cells.dtype == pl.Time else "timestamp")
        filled = cells.drop_nulls()
        numbers, holes = numbers_of(kind, filled) or (np.zeros(0, dtype=np.int64), None)
        if holes is not None or (
            kind == "time" and filled.dtype == pl.String and filled.str.contains(_DATED).any()
        ):
            return False
        self.missing |= len(filled) < len(cells)
        if numbers.size:
            found = "date" if kind == "timestamp" and not (numbers % DAY).any() else kind
            both = {self.moment, found} == {"date", "timestamp"}
            self.mixed |= self.moment not in (None, found) and not both
            self.moment = "timestamp" if both else found
            self.mixed |= self.numbers
            self._note_ends(pl.Series(numbers))
            self._note_levels(series_of(found, numbers // DAY if found == "date" else numbers))
        return True

    def _note_ends(self, filled: pl.Series) -> None:
        low, high = filled.min(), filled.max()
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def _note_values(self, values: pl.Series) -> None:
        filled = values.drop_nulls()
        self.missing |= len(filled) < len(values)
        if len(filled) == 0:
            return
        self.numbers = True
        filled = filled.filter(filled.is_finite()) if filled.dtype.is_float() else filled
        if filled.dtype.is_float() and bool((filled != filled.floor()).any()):
            self.whole = False
        if len(filled) == 0:
            return
        self.mixed |= self.moment is not None
        self._note_ends(filled)
        whole = filled.dtype.is_float() and self.whole
        self._note_levels(filled.clip(-(2.0**62), 2.0**62).cast(pl.Int64) if whole else filled)

    def _note_levels(self, values: pl.Series) -> None:
        texts = values.cast(pl.String)
        self.filled += len(texts)
        self.letters += int(texts.str.len_chars().sum())
        self.hashes.append(texts.hash().unique())
        if self.too_many:
            return
        self.seen.update(dict(texts.alias("level").value_counts(name="times").iter_rows()))
        if len(self.seen) > _TRACKED:
            self.too_many = True
            self.seen = Counter(dict(self.seen.most_common(MAX_LEVELS)))

    def different(self) -> int:
        if not self.too_many:
            return len(self.seen)
        self.hashes = [pl.concat(self.hashes).unique()]
        return len(self.hashes[0])

    @property
    def _labelled(self) -> bool:
        """Texts, or whole numbers: what names things, rather than measures them."""
        return not self._numeric or (self.whole and self.moment is None)

    def is_unit(self, rows: int) -> bool:
        """Named as an id, with values that come several times."""
        return (
            self._labelled
            and named_as_unit(self.name)
            and max(CODES, 0.001 * rows) < self.different() < 0.95 * self.filled
        )

    def may_be_unit(self, rows: int) -> bool:
        """Whole numbers or short texts of which many differ and many come again, none of them very
        often."""
        short = self._numeric or self.letters <= 30 * self.filled
        if not (self._labelled and short and self.filled >= 0.95 * rows and rows >= 50):
            return False
        some = max(CODES, 0.02 * rows) < self.different() < 0.95 * rows
        return some and max(self.seen.values(), default=0) <= 0.01 * rows + 20

    def why_left_out(self, rows: int) -> str | None:
        if self.is_unit(rows):
            return _UNIT
        if self.whole and self._numeric and _WEIGHTS.search(self.name):
            return "looks like survey weights, which belong to the sample and not to a person"
        if rows < CODES or not self.filled or not self._labelled or self._odd_writing:
            return None
        different = self.different()
        text = not self._numeric
        if different == self.filled and (text or named_as_unit(self.name)):
            return "looks like an identifier: no two rows agree. It does not belong in a release"
        long = self.letters / self.filled > 30
        if text and different > MAX_LEVELS and (different > 0.5 * self.filled or long):
            return "looks like free text or names, which do not belong in a release"
        return None

    @property
    def _numeric(self) -> bool:
        return self.low is not None and not self.mixed

    @property
    def weak_marks(self) -> dict[str, int]:
        """Marks that are levels here."""
        weak = () if self._numeric or self._odd_writing else _WEAK
        return {mark: times for mark, times in self.marks.items() if mark in weak}

    @property
    def strong_marks(self) -> list[str]:
        # numbers have a way to say it
        others = {*self.weak_marks, *(("NaN", "nan") if self._numeric else ())}
        return [mark for mark in self.marks if mark not in others]

    @property
    def _texts(self) -> list[str]:
        """All texts of a column that is not read as numbers or moments, if they are few."""
        return list(self.seen) if self.low is None and not self.too_many else []

    def _written_moment(self) -> tuple[str, str] | None:
        return moment_format(self._texts)

    def _has_commas(self) -> bool:
        texts = self._texts
        return bool(texts) and all(
            re.match(DECIMAL_COMMA, text) or re.fullmatch("[0-9]+", text) for text in texts
        )

    @property
    def _odd_writing(self) -> bool:
        """Whether its texts are moments or numbers, written as in other countries."""
        return self._has_commas() or self._written_moment() is not None

    def column(self, declared: set[str]) -> Column:
        """The column, where [source] declares these marks for missing values."""
        numbers, weak, strong = self._numeric, self.weak_marks, self.strong_marks
        written = self._written_moment()
        if written is not None:
            return self._written_moments(*written)
        if self._has_commas():
            return self._decimal_commas()
        self.missing |= bool(strong) or (numbers and bool(self.marks))
        left = [mark for mark in strong if mark not in declared]
        self.seen.update(weak)
        words = {text.lower() for text in self.seen}
        if words and any(words <= pair for pair in _BOOLEAN_WORDS) and not self.moment:
            return self._labels("boolean", BOOLEAN_LEVELS, left)
        if numbers:
            return self._numbers(strong, left)
        if not self.seen:
            self.remark = "No value was seen. Declare the levels, or delete this column."
        elif self.too_many or len(self.seen) > MAX_LEVELS:
            self.remark = (
                f"More than {MAX_LEVELS} different texts: the most frequent are listed, the rest "
                "become '(other)'."
            )
        # as in rows of an earlier release: these names come with the column
        common = [text for text, _ in self.seen.most_common(MAX_LEVELS)]
        levels = sorted((text for text in common if text not in (OTHER, MISSING)), key=natural)
        ordered = in_order(levels)
        kind: Kind = "categorical" if ordered is None else "ordinal"
        return self._labels(kind, tuple(ordered or levels) or (_NO_LEVEL,), left)

    def _labels(self, kind: Kind, levels: tuple[str, ...], marks: list[str]) -> Column:
        if marks:
            shown = ", ".join(f"'{mark}'" for mark in marks)
            self._say(f"{shown} marks missing values. It is no level, and is counted as '(other)'.")
        return Column(
            name=self.name,
            kind=kind,
            levels=levels,
            missing=self.missing and not marks,
            outside="other",
            wording=Wording(source="" if kind == "boolean" else FROM_ROWS),
        )

    def _say(self, text: str) -> None:
        self.remark = f"{self.remark} {text}".strip()

    def _numbers(self, marks: list[str], undeclared: list[str]) -> Column:
        self.missing |= bool(self.marks)
        if self.whole and not self.moment and self._are_codes(int(self.low), int(self.high)):
            return self._codes(undeclared)
        if marks:
            self._say(f"{', '.join(f'{mark!r}' for mark in marks)} marks missing values.")
        common: dict[str, Any] = {
            "name": self.name,
            "missing": self.missing,
            "wording": Wording(source=FROM_ROWS),
        }
        if self.moment is not None:
            return replace(read_column(self.name, self._calendar()), **common)
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
        return (
            not self.too_many
            and 2 <= len(self.seen) <= CODES
            and self.filled >= 5 * len(self.seen)
            and high - low + 1 <= 2 * len(self.seen)
            and low >= -1
        )

    def _codes(self, marks: list[str]) -> Column:
        """Codes have an order where they are many, as grades are, or where fewer and fewer have
        more and more."""
        levels = [str(code) for code in range(int(self.low), int(self.high) + 1)]
        falling = len(levels) > 2 and all(
            self.seen[one] >= self.seen[after] for one, after in itertools.pairwise(levels)
        )
        ordered = len(levels) >= 10 or (falling and int(levels[0]) == 0)
        self.missing |= bool(marks)
        self._say("Few different whole numbers: taken for codes.")
        return self._labels("ordinal" if ordered else "categorical", tuple(levels), marks)

    def _calendar(self) -> dict[str, Any]:
        """Whole years; times of day by the hour, timestamps in bins that have a name."""
        if self.zoned:
            self._say("Cells name an offset, and are read by the clock they were written by, "
                      'unless [source] says zone = "...".')  # fmt: skip
        if self.moment == "time":
            return {"kind": "time", "bins": "hour"}
        years = [dt.date.fromordinal(int(end) // DAY).year for end in (self.low, self.high)]
        low, high = dt.datetime(years[0], 1, 1), dt.datetime(years[1], 12, 31, 23, 59, 59)
        if self.moment == "date":
            return {"kind": "date", "lower": low.date(), "upper": high.date()}
        step = named_step("timestamp", number_of(low), number_of(high), MAX_BINS)
        ends = {"kind": "timestamp", "lower": low, "upper": high}
        return ends if step is None else {**ends, "bins": step}

    def _written_moments(self, kind: str, form: str) -> Column:
        texts = moments_written(pl.Series(list(self.seen)), kind, [form])
        found, _ = numbers_of(kind, texts) or (np.zeros(1, dtype=np.int64), None)
        seconds = found * DAY if kind == "date" else found
        self.low, self.high, self.moment, self.form = seconds.min(), seconds.max(), kind, form
        self.mixed = False
        self._say(f"{WORDS[kind].capitalize()} are written as {in_words(form)}, as [source] says.")
        return self._numbers([], [])

    def _decimal_commas(self) -> Column:
        values = [float(re.sub(r"[. ]", "", text).replace(",", ".")) for text in self.seen]
        self.low, self.high, self.whole, self.mixed = min(values), max(values), False, False
        self.commas = True
        self._say("Numbers have a decimal comma, as [source] says.")
        return self._numbers([], [])


def round_up(value: float) -> int:
    """The next number with one digit and zeros, and a half step between: 37 gives 40, 1,200
    gives 1,500."""
    if value <= 10:
        return max(1, math.ceil(value))
    step = int(10 ** math.floor(math.log10(value)))
    return math.ceil(2 * value / step) * step // 2


def _round_bounds(name: str, low: float, high: float) -> tuple[float, float]:
    """Round numbers on either side, so that the ends do not show who is at them."""
    if {"age", "agep"} & {*re.split(r"[^a-z]+", name.lower())} and 0 <= low <= high <= 120:
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
        return math.floor(lower), math.ceil(max(upper, high))
    return float(f"{lower:.12g}"), float(f"{upper:.12g}")
