"""Rows as vectors that are never made: each is a few codes, and a code stands for a known piece of
a vector.

A product with the matrix of rows is then a look-up a code, and a sum over rows a count a code: less
memory than the matrix by the size of a double over that of a code, and no multiplications. Sums are
of whole numbers, so they are exact, and the same however the rows are spread over threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.declare.statistic import Private
from dpublish.models.linear_features import LinearFeatures, WeightFeatures, narrow
from dpublish.models.lookup_kernels import (
    add_by_code,
    add_by_two_codes,
    add_looked_up,
    write_indicators,
    write_looked_up,
)

CHUNK = 1 << 16
"""Rows that are added up in 64 bits before their sums are carried over into two words."""
SUM_BITS = 61
"""A sum over a chunk stays below 2^61 in size."""
BLOCK = 1024
"""Codes that are added up in floating point; sums of blocks are rounded once."""

_SLICE = 1 << 13
"""Rows that are written out at a time for a Hessian."""
_THREADS = min(8, int(get_num_threads()))
_SMALL = 1 << 20
_WORD = 32
_MAX_TABLE = 1 << 22


@dataclass(frozen=True)
class Part:
    """Some coordinates of a vector, and what they are for each code: a row of `table`, or `value`
    at the code's place.

    `axes` are the columns whose codes make the code, none for a part that is the same in every row.
    """

    axes: tuple[int, ...]
    codes: int
    start: int
    width: int
    value: float
    table: Floats | None

    def looked_up(self, point: Floats) -> Floats:
        """The product of each code's piece with `point`."""
        here = point[self.start : self.start + self.width]
        return here * self.value if self.table is None else np.asarray(self.table @ here)

    def spread(self, by_code: Floats) -> Floats:
        """The sum over codes of `by_code` times the code's piece."""
        if self.table is None:
            return by_code * self.value
        blocks = np.array(
            [
                by_code[cut : cut + BLOCK] @ self.table[cut : cut + BLOCK]
                for cut in range(0, self.codes, BLOCK)
            ]
        )
        return np.array([math.fsum(column) for column in blocks.T.tolist()])


def parts_of(features: LinearFeatures | WeightFeatures) -> tuple[Part, ...]:
    """The vectors that `features.fill` writes, number by number."""
    found = []
    if isinstance(features, WeightFeatures):
        for group, start in zip(features.groups, features.starts, strict=False):
            table = None if group.table is None else group.table / features.divisor
            found.append(
                Part(group.axes, group.codes, start, group.width, 1.0 / features.divisor, table)
            )
    else:
        found.append(Part((), 1, 0, 1, features.constant, None))
        start = 1
        for place, table in enumerate(features.tables):
            found.append(Part((place,), len(table), start, table.shape[1], 0.0, table))
            start += table.shape[1]
    return tuple(part for part in found if part.width)


class Design(Private):
    """The rows. Private, when they are."""

    def __init__(
        self, features: LinearFeatures | WeightFeatures, codes: Sequence[NDArray[Any]]
    ) -> None:
        self.parts = parts_of(features)
        self.rows = len(codes[0]) if codes else 0
        self.dimension = features.dimension
        self._sizes = [axis.cardinality for axis in features.axes]
        self._codes = [
            narrow(column, size) for column, size in zip(codes, self._sizes, strict=True)
        ]

    def chunks(self) -> list[slice]:
        return [slice(start, min(start + CHUNK, self.rows)) for start in range(0, self.rows, CHUNK)]

    def codes(self, part: Part, rows: slice) -> NDArray[Any]:
        """The code of a part in some rows; a part of two columns is numbered row by row."""
        if not part.axes:
            return np.zeros(len(range(*rows.indices(self.rows))), dtype=np.uint8)
        first = self._codes[part.axes[0]][rows]
        if len(part.axes) == 1:
            return first
        size = self._sizes[part.axes[1]]
        return narrow(first.astype(np.int64) * size + self._codes[part.axes[1]][rows], part.codes)

    def each(self, task: Callable[[slice], Any]) -> Iterator[Any]:
        """What `task` gives for each chunk, in order."""
        chunks = self.chunks()
        if self.rows * len(self.parts) < _SMALL or _THREADS == 1:
            yield from map(task, chunks)
            return
        with ThreadPoolExecutor(_THREADS) as threads:
            yield from threads.map(task, chunks)

    def products(self, point: Floats) -> Floats:
        """x_i . point for every row."""
        tables = [part.looked_up(point) for part in self.parts]
        found = np.zeros(self.rows)

        def task(rows: slice) -> None:
            for part, table in zip(self.parts, tables, strict=True):
                add_looked_up(self.codes(part, rows), table, found[rows])

        for _ in self.each(task):
            pass
        return found

    def sum_of(self, amounts: Callable[[slice], NDArray[np.int64]]) -> Floats:
        """sum_i amounts_i x_i for whole numbers, given chunk by chunk, that add up to less than
        2^SUM_BITS in each."""
        ends = np.cumsum([part.codes for part in self.parts])

        def task(rows: slice) -> NDArray[np.int64]:
            numbers = amounts(rows)
            sums = np.zeros(ends[-1], dtype=np.int64)
            for part, end in zip(self.parts, ends, strict=True):
                add_by_code(self.codes(part, rows), numbers, sums[end - part.codes : end])
            return sums

        high, low = np.zeros(ends[-1], dtype=np.int64), np.zeros(ends[-1], dtype=np.int64)
        for sums in self.each(task):
            low += sums & ((1 << _WORD) - 1)
            high += (sums >> _WORD) + (low >> _WORD)
            low &= (1 << _WORD) - 1
        totals = high * 2.0**_WORD + low
        return np.concatenate(
            [
                part.spread(totals[end - part.codes : end])
                for part, end in zip(self.parts, ends, strict=True)
            ]
        )

    def gram(self, weights: Floats, stride: int) -> Floats:
        """sum_i weights_i x_i x_i^T over every stride-th row, times the stride. It steers the
        solver and proves nothing."""
        rows = slice(0, self.rows, stride)
        held = [np.ascontiguousarray(self.codes(part, rows)) for part in self.parts]
        chosen = np.ascontiguousarray(weights[rows])
        largest = max(part.codes for part in self.parts)
        by_codes = 20 * len(self.parts) ** 2 < self.dimension**2 and largest**2 <= _MAX_TABLE
        gram = self._gram_by_codes if by_codes else self._gram_by_rows
        return gram(held, chosen) * stride

    def _gram_by_codes(self, held: Sequence[NDArray[Any]], weights: Floats) -> Floats:
        """From the weighted table of each two parts: cheaper when vectors have few entries other
        than zero."""
        found = np.zeros((self.dimension, self.dimension))
        wide = [codes.astype(np.uint32) for codes in held]
        for place, one in enumerate(self.parts):
            for other, codes in zip(self.parts[place:], wide[place:], strict=True):
                table = np.zeros((one.codes, other.codes))
                add_by_two_codes(wide[place], codes, weights, table)
                left = one.value * table if one.table is None else one.table.T @ table
                block = left * other.value if other.table is None else left @ other.table
                here, there = (
                    slice(one.start, one.start + one.width),
                    slice(other.start, other.start + other.width),
                )
                found[here, there] = block
                found[there, here] = block.T
        return found

    def _gram_by_rows(self, held: Sequence[NDArray[Any]], weights: Floats) -> Floats:
        found = np.zeros((self.dimension, self.dimension))
        tables = [
            None if part.table is None else part.table.astype(np.float32) for part in self.parts
        ]
        roots = np.sqrt(weights).astype(np.float32)
        for start in range(0, len(weights), _SLICE):
            rows = slice(start, min(start + _SLICE, len(weights)))
            block = np.zeros((rows.stop - start, self.dimension), dtype=np.float32)
            for part, codes, table in zip(self.parts, held, tables, strict=True):
                if table is None:
                    write_indicators(codes[rows], part.value, part.start, roots[rows], block)
                else:
                    write_looked_up(codes[rows], table, part.start, roots[rows], block)
            found += block.T @ block
        return found
