"""A schema from a code book instead of rows: what the makers of the data wrote about it.

Reads JSON ({"SEX": {"description": ..., "values": {"1": "Male"}}}), CSV (a line per column, or a
line per code), Frictionless Table Schema and Data Package, Croissant, DDI Codebook (XML), SPSS and
Stata syntax with labels, and, with pyreadstat, the labels of .sav and .dta files. No row is
looked at, so the schema carries no draft stamp.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

from dpublish.declare.calendar import CalendarKind, Moment, is_moment, read_bound
from dpublish.declare.columns import BOOLEAN_LEVELS, Column, Kind, Wording
from dpublish.declare.schema import Schema
from dpublish.declare.source_format import number_in
from dpublish.errors import InputError

_YES_NO = ({"0", "1"}, {"true", "false"}, {"yes", "no"})
_ENDINGS = ".json, .csv, .xml, .sps, .do, .sav or .dta"


@dataclass
class Entry:
    """What a code book says about one column."""

    name: str
    title: str = ""
    description: str = ""
    units: str = ""
    kind: str = ""
    levels: dict[str, str] = field(default_factory=dict)
    low: float | Moment | None = None
    high: float | Moment | None = None
    ordered: bool = False
    blank: bool = False
    """Whether values may be missing."""

    def column(self, source: str) -> Column | None:
        """The column, or None where the code book gives neither levels nor bounds."""
        labels = {c: text for c, text in self.levels.items() if text and text != c}
        wording = Wording(
            title=_line(self.title),
            description=_line(self.description),
            units=_line(self.units),
            source=_line(source),
        )
        common: dict[str, Any] = {"name": self.name, "missing": self.blank}
        low, high = self.low, self.high
        if low is not None and high is not None and self.kind != "labels":
            # codes beside a range say why a number is not there, or are numbers themselves
            numbers = [number_in(code) for code in self.levels]
            common["missing"] = self.blank or None in numbers
            kind: Kind = next((k for k in get_args(CalendarKind) if is_moment(k, low)), "integer")
            if not isinstance(low, Moment) and not isinstance(high, Moment):
                inner = [n for n in numbers if n is not None]
                low, high = min([low, *inner]), max([high, *inner])
                if self.kind == "real" or low != int(low) or high != int(high):
                    kind = "real"
                else:
                    low, high = int(low), int(high)
            return Column(**common, kind=kind, lower=low, upper=high, wording=wording)
        if self.kind == "boolean" or ({c.lower() for c in self.levels} in _YES_NO and not labels):
            levels = BOOLEAN_LEVELS
            return Column(**common, kind="boolean", levels=levels, outside="other", wording=wording)
        if self.levels:
            return Column(
                **common,
                kind="ordinal" if self.ordered else "categorical",
                levels=tuple(self.levels),
                outside="other",
                wording=replace(wording, labels=_unique(labels, set(self.levels))),
            )
        return None


def schema_from_codebook(path: Path, *, name: str) -> tuple[Schema, list[str]]:
    """The schema, and names of columns about which the code book says too little."""
    source = f"code book {path.name}"
    columns = {entry.name: entry.column(source) for entry in read_codebook(path) if entry.name}
    told = {name: column for name, column in columns.items() if column is not None}
    if not told:
        raise InputError(
            f"'{path}' gives neither levels nor bounds of any column that could be read."
        )
    return Schema(name=name, columns=told), [n for n, column in columns.items() if column is None]


def read_codebook(path: Path) -> list[Entry]:
    ending = "".join(path.suffixes).lower().removesuffix(".gz").rpartition(".")[2]
    if ending in ("sav", "dta"):
        return list(_stored_labels(path, ending))
    if ending not in _READERS:
        raise InputError(f"'{path}' is no code book that is known by its ending: {_ENDINGS}.")
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(
            f"'{path}' cannot be read as UTF-8 text ({type(error).__name__})."
        ) from None
    try:
        return list(_READERS[ending](text))
    except (ValueError, KeyError, TypeError, AttributeError, ElementTree.ParseError) as error:
        raise InputError(f"'{path}' is not a code book of a known form ({error}).") from None


def _json(text: str) -> Iterable[Entry]:
    book = json.loads(text)
    if "resources" in book:
        book = book["resources"][0]["schema"]
    if "fields" in book:
        return [_frictionless(one, book) for one in book["fields"]]
    if "recordSet" in book:
        return [_croissant(one) for group in book["recordSet"] for one in group.get("field", [])]
    return [_described(name, about) for name, about in book.items() if isinstance(about, Mapping)]


def _described(name: str, about: Mapping[str, Any]) -> Entry:
    values = dict(about.get("values", about.get("levels", {})) or {})
    return Entry(
        name,
        title=str(about.get("title", about.get("label", ""))),
        description=str(about.get("description", "")),
        units=str(about.get("units", about.get("unit", ""))),
        low=_bound(values.pop("min", about.get("min"))),
        high=_bound(values.pop("max", about.get("max"))),
        levels={str(code): str(label) for code, label in values.items()},
    )


def _frictionless(one: Mapping[str, Any], book: Mapping[str, Any]) -> Entry:
    limits = one.get("constraints", {})
    low, high = _bound(limits.get("minimum")), _bound(limits.get("maximum"))
    if one.get("type") == "time" and low is None and high is None:
        low, high = dt.time.min, dt.time(23, 59, 59)
    listed = one.get("categories", limits.get("enum", []))
    pairs = [item if isinstance(item, Mapping) else {"value": item} for item in listed]
    return Entry(
        one["name"],
        title=one.get("title", ""),
        description=one.get("description", ""),
        kind={"number": "real", "boolean": "boolean"}.get(one.get("type", ""), ""),
        levels={str(pair["value"]): str(pair.get("label", "")) for pair in pairs},
        low=low,
        high=high,
        ordered=bool(one.get("categoriesOrdered", False)),
        blank=not limits.get("required", False) and "" in book.get("missingValues", [""]),
    )


def _croissant(field: Mapping[str, Any]) -> Entry:
    kinds = field.get("dataType", [])
    words = {str(one).rpartition(":")[2] for one in ([kinds] if isinstance(kinds, str) else kinds)}
    kind = "boolean" if "Boolean" in words else ""
    if "Float" in words:
        kind = "real"
    return Entry(
        field["name"].rpartition("/")[2],
        description=field.get("description", ""),
        kind=kind,
        low=_bound(field.get("minValue")),
        high=_bound(field.get("maxValue")),
    )


_CSV_NAMES = {
    "name": ("name", "variable", "column", "field", "var"),
    "title": ("title", "label", "variable label", "variable_label"),
    "description": ("description", "question", "definition", "notes"),
    "units": ("units", "unit"),
    "kind": ("type", "kind", "format"),
    "low": ("min", "minimum", "lower", "low"),
    "high": ("max", "maximum", "upper", "high"),
    "values": ("values", "codes", "levels", "categories", "value labels"),
    "code": ("code", "value"),
    "meaning": ("meaning", "value label", "value_label", "code label", "category"),
}


def _csv(text: str) -> Iterable[Entry]:
    rows = csv.DictReader(io.StringIO(text))
    present = {(name or "").strip().lower(): name for name in rows.fieldnames or ()}
    keys = {
        key: next((present[word] for word in words if word in present), None)
        for key, words in _CSV_NAMES.items()
    }
    if keys["name"] is None:
        raise ValueError("no column 'name' or 'variable'")
    found: dict[str, Entry] = {}
    for row in rows:
        said = {k: (row.get(c) or "").strip() for k, c in keys.items() if c is not None}
        name = said.pop("name") or (list(found) or [""])[-1]
        entry = found.setdefault(name, Entry(name))
        for key in ("title", "description", "units"):
            setattr(entry, key, getattr(entry, key) or said.get(key, ""))
        entry.kind = {"number": "real", "float": "real"}.get(said.get("kind", ""), entry.kind)
        entry.ordered |= said.get("kind", "").lower() == "ordinal"
        for key in ("low", "high"):
            setattr(entry, key, getattr(entry, key) or _bound(said.get(key)))
        for part in re.split(r"[;|\n]", said.get("values", "")):
            code, _, label = part.partition("=") if "=" in part else part.partition(":")
            if code.strip():
                entry.levels[code.strip()] = label.strip()
        if said.get("code"):
            entry.levels[said["code"]] = said.get("meaning") or said.get("title", "")
    return found.values()


def _ddi(text: str) -> Iterable[Entry]:
    """DDI Codebook: `var` with `labl`, `catgry` and `valrng`, in whatever namespace."""
    tree = ElementTree.fromstring(text)
    for node in tree.iter():
        node.tag = node.tag.rpartition("}")[2]
    for var in tree.iter("var"):
        entry = Entry(var.attrib["name"], title=(var.findtext("labl") or "").strip())
        entry.description = (var.findtext("txt") or var.findtext("qstn/qstnLit") or "").strip()
        for category in var.iter("catgry"):
            code = (category.findtext("catValu") or "").strip()
            if category.get("missing") == "Y" or not code:
                entry.blank = True
            else:
                entry.levels[code] = (category.findtext("labl") or "").strip()
        limits = var.find("valrng/range")
        if limits is not None:
            entry.low, entry.high = _bound(limits.get("min")), _bound(limits.get("max"))
        if entry.levels and var.get("intrvl") != "contin":
            entry.kind = "labels"
        yield entry


_QUOTED = r"""['"]([^'"]*)['"]"""


def _spss(text: str) -> Iterable[Entry]:
    found: dict[str, Entry] = {}
    for command in re.split(r"\.\s*(?:\n|$)", text):
        words = command.strip()
        if re.match(r"(?i)variable\s+labels?\b", words):
            for name, label in re.findall(rf"(\w+)\s+{_QUOTED}", words.split(None, 2)[2]):
                found.setdefault(name, Entry(name)).title = label
        elif re.match(r"(?i)(?:add\s+)?value\s+labels?\b", words):
            body = re.sub(r"(?i)^(?:add\s+)?value\s+labels?\s+/?", "", words)
            for part in re.split(r"\n?\s*/", body):
                head = re.split(r"""['"]|-?[0-9]""", part, maxsplit=1)[0]
                pairs = re.findall(rf"(?:'([^']*)'|(-?[0-9.]+))\s+{_QUOTED}", part[len(head) :])
                for name in head.split():
                    levels = found.setdefault(name, Entry(name)).levels
                    levels.update({text or code: label for text, code, label in pairs})
    return found.values()


def _stata(text: str) -> Iterable[Entry]:
    text = re.sub(r"\s*///\s*\n\s*", " ", text)
    found: dict[str, Entry] = {}
    sets: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        words = line.strip()
        if m := re.match(rf"la(?:bel)?\s+var(?:iable)?\s+(\w+)\s+{_QUOTED}", words):
            found.setdefault(m[1], Entry(m[1])).title = m[2]
        elif m := re.match(r"la(?:bel)?\s+def(?:ine)?\s+(\w+)\s+(.*)", words):
            sets.setdefault(m[1], {}).update(re.findall(rf"(-?[0-9]+)\s+{_QUOTED}", m[2]))
        elif m := re.match(r"la(?:bel)?\s+val(?:ues)?\s+(.+)\s+(\w+)$", words):
            for name in m[1].split():
                found.setdefault(name, Entry(name)).levels = sets.get(m[2], {})
    return found.values()


_READERS: dict[str, Callable[[str], Iterable[Entry]]] = {
    "json": _json,
    "csv": _csv,
    "xml": _ddi,
    "sps": _spss,
    "do": _stata,
}


def _stored_labels(path: Path, ending: str) -> Iterable[Entry]:
    try:
        import pyreadstat  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise InputError(
            f"Labels of a .{ending} file are read with pyreadstat: pip install pyreadstat. Or give "
            "the labels as syntax (.sps, .do)."
        ) from None
    reader = pyreadstat.read_sav if ending == "sav" else pyreadstat.read_dta
    try:
        meta = reader(str(path), metadataonly=True)[1]
    except Exception as error:
        raise InputError(f"'{path}' cannot be read ({type(error).__name__}).") from None
    for name, title in meta.column_names_to_labels.items():
        labels = meta.variable_value_labels.get(name, {})
        yield Entry(
            name,
            title=title or "",
            levels={_code(code): str(text) for code, text in labels.items()},
        )


def _code(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _bound(value: Any) -> float | Moment | None:
    if value is None or value == "":
        return None
    try:
        return float(value)
    except ValueError:
        for kind in get_args(CalendarKind):
            if (moment := read_bound(kind, str(value).removesuffix("Z"))) is not None:
                return moment
        return dt.date.fromisoformat(str(value)[:10])


def _line(text: str) -> str:
    """Words of a code book as a line that pages and terminals only show."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _unique(labels: Mapping[str, str], levels: set[str]) -> dict[str, str]:
    """Labels that stand for one level each: others would make conditions ambiguous."""
    said = {code: _line(text) for code, text in labels.items()}
    often = Counter(said.values())
    return {
        code: text
        for code, text in said.items()
        if often[text] == 1 and (text not in levels or text == code)
    }
