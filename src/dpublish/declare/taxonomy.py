"""The item taxonomy that guides a top-down partitioning: a tree whose leaves are the declared
items.

It comes from public facts alone: the declared item order and a fan-out ("context-free": neighbours
in the list are grouped, level by level), or a tree that the curator writes down. No row is ever
consulted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import PlanError, did_you_mean

MIN_FANOUT = 2
MAX_FANOUT = 24
MAX_DEPTH = 64
MAX_TABLE = 1 << 28
OTHER_ITEM = "(other)"

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """Internal nodes are numbered in breadth-first order, the root is 0. Leaves are positions in
    `order`.

    Every node covers a contiguous stretch of leaf positions. `child` lists the children node by
    node: a leaf as its position, an internal node as ~number. `ordinal[d, x]` says which child of
    its ancestor at depth d the leaf x is under.
    """

    order: Ints
    start: Ints
    stop: Ints
    height: Ints
    depth: Ints
    internal: NDArray[np.int64]
    child_offset: Ints
    child: Ints
    ordinal: NDArray[np.uint8]

    @property
    def nodes(self) -> int:
        """How many internal nodes there are: the longest chain of expansions."""
        return int(self.start.size)

    @property
    def items(self) -> int:
        return int(self.order.size)

    @property
    def widest(self) -> int:
        """The largest number of children of a node."""
        return int(np.diff(self.child_offset).max())

    def internal_by_depth(self) -> Ints:
        """`[u, d]`: how many internal nodes at depth d are below node u or are u itself."""
        out = np.zeros((self.nodes, int(self.depth.max()) + 1), dtype=np.int32)
        out[np.arange(self.nodes), self.depth] = 1
        parent = np.zeros(self.nodes, dtype=np.int64)
        inner = self.child < 0
        parent[~self.child[inner]] = np.repeat(np.arange(self.nodes), np.diff(self.child_offset))[
            inner
        ]
        for depth in range(out.shape[1] - 1, 0, -1):
            here = np.flatnonzero(self.depth == depth)
            np.add.at(out, parent[here], out[here])
        return out

    def children(self, node: int) -> list[int]:
        return [int(c) for c in self.child[self.child_offset[node] : self.child_offset[node + 1]]]


def context_free(items: int, fanout: int) -> Taxonomy:
    """Group `fanout` neighbours a level until one node is left; the last group of a level may be
    smaller."""
    if (
        isinstance(fanout, bool)
        or not isinstance(fanout, int)
        or not MIN_FANOUT <= fanout <= MAX_FANOUT
    ):
        raise PlanError(
            f"fanout must be a whole number from {MIN_FANOUT} to {MAX_FANOUT}, not {fanout}."
        )
    sizes = [items]
    while sizes[-1] > 1 or len(sizes) == 1:
        sizes.append(-(-sizes[-1] // fanout))
    top = len(sizes) - 1
    first = np.concatenate([[0], np.cumsum(sizes[:0:-1])])  # number of the first node of each depth
    parts: dict[str, list[NDArray[Any]]] = {
        name: [] for name in ("start", "stop", "height", "depth", "counts", "child")
    }
    inside: list[NDArray[np.int64]] = []
    below = np.zeros(items, dtype=np.int64)
    for level in range(1, top + 1):
        place = np.arange(sizes[level], dtype=np.int64)
        below = 1 + np.add.reduceat(below, place * fanout)
        inside.insert(0, below)
    for depth in range(top):
        level = top - depth
        place = np.arange(sizes[level], dtype=np.int64)
        parts["start"].append(place * fanout**level)
        parts["stop"].append(np.minimum((place + 1) * fanout**level, items))
        parts["height"].append(np.full(sizes[level], level))
        parts["depth"].append(np.full(sizes[level], depth))
        parts["counts"].append(np.minimum((place + 1) * fanout, sizes[level - 1]) - place * fanout)
        under = np.arange(sizes[level - 1], dtype=np.int64)
        parts["child"].append(under if level == 1 else ~(under + first[depth + 1]))
    positions = np.arange(items, dtype=np.int64)
    ordinal = np.stack(
        [(positions // fanout ** (top - depth - 1)) % fanout for depth in range(top)]
    ).astype(np.uint8)
    joined = {name: np.concatenate(arrays).astype(np.int32) for name, arrays in parts.items()}
    return Taxonomy(
        order=positions.astype(np.int32),
        start=joined["start"],
        stop=joined["stop"],
        height=joined["height"],
        depth=joined["depth"],
        internal=np.concatenate(inside),
        child_offset=np.concatenate([[0], np.cumsum(joined["counts"])]).astype(np.int32),
        child=joined["child"],
        ordinal=ordinal,
    )


def written(tree: object, names: Sequence[str]) -> Taxonomy:
    """A taxonomy that the curator wrote: nested mappings (group name to content) and lists, with
    item names as leaves.

    As text it is JSON. Every declared item must occur exactly once; '(other)' may be left out and
    then hangs from the root.
    """
    if isinstance(tree, str):
        try:
            tree = json.loads(tree)
        except json.JSONDecodeError as error:
            raise PlanError(f"taxonomy is not valid JSON: {error}.") from None
    place = {name: index for index, name in enumerate(names)}
    if not isinstance(tree, Mapping | list | tuple):
        raise PlanError(
            "taxonomy must be nested groups, for example {'dairy': ['milk', 'butter'], 'bakery': "
            "['bread']}."
        )
    parsed = _Reader(place).read(tree, depth=0)
    assert isinstance(parsed, list)
    for index in sorted(set(place.values()) - set(_leaves(parsed))):
        if names[index] != OTHER_ITEM:
            raise PlanError(
                f"The taxonomy leaves out the item '{names[index]}'. Every declared item must be "
                f"in it."
            )
        parsed.append(index)
    return _numbered(parsed, len(names))


class _Reader:
    def __init__(self, place: Mapping[str, int]) -> None:
        self._place = place
        self._seen: set[int] = set()

    def read(self, tree: object, *, depth: int) -> int | list[Any]:
        if depth > MAX_DEPTH:
            raise PlanError(f"The taxonomy is more than {MAX_DEPTH} levels deep.")
        if isinstance(tree, str | int) and not isinstance(tree, bool):
            return self._item(str(tree))
        if not isinstance(tree, Mapping | list | tuple):
            raise PlanError(
                f"The taxonomy holds a {type(tree).__name__}; groups hold item names and groups."
            )
        content = list(tree.values() if isinstance(tree, Mapping) else tree)
        if not 1 <= len(content) <= MAX_FANOUT:
            raise PlanError(
                f"A group of the taxonomy has {len(content)} members; it may have 1 to "
                f"{MAX_FANOUT}. Divide it."
            )
        return [self.read(part, depth=depth + 1) for part in content]

    def _item(self, name: str) -> int:
        if name not in self._place:
            raise PlanError(
                f"The taxonomy names '{name}', which is not a declared "
                f"item.{did_you_mean(name, self._place)}"
            )
        index = self._place[name]
        if index in self._seen:
            raise PlanError(f"The taxonomy names the item '{name}' twice.")
        self._seen.add(index)
        return index


def _leaves(tree: int | list[Any]) -> list[int]:
    return [tree] if isinstance(tree, int) else [leaf for part in tree for leaf in _leaves(part)]


def _numbered(root: list[Any], items: int) -> Taxonomy:
    order = _leaves(root)
    position = {item: place for place, item in enumerate(order)}
    queue: list[tuple[list[Any], int, int]] = [(root, 0, 0)]
    start, stop, depth, offset, child = [], [], [], [0], []
    deepest = 0
    for node, begin, level in queue:  # grows while it is walked: breadth first
        start.append(begin)
        depth.append(level)
        deepest = max(deepest, level)
        at = begin
        for part in node:
            if isinstance(part, int):
                child.append(position[part])
                at += 1
            else:
                child.append(~len(queue))
                queue.append((part, at, level + 1))
                at += len(_leaves(part))
        stop.append(at)
        offset.append(len(child))
    if (deepest + 1) * items > MAX_TABLE:
        raise PlanError("The taxonomy is too deep for so many items.")
    count = len(queue)
    height, internal = [1] * count, [1] * count
    ordinal = np.zeros((deepest + 1, items), dtype=np.uint8)
    for place in range(count - 1, -1, -1):
        for number, member in enumerate(child[offset[place] : offset[place + 1]]):
            low, high = (member, member + 1) if member >= 0 else (start[~member], stop[~member])
            ordinal[depth[place], low:high] = number
            if member < 0:
                height[place] = max(height[place], height[~member] + 1)
                internal[place] += internal[~member]
    whole = [
        np.array(values, dtype=np.int32)
        for values in (order, start, stop, height, depth, offset, child)
    ]
    return Taxonomy(
        order=whole[0],
        start=whole[1],
        stop=whole[2],
        height=whole[3],
        depth=whole[4],
        internal=np.array(internal, dtype=np.int64),
        child_offset=whole[5],
        child=whole[6],
        ordinal=ordinal,
    )
