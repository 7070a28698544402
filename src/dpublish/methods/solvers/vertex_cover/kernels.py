"""Loops of the vertex cover orders: each round draws one remaining vertex with a probability
proportional to an exact integer.

Randomness comes in as words that the caller drew from the tap. A draw below a total T takes the
upper half of word * T and skips the few words that would favour some values, so it is exactly
uniform for every T below 2^63.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints, Words
from dpublish.compiled import njit
from dpublish.errors import PlanError
from dpublish.noise.words import high_product

# Weight classes of the weighted vertex cover, and the number of hallucinated edges that makes it
# epsilon-DP.
#
# All of it follows from the public weights. Weights are rounded up to powers of two times the
# smallest; class j holds the vertices of rounded weight 2^j and has score 2^-j. After quota_j
# rounds that output a vertex of class j or a heavier one, what is left of class j is output in
# random order (dumped).

_GRID = 1 << 8
_LARGEST_TOTAL = 1 << 62
_SLACK = Fraction(1_000_000_001, 1_000_000_000)  # far above the rounding of the float sums below


@dataclass(frozen=True)
class WeightClasses:
    """`of_vertex`: class of each vertex; `scores`: integers proportional to 2^-j; `factor`: the
    accuracy guarantee."""

    of_vertex: Ints
    exponents: tuple[int, ...]
    sizes: tuple[int, ...]
    scores: Ints
    quotas: Ints
    hallucinated: Fraction
    factor: float


def weight_classes(weights: Sequence[Fraction], epsilon: Fraction) -> WeightClasses:
    """The classes of these weights and the certified number of hallucinated edges for epsilon."""
    smallest = min(weights)
    powers = [_ceil_log2(weight / smallest) for weight in weights]
    exponents = tuple(sorted(set(powers)))
    number = {power: kind for kind, power in enumerate(exponents)}
    of_vertex = np.array([number[power] for power in powers], dtype=np.int64)
    sizes = tuple(int(size) for size in np.bincount(of_vertex, minlength=len(exponents)))
    quotas = np.array([quota(size) for size in sizes], dtype=np.int64)
    loss = worst_loss(exponents, sizes)
    needed = max(loss, Fraction(1)) / epsilon
    hallucinated = Fraction(math.ceil(needed * _GRID), _GRID)
    count = len(weights)
    top = exponents[-1]
    if (
        top > 60
        or (hallucinated.denominator * count + hallucinated.numerator) * count << top
        >= _LARGEST_TOTAL
    ):
        raise PlanError(
            f"The largest weight is about 2^{top} times the smallest; with {count} vertices that "
            f"is beyond exact 64-bit draws. "
            "Raise the smallest weights, or solve light and heavy vertices apart."
        )
    scores = np.array([1 << (top - power) for power in exponents], dtype=np.int64)
    return WeightClasses(
        of_vertex,
        exponents,
        sizes,
        scores,
        quotas,
        hallucinated,
        _factor(exponents, sizes, float(hallucinated)),
    )


def quota(size: int) -> int:
    """How many rounds of a class (or heavier) it takes until the class is dumped: half its size,
    rounded up."""
    return -(-size // 2)


def worst_loss(exponents: Sequence[int], sizes: Sequence[int]) -> Fraction:
    """An upper bound, over all edges and all orders, on s(e) * sum over rounds of 1 / (scores
    left), rounded up.

    Divided by the number h of hallucinated edges it bounds the privacy loss (vertex_cover.proof.md,
    theorem 3).
    """
    worst = 0.0
    for kind, (power, size) in enumerate(zip(exponents, sizes, strict=True)):
        score = 2.0**-power
        most = quota(size)
        held = score * (
            size - most + 1
        )  # of the edge's lighter class, before any round that may still come
        total = math.fsum(1 / (score * (size - k)) for k in range(most))
        for lighter in range(kind):
            unit, kept = 2.0 ** -exponents[lighter], sizes[lighter] - quota(sizes[lighter])
            total += math.fsum(
                1 / (held + unit * (kept + step)) for step in range(1, quota(sizes[lighter]) + 1)
            )
        if size > 1:
            partner = score
        elif kind + 1 < len(exponents):
            partner = 2.0 ** -exponents[kind + 1]
        else:
            continue  # no edge has this class as its lighter one
        worst = max(worst, (score + partner) * total)
    return Fraction(worst) * _SLACK


def _factor(exponents: Sequence[int], sizes: Sequence[int], hallucinated: float) -> float:
    """Lemmas 17 and 18 of the thesis with these class sizes: 4 (1 + h) for drawn vertices, times
    one plus the dumped share."""
    heavy = [
        1
        + sum(2.0 ** (exponents[j] - exponents[i]) * sizes[i] for i in range(j, len(sizes)))
        / sizes[j]
        for j in range(len(sizes))
    ]
    dumped = max(
        sum(2.0 ** (exponents[j] - exponents[top] + 1) * heavy[j] for j in range(top + 1))
        for top in range(len(sizes))
    )
    return 4 * (1 + hallucinated) * (1 + dumped)


def _ceil_log2(ratio: Fraction) -> int:
    """The least j with 2^j >= ratio >= 1."""
    return (math.ceil(ratio) - 1).bit_length()


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


def by_class(classes: Ints, kinds: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Things class by class: where each class starts and how many it has, the things in that order,
    and the place of each in it."""
    size = np.bincount(classes, minlength=kinds)
    held = np.argsort(classes, kind="stable")
    return np.cumsum(size) - size, size, held, np.argsort(held)


@njit(cache=True, nogil=True)
def weighted_order(
    heads: Ints,
    tails: Ints,
    starts: Ints,
    incident: Ints,
    classes: Ints,
    first: Ints,
    size: Ints,
    alive: Ints,
    place: Ints,
    sides: Ints,
    bottom: Ints,
    left: Ints,
    live: Ints,
    spot: Ints,
    score: Ints,
    quota: Ints,
    real: int,
    extra: int,
    words: Words,
    order: Ints,
) -> int:
    """Fill `order` with the weighted rule: weight (real * degree + extra) * score of a vertex's
    class, and classes dumped.

    quota[j] rounds that output a vertex of class j or a heavier one end with all that is left of
    class j, in random order. Within a class every vertex has the same score, so a draw first takes
    a class by its total and then a vertex or an edge end of it, as in `cover_order`. What
    `by_class` says of the vertices (first, size, alive, place) and of the edge ends, whose classes
    are `sides` (bottom, left, live, spot), is used up; end 2e is the head of edge e, end 2e + 1 its
    tail.
    Returns the number of vertices that the words sufficed for.
    """
    count, kinds = len(order), len(quota)
    gone = np.zeros(len(heads), dtype=np.bool_)
    dumped = np.zeros(kinds, dtype=np.bool_)
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
            starts,
            incident,
            classes,
            first,
            size,
            alive,
            place,
            sides,
            bottom,
            left,
            live,
            spot,
            gone,
        )
        shown[: chosen + 1] += 1
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
                        starts,
                        incident,
                        classes,
                        first,
                        size,
                        alive,
                        place,
                        sides,
                        bottom,
                        left,
                        live,
                        spot,
                        gone,
                    )
    return count


@njit(cache=True, nogil=True)
def _remove(
    vertex: int,
    starts: Ints,
    incident: Ints,
    classes: Ints,
    first: Ints,
    size: Ints,
    alive: Ints,
    place: Ints,
    sides: Ints,
    bottom: Ints,
    left: Ints,
    live: Ints,
    spot: Ints,
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
            side = sides[end]
            left[side] -= 1
            other = live[bottom[side] + left[side]]
            live[spot[end]] = other
            spot[other] = spot[end]
