"""JSON from strangers: bounded size and depth, no duplicate keys, no NaN, no huge numbers, no
broken text."""

from __future__ import annotations

import json
import math
from typing import Any

from dpublish.errors import BundleError

MAX_BYTES = 64 << 20
MAX_DEPTH = 24
_MAX_DIGITS = 40


def read_json(data: bytes, what: str) -> dict[str, Any]:
    """The object in `data`, or a `BundleError` that says what is wrong with it."""
    if len(data) > MAX_BYTES:
        raise BundleError(f"{what} has {len(data)} bytes; at most {MAX_BYTES} are read.")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_real,
        )
    except UnicodeDecodeError:
        raise BundleError(f"{what} is not UTF-8 text.") from None
    except RecursionError:
        raise BundleError(f"{what} is nested too deeply.") from None
    except ValueError as error:
        raise BundleError(f"{what} is not valid JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise BundleError(f"{what} must hold a JSON object.")
    _walk(value, what)
    return value


def write_json(value: Any, what: str) -> bytes:
    """Canonical text: sorted keys, one trailing newline. The same value gives the same bytes."""
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=1)
        return (text + "\n").encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise BundleError(f"{what} cannot be written as JSON: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key is given twice in one object")
    return out


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a whole number has more than {_MAX_DIGITS} digits")
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _walk(root: Any, what: str) -> None:
    stack: list[tuple[Any, int]] = [(root, 1)]
    while stack:
        value, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise BundleError(f"{what} is nested more than {MAX_DEPTH} levels deep.")
        if isinstance(value, dict):
            stack += [(item, depth + 1) for item in (*value.values(), *value)]
        elif isinstance(value, list):
            stack += [(item, depth + 1) for item in value if isinstance(item, dict | list | str)]
        elif isinstance(value, str):
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise BundleError(f"{what} holds text that is not valid Unicode.") from None
