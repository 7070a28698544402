"""An interval tree of many points over 2^30 positions, and many range queries on the release.

    python benchmarks/scale/interval_tree.py [--rows 10000000] [--queries 100000] [--json FILE]

Times are those of one process: the whole release from a data frame in memory (plan, debit, read,
sort, cut, count, seal), its parts, and the queries with error bars. The load of the machine is
written beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dpublish as dp

SCHEMA = """
[dataset]
name = "points"
[columns.x]
kind = "integer"
lower = 0
upper = 1073741823
"""


def timed(rows: int, queries: int, tree: str) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    values = np.clip(rng.normal(2**29, 2**26, rows), 0, 2**30 - 1).astype(np.int64)
    frame = pl.DataFrame({"x": values})
    with tempfile.TemporaryDirectory() as folder:
        curator = dp.Curator(
            frame,
            dp.Schema.from_toml(SCHEMA),
            ledger=Path(folder) / "ledger.db",
            second_budget=True,
            budget=dp.Budget(epsilon=1000),
        )
        steps: list[tuple[str, float]] = []
        began, worked = time.perf_counter(), time.process_time()
        release: Any = curator.publish(
            dp.IntervalTree(tree=tree),
            epsilon=1,
            progress=lambda step: steps.append((step, time.perf_counter())),
        )
        released, processor = time.perf_counter() - began, time.process_time() - worked
    ends = np.sort(rng.integers(0, 2**30, (queries, 2)), axis=1).astype(np.float64)
    start = time.perf_counter()
    answers = release.ranges(ends[:, 0], ends[:, 1])
    asked = time.perf_counter() - start
    ordered = np.sort(values)
    truth = np.searchsorted(ordered, ends[:, 1], side="right") - np.searchsorted(
        ordered, ends[:, 0]
    )
    return {
        "tree": tree,
        "rows": rows,
        "boxes": len(release.boxes),
        "release_seconds": released,
        "release_processor_seconds": processor,
        "steps": {name: round(at - began, 3) for name, at in steps},
        "queries": queries,
        "query_seconds": asked,
        "mean_error_rows": float(np.abs(answers["count"].to_numpy() - truth).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    timed(10_000, 100, "privtree")  # loads modules and compiled code
    found = {"load": os.getloadavg()[0], "results": [timed(args.rows, args.queries, "privtree")]}
    for result in found["results"]:
        print(
            f"{result['tree']}: {result['rows']:,} points in {result['release_seconds']:.2f} s "
            f"({result['release_processor_seconds']:.2f} s of processor), {result['boxes']:,} "
            f"boxes; "
            f"{result['queries']:,} ranges in {result['query_seconds']:.2f} s, mean error "
            f"{result['mean_error_rows']:.1f} rows "
            f"(load {found['load']:.1f})"
        )
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
