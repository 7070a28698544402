"""Parities from conjunctions: the identity behind the barrier of the local model (Roth 2010,
equation 6.1 and theorem 38).

A parity of s attributes is a signed sum of the conjunctions of its subsets, with weights up to
2^(s-1). Whoever could release all conjunctions of s attributes to within alpha would know all
parities to within alpha (3^s - 1) / 2, and no local protocol with few questions can know many
parities.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

from dpublish.errors import QueryError

T = TypeVar("T")


def parity_weights(size: int) -> list[int]:
    """The weight (-2)^(i-1) of a conjunction of i attributes, for i = 1..size."""
    if size < 1:
        raise QueryError("A parity needs at least one attribute.")
    return [(-2) ** (i - 1) for i in range(1, size + 1)]


def parity_from_conjunctions(
    names: Sequence[T], conjunction: Callable[[tuple[T, ...]], float]
) -> float:
    """The share of people with an odd number of the named attributes; `conjunction` gives the share
    that has all of a set."""
    weights = parity_weights(len(names))
    return sum(
        weights[size - 1] * conjunction(chosen)
        for size in range(1, len(names) + 1)
        for chosen in itertools.combinations(names, size)
    )


def parity_error(size: int, conjunction_error: float) -> float:
    """The largest error of a parity when each conjunction is off by at most `conjunction_error`."""
    if size < 1:
        raise QueryError("A parity needs at least one attribute.")
    return conjunction_error * float(3**size - 1) / 2
