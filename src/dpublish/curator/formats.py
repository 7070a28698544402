"""What a file and its cells look like: encodings, delimiters, numbers and dates of other countries,
marks for missing values.

For the curator's eyes alone, in `dpublish check` and `schema draft`. A release never looks: how it
reads a file is declared.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from dpublish.declare.calendar import CALENDAR, WORDS, numbers_of
from dpublish.declare.source_format import SourceFormat, moments_written
from dpublish.declare.spelling import BLANKS
from dpublish.sources.files import open_plain
from dpublish.sources.sources import Source

_MARKS = (
    "? . - -- * NA N/A n/a #N/A na NaN nan null NULL Null None none nil missing Missing MISSING "
    "unknown Unknown UNKNOWN N n.a. (missing) -9 -99 -999 -9999 99999"
)
MARKS: Final = tuple(_MARKS.split())
"""Texts by which people say that a value is not there, the commonest first."""

DATES: Final = {
    "%d.%m.%Y": r"^[0-3]?[0-9]\.[01]?[0-9]\.[0-9]{4}$",
    "%d/%m/%Y": r"^[0-3]?[0-9]/[01]?[0-9]/[0-9]{4}$",
    "%m/%d/%Y": r"^[01]?[0-9]/[0-3]?[0-9]/[0-9]{4}$",
    "%d-%m-%Y": r"^[0-3]?[0-9]-[01]?[0-9]-[0-9]{4}$",
    "%Y/%m/%d": r"^[0-9]{4}/[01]?[0-9]/[0-3]?[0-9]$",
    "%Y.%m.%d": r"^[0-9]{4}\.[01]?[0-9]\.[0-3]?[0-9]$",
    "%Y%m%d": r"^(?:1[89]|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])$",
    "%d %b %Y": r"^[0-3]?[0-9] [A-Z][a-z]{2} [0-9]{4}$",
    "%d-%b-%Y": r"^[0-3]?[0-9]-[A-Z][a-z]{2}-[0-9]{4}$",
    "%B %d, %Y": r"^[A-Z][a-z]+ [0-3]?[0-9], [0-9]{4}$",
}
"""Ways to write a day, with what their texts look like."""

_CLOCKS: Final = {
    "%H:%M:%S": r"[0-2]?[0-9]:[0-5][0-9]:[0-5][0-9]",
    "%H:%M": r"[0-2]?[0-9]:[0-5][0-9]",
    "%I:%M:%S %p": r"[01]?[0-9]:[0-5][0-9]:[0-5][0-9] [AaPp][Mm]",
    "%I:%M %p": r"[01]?[0-9]:[0-5][0-9] [AaPp][Mm]",
}
_DAYS: Final = {"%Y-%m-%d": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", **DATES}
FORMS: Final = {
    "date": DATES,
    "time": {form: f"^{clock}$" for form, clock in _CLOCKS.items()},
    "timestamp": {
        f"{day}{between}{form}": f"{pattern[:-1]}{between}{clock}$"
        for day, pattern in _DAYS.items()
        for between in (" ", "T", ", ")
        for form, clock in _CLOCKS.items()
    },
}
"""Ways to write days, times of day and timestamps, with what their texts look like."""

DECIMAL_COMMA: Final = r"^[+-]?(?:[0-9]{1,3}(?:[. ][0-9]{3})+|[0-9]+),[0-9]+$"
THOUSANDS: Final = r"^[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?$"
NUMBER: Final = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"

_DELIMITERS: Final = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_HEAD: Final = 1 << 16
_TEXT_FILE: Final = re.compile(r"\.[ct]sv(\.gz|\.zst)?$", re.I)
_CHUNK: Final = 1 << 24


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """How a text file is written, as far as its bytes show it."""

    encoding: str
    delimiter: str | None
    header: tuple[str, ...]
    ascii: bool = False
    """Whether all its letters are written alike in UTF-8 and in encodings of single bytes."""


def text_format(path: Path) -> TextFormat:
    """Looks at the first line for the delimiter, and at every byte for the encoding."""
    with open_plain(path) as file:
        head = file.read(_HEAD)
        encoding, ascii_only = _marked(head), False
        if encoding is None:
            encoding, ascii_only = "utf-8", True
            decoder = codecs.getincrementaldecoder("utf-8")()
            try:
                chunk = head
                while chunk:
                    decoder.decode(chunk)
                    ascii_only = ascii_only and chunk.isascii()
                    chunk = file.read(_CHUNK)
                decoder.decode(b"", final=True)
            except UnicodeDecodeError:
                encoding, ascii_only = "latin-1", False
    first = head.decode(encoding, "replace").lstrip("\ufeff").splitlines()[:1]
    line = re.sub(r'"[^"]*"', lambda quoted: quoted[0].translate(_PLAIN), first[0]) if first else ""
    counts = {mark: line.count(mark) for mark in _DELIMITERS}
    most = max(counts, key=lambda mark: counts[mark])
    delimiter = most if counts[most] else None
    return TextFormat(
        encoding=encoding,
        delimiter=delimiter,
        header=tuple(
            name.strip().strip('"') for name in (line.split(delimiter) if delimiter else [line])
        ),
        ascii=ascii_only,
    )


def misread(data: object, written: SourceFormat | None) -> tuple[TextFormat | None, list[str]]:
    """How a text file is written, and what of it would be read otherwise. Nothing for other data,
    or for a file that cannot be opened, which opening it says better."""
    if not isinstance(data, str | Path) or not _TEXT_FILE.search(str(data)):
        return None, []
    path = Path(data)
    try:
        found = text_format(path)
    except (OSError, EOFError, zlib.error):
        return None, []
    said = []
    encoding = codecs.lookup((written and written.encoding) or "utf-8").name
    if encoding != codecs.lookup(found.encoding).name and not _same_letters(encoding, found):
        said.append(
            f"The file is {found.encoding.upper()}, and would be read as "
            f"{'LATIN-1' if encoding == 'iso8859-1' else encoding.upper()}."
        )
    delimiter = (written and written.delimiter) or _usual_delimiter(path)
    if found.delimiter not in (delimiter, None):
        said.append(
            f"The first line is separated by {delimiter_name(found.delimiter)}s, and would be cut "
            f"at {delimiter_name(delimiter)}s."
        )
    return found, said


def unusual(found: TextFormat, data: object) -> SourceFormat | None:
    """What [source] has to say about a text file that is written so."""
    usual = found.delimiter == _usual_delimiter(Path(str(data)))
    delimiter = None if usual else found.delimiter
    encoding = None if found.encoding == "utf-8" else found.encoding
    if delimiter is None and encoding is None:
        return None
    return SourceFormat(delimiter=delimiter, encoding=encoding)


def _usual_delimiter(path: Path) -> str:
    return "\t" if ".tsv" in path.suffixes else ","


def _same_letters(encoding: str, found: TextFormat) -> bool:
    """Whether a declared encoding cannot be told from the one found: every file can be read as one
    of single bytes, and a mark tells the byte order."""
    single = (found.ascii or found.encoding == "latin-1") and not encoding.startswith("utf")
    return single or (encoding.startswith("utf-16") and found.encoding.startswith("utf-16"))


_PLAIN = str.maketrans(dict.fromkeys(",;\t|", "_"))


def _marked(head: bytes) -> str | None:
    """UTF-16 by its mark, or because every other byte of plain letters is zero."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for encoding, start in (("utf-16-le", 1), ("utf-16-be", 0)):
        every_other = head[start:2000:2]
        if every_other and every_other.count(0) > 0.7 * len(every_other):
            return encoding
    return None


def delimiter_name(mark: str | None) -> str:
    return "none" if mark is None else _DELIMITERS.get(mark, repr(mark))


def moment_format(texts: Sequence[str], kinds: Sequence[str] = CALENDAR) -> tuple[str, str] | None:
    """The one way to write days, times of day or timestamps that all these texts follow: the kind
    and the format."""
    values = pl.Series(list(texts), dtype=pl.String)
    for kind in kinds if len(values) else ():
        for form, pattern in FORMS[kind].items():
            if values.str.contains(pattern).all():
                read = numbers_of(kind, moments_written(values, kind, [form]))
                if read is not None and read[1] is None:
                    return kind, form
    return None


def hints(texts: Sequence[str], kind: str) -> list[str]:
    """What texts that could not be read as `kind` seem to be."""
    said = []
    marks = [text for text in texts if text in MARKS]
    rest = [text for text in texts if text not in MARKS]
    if marks:
        shown = ", ".join(f"'{mark}'" for mark in marks)
        said.append(f"{shown} looks like a mark for missing values")
    if not rest:
        return said
    if kind in ("integer", "real"):
        if all(re.match(DECIMAL_COMMA, text) for text in rest):
            said.append("numbers have a decimal comma")
        elif all(re.match(THOUSANDS, text) for text in rest):
            said.append("numbers have commas between thousands")
    if kind in CALENDAR:
        found = moment_format(rest)
        if found is not None and (kind == "date" or found[0] == kind):
            said.append(f"{WORDS[found[0]]} are written as {in_words(found[1])}")
    if any("\ufffd" in text for text in rest):
        said.append("letters could not be decoded: the file is not UTF-8")
    return said


def in_words(form: str) -> str:
    """A format as people write it: dd.mm.yyyy, hh:mm."""
    for mark, word in _FORM_WORDS.items():
        form = form.replace(mark, word)
    return form


_FORM_WORDS: Final = {
    "%d": "dd",
    "%m": "mm",
    "%Y": "yyyy",
    "%b": "Mon",
    "%B": "Month",
    "%H": "hh",
    "%I": "hh",
    "%M": "mm",
    "%S": "ss",
    "%p": "AM",
}
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
_FIGURE = r"(?:0|[1-9][0-9,]*)(?:\.[0-9]+)?"
_BAND = re.compile(rf"^(?:[<>]=?|under|over)? ?{_FIGURE}(?: ?(?:-|to|–) ?{_FIGURE}| ?\+)?$", re.I)


def in_order(levels: Sequence[str]) -> list[str] | None:
    """Levels of a known scale, or bands of numbers, from the lowest to the highest; None where they
    have no order."""
    if len(levels) <= 2:
        return None
    scale = next((s for s in _SCALES if {t.lower() for t in levels} <= {*s}), None)
    if scale is not None:
        return sorted(levels, key=lambda text: scale.index(text.lower()))
    return sorted(levels, key=_band) if all(_BAND.match(text) for text in levels) else None


def _band(text: str) -> tuple[float, int]:
    """Where a band such as '<20', '20-39' or '40+' begins."""
    digits = re.search(r"[0-9]+(?:\.[0-9]+)?", text.replace(",", ""))
    start = float(digits[0]) if digits else 0.0
    return start, -1 if text.lower().startswith(("<", "under")) else 0


# Which column says whose rows belong together: guesses for drafts and checks, from names and rows.
# For the curator's eyes alone.

_UNIT_WORDS: Final = (
    *("id", "patient", "person", "customer", "user", "household", "subject", "member"),
    *("respondent", "employee", "pupil", "student", "client", "participant"),
)
_ID_NAMES: Final = re.compile(r"(?:[a-z](?:Id|ID)|^(?:idno|pid|hid|uid|cid|sid|ssn|nr|key)$)")
MAX_CANDIDATES: Final = 4
MAX_TRAITS: Final = 12
AGREE: Final = 0.98
"""The part of ids of several rows within which a trait must not change, beyond chance."""


def named_as_unit(name: str) -> bool:
    """Whether a column is called as ids of people are."""
    words = {*re.split("[-_]", name.lower())}
    return not words.isdisjoint(_UNIT_WORDS) or bool(_ID_NAMES.search(name))


def largest_unit(source: Source, column: str) -> int:
    """The number of rows that 99 in 100 units do not exceed."""
    units = pl.concat([frame.select(unit=pl.first().hash()) for frame in source.batches([column])])
    sizes = units.group_by("unit").len().get_column("len")
    return int(sizes.quantile(0.99, "higher") or 1)


def repeated_id(source: Source, candidates: Sequence[str], traits: Sequence[str]) -> str | None:
    """The column whose values come several times each, and within which what people are does not
    change: a person's rows have one sex and one birthplace, rows with the same income do not.

    `traits` are columns of few values. One of them must be the same within nearly all ids of
    several rows, although two rows at random often differ in it.
    """
    for candidate in candidates[:MAX_CANDIDATES]:
        some = [name for name in traits if name != candidate][:MAX_TRAITS]
        if not some:
            return None
        batches = source.batches([candidate, *some])
        table = pl.concat([frame.select(pl.all().hash()) for frame in batches])
        groups = table.group_by(candidate).agg(
            pl.len().alias("#rows"), pl.col(some).min() == pl.col(some).max()
        )
        several = groups.filter(pl.col("#rows") > 1)
        enough = several.height >= 0.1 * groups.height and several.height >= 10
        if enough and any(_holds(table, several, name) for name in some):
            return candidate
    return None


def _holds(table: pl.DataFrame, several: pl.DataFrame, name: str) -> bool:
    """Whether ids agree in a trait, in which two rows at random differ in at least one case in
    five."""
    shares = table.get_column(name).value_counts(normalize=True).get_column("proportion")
    agree = several.get_column(name).mean() or 0
    return float((shares * shares).sum()) <= 0.8 and float(agree) >= AGREE  # type: ignore[arg-type]


def item_lists(source: Source, column: str) -> Iterator[pl.Series]:
    """The cells of set-valued data as lists of items, by batch."""
    for frame in source.batches([column]):
        cells = frame.to_series(0)
        yield cells if cells.dtype == pl.List else cells.cast(pl.String).str.split(" ")


def items_of(lists: pl.Series) -> pl.Series:
    """The texts in lists of items, without blanks around them; blank ones are none."""
    items = lists.explode().cast(pl.String).str.strip_chars(BLANKS)
    return items.filter(items.str.len_bytes() > 0)
