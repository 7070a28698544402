"""Contingency tables of many columns against one classification of the rows, exactly.

In: the cell that each row is in, and code arrays (private). Out: for each column the counts [cell, level]. Columns with few
levels are counted jointly, up to three in one table, whose margins are what was asked for: one increment a row then serves all
of them. Which columns go together follows from their numbers of levels alone. Two threads share the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.mechanisms.base import SparseCounts

Codes = NDArray[Any]
Table = NDArray[np.uint32]

_JOINT_ENTRIES = 1 << 16
_JOINT_COLUMNS = 3
_NARROW = 1 << 8
_WORTH_THREADS = 1 << 20
_CELL_ROWS = 1 << 14


def cell_dtype(cells: int) -> type[np.uint16] | type[np.uint32]:
    """What cell numbers are kept in: half the width is read in half the time."""
    return np.uint16 if cells <= 1 << 16 else np.uint32


def side_by_side(task: Callable[[int, int], Any], rows: int, work: int = 1) -> list[Any]:
    """`task` of two halves of the rows, at the same time when there is much to do (kernels release the lock)."""
    if rows * work < _WORTH_THREADS:
        return [task(0, rows)]
    with ThreadPoolExecutor(max_workers=1) as pool:
        second = pool.submit(task, rows // 2, rows)
        return [task(0, rows // 2), second.result()]


def count_tables(base: Codes, cells: int, columns: Sequence[Codes], levels: Sequence[int]) -> list[Table]:
    """For each column a table of shape (cells, levels); `base` is the cell of each row."""
    groups = group_columns(cells, levels)
    alone = [group[0] for group in groups if len(group) == 1]
    pairs = [alone[i : i + 2] for i in range(0, len(alone), 2)]
    together = [group for group in groups if len(group) > 1]

    def half(start: int, stop: int) -> list[Table]:
        part = base[start:stop]
        some = [column[start:stop] for column in columns]
        joint = [_joint(part, cells, [(some[i], levels[i]) for i in group]) for group in together]
        return joint + [table for pair in pairs for table in _apart(part, cells, [(some[i], levels[i]) for i in pair])]

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


def group_columns(cells: int, levels: Sequence[int]) -> list[list[int]]:
    """Which columns are counted together: the widest first, each into the first table where it fits."""
    groups: list[list[int]] = []
    sizes: list[int] = []
    for column in sorted(range(len(levels)), key=lambda i: (-levels[i], i)):
        width = levels[column]
        for number, group in enumerate(groups):
            narrow = max(levels[group[0]], width) <= _NARROW  # one compiled loop a width of codes is enough
            if narrow and len(group) < _JOINT_COLUMNS and sizes[number] * width <= _JOINT_ENTRIES:
                group.append(column)
                sizes[number] *= width
                break
        else:
            groups.append([column])
            sizes.append(max(1, cells) * width)
    return groups


def _joint(base: Codes, cells: int, columns: Sequence[tuple[Codes, int]]) -> Table:
    from dpublish.mechanisms.kernels.contingency import count_joint

    table = np.zeros((cells, *(levels for _, levels in columns)), dtype=np.uint32)
    given: list[tuple[Codes | None, int]] = [*columns, *([(None, 1)] * (_JOINT_COLUMNS - len(columns)))]
    (first, first_levels), (second, second_levels), (third, third_levels) = given
    assert first is not None
    count_joint(base, first, first_levels, second, second_levels, third, third_levels, table.reshape(-1))
    return table


def _apart(base: Codes, cells: int, columns: Sequence[tuple[Codes, int]]) -> list[Table]:
    from dpublish.mechanisms.kernels.contingency import count_two

    if len(columns) == 1:
        return [_joint(base, cells, columns)]
    tables = [np.zeros((cells, levels), dtype=np.uint32) for _, levels in columns]
    (first, first_levels), (second, second_levels) = columns
    count_two(base, first, first_levels, tables[0].reshape(-1), second, second_levels, tables[1].reshape(-1))
    return tables


def renumber(base: Codes, codes: Codes, levels: int, number: NDArray[np.uint32], cells: int) -> Codes:
    """number[base, code] for each row; there are `cells` different numbers."""
    from dpublish.mechanisms.kernels.contingency import relabel

    out = np.empty(base.size, dtype=cell_dtype(cells))

    def half(start: int, stop: int) -> None:
        relabel(base[start:stop], codes[start:stop], levels, number, out[start:stop])

    side_by_side(half, base.size, 4)
    return out


def count_product(columns: Sequence[tuple[Codes, int]], size: int) -> SparseCounts:
    """Counts of the occupied cells of a product of columns, `size` cells in all, in mixed radix."""
    from dpublish.mechanisms.kernels.contingency import add_small_digit, count_into

    def half(start: int, stop: int) -> NDArray[np.uint32]:
        counts = np.zeros(size, dtype=np.uint32)
        scratch = np.empty(min(_CELL_ROWS, stop - start), dtype=np.uint32)
        for low in range(start, stop, _CELL_ROWS):
            cells = scratch[: min(_CELL_ROWS, stop - low)]
            for place, (codes, levels) in enumerate(columns):
                add_small_digit(codes[low : low + cells.size], levels, cells, place == 0)
            count_into(cells, counts)
        return counts

    first, *others = side_by_side(half, columns[0][0].size, len(columns))
    for other in others:
        first += other
    occupied = np.flatnonzero(first)
    return SparseCounts(cells=occupied.astype(np.uint64), counts=first[occupied].astype(np.int64))
