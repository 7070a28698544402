"""Acceptance of Laplace proposals as Gaussian draws."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

# Leading bits of a word that are compared; they convert to a double without rounding.
ACCEPT_BITS = 53
# Bound on the error of the level that a word is compared with; see gaussian.proof.md.
GUARD = 2.0**-38

REJECTED = 1
UNDECIDED = 2

_UNIT = 2.0**-ACCEPT_BITS
_LOG2_E = 1.4426950408889634
_LN_2 = 0.6931471805599453
_COEFFICIENTS = np.array(
    [
        1.0,
        1 / 2,
        1 / 6,
        1 / 24,
        1 / 120,
        1 / 720,
        1 / 5040,
        1 / 40320,
        1 / 362880,
        1 / 3628800,
        1 / 39916800,
        1 / 479001600,
    ]
)
_HALVES = 0.5 ** np.arange(64)


@njit(cache=True, nogil=True)
def exp_below(x: float) -> float:
    """exp(-x) for x >= 0 to within 2^-40, from additions, multiplications and exact powers of two
    only."""
    if x > 40.0:
        return 0.0
    whole = np.int64(x * _LOG2_E)
    rest = x - np.float64(whole) * _LN_2
    total = 1.0 / 6227020800
    for k in range(_COEFFICIENTS.size - 1, -1, -1):
        total = _COEFFICIENTS[k] - rest * total
    return float((1.0 - rest * total) * _HALVES[whole])


@njit(cache=True, nogil=True)
def accept_proposals(
    proposals: NDArray[np.int64],
    words: NDArray[np.uint64],
    peak: float,
    half_precision: float,
    limit: int,
    places: NDArray[np.int64],
    outcomes: NDArray[np.uint8],
) -> int:
    """Test each proposal with probability exp(-(|y| - peak)^2 half_precision); list those not
    surely accepted.

    A magnitude of `limit` stands for "that or more", so its level is not known here.
    """
    found = 0
    for i in range(proposals.size):
        magnitude = abs(proposals[i])
        distance = np.float64(magnitude) - peak
        level = exp_below(distance * distance * half_precision)
        drawn = np.float64(np.int64(words[i] >> np.uint64(64 - ACCEPT_BITS))) * _UNIT
        places[found] = i
        outcomes[found] = REJECTED if (drawn >= level + GUARD) & (magnitude < limit) else UNDECIDED
        found += int((drawn + _UNIT > level - GUARD) | (magnitude >= limit))
    return found
