"""Records of delimited text straight to codes, without a frame of text in between.

Every spelling of a cell is encoded once, by the encoder that all sources share, and then
remembered: real columns repeat a few spellings, and an encoder looks at nothing but the cell.
Spellings that do not fit the memory are encoded again each time, so the codes are those of reading
text first and encoding it, whatever is remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.declare.encode import EncodedBatch, Encoder
from dpublish.declare.statistic import Private
from dpublish.sources.csv.kernels.delimited import FIELD_END, RECORD_END, write_cells
from dpublish.sources.csv.kernels.memo import DROPPED, Cells, Memo, code_records, learn

Bytes = NDArray[np.uint8]

_BLOCK_CELLS = 1 << 20
_FIRST_BLOCK = 1 << 10
_MAX_BITS = 13
_ENTRIES = 1 << 19
_LONG_BYTES = 1 << 20


@dataclass(frozen=True, repr=False)
class CodedText(Private):
    """The complete records of a piece of text: bytes used up, codes, and the unit of each record
    where one was asked for."""

    consumed: int
    batch: EncodedBatch
    units: pl.Series | None


class TextCoder:
    """Codes text of one file. It remembers spellings, so each thread has one of its own."""

    def __init__(
        self,
        encoder: Encoder,
        names: Sequence[str],
        separator: int,
        line_end: int,
        unit: str | None,
    ) -> None:
        self._encoder, self._separator, self._line_end, self._skip_blank = (
            encoder,
            separator,
            line_end,
            len(names) > 1,
        )
        places = {name: place for place, name in enumerate(encoder.domain.names)}
        self._columns = np.array([places.get(name, -1) for name in names], dtype=np.int64)
        self._unit = -1 if unit is None else list(names).index(unit)
        width = max(1, len(places))
        self._kind = np.uint8 if all(kind == np.uint8 for kind in encoder.dtypes) else np.uint32
        bits = max(1, min(_MAX_BITS, (_ENTRIES // width).bit_length() - 1))
        self._memo = Memo(
            np.zeros(2 * width << bits, dtype=np.uint64),
            np.zeros(width << bits, dtype=np.int64),
            np.zeros(width + 1, dtype=np.int64),  # entries a column, and bytes of long cells
            np.zeros(_LONG_BYTES, dtype=np.uint8),
            bits,
        )
        self._most = max(1, _BLOCK_CELLS // width)
        self._block = min(_FIRST_BLOCK, self._most)
        self._unknown, self._units = (
            _cells(width, self._most),
            _cells(1, self._most if unit is not None else 1),
        )

    def code(self, data: Bytes, at_end: bool) -> CodedText:
        """The complete records of `data`; `at_end` says that nothing more will come."""
        codes = np.empty((len(self._encoder.domain.names), 0), dtype=self._kind)
        keep = np.empty(0, dtype=np.bool_)
        used = records = 0
        units: list[pl.Series] = []
        while used < data.size:
            codes, keep = self._with_room(codes, keep, records, used, data.size)
            rest = data[used:]
            consumed, found = self._code_block(rest, at_end, records, codes, keep)
            if found and self._unit >= 0:
                cells = self._units
                units.append(
                    _text(
                        rest,
                        at_end,
                        cells.looks[0, :found],
                        cells.firsts[0, :found],
                        cells.stops[0, :found],
                    )
                )
            used += consumed
            records += found
            if found < self._block:  # the rest is no complete record
                break
            self._block = min(
                2 * self._block, self._most
            )  # the more is remembered, the fewer cells are listed
        kept = keep[:records]
        columns = [
            column[:records].astype(kind, copy=False)
            for column, kind in zip(codes, self._encoder.dtypes, strict=True)
        ]
        batch = self._encoder.batch(columns, kept)
        return CodedText(used, batch, pl.concat(units) if units else None)

    def _with_room(
        self, codes: NDArray[Any], keep: NDArray[np.bool_], records: int, used: int, size: int
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Room for one more block; once the length of records is known, for all that are likely to
        come."""
        if records + self._block <= keep.size:
            return codes, keep
        likely = records * size // used if used else 0
        wide = np.empty(
            (codes.shape[0], max(likely + likely // 16, records) + self._block), dtype=codes.dtype
        )
        long = np.empty(wide.shape[1], dtype=np.bool_)
        wide[:, :records], long[:records] = codes[:, :records], keep[:records]
        return wide, long

    def _code_block(
        self, data: Bytes, at_end: bool, start: int, codes: NDArray[Any], keep: NDArray[np.bool_]
    ) -> tuple[int, int]:
        unknown = self._unknown
        unknown.counts[:] = 0
        consumed, records = code_records(
            data,
            at_end,
            self._separator,
            self._line_end,
            self._skip_blank,
            self._columns,
            self._unit,
            self._memo,
            start,
            self._block,
            codes,
            keep,
            unknown,
            self._units,
        )
        for column in np.flatnonzero(unknown.counts).tolist():
            found = slice(0, unknown.counts[column])
            looks, firsts, stops = (
                unknown.looks[column, found],
                unknown.firsts[column, found],
                unknown.stops[column, found],
            )
            new, kept = self._encoder.encode_column(
                column, _text(data, at_end, looks, firsts, stops)
            )
            rows = start + unknown.records[column, found]
            codes[column, rows] = new
            remembered = np.asarray(new).astype(np.uint32)
            if kept is not None:
                keep[rows] &= kept
                remembered[~kept] = DROPPED
            learn(self._memo, column, data, looks, firsts, stops, remembered)
        return int(consumed), int(records)


def parse_tidied(text: bytes | Bytes, fields: int) -> list[pl.Series]:
    """Columns of tidied text with this many fields, at least two: a reader may skip empty lines."""
    # a first record of no content, because a byte order mark at the very beginning would be taken
    # for no part of its cell
    empty = bytes([FIELD_END] * (fields - 1) + [RECORD_END])
    frame = pl.read_csv(
        empty + (text if isinstance(text, bytes) else text.tobytes()),
        has_header=False,
        new_columns=[f"c{i}" for i in range(fields)],
        separator=chr(FIELD_END),
        eol_char=chr(RECORD_END),
        quote_char=None,
        infer_schema=False,
        encoding="utf8-lossy",
    )
    return [frame.get_column(f"c{i}").slice(1) for i in range(fields)]


def _text(
    data: Bytes, at_end: bool, looks: Bytes, firsts: NDArray[np.int64], stops: NDArray[np.int64]
) -> pl.Series:
    out = np.empty(int((stops - firsts).sum()) + 2 * firsts.size, dtype=np.uint8)
    written = write_cells(data, looks, firsts, stops, at_end, out)
    return parse_tidied(out[:written], 2)[0]


def _cells(columns: int, room: int) -> Cells:
    return Cells(
        np.zeros(columns, dtype=np.int64),
        np.empty((columns, room), dtype=np.int32),
        np.empty((columns, room), dtype=np.uint8),
        np.empty((columns, room), dtype=np.int64),
        np.empty((columns, room), dtype=np.int64),
    )
