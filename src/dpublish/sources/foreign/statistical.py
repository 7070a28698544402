"""Rows of files of SPSS, Stata and SAS, in the child of `child`.

The type of a column is what the file declares before its rows: a number, a text, or by its format a
date, a time of day or both. Cells are codes; the labels of codes belong into the schema. What the
file declares as missing is missing. Texts are taken byte by byte and decoded cell by cell, so that
no bad letter ends the reading of the others; dates beyond the calendar are moved to its ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpublish.errors import InputError
from dpublish.sources.foreign.child import Answer
from dpublish.sources.texts import lossy

_AT_ONCE = 1 << 28
"""About how many bytes the cells of one reading take as objects of Python."""

_CELL = 56
_BYTES = "ISO-8859-1"  # of each byte a letter
_SPSS_DAYS = re.compile(r"(DATE|ADATE|EDATE|JDATE|SDATE|QYR|MOYR|WKYR)[0-9.]*$")
_SAS_DAYS = re.compile(
    r"(DATE|DDMMYY|MMDDYY|YYMMDD|YYMM|MMYY|MONYY|YYQ|YYMON|YEAR|WEEKDATE|WEEKDATX|WORDDATE|"
    r"WORDDATX|JULIAN|JULDAY|B8601DA|E8601DA|NLDATE)[BCDNPSWMXLR]{0,4}[0-9.]*$"
)
_TIMES = re.compile(r"(TIME|DTIME|HHMM|TOD|HOUR|MMSS|B8601TM|E8601TM|TIMEAMPM|NLTIME)[0-9.]*$")
_STAMPS = re.compile(
    r"(DATETIME|YMDHMS|DATEAMPM|DTDATE|DTMONYY|DTYEAR|B8601DT|E8601DT|NLDATM|MDYAMPM)[0-9.]*$"
)
_DAY = 86_400
_SPSS_START = 577_735  # ordinals of 1582-10-14 and 1960-01-01
_START = 715_510
_EPOCH = 719_163
_LAST = 3_652_059


def read(asked: dict[str, Any]) -> Answer:
    """The file, by its ending."""
    import pyreadstat

    path, ending = asked["path"], Path(asked["path"]).suffix.lower()
    readers: dict[str, Any] = {
        ".sav": pyreadstat.read_sav,
        ".zsav": pyreadstat.read_sav,
        ".por": pyreadstat.read_por,
        ".dta": pyreadstat.read_dta,
        ".sas7bdat": pyreadstat.read_sas7bdat,
        ".xpt": pyreadstat.read_xport,
    }
    reader = readers[ending]
    _, found = reader(path, metadataonly=True, encoding=_BYTES)
    encoding = asked["encoding"] or _encoding(path, ending, reader)
    raw = list(found.column_names)
    names = [lossy(name.encode(_BYTES, "replace"), encoding) for name in raw]
    types, formats = found.readstat_variable_types, found.original_variable_types
    kinds = [_kind(ending, types[name], str(formats.get(name) or "")) for name in raw]
    if not names:
        raise InputError(f"The file '{path}' has no columns.")
    if not asked["rows"]:
        return Answer({"names": names, "kinds": kinds})
    chosen = [(raw[i], kinds[i]) for i in asked["places"]]
    width = sum(_CELL + found.variable_storage_width.get(name, 8) for name, _ in chosen)
    at_once = max(1, _AT_ONCE // max(1, width))
    return Answer({}, lambda: _batches(reader, path, chosen, encoding, ending, at_once))


def _encoding(path: str, ending: str, reader: Any) -> str:
    """What the file says of its letters."""
    if ending == ".dta":  # the first format with UTF-8 says its number in words
        with Path(path).open("rb") as file:
            release = re.match(rb"<stata_dta><header><release>(\d+)", file.read(64))
        return "utf-8" if release and int(release[1]) >= 118 else "cp1252"
    try:
        said = str(reader(path, metadataonly=True)[1].file_encoding or "utf-8")
        return "utf-8" if not "a".encode(said) else said
    except Exception:  # of a name that is not known, or letters that are not its own
        return "utf-8"


def _kind(ending: str, stored: str, form: str) -> str:
    """How cells of a column are handed over, by what the file declares of it."""
    if stored == "string":
        return "text"
    if ending == ".dta":
        if re.match(r"%-?t?d", form):
            return "days"
        return "stamps" if re.match(r"%-?t[cC]", form) else _numbers(stored)
    form = form.upper()
    if _STAMPS.match(form):
        return "stamps"
    if _TIMES.match(form):
        return "times"
    spss = ending in (".sav", ".zsav", ".por")
    return "days" if (_SPSS_DAYS if spss else _SAS_DAYS).match(form) else _numbers(stored)


def _numbers(stored: str) -> str:
    return {"float": "singles", "int8": "wholes", "int16": "wholes", "int32": "wholes"}.get(
        stored, "doubles"
    )


def _batches(
    reader: Any,
    path: str,
    chosen: Sequence[tuple[str, str]],
    encoding: str,
    ending: str,
    at_once: int,
) -> Iterator[Any]:
    import pyarrow as pa

    distinct, start = list(dict.fromkeys(name for name, _ in chosen)), 0
    while True:
        cells, _ = reader(
            path,
            usecols=distinct,
            encoding=_BYTES,
            row_offset=start,
            row_limit=at_once,
            disable_datetime_conversion=True,
            output_format="dict",
        )
        rows = len(cells[distinct[0]])
        arrays = [_array(list(cells[name]), kind, encoding, ending) for name, kind in chosen]
        if rows or not start:
            yield pa.record_batch(arrays, names=[f"c{i}" for i in range(len(chosen))])
        if rows < at_once:
            return
        start += rows


def _array(cells: list[Any], kind: str, encoding: str, ending: str) -> Any:
    import pyarrow as pa

    if kind == "text":
        texts = [
            lossy(cell.encode(_BYTES, "replace"), encoding) if isinstance(cell, str) else None
            for cell in cells
        ]
        return pa.array(texts, pa.large_string())
    values = np.array([_plain(cell) for cell in cells], dtype=np.float64)
    holes = np.isnan(values)
    if kind == "doubles":
        return pa.array(values, mask=holes)
    if kind == "singles":
        return pa.array(values.astype(np.float32), mask=holes)
    if kind == "wholes":
        return pa.array(np.where(holes, 0, values).astype(np.int64), mask=holes)
    spss = ending in (".sav", ".zsav", ".por")
    if kind == "times":
        seconds = np.floor(np.where(holes, 0.0, values))
        holes |= (seconds < 0) | (seconds >= _DAY)  # a duration is no time of day
        whole = np.where(holes, 0, seconds).astype(np.int32)
        return pa.array(whole, mask=holes).cast(pa.time32("s"))
    start = (_SPSS_START if spss else _START) - _EPOCH
    first, last = 1 - _EPOCH, _LAST - _EPOCH
    if kind == "days":
        days = np.floor(np.where(holes, 0.0, values) / (_DAY if spss else 1)) + start
        return pa.array(np.clip(days, first, last).astype(np.int32), mask=holes).cast(pa.date32())
    per_second = 1000 if ending == ".dta" else 1
    seconds = np.floor(np.where(holes, 0.0, values) / per_second) + start * _DAY
    inside = np.clip(seconds, first * _DAY, (last + 1) * _DAY - 1).astype(np.int64)
    return pa.array(inside, mask=holes).cast(pa.timestamp("s"))


def _plain(cell: Any) -> float:
    return float(cell) if isinstance(cell, int | float | np.number) else float("nan")
