"""Choosing columns privately: PrivateKD beside the same greedy choice with numpy's bincount on
combined codes, in one run.

    python benchmarks/scale/private_kd.py [--rows 1000000] [--columns 40] [--k 5] [--json FILE]
    [--release-rows 10000000]

Then a whole projected histogram (read, code, choose k = 4, count, noise) from files of
`--release-rows` rows and 15 columns, beside polars reading the same files. Rounds of all
contestants are interleaved, after one that does not count; each figure is the best round,
`first_seconds` the first.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from make_table import write_table

from dpublish.counting.cells import coded_rows
from dpublish.declare.schema import Schema
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.discernibility import non_private_kd, private_kd
from dpublish.methods.projected_histogram.mechanism import ProjectedHistogram
from dpublish.methods.projected_histogram.scores import PairCount, Purity
from dpublish.noise.source import SystemNoise
from dpublish.privacy.cost import Cost
from dpublish.sources.sources import open_source

ROUNDS = 5


def made_table(rows: int, columns: int) -> CodedTable:
    """Skewed columns of 2 to 16 levels; the label depends on the first six."""
    rng = np.random.default_rng(0)
    levels = [int(n) for n in rng.integers(2, 17, columns)]
    codes = []
    for count in levels:
        weights = 1 / np.arange(1, count + 1) ** 0.7
        codes.append(rng.choice(count, rows, p=weights / weights.sum()).astype(np.uint8))
    signal = sum(code / count for code, count in zip(codes[:6], levels, strict=False))
    label = (signal + rng.normal(0, 0.5, rows) > np.median(signal)).astype(np.uint8)
    return CodedTable(codes, levels, label, 2)


def numpy_kd(table: CodedTable, k: int) -> tuple[int, ...]:
    """The usual way: one bincount of combined codes a candidate, classes renumbered by
    np.unique."""
    group, classes = np.zeros(table.rows, dtype=np.int64), 1
    left, chosen = list(range(len(table.columns))), []
    for _ in range(k):
        base = group * table.labels + table.labels_of
        undiscerned = []
        for column in left:
            levels = table.levels[column]
            counts = np.bincount(
                base * levels + table.columns[column], minlength=classes * table.labels * levels
            )
            counts = counts.reshape(classes, table.labels, levels)
            undiscerned.append(int((counts.sum(1) ** 2 - (counts**2).sum(1)).sum()) // 2)
        best = left[int(np.argmin(undiscerned))]
        left.remove(best)
        chosen.append(best)
        distinct, group = np.unique(
            group * table.levels[best] + table.columns[best], return_inverse=True
        )
        classes = distinct.size
    return tuple(chosen)


def best_times(
    contestants: dict[str, Callable[[], object]], rounds: int
) -> dict[str, dict[str, float]]:
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    for _ in range(rounds):
        for name, run in contestants.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        name: {
            "seconds": min(w for w, _ in t),
            "first_seconds": t[0][0],
            "cpu_seconds": min(c for _, c in t),
        }
        for name, t in times.items()
    }


def choosing(rows: int, columns: int, k: int) -> dict[str, Any]:
    table = made_table(rows, columns)
    pairs, purity, noise = PairCount(rows), Purity(10, 2), SystemNoise()
    assert numpy_kd(table, k) == non_private_kd(table, k), "the two ways disagree"
    figures: dict[str, Any] = best_times(
        {
            "private_kd": lambda: private_kd(noise, table, k, epsilon=Fraction(1), score=pairs),
            "private_kd_prediction": lambda: private_kd(
                noise, table, k, epsilon=Fraction(1), score=purity
            ),
            "numpy_bincount": lambda: numpy_kd(table, k),
            "read_codes_k_times": lambda: [
                column.view(np.uint8).sum() for _ in range(k) for column in table.columns
            ],
        },
        ROUNDS,
    )
    figures["times_faster_than_numpy"] = (
        figures["numpy_bincount"]["seconds"] / figures["private_kd"]["seconds"]
    )
    return {"rows": rows, "columns": columns, "k": k, **figures}


def releasing(rows: int) -> dict[str, Any]:
    """From file to publishable content, without ledger and bundle, which take a constant time."""
    method = ProjectedHistogram(k=4, gamma="1/2")
    with tempfile.TemporaryDirectory() as folder:
        parquet, csv = Path(folder) / "table.parquet", Path(folder) / "table.csv"
        shape = write_table(parquet, rows=rows, columns=15, bits=40)
        pl.scan_parquet(parquet).sink_csv(csv)
        lines = ["[dataset]", 'name = "bench"', f"size = {rows}", 'target = "c14"']
        for i, levels in enumerate(shape):
            lines += [
                f"[columns.c{i}]",
                'kind = "integer"',
                "lower = 0",
                f"upper = {levels - 1}",
                f"bins = {levels}",
            ]
        schema = Schema.from_toml("\n".join(lines))
        plan = method.plan(schema, Cost.pure(1))
        assert plan.domain is not None
        domain = plan.domain

        def release(path: Path) -> object:
            return method.run(
                SystemNoise(), coded_rows(open_source(path), schema, domain, key=bytes(16)), plan
            )

        # reading Parquet takes a tenth of a second, so that one round says little; CSV takes
        # seconds
        quick = {
            "release_parquet": lambda: release(parquet),
            "read_parquet": lambda: pl.read_parquet(parquet),
        }
        slow = {"release_csv": lambda: release(csv), "read_csv": lambda: pl.read_csv(csv)}
        figures: dict[str, Any] = best_times(quick, 9) | best_times(slow, 2)
    for kind in ("parquet", "csv"):
        release_times, read_times = figures[f"release_{kind}"], figures[f"read_{kind}"]
        figures[f"times_reading_{kind}"] = release_times["seconds"] / read_times["seconds"]
        figures[f"times_reading_{kind}_first"] = (
            release_times["first_seconds"] / read_times["first_seconds"]
        )
        figures[f"times_reading_{kind}_cpu"] = (
            release_times["cpu_seconds"] / read_times["cpu_seconds"]
        )
    return {"rows": rows, "columns": 15, "k": 4, **figures}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument(
        "--release-rows", type=int, default=10_000_000, help="0 leaves the whole release out"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    report: dict[str, Any] = {"cpus": os.cpu_count(), "load": os.getloadavg()[0]}
    report["choosing"] = choosing(given.rows, given.columns, given.k)
    if given.release_rows:
        report["releasing"] = releasing(given.release_rows)
    print(json.dumps(report, indent=2))
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
