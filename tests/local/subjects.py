"""Randomizers small enough to enumerate, and the same ones as they are used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.local import (
    BinaryResponse,
    Conjunctions,
    HadamardResponse,
    HeavyHitters,
    KaryResponse,
    LocalHashing,
    MeanResponse,
    Randomizer,
    UnaryEncoding,
)
from dpublish.noise.base import Noise

# 1.6487^2 < e < 1.6488^2: a rational below e whose square root is rational, so that claims of 1/2,
# 1, 3/2, 2 are exact
BELOW_E = Fraction(16487, 10000) ** 2


@dataclass(frozen=True)
class Case:
    """`make(bits)` builds the randomizer with coins of so many bits; `values` are all the values
    worth comparing."""

    name: str
    make: Callable[[int], Randomizer]
    values: tuple[Any, ...]
    small_bits: int = 6

    @property
    def small(self) -> Randomizer:
        return self.make(self.small_bits)

    @property
    def usual(self) -> Randomizer:
        return self.make(64)


CASES = [
    Case("binary 1", lambda b: BinaryResponse(1, bits=b), (0, 1)),
    Case("binary 1/2", lambda b: BinaryResponse("1/2", bits=b), (0, 1)),
    Case("kary 3 levels", lambda b: KaryResponse(3, 1, bits=b), (0, 1, 2)),
    Case("kary 5 levels", lambda b: KaryResponse(5, 2, bits=b), (0, 1, 2, 3, 4)),
    Case("unary 3 levels", lambda b: UnaryEncoding(3, 1, bits=b), (0, 1, 2), small_bits=4),
    Case(
        "hashing 3 levels",
        lambda b: LocalHashing(3, "1/2", buckets=2, bits=b),
        (0, 1, 2),
        small_bits=5,
    ),
    Case(
        "hashing 5 levels", lambda b: LocalHashing(5, 1, buckets=3, bits=b), (0, 1, 4), small_bits=5
    ),
    Case("hadamard 3 levels", lambda b: HadamardResponse(3, 1, bits=b), (0, 1, 2)),
    Case(
        "hadamard 5 levels, 2 blocks",
        lambda b: HadamardResponse(5, 2, blocks=2, bits=b),
        (0, 1, 2, 3, 4),
    ),
    Case(
        "hadamard 6 levels, 4 blocks",
        lambda b: HadamardResponse(6, 2, blocks=4, bits=b),
        (0, 2, 3, 5),
    ),
    Case(
        "mean",
        lambda b: MeanResponse(-1, 3, 1, grid_bits=2, bits=b),
        (-1, 0, 0.4, 1, 2, 3, 9, float("nan")),
    ),
    Case("conjunctions", lambda b: Conjunctions(3, 2, 1, bits=b), tuple(range(8))),
    Case("heavy hitters", lambda b: HeavyHitters(5, 1, bits=b), (0, 1, 2, 3, 4)),
]


def mechanism_of(randomizer: Randomizer) -> Callable[[Noise, Any], Any]:
    """As the audits want it: one person's value in, the report as it is written out."""

    def report(noise: Noise, value: Any) -> Any:
        return written(randomizer, randomizer.randomize([value], coins=noise))

    return report


def written(randomizer: Randomizer, reports: np.ndarray) -> int:
    """The code of one report; the bytes of a unary one read as a number."""
    if isinstance(randomizer, UnaryEncoding):
        return int.from_bytes(reports[0].tobytes(), "little")
    return int(reports[0])


class FixedCoins:
    """Hands out given words, for looking at the edges of the coin."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def integers(self, bound: int, *, size: int, label: str = "") -> np.ndarray:
        taken, self.words = self.words[:size], self.words[size:]
        assert all(0 <= word < bound for word in taken)
        return np.array(taken, dtype=np.uint64)
