"""Public padding edges for the minimum cut: a growing multigraph on the vertices, and how small its
own cuts can be.

Layers are Hamiltonian cycles v -> v + offset (mod n), one for each of a few public offsets prime to
n, used round and round. Padding number i is the first i * step edges of that sequence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpublish.noise.base import IntArray

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

    @property
    def offsets(self) -> tuple[int, ...]:
        return offsets_of(self.size)

    def edges(self, level: int) -> tuple[IntArray, IntArray, IntArray]:
        """Heads, tails and multiplicities of padding number `level`."""
        total = level * self.step
        offsets = self.offsets
        start = np.arange(self.cycle, dtype=np.int64)
        whole, rest = divmod(total, self.cycle)
        heads, tails, weights = [], [], []
        for place, offset in enumerate(offsets):
            times = np.full(
                self.cycle, whole // len(offsets) + (place < whole % len(offsets)), dtype=np.int64
            )
            if place == whole % len(offsets):
                times[:rest] += 1
            used = times > 0
            heads.append(start[used])
            tails.append((start[used] + offset) % self.size)
            weights.append(times[used])
        return np.concatenate(heads), np.concatenate(tails), np.concatenate(weights)

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
