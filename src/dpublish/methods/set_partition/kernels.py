"""Loops of the set partitioning: grouping records by the children they touch, and building the next
partitions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

# Below this many records an insertion sort is faster than clearing a table of all masks.
SMALL_GROUP = 128
# Up to this many children a table of all masks is worth clearing.
TABLE_BITS = 12


@njit(cache=True, nogil=True)
def sign_records(
    items: NDArray,
    offsets: NDArray[np.int64],
    front: NDArray[np.int32],
    signs: NDArray[np.int32],
    counts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """Which members of a frontier across the taxonomy each record touches, as bits; how many
    records and items have each."""
    k = offsets[0]
    for record in range(signs.size):
        sign, begin, end = np.int32(0), k, offsets[record + 1]
        while k < end:
            sign |= front[items[k]]
            k += 1
        signs[record] = sign
        counts[sign] += 1
        lengths[sign] += end - begin


@njit(cache=True, nogil=True)
def order_records(
    items: NDArray,
    offsets: NDArray[np.int64],
    signs: NDArray[np.int32],
    record_at: NDArray[np.int64],
    item_at: NDArray[np.int64],
    to_items: NDArray,
    to_offsets: NDArray,
) -> None:
    """Copy the records sign by sign; `record_at` and `item_at` say where each sign begins, and are
    used up."""
    for record in range(signs.size):
        sign = signs[record]
        to = item_at[sign]
        to_offsets[record_at[sign]] = to
        record_at[sign] += 1
        for k in range(offsets[record], offsets[record + 1]):
            to_items[to] = items[k]
            to += 1
        item_at[sign] = to
    to_offsets[signs.size] = offsets[signs.size]


@njit(cache=True, nogil=True)
def split_parts(
    parts: NDArray[np.int64],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    side: NDArray[np.int32],
    nodes: NDArray[np.int32],
    width: int,
    move: bool,
    runs: tuple[NDArray[np.int32], NDArray[np.int64]],
    copies: tuple[NDArray, NDArray, NDArray, NDArray],
    tree: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]],
    scratch: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]],
    out: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]],
) -> int:
    """Group the records first..last of each partition by the children of its node that they touch;
    list the groups.

    Records are sorted so that all groups of nodes above the frontier (the rows of `runs[0]`) lie
    together: those are read off the runs. Below it there are two copies of the records, as (items,
    offsets, items, offsets), and `side` says in which one a partition is. With `move` its records
    are written to the other one in the new order, items and all, so that every later look at a
    group reads memory from front to back. Both copies agree on where a partition begins and ends.
    `out` takes partition, mask, first record and number of records of each group, sorted by
    partition, then by mask; returns how many.
    """
    start, stop, depth, ordinal = tree
    bits, keys, table, lengths = scratch
    found = 0
    for g in range(parts.size):
        p, node = parts[g], nodes[g]
        begin, size = first[p], last[p] - first[p]
        if size == 0:
            continue
        if node < runs[0].shape[0]:
            found = _by_runs(g, begin, last[p], runs[0][node], runs[1], out, found)
            continue
        source, target = (copies[0], copies[1]), (copies[2], copies[3])
        if side[p] != 0:
            source, target = target, source
        _touched(begin, size, source, start[node], stop[node], ordinal[depth[node]], bits, keys)
        if size > SMALL_GROUP and width <= TABLE_BITS:
            found = _by_table(
                g, begin, size, 1 << width, move, source, target, keys, table, lengths, out, found
            )
        else:
            place = (
                np.argsort(keys[:size], kind="mergesort")
                if size > SMALL_GROUP
                else _insertion(keys, size)
            )
            found = _by_order(g, begin, size, place, move, source, target, keys, out, found)
        if move:
            target[1][begin + size] = source[1][begin + size]
    return found


@njit(cache=True, nogil=True, inline="always")
def _list(out: tuple, found: int, group: int, mask: int, first: int, count: int) -> int:
    out[0][found], out[1][found], out[2][found], out[3][found] = group, mask, first, count
    return found + 1


@njit(cache=True, nogil=True, inline="always")
def _copy(record: int, source: tuple, target: tuple, at: int, to: int) -> int:
    """Write a record as number `at` of the other copy, items from `to` on; returns where they
    end."""
    target[1][at] = to
    for k in range(source[1][record], source[1][record + 1]):
        target[0][to] = source[0][k]
        to += 1
    return to


@njit(cache=True, nogil=True)
def _by_runs(
    group: int,
    begin: int,
    end: int,
    masks: NDArray[np.int32],
    run_first: NDArray[np.int64],
    out: tuple,
    found: int,
) -> int:
    """Run r begins at record `run_first[r]`, and `masks[r]` says which children of the node its
    records touch."""
    run = np.searchsorted(run_first, begin)
    while run_first[run] < end:
        mask, at = masks[run], run_first[run]
        while run_first[run] < end and masks[run] == mask:
            run += 1
        found = _list(out, found, group, mask, at, run_first[run] - at)
    return found


@njit(cache=True, nogil=True)
def _touched(
    begin: int,
    size: int,
    source: tuple,
    low: int,
    high: int,
    ordinal: NDArray[np.uint8],
    bits: NDArray[np.int32],
    keys: NDArray[np.int32],
) -> None:
    """Which children of a node that covers low..high each record touches, as bits. `bits` is all
    zero before and after."""
    items, offsets = source
    if high - low > 4 * size:
        for i in range(size):
            mask = np.int32(0)
            for k in range(offsets[begin + i], offsets[begin + i + 1]):
                x = items[k]
                if low <= x < high:
                    mask |= np.int32(1) << np.int32(ordinal[x])
            keys[i] = mask
        return
    for x in range(low, high):
        bits[x] = np.int32(1) << np.int32(ordinal[x])
    k = offsets[begin]
    for i in range(size):
        mask, after = np.int32(0), offsets[begin + i + 1]
        while k < after:
            mask |= bits[items[k]]
            k += 1
        keys[i] = mask
    for x in range(low, high):
        bits[x] = 0


@njit(cache=True, nogil=True)
def _by_table(
    group: int,
    begin: int,
    size: int,
    masks: int,
    move: bool,
    source: tuple,
    target: tuple,
    keys: NDArray[np.int32],
    table: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: tuple,
    found: int,
) -> int:
    offsets = source[1]
    for mask in range(masks):
        table[mask] = 0
        lengths[mask] = 0
    for i in range(size):
        mask = keys[i]
        table[mask] += 1
        lengths[mask] += offsets[begin + i + 1] - offsets[begin + i]
    at, place = 0, np.int64(offsets[begin])
    for mask in range(masks):
        count, length = table[mask], lengths[mask]
        table[mask], lengths[mask] = at, place
        if count > 0:
            found = _list(out, found, group, mask, begin + at, count)
            at += count
            place += length
    if move:
        for i in range(size):
            mask = keys[i]
            lengths[mask] = _copy(begin + i, source, target, begin + table[mask], lengths[mask])
            table[mask] += 1
    return found


@njit(cache=True, nogil=True)
def _by_order(
    group: int,
    begin: int,
    size: int,
    place: NDArray[np.int64],
    move: bool,
    source: tuple,
    target: tuple,
    keys: NDArray[np.int32],
    out: tuple,
    found: int,
) -> int:
    to: int = source[1][begin]
    count = 0
    for i in range(size):
        record = place[i]
        count += 1
        if move:
            to = _copy(begin + record, source, target, begin + i, to)
        if i + 1 == size or keys[place[i + 1]] != keys[record]:
            found = _list(out, found, group, keys[record], begin + i + 1 - count, count)
            count = 0
    return found


@njit(cache=True, nogil=True)
def _insertion(keys: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """The order of few keys, ties in their own order."""
    place = np.arange(size)
    for i in range(1, size):
        record, key, j = place[i], keys[place[i]], i - 1
        while j >= 0 and keys[place[j]] > key:
            place[j + 1] = place[j]
            j -= 1
        place[j + 1] = record
    return place


@njit(cache=True, nogil=True)
def grow_cuts(
    parents: NDArray[np.int64],
    masks: NDArray[np.int32],
    child_offset: NDArray[np.int32],
    child: NDArray[np.int32],
    internal: NDArray[np.int64],
    pool: NDArray[np.int32],
    cut: NDArray[np.int64],
    waiting: NDArray[np.int32],
    fixed: NDArray[np.int32],
    ahead: NDArray[np.int64],
    new: int,
    used: int,
) -> int:
    """The cuts of new partitions `new`...: the parent's cut with its first node replaced by the
    children in the mask.

    A cut is stored as its internal nodes, in the order in which they are to be expanded, then its
    items. Returns the end of the used part of the pool.
    """
    for i in range(parents.size):
        parent, me, mask = parents[i], new + i, masks[i]
        begin, queue, items = cut[parent], waiting[parent], fixed[parent]
        node = pool[begin]
        cut[me] = used
        left = ahead[parent] - internal[node]
        for j in range(1, queue):
            pool[used] = pool[begin + j]
            used += 1
        grown = queue - 1
        for c in range(child_offset[node], child_offset[node + 1]):
            if (mask >> (c - child_offset[node])) & 1 and child[c] < 0:
                pool[used] = ~child[c]
                left += internal[~child[c]]
                used += 1
                grown += 1
        waiting[me] = grown
        ahead[me] = left
        for j in range(items):
            pool[used] = pool[begin + queue + j]
            used += 1
        settled = items
        for c in range(child_offset[node], child_offset[node + 1]):
            if (mask >> (c - child_offset[node])) & 1 and child[c] >= 0:
                pool[used] = child[c]
                used += 1
                settled += 1
        fixed[me] = settled
    return used


@njit(cache=True, nogil=True)
def count_likely(
    new: int,
    stop: int,
    pool: NDArray[np.int32],
    cut: NDArray[np.int64],
    waiting: NDArray[np.int32],
    below: NDArray[np.int32],
    typical: int,
    likely: NDArray[np.int64],
) -> None:
    """How many splits are ahead of a record that touches at most `typical` nodes of a depth, for
    partitions new..stop."""
    depths = below.shape[1]
    sums = np.zeros(depths, np.int64)
    for me in range(new, stop):
        sums[:] = 0
        for j in range(cut[me], cut[me] + waiting[me]):
            for depth in range(depths):
                sums[depth] += below[pool[j], depth]
        total = 0
        for depth in range(depths):
            total += min(sums[depth], typical)
        likely[me] = total


@njit(cache=True, nogil=True)
def write_members(
    parents: NDArray[np.int64],
    masks: NDArray[np.int32],
    child_offset: NDArray[np.int32],
    child: NDArray[np.int32],
    pool: NDArray[np.int32],
    cut: NDArray[np.int64],
    waiting: NDArray[np.int32],
    fixed: NDArray[np.int32],
    sizes: NDArray[np.int32],
    out: NDArray[np.int32],
) -> int:
    """The items of finished partitions, sorted within each; their numbers go to `sizes`. Returns
    how many were written."""
    used = 0
    for i in range(parents.size):
        parent, mask, begin = parents[i], masks[i], used
        at = cut[parent] + waiting[parent]
        for j in range(fixed[parent]):
            out[used] = pool[at + j]
            used += 1
        if mask != 0:
            node = pool[cut[parent]]
            for c in range(child_offset[node], child_offset[node + 1]):
                if (mask >> (c - child_offset[node])) & 1:
                    out[used] = child[c]
                    used += 1
        sizes[i] = used - begin
        for j in range(begin + 1, used):
            x, k = out[j], j - 1
            while k >= begin and out[k] > x:
                out[k + 1] = out[k]
                k -= 1
            out[k + 1] = x
    return used


@njit(cache=True, nogil=True)
def keep_leading_bits(values: NDArray[np.int64], bits: int, out: NDArray[np.int64]) -> None:
    """Each value with all but its leading `bits` binary digits set to zero."""
    for i in range(values.size):
        x, length = values[i], 0
        while x > 0:
            x >>= 1
            length += 1
        shift = max(0, length - bits)
        out[i] = (values[i] >> shift) << shift


@njit(cache=True, nogil=True)
def relabel(
    items: NDArray, offsets: NDArray[np.int64], position: NDArray[np.int32]
) -> NDArray[np.int32]:
    """The items of every record as positions of a taxonomy, sorted within the record."""
    out = np.empty(items.size, np.int32)
    for record in range(offsets.size - 1):
        begin = offsets[record]
        for q in range(begin, offsets[record + 1]):
            x, k = position[items[q]], q - 1
            while k >= begin and out[k] > x:
                out[k + 1] = out[k]
                k -= 1
            out[k + 1] = x
    return out


@njit(cache=True, nogil=True)
def record_masks(items: NDArray, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each record of a small universe as bits."""
    out = np.zeros(offsets.size - 1, np.int64)
    for record in range(out.size):
        for q in range(offsets[record], offsets[record + 1]):
            out[record] |= np.int64(1) << np.int64(items[q])
    return out
