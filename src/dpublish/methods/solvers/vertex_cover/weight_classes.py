"""Weight classes of the weighted vertex cover, and the number of hallucinated edges that makes it
epsilon-DP.

All of it follows from the public weights. Weights are rounded up to powers of two times the
smallest; class j holds the vertices of rounded weight 2^j and has score 2^-j. After quota_j rounds
that output a vertex of class j or a heavier one, what is left of class j is output in random order
(dumped).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpublish.errors import PlanError
from dpublish.noise.base import IntArray

_GRID = 1 << 8
_LARGEST_TOTAL = 1 << 62
_SLACK = Fraction(1_000_000_001, 1_000_000_000)  # far above the rounding of the float sums below


@dataclass(frozen=True)
class WeightClasses:
    """`of_vertex`: class of each vertex; `scores`: integers proportional to 2^-j; `factor`: the
    accuracy guarantee."""

    of_vertex: IntArray
    exponents: tuple[int, ...]
    sizes: tuple[int, ...]
    scores: IntArray
    quotas: IntArray
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
    power = max(0, ratio.numerator.bit_length() - ratio.denominator.bit_length() - 1)
    while ratio.denominator << power < ratio.numerator:
        power += 1
    return power
