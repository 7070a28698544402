"""Near-minimum cuts by repeated recursive contraction, with a stated chance of missing any of them.

All cuts of at most alpha times the smallest are found except with probability `exp(-surety)`: how
often the recursion has to be repeated follows from its proved chance of finding one such cut and
Karger's bound on how many there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints, Words
from dpublish.compiled import njit
from dpublish.methods.solvers.inputs import Edges
from dpublish.methods.solvers.min_cut.kernels import cut_costs
from dpublish.methods.solvers.planning import estimated_costs
from dpublish.noise.base import Noise
from dpublish.noise.words import SeededStream, high_product

# Public padding edges for the minimum cut: a growing multigraph on the vertices, and how small
# its own cuts can be.
#
# Layers are Hamiltonian cycles v -> v + offset (mod n), one for each of a few public offsets
# prime to n, used round and round. Padding number i is the first i * step edges of that sequence.

MAX_OFFSETS = 16


@dataclass(frozen=True)
class Padding:
    """`size` vertices; `levels` is the largest padding number, at which every cut is crossed by at
    least `reach` edges."""

    size: int
    step: int
    reach: int

    @property
    def layers(self) -> int:
        """Whole cycles in the last padding: each crosses every cut at least twice."""
        return -(-self.reach // (2 if self.size > 2 else 1))

    @property
    def levels(self) -> int:
        return -(-self.layers * self.cycle // self.step)

    @property
    def cycle(self) -> int:
        return self.size if self.size > 2 else 1

    def edges(self, level: int) -> tuple[Ints, Ints, Ints]:
        """Heads, tails and multiplicities of padding number `level`."""
        offsets = np.array(offsets_of(self.size), dtype=np.int64)
        # edge number i of the sequence comes again every `turn` edges, if there are more than i
        turn = len(offsets) * self.cycle
        times = -((np.arange(turn, dtype=np.int64) - level * self.step) // turn)
        used = np.flatnonzero(times)
        place, heads = np.divmod(used, self.cycle)
        return heads, (heads + offsets[place]) % self.size, times[used]

    def least_beyond_singletons(self, level: int, least_degree: int = 0) -> float:
        """A lower bound on the cost of any cut with at least two vertices on both sides, in a
        simple graph plus this padding.

        `least_degree` is the smallest degree of the padded graph: t vertices send out t times that,
        less what fits inside.
        """
        crossing, most = least_crossing(self.size, level * self.step // self.cycle)
        t = np.arange(2, len(crossing) + 2, dtype=np.float64)
        # inside a pair: an edge of the graph, its padding, and perhaps one more from the cycle
        # under way
        packed = t * least_degree - t * (t - 1) * (most + 2)
        return float(np.maximum(crossing, packed).min()) if len(t) else 0.0


@lru_cache(maxsize=16)
def offsets_of(size: int) -> tuple[int, ...]:
    if size <= 2:
        return (1,)
    prime = [o for o in range(1, (size + 1) // 2) if math.gcd(o, size) == 1]
    if len(prime) <= MAX_OFFSETS:
        return tuple(prime)
    # offsets without a pattern expand well: no large set of vertices keeps most of its cycle edges
    # inside
    chosen = [1]
    state = 1
    while len(chosen) < MAX_OFFSETS:
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        offset = prime[(state >> 33) % len(prime)]
        if offset not in chosen:
            chosen.append(offset)
    return tuple(chosen)


@lru_cache(maxsize=1024)
def least_crossing(size: int, layers: int) -> tuple[NDArray[np.float64], int]:
    """Fewest edges of so many whole cycles across a cut with t = 2, 3, ... vertices on its smaller
    side, from below.

    t times the degree less what can lie inside, or by the second eigenvalue, whichever is larger.
    Also the largest number of parallel edges.
    """
    offsets = offsets_of(size)
    times = [
        layers // len(offsets) + (place < layers % len(offsets)) for place in range(len(offsets))
    ]
    degree, most = 2 * sum(times), max(times)
    t = np.arange(2, size // 2 + 1, dtype=np.float64)
    if not len(t) or degree == 0:
        return np.zeros(len(t)), most
    turn = 2 * np.pi / size * np.arange(1, size // 2 + 1)
    spectrum = sum(
        2 * count * (1 - np.cos(turn * o)) for count, o in zip(times, offsets, strict=True)
    )
    # far more than the rounding of these sums
    gap = max(0.0, float(np.min(spectrum)) * (1 - 1e-9) - 1e-6)
    inside = np.minimum(t * (t - 1) * most, t * degree)
    return np.maximum(t * degree - inside, gap * t * (size - t) / size), most


# Cuts drawn with the whole of epsilon from candidates that are public: all cuts of a small graph,
# each the less likely beforehand the more vertices it parts off, or the cuts that part one
# vertex.

GRID = 1 << 10
"""Handicaps are multiples of 1/GRID edges."""
LARGEST_STEP = 1 << 52
"""Of a handicap, for one vertex: scores stay within 64 bits however small epsilon is."""
SURE = 0.05


def handicaps(count: int, epsilon: Fraction) -> Ints:
    """What a cut is behind before any edge is looked at, in 1/GRID edges: ln n / epsilon for each
    vertex of its smaller side but one. So all cuts of one size are as likely together as those of
    another, up to a factorial. Public."""
    places = np.arange(1, 1 << (count - 1), dtype=np.int64)
    inside = sum((places >> vertex & 1) for vertex in range(count))
    smaller = np.minimum(inside, count - inside)
    step = min(float(LARGEST_STEP), math.log(count) / float(epsilon) * GRID)
    return np.ceil((smaller - 1) * step).astype(np.int64)


def any_cut(noise: Noise, edges: Edges, count: int, epsilon: Fraction) -> Any:
    """One of all cuts, by its edges and its handicap: monotone in an edge."""
    costs = cut_costs(count, edges.heads, edges.tails, np.ones(len(edges), dtype=np.int64))
    place = noise.choose(
        -GRID * costs - handicaps(count, epsilon),
        sensitivity=Fraction(GRID),
        epsilon=epsilon,
        monotone=True,
        label="cut",
    )
    return np.array([(place + 1) >> vertex & 1 for vertex in range(count)], dtype=np.bool_)


def vertex_or_cut(
    noise: Noise, edges: Edges, count: int, epsilon: Fraction, found: Any = None
) -> Any:
    """One vertex against all others, by its degree, or the cut that was found before: an edge
    moves all these costs one way."""
    ends = np.concatenate([edges.heads, edges.tails])
    costs = np.bincount(ends, minlength=count).astype(np.int64)
    if found is not None:
        costs = np.append(costs, crossing(edges, found))
    place = noise.choose(
        -costs, sensitivity=Fraction(1), epsilon=epsilon, monotone=True, label="cut"
    )
    return found if place == count else np.arange(count) == place


def crossing(edges: Edges, side: Any) -> int:
    """How many edges run across. Private."""
    return int((side[edges.heads] != side[edges.tails]).sum())


def cut_cost_facts(
    noise: Noise, edges: Edges, side: Any, epsilon: Fraction, count: int
) -> dict[str, Any]:
    """Noisy costs of the cut and of the public one, which parts the first vertex."""
    public = np.arange(count) == 0
    same = bool((side ^ side[0] == public ^ public[0]).all())
    return estimated_costs(
        noise,
        crossing(edges, side),
        None if same else crossing(edges, public),
        # an edge may run across both
        sensitivity=Fraction(1 if same else 2),
        epsilon=epsilon,
        most=float(count * count // 4),
    )


def reach_of_choice(candidates: float, epsilon: float) -> float:
    """How far a choice among so many falls behind the best, except with probability SURE."""
    return (math.log(candidates) + math.log(1 / SURE)) / epsilon


LEAF = 7
"""Graphs of this size are searched cut by cut."""

_CAREFUL = (
    1 + 1e-6
)  # for draws without rejection, whose values are at most 2^-20 too likely, and for float sums


@dataclass(frozen=True)
class Contraction:
    """How to contract a graph of `count` vertices when cuts of up to `alpha` times the smallest are
    wanted (alpha below 3)."""

    count: int
    alpha: float

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the graphs down the recursion: about half of the wanted cuts survive each
        contraction."""
        sizes = [self.count]
        while sizes[-1] > LEAF:
            sizes.append(
                max(
                    LEAF,
                    math.ceil(1 + sizes[-1] * 2 ** (-1 / (2 * self.alpha)))
                    if sizes[-1] > 2 * LEAF
                    else LEAF,
                )
            )
        return tuple(sizes)

    def survival(self, before: int, after: int) -> float:
        """A lower bound on the chance that one wanted cut survives a contraction: product of 1 - 2
        alpha / i."""
        logs = [
            math.log1p(-min(1 - 1e-9, 2 * self.alpha * _CAREFUL / i))
            for i in range(after + 1, before + 1)
        ]
        return math.exp(math.fsum(logs)) / _CAREFUL

    @property
    def found(self) -> float:
        """A lower bound on the chance that one round finds one wanted cut."""
        sizes, chance = self.sizes, 1.0
        for before, after in zip(reversed(sizes[:-1]), reversed(sizes[1:]), strict=True):
            chance = 1 - (1 - self.survival(before, after) * chance) ** 2
        return chance / _CAREFUL if len(sizes) > 1 else 1.0

    def rounds(self, surety: float) -> int:
        """Rounds after which all wanted cuts, at most count^(2 alpha), are found except with
        probability exp(-surety)."""
        if len(self.sizes) == 1:
            return 1
        most = 2 * self.alpha * math.log(self.count)
        return math.ceil((most + surety) / -math.log1p(-self.found) * _CAREFUL)

    @property
    def words(self) -> int:
        """Words that one round uses: one for every contracted edge."""
        return sum(
            2**level * (a - b)
            for level, (a, b) in enumerate(zip(self.sizes, self.sizes[1:], strict=False), start=1)
        )

    def leaves(self, surety: float) -> float:
        """Small graphs that are searched in all, as a measure of the work."""
        return self.rounds(surety) * 2.0 ** (len(self.sizes) - 1)


def contracted_cuts(
    noise: Noise,
    heads: Ints,
    tails: Ints,
    weights: Ints,
    plan: Contraction,
    limit: int,
    surety: float,
) -> tuple[Ints, NDArray[np.bool_]]:
    """Costs and sides (rows of vertices) of the cuts of at most `limit` that were found, in an
    order that only they decide.

    The contractions draw from a stream keyed by the tap: how many words they take depends on the
    graph, so they are not taps.
    """
    matrix = np.zeros((plan.count, plan.count), dtype=np.int64)
    np.add.at(matrix, (heads, tails), weights)
    matrix += matrix.T
    stream = SeededStream(int.from_bytes(noise.key(label="contractions"), "little"))
    sizes = np.array(plan.sizes, dtype=np.int64)
    room, found = 1 << 10, 0
    none = np.zeros((0, -(-plan.count // 64)), np.uint64), np.zeros(0, np.int64)
    bits, costs, table = _roomier(*none, room)
    for _ in range(plan.rounds(surety)):
        words = stream.words(plan.words)
        while (
            now := contraction_round(matrix, sizes, limit, words, bits, costs, table, found)
        ) < 0:
            # the same round again with more room: what it stores twice is stored once
            found = int((table >= 0).sum())
            room *= 2
            bits, costs, table = _roomier(bits[:found], costs[:found], room)
        found = now
    inside = np.unpackbits(bits[:found].view(np.uint8), axis=1, bitorder="little")[
        :, : plan.count
    ].astype(np.bool_)
    order = np.lexsort((*inside.T[::-1], costs[:found]))
    return costs[:found][order], inside[order]


def _roomier(
    bits: NDArray[np.uint64], costs: Ints, room: int
) -> tuple[NDArray[np.uint64], Ints, Ints]:
    """The same cuts in larger arrays; the table is filled again by storing them one by one."""

    more, prices = np.zeros((room, bits.shape[1]), np.uint64), np.zeros(room, np.int64)
    table = np.full(4 * room, -1, np.int64)
    found = 0
    for side, cost in zip(bits, costs.tolist(), strict=True):
        found = _store(side, cost, more, prices, table, found)
    return more, prices, table


# One round of recursive random contraction (Karger and Stein 1996) on a weighted graph, and a
# table of the cuts it finds.
#
# A graph is a symmetric matrix of whole weights. Level d of the recursion holds a graph of sizes[d]
# vertices; each is contracted twice, independently, to sizes[d + 1]. At the last level every cut is
# looked at, and those within the limit are stored once.


@njit(cache=True, nogil=True)
def _contract(graph: Ints, count: int, least: int, words: Words, at: int, home: Ints) -> int:
    """Contract edges, each drawn in proportion to its weight, until `least` vertices are left;
    home[v] is where v went."""
    degree = np.zeros(count, dtype=np.int64)
    for u in range(count):
        home[u] = u
        for v in range(count):
            degree[u] += graph[u, v]
    total, size = degree.sum(), count
    while size > least:
        u, v = 0, 1
        if total > 0:
            # without rejection: the chance of a value is at most 1/total + 2^-64, which the proof
            # allows for
            number = np.int64(high_product(words[at], np.uint64(total)))
            while number >= degree[u]:
                number -= degree[u]
                u += 1
            v = 0
            while number >= graph[u, v]:
                number -= graph[u, v]
                v += 1
        at += 1
        lost = graph[u, v]
        total -= 2 * lost
        degree[u] += degree[v] - 2 * lost
        graph[u, v] = graph[v, u] = 0
        for w in range(size):
            if w != u and w != v:
                graph[u, w] += graph[v, w]
                graph[w, u] = graph[u, w]
        size -= 1
        for w in range(count):
            if home[w] == v:
                home[w] = u
        if v != size:
            # the last vertex takes the free place
            for w in range(size):
                if w != v:
                    graph[v, w] = graph[size, w]
                    graph[w, v] = graph[size, w]
            graph[v, v] = 0
            degree[v] = degree[size]
            for w in range(count):
                if home[w] == size:
                    home[w] = v
    return at


@njit(cache=True, nogil=True)
def _store(side: Words, cost: int, bits: Words, costs: Ints, table: Ints, found: int) -> int:
    """Add a cut unless it is there already; -1 when there is no room."""
    mask = len(table) - 1
    slot = np.uint64(14695981039346656037)
    for word in side:
        slot = (slot ^ word) * np.uint64(0x9E3779B97F4A7C15)
        slot ^= slot >> np.uint64(29)
    place = np.int64(slot & np.uint64(mask))
    while table[place] >= 0:
        row = table[place]
        same = True
        for i in range(len(side)):
            if bits[row, i] != side[i]:
                same = False
                break
        if same:
            return found
        place = (place + 1) & mask
    if found == len(costs):
        return -1
    table[place] = found
    bits[found] = side
    costs[found] = cost
    return found + 1


@njit(cache=True, nogil=True)
def _list_cuts(
    graph: Ints,
    size: int,
    names: Ints,
    limit: int,
    side: Words,
    bits: Words,
    costs: Ints,
    table: Ints,
    found: int,
) -> int:
    """Store every cut of a small graph of cost at most `limit`: the original vertices on the side
    without the first."""
    inside = np.zeros(size, dtype=np.bool_)
    cost = np.int64(0)
    for step in range(1, 1 << (size - 1)):
        # Gray code over the vertices but the last: one changes sides a step
        flipped = 0
        while (step >> flipped) & 1 == 0:
            flipped += 1
        for v in range(size):
            cost += graph[flipped, v] if inside[v] == inside[flipped] else -graph[flipped, v]
        inside[flipped] = not inside[flipped]
        if cost > limit:
            continue
        side[:] = np.uint64(0)
        other = inside[names[0]]
        for v in range(len(names)):
            if inside[names[v]] != other:
                side[v >> 6] |= np.uint64(1) << np.uint64(v & 63)
        found = _store(side, int(cost), bits, costs, table, found)
        if found < 0:
            return -1
    return found


@njit(cache=True, nogil=True)
def contraction_round(
    weights: Ints,
    sizes: Ints,
    limit: int,
    words: Words,
    bits: Words,
    costs: Ints,
    table: Ints,
    found: int,
) -> int:
    """One tree of contractions. Returns how many cuts are stored now, or -1 when there was no room
    for all of them."""
    levels, count = len(sizes), weights.shape[0]
    starts = np.zeros(levels + 1, dtype=np.int64)
    starts[1:] = np.cumsum(sizes * sizes)
    held = np.empty(starts[levels], dtype=np.int64)
    held[: starts[1]] = weights.ravel()
    names = np.empty((levels, count), dtype=np.int64)
    names[0] = np.arange(count)
    work = np.empty((sizes[0], sizes[0]), dtype=np.int64)
    home = np.empty(count, dtype=np.int64)
    side = np.zeros(bits.shape[1], dtype=np.uint64)
    visits = np.zeros(levels, dtype=np.int64)
    at, d = 0, 0
    while d >= 0:
        size = sizes[d]
        graph = held[starts[d] : starts[d + 1]].reshape((size, size))
        if d == levels - 1:
            found = _list_cuts(graph, size, names[d], limit, side, bits, costs, table, found)
            if found < 0:
                return -1
            d -= 1
        elif visits[d] == 2:
            visits[d] = 0
            d -= 1
        else:
            visits[d] += 1
            for u in range(size):
                for v in range(size):
                    work[u, v] = graph[u, v]
            d += 1
            at = _contract(work, size, sizes[d], words, at, home)
            below = held[starts[d] : starts[d + 1]].reshape((sizes[d], sizes[d]))
            for u in range(sizes[d]):
                for v in range(sizes[d]):
                    below[u, v] = work[u, v]
            names[d] = home[names[d - 1]]
    return found
