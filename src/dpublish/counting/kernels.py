"""Compiled loops: cell numbers, runs of equal cells, the rows of a unit, and tidy transactions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS


@njit(cache=True, nogil=True)
def extend_group(group: NDArray[np.uint32], codes: NDArray[Any], cardinality: np.uint32) -> None:
    for i in range(group.size):
        group[i] = np.uint32(group[i] * cardinality + np.uint32(codes[i]))


@njit(cache=True, nogil=True)
def extend_cells(
    cells: NDArray[np.uint64], group: NDArray[np.uint32], cardinality: np.uint64
) -> None:
    for i in range(cells.size):
        cells[i] = cells[i] * cardinality + np.uint64(group[i])


@njit(cache=True, nogil=True)
def tally(counts: NDArray[np.int64], cells: NDArray[np.uint32]) -> None:
    for i in range(cells.size):
        counts[cells[i]] += 1


@njit(cache=True, nogil=True)
def look_up_digits(
    words: NDArray[np.int64],
    shift: np.int64,
    mask: np.int64,
    codes: NDArray[Any],
    keeps: NDArray[np.bool_],
    out: NDArray[Any],
    keep: NDArray[np.bool_],
) -> None:
    """The codes of one digit of each word; rows whose digit is not kept are marked."""
    for i in range(words.size):
        digit = (words[i] >> shift) & mask
        out[i] = codes[digit]
        keep[i] &= keeps[digit]


@njit(cache=True, nogil=True)
def squeeze(cells: NDArray[Any], keep: NDArray[np.bool_]) -> int:
    """Move the kept entries to the front, in order; how many there are."""
    kept = 0
    for i in range(cells.size):
        cells[kept] = cells[i]
        kept += 1 if keep[i] else 0
    return kept


@njit(cache=True, nogil=True)
def digit_counts(cells: NDArray[np.uint64], shift: np.uint64, counts: NDArray[np.int64]) -> None:
    """How often each value of one digit occurs. Four tables, because equal neighbours would wait
    for each other's store."""
    mask = np.uint64(DIGITS - 1)
    four = np.zeros((4, DIGITS), np.int64)
    whole = cells.size // 4 * 4
    for i in range(0, whole, 4):
        four[0, np.int64((cells[i] >> shift) & mask)] += 1
        four[1, np.int64((cells[i + 1] >> shift) & mask)] += 1
        four[2, np.int64((cells[i + 2] >> shift) & mask)] += 1
        four[3, np.int64((cells[i + 3] >> shift) & mask)] += 1
    for i in range(whole, cells.size):
        four[0, np.int64((cells[i] >> shift) & mask)] += 1
    for digit in range(DIGITS):
        counts[digit] = four[0, digit] + four[1, digit] + four[2, digit] + four[3, digit]


@njit(cache=True, nogil=True)
def scatter(
    source: NDArray[np.uint64],
    target: NDArray[np.uint64],
    shift: np.uint64,
    next_place: NDArray[np.int64],
) -> None:
    """One stable pass of a radix sort: each cell goes to the next free place of its digit."""
    mask = np.uint64(DIGITS - 1)
    for i in range(source.size):
        cell = source[i]
        digit = np.int64((cell >> shift) & mask)
        place = next_place[digit]
        target[place] = cell
        next_place[digit] = place + 1


@njit(cache=True, nogil=True)
def run_lengths(ordered: NDArray[np.uint64], counts: NDArray[np.int64]) -> int:
    """Squeeze a sorted array into its distinct values, in place, and count each; how many there
    are."""
    if ordered.size == 0:
        return 0
    place = 0
    start = 0
    current = ordered[0]
    for i in range(1, ordered.size):
        cell = ordered[i]
        if cell != current:
            ordered[place] = current  # never ahead of what was read
            counts[place] = i - start
            place += 1
            start = i
            current = cell
    ordered[place] = current
    counts[place] = ordered.size - start
    return place + 1


@njit(cache=True, nogil=True)
def count_union(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> int:
    """How many distinct cells two sorted lists hold together."""
    i = j = distinct = 0
    while i < left.size and j < right.size:
        a, b = left[i], right[j]
        i += 1 if a <= b else 0
        j += 1 if b <= a else 0
        distinct += 1
    return distinct + left.size - i + right.size - j


@njit(cache=True, nogil=True)
def merge_counts(
    left: NDArray[np.uint64],
    left_counts: NDArray[np.int64],
    right: NDArray[np.uint64],
    right_counts: NDArray[np.int64],
    cells: NDArray[np.uint64],
    counts: NDArray[np.int64],
) -> None:
    """Add two sorted sparse counts; the outputs have exactly the size that `count_union` says."""
    i = j = place = 0
    while i < left.size and j < right.size:
        a, b = left[i], right[j]
        if a < b:
            cells[place], counts[place] = a, left_counts[i]
            i += 1
        elif b < a:
            cells[place], counts[place] = b, right_counts[j]
            j += 1
        else:
            cells[place], counts[place] = a, left_counts[i] + right_counts[j]
            i += 1
            j += 1
        place += 1
    while i < left.size:
        cells[place], counts[place] = left[i], left_counts[i]
        i += 1
        place += 1
    while j < right.size:
        cells[place], counts[place] = right[j], right_counts[j]
        j += 1
        place += 1


@njit(cache=True, nogil=True)
def _sip_round(
    a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    a += b
    b = ((b << np.uint64(13)) | (b >> np.uint64(51))) ^ a
    a = (a << np.uint64(32)) | (a >> np.uint64(32))
    c += d
    d = ((d << np.uint64(16)) | (d >> np.uint64(48))) ^ c
    a += d
    d = ((d << np.uint64(21)) | (d >> np.uint64(43))) ^ a
    c += b
    b = ((b << np.uint64(17)) | (b >> np.uint64(47))) ^ c
    c = (c << np.uint64(32)) | (c >> np.uint64(32))
    return a, b, c, d


@njit(cache=True, nogil=True)
def sip_words(words: NDArray[np.uint64], last: np.uint64, low: np.uint64, high: np.uint64) -> Any:
    """SipHash-2-4 under the key (low, high) of whole words, and a last one with the length in it
    (Aumasson and Bernstein 2012)."""
    a, b = low ^ np.uint64(0x736F6D6570736575), high ^ np.uint64(0x646F72616E646F6D)
    c, d = low ^ np.uint64(0x6C7967656E657261), high ^ np.uint64(0x7465646279746573)
    for i in range(words.size + 1):
        word = words[i] if i < words.size else last
        d ^= word
        a, b, c, d = _sip_round(a, b, c, d)
        a, b, c, d = _sip_round(a, b, c, d)
        a ^= word
    c ^= np.uint64(0xFF)
    for _ in range(4):
        a, b, c, d = _sip_round(a, b, c, d)
    return a ^ b ^ c ^ d


@njit(cache=True, nogil=True)
def hash_texts(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], low: np.uint64, high: np.uint64
) -> NDArray[np.uint64]:
    """SipHash-2-4 of each of several texts, which lie end to end in `data`."""
    out = np.empty(offsets.size - 1, np.uint64)
    for text in range(out.size):
        start, size = offsets[text], offsets[text + 1] - offsets[text]
        words = np.zeros(size // 8, np.uint64)
        last = np.uint64(size & 255) << np.uint64(56)
        for i in range(size):
            bits = np.uint64(data[start + i]) << np.uint64(8 * (i % 8))
            if i // 8 < words.size:
                words[i // 8] |= bits
            else:
                last |= bits
        out[text] = sip_words(words, last, low, high)
    return out


@njit(cache=True, nogil=True)
def _after(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> bool:
    """Whether `left` comes after `right`: by words, then by length."""
    for i in range(min(left.size, right.size)):
        if left[i] != right[i]:
            return bool(left[i] > right[i])
    return left.size > right.size


@njit(cache=True, nogil=True)
def choose_rows(
    starts: NDArray[np.int64],
    identity: NDArray[np.uint64],
    words: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    most: int,
    low: np.uint64,
    high: np.uint64,
) -> NDArray[np.bool_]:
    """Keep the `most` rows of each unit with the smallest hash of (key, unit, content, j), where j
    numbers equal rows of a unit.

    Unit u owns rows starts[u] to starts[u + 1], and `identity[u]` is the hash of its name. Row i
    says words[offsets[i]:offsets[i + 1]]. Equal hashes are told apart by content.
    """
    keep = np.zeros(offsets.size - 1, np.bool_)
    two = np.empty(2, np.uint64)
    for unit in range(starts.size - 1):
        start, size = starts[unit], starts[unit + 1] - starts[unit]
        hashes = np.empty(size, np.uint64)
        for i in range(size):
            row = words[offsets[start + i] : offsets[start + i + 1]]
            message = np.empty(row.size + 1, np.uint64)
            message[0] = identity[unit]
            message[1:] = row
            length = np.uint64((8 * message.size) & 255) << np.uint64(56)
            hashes[i] = sip_words(message, length, low, high)
        order = np.argsort(hashes, kind="mergesort")
        # rows of one hash are put in the order of their content: equal rows stand side by side
        for i in range(1, size):
            k = i
            while k > 0 and hashes[order[k - 1]] == hashes[order[k]]:
                left, right = start + order[k - 1], start + order[k]
                if not _after(
                    words[offsets[left] : offsets[left + 1]],
                    words[offsets[right] : offsets[right + 1]],
                ):
                    break
                order[k - 1], order[k] = order[k], order[k - 1]
                k -= 1
        drawn = np.empty(size, np.uint64)
        copy = 0
        for i in range(size):
            here = start + order[i]
            copy = copy + 1
            if i == 0 or hashes[order[i]] != hashes[order[i - 1]]:
                copy = 0
            else:
                before = start + order[i - 1]
                if _after(
                    words[offsets[here] : offsets[here + 1]],
                    words[offsets[before] : offsets[before + 1]],
                ):
                    copy = 0
            two[0], two[1] = hashes[order[i]], np.uint64(copy)
            drawn[i] = sip_words(two, np.uint64(16) << np.uint64(56), low, high)
        chosen = np.argsort(drawn, kind="mergesort")
        for i in range(most):
            keep[start + order[chosen[i]]] = True
    return keep


@njit(cache=True, nogil=True)
def count_tables(
    codes: NDArray[Any],
    folded: NDArray[np.uint32],
    tables: NDArray[np.int64],
    starts: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Add every row to several tables: table t has a cell for each pair of column tables[t, 0] of
    `codes` and column tables[t, 1] of `folded`, whose numbers are below tables[t, 2]; its cells
    begin at starts[t]."""
    for t in range(tables.shape[0]):
        first, second = codes[tables[t, 0]], folded[tables[t, 1]]
        width, start = tables[t, 2], starts[t]
        for i in range(first.size):
            out[start + np.int64(first[i]) * width + np.int64(second[i])] += 1


@njit(cache=True, nogil=True)
def tidy_records(
    codes: NDArray,
    lengths: NDArray[np.int64],
    most: int,
    items: NDArray,
    offsets: NDArray[np.int64],
    filled: NDArray[np.bool_],
) -> int:
    """Write each record's codes (negative ones are no items) ascending and once each; returns how
    many records have any, and says in `filled` which.

    A record keeps its `most` least codes: it is cut by a rule that looks at nothing else. Long
    records are sorted through a copy, so that one record with every item does not take a quadratic
    time.
    """
    record, used, at = 0, 0, 0
    for row in range(lengths.size):
        stop = at + lengths[row]
        begin = used
        if stop - at <= 64:
            for k in range(at, stop):
                x = codes[k]
                if x < 0:
                    continue
                j = used - 1
                while j >= begin and items[j] > x:
                    j -= 1
                if j >= begin and items[j] == x:
                    continue
                for i in range(used - 1, j, -1):
                    items[i + 1] = items[i]
                items[j + 1] = x
                used += 1
        else:
            ordered = np.sort(codes[at:stop])
            for k in range(ordered.size):
                x = ordered[k]
                if x >= 0 and (used == begin or items[used - 1] != x):
                    items[used] = x
                    used += 1
        used = min(used, begin + most)
        filled[row] = used > begin
        if filled[row]:
            record += 1
            offsets[record] = used
        at = stop
    return record
