"""How cells are written in a source: the [source] table of a schema.

    [source]
    delimiter = ";"             # between the columns of a text file
    encoding = "latin-1"        # of a text file
    decimal = ","               # in numbers
    thousands = "."             # in numbers
    dates = ["%d.%m.%Y"]        # in date columns; other dates, ISO ones too, must be listed as well
    times = ["%I:%M %p"]        # of day, in time columns; the same holds
    timestamps = ["%d.%m.%Y %H:%M", "iso"]
    zone = "Europe/Berlin"      # whose clock is meant where a cell or a column names another
    missing = ["?", "NA"]       # cells that say nothing, in every column
    sheet = "2024"              # of a workbook that has several

Everything here is declared, like the levels of a column: nothing is guessed from rows. Each cell is
rewritten by itself into the spelling that `encode` reads, so what a cell means still depends on
that cell and on public facts alone. A number that is not written as declared is no number: with
decimal = ",", neither "1.5" nor, without thousands = ".", "1.234,5" can be read.
"""

from __future__ import annotations

import codecs
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import polars as pl

from dpublish.declare.calendar import CALENDAR, numbers_of, on_the_clock_of
from dpublish.declare.spelling import BLANKS
from dpublish.errors import SchemaError, refuse, refuse_unknown_keys

UNWRITTEN = "\ufffd"
"""Stands for a cell that is not written as declared: it is no number, date or level."""

_DAY_PARTS = {"%d", "%m", "%Y", "%y", "%b", "%B", "%e", "%F"}
_CLOCK_PARTS = {"%H", "%M", "%S", "%I", "%p", "%f", "%T"}
_UNICODE = {
    "utf-8",
    "utf-8-sig",
    *(f"utf-{n}{end}" for n in (16, 32) for end in ("", "-le", "-be")),
}
_BY_DAY = ({"%Y", "%y", "%F"}, {"%m", "%b", "%B", "%F"}, {"%d", "%e", "%F"})
_BY_CLOCK = ({"%H", "%I", "%T"}, {"%M", "%T"})
ISO = "iso"
"""A format that stands for what is read where no format is declared."""
_LISTS = {"date": "dates", "time": "times", "timestamp": "timestamps"}


@dataclass(frozen=True, kw_only=True)
class SourceFormat:
    """What a schema says about how cells are written."""

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str = "."
    thousands: str | None = None
    dates: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    timestamps: tuple[str, ...] = ()
    zone: str | None = None
    missing: tuple[str, ...] = ()
    sheet: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As in a schema: what is as usual is left out."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in said.items()
            if (key, value) != ("decimal", ".")
        }

    @property
    def about_cells(self) -> bool:
        """Whether any cell is read in another way than usual."""
        formats = self.dates or self.times or self.timestamps or self.zone
        return bool(self.decimal != "." or self.thousands or formats or self.missing)

    def rewritten(self, cells: pl.Series, kind: str | None) -> pl.Series:
        """Cells of a column of this kind (None: none declared), as they are usually written."""
        if isinstance(cells.dtype, pl.Categorical | pl.Enum):
            cells = cells.cast(pl.String)
        if self.zone is not None and (kind in CALENDAR or isinstance(cells.dtype, pl.Datetime)):
            cells = on_the_clock_of(self.zone, cells)
        if cells.dtype == pl.String:
            texts = cells.str.strip_chars(BLANKS)
            if kind in ("integer", "real") and (self.decimal != "." or self.thousands):
                texts = self._numbers(texts)
            elif kind in _LISTS and (formats := getattr(self, _LISTS[kind])):
                texts = moments_written(texts, kind, formats)
            if self.missing:
                marked = cells.str.strip_chars(BLANKS).is_in(list(self.missing))
                texts = texts.set(marked.fill_null(False), None)
            return texts.alias(cells.name)
        if self.missing and (cells.dtype.is_integer() or cells.dtype.is_float()):
            marks = [mark for mark in map(number_in, self.missing) if mark is not None]
            marked = cells.cast(pl.Float64, strict=False).is_in(marks)
            return cells.set(marked.fill_null(False), None)
        return cells

    def _numbers(self, texts: pl.Series) -> pl.Series:
        point, group = re.escape(self.decimal), self.thousands
        whole = rf"\d{{1,3}}(?:{re.escape(group)}\d{{3}})+|\d*" if group else r"\d*"
        pattern = rf"^[+-]?(?:{whole})(?:{point}\d*)?(?:[eE][+-]?\d+)?$"
        plain = texts if not group else texts.str.replace_all(group, "", literal=True)
        plain = plain.str.replace_all(self.decimal, ".", literal=True)
        # what holds no mark at all, such as a word for true or an infinity, is left as it is
        marks = r"[.,]|" + "|".join(re.escape(mark) for mark in (self.decimal, group) if mark)
        return pl.select(
            pl.when(texts.str.contains(pattern))
            .then(plain)
            .when(texts.str.contains(marks))
            .then(pl.lit(UNWRITTEN))
            .otherwise(texts)
        ).to_series()


def moments_written(texts: pl.Series, kind: str, formats: Sequence[str]) -> pl.Series:
    """ISO texts of dates, times or timestamps that are written in one of these ways."""
    found = pl.Series([None] * len(texts), dtype=pl.String)
    for written in formats:
        if written == ISO:
            _, holes = numbers_of(kind, texts) or (None, None)
            read = texts if holes is None else texts.set(pl.Series(holes), None)
        elif kind == "time":
            read = texts.str.to_time(written, strict=False).dt.strftime("%H:%M:%S")
        elif any(part in written for part in _CLOCK_PARTS):
            form = "%Y-%m-%d" if kind == "date" else "%Y-%m-%d %H:%M:%S"
            read = texts.str.to_datetime(written, strict=False).dt.strftime(form)
        else:
            read = texts.str.to_date(written, strict=False).dt.strftime("%Y-%m-%d")
        found = pl.select(pl.when(found.is_null()).then(read).otherwise(found)).to_series()
    lost = found.is_null() & texts.is_not_null() & (texts.str.len_bytes() > 0)
    return found.set(lost.fill_null(False), UNWRITTEN)


def number_in(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def read_source_format(table: Any) -> SourceFormat:
    """The [source] table, or what is wrong with it."""
    if not isinstance(table, Mapping):
        raise SchemaError('[source] must be a table, such as [source] with delimiter = ";".')
    refuse_unknown_keys(table, [field.name for field in fields(SourceFormat)], "[source]")
    mark = {key: _mark(table, key) for key in ("delimiter", "decimal", "thousands")}
    decimal = mark["decimal"] or "."
    if decimal == mark["thousands"]:
        raise SchemaError("[source]: decimal and thousands must be different characters.")
    return SourceFormat(
        delimiter=mark["delimiter"],
        encoding=None if table.get("encoding") is None else _encoding(table["encoding"]),
        decimal=decimal,
        thousands=mark["thousands"],
        **{
            key: tuple(_format(kind, text) for text in _texts(table, key))
            for kind, key in _LISTS.items()
        },
        zone=None if table.get("zone") is None else _zone(table["zone"]),
        missing=tuple(text.strip(BLANKS) for text in _texts(table, "missing")),
        sheet=None if table.get("sheet") is None else _text(table["sheet"], "sheet"),
    )


def _mark(table: Mapping[str, Any], key: str) -> str | None:
    found = table.get(key)
    if found is None:
        return None
    bad = not isinstance(found, str) or len(found) != 1 or found.isalnum() or found in '"\r\n+-'
    if bad or (key == "delimiter" and not found.isascii()):
        raise SchemaError(
            f"[source]: {key} must be one character that is no letter, digit, sign or quote, such "
            f'as "{";" if key == "delimiter" else ","}", not {found!r}.'
        )
    return str(found)


def _encoding(found: Any) -> str:
    try:
        name = codecs.lookup(_text(found, "encoding")).name
    except LookupError:
        raise SchemaError(
            f'[source]: encoding = "{found}" is not known. Write "utf-8", "latin-1", "cp1252" or '
            '"utf-16".'
        ) from None
    if name not in _UNICODE and not _is_single_byte(name):
        raise SchemaError(
            f'[source]: encoding = "{found}" is not read: in it, bytes of one row may change what '
            'those of another mean. Convert the file to "utf-8".'
        )
    return name


def _is_single_byte(name: str) -> bool:
    """Whether every byte is a character by itself, whatever stands around it: Python decodes such
    encodings with a table."""
    if name == "ascii":
        return True
    try:
        table = import_module(f"encodings.{name.replace('-', '_')}").decoding_table
    except (ImportError, AttributeError):
        return False
    return isinstance(table, str) and len(table) == 256


def _format(kind: str, text: str) -> str:
    where = f"[source]: {_LISTS[kind]}"
    if text == ISO:
        return text
    parts = set(re.findall(r"%.", text))
    known = _CLOCK_PARTS if kind == "time" else _DAY_PARTS | _CLOCK_PARTS
    if unknown := parts - known:
        raise SchemaError(
            f"{where}: '{min(unknown)}' in '{text}' is not known. Parts: "
            f"{', '.join(sorted(known))}."
        )
    refuse(
        SchemaError,
        (
            kind != "time" and not all(parts & some for some in _BY_DAY),
            f"{where}: '{text}' must say year, month and day, such as '%d.%m.%Y'.",
        ),
        (
            kind == "time" and not all(parts & some for some in _BY_CLOCK),
            f"{where}: '{text}' must say hours and minutes, such as '%H:%M'.",
        ),
        (
            "%I" in parts and "%p" not in parts,
            f"{where}: '{text}' has hours up to 12 (%I), and must say %p (AM or PM).",
        ),
    )
    # read now, by the calls that will read the rows: by then the budget would be spent
    trial = pl.Series(["", "x", datetime(2020, 2, 1, 13, 4, 5).strftime(text)])
    try:
        with warnings.catch_warnings(action="ignore"):
            for cells in (trial, trial.clear()):
                moments_written(cells, kind, [text])
    except pl.exceptions.PolarsError:
        raise SchemaError(
            f"{where}: '{text}' cannot be read. A time has hours and minutes (%H:%M, or "
            "%I:%M %p), and perhaps seconds (%S)."
        ) from None
    return text


def _zone(found: Any) -> str:
    name = _text(found, "zone")
    try:
        on_the_clock_of(name, pl.Series(["2020-01-01T00:00:00Z"]))
        on_the_clock_of(name, pl.Series([datetime(2020, 1, 1, tzinfo=UTC)]))
    except (ValueError, pl.exceptions.PolarsError):
        raise SchemaError(
            f"[source]: zone = '{name[:60]}' is not known. Write one such as \"Europe/Berlin\" or "
            '"UTC".'
        ) from None
    return name


def _texts(table: Mapping[str, Any], key: str) -> list[str]:
    found = table.get(key, [])
    if not isinstance(found, list):
        raise SchemaError(f'[source]: {key} must be a list of texts, such as ["..."].')
    return [_text(text, key) for text in found]


def _text(found: Any, key: str) -> str:
    if not isinstance(found, str) or not found:
        raise SchemaError(f"[source]: {key} must be text in quotes, not {found!r}.")
    return found
