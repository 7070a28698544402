"""Are the sizes that a Parquet file states believable? Looked at before a reader is let loose on a
file from anywhere.

The reader allocates what page headers ask for. A negative count in a crafted header becomes a size
near 2^61, and a failed allocation ends the whole process, which no exception handler can prevent.
Honest sizes can be too many as well: a page of one letter two billion times over is a few kilobytes
in the file. So the footer and all page headers (Thrift's compact encoding) are walked here first,
and what they ask for is added up. Nothing is decoded.
"""

from __future__ import annotations

from typing import Any

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _, _STRUCT = range(1, 13)
_MAX_DEPTH = 12
_MAX_PAGE_BYTES = 1 << 31
# what one value takes in memory at most, beside the bytes of its page: repeated ones have next to
# none there
_VALUE_BYTES = 16
# texts that repeat the one before: how long they become is not stated anywhere; no release is
# written so
_SHARED_PREFIXES = 7

Fields = dict[int, Any]


class Unbelievable(ValueError):
    """A size, count or offset that no honest writer states."""


class _Reader:
    """Just enough of the compact protocol: structures become {field number: value}."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data, self.place = data, place

    def byte(self) -> int:
        if not 0 <= self.place < len(self.data):
            raise Unbelievable
        self.place += 1
        return self.data[self.place - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise Unbelievable

    def number(self) -> int:
        coded = self.varint()
        return (coded >> 1) ^ -(coded & 1)

    def value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise Unbelievable
        if kind in (_I16, _I32, _I64):
            return self.number()
        if kind in (_TRUE, _FALSE, _BYTE):
            return self.byte()
        if kind in (_DOUBLE, _BINARY):
            size = 8 if kind == _DOUBLE else self.varint()
            start, self.place = self.place, self.place + size
            if self.place > len(self.data):
                raise Unbelievable
            return self.data[start : self.place]
        if kind in (_LIST, _SET):
            head = self.byte()
            size = head >> 4 if head >> 4 < 15 else self.varint()
            if size > len(self.data):
                raise Unbelievable
            return [self.value(head & 0x0F, depth + 1) for _ in range(size)]
        if kind == _STRUCT:
            return self.structure(depth + 1)
        raise Unbelievable  # maps do not occur in what Parquet needs

    def structure(self, depth: int = 0) -> Fields:
        found: Fields = {}
        field = 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.number()
            kind = head & 0x0F
            # a boolean is its own kind
            found[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind, depth)
        return found


def stated_rows(data: bytes, most: int) -> int:
    """How many rows the file states. `Unbelievable` unless all its row groups, columns and pages
    fit that and the file, and take at most `most` bytes once they are decoded."""
    length = int.from_bytes(data[-8:-4], "little")
    if length > len(data) - 12:
        raise Unbelievable
    footer = _Reader(data, len(data) - 8 - length).structure()
    rows, groups = _whole(footer, 3), _list(footer, 4)
    if sum(_whole(group, 3) for group in groups) != rows:
        raise Unbelievable
    asked = 0
    for group in groups:
        for chunk in _list(group, 1):
            meta = chunk.get(3) if isinstance(chunk, dict) else None
            if not isinstance(meta, dict) or _whole(meta, 5) != _whole(group, 3):
                raise Unbelievable
            asked += _check_chunk(data, meta)
            if asked > most:
                raise Unbelievable
    return rows


def _check_chunk(data: bytes, meta: Fields) -> int:
    """Walk the pages of one column: flat columns only, so a page holds at most as many values as
    the chunk. Returns how many bytes they take once they are decoded."""
    values, size = _whole(meta, 5), _whole(meta, 7)
    start = min([_whole(meta, 9)] + ([_whole(meta, 11)] if meta.get(11) else []))
    end = start + size
    if end > len(data):
        raise Unbelievable
    seen, asked = 0, _VALUE_BYTES * values
    while start < end and seen < values:
        reader = _Reader(data, start)
        page = reader.structure()
        start = reader.place + _whole(page, 3)
        if start > end or _whole(page, 2) > _MAX_PAGE_BYTES:
            raise Unbelievable
        asked += _whole(page, 2)
        smaller = min(_whole(page, 2), _whole(page, 3))
        for place in (5, 7, 8):
            head = page.get(place)
            if head is None:
                continue
            if (
                _whole(head, 1) > values
                or _whole(head, 4 if place == 8 else 2) == _SHARED_PREFIXES
                or (place == 8 and max(_whole(head, 2), _whole(head, 3)) > values)
                or (place == 8 and _whole(head, 5) + _whole(head, 6) > smaller)
            ):
                raise Unbelievable
            seen += _whole(head, 1) if place != 7 else 0
    if seen != values:
        raise Unbelievable
    return asked


def _whole(fields: Any, place: int) -> int:
    value = fields.get(place) if isinstance(fields, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Unbelievable
    return value


def _list(fields: Fields, place: int) -> list[Any]:
    value = fields.get(place)
    if not isinstance(value, list):
        raise Unbelievable
    return value
