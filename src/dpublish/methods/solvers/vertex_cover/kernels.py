"""Loops of the vertex cover orders: each round draws one remaining vertex with a probability
proportional to an exact integer.

Randomness comes in as words that the caller drew from the tap. A draw below a total T takes the
upper half of word * T and skips the few words that would favour some values, so it is exactly
uniform for every T below 2^63.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit
from dpublish.noise.words import high_product

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


@njit(cache=True, nogil=True)
def draw_below(total: np.uint64, words: Words, at: int) -> tuple[np.uint64, int]:
    """A uniform number below `total` and the place of the next unused word; the place is -1 when
    words ran out."""
    limit = (np.uint64(0xFFFFFFFFFFFFFFFF) % total + np.uint64(1)) % total  # 2^64 mod total
    while at < len(words):
        word = words[at]
        at += 1
        if word * total >= limit:  # the lower half of the product, modulo 2^64
            return high_product(word, total), at
    return np.uint64(0), -1


@njit(cache=True, nogil=True)
def cover_order(
    heads: Ints,
    tails: Ints,
    starts: Ints,
    incident: Ints,
    real: Ints,
    extra: Ints,
    words: Words,
    order: Ints,
) -> int:
    """Fill `order`: in round i a remaining vertex v with probability proportional to real[i] *
    degree(v) + extra[i].

    `degree` counts edges to remaining vertices. A draw is either one of the remaining vertices
    (extra) or one of the 2 * (live edges) edge ends (real), both kept in arrays from which removed
    entries are swapped out. Returns the number of rounds that the words sufficed for.
    """
    count = len(order)
    edges = len(heads)
    alive = np.arange(count)
    place = np.arange(count)
    live = np.arange(edges)
    spot = np.arange(edges)
    left = edges
    at = 0
    for done in range(count):
        remaining = count - done
        by_vertex = remaining * extra[done]
        total = np.uint64(by_vertex + real[done] * 2 * left)
        drawn, at = draw_below(total, words, at)
        if at < 0:
            return done
        number = np.int64(drawn)
        if number < by_vertex:
            vertex = alive[number // extra[done]]
        else:
            end = (number - by_vertex) // real[done]
            edge = live[end // 2]
            vertex = heads[edge] if end % 2 == 0 else tails[edge]
        order[done] = vertex
        last = alive[remaining - 1]
        alive[place[vertex]] = last
        place[last] = place[vertex]
        for index in range(starts[vertex], starts[vertex + 1]):
            edge = incident[index]
            where = spot[edge]
            if where < left and live[where] == edge:
                left -= 1
                other = live[left]
                live[where] = other
                spot[other] = where
                live[left] = edge
                spot[edge] = left
    return count


@njit(cache=True, nogil=True)
def weighted_order(
    heads: Ints,
    tails: Ints,
    starts: Ints,
    incident: Ints,
    classes: Ints,
    score: Ints,
    quota: Ints,
    real: int,
    extra: int,
    words: Words,
    order: Ints,
    dumped: NDArray[np.bool_],
) -> int:
    """Fill `order` with the weighted rule: weight (real * degree + extra) * score of a vertex's
    class, and classes dumped.

    quota[j] rounds that output a vertex of class j or a heavier one end with all that is left of
    class j, in random order. Within a class every vertex has the same score, so a draw first takes
    a class by its total and then a vertex or an edge end of it, as in `cover_order`. Returns the
    number of vertices that the words sufficed for.
    """
    count, kinds = len(order), len(quota)
    size = np.zeros(kinds, dtype=np.int64)
    for vertex in range(count):
        size[classes[vertex]] += 1
    first = np.zeros(kinds + 1, dtype=np.int64)
    for kind in range(kinds):
        first[kind + 1] = first[kind] + size[kind]
    alive = np.empty(count, dtype=np.int64)
    place = np.empty(count, dtype=np.int64)
    filled = np.zeros(kinds, dtype=np.int64)
    for vertex in range(count):
        kind = classes[vertex]
        place[vertex] = first[kind] + filled[kind]
        alive[place[vertex]] = vertex
        filled[kind] += 1
    # Edge ends by the class of the vertex at that end: end 2e is the head of edge e, end 2e + 1 its
    # tail.
    ends = np.zeros(kinds, dtype=np.int64)
    for edge in range(len(heads)):
        ends[classes[heads[edge]]] += 1
        ends[classes[tails[edge]]] += 1
    bottom = np.zeros(kinds + 1, dtype=np.int64)
    for kind in range(kinds):
        bottom[kind + 1] = bottom[kind] + ends[kind]
    live = np.empty(2 * len(heads), dtype=np.int64)
    spot = np.empty(2 * len(heads), dtype=np.int64)
    left = np.zeros(kinds, dtype=np.int64)
    for end in range(2 * len(heads)):
        kind = classes[heads[end // 2]] if end % 2 == 0 else classes[tails[end // 2]]
        spot[end] = bottom[kind] + left[kind]
        live[spot[end]] = end
        left[kind] += 1
    gone = np.zeros(len(heads), dtype=np.bool_)
    shown = np.zeros(kinds, dtype=np.int64)
    at, done = 0, 0
    while done < count:
        total = np.int64(0)
        for kind in range(kinds):
            total += (real * left[kind] + extra * size[kind]) * score[kind]
        drawn, at = draw_below(np.uint64(total), words, at)
        if at < 0:
            return done
        number = np.int64(drawn)
        chosen = 0
        while number >= (real * left[chosen] + extra * size[chosen]) * score[chosen]:
            number -= (real * left[chosen] + extra * size[chosen]) * score[chosen]
            chosen += 1
        number //= score[chosen]
        if number < extra * size[chosen]:
            vertex = alive[first[chosen] + number // extra]
        else:
            end = live[bottom[chosen] + (number - extra * size[chosen]) // real]
            vertex = heads[end // 2] if end % 2 == 0 else tails[end // 2]
        order[done] = vertex
        done += 1
        _remove(
            vertex,
            heads,
            tails,
            starts,
            incident,
            classes,
            alive,
            place,
            first,
            size,
            live,
            spot,
            bottom,
            left,
            gone,
        )
        for kind in range(chosen + 1):
            shown[kind] += 1
        for kind in range(kinds):
            if not dumped[kind] and shown[kind] >= quota[kind]:
                dumped[kind] = True
                while size[kind] > 0:
                    drawn, at = draw_below(np.uint64(size[kind]), words, at)
                    if at < 0:
                        return done
                    vertex = alive[first[kind] + np.int64(drawn)]
                    order[done] = vertex
                    done += 1
                    _remove(
                        vertex,
                        heads,
                        tails,
                        starts,
                        incident,
                        classes,
                        alive,
                        place,
                        first,
                        size,
                        live,
                        spot,
                        bottom,
                        left,
                        gone,
                    )
    return count


@njit(cache=True, nogil=True)
def _remove(
    vertex: int,
    heads: Ints,
    tails: Ints,
    starts: Ints,
    incident: Ints,
    classes: Ints,
    alive: Ints,
    place: Ints,
    first: Ints,
    size: Ints,
    live: Ints,
    spot: Ints,
    bottom: Ints,
    left: Ints,
    gone: NDArray[np.bool_],
) -> None:
    kind = classes[vertex]
    size[kind] -= 1
    last = alive[first[kind] + size[kind]]
    alive[place[vertex]] = last
    place[last] = place[vertex]
    for index in range(starts[vertex], starts[vertex + 1]):
        edge = incident[index]
        if gone[edge]:
            continue
        gone[edge] = True
        for end in (2 * edge, 2 * edge + 1):
            side = classes[heads[edge]] if end % 2 == 0 else classes[tails[edge]]
            left[side] -= 1
            other = live[bottom[side] + left[side]]
            live[spot[end]] = other
            spot[other] = spot[end]
