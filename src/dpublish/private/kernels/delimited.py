"""Delimited text, however broken, rewritten into a form that cannot be broken.

The result has one line a record and exactly the wanted fields, separated and ended by control characters that no field holds,
so nothing needs quotes. Rules for what real files contain: a record ends at a line feed, a carriage return or both; blank lines
are no records; absent fields are empty and surplus ones are left out; a quoted field may hold separators, line ends and doubled
quotes; text after a closing quote belongs to the field; an opening quote that is not closed within `QUOTE_LIMIT` bytes is plain
text, so that one stray quote cannot swallow the file.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

FIELD_END = 0x1F
RECORD_END = 0x1E
QUOTE_LIMIT = 1 << 16

_LF, _CR, _QUOTE, _BLANK = 10, 13, 34, 32


@njit(cache=True, nogil=True)
def _closing_quote(data: NDArray[np.uint8], start: int, at_end: bool) -> int:
    """Where the field that opens at `start` closes; -1 if it never does, -2 if more data is needed to tell."""
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
def tidy(
    data: NDArray[np.uint8], at_end: bool, separator: int, wanted: NDArray[np.bool_], max_records: int, out: NDArray[np.uint8]
) -> tuple[int, int, int]:
    """Rewrite the complete records of `data`: (bytes consumed, bytes written, records).

    `out` needs data.size + max_records * (wanted.size + 1) bytes. The rest of `data` belongs in front of what is read next;
    `at_end` says that nothing more will come.
    """
    size = data.size
    place = consumed = written = records = 0
    while place < size and records < max_records:
        if data[place] == _LF or data[place] == _CR:
            place += 1
            consumed = place
            continue
        end = written
        field = emitted = 0
        while True:
            emit = field < wanted.size and wanted[field]
            if emit:
                if emitted > 0:
                    out[end] = FIELD_END
                    end += 1
                emitted += 1
            if place < size and data[place] == _QUOTE:
                close = _closing_quote(data, place, at_end)
                if close == -2:
                    return consumed, written, records
                if close >= 0:
                    place += 1
                    while place < close:
                        byte = data[place]
                        if emit:
                            out[end] = _BLANK if byte in (FIELD_END, RECORD_END) else byte
                            end += 1
                        place += 2 if byte == _QUOTE else 1
                    place = close + 1
            while place < size:
                byte = data[place]
                if byte in (separator, _LF, _CR):
                    break
                if emit:
                    out[end] = _BLANK if byte in (FIELD_END, RECORD_END) else byte
                    end += 1
                place += 1
            if place == size:
                if not at_end:
                    return consumed, written, records
                break
            byte = data[place]
            place += 1
            if byte != separator:
                if byte == _CR and place < size and data[place] == _LF:
                    place += 1
                break
            field += 1
        for absent in range(field + 1, wanted.size):
            if wanted[absent]:
                if emitted > 0:
                    out[end] = FIELD_END
                    end += 1
                emitted += 1
        out[end] = RECORD_END
        written = end + 1
        records += 1
        consumed = place
    return consumed, written, records
