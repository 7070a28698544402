"""How long the solvers take at the sizes that the product promises: `python
benchmarks/scale/optimize.py --json optimize.json`.

Inputs are made up: a random graph of 10^6 edges, 10^4 sets over 10^5 elements, a graph of 5,000
vertices and 90,000 edges, and N random places on the earth (or, with --data, real cities) with 10^5
demand points. Wall and processor time of plan and run, without the ledger.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpublish.declare.schema import Schema
from dpublish.methods.solvers.inputs import Lists, edges_of
from dpublish.methods.solvers.k_median.mechanism import KMedian
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.methods.solvers.min_cut.mechanism import MinCut
from dpublish.methods.solvers.set_cover.mechanism import SetCover
from dpublish.methods.solvers.vertex_cover.mechanism import VertexCover
from dpublish.noise.source import SystemNoise
from dpublish.privacy.cost import Cost

SCHEMA = Schema(name="bench", neighbours="add-remove-one")


def timed(mechanism: Any, numbers: Any, cost: Cost) -> dict[str, float]:
    start, used = time.perf_counter(), time.process_time()
    mechanism.run(SystemNoise(), numbers, mechanism.plan(SCHEMA, cost))
    return {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - used}


def vertex_cover(draw: np.random.Generator) -> dict[str, float]:
    edges = edges_of(draw.integers(0, 200_000, (1_000_000, 2)))
    timed(VertexCover(vertices=10), edges_of([(0, 1)]), Cost.pure(1))
    return timed(VertexCover(vertices=200_000), edges, Cost.pure(1))


def set_cover(draw: np.random.Generator) -> dict[str, float]:
    sets, elements, each = 10_000, 100_000, 20
    owners = np.sort(draw.integers(0, sets, elements * each))
    items = np.concatenate([draw.permutation(elements) for _ in range(each)])
    codes = np.unique(owners * elements + items)
    starts = np.zeros(sets + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes // elements, minlength=sets), out=starts[1:])
    present = draw.integers(0, 2, elements)
    return timed(
        SetCover(sets=Lists(starts, codes % elements), elements=elements),
        present,
        Cost.approximate(1, "1e-6"),
    )


def min_cut(draw: np.random.Generator) -> dict[str, float]:
    edges = edges_of(draw.integers(0, 5_000, (90_000, 2)))
    return timed(MinCut(vertices=5_000), edges, Cost.approximate(1, "1e-6"))


def k_median(draw: np.random.Generator, given: argparse.Namespace) -> dict[str, float]:
    if given.data is not None:
        table = pl.read_csv(given.data / "cities15000.csv.gz", columns=["latitude", "longitude"])
        metric = Metric.haversine(table["latitude"].to_numpy(), table["longitude"].to_numpy())
    else:
        up, along = (
            np.degrees(np.arcsin(draw.uniform(-1, 1, given.sites))),
            draw.uniform(-180, 180, given.sites),
        )
        metric = Metric.haversine(up, along)
    demand = np.bincount(draw.integers(0, metric.size, 100_000), minlength=metric.size).astype(
        np.int64
    )
    small = Metric.haversine([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])
    timed(KMedian(k=2, metric=small), np.array([1, 1, 1]), Cost.pure(1))  # compiles
    return timed(
        KMedian(k=10, metric=metric, rule=given.rule, steps=given.steps),
        demand,
        Cost.pure(given.epsilon),
    ) | {"sites": metric.size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sites", type=int, default=34_006)
    parser.add_argument(
        "--data", type=Path, help="a folder with cities15000.csv.gz: its cities are the sites"
    )
    parser.add_argument("--epsilon", default="1", help="of the k-median")
    parser.add_argument(
        "--steps", type=int, help="swaps of the k-median search; 6 k ln n when left out"
    )
    parser.add_argument("--rule", default="demand", choices=("demand", "search"))
    parser.add_argument("--only", help="one of vertex_cover, set_cover, min_cut, k_median")
    given = parser.parse_args()
    draw = np.random.default_rng(1)
    tasks: dict[str, Callable[[], dict[str, float]]] = {
        "vertex_cover": lambda: vertex_cover(draw),
        "set_cover": lambda: set_cover(draw),
        "min_cut": lambda: min_cut(draw),
        "k_median": lambda: k_median(draw, given),
    }
    report: dict[str, Any] = {"cpus": os.cpu_count(), "load": os.getloadavg()[0]}
    for name, task in tasks.items():
        if given.only in (None, name):
            report[name] = task()
            print(name, {key: round(value, 2) for key, value in report[name].items()}, flush=True)
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
