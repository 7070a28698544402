"""Loops of the set partitioning: grouping records by the children they touch, and building the next partitions."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

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
    """Which members of a frontier across the taxonomy each record touches, as bits; how many records and items have each."""
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
    """Copy the records sign by sign; `record_at` and `item_at` say where each sign begins, and are used up."""
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
def split_runs(
    parts: NDArray[np.int64],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    nodes: NDArray[np.int32],
    masks: NDArray[np.int32],
    run_first: NDArray[np.int64],
    out_part: NDArray[np.int32],
    out_mask: NDArray[np.int32],
    out_first: NDArray[np.int32],
    out_count: NDArray[np.int64],
) -> int:
    """As `split_records`, for nodes above the frontier: records are sorted so that all such groups lie together already.

    Run r begins at record `run_first[r]`, and `masks[node, r]` says which children of the node its records touch.
    """
    found = 0
    for g in range(parts.size):
        begin, end, node = first[parts[g]], last[parts[g]], nodes[g]
        if begin == end:
            continue
        run = np.searchsorted(run_first, begin)
        while run_first[run] < end:
            mask, at = masks[node, run], run_first[run]
            while run_first[run] < end and masks[node, run] == mask:
                run += 1
            out_part[found], out_mask[found], out_first[found], out_count[found] = g, mask, at, run_first[run] - at
            found += 1
    return found


@njit(cache=True, nogil=True)
def split_records(
    parts: NDArray[np.int64],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    side: NDArray[np.int32],
    nodes: NDArray[np.int32],
    width: int,
    move: bool,
    items_0: NDArray,
    offsets_0: NDArray,
    items_1: NDArray,
    offsets_1: NDArray,
    start: NDArray[np.int32],
    stop: NDArray[np.int32],
    depth: NDArray[np.int32],
    ordinal: NDArray[np.uint8],
    bits: NDArray[np.int32],
    keys: NDArray[np.int32],
    table: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out_part: NDArray[np.int32],
    out_mask: NDArray[np.int32],
    out_first: NDArray[np.int32],
    out_count: NDArray[np.int64],
) -> int:
    """Group the records first..last of each partition by the children of its node that they touch; list the groups.

    There are two copies of the records and `side` says in which one a partition is. With `move` its records are written to the
    other one in the new order, items and all, so that every later look at a group reads memory from front to back. Both copies
    agree on where a partition begins and ends. Results are sorted by partition, then by mask; returns how many there are.
    """
    found = 0
    for g in range(parts.size):
        p, node = parts[g], nodes[g]
        begin, size = first[p], last[p] - first[p]
        if size == 0:
            continue
        if side[p] == 0:
            items, offsets, to_items, to_offsets = items_0, offsets_0, items_1, offsets_1
        else:
            items, offsets, to_items, to_offsets = items_1, offsets_1, items_0, offsets_0
        _touched(begin, size, items, offsets, start[node], stop[node], ordinal[depth[node]], bits, keys)
        if size > SMALL_GROUP and width <= TABLE_BITS:
            found = _by_table(
                g, begin, size, 1 << width, move, items, offsets, to_items, to_offsets, keys, table, lengths,
                out_part, out_mask, out_first, out_count, found,
            )  # fmt: skip
        else:
            place = np.argsort(keys[:size], kind="mergesort") if size > SMALL_GROUP else _insertion(keys, size)
            found = _by_order(
                g, begin, size, place, move, items, offsets, to_items, to_offsets, keys, out_part, out_mask,
                out_first, out_count, found,
            )  # fmt: skip
        if move:
            to_offsets[begin + size] = offsets[begin + size]
    return found


@njit(cache=True, nogil=True)
def _touched(
    begin: int,
    size: int,
    items: NDArray,
    offsets: NDArray,
    low: int,
    high: int,
    ordinal: NDArray[np.uint8],
    bits: NDArray[np.int32],
    keys: NDArray[np.int32],
) -> None:
    """Which children of a node that covers low..high each record touches, as bits. `bits` is all zero before and after."""
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
    items: NDArray,
    offsets: NDArray,
    spare_items: NDArray,
    spare_offsets: NDArray,
    keys: NDArray[np.int32],
    table: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out_part: NDArray[np.int32],
    out_mask: NDArray[np.int32],
    out_first: NDArray[np.int32],
    out_count: NDArray[np.int64],
    found: int,
) -> int:
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
            out_part[found], out_mask[found], out_first[found], out_count[found] = group, mask, begin + at, count
            found += 1
            at += count
            place += length
    if move:
        for i in range(size):
            mask = keys[i]
            to = lengths[mask]
            spare_offsets[begin + table[mask]] = to
            table[mask] += 1
            for k in range(offsets[begin + i], offsets[begin + i + 1]):
                spare_items[to] = items[k]
                to += 1
            lengths[mask] = to
    return found


@njit(cache=True, nogil=True)
def _by_order(
    group: int,
    begin: int,
    size: int,
    place: NDArray[np.int64],
    move: bool,
    items: NDArray,
    offsets: NDArray,
    spare_items: NDArray,
    spare_offsets: NDArray,
    keys: NDArray[np.int32],
    out_part: NDArray[np.int32],
    out_mask: NDArray[np.int32],
    out_first: NDArray[np.int32],
    out_count: NDArray[np.int64],
    found: int,
) -> int:
    to = offsets[begin]
    count = 0
    for i in range(size):
        record = place[i]
        count += 1
        if move:
            spare_offsets[begin + i] = to
            for k in range(offsets[begin + record], offsets[begin + record + 1]):
                spare_items[to] = items[k]
                to += 1
        if i + 1 == size or keys[place[i + 1]] != keys[record]:
            out_part[found], out_mask[found] = group, keys[record]
            out_first[found], out_count[found] = begin + i + 1 - count, count
            found += 1
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
    """The cuts of new partitions `new`...: the parent's cut with its first node replaced by the children in the mask.

    A cut is stored as its internal nodes, in the order in which they are to be expanded, then its items. Returns the end of
    the used part of the pool.
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
    """The items of finished partitions, sorted within each; their numbers go to `sizes`. Returns how many were written."""
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
def relabel(items: NDArray, offsets: NDArray[np.int64], position: NDArray[np.int32]) -> NDArray[np.int32]:
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
