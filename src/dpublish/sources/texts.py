"""Texts that come as bytes: each cell is decoded by itself, and no cell ends the reading of the
others.

Bytes that are no UTF-8 become U+FFFD, as a reader of text files does it, so such a cell is an
unknown text in every format: a label outside the levels, and no number or date. A text of more than
`LONGEST_TEXT` bytes is U+FFFD as a whole, and so is a list whose texts have more than `LONGEST_ROW`
bytes together: a few bytes of a file may stand for gigabytes of cells, and what they cost must not
grow with that. Frames are handed on in pieces of about `PIECE_BYTES` of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import polars as pl
from numpy.typing import NDArray

LONGEST_TEXT = 1 << 20
"""Bytes of the longest cell that is read."""

LONGEST_ROW = 1 << 24
"""Bytes of the longest line, or of the longest list, that is read."""

PIECE_BYTES = 1 << 26
"""About how many bytes of text a frame holds at most, unless it is one row."""

UNREADABLE = "\ufffd"
"""Stands for what cannot be decoded, and for a text that is too long."""

Weights = NDArray[np.int64]


def lossy(cell: bytes, encoding: str = "utf-8") -> str:
    """The text of one cell."""
    return cell.decode(encoding, "replace") if len(cell) <= LONGEST_TEXT else UNREADABLE


def plain_text(text: str) -> str:
    """A text of Python's own. Halves of characters, which have no UTF-8 form, mostly stand for
    bytes that had no meaning."""
    if text.isascii():
        return text if len(text) <= LONGEST_TEXT else UNREADABLE
    try:
        return lossy(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return lossy(text.encode("utf-8", "surrogatepass"))


def readable(column: pl.Series) -> pl.Series:
    """The same column with readable texts. What a library took over unchecked from another one may
    hold any bytes."""
    plain = bytes_kind(column.dtype)
    return column if plain == column.dtype else decoded(column.cast(plain), column.dtype)


def bytes_kind(kind: pl.DataType) -> pl.DataType:
    """The same type with bytes for texts."""
    if kind == pl.String:
        return pl.Binary()
    if isinstance(kind, pl.List):
        return pl.List(bytes_kind(_instance(kind.inner)))
    if isinstance(kind, pl.Array) and kind.inner == pl.String:
        return pl.Array(pl.Binary, kind.size)
    if isinstance(kind, pl.Struct):
        return pl.Struct({field.name: bytes_kind(_instance(field.dtype)) for field in kind.fields})
    return kind


def decoded(column: pl.Series, kind: pl.DataType) -> pl.Series:
    """A column of type `bytes_kind(kind)` as one of type `kind`; arrays of texts become lists."""
    if kind == pl.String:
        return _decoded_texts(column)
    if isinstance(kind, pl.Array) and kind.inner == pl.String:
        return _decoded_lists(column.arr.to_list())
    if isinstance(kind, pl.List) and kind.inner == pl.String:
        return _decoded_lists(column)
    return _decoded_cells(column, kind)


def pieces(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows of a frame, with readable texts, in frames of bounded size."""
    columns = frame.get_columns()
    for start, stop in stretches([text_bytes(column) for column in columns], frame.height):
        yield pl.DataFrame([readable(column.slice(start, stop - start)) for column in columns])


def stretches(weights: Sequence[Weights | None], rows: int) -> Iterator[tuple[int, int]]:
    """Consecutive stretches of rows whose weights add up to `PIECE_BYTES` at most, or that are one
    row."""
    given = [weight for weight in weights if weight is not None]
    if rows and sum(int(weight.sum()) for weight in given) <= PIECE_BYTES:
        yield 0, rows
        return
    ends = np.cumsum(np.sum(given, axis=0)) if rows else np.zeros(0, dtype=np.int64)
    start, before = 0, 0
    while start < rows:
        stop = max(start + 1, int(np.searchsorted(ends, before + PIECE_BYTES, side="right")))
        yield start, stop
        start, before = stop, int(ends[stop - 1])


def text_bytes(column: pl.Series) -> Weights | None:
    """How many bytes of text each row has; None for a column without texts. A text that is too long
    counts as nothing."""
    kind = column.dtype
    if kind == pl.String:
        sizes = column.str.len_bytes().fill_null(0).cast(pl.Int64).to_numpy()
        return np.where(sizes > LONGEST_TEXT, 0, sizes)
    if isinstance(kind, pl.List) and kind.inner == pl.String:
        lengths = column.list.len()
        return list_bytes(
            lengths, column.filter(lengths.fill_null(0) > 0).explode().str.len_bytes()
        )
    return None


def list_bytes(lengths: pl.Series, sizes: pl.Series) -> Weights:
    """Bytes of each list, from its length and the sizes of all items."""
    counts = lengths.fill_null(0).cast(pl.Int64).to_numpy()
    ends = np.cumsum(counts)
    totals = np.concatenate(
        (np.zeros(1, dtype=np.int64), np.cumsum(sizes.fill_null(0).cast(pl.Int64).to_numpy()))
    )
    found: Weights = totals[ends] - totals[ends - counts]
    return found


def _decoded_texts(cells: pl.Series) -> pl.Series:
    longest = cells.bin.size().max()
    if longest is None or int(str(longest)) <= LONGEST_TEXT:
        # some cell may be no UTF-8, and the library does not say which
        with suppress(pl.exceptions.PolarsError):
            return cells.cast(pl.String)
    return pl.Series(
        cells.name, [None if cell is None else lossy(cell) for cell in cells], dtype=pl.String
    )


def _decoded_lists(column: pl.Series) -> pl.Series:
    lengths = column.list.len()
    items = column.filter(lengths.fill_null(0) > 0).explode()
    heavy = list_bytes(lengths, items.bin.size()) > LONGEST_ROW
    if not heavy.any():
        with suppress(pl.exceptions.PolarsError):
            return column.cast(pl.List(pl.String))
    texts = iter(_decoded_texts(items).to_list())
    rows = [None if length is None else [next(texts) for _ in range(length)] for length in lengths]
    cut = [[UNREADABLE] if long else row for row, long in zip(rows, heavy, strict=True)]
    return pl.Series(column.name, cut, dtype=pl.List(pl.String))


def _decoded_cells(column: pl.Series, kind: pl.DataType) -> pl.Series:
    """Structures: one that holds a text which cannot be decoded is missing as a whole."""
    try:
        return column.cast(kind)
    except pl.exceptions.PolarsError:
        if len(column) == 1:
            return pl.Series(column.name, [None], dtype=kind)
    middle = len(column) // 2
    return pl.concat([_decoded_cells(part, kind) for part in (column[:middle], column[middle:])])


def _instance(kind: object) -> pl.DataType:
    """A type, where polars may hand out its class."""
    return kind if isinstance(kind, pl.DataType) else kind()  # type: ignore[operator]
