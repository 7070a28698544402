"""At most c rows per unit, by a rule that looks at nothing beyond what the unit's own rows say and
a key.

Each row of a unit gets SipHash-2-4, under the key, of (unit, what the row says, j), where j numbers
the rows of the unit that say the same; the c rows with the smallest hashes are kept. What a row
says is what would be counted of it, in 64-bit words. So for every fixed key the choice is a
function of one unit's rows alone, in no order: changing one unit changes at most its own c kept
rows, and every pass, partition and engine keeps the same ones. Units are equal when their values
are, text being stripped of surrounding blanks and of a zero fraction ("7.0" is "7"). A row without
a unit, that is with a null, blank or NaN in the unit column or with a list or structure there,
belongs to nobody whom the guarantee could protect, and is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from dpublish.arrays import Flags, Words
from dpublish.counting.kernels import choose_rows, hash_texts
from dpublish.declare.domain import MAX_CELLS
from dpublish.sources.units import join_units, spelled_units, unit_values

KEY_BYTES = 16
HELD_ROWS = 1 << 24
"""Rows of units that are held at once: more are read in several passes, each for some units."""

_MAX_PARTS = 1 << 20

T = TypeVar("T")
Progress = Callable[[int], None]
Columns = list[NDArray[Any]]
"""Rows as columns of equal length."""

Said = Callable[[NDArray[np.int64]], tuple[Words, NDArray[np.int64]]]
"""What some rows say: words end to end, and where those of each row start and the last ones end."""


def reported(batches: Iterable[T], progress: Progress | None) -> Iterator[T]:
    """The same batches; `progress` is called with 0 once for each: a sign of life that tells
    nothing about how much is left."""
    for batch in batches:
        if progress is not None:
            progress(0)
        yield batch


def joined(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


def keep_rows(units: pl.Series, said: Said, c: int, key: bytes) -> Flags:
    """Which rows to keep: of each unit the `c` with the smallest keyed hash of what they say."""
    if c < 1 or len(key) != KEY_BYTES:
        raise ValueError("keep_rows needs c of at least 1 and a key of 16 bytes")
    series = unit_values(units)
    frame = series.alias("unit").to_frame().with_row_index("row")
    # a unit is labelled by its first row; the label finds the unit's rows but never enters the hash
    labels = frame.select(pl.col("row").first().over("unit")).to_series().cast(pl.Int64).to_numpy()
    keep: Flags = series.is_not_null().to_numpy().copy()
    crowded = np.flatnonzero(keep & (np.bincount(labels)[labels] > c))
    if crowded.size:
        rows = crowded[np.argsort(labels[crowded], kind="stable")]
        first = np.flatnonzero(np.diff(labels[rows], prepend=-1))
        keep[rows] = choose_rows(
            np.append(first, rows.size),
            unit_hashes(series.gather(rows[first]), key),
            *said(rows),
            c,
            *_halves(key),
        )
    return keep


def unit_hashes(units: pl.Series, key: bytes) -> Words:
    """SipHash-2-4 of each unit's spelling, under the key."""
    texts = spelled_units(units).cast(pl.Binary).rechunk().to_arrow().cast(pa.large_binary())
    _, ends, data = texts.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    found = np.empty(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    return hash_texts(found, offsets, *_halves(key))


def _halves(key: bytes) -> tuple[np.uint64, np.uint64]:
    low, high = (int.from_bytes(half, "little") for half in (key[:8], key[8:]))
    return np.uint64(low), np.uint64(high)


def bounded_rows(
    read: Callable[[], Iterator[tuple[Columns, pl.Series]]],
    said_of: Callable[[Columns], Said],
    c: int,
    key: bytes,
    *,
    at_once: bool = False,
) -> Iterator[Columns]:
    """The kept rows. Where there are too many to hold, each piece has those of some of the units,
    for which all rows are read again; unless they are wanted all `at_once`, in their order."""
    parts = [(0, 1)]
    while parts:
        part, of = parts.pop()
        held: list[tuple[Columns, pl.Series]] = []
        rows = 0
        for columns, units in read():
            some = _of_part(columns, units, part, of, key)
            held.append(some)
            rows += len(some[1])
            while rows > HELD_ROWS and of < _MAX_PARTS and not at_once:
                parts.append((part + of, 2 * of))
                of *= 2
                held = [_of_part(columns, units, part, of, key) for columns, units in held]
                rows = sum(len(units) for _, units in held)
        if held:
            whole = [
                np.concatenate(some) for some in zip(*(found for found, _ in held), strict=True)
            ]
            units = join_units([units for _, units in held])
            held.clear()
            keep = keep_rows(units, said_of(whole), c, key)
            yield [column[keep] for column in whole]


def _of_part(
    columns: Columns, units: pl.Series, part: int, of: int, key: bytes
) -> tuple[Columns, pl.Series]:
    """The rows with a unit that belongs to this part of all units."""
    mine = unit_values(units)
    keep = mine.is_not_null().to_numpy()
    if of > 1:
        keep = keep & (unit_hashes(mine, key) % np.uint64(of) == np.uint64(part))
    if keep.all():
        return columns, mine
    return [column[keep] for column in columns], mine.filter(pl.Series(keep))


def numbers_said(numbers: Words) -> Said:
    """Rows that say one number each."""
    return lambda rows: (numbers[rows], np.arange(rows.size + 1, dtype=np.int64))


def codes_said(codes: Sequence[NDArray[Any]], shape: Sequence[int]) -> Said:
    """Rows of codes: mixed-radix numbers of neighbouring columns, as many as fit into 2^63."""

    def said(rows: NDArray[np.int64]) -> tuple[Words, NDArray[np.int64]]:
        words = pack_codes([column[rows] for column in codes], shape)
        return words.ravel(), np.arange(rows.size + 1, dtype=np.int64) * words.shape[1]

    return said


def pack_codes(codes: Sequence[NDArray[Any]], shape: Sequence[int]) -> Words:
    """The words of rows of codes, one row each. A domain of at most 2^63 cells has one word, the
    number of the cell."""
    packed: list[Words] = []
    for members in word_columns(shape):
        word = codes[members[0]].astype(np.uint64)
        for column in members[1:]:
            word = word * np.uint64(shape[column]) + codes[column].astype(np.uint64)
        packed.append(word)
    return np.column_stack(packed) if packed else np.empty((0, 0), dtype=np.uint64)


def word_columns(shape: Sequence[int]) -> list[list[int]]:
    """Which columns share a word."""
    out: list[list[int]] = []
    size = MAX_CELLS + 1
    for column, cardinality in enumerate(shape):
        size *= cardinality
        if size > MAX_CELLS:
            out.append([])
            size = cardinality
        out[-1].append(column)
    return out


def unpack_codes(words: Words, shape: Sequence[int]) -> list[NDArray[np.uint32]]:
    """The codes that `pack_codes` made words of."""
    out: list[NDArray[np.uint32]] = [np.empty(0, dtype=np.uint32)] * len(shape)
    for place, members in enumerate(word_columns(shape)):
        rest = words[:, place]
        for column in reversed(members):
            size = np.uint64(shape[column])
            out[column], rest = (rest % size).astype(np.uint32), rest // size
    return out


def lists_said(items: NDArray[Any], offsets: NDArray[np.int64]) -> Said:
    """Rows that say a list of item codes each."""

    def said(rows: NDArray[np.int64]) -> tuple[Words, NDArray[np.int64]]:
        chosen_items, chosen_offsets = take_lists(items, offsets, rows)
        return chosen_items.astype(np.uint64), chosen_offsets

    return said


def take_lists(
    items: NDArray[Any], offsets: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The lists of some rows, end to end, and where each starts."""
    lengths = np.diff(offsets)[rows]
    ends = np.append(np.int64(0), np.cumsum(lengths))
    places = np.arange(ends[-1]) + np.repeat(offsets[rows] - ends[:-1], lengths)
    return items[places], ends
