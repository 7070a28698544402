"""Scores of all multisets, and multiplicative weights, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def exact_sums(table: NDArray[np.generic], counts: Ints, out: Ints) -> None:
    """out[q] = sum of table[q, x] * counts[x], in whole numbers; the table stays one or two bytes a
    value."""
    for q in range(table.shape[0]):
        total = np.int64(0)
        for x in range(table.shape[1]):
            total += np.int64(table[q, x]) * counts[x]
        out[q] = total


@njit(cache=True, nogil=True)
def weighted_sums(table: NDArray[np.generic], weights: Floats, out: Floats) -> None:
    """The same for weights. Every row is added up from its first cell to its last, so results do
    not depend on the machine."""
    for q in range(table.shape[0]):
        total = 0.0
        for x in range(table.shape[1]):
            total += table[q, x] * weights[x]
        out[q] = total


@njit(cache=True, nogil=True)
def multiset_scores(target: Ints, table: Ints, size: int, scores: Ints) -> None:
    """scores[i] = -max_q |target_q - sum of table[q, x] over the i-th multiset|, multisets in
    lexicographic order.

    One query vector is added for each element that changes, so most multisets cost one addition and
    one maximum.
    """
    queries, points = table.shape
    chosen = np.zeros(size, dtype=np.int64)
    partial = np.zeros((size + 1, queries), dtype=np.int64)
    depth = 0
    place = 0
    while True:
        for level in range(depth, size):
            for q in range(queries):
                partial[level + 1, q] = partial[level, q] + table[q, chosen[level]]
        worst = np.int64(0)
        for q in range(queries):
            gap = abs(target[q] - partial[size, q])
            if gap > worst:
                worst = gap
        scores[place] = -worst
        place += 1
        depth = size - 1
        while depth >= 0 and chosen[depth] == points - 1:
            depth -= 1
        if depth < 0:
            return
        chosen[depth] += 1
        for level in range(depth + 1, size):
            chosen[level] = chosen[depth]


@njit(cache=True, nogil=True)
def reweigh(weights: Floats, row: Floats, answer: float, total: float) -> None:
    """One multiplicative update: cells that the query counts go up when the answer is above what
    the weights say."""
    said = 0.0
    for x in range(weights.size):
        said += row[x] * weights[x]
    push = (answer - said) / (2.0 * total)
    norm = 0.0
    for x in range(weights.size):
        weights[x] *= np.exp(push * row[x])
        norm += weights[x]
    for x in range(weights.size):
        weights[x] *= total / norm
