"""What every private method must lose on some instance of a given size: arguments of the thesis,
with their constants.

The theorems of chapter 7 hold "up to constants", for some range of epsilon and for large instances.
Quoted outside of it they say what is impossible, such as a cut with more edges than there are. So
each proof is gone through here for the size at hand: rows that differ by t change a probability p
to at most exp(epsilon t) p + delta (exp(epsilon t) - 1) / (exp(epsilon) - 1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_TRIED = 400


def cut_excess(vertices: int, epsilon: float, delta: float = 0.0) -> float:
    """Edges more than the smallest cut has, in expectation (theorem 42).

    Take a d-connected graph in which all degrees are d: d even, or all pairs. One of the n cuts
    that part a vertex v has at most probability 1/n. Without the d edges of v that cut is empty,
    and all others have at least d - 1 edges, because the graph without v is still (d -
    1)-connected.
    """
    if vertices < 3:
        return 0.0
    degrees = np.append(
        2.0 * _tried(min((vertices - 1) / 2, math.log(vertices) / (2 * epsilon))), vertices - 1.0
    )
    return _best((degrees - 1) * (1 - _grown(1 / vertices, degrees, epsilon, delta)))


def missed(places: int, k: int, epsilon: float, delta: float = 0.0) -> float:
    """Of demand at k of n places, how many points are at none of k chosen ones, in expectation
    (theorems 47 and 66).

    L points at each place of a random set. With one place i of it exchanged for another, which
    changes 2L points, i is as likely as any place outside the rest of the set, and so chosen with
    probability at most k / (n - k + 1).
    """
    known = k / (places - k + 1)
    if known >= 1:
        return 0.0
    points = _tried(-math.log(known) / (2 * epsilon))
    return _best(k * points * (1 - _grown(known, 2 * points, epsilon, delta)))


def cover_factor(vertices: int, epsilon: float, delta: float = 0.0) -> float:
    """How many times the smallest cover, in expectation (theorem 51).

    A star of t edges with a random centre is covered by one vertex. Without any edge the method
    knows nothing of the centre: of t pairs it gives half to the other end, and all of them for one
    vertex in t + 1 at most.
    """
    if vertices < 2:
        return 1.0
    around = np.maximum(1.0, np.round(1 / epsilon) + np.arange(-2.0, 4.0))
    edges = np.minimum(vertices - 1.0, np.append(_tried(vertices - 1), around))
    spread = np.minimum(edges * epsilon, 700.0)
    lost = delta * np.expm1(spread) / math.expm1(min(epsilon, 700.0)) * (edges - 1)
    return 1.0 + _best(np.exp(-spread) * (edges / 2 - 1 / (edges + 1) - lost))


def nothing_ruled_out(theorem: int) -> str:
    """What a plan says where a bound is 0."""
    return f"theorem {theorem} rules nothing out at this size and epsilon."


def _grown(chance: float, rows: Floats, epsilon: float, delta: float) -> Floats:
    """The most that a probability may become when so many rows change."""
    spread = np.minimum(rows * epsilon, 700.0)
    found: Floats = np.exp(spread) * chance + delta * np.expm1(spread) / math.expm1(
        min(epsilon, 700.0)
    )
    return found


def _tried(most: float) -> Floats:
    """Whole numbers from 1 to `most`, or some of them: what is proved with any of them is
    proved."""
    found: Floats = np.unique(np.floor(np.geomspace(1.0, max(1.0, most), _TRIED)))
    return found


def _best(values: Floats) -> float:
    return max(0.0, float(values.max()))
