"""Cells of a Spark table, many to a 64-bit word: handing a row to Python cell by cell is most of
what it costs.

Spark does no more here than arithmetic that keeps the order of numbers. A whole number, a day or a
truth becomes a digit; a number beyond the declared ones becomes the nearest number beyond them,
which is the same to every axis. What a digit means is said by the encoder and nobody else: it
encodes the cell that the digit stands for, once, and rows are looked up. Whatever is not surely of
this kind (texts, decimals, times, reals in columns of reals) is handed over as it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Flags
from dpublish.counting.kernels import look_up_digits
from dpublish.declare.domain import Axis, Domain
from dpublish.declare.encode import EXACT_WHOLE, CodeArray, EncodedBatch, Encoder
from dpublish.sources.spark import ArrowStream, Batches

_WORD_BITS = 63
_MAX_DIGITS = 1 << 16
_MAX_COLUMNS = 28
"""Columns that are packed: each takes about 230 bytes of a function of Spark's, and Java compiles
none of more than 8,000."""

_EPOCH = 719_163  # date(1970, 1, 1).toordinal()
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FRACTIONS = ("float", "double")
_WORD = "\0word"  # no column has this name

Words = NDArray[np.int64]


@dataclass(frozen=True)
class Digit:
    """How the cells of one column are written: 0 is missing, 1 is `low` or anything below it, and
    so on up to `high` or anything above it."""

    place: int
    stored: str
    low: int
    high: int
    word: int = 0
    shift: int = 0

    @property
    def size(self) -> int:
        return self.high - self.low + 2

    @property
    def bits(self) -> int:
        return (self.size - 1).bit_length()

    def sql(self, cell: str) -> str:
        """The digit, as Spark works it out: nothing in it can fail, whatever the cell is."""
        missing, kind = f"{cell} IS NULL", "BIGINT"
        number = f"CAST({cell} AS BIGINT)"
        if self.stored in _FRACTIONS:
            missing, kind = f"{missing} OR isnan({cell})", "DOUBLE"
            number = f"CAST({cell} AS DOUBLE)"
        elif self.stored == "date":
            number = f"CAST(unix_date({cell}) AS BIGINT)"
        low, high = (f"CAST({end} AS {kind})" for end in (self.low, self.high))
        inside = f"least(greatest({number}, {low}), {high})"
        if self.stored in _FRACTIONS:
            inside = f"CAST(floor({inside}) AS BIGINT)"
        zero, before = (f"CAST({end} AS BIGINT)" for end in (0, self.low - 1))
        return f"CASE WHEN {missing} THEN {zero} ELSE {inside} - {before} END"

    def cells(self) -> pl.Series:
        """The cell that each digit stands for."""
        numbers = pl.Series([None, *range(self.low, self.high + 1)], dtype=pl.Int64)
        if self.stored == "boolean":
            return numbers.cast(pl.Boolean)
        if self.stored == "date":
            return numbers.cast(pl.Int32).cast(pl.Date)
        return numbers.cast(pl.Float64) if self.stored in _FRACTIONS else numbers


@dataclass(frozen=True)
class Packing:
    """Which columns of a domain are digits of which word; `plain` are handed over as they are."""

    digits: tuple[Digit, ...]
    plain: tuple[int, ...]
    words: int

    def narrow(self, domain: Domain) -> bool:
        """Whether words are hardly more than the cells of the domain."""
        if self.plain:
            return False
        return math.prod(digit.size for digit in self.digits) <= max(1 << 20, 16 * domain.size)

    def select(self) -> list[str]:
        """The columns that Spark is asked for: words, then what is handed over, of columns that
        are called c0, c1, ..."""
        words: list[list[str]] = [[] for _ in range(self.words)]
        for digit in self.digits:
            words[digit.word].append(f"shiftleft({digit.sql(f'c{digit.place}')}, {digit.shift})")
        packed = [f"{' | '.join(parts)} AS w{place}" for place, parts in enumerate(words)]
        return [*packed, *(f"c{place}" for place in self.plain)]

    def look_up(self, encoder: Encoder) -> Mapping[int, tuple[CodeArray, Flags]]:
        """The code of each digit of each column, and whether its row is kept. Digits that fit into
        the bits and do not occur are there too, so that nothing is looked up outside."""
        out: dict[int, tuple[CodeArray, Flags]] = {}
        for digit in self.digits:
            codes, keep = encoder.encode_column(digit.place, digit.cells())
            kept = np.ones(codes.size, np.bool_) if keep is None else keep
            rest = (0, (1 << digit.bits) - digit.size)
            out[digit.place] = cast(CodeArray, np.pad(codes, rest)), np.pad(kept, rest)
        return out

    def codes(
        self, tables: Mapping[int, tuple[CodeArray, Flags]], words: Sequence[Words]
    ) -> tuple[dict[int, CodeArray], Flags]:
        """Codes of rows by the place of their column, and which rows all of these columns keep."""
        rows = words[0].size if words else 0
        keep = np.ones(rows, dtype=np.bool_)
        found: dict[int, CodeArray] = {}
        for digit in self.digits:
            codes, keeps = tables[digit.place]
            out = found[digit.place] = np.empty_like(codes, shape=rows)
            mask = np.int64((1 << digit.bits) - 1)
            look_up_digits(words[digit.word], np.int64(digit.shift), mask, codes, keeps, out, keep)
        return found, keep


def packing_of(domain: Domain, stored: Mapping[str, str]) -> Packing:
    """How the columns of a domain are packed, from public facts: the types of the columns."""
    digits: list[Digit] = []
    encoder, word, used = Encoder(domain), -1, _WORD_BITS
    for place, axis in enumerate(domain.axes):
        ends = _ends(axis, stored[axis.name], encoder.rule(place).wholes)
        if ends is None or len(digits) == _MAX_COLUMNS:
            continue
        digit = Digit(place, stored[axis.name], *ends)
        if used + digit.bits > _WORD_BITS:
            word, used = word + 1, 0
        digits.append(Digit(place, stored[axis.name], *ends, word, used))
        used += digit.bits
    packed = {digit.place for digit in digits}
    plain = tuple(place for place in range(len(domain.axes)) if place not in packed)
    return Packing(tuple(digits), plain, word + 1)


def _ends(axis: Axis, stored: str, levels: Collection[int]) -> tuple[int, int] | None:
    """A number below all that the axis tells apart, and one above; None where cells are not told
    apart by such numbers."""
    if stored == "boolean":
        return 0, 1
    if axis.kind == "date":
        first, last = (int(axis.edges[0]) - _EPOCH, int(axis.edges[-1]) - _EPOCH)
        low, high, fits = first - 1, last + 1, stored == "date"
    elif axis.kind in ("integer", "real"):
        low, high = math.floor(axis.edges[0]) - 1, math.ceil(axis.edges[-1]) + 1
        fits = stored in _WHOLE or (stored in _FRACTIONS and axis.kind == "integer")
    elif axis.kind in ("categorical", "ordinal", "boolean"):
        low, high = min(levels, default=0) - 1, max(levels, default=0) + 1
        fits = stored in _WHOLE
    else:
        return None
    small = high - low + 2 <= _MAX_DIGITS and max(abs(low), abs(high)) < EXACT_WHOLE
    return (low, high) if fits and small else None


class PackedStream(ArrowStream):
    """The record batches of one partition, with the columns of a domain packed."""

    def __init__(
        self, packing: Packing, domain: Domain, more: Sequence[str], batches: Batches
    ) -> None:
        self._packing = packing
        self._words = [f"{_WORD}{place}" for place in range(packing.words)]
        plain = [domain.names[place] for place in packing.plain]
        super().__init__([*self._words, *plain, *more], batches)

    def coded(
        self, encoder: Encoder, unit: str | None = None
    ) -> Iterator[tuple[EncodedBatch, pl.Series | None]]:
        names, packing = encoder.domain.names, self._packing
        tables = packing.look_up(encoder)
        plain = [names[place] for place in packing.plain]
        for parts in self._columns([*self._words, *plain, *([] if unit is None else [unit])]):
            words = [part.spelled(0, len(part)).to_numpy() for part in parts[: packing.words]]
            found, keep = packing.codes(tables, words)
            for place, part in zip(packing.plain, parts[packing.words :], strict=False):
                found[place], kept = part.coded(encoder, place)
                keep = keep if kept is None else keep & kept if words else kept
            batch = encoder.batch([found[place] for place in range(len(names))], keep)
            who = None if unit is None else parts[-1]
            yield batch, None if who is None else who.spelled(0, len(who))
