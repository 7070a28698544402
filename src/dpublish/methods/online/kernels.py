"""Compiled steps of the online mechanisms: a random walk in a cut simplex, and tilting a histogram
towards answers.

Everything here works on public numbers: answers that were already shown, and hypotheses made from
them. The walk's randomness is a counter-based generator started from a public seed, so that a
resumed session finds the very same hypotheses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpublish.compiled import njit

_FAR = 8.0
"""More mass than there is."""


@njit(cache=True, nogil=True)
def next_word(state: np.ndarray) -> Any:
    """SplitMix64: one word for each step of a 64-bit counter."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def next_share(state: np.ndarray) -> float:
    """A number in [0, 1)."""
    return np.float64(next_word(state) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True, fastmath=True)
def walk_flags(
    x: np.ndarray, flags: np.ndarray, off: np.ndarray, band: float, steps: int, state: np.ndarray
) -> None:
    """Pair-exchange hit-and-run for 0/1 queries. `flags` is cells x queries; `off` is each query's
    value at x less its answer.

    A step moves mass between two random cells, uniformly over the whole segment inside the simplex
    and the bands. With c = -1, 0 or 1 a query leaves room band - c * off upwards and band + c * off
    downwards, or any amount when c = 0; written without a branch, the loop over queries is a vector
    minimum.
    """
    cells, queries = flags.shape
    for _ in range(steps):
        word = next_word(state)
        i = np.int64(((word >> np.uint64(32)) * np.uint64(cells)) >> np.uint64(32))
        j = np.int64(((word & np.uint64(0xFFFFFFFF)) * np.uint64(cells)) >> np.uint64(32))
        if i == j:
            continue
        to, away = flags[i], flags[j]
        up, down = _FAR, _FAR
        for q in range(queries):
            c = to[q] - away[q]
            pull, free = c * off[q], _FAR - _FAR * c * c
            above, below = free - pull, free + pull
            up = above if above < up else up
            down = below if below < down else down
        most, least = min(x[j], max(up + band, 0.0)), -min(x[i], max(down + band, 0.0))
        move = least + next_share(state) * (most - least)
        x[i] = max(x[i] + move, 0.0)
        x[j] = max(x[j] - move, 0.0)
        for q in range(queries):
            off[q] += move * (to[q] - away[q])


@njit(cache=True, nogil=True)
def walk_shares(
    x: np.ndarray, shares: np.ndarray, off: np.ndarray, band: float, steps: int, state: np.ndarray
) -> None:
    """The same for queries with weights anywhere in [0, 1]."""
    cells, queries = shares.shape
    for _ in range(steps):
        word = next_word(state)
        i = np.int64(((word >> np.uint64(32)) * np.uint64(cells)) >> np.uint64(32))
        j = np.int64(((word & np.uint64(0xFFFFFFFF)) * np.uint64(cells)) >> np.uint64(32))
        if i == j:
            continue
        up, down = _FAR, _FAR
        for q in range(queries):
            c = shares[i, q] - shares[j, q]
            if c > 0:
                up, down = min(up, (band - off[q]) / c), min(down, (band + off[q]) / c)
            elif c < 0:
                up, down = min(up, (band + off[q]) / -c), min(down, (band - off[q]) / -c)
        most, least = min(x[j], max(up, 0.0)), -min(x[i], max(down, 0.0))
        move = least + next_share(state) * (most - least)
        x[i] = max(x[i] + move, 0.0)
        x[j] = max(x[j] - move, 0.0)
        for q in range(queries):
            off[q] += move * (shares[i, q] - shares[j, q])


@njit(cache=True, nogil=True)
def mean_closeness(points: np.ndarray, reach: float) -> np.ndarray:
    """At each of the sorted points, the mean over all points of exp(-distance / reach)."""
    count = points.size
    out = np.zeros(count)
    left, right = 0.0, 0.0
    for k in range(count):
        if k > 0:
            left = (left + 1.0) * np.exp((points[k - 1] - points[k]) / reach)
        out[k] += left + 1.0
    for k in range(count - 1, -1, -1):
        if k < count - 1:
            right = (right + 1.0) * np.exp((points[k] - points[k + 1]) / reach)
        out[k] += right
    return out / count


@njit(cache=True, nogil=True)
def tilt(
    x: np.ndarray, queries: np.ndarray, targets: np.ndarray, tolerance: float, passes: int
) -> float:
    """Tilt the histogram x towards `targets` (one a row of `queries`), each query in turn; the
    largest miss that is left.

    A 0/1 query is met exactly in one step (iterative proportional fitting); another one by a few
    Newton steps on its exponential weight. From a uniform x this tends to the histogram of largest
    entropy that agrees with the targets.
    """
    count, cells = queries.shape
    flags = np.ones(count, dtype=np.bool_)
    for q in range(count):
        for i in range(cells):
            if queries[q, i] != 0.0 and queries[q, i] != 1.0:
                flags[q] = False
                break
    worst = 0.0
    for _ in range(passes):
        worst = 0.0
        for q in range(count):
            row = queries[q]
            held = 0.0
            for i in range(cells):
                held += row[i] * x[i]
            miss = abs(held - targets[q])
            worst = max(worst, miss)
            if miss <= tolerance / 4:
                continue
            if flags[q]:
                if held <= 0.0 or held >= 1.0:
                    continue
                inside, outside = targets[q] / held, (1.0 - targets[q]) / (1.0 - held)
                for i in range(cells):
                    x[i] *= inside if row[i] == 1.0 else outside
            else:
                for _newton in range(4):
                    mean, square = 0.0, 0.0
                    for i in range(cells):
                        mean += row[i] * x[i]
                        square += row[i] * row[i] * x[i]
                    spread = square - mean * mean
                    if spread <= 1e-12 or abs(mean - targets[q]) <= tolerance / 8:
                        break
                    rate = min(max((targets[q] - mean) / spread, -4.0), 4.0)
                    total = 0.0
                    for i in range(cells):
                        x[i] *= np.exp(rate * row[i])
                        total += x[i]
                    for i in range(cells):
                        x[i] /= total
        if worst <= tolerance:
            break
    return worst


@njit(cache=True, nogil=True)
def reweight(x: np.ndarray, queries: np.ndarray, targets: np.ndarray, passes: int) -> None:
    """Multiplicative weights: each pass tilts x by exp(query * miss / 2) for every past answer
    (Hardt, Ligett, McSherry)."""
    count, cells = queries.shape
    for _ in range(passes):
        for q in range(count):
            row = queries[q]
            held = 0.0
            for i in range(cells):
                held += row[i] * x[i]
            rate = (targets[q] - held) / 2
            total = 0.0
            for i in range(cells):
                if row[i] != 0.0:
                    x[i] *= np.exp(rate * row[i])
                total += x[i]
            for i in range(cells):
                x[i] /= total
