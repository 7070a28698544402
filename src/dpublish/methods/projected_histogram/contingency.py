"""Contingency tables of many columns against one classification of the rows, exactly.

In: the cell that each row is in, and code arrays (private). Out: for each column the counts [cell,
level]. Columns with few levels are counted jointly, up to three in one table, whose margins are
what was asked for: one increment per row then serves all of them. Two threads share the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Codes
from dpublish.methods.base import SparseCounts

Digit = tuple[Codes, int]
"""Codes, and how many levels they have."""

Table = NDArray[np.uint32]

_JOINT_ENTRIES = 1 << 16
_JOINT_LEVELS = 8
_JOINT_COLUMNS = 3
_ROWS_AN_ENTRY = 4
_NARROW = 1 << 8
_WORTH_THREADS = 1 << 20
_CELL_ROWS = 1 << 15


def cell_dtype(cells: int) -> type[np.uint16] | type[np.uint32]:
    """What cell numbers are kept in: half the width is read in half the time."""
    return np.uint16 if cells <= 1 << 16 else np.uint32


def side_by_side(task: Callable[[int, int], Any], rows: int, work: int = 1) -> list[Any]:
    """`task` of two halves of the rows, at the same time when there is much to do (kernels release
    the lock)."""
    if rows * work < _WORTH_THREADS:
        return [task(0, rows)]
    with ThreadPoolExecutor(max_workers=1) as pool:
        second = pool.submit(task, rows // 2, rows)
        return [task(0, rows // 2), second.result()]


def count_tables(
    base: Codes, cells: int, columns: Sequence[Codes], levels: Sequence[int]
) -> list[Table]:
    """For each column a table of shape (cells, levels); `base` is the cell of each row."""
    groups = group_columns(cells, levels, most=_joint_entries(base.size))
    alone = [group[0] for group in groups if len(group) == 1]
    pairs = [alone[i : i + 2] for i in range(0, len(alone), 2)]
    together = [group for group in groups if len(group) > 1]

    def half(start: int, stop: int) -> list[Table]:
        part = base[start:stop]
        some = [column[start:stop] for column in columns]
        joint = [_joint(part, cells, [(some[i], levels[i]) for i in group]) for group in together]
        return joint + [
            table
            for pair in pairs
            for table in _apart(part, cells, [(some[i], levels[i]) for i in pair])
        ]

    halves = side_by_side(half, base.size, len(columns))
    for first, *others in zip(*halves, strict=True):
        for other in others:
            first += other
    found: dict[int, Table] = {}
    for group, table in zip([*together, *([i] for i in alone)], halves[0], strict=True):
        for axis, column in enumerate(group, start=1):
            rest = tuple(i for i in range(1, len(group) + 1) if i != axis)
            found[column] = table.sum(axis=rest, dtype=np.uint32) if rest else table
    return [found[i] for i in range(len(columns))]


def count_passes(cells: int, levels: Sequence[int], rows: int) -> int:
    """How many increments a row it takes to count columns of so many levels."""
    return len(group_columns(cells, levels, most=_joint_entries(rows)))


def _joint_entries(rows: int) -> int:
    return min(_JOINT_ENTRIES, rows // _ROWS_AN_ENTRY)


def group_columns(cells: int, levels: Sequence[int], *, most: int) -> list[list[int]]:
    """Which columns are counted together: the widest first, each into the first table where it
    fits.

    Joint tables have at most `most` entries, because their margins are summed in the end, or else
    very few levels.
    """
    groups: list[list[int]] = []
    sizes: list[int] = []
    for column in sorted(range(len(levels)), key=lambda i: (-levels[i], i)):
        width = levels[column]
        for number, group in enumerate(groups):
            narrow = (
                max(levels[group[0]], width) <= _NARROW
            )  # one compiled loop a width of codes is enough
            small = sizes[number] * width <= max(most, cells * _JOINT_LEVELS)
            if narrow and small and len(group) < _JOINT_COLUMNS:
                group.append(column)
                sizes[number] *= width
                break
        else:
            groups.append([column])
            sizes.append(max(1, cells) * width)
    return groups


def _joint(base: Codes, cells: int, columns: Sequence[Digit]) -> Table:
    from dpublish.methods.projected_histogram.kernels import count_joint

    table = np.zeros((cells, *(levels for _, levels in columns)), dtype=np.uint32)
    given: list[tuple[Codes | None, int]] = [
        *columns,
        *([(None, 1)] * (_JOINT_COLUMNS - len(columns))),
    ]
    (first, first_levels), (second, second_levels), (third, third_levels) = given
    assert first is not None
    count_joint(
        base, first, first_levels, second, second_levels, third, third_levels, table.reshape(-1)
    )
    return table


def _apart(base: Codes, cells: int, columns: Sequence[Digit]) -> list[Table]:
    from dpublish.methods.projected_histogram.kernels import count_two

    if len(columns) == 1:
        return [_joint(base, cells, columns)]
    tables = [np.zeros((cells, levels), dtype=np.uint32) for _, levels in columns]
    (first, first_levels), (second, second_levels) = columns
    count_two(
        base,
        first,
        first_levels,
        tables[0].reshape(-1),
        second,
        second_levels,
        tables[1].reshape(-1),
    )
    return tables


def join_digits(digits: Sequence[Digit], cells: int) -> Codes:
    """The mixed-radix number of each row, of `cells` numbers in all."""
    out = np.empty(digits[0][0].size, dtype=cell_dtype(cells))

    def half(start: int, stop: int) -> None:
        for low, numbers in _numbers(digits, start, stop):
            out[low : low + numbers.size] = numbers

    side_by_side(half, out.size, len(digits))
    return out


def renumber(digits: Sequence[Digit], number: NDArray[np.uint32], cells: int) -> Codes:
    """number[mixed-radix number] of each row; there are `cells` different ones."""
    from dpublish.methods.projected_histogram.kernels import relabel

    out = np.empty(digits[0][0].size, dtype=cell_dtype(cells))

    def half(start: int, stop: int) -> None:
        for low, numbers in _numbers(digits, start, stop):
            relabel(numbers, number, out[low : low + numbers.size])

    side_by_side(half, out.size, len(digits) + 2)
    return out


def _numbers(
    digits: Sequence[Digit], start: int, stop: int
) -> Iterator[tuple[int, NDArray[np.uint32]]]:
    """The mixed-radix numbers of rows start..stop, a block that stays in cache at a time, and where
    it begins."""
    from dpublish.methods.projected_histogram.kernels import add_small_digit

    scratch = np.empty(min(_CELL_ROWS, stop - start), dtype=np.uint32)
    for low in range(start, stop, _CELL_ROWS):
        numbers = scratch[: min(_CELL_ROWS, stop - low)]
        for place, (codes, levels) in enumerate(digits):
            add_small_digit(codes[low : low + numbers.size], levels, numbers, place == 0)
        yield low, numbers


def count_product(columns: Sequence[Digit], size: int) -> SparseCounts:
    """Counts of the occupied cells of a product of columns, `size` cells in all, in mixed radix."""
    from dpublish.methods.projected_histogram.kernels import count_into

    def half(start: int, stop: int) -> NDArray[np.uint32]:
        counts = np.zeros(size, dtype=np.uint32)
        for _, cells in _numbers(columns, start, stop):
            count_into(cells, counts)
        return counts

    first, *others = side_by_side(half, columns[0][0].size, len(columns))
    for other in others:
        first += other
    return occupied_cells(first)


def occupied_cells(counts: NDArray[np.uint32]) -> SparseCounts:
    """The cells of a table whose counts are not 0, in order."""
    flat = counts.reshape(-1)
    occupied = np.flatnonzero(flat)
    return SparseCounts(cells=occupied.astype(np.uint64), counts=flat[occupied].astype(np.int64))
