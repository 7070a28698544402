"""Error against the number of queries: median mechanism, multiplicative weights, and independent
Laplace answers.

    python -m benchmarks.papers.roth2010_online --out build/roth2010_online [--queries 100000]
    [--rows 100000]

Roth (2010, chapter 4) claims that the error of interactive counting queries need grow only with log
k. For k = 10 to `--queries` adaptive-free random range queries over 1,024 cells this measures mean
and largest error as a share of the rows. Independent Laplace answers pay epsilon / k each. The
session is run without its files: disk is not what is compared.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.papers.pages import stamp

from dpublish.declare.schema import Schema
from dpublish.errors import BudgetExceeded
from dpublish.methods.online.base import OnlineMechanism
from dpublish.methods.online.median.mechanism import MedianMechanism
from dpublish.methods.online.multiplicative_weights.mechanism import OnlineMultiplicativeWeights
from dpublish.methods.online.state import Query
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

CELLS = 1024
METHODS: dict[str, type[OnlineMechanism]] = {
    "median mechanism": MedianMechanism,
    "multiplicative weights": OnlineMultiplicativeWeights,
}


def schema_of(rows: int) -> Schema:
    return Schema.from_toml(
        f'[dataset]\nname = "bench"\nsize = {rows}\n[columns.v]\nkind = "integer"\nlower = '
        f"0\nupper = {CELLS - 2}\n"
        f"bins = {CELLS - 1}\nmissing = true\n"
    )


def table(rows: int, seed: int) -> np.ndarray:
    """Three bumps of different width over a thin floor."""
    cells = np.arange(CELLS)
    law = 0.1 / CELLS + sum(
        weight * np.exp(-(((cells - place) / width) ** 2) / 2) / width
        for weight, place, width in ((0.5, 300, 90), (0.3, 620, 25), (0.2, 800, 60))
    ) / math.sqrt(2 * math.pi)
    return np.random.default_rng(seed).multinomial(rows, law / law.sum())


def ranges(queries: int, seed: int) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).integers(0, CELLS, (queries, 2)), axis=1)


def run(
    mechanism: OnlineMechanism, counts: np.ndarray, asked: np.ndarray, seed: int
) -> dict[str, Any]:
    rows = int(counts.sum())
    plan = mechanism.plan(schema_of(rows), Cost.pure(1))
    noise = SeededNoise(seed)
    opening = mechanism.begin(noise, counts, plan.settings)
    desk = mechanism.state(plan.settings, opening.public)
    errors, held, began = [], 0, time.process_time()
    slowest = 0.0
    for low, high in asked:
        weights = np.zeros(CELLS, dtype=np.int64)
        weights[low : high + 1] = desk.resolution
        query = Query(weights, "")
        start = time.process_time()
        try:
            reply = desk.answer(noise, counts, opening.threshold, query)
        except BudgetExceeded:
            break
        desk.learn(query, reply)
        slowest = max(slowest, time.process_time() - start)
        true = int(counts[low : high + 1].sum())
        errors.append(abs(reply.value - true))
        held += reply.low <= true <= reply.high
    share = np.array(errors) / rows
    return {
        "answered": len(errors),
        "hard": desk.hard,
        "mean_error": float(share.mean()),
        "max_error": float(share.max()),
        "promised": plan.facts["accuracy"],
        "intervals_held": held / len(errors),
        "cpu_ms_a_query": 1000 * (time.process_time() - began) / len(errors),
        "cpu_ms_slowest": 1000 * slowest,
    }


def laplace(counts: np.ndarray, queries: int, seed: int) -> dict[str, Any]:
    noise = np.random.default_rng(seed).laplace(scale=queries, size=queries) / counts.sum()
    return {"mean_error": float(np.abs(noise).mean()), "max_error": float(np.abs(noise).max())}


def crossing(ks: list[int], ours: list[float], theirs: list[float]) -> float | None:
    """Where the curves cross, on logarithmic axes; None when they do not."""
    for i in range(1, len(ks)):
        before, after = math.log(ours[i - 1] / theirs[i - 1]), math.log(ours[i] / theirs[i])
        if before > 0 >= after:
            return float(
                math.exp(
                    math.log(ks[i - 1]) + math.log(ks[i] / ks[i - 1]) * before / (before - after)
                )
            )
    return None


def plot(result: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ks = result["queries"]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    for axis, what, title in zip(
        axes, ("mean_error", "max_error"), ("mean error", "largest error"), strict=True
    ):
        for name, colour in (
            ("independent Laplace", "#888888"),
            *zip(METHODS, ("#1b6ca8", "#c8553d"), strict=True),
        ):
            runs = result["runs"][name]
            axis.plot(ks, [one[what] for one in runs], "o-", color=colour, label=name)
            if "promised" in runs[0] and what == "max_error":
                axis.plot(
                    ks,
                    [one["promised"] for one in runs],
                    ":",
                    color=colour,
                    label=f"{name}, promised (95%)",
                )
        axis.set(xscale="log", yscale="log", xlabel="number of queries k", title=title)
        axis.axhline(1, color="black", linewidth=0.6)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("error as a share of all rows")
    axes[1].legend(fontsize=8)
    figure.suptitle(
        f"Random ranges over {CELLS:,} cells, n = {result['rows']:,}, epsilon = 1, "
        f"{result['max_hard']} hard answers"
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/roth2010_online"))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--max-hard", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    ks = [10**power for power in range(1, round(math.log10(given.queries)) + 1)]
    counts = table(given.rows, given.seed)
    runs: dict[str, list[dict[str, Any]]] = {
        "independent Laplace": [laplace(counts, k, given.seed) for k in ks]
    }
    for name, method in METHODS.items():
        runs[name] = []
        for k in ks:
            made = method(max_hard=given.max_hard, max_queries=k)
            runs[name].append(run(made, counts, ranges(k, given.seed + 1), given.seed))
            print(name, k, runs[name][-1], flush=True)
    result: dict[str, Any] = {
        "rows": given.rows,
        "cells": CELLS,
        "epsilon": 1,
        "max_hard": given.max_hard,
        "queries": ks,
        "seed": given.seed,
        "load": os.getloadavg()[0],
        "cpus": os.cpu_count(),
        "runs": runs,
    }
    theirs = [one["mean_error"] for one in runs["independent Laplace"]]
    result["crossing_k"] = {
        name: crossing(ks, [one["mean_error"] for one in runs[name]], theirs) for name in METHODS
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    stamp(given.out, Path(__file__).parent, "result.json")
    plot(result, given.out / "error_by_queries.png")
    print(json.dumps(result["crossing_k"]))


if __name__ == "__main__":
    main()
