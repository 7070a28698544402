"""Loops over cuts: the smallest cut of a weighted graph, contraction of what no small cut
separates, and lists of small cuts.

Weights are whole numbers. The smallest cut is found by contraction along maximum-adjacency orders
(Nagamochi and Ibaraki): scanning the graph gives every edge a lower bound on the connectivity of
its ends, and ends that are at least as well connected as the smallest cut known so far may be
merged without losing a smaller one.
"""

from __future__ import annotations

import numpy as np

from dpublish.arrays import Ints
from dpublish.compiled import njit


@njit(cache=True, nogil=True)
def _root(parent: Ints, vertex: int) -> int:
    while parent[vertex] != vertex:
        parent[vertex] = parent[parent[vertex]]
        vertex = parent[vertex]
    return vertex


@njit(cache=True, nogil=True)
def adjacency(count: int, heads: Ints, tails: Ints, weights: Ints) -> tuple[Ints, Ints, Ints]:
    """starts, neighbours and weights of every vertex; each edge stands at both ends."""
    starts = np.zeros(count + 1, dtype=np.int64)
    for edge in range(len(heads)):
        starts[heads[edge] + 1] += 1
        starts[tails[edge] + 1] += 1
    for vertex in range(count):
        starts[vertex + 1] += starts[vertex]
    fill = starts[:-1].copy()
    others = np.empty(2 * len(heads), dtype=np.int64)
    loads = np.empty(2 * len(heads), dtype=np.int64)
    for edge in range(len(heads)):
        u, v = heads[edge], tails[edge]
        others[fill[u]], loads[fill[u]] = v, weights[edge]
        fill[u] += 1
        others[fill[v]], loads[fill[v]] = u, weights[edge]
        fill[v] += 1
    return starts, others, loads


@njit(cache=True, nogil=True)
def _scan(
    count: int,
    starts: Ints,
    others: Ints,
    loads: Ints,
    first: int,
    level: int,
    fixed: bool,
    parent: Ints,
) -> int:
    """One maximum-adjacency scan from `first`. Merges (in `parent`) the ends of edges whose
    connectivity is at least the level.

    Unless `fixed`, the level falls to the smallest cut seen on the way: degrees and prefixes of the
    order. Returns the level; 0 when the graph is not connected.
    """
    reach = np.zeros(count, dtype=np.int64)
    done = np.zeros(count, dtype=np.bool_)
    degree = np.zeros(count, dtype=np.int64)
    for vertex in range(count):
        for place in range(starts[vertex], starts[vertex + 1]):
            degree[vertex] += loads[place]
        if not fixed and degree[vertex] < level:
            level = degree[vertex]
    # a heap of (reach, vertex) with stale entries; keys are capped at the level, which keeps it
    # small
    room = len(others) + count + 1
    keys = np.empty(room, dtype=np.int64)
    held = np.empty(room, dtype=np.int64)
    size = 1
    keys[0], held[0] = 0, first
    scanned, cut = 0, 0
    while size > 0:
        u = held[0]
        key = keys[0]
        size -= 1
        last_key, last = keys[size], held[size]
        at = 0
        while True:
            child = 2 * at + 1
            if child >= size:
                break
            if child + 1 < size and keys[child + 1] > keys[child]:
                child += 1
            if keys[child] <= last_key:
                break
            keys[at], held[at] = keys[child], held[child]
            at = child
        keys[at], held[at] = last_key, last
        if done[u] or key < min(reach[u], level):
            continue
        done[u] = True
        scanned += 1
        cut += degree[u] - 2 * reach[u]
        if not fixed and scanned < count and cut < level:
            level = cut
        for place in range(starts[u], starts[u + 1]):
            v = others[place]
            if done[v]:
                continue
            before = reach[v]
            reach[v] = before + loads[place]
            if reach[v] >= level:
                a, b = _root(parent, u), _root(parent, v)
                if a != b:
                    parent[b] = a
            if min(reach[v], level) > min(before, level) or before == 0:
                at = size
                size += 1
                key = min(reach[v], level)
                while at > 0 and keys[(at - 1) // 2] < key:
                    keys[at], held[at] = keys[(at - 1) // 2], held[(at - 1) // 2]
                    at = (at - 1) // 2
                keys[at], held[at] = key, v
    return level if scanned == count else 0


@njit(cache=True, nogil=True)
def _contract(
    count: int, heads: Ints, tails: Ints, weights: Ints, parent: Ints, names: Ints
) -> tuple[int, Ints, Ints, Ints]:
    """The graph after merging; names[v] of original vertices follow."""
    label = np.full(count, -1, dtype=np.int64)
    fresh = 0
    for vertex in range(count):
        root = _root(parent, vertex)
        if label[root] < 0:
            label[root] = fresh
            fresh += 1
    for vertex in range(len(names)):
        names[vertex] = label[_root(parent, names[vertex])]
    kept = 0
    new_heads, new_tails, new_weights = (
        np.empty_like(heads),
        np.empty_like(tails),
        np.empty_like(weights),
    )
    for edge in range(len(heads)):
        u, v = label[_root(parent, heads[edge])], label[_root(parent, tails[edge])]
        if u != v:
            new_heads[kept], new_tails[kept], new_weights[kept] = u, v, weights[edge]
            kept += 1
    return fresh, new_heads[:kept], new_tails[:kept], new_weights[:kept]


@njit(cache=True, nogil=True)
def smallest_cut(count: int, heads: Ints, tails: Ints, weights: Ints, cap: int) -> int:
    """The value of the smallest cut, or `cap` if that is smaller."""
    names = np.empty(0, dtype=np.int64)
    level = cap
    while count > 1 and level > 0:
        starts, others, loads = adjacency(count, heads, tails, weights)
        parent = np.arange(count)
        level = _scan(count, starts, others, loads, 0, level, False, parent)
        count, heads, tails, weights = _contract(count, heads, tails, weights, parent, names)
    return level


@njit(cache=True, nogil=True)
def merge_above(
    count: int, heads: Ints, tails: Ints, weights: Ints, level: int
) -> tuple[int, Ints, Ints, Ints, Ints]:
    """Merge vertices that no cut below `level` separates, as far as scans show it: (count, heads,
    tails, weights, names)."""
    names = np.arange(count)
    idle = 0
    while count > 1 and idle < 3:
        starts, others, loads = adjacency(count, heads, tails, weights)
        parent = np.arange(count)
        _scan(count, starts, others, loads, (idle * count) // 3, level, True, parent)
        before = count
        count, heads, tails, weights = _contract(count, heads, tails, weights, parent, names)
        idle = 0 if count < before else idle + 1
    return count, heads, tails, weights, names


@njit(cache=True, nogil=True)
def cut_costs(count: int, heads: Ints, tails: Ints, weights: Ints) -> Ints:
    """Costs of all 2^(count-1) - 1 cuts; cut s puts vertex i on the side of the last vertex when
    bit i of s + 1 is 0."""
    starts, others, loads = adjacency(count, heads, tails, weights)
    total = (1 << (count - 1)) - 1
    costs = np.empty(total, dtype=np.int64)
    side = np.zeros(count, dtype=np.int64)
    cost, code = np.int64(0), 0
    for step in range(1, total + 1):
        # Gray code: one vertex changes sides a step
        flipped = 0
        while (step >> flipped) & 1 == 0:
            flipped += 1
        for place in range(starts[flipped], starts[flipped + 1]):
            cost += loads[place] if side[others[place]] == side[flipped] else -loads[place]
        side[flipped] = 1 - side[flipped]
        code ^= 1 << flipped
        costs[code - 1] = cost
    return costs


@njit(cache=True, nogil=True)
def _flow_exceeds(
    count: int, starts: Ints, others: Ints, loads: Ints, twin: Ints, state: Ints, limit: int
) -> bool:
    """Whether more than `limit` can flow from vertices of state 1 to vertices of state 2: then
    every cut between them does."""
    left = loads.copy()
    came = np.empty(count, dtype=np.int64)
    queue = np.empty(count, dtype=np.int64)
    flow = np.int64(0)
    while flow <= limit:
        came[:] = -1
        head, tail = 0, 0
        for vertex in range(count):
            if state[vertex] == 1:
                queue[tail] = vertex
                tail += 1
                came[vertex] = -2
        found = -1
        while head < tail and found < 0:
            u = queue[head]
            head += 1
            for place in range(starts[u], starts[u + 1]):
                v = others[place]
                if left[place] > 0 and came[v] == -1:
                    came[v] = place
                    if state[v] == 2:
                        found = v
                        break
                    queue[tail] = v
                    tail += 1
        if found < 0:
            return False
        amount = np.int64(1) << 62
        v = found
        while came[v] != -2:
            amount = min(amount, left[came[v]])
            v = others[twin[came[v]]]
        v = found
        while came[v] != -2:
            left[came[v]] -= amount
            left[twin[came[v]]] += amount
            v = others[twin[came[v]]]
        flow += amount
    return True


@njit(cache=True, nogil=True)
def _twins(count: int, starts: Ints, others: Ints, heads: Ints, tails: Ints) -> Ints:
    twin = np.empty(len(others), dtype=np.int64)
    fill = starts[:-1].copy()
    for edge in range(len(heads)):
        a, b = fill[heads[edge]], fill[tails[edge]]
        fill[heads[edge]] += 1
        fill[tails[edge]] += 1
        twin[a], twin[b] = b, a
    return twin


@njit(cache=True, nogil=True)
def small_cuts(
    count: int, heads: Ints, tails: Ints, weights: Ints, limit: int
) -> tuple[Ints, Ints, Ints]:
    """All cuts of cost at most `limit` (below twice the smallest cut): costs, starts and members of
    the side without vertex 0.

    Below twice the smallest cut both sides of a cut hang together, so a side is grown from its
    first vertex by neighbours, each of which is taken in or kept out; a branch ends when the flow
    from what is in to what is out exceeds the limit.
    """
    starts, others, loads = adjacency(count, heads, tails, weights)
    twin = _twins(count, starts, others, heads, tails)
    costs, ends, members = [np.int64(0)], [np.int64(0)], [np.int64(0)]
    state = np.zeros(count, dtype=np.int64)
    state[0] = 2
    chain = np.empty(count, dtype=np.int64)
    choice = np.empty(count, dtype=np.int64)
    for first in range(1, count):
        state[first] = 1
        depth = 0
        descend = not _flow_exceeds(count, starts, others, loads, twin, state, limit)
        while True:
            if descend:
                # the free vertex with the most weight to what is in
                pull = np.zeros(count, dtype=np.int64)
                cut = np.int64(0)
                best = -1
                for u in range(count):
                    if state[u] == 1:
                        for place in range(starts[u], starts[u + 1]):
                            v = others[place]
                            if state[v] == 0:
                                pull[v] += loads[place]
                                if best < 0 or pull[v] > pull[best]:
                                    best = v
                            elif state[v] == 2:
                                cut += loads[place]
                if cut <= limit and best < 0:
                    costs.append(cut)
                    for u in range(count):
                        if state[u] == 1:
                            members.append(np.int64(u))
                    ends.append(np.int64(len(members) - 1))
                if cut <= limit and best >= 0:
                    chain[depth], choice[depth] = best, 1
                    depth += 1
                    state[best] = 1
                    descend = not _flow_exceeds(count, starts, others, loads, twin, state, limit)
                    continue
            descend = False
            if depth == 0:
                break
            u = chain[depth - 1]
            if choice[depth - 1] == 1:
                choice[depth - 1] = 2
                state[u] = 2
                descend = not _flow_exceeds(count, starts, others, loads, twin, state, limit)
            else:
                state[u] = 0
                depth -= 1
        state[first] = 2
    return np.array(costs[1:]), np.array(ends), np.array(members[1:])
