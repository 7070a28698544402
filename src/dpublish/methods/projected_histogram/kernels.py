"""Loops over a partition of rows: what becomes of each class when one more column splits it, and
the split itself.

`group` holds the class of each row, numbered densely; once there are many classes the rows are
sorted by class, and `starts` says where each begins. A score is a sum over the cells (class, level)
of a value of the cell's label counts:

    PAIRS    the pairs of rows in the cell whose labels differ
    PURITY   max(0, floor(grid * sum_y count_y^2 / count) - grid * charge)

or, for contrast, over the classes of how far their levels differ in their shares of labels.

Counts stay below 2^31, so that squares and their sums fit 64 bits; the caller checks the number of
rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Codes
from dpublish.compiled import njit

PAIRS = 0
PURITY = 1
FEW = 8
_BLOCK = 2048


@njit(cache=True, nogil=True, inline="always")
def cell_value(total: np.int64, squares: np.int64, mode: int, grid: int, charge: int) -> Any:
    """The value of one cell with `total` rows, whose label counts have the given sum of squares."""
    if mode == PAIRS:
        return (total * total - squares) // 2
    # floor(grid * squares / total) in two parts: grid * squares may not fit 64 bits
    whole = squares // total
    value = grid * whole + (grid * (squares - whole * total)) // total - grid * charge
    return max(value, 0)


@njit(cache=True, nogil=True)
def table_score(
    table: NDArray[np.uint32],
    levels: int,
    classes: int,
    labels: int,
    mode: int,
    grid: int,
    charge: int,
) -> np.int64:
    """The score that a contingency table [class, label, level] holds."""
    score = np.int64(0)
    for group in range(classes):
        first = group * labels * levels
        for level in range(levels):
            total, squares = np.int64(0), np.int64(0)
            for label in range(labels):
                count = np.int64(table[first + label * levels + level])
                total += count
                squares += count * count
            if total > 0:
                score += cell_value(total, squares, mode, grid, charge)
    return score


@njit(cache=True, nogil=True)
def score_by_class(
    starts: NDArray[np.int64],
    labels_of: Codes,
    codes: Codes,
    levels: int,
    labels: int,
    mode: int,
    grid: int,
    charge: int,
) -> np.int64:
    """The same score for rows sorted by class, in memory that does not grow with the number of
    classes."""
    counts = np.zeros(levels * labels, np.uint32)
    totals = np.zeros(levels, np.int64)
    squares = np.zeros(levels, np.int64)
    score = np.int64(0)
    for group in range(starts.size - 1):
        first, last = starts[group], starts[group + 1]
        if mode == PAIRS:
            if last - first <= FEW:
                # comparing a few rows with each other is cheaper than counting them
                for i in range(first + 1, last):
                    level, label = codes[i], labels_of[i]
                    for j in range(first, i):
                        score += np.int64((codes[j] == level) & (labels_of[j] != label))
                continue
            if counts.size <= 4 * (last - first):
                for i in range(first, last):
                    counts[np.int64(codes[i]) * labels + np.int64(labels_of[i])] += np.uint32(1)
                for filled in range(levels):
                    total, square = np.int64(0), np.int64(0)
                    for entry in range(filled * labels, (filled + 1) * labels):
                        held = np.int64(counts[entry])
                        counts[entry] = np.uint32(0)
                        total += held
                        square += held * held
                    score += (total * total - square) // 2
                continue
            for i in range(first, last):
                level = np.int64(codes[i])
                cell = level * labels + np.int64(labels_of[i])
                held = np.int64(counts[cell])
                score += totals[level] - held  # pairs with the rows before it in the same cell
                counts[cell] = np.uint32(held + 1)
                totals[level] += 1
            for i in range(first, last):
                level = np.int64(codes[i])
                counts[level * labels + np.int64(labels_of[i])] = np.uint32(0)
                totals[level] = 0
            continue
        for i in range(first, last):
            level = np.int64(codes[i])
            cell = level * labels + np.int64(labels_of[i])
            held = np.int64(counts[cell])
            counts[cell] = np.uint32(held + 1)
            totals[level] += 1
            squares[level] += 2 * held + 1
        # a second walk visits each occupied level once and leaves everything at zero for the next
        # class
        for i in range(first, last):
            level = np.int64(codes[i])
            counts[level * labels + np.int64(labels_of[i])] = np.uint32(0)
            total = totals[level]
            if total > 0:
                score += cell_value(total, squares[level], mode, grid, charge)
                totals[level] = 0
                squares[level] = 0
    return score


@njit(cache=True, nogil=True)
def table_contrast(
    table: NDArray[np.uint32], levels: int, classes: int, labels: int, grid: int
) -> np.int64:
    """What a contingency table [class, label, level] holds of contrast: over classes, floor(grid *
    sum of max(0, count(label, level) - rows(level) * rows(label) / rows) / 2)."""
    score = np.int64(0)
    held = np.zeros(labels, np.int64)
    for group in range(classes):
        first = group * labels * levels
        rows = np.int64(0)
        for label in range(labels):
            held[label] = 0
            for level in range(levels):
                held[label] += np.int64(table[first + label * levels + level])
            rows += held[label]
        if rows == 0:
            continue
        above = np.int64(0)
        for level in range(levels):
            total = np.int64(0)
            for label in range(labels):
                total += np.int64(table[first + label * levels + level])
            for label in range(labels):
                count = np.int64(table[first + label * levels + level])
                above += max(np.int64(0), count * rows - total * held[label])
        score += class_contrast(above, rows, grid)
    return score


@njit(cache=True, nogil=True, inline="always")
def class_contrast(above: np.int64, rows: np.int64, grid: int) -> Any:
    """floor(grid * above / (2 rows)) in two parts: grid * above may not fit 64 bits."""
    whole = above // (2 * rows)
    return grid * whole + (grid * (above - whole * 2 * rows)) // (2 * rows)


@njit(cache=True, nogil=True)
def contrast_by_class(
    starts: NDArray[np.int64],
    labels_of: Codes,
    codes: Codes,
    cells: NDArray[np.int64],
    levels: int,
    labels: int,
    entries: int,
    grid: int,
) -> np.int64:
    """The same for rows sorted by class, in time that follows from the number of rows. `cells` has
    a number below `entries` for each level and label that occur together; none: level * labels +
    label."""
    counts = np.zeros(entries, np.uint32)
    totals = np.zeros(levels, np.int64)
    held = np.zeros(labels, np.int64)
    score = np.int64(0)
    for group in range(starts.size - 1):
        first, last = starts[group], starts[group + 1]
        rows = last - first
        for i in range(first, last):
            level, label = np.int64(codes[i]), np.int64(labels_of[i])
            counts[cells[i] if cells.size else level * labels + label] += np.uint32(1)
            totals[level] += 1
            held[label] += 1
        above = np.int64(0)
        # cells without rows are not above what is expected of them; others are visited once
        for i in range(first, last):
            level, label = np.int64(codes[i]), np.int64(labels_of[i])
            cell = cells[i] if cells.size else level * labels + label
            count = np.int64(counts[cell])
            counts[cell] = np.uint32(0)
            if count > 0:
                above += max(np.int64(0), count * rows - totals[level] * held[label])
        # everything is at zero for the next class
        for i in range(first, last):
            totals[np.int64(codes[i])] = 0
            held[np.int64(labels_of[i])] = 0
        if rows > 0:
            score += class_contrast(above, rows, grid)
    return score


@njit(cache=True, nogil=True)
def split_by_table(
    group: NDArray[np.uint32], codes: Codes, levels: int, classes: int, number: NDArray[np.uint32]
) -> int:
    """Replace `group` by the dense class numbers of its refinement by `codes`; `number` is work
    space of classes * levels."""
    absent = np.uint32(0xFFFFFFFF)
    width = np.uint32(levels)
    number[:] = absent
    for row in range(group.size):
        number[group[row] * width + codes[row]] = np.uint32(0)
    found = 0
    for cell in range(number.size):
        if number[cell] != absent:
            number[cell] = np.uint32(found)
            found += 1
    for row in range(group.size):
        group[row] = number[group[row] * width + codes[row]]
    return found


@njit(cache=True, nogil=True)
def split_by_class(
    starts: NDArray[np.int64], codes: Codes, levels: int, group: NDArray[np.uint32]
) -> int:
    """The same for rows sorted by class, in memory that does not grow with the number of
    classes."""
    stamp = np.full(levels, -1, np.int64)
    number = np.zeros(levels, np.uint32)
    classes = 0
    for old in range(starts.size - 1):
        for row in range(starts[old], starts[old + 1]):
            level = np.int64(codes[row])
            if stamp[level] != old:
                stamp[level] = old
                number[level] = np.uint32(classes)
                classes += 1
            group[row] = number[level]
    return classes


@njit(cache=True, nogil=True)
def sort_by_class(
    group: NDArray[np.uint32],
    classes: int,
    labels_of: Codes,
    mixed: bool,
    above: int,
    order: NDArray[np.uint32],
) -> NDArray[np.int64]:
    """List the rows class by class in `order`, leaving out the classes not wanted; return where the
    classes left start.

    `mixed` wants classes with at least two labels, `above` those with more rows than that.
    """
    totals = np.zeros(classes, np.int64)
    first_label = np.zeros(classes, np.int64)
    varied = np.zeros(classes, np.bool_)
    for row in range(group.size):
        at = group[row]
        label = np.int64(labels_of[row])
        if totals[at] == 0:
            first_label[at] = label
        totals[at] += 1
        varied[at] |= first_label[at] != label
    place = np.full(classes, -1, np.int64)
    starts = np.zeros(classes + 1, np.int64)
    kept, rows = 0, np.int64(0)
    for at in range(classes):
        if totals[at] > above and (varied[at] or not mixed):
            place[at] = rows
            rows += totals[at]
            kept += 1
            starts[kept] = rows
    for row in range(group.size):
        at = group[row]
        where = place[at]
        if where >= 0:
            place[at] = where + 1
            order[where] = np.uint32(row)
    return starts[: kept + 1]


@njit(cache=True, nogil=True)
def gather(codes: Codes, order: NDArray[np.uint32], out: Codes) -> None:
    for i in range(out.size):
        out[i] = codes[order[i]]


@njit(cache=True, nogil=True)
def mix_codes(hashes: NDArray[np.uint64], codes: Codes, salt: np.uint64) -> None:
    """Fold one column into a running 64-bit hash of each row."""
    for row in range(hashes.size):
        word = (hashes[row] ^ (np.uint64(codes[row]) + salt)) * np.uint64(0x9E3779B97F4A7C15)
        word = (word ^ (word >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes[row] = word ^ (word >> np.uint64(32))


@njit(cache=True, nogil=True)
def deal_copies(
    group: NDArray[np.uint32],
    classes: int,
    hashes: NDArray[np.uint64],
    parts: int,
    out: NDArray[np.uint32],
) -> None:
    """Deal rows to parts: the j-th of equal rows (rows of one class) goes where its hash and j
    say."""
    copies = np.zeros(classes, np.uint64)
    for row in range(group.size):
        copies[group[row]] += np.uint64(1)
        word = (hashes[row] + copies[group[row]]) * np.uint64(0xD1342543DE82EF95)
        word = (word ^ (word >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
        out[row] = np.uint32((word ^ (word >> np.uint64(30))) % np.uint64(parts))


@njit(cache=True, nogil=True)
def add_digit(cells: NDArray[np.uint64], codes: Codes, levels: int) -> None:
    """One more digit of the mixed-radix cell number of each row."""
    for row in range(cells.size):
        cells[row] = cells[row] * np.uint64(levels) + np.uint64(codes[row])


@njit(cache=True, nogil=True)
def count_joint(
    base: Codes,
    first: Codes,
    first_levels: int,
    second: Codes | None,
    second_levels: int,
    third: Codes | None,
    third_levels: int,
    table: NDArray[np.uint32],
) -> None:
    """Add each row to the joint table [base, first, second, third]; the second and third column may
    be absent.

    Places are computed a block at a time, several rows in one instruction, and one increment serves
    all columns.
    """
    places = np.empty(_BLOCK, np.uint32)
    first_width, second_width, third_width = (
        np.uint32(first_levels),
        np.uint32(second_levels),
        np.uint32(third_levels),
    )
    for low in range(0, base.size, _BLOCK):
        high = min(base.size, low + _BLOCK)
        here, codes = base[low:high], first[low:high]
        for i in range(high - low):
            places[i] = np.uint32(np.uint32(here[i]) * first_width + np.uint32(codes[i]))
        if second is not None:
            more = second[low:high]
            for i in range(high - low):
                places[i] = np.uint32(places[i] * second_width + np.uint32(more[i]))
        if third is not None:
            last = third[low:high]
            for i in range(high - low):
                places[i] = np.uint32(places[i] * third_width + np.uint32(last[i]))
        for i in range(high - low):
            table[places[i]] += np.uint32(1)


@njit(cache=True, nogil=True)
def count_two(
    base: Codes,
    first: Codes,
    first_levels: int,
    first_table: NDArray[np.uint32],
    second: Codes,
    second_levels: int,
    second_table: NDArray[np.uint32],
) -> None:
    """A table for each of two columns at once: `base` is read once, and neither table waits for its
    own last increment."""
    first_width, second_width = np.uint32(first_levels), np.uint32(second_levels)
    for i in range(base.size):
        at = np.uint32(base[i])
        first_table[at * first_width + first[i]] += np.uint32(1)
        second_table[at * second_width + second[i]] += np.uint32(1)


@njit(cache=True, nogil=True)
def relabel(cells: NDArray[np.uint32], number: NDArray[np.uint32], out: Codes) -> None:
    """out = number[cell], for each row."""
    for row in range(cells.size):
        out[row] = number[cells[row]]


@njit(cache=True, nogil=True)
def add_small_digit(codes: Codes, levels: int, cells: NDArray[np.uint32], first: bool) -> None:
    """One more digit of the mixed-radix cell number of each row, for domains below 2^32."""
    width = np.uint32(levels)
    for row in range(cells.size):
        digit = np.uint32(codes[row])
        cells[row] = digit if first else np.uint32(cells[row] * width + digit)


@njit(cache=True, nogil=True)
def count_into(cells: NDArray[Any], counts: NDArray[np.uint32]) -> None:
    for row in range(cells.size):
        counts[cells[row]] += np.uint32(1)
