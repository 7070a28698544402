from __future__ import annotations

import pytest

from dpublish.errors import BundleError
from dpublish.releases.bundle.strict_json import MAX_BYTES, read_json, write_json


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not valid JSON"),
        (b"[]", "object"),
        (b'{"a": NaN}', "not a number"),
        (b'{"a": Infinity}', "not a number"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "deep"),
        (b'{"a": ' + b"[" * 30 + b"]" * 30 + b"}", "deep"),
        (b'{"a": "\\ud800"}', "Unicode"),
        (b'{"\\udfff": 1}', "Unicode"),
        (b"\xff\xfe", "UTF-8"),
        (b'{"a": 1} x', "not valid JSON"),
        (b" " * (MAX_BYTES + 1), "at most"),
    ],
)
def test_bad_json_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        read_json(data, "x.json")


def test_round_trip_is_canonical() -> None:
    value = {"b": [1, 2.5, None, True], "a": {"ü": "✓"}}
    data = write_json(value, "x")
    assert read_json(data, "x") == value
    assert write_json(read_json(data, "x"), "x") == data
    assert data.index(b'"a"') < data.index(b'"b"')


def test_what_is_not_json_is_not_written() -> None:
    for value in (float("nan"), object(), "\ud800"):
        with pytest.raises(BundleError):
            write_json({"x": value}, "x")
