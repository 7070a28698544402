"""Values to compare for the randomisers of the local model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from dpublish.audit.trials.trial import Exact, Sampled, Trial
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

# 1.6487^2 < e: a rational below e with a rational root, so that a coin whose bias was made with e
# may be judged by it
BELOW_E = Fraction(16487, 10000) ** 2
BLIND = (
    "a randomiser's coins do not see the value, so the same coins lead to another report on purpose"
)
NEIGHBOURS = "any two values"


def binary() -> Iterator[Trial]:
    yield _trial("binary", lambda bits: BinaryResponse(1, bits=bits), (0, 1))


def kary() -> Iterator[Trial]:
    yield _trial("kary", lambda bits: KaryResponse(3, 1, bits=bits), (0, 1, 2))


def unary() -> Iterator[Trial]:
    yield _trial("unary", lambda bits: UnaryEncoding(3, 1, bits=bits), (0, 1, 2), small=4)


def hashing() -> Iterator[Trial]:
    yield _trial(
        "hashing", lambda bits: LocalHashing(5, 1, buckets=3, bits=bits), (0, 1, 4), small=5
    )


def hadamard() -> Iterator[Trial]:
    for blocks in (1, 2):
        yield _trial(
            "hadamard",
            lambda bits, blocks=blocks: HadamardResponse(5, 1, blocks=blocks, bits=bits),  # type: ignore[misc]
            (0, 1, 4),
            case=f"{blocks} block(s)",
        )


def heavy_hitters() -> Iterator[Trial]:
    yield _trial("heavy-hitters", lambda bits: HeavyHitters(5, 1, bits=bits), (0, 1, 4))


def mean() -> Iterator[Trial]:
    values = (-1, 0.4, 3, 9, float("nan"))
    yield _trial("mean", lambda bits: MeanResponse(-1, 3, 1, grid_bits=2, bits=bits), values)


def conjunctions() -> Iterator[Trial]:
    yield _trial(
        "conjunctions", lambda bits: Conjunctions(3, 2, 1, bits=bits), tuple(range(0, 8, 2))
    )


class Report:
    """(noise, value) -> one person's report, as it is written to a file."""

    def __init__(self, randomizer: Randomizer) -> None:
        self.name = randomizer.method
        self._randomizer = randomizer

    def __call__(self, noise: Noise, value: Any) -> Any:
        return self._randomizer.randomize_one(value, coins=noise)


def _trial(
    method: str,
    make: Callable[[int], Randomizer],
    values: Sequence[Any],
    *,
    small: int = 6,
    case: str = "",
) -> Trial:
    usual = make(32 if method == "unary" else 64)
    return Trial(
        method=method,
        case=f"{NEIGHBOURS}, {case}" if case else NEIGHBOURS,
        neighbours=NEIGHBOURS,
        claim=usual.cost,
        call=Report(usual),
        pairs=list(itertools.combinations(values, 2)),
        # coins of a few bits have few outcomes; the rounding that must favour privacy is then at
        # its coarsest
        exact=Exact(base=BELOW_E, call=Report(make(small)), max_branches=2_000_000),
        replay=BLIND,
        sampled=Sampled(runs=6000),
        twin=BLIND,
    )
