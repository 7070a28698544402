"""Top-down partitioning of set-valued records, with all private numbers leaving through the sparse
Laplace tap.

The order of work is a function of public facts and noisy answers alone. Partitions wait in buckets
by the budget of their next expansion; the smallest budget is served first, and one draw answers all
partitions of a bucket. A child's budget is never smaller than its parent's, so every bucket is
served a few times at most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints, Words
from dpublish.declare.taxonomy import Taxonomy
from dpublish.errors import PrivateSideError
from dpublish.methods.set_partition.kernels import (
    TABLE_BITS,
    count_likely,
    grow_cuts,
    keep_leading_bits,
    order_records,
    relabel,
    sign_records,
    split_parts,
    write_members,
)
from dpublish.methods.set_partition.transactions import Baskets
from dpublish.noise.base import Noise

QUANTA = 1 << 40
"""Half of the partitioning epsilon, in quanta: budgets are integers, so that they add up
exactly."""

PARTITION_COLUMNS = ("parent", "mask", "count", "law", "next", "next_law")
"""What is published of a partition. `next` is the node that was split, -1 for an itemset;
`next_law` governed its parts."""

SIGN_BITS = 16
"""How many members the frontier of the first sort may have."""

LEAST_SHARE = QUANTA >> 24
"""A partition whose next split would get fewer quanta is left as it is: nothing could be seen at
such noise."""


Threshold = Callable[[int, int, int], int]
"""(quanta, width of the node, height of the node) to the threshold that a noisy count must
exceed."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What governs a run, all of it public."""

    epsilon: Fraction
    sensitivity: Fraction
    partition_threshold: Threshold
    leaf_threshold: Threshold
    step_bits: int
    leaf_bits: int
    max_partitions: int
    typical_items: int | None = None

    def epsilon_of(self, quanta: int) -> Fraction:
        return self.epsilon * quanta / (2 * QUANTA)

    def scale_of(self, quanta: int) -> Fraction:
        """The noise scale of a count that gets so many quanta."""
        return self.sensitivity / self.epsilon_of(quanta)


class SortedRecords:
    """A copy of the records, sorted so that every group that a split above a certain depth can form
    lies together.

    The frontier is the set of nodes (and items) at that depth. Which of its members a record
    touches, its sign, decides what becomes of the record in all splits above; records are sorted by
    the answers to those splits, in the order of the splits. Runs of equal signs then stand for
    their records, and the first splits, which concern all of them, read no record at all.
    """

    def __init__(self, items: NDArray[Any], offsets: NDArray[np.int64], taxonomy: Taxonomy) -> None:
        front, bits, above = _frontier(taxonomy)
        signs = np.empty(offsets.size - 1, dtype=np.int32)
        counts, lengths = np.zeros(1 << bits, dtype=np.int64), np.zeros(1 << bits, dtype=np.int64)
        sign_records(
            items, offsets, np.left_shift(1, front, dtype=np.int32), signs, counts, lengths
        )
        seen = np.flatnonzero(counts)
        masks = np.zeros((above, seen.size), dtype=np.int32)
        for node in range(above):
            for place, member in enumerate(taxonomy.children(node)):
                low, high = (
                    (member, member + 1)
                    if member >= 0
                    else (taxonomy.start[~member], taxonomy.stop[~member])
                )
                under = (1 << (int(front[high - 1]) + 1)) - (1 << int(front[low]))
                masks[node] |= np.where(seen & under, np.int32(1 << place), np.int32(0))
        order = np.lexsort(masks[::-1]) if above else np.arange(seen.size)
        seen, self.masks = seen[order], np.ascontiguousarray(masks[:, order])
        self.run_first = np.concatenate([[0], np.cumsum(counts[seen])]).astype(np.int64)
        item_first = np.cumsum(lengths[seen]) - lengths[seen]
        counts[seen], lengths[seen] = self.run_first[:-1], item_first + offsets[0]
        self.items = np.empty_like(items)
        self.offsets = np.empty(offsets.size, dtype=np.int32 if items.size < 1 << 31 else np.int64)
        order_records(items, offsets, signs, counts, lengths, self.items, self.offsets)


def _frontier(taxonomy: Taxonomy) -> tuple[NDArray[np.int32], int, int]:
    """The deepest frontier of at most `SIGN_BITS` members: the member above each leaf, their
    number, the nodes above it."""
    best: tuple[NDArray[np.int32], int, int] | None = None
    for depth in range(int(taxonomy.depth.max()) + 2):
        lead = np.ones(
            taxonomy.items, dtype=np.int32
        )  # a leaf is a member by itself unless a node at this depth covers it
        for node in np.flatnonzero(taxonomy.depth == depth):
            lead[taxonomy.start[node] + 1 : taxonomy.stop[node]] = 0
        members = int(lead.sum())
        if members > SIGN_BITS:
            break
        above = int((taxonomy.depth < depth).sum())
        best = ((np.cumsum(lead) - 1).astype(np.int32), members, above)
    assert best is not None  # at depth 0 the root is the only member
    return best


class Store:
    """All partitions of a run, in order of creation, as growing columns; partition 0 is the
    root."""

    _WIDE = ("parent", "count", "left", "ahead", "likely", "cut")
    _NARROW = (
        "mask",
        "law",
        "next",
        "next_law",
        "first",
        "last",
        "side",
        "moved",
        "waiting",
        "fixed",
    )

    def __init__(self, taxonomy: Taxonomy, records: int, likely: int) -> None:
        self.size, self.used = 1, 1
        self.column: dict[str, NDArray[Any]] = {
            name: np.zeros(1024, dtype=np.int64 if name in self._WIDE else np.int32)
            for name in (*self._WIDE, *self._NARROW)
        }
        self.pool: NDArray[np.int32] = np.zeros(1 << 14, dtype=np.int32)  # the root's cut is node 0
        root = {
            "parent": -1,
            "law": -1,
            "next_law": -1,
            "last": records,
            "left": QUANTA,
            "waiting": 1,
        }
        root |= {"ahead": taxonomy.nodes, "likely": likely}
        for name, value in root.items():
            self.column[name][0] = value

    def reserve(self, more: int, cuts: int) -> None:
        """Room for `more` partitions with `cuts` cut entries."""
        held = self.column["parent"].size
        if self.size + more > held:
            for name, values in self.column.items():
                grown = np.zeros(max(2 * held, self.size + more), dtype=values.dtype)
                grown[: self.size] = values[: self.size]
                self.column[name] = grown
        if self.used + cuts > self.pool.size:
            pool = np.zeros(max(2 * self.pool.size, self.used + cuts), dtype=np.int32)
            pool[: self.used] = self.pool[: self.used]
            self.pool = pool


@dataclass(frozen=True)
class Kept:
    """Sub-partitions whose noisy count passed: parent partition, mask of children, noisy count, and
    their records."""

    parents: NDArray[np.int64]
    masks: NDArray[np.int32]
    counts: Ints
    first: NDArray[np.int32]
    last: NDArray[np.int32]


@dataclass(frozen=True)
class Outcome:
    """What a run publishes. `laws` lists (threshold, scale) of the counts that refer to them;
    `truncated`: work was cut off."""

    partitions: dict[str, NDArray[Any]]
    itemsets: dict[str, NDArray[Any]]
    members: NDArray[np.int32]
    laws: list[tuple[int, Fraction]]
    truncated: bool


class Partitioning:
    """One run over private records."""

    def __init__(self, noise: Noise, baskets: Baskets, taxonomy: Taxonomy, rules: Rules) -> None:
        self._noise, self._taxonomy, self._rules = noise, taxonomy, rules
        records = baskets.records
        items = baskets.items
        if items.size and (int(items.max()) >= taxonomy.items or int(items.min()) < 0):
            raise PrivateSideError()  # the kernels index by item and check nothing
        if not np.array_equal(taxonomy.order, np.arange(taxonomy.items)):
            position = np.empty(taxonomy.items, dtype=np.int32)
            position[taxonomy.order] = np.arange(taxonomy.items, dtype=np.int32)
            items = relabel(items, baskets.offsets, position)
        self._sorted = SortedRecords(items, baskets.offsets, taxonomy)
        self._copy = (np.empty_like(self._sorted.items), np.empty_like(self._sorted.offsets))
        self._keys = np.empty(records, dtype=np.int32)
        self._bits = np.zeros(taxonomy.items, dtype=np.int32)
        self._tables = (
            np.empty(1 << TABLE_BITS, dtype=np.int64),
            np.empty(1 << TABLE_BITS, dtype=np.int64),
        )
        part, mask, first = (np.empty(records, dtype=np.int32) for _ in range(3))
        self._found = (part, mask, first, np.empty(records, dtype=np.int64))
        self._width = np.diff(taxonomy.child_offset)
        self._below = (
            taxonomy.internal_by_depth()
            if rules.typical_items is not None
            else np.zeros((0, 0), dtype=np.int32)
        )
        self._store = Store(taxonomy, records, likely_splits(taxonomy, rules.typical_items))
        self._laws: dict[tuple[int, Fraction], int] = {}
        self._waiting: dict[int, list[NDArray[np.int64]]] = {}
        self._leaves: dict[int, list[NDArray[np.int64]]] = {}
        self._truncated = False
        self._enqueue(0, 1)

    @property
    def waiting(self) -> bool:
        """Whether a partition waits to be split."""
        return bool(self._waiting)

    def split_next(self) -> None:
        """Split the waiting partitions of the least budget."""
        quanta = min(self._waiting)
        for width, height, part in self._alike(np.concatenate(self._waiting.pop(quanta))):
            kept, law = self._ask(
                part, quanta, width, height, self._rules.partition_threshold, "partition"
            )
            if self._store.size + kept.parents.size > self._rules.max_partitions:
                self._truncated = True  # decided by noisy answers alone
                continue
            self._add(kept, quanta, law)

    def _alike(self, ids: NDArray[np.int64]) -> list[tuple[int, int, NDArray[np.int64]]]:
        """Partitions with the same number of children and height of the node to expand, which share
        a threshold."""
        nodes = self._next_nodes(ids)
        kind = self._width[nodes].astype(np.int64) << 8 | self._taxonomy.height[nodes]
        if kind[0] == kind[-1] and (kind == kind[0]).all():
            return [(int(kind[0]) >> 8, int(kind[0]) & 255, ids)]
        return [(int(one) >> 8, int(one) & 255, ids[kind == one]) for one in np.unique(kind)]

    def _next_nodes(self, ids: NDArray[np.int64]) -> NDArray[np.int32]:
        nodes: NDArray[np.int32] = self._store.pool[self._store.column["cut"][ids]]
        return nodes

    def _ask(
        self,
        ids: NDArray[np.int64],
        quanta: int,
        width: int,
        height: int,
        rule: Threshold,
        label: str,
    ) -> tuple[Kept, int]:
        """Noisy counts of every non-empty combination of children, for all partitions `ids` at
        once."""
        cells_each = (1 << width) - 1
        found = self._split(ids, width, move=label != "itemset")
        part, mask, first = (values[:found] for values in self._found[:3])
        count = self._found[3][:found]
        cells = part.astype(np.uint64) * np.uint64(cells_each) + (mask - 1).astype(np.uint64)
        kept, values, law = self._noisy(
            cells, count, ids.size * cells_each, quanta, rule(quanta, width, height), label
        )
        self._store.column["next_law"][ids] = law
        group = (kept // np.uint64(cells_each)).astype(np.int64)
        masks = (kept % np.uint64(cells_each)).astype(np.int32) + np.int32(1)
        begin, end = np.zeros(kept.size, dtype=np.int32), np.zeros(kept.size, dtype=np.int32)
        if found:
            place = np.minimum(np.searchsorted(cells, kept), found - 1)
            hit = cells[place] == kept
            begin[hit] = first[place[hit]]
            end[hit] = begin[hit] + count[place[hit]].astype(np.int32)
        return Kept(ids[group], masks, values, begin, end), law

    def _split(self, ids: NDArray[np.int64], width: int, *, move: bool) -> int:
        """Group the records of each partition by the children of its next node that they touch; how
        many groups there are."""
        column, tree, nodes = self._store.column, self._taxonomy, self._next_nodes(ids)
        if move:  # below the frontier, the children will be found in the other copy
            column["moved"][ids] = nodes >= self._sorted.masks.shape[0]
        return int(
            split_parts(
                ids,
                column["first"],
                column["last"],
                column["side"],
                nodes,
                width,
                move,
                (self._sorted.masks, self._sorted.run_first),
                (self._sorted.items, self._sorted.offsets, *self._copy),
                (tree.start, tree.stop, tree.depth, tree.ordinal),
                (self._bits, self._keys, *self._tables),
                self._found,
            )
        )

    def _noisy(
        self,
        cells: Words,
        counts: Ints,
        domain_size: int,
        quanta: int,
        threshold: int,
        label: str,
    ) -> tuple[Words, Ints, int]:
        kept, values = self._noise.sparse_laplace(
            cells,
            np.ascontiguousarray(counts),
            domain_size=domain_size,
            threshold=threshold,
            sensitivity=self._rules.sensitivity,
            epsilon=self._rules.epsilon_of(quanta),
            label=label,
        )
        law = (threshold, self._rules.scale_of(quanta))
        return kept, values, self._laws.setdefault(law, len(self._laws))

    def _add(self, kept: Kept, quanta: int, law: int) -> None:
        store, new, more = self._store, self._store.size, kept.parents.size
        if more == 0:
            return
        column = store.column
        room = int(
            (column["waiting"][kept.parents].astype(np.int64) + column["fixed"][kept.parents]).sum()
        )
        store.reserve(more, room + more * self._taxonomy.widest)
        column, stop = store.column, new + more
        column["parent"][new:stop], column["mask"][new:stop] = kept.parents, kept.masks
        column["count"][new:stop], column["law"][new:stop] = kept.counts, law
        column["first"][new:stop], column["last"][new:stop] = kept.first, kept.last
        column["side"][new:stop] = column["side"][kept.parents] ^ column["moved"][kept.parents]
        column["left"][new:stop] = column["left"][kept.parents] - quanta
        store.used = grow_cuts(
            kept.parents,
            kept.masks,
            self._taxonomy.child_offset,
            self._taxonomy.child,
            self._taxonomy.internal,
            store.pool,
            column["cut"],
            column["waiting"],
            column["fixed"],
            column["ahead"],
            new,
            store.used,
        )
        if self._rules.typical_items is None:
            column["likely"][new:stop] = column["ahead"][new:stop]
        else:
            count_likely(
                new,
                stop,
                store.pool,
                column["cut"],
                column["waiting"],
                self._below,
                self._rules.typical_items,
                column["likely"],
            )
        done = column["waiting"][new:stop] == 0
        column["next"][new:stop] = np.where(
            done, -1, store.pool[np.minimum(column["cut"][new:stop], store.pool.size - 1)]
        )
        column["next_law"][new:stop] = -1
        store.size = stop
        self._enqueue(new, stop)

    def _enqueue(self, new: int, stop: int) -> None:
        """Give each new partition its next budget: an equal share of what is left for every
        expansion that is likely ahead."""
        column = self._store.column
        left, ahead, likely = (column[name][new:stop] for name in ("left", "ahead", "likely"))
        last = (
            ahead <= 1
        )  # one expansion or none: what comes next are itemsets, and they get all that is left
        ids = np.arange(new, stop, dtype=np.int64)
        shares = np.where(last, QUANTA + left, left // np.maximum(likely, 1))
        for final, bits, buckets in (
            (False, self._rules.step_bits, self._waiting),
            (True, self._rules.leaf_bits, self._leaves),
        ):
            chosen = (last == final) & (shares >= LEAST_SHARE)
            if not chosen.any():
                continue
            quanta = np.empty(int(chosen.sum()), dtype=np.int64)
            keep_leading_bits(shares[chosen], bits, quanta)
            for one in np.unique(quanta):
                buckets.setdefault(int(one), []).append(ids[chosen][quanta == one])

    def count_itemsets(self) -> Outcome:
        """Count the itemsets: the combinations below a last expansion, and partitions that hold
        nothing but items already."""
        column, blocks = self._store.column, list[tuple[Kept, int]]()
        for quanta in sorted(self._leaves):
            ids = np.concatenate(self._leaves[quanta])
            done = column["ahead"][ids] == 0
            for width, height, part in self._alike(ids[~done]) if not done.all() else []:
                blocks.append(
                    self._ask(part, quanta, width, height, self._rules.leaf_threshold, "itemset")
                )
            if done.any():
                blocks.append(self._ask_leaves(ids[done], quanta))
        parents = _joined([kept.parents for kept, _ in blocks], np.int64)
        masks = _joined([kept.masks for kept, _ in blocks], np.int32)
        counts = _joined([kept.counts for kept, _ in blocks], np.int64)
        laws = _joined(
            [np.full(kept.parents.size, law, dtype=np.int32) for kept, law in blocks], np.int32
        )
        room = int(column["fixed"][parents].sum()) + int(parents.size) * self._taxonomy.widest
        sizes, members = np.empty(parents.size, dtype=np.int32), np.empty(room, dtype=np.int32)
        used = write_members(
            parents,
            masks,
            self._taxonomy.child_offset,
            self._taxonomy.child,
            self._store.pool,
            column["cut"],
            column["waiting"],
            column["fixed"],
            sizes,
            members,
        )
        order, members = in_order(sizes, members[:used])
        size = self._store.size
        return Outcome(
            partitions={name: column[name][:size].copy() for name in PARTITION_COLUMNS},
            itemsets={
                "parent": parents[order],
                "mask": masks[order],
                "size": sizes[order],
                "count": counts[order],
                "law": laws[order],
            },
            members=members,
            laws=list(self._laws),
            truncated=self._truncated,
        )

    def _ask_leaves(self, ids: NDArray[np.int64], quanta: int) -> tuple[Kept, int]:
        """Partitions whose cut is an itemset already (uneven taxonomies): one cell each."""
        column = self._store.column
        sizes = (column["last"][ids] - column["first"][ids]).astype(np.int64)
        held = np.flatnonzero(sizes)
        kept, values, law = self._noisy(
            held.astype(np.uint64),
            sizes[held],
            ids.size,
            quanta,
            self._rules.leaf_threshold(quanta, 1, 0),
            "itemset",
        )
        column["next_law"][ids] = law
        none = np.zeros(kept.size, dtype=np.int32)
        return Kept(ids[kept.astype(np.int64)], none, values, none, none), law


def likely_splits(taxonomy: Taxonomy, typical_items: int | None) -> int:
    """How many splits a record of at most `typical_items` items may pass: at every depth as many as
    it can touch nodes."""
    if typical_items is None:
        return taxonomy.nodes
    return int(np.minimum(np.bincount(taxonomy.depth), typical_items).sum())


def _joined(parts: list[NDArray[Any]], kind: type[np.signedinteger[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=kind)


def in_order(
    sizes: NDArray[np.int32], members: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Order itemsets by size, then by their items; returns the order and the members in it."""
    starts = np.cumsum(sizes, dtype=np.int64) - sizes
    order, parts = [], []
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        block = members[starts[rows][:, None] + np.arange(size)]
        place = np.lexsort(block.T[::-1])
        order.append(rows[place])
        parts.append(block[place].ravel())
    return _joined(order, np.int64), _joined(parts, np.int32)
