"""Delimited text, however broken: where its records and fields are, and the same text in a form
that cannot be broken.

Rules for what real files contain: a record ends at the byte `line_end`, a line feed or (old Mac
files) a carriage return; a carriage return directly before a line feed belongs to the line end, and
the other one of the two is content like any byte, so that a cell which holds it stays one cell;
absent fields are empty and surplus ones are left out; a quoted field may hold separators, line ends
and doubled quotes; text after a closing quote belongs to the field; an opening quote that is not
closed within `QUOTE_LIMIT` bytes is plain text, so that one stray quote cannot swallow the file.
Where `skip_blank` says so, lines without any content are no records. A cell that is too long, and
every cell of a record that is, holds one character that stands for what cannot be read; a record
that is too long ends at the first line end beyond the limit, quoted or not.

The tidied text has one line per record and exactly the wanted fields, separated and ended by
control characters that no field holds, so nothing needs quotes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit
from dpublish.sources.texts import LONGEST_ROW, LONGEST_TEXT

FIELD_END = 0x1F
RECORD_END = 0x1E
QUOTE_LIMIT = 1 << 16

# what a field looks like: its bytes as they stand, quotes still to be undone, cut off by the end of
# the data, or too long
PLAIN, QUOTED, CUT, LOST = 0, 1, 2, 3
LOST_BYTES = 3

LINE_FEED, CARRIAGE_RETURN = 10, 13
_QUOTE, _BLANK = 34, 32


@njit(cache=True, nogil=True)
def _closing_quote(data: NDArray[np.uint8], start: int, at_end: bool) -> int:
    """Where the field that opens at `start` closes; -1 if it never does, -2 if more data is needed
    to tell."""
    limit = min(data.size, start + QUOTE_LIMIT)
    place = start + 1
    while place < limit:
        if data[place] == _QUOTE:
            if place + 1 == data.size:
                return place if at_end else -2
            if data[place + 1] != _QUOTE:
                return place
            place += 1
        place += 1
    return -1 if at_end or limit < data.size else -2


@njit(cache=True, nogil=True)
def cell_stop(data: NDArray[np.uint8], first: int, after: int, line_end: int) -> int:
    """Where a cell from `first` stops, given the place of what ends it: half a line end at its end
    is no part of it."""
    if line_end != LINE_FEED or after == first or data[after - 1] != CARRIAGE_RETURN:
        return after
    return after - 1 if after == data.size or data[after] == LINE_FEED else after


@njit(cache=True, nogil=True)
def looks_plain(first: int, stop: int) -> int:
    return PLAIN if stop - first <= LONGEST_TEXT else LOST


@njit(cache=True, nogil=True)
def long_record_end(data: NDArray[np.uint8], start: int, line_end: int) -> int:
    """Where a record that starts at `start` and is too long ends."""
    place = start + LONGEST_ROW
    while place < data.size and data[place] != line_end:
        place += 1
    return place


@njit(cache=True, nogil=True)
def _quoted_field(
    data: NDArray[np.uint8], place: int, at_end: bool, separator: int, line_end: int
) -> tuple[int, int, int, int]:
    """`next_field` for one that starts with a quote."""
    size = data.size
    close = _closing_quote(data, place, at_end)
    if close == -2:
        return CUT, place, place, place
    after = place if close == -1 else close + 1
    while after < size and data[after] != separator and data[after] != line_end:
        after += 1
    if after == size and not at_end:
        return CUT, place, place, place
    stop = cell_stop(data, place, after, line_end)
    if close == -1 or stop - place > LONGEST_TEXT:
        return looks_plain(place, stop), place, stop, after
    plain = stop == close + 1
    for inside in range(place + 1, close):
        plain &= data[inside] != _QUOTE
    return (PLAIN, place + 1, close, after) if plain else (QUOTED, place, stop, after)


@njit(cache=True, nogil=True)
def next_field(
    data: NDArray[np.uint8], place: int, at_end: bool, separator: int, line_end: int
) -> tuple[int, int, int, int]:
    """The field that starts at `place`: (what it looks like, first byte, end, place of what ends
    it)."""
    size = data.size
    if place < size and data[place] == _QUOTE:
        return _quoted_field(data, place, at_end, separator, line_end)
    after = place
    content = max(separator, line_end)  # bytes above it, most of them, are neither
    while after < size and (
        data[after] > content or (data[after] != separator and data[after] != line_end)
    ):
        after += 1
    stop = cell_stop(data, place, after, line_end)
    return (CUT if after == size and not at_end else looks_plain(place, stop)), place, stop, after


@njit(cache=True, nogil=True)
def _write_byte(byte: np.uint8, out: NDArray[np.uint8], end: int) -> int:
    out[end] = _BLANK if byte in (FIELD_END, RECORD_END) else byte
    return end + 1


@njit(cache=True, nogil=True)
def write_field(
    data: NDArray[np.uint8],
    looks: int,
    first: int,
    stop: int,
    at_end: bool,
    out: NDArray[np.uint8],
    end: int,
) -> int:
    """Write what a field holds to `out` from `end` on; where it ends there."""
    place = first
    if looks == LOST:
        out[end], out[end + 1], out[end + 2] = 0xEF, 0xBF, 0xBD
        return end + LOST_BYTES
    if looks == QUOTED:
        close = _closing_quote(data, first, at_end)
        place += 1
        while place < close:
            end = _write_byte(data[place], out, end)
            place += 2 if data[place] == _QUOTE else 1
        place = close + 1
    while place < stop:
        end = _write_byte(data[place], out, end)
        place += 1
    return end


@njit(cache=True, nogil=True)
def blank_line(data: NDArray[np.uint8], place: int, at_end: bool, line_end: int) -> int:
    """How many bytes a line without content takes up at `place`; 0 if there is content, or if that
    cannot be told yet."""
    if data[place] == line_end:
        return 1
    if data[place] != CARRIAGE_RETURN or line_end != LINE_FEED:
        return 0
    if place + 1 == data.size:
        return 1 if at_end else 0
    return 2 if data[place + 1] == LINE_FEED else 0


@njit(cache=True, nogil=True)
def tidy(
    data: NDArray[np.uint8],
    at_end: bool,
    separator: int,
    line_end: int,
    skip_blank: bool,
    wanted: NDArray[np.bool_],
    max_records: int,
    out: NDArray[np.uint8],
) -> tuple[int, int, int]:
    """Rewrite the complete records of `data`: (bytes consumed, bytes written, records).

    `out` needs data.size + max_records * (wanted.size + 1) bytes. The rest of `data` belongs in
    front of what is read next; `at_end` says that nothing more will come.
    """
    size = data.size
    # numba compiles what is called with a literal once more: this is a number like any other
    place = consumed = written = records = int(np.int64(0))
    lost = int(np.int64(LOST))
    while place < size and records < max_records:
        blank = blank_line(data, place, at_end, line_end) if skip_blank else 0
        if blank > 0:
            place += blank
            consumed = place
            continue
        end = written
        start = place
        field = emitted = 0
        while True:
            looks, first, stop, place = next_field(data, place, at_end, separator, line_end)
            if looks == CUT:
                return consumed, written, records
            if field < wanted.size and wanted[field]:
                if emitted > 0:
                    out[end] = FIELD_END
                    end += 1
                emitted += 1
                end = write_field(data, looks, first, stop, at_end, out, end)
            if place == size or data[place] != separator:
                break
            place += 1
            field += 1
        for absent in range(field + 1, wanted.size):
            if wanted[absent]:
                if emitted > 0:
                    out[end] = FIELD_END
                    end += 1
                emitted += 1
        if place - start > LONGEST_ROW:
            end = written
            for number in range(emitted):
                if number > 0:
                    out[end] = FIELD_END
                    end += 1
                end = write_field(data, lost, start, start, at_end, out, end)
            place = long_record_end(data, start, line_end)
        out[end] = RECORD_END
        written = end + 1
        records += 1
        place = min(place + 1, size)
        consumed = place
    return consumed, written, records


@njit(cache=True, nogil=True)
def write_cells(
    data: NDArray[np.uint8],
    looks: NDArray[np.uint8],
    firsts: NDArray[np.int64],
    stops: NDArray[np.int64],
    at_end: bool,
    out: NDArray[np.uint8],
) -> int:
    """Some cells as tidied text, each a record with an empty second field; `out` needs their bytes
    and two more for each."""
    end = int(np.int64(0))  # no literal, as above
    for i in range(firsts.size):
        end = write_field(data, 0 + looks[i], firsts[i], stops[i], at_end, out, end)
        out[end] = FIELD_END
        out[end + 1] = RECORD_END
        end += 2
    return end
