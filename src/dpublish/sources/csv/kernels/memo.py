"""Text straight to codes: cells that were seen before are looked up by their bytes, the others are
listed.

What a cell means is decided elsewhere, once for each spelling; this is only a memory of those
decisions. One open-addressing table a column. A short cell is its own key. A longer one is found by
a hash and then compared byte by byte, so no collision can give a wrong code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit
from dpublish.sources.csv.kernels.delimited import (
    CUT,
    LOST,
    LOST_BYTES,
    PLAIN,
    blank_line,
    cell_stop,
    long_record_end,
    looks_plain,
    next_field,
)
from dpublish.sources.texts import LONGEST_ROW

DROPPED = 0xFFFFFFFF
"""Stands for a code where a cell drops its row."""

LONGEST = 64
_SHORT = 7
_LONG_MARK = np.uint64(0xFF)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64(0x100000001B3)
_BYTE = np.uint64(8)
_QUOTE = 34


class Memo(NamedTuple):
    """Known cells. `entries` holds pairs (key, code), a key of 0 being free; `places` where a long
    cell's bytes are kept."""

    entries: NDArray[np.uint64]
    places: NDArray[np.int64]
    filled: NDArray[np.int64]
    bytes: NDArray[np.uint8]
    bits: int


class Cells(NamedTuple):
    """Cells of one block of records, listed column by column: which record, and where the bytes
    are. `counts` says how many."""

    counts: NDArray[np.int64]
    records: NDArray[np.int32]
    looks: NDArray[np.uint8]
    firsts: NDArray[np.int64]
    stops: NDArray[np.int64]


@njit(cache=True, nogil=True)
def _long_key(data: NDArray[np.uint8], first: int, stop: int) -> np.uint64:
    key = np.uint64(stop - first)
    for place in range(first, stop):
        key = (key ^ np.uint64(data[place])) * _PRIME
    return (key << _BYTE) | _LONG_MARK


@njit(cache=True, nogil=True)
def _short_key(data: NDArray[np.uint8], first: int, stop: int) -> np.uint64:
    key = np.uint64(0)
    for place in range(first, stop):
        key = (key << _BYTE) | np.uint64(data[place])
    return (key << _BYTE) | np.uint64(stop - first + 1)


@njit(cache=True, nogil=True)
def _same_bytes(
    data: NDArray[np.uint8], first: int, stop: int, held: NDArray[np.uint8], at: int
) -> bool:
    same = held[at] == stop - first
    place = first
    while same and place < stop:
        same = held[at + 1 + place - first] == data[place]
        place += 1
    return bool(same)


@njit(cache=True, nogil=True)
def _find(
    entries: NDArray[np.uint64],
    places: NDArray[np.int64],
    held: NDArray[np.uint8],
    bits: int,
    column: int,
    key: np.uint64,
    data: NDArray[np.uint8],
    first: int,
    stop: int,
) -> np.int64:
    """The entry of a cell, or the free one where it belongs."""
    start = column << bits
    mask = (1 << bits) - 1
    slot = np.int64((key * _SPREAD) >> np.uint64(64 - bits))
    while True:
        entry = start + slot
        found = entries[2 * entry]
        if found == np.uint64(0):
            return entry
        if found == key and (
            stop - first <= _SHORT or _same_bytes(data, first, stop, held, places[entry])
        ):
            return entry
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def learn(
    memo: Memo,
    column: int,
    data: NDArray[np.uint8],
    looks: NDArray[np.uint8],
    firsts: NDArray[np.int64],
    stops: NDArray[np.int64],
    codes: NDArray[np.uint32],
) -> None:
    """Remember the codes of some cells of a column, as far as there is room: half of the table
    stays free."""
    for i in range(codes.size):
        first, stop = firsts[i], stops[i]
        length = stop - first
        if looks[i] != PLAIN or length > LONGEST or memo.filled[column] >= 1 << (memo.bits - 1):
            continue
        long = length > _SHORT
        used = memo.filled[-1]
        if long and used + length + 1 > memo.bytes.size:
            continue
        key = _long_key(data, first, stop) if long else _short_key(data, first, stop)
        entry = _find(
            memo.entries, memo.places, memo.bytes, memo.bits, column, key, data, first, stop
        )
        if memo.entries[2 * entry] != np.uint64(0):
            continue
        memo.entries[2 * entry] = key
        memo.entries[2 * entry + 1] = np.uint64(codes[i])
        memo.filled[column] += 1
        if long:
            memo.places[entry] = used
            memo.bytes[used] = length
            for place in range(length):
                memo.bytes[used + 1 + place] = data[first + place]
            memo.filled[-1] = used + length + 1


@njit(cache=True, nogil=True)
def _forget_record(counts: NDArray[np.int64], records: NDArray[np.int32], record: int) -> None:
    for column in range(counts.size):
        last = counts[column] - 1
        if last >= 0 and records[column, last] == record:
            counts[column] = last


@njit(cache=True, nogil=True)
def code_records(
    data: NDArray[np.uint8],
    at_end: bool,
    separator: int,
    line_end: int,
    skip_blank: bool,
    columns: NDArray[np.int64],
    unit: int,
    memo: Memo,
    start: int,
    max_records: int,
    codes: NDArray[Any],
    keep: NDArray[np.bool_],
    unknown: Cells,
    units: Cells,
) -> tuple[int, int]:
    """Code complete records of `data` into columns `start`... of `codes`: (bytes consumed,
    records).

    `columns` says for each field of the file which row of `codes` it fills, -1 for none; `unit` is
    the field that names the unit of a record, -1 for none. Cells not remembered are listed in
    `unknown`, which starts out empty; unit cells are put into `units`, record by record. Both have
    room for `max_records` cells a column. A record that is cut off leaves no trace.
    """
    # taken out of their tuples once: doing that for every cell would cost more than the cell
    entries, long_places, long_bytes, bits = memo.entries, memo.places, memo.bytes, memo.bits
    counts, listed, listed_looks, firsts, stops = unknown
    unit_looks, unit_firsts, unit_stops = units.looks[0], units.firsts[0], units.stops[0]
    size = data.size
    content = max(separator, line_end)  # bytes above it are neither separators nor line ends
    # numba compiles what is called with a literal once more: this is a number like any other
    place = consumed = records = int(np.int64(0))
    while place < size and records < max_records:
        blank = blank_line(data, place, at_end, line_end) if skip_blank else 0
        if blank > 0:
            place += blank
            consumed = place
            continue
        row = start + records
        keep[row] = True
        in_record = True
        record_start = place
        for field in range(columns.size):
            looks, first, stop = PLAIN, place, place
            key = np.uint64(0)
            if not in_record:  # an absent field is empty
                first = stop = 0
            elif place < size and data[place] == _QUOTE:
                looks, first, stop, place = next_field(data, place, at_end, separator, line_end)
                for inside in range(first, min(stop, first + _SHORT)):
                    key = (key << _BYTE) | np.uint64(data[inside])
            else:
                # one walk finds the end and builds the key
                while place < size:
                    byte = data[place]
                    if byte <= content and byte in (separator, line_end):
                        break
                    key = (key << _BYTE) | np.uint64(byte)
                    place += 1
                stop = place
            if in_record:
                if looks == CUT or (place == size and not at_end):
                    _forget_record(counts, listed, records)
                    return consumed, records
                in_record = place < size and data[place] == separator
                if in_record:
                    place += 1
                elif stop == place and cell_stop(data, first, place, line_end) < place:
                    stop -= 1
                    key >>= _BYTE
                if looks == PLAIN:
                    looks = looks_plain(first, stop)
            column = columns[field]
            if column >= 0:
                length = stop - first
                known = looks == PLAIN and length <= LONGEST
                if known:
                    key = (
                        _long_key(data, first, stop)
                        if length > _SHORT
                        else (key << _BYTE) | np.uint64(length + 1)
                    )
                    entry = 2 * _find(
                        entries, long_places, long_bytes, bits, column, key, data, first, stop
                    )
                    known = entries[entry] != np.uint64(0)
                    if known:
                        code = entries[entry + 1]
                        dropped = code == np.uint64(DROPPED)
                        codes[column, row] = np.uint64(0) if dropped else code
                        if dropped:
                            keep[row] = False
                if not known:
                    at = counts[column]
                    listed[column, at], listed_looks[column, at] = records, looks
                    firsts[column, at], stops[column, at] = first, stop
                    counts[column] = at + 1
            if field == unit:
                unit_looks[records], unit_firsts[records], unit_stops[records] = looks, first, stop
        while in_record:  # surplus fields
            looks, first, stop, place = next_field(data, place, at_end, separator, line_end)
            if looks == CUT:
                _forget_record(counts, listed, records)
                return consumed, records
            in_record = place < size and data[place] == separator
            place += 1 if in_record else 0
        if place - record_start > LONGEST_ROW:
            _forget_record(counts, listed, records)
            keep[row] = True
            first, stop = record_start, record_start + LOST_BYTES
            for field in range(columns.size):
                column = columns[field]
                if column >= 0:
                    at = counts[column]
                    listed[column, at], listed_looks[column, at] = records, LOST
                    firsts[column, at], stops[column, at] = first, stop
                    counts[column] = at + 1
                if field == unit:
                    unit_looks[records], unit_firsts[records], unit_stops[records] = (
                        LOST,
                        first,
                        stop,
                    )
            place = long_record_end(data, record_start, line_end)
        records += 1
        place = min(place + 1, size)
        consumed = place
    return consumed, records
