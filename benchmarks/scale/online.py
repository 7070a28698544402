"""How long an online query takes: hit-and-run over 1,024 cells with 50 hard answers, and a whole
durable query on disk.

    python benchmarks/scale/online.py --json online.json

Wall and processor time are both given: the machine may be shared. The goal is an answer in under 50
ms.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dpublish as dp
from dpublish.methods.online.base import OnlineMechanism
from dpublish.methods.online.median.mechanism import SampledHypotheses
from dpublish.methods.online.state import Query, Reply
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

CELLS, HARD, ROWS = 1024, 50, 1_000_000
SCHEMA = (
    f'[dataset]\nname = "bench"\nsize = {ROWS}\n[columns.v]\nkind = "integer"\nlower = 0\nupper = '
    f"{CELLS - 2}\n"
    f"bins = {CELLS - 1}\nmissing = true\n"
)


def timed(action: Callable[[], Any], repeats: int) -> dict[str, float]:
    walls, works = [], []
    for _ in range(repeats):
        wall, work = time.perf_counter(), time.process_time()
        action()
        walls.append(1000 * (time.perf_counter() - wall))
        works.append(1000 * (time.process_time() - work))
    return {
        "wall_ms_median": float(np.median(walls)),
        "wall_ms_worst": max(walls),
        "cpu_ms_median": float(np.median(works)),
        "cpu_ms_worst": max(works),
    }


def learnt(mechanism: OnlineMechanism, counts: np.ndarray, rng: np.random.Generator) -> Any:
    """A desk that has already seen 50 hard answers to random predicates."""
    plan = mechanism.plan(dp.Schema.from_toml(SCHEMA), Cost.pure(1))
    noise = SeededNoise(1)
    opening = mechanism.begin(noise, counts, plan.settings)
    desk = mechanism.state(plan.settings, opening.public)
    for _ in range(HARD):
        query = predicate(rng, desk.resolution)
        noisy = int(counts @ query.weights)
        desk.learn(
            query,
            Reply(label="hard", value=0, standard_error=0, low=0, high=0, level=0.95, noisy=noisy),
        )
    return noise, opening, desk


def predicate(rng: np.random.Generator, resolution: int) -> Query:
    return Query((rng.random(CELLS) < 0.5).astype(np.int64) * resolution, "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    counts = rng.multinomial(ROWS, rng.dirichlet(np.ones(CELLS)))
    report: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "cells": CELLS,
        "hard_answers": HARD,
    }
    for mechanism in (
        dp.MedianMechanism(max_hard=HARD + 1),
        dp.OnlineMultiplicativeWeights(max_hard=HARD + 1),
    ):
        noise, opening, desk = learnt(mechanism, counts, rng)
        desk.answer(
            noise, counts, opening.threshold, predicate(rng, desk.resolution)
        )  # draws hypotheses, loads compiled code

        def ask(noise: Any = noise, opening: Any = opening, desk: Any = desk) -> None:
            desk.answer(noise, counts, opening.threshold, predicate(rng, desk.resolution))

        report[mechanism.method] = {"query_with_current_hypotheses": timed(ask, 50)}
        if isinstance(mechanism, dp.MedianMechanism):
            made: SampledHypotheses = desk._hypotheses

            def ask_after_hard(
                made: SampledHypotheses = made, ask: Callable[[], None] = ask
            ) -> None:
                made._table = None
                ask()

            report[mechanism.method]["query_that_draws_hypotheses_anew"] = timed(ask_after_hard, 20)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPUBLISH_STATE"] = str(Path(folder) / "state")
        frame = pl.DataFrame({"v": np.repeat(np.arange(CELLS - 1), 200)})
        schema = dp.Schema.from_toml(SCHEMA.replace(f"size = {ROWS}\n", ""))
        curator = dp.Curator(
            frame,
            schema,
            ledger=Path(folder) / "l",
            budget=dp.Budget(epsilon=1),
            second_budget=True,
        )
        session = curator.answer_online(dp.MedianMechanism(max_hard=HARD), epsilon=1)
        edges = iter(rng.integers(1, CELLS - 1, 1000).tolist())
        session.ask("v < 100")
        report["durable_query_on_disk"] = timed(lambda: session.ask(f"v < {next(edges)}"), 40)
    print(json.dumps(report, indent=2))
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
