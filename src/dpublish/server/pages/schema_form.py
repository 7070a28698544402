"""A schema as a form, and back: one row of fields per column, with the source of its bounds.

What a form does not show (bands of dates, taxonomies of other tools) is kept in the text, which the
page offers beside the form.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from dpublish.errors import InputError

_NUMBERS: Final = ("integer", "real", "date", "time", "timestamp")
KINDS: Final = ("categorical", "ordinal", "boolean", *_NUMBERS)
_LABELS: Final = ("categorical", "ordinal")
_NUMBER: Final = re.compile(r"[+-]?(?:\d[\d_]*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:]+)?|\d\d?:[\d:]+")
_STEPS: Final = ("minute", "hour", "day", "week", "month", "quarter", "year")
_WORDS: Final = ("title", "description", "units", "source")
_ABOUT: Final = ("title", "description", "publisher", "contact", "purpose", "licence")


def read(text: str) -> dict[str, Any]:
    """The document as fields of a form; columns as a list, in order."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {"dataset": {}, "columns": [], "draft": False, "readable": False, "baskets": False}
    columns = document.get("columns", {})
    pairs = columns.items() if isinstance(columns, dict) else ()
    return {
        "dataset": document.get("dataset", {}),
        "columns": [_fields(name, one) for name, one in pairs if isinstance(one, dict)],
        "draft": "draft" in document,
        "baskets": "items" in document,
        "readable": True,
    }


def _fields(name: str, column: Mapping[str, Any]) -> dict[str, Any]:
    def shown(key: str) -> str:
        value = column.get(key, "")
        return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)

    return {
        "name": name,
        "kind": str(column.get("kind", "")),
        "levels": "\n".join(str(one) for one in column.get("levels", [])),
        **{key: shown(key) for key in ("lower", "upper", "bins", "edges", "outside", *_WORDS)},
        "missing": bool(column.get("missing", False)),
    }


def write(text: str, form: Mapping[str, Any]) -> str:
    """The document with the form's fields put in; everything that the form does not show stays."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"The text is not TOML: {error}") from None
    given = {key: str(value).strip() for key, value in form.items() if isinstance(value, str)}
    dataset = document.setdefault("dataset", {})
    _unit(dataset, given)
    for key in (*_ABOUT, "population", "period", "target"):
        _put(dataset, key, given.get(f"dataset.{key}"))
    columns = document.get("columns", {})
    for place, name in enumerate(list(columns)):
        start = f"columns.{place}."
        if f"{start}kind" not in given:
            continue
        if given.get(f"{start}keep") == "no":
            del columns[name]
            continue
        columns[name] = _column(columns[name], name, given, start)
    fresh = given.get("new_column", "")
    if fresh and fresh not in columns:
        document.setdefault("columns", columns)[fresh] = {"kind": "categorical", "levels": []}
    if given.get("declared") == "yes":
        document.pop("draft", None)
    return dump(document)


def _unit(dataset: dict[str, Any], given: Mapping[str, str]) -> None:
    """The answers to the questions about whom the guarantee protects."""
    if "dataset.name" in given:
        dataset["name"] = given["dataset.name"]
    if "unit.one_row" in given:
        if given["unit.one_row"] == "yes":
            dataset["unit"] = "row"
            dataset.pop("max_rows_per_unit", None)
        else:
            dataset["unit"] = given.get("unit.column", "")
            most = given.get("unit.most")
            _put(dataset, "max_rows_per_unit", most, partial(_amount, what="Rows per person"))
    if "unit.membership" in given:
        secret = given["unit.membership"] == "secret"
        dataset["neighbours"] = "add-remove-one" if secret else "replace-one"
        dataset.pop("size" if secret else "nominal_size", None)
        key = "nominal_size" if secret else "size"
        _put(dataset, key, given.get("unit.size"), partial(_amount, what="Size"))


def _column(
    column: Mapping[str, Any], name: str, given: Mapping[str, str], start: str
) -> dict[str, Any]:
    kind = given[f"{start}kind"]
    made = {**column, "kind": kind}
    for key in ("lower", "upper", "bins", "edges", "levels"):
        made.pop(key, None)
    if kind in _LABELS:
        lines = given.get(f"{start}levels", "").splitlines()
        made["levels"] = [line.strip() for line in lines if line.strip()]
    elif kind != "boolean":
        for key in ("lower", "upper", "bins"):
            if given.get(f"{start}{key}"):
                made[key] = _amount(given[f"{start}{key}"], f"{name}: {key}")
        if given.get(f"{start}edges"):
            made["edges"] = [
                _amount(one.strip(), f"{name}: edges")
                for one in given[f"{start}edges"].split(",")
                if one.strip()
            ]
    if kind not in _LABELS:
        made.pop("labels", None)
    for key in (*_WORDS, "outside"):
        _put(made, key, given.get(f"{start}{key}"))
    if given.get(f"{start}missing") == "yes":
        return {**made, "missing": True}
    made.pop("missing", None)
    return made


def _put(
    table: dict[str, Any], key: str, value: str | None, read: Callable[[str], Any] = str
) -> None:
    """What a field holds: an empty one takes the key away, one that was not sent says nothing."""
    if value:
        table[key] = read(value)
    elif value is not None:
        table.pop(key, None)


def _amount(text: str, what: str) -> int | float | str | dt.date | dt.time:
    if _MOMENT.fullmatch(text):
        try:
            if ":" not in text:
                return dt.date.fromisoformat(text)
            padded = f"0{text}" if text[1] == ":" else text
            return dt.datetime.fromisoformat(text) if "-" in text else dt.time.fromisoformat(padded)
        except ValueError:
            raise InputError(f"{what}: '{text}' is no date or time.") from None
    if text in _STEPS:  # bins that have a name
        return text
    if not _NUMBER.fullmatch(text):
        raise InputError(
            f"{what} must be a number, or a date or time such as 2024-12-31 08:30, not "
            f"'{text[:40]}'."
        )
    plain = text.replace("_", "")
    return int(plain) if re.fullmatch(r"[+-]?\d+", plain) else float(plain)


def dump(document: Mapping[str, Any]) -> str:
    """TOML of a document whose tables are at most two deep."""
    lines: list[str] = []
    for name, table in document.items():
        if name == "columns":
            for column, facts in table.items():
                lines += ["", f"[columns.{_text(column)}]", *_lines(facts)]
        elif isinstance(table, Mapping):
            lines += ["", f"[{name}]", *_lines(table)]
        else:
            lines.insert(0, f"{_key(name)} = {_value(table)}")
    return "\n".join(lines).strip() + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items()]


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    if isinstance(value, dt.date | dt.datetime | dt.time):
        return value.isoformat()
    return repr(value)
