"""MST (McKenna, Miklau and Sheldon 2021) on mbi 2.0, in an environment of its own: IN.npz OUT.npz EPSILON DELTA SEED.

Written from the paper's description: one-way marginals (a third of rho), levels below three sigma merged, a maximum spanning
tree chosen by the exponential mechanism (a third), its two-way marginals (a third), mirror descent, synthetic rows.
"""

from __future__ import annotations

import itertools
import math
import sys
import time

import numpy as np
from mbi import Domain, LinearMeasurement, estimation


def largest_rho(epsilon: float, delta: float) -> float:
    """By bisection on the simple and tight conversion of zCDP (Canonne, Kamath and Steinke 2020)."""

    def needed(rho: float) -> float:
        orders = 1 + np.exp(np.linspace(-6, 12, 4000))
        tail = (math.log(1 / delta) - np.log(orders)) / (orders - 1)
        return float(np.min(rho * orders + np.log1p(-1 / orders) + tail))

    low, high = 0.0, epsilon
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if needed(middle) <= epsilon else (low, middle)
    return low


def measure(counts, sigma, rng):
    return counts + rng.normal(0, sigma, counts.shape)


def run(codes, levels, epsilon, delta, seed):
    rng = np.random.default_rng(seed)
    rows, columns = codes.shape
    rho = largest_rho(epsilon, delta)
    sigma_one = math.sqrt(columns / (2 * rho / 3))
    maps, merged, sizes, logs, totals = [], [], [], [], []
    for column in range(columns):
        noisy = measure(np.bincount(codes[:, column], minlength=levels[column]), sigma_one, rng)
        totals.append((noisy.sum(), levels[column]))
        kept = np.flatnonzero(noisy >= 3 * sigma_one)
        rare = np.setdiff1d(np.arange(levels[column]), kept)
        table = np.full(levels[column], len(kept))
        table[kept] = np.arange(len(kept))
        size = len(kept) + bool(len(rare))
        maps.append((kept, rare))
        merged.append(table[codes[:, column]])
        sizes.append(size)
        values, deviation = noisy[kept], np.full(len(kept), sigma_one)
        if len(rare):
            scale = math.sqrt(len(rare))
            values, deviation = np.append(values, noisy[rare].sum()), np.append(deviation, sigma_one * scale)
        weight = sigma_one / deviation
        logs.append(
            LinearMeasurement(values * weight, (str(column),), sigma_one, lambda factor, w=weight: factor.datavector() * w)
        )
    names = [str(column) for column in range(columns)]
    domain = Domain(names, sizes)
    data = np.stack(merged, axis=1)
    # mbi estimates the total from plain measurements only, and merged columns are not such: hand it the same estimate
    total = max(1.0, sum(value / size for value, size in totals) / sum(1 / size for _, size in totals))
    model = estimation.mirror_descent(domain, logs, known_total=total, iters=1000)

    def joint(a, b):
        return np.bincount(data[:, a] * sizes[b] + data[:, b], minlength=sizes[a] * sizes[b])

    pairs = list(itertools.combinations(range(columns), 2))
    scores = {
        (a, b): float(np.abs(joint(a, b) - np.asarray(model.project((names[a], names[b])).datavector())).sum())
        for a, b in pairs
    }
    step = math.sqrt(8 * (rho / 3) / (columns - 1))
    tree, chosen = list(range(columns)), []
    for _ in range(columns - 1):
        free = [pair for pair in pairs if tree[pair[0]] != tree[pair[1]]]
        worth = np.array([scores[pair] for pair in free]) * step / 2
        chance = np.exp(worth - worth.max())
        pair = free[rng.choice(len(free), p=chance / chance.sum())]
        chosen.append(pair)
        old, new = tree[pair[1]], tree[pair[0]]
        tree = [new if root == old else root for root in tree]
    sigma_two = math.sqrt(len(chosen) / (2 * rho / 3))
    for a, b in chosen:
        logs.append(LinearMeasurement(measure(joint(a, b), sigma_two, rng), (names[a], names[b]), sigma_two))
    model = estimation.mirror_descent(domain, logs, known_total=total, iters=5000)
    synthetic = model.synthetic_data(rows=rows)
    held = synthetic.to_dict() if hasattr(synthetic, "to_dict") else synthetic.data
    out = np.empty((rows, columns), dtype=np.int64)
    for column, (kept, rare) in enumerate(maps):
        drawn = np.asarray(held[names[column]] if isinstance(held, dict) else held[:, column]).astype(np.int64)
        back = np.append(kept, 0)
        out[:, column] = back[np.minimum(drawn, len(kept))]
        lost = drawn == len(kept)
        if len(rare):
            out[lost, column] = rng.choice(rare, int(lost.sum()))
    return out


def main():
    source, target, epsilon, delta, seed = sys.argv[1:6]
    held = np.load(source)
    start = time.perf_counter()
    rows = run(held["train"], held["levels"].tolist(), float(epsilon), float(delta), int(seed))
    np.savez(target, rows=rows, seconds=time.perf_counter() - start)


if __name__ == "__main__":
    main()
