"""Near-minimum cuts by repeated recursive contraction, with a stated chance of missing any of them.

All cuts of at most alpha times the smallest are found except with probability `exp(-surety)`: how
often the recursion has to be repeated follows from its proved chance of finding one such cut and
Karger's bound on how many there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpublish.methods.solvers.min_cut.contraction_kernels import contraction_round
from dpublish.noise.base import IntArray, Noise
from dpublish.noise.words import SeededStream

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
    heads: IntArray,
    tails: IntArray,
    weights: IntArray,
    plan: Contraction,
    limit: int,
    surety: float,
) -> tuple[IntArray, NDArray[np.bool_]]:
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
    width = -(-plan.count // 64)
    bits, costs, table = (
        np.zeros((room, width), np.uint64),
        np.zeros(room, np.int64),
        np.full(4 * room, -1, np.int64),
    )
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
    bits: NDArray[np.uint64], costs: IntArray, room: int
) -> tuple[NDArray[np.uint64], IntArray, IntArray]:
    """The same cuts in larger arrays; the table is filled again by storing them one by one."""
    from dpublish.methods.solvers.min_cut.contraction_kernels import _store

    more, prices = np.zeros((room, bits.shape[1]), np.uint64), np.zeros(room, np.int64)
    table = np.full(4 * room, -1, np.int64)
    found = 0
    for side, cost in zip(bits, costs.tolist(), strict=True):
        found = _store(side, cost, more, prices, table, found)
    return more, prices, table
