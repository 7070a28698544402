"""How fast transactions become a release, beside one pass over their items.

    python benchmarks/scale/baskets.py --records 1200000 --items 1012 --json baskets.json

Prints, and writes as JSON, for frequent-itemsets and set-partition: the time of one pass over the
item array (the floor) and of the mechanism in memory (processor time, noise tables warm and cold),
and the time and peak memory from a Parquet file to a release in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numba import njit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.papers.chen2011.data import DataSet, stm_like

from dpublish.methods.frequent_itemsets.mechanism import FrequentItemsets
from dpublish.methods.set_partition.mechanism import SetPartition
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost


@njit(cache=True)
def one_pass(items: Any, offsets: Any) -> int:
    total = 0
    for record in range(offsets.size - 1):
        for place in range(offsets[record], offsets[record + 1]):
            total += items[place]
    return total


def least(action: Any, repeats: int) -> float:
    spent = []
    for number in range(repeats):
        start = time.process_time()
        action(number)
        spent.append(time.process_time() - start)
    return min(spent)


def in_memory(data: DataSet, method: Any) -> dict[str, float]:
    plan = method.plan(data.schema, Cost.pure(1))
    small = data.head(1000)
    method.run(SeededNoise(0), small.baskets, plan)  # compile
    one_pass(small.baskets.items, small.baskets.offsets)
    cold = least(lambda seed: method.run(SeededNoise(seed), data.baskets, plan), 1)
    warm = least(lambda seed: method.run(SeededNoise(seed + 1), data.baskets, plan), 5)
    floor = least(lambda _: one_pass(data.baskets.items, data.baskets.offsets), 7)
    return {"pass_s": floor, "cold_s": cold, "warm_s": warm, "warm_over_pass": warm / floor}


def write_parquet(data: DataSet, path: Path) -> None:
    rows = np.repeat(np.arange(data.baskets.records), np.diff(data.baskets.offsets))
    frame = (
        pl.DataFrame({"row": rows, "items": data.baskets.items})
        .group_by("row", maintain_order=True)
        .agg("items")
    )
    frame.select("items").write_parquet(path)


CHILD = """
import sys, time
import dpublish as dp
from pathlib import Path
folder = Path(sys.argv[1])
schema = dp.Schema.read(folder / "s.toml")
marks = []
for number in range(2):
    one = dp.Budget(epsilon=1)
    ledger = folder / f"{number}.db"
    data = folder / "data.parquet"
    curator = dp.Curator(data, schema, ledger=ledger, budget=one, second_budget=True)
    start = time.perf_counter(), time.process_time()
    curator.publish(getattr(dp, sys.argv[2])(), epsilon=1, out=folder / f"{number}.dpr")
    marks.append((time.perf_counter() - start[0], time.process_time() - start[1]))
# not ru_maxrss, which on Linux starts at the size of the parent process
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(*marks[0], *marks[1], int(peak.split()[1]) / 1024)
"""


def end_to_end(data: DataSet, method: Any) -> dict[str, float]:
    """From Parquet to a sealed release; the second of two in one process, so that kernels are
    loaded and compiled."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_parquet(data, folder / "data.parquet")
        (folder / "s.toml").write_text(data.schema.to_toml())
        done = subprocess.run(
            [sys.executable, "-c", CHILD, name, type(method).__name__],
            capture_output=True,
            text=True,
            check=True,
        )
    first, first_cpu, second, second_cpu, memory = map(float, done.stdout.split())
    return {
        "first_wall_s": first,
        "first_cpu_s": first_cpu,
        "wall_s": second,
        "cpu_s": second_cpu,
        "peak_mb": memory,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_200_000)
    parser.add_argument("--items", type=int, default=1012)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    data = stm_like(given.records, given.items)
    document = {
        "records": data.baskets.records,
        "items": data.items,
        "mean_size": data.baskets.items.size / data.baskets.records,
        "load_average": os.getloadavg()[0],
        **{
            method.method: {
                "in_memory": in_memory(data, method),
                "end_to_end": end_to_end(data, method),
            }
            for method in (FrequentItemsets(), SetPartition())
        },
    }
    print(json.dumps(document, indent=1))
    if given.json is not None:
        given.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
