"""The whole `dpublish release` command beside polars reading the same file and counting the same
cells, in one run.

    python benchmarks/scale/release.py --rows 10000000 --columns 15 --json release.json

Both run as processes of their own, start to end. Then the release alone: time against rows, and
against the size of the domain: the same rows, and so the same occupied cells, with bounds declared
wider until there are 2^20, 2^40 and 2^60 cells, and the threshold chosen for equally many false
cells.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

from make_table import cardinalities, write_table

from dpublish.methods.draws import smallest_threshold

FALSE_CELLS = 100_000
POLARS = """
import polars, sys
frame = polars.read_parquet(sys.argv[1])
frame.group_by(frame.columns).len()
"""


def timed(command: list[str]) -> dict[str, float]:
    """Wall time and peak memory of a child, read from the kernel's account of it."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command[0]} failed with {child.returncode}")
    return {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1024,
    }


def write_schema(path: Path, shape: list[int]) -> None:
    lines = ["[dataset]", 'name = "bench"', 'neighbours = "replace-one"']
    for i, cardinality in enumerate(shape):
        lines += [
            f"[columns.c{i}]",
            'kind = "integer"',
            "lower = 0",
            f"upper = {cardinality - 1}",
            f"bins = {cardinality}",
        ]
        lines += ["missing = true"] if i == 0 else []
    path.write_text("\n".join(lines) + "\n")


def release(folder: Path, table: Path, shape: list[int], number: int) -> dict[str, float]:
    schema = folder / f"bench{number}.toml"
    write_schema(schema, shape)
    out = folder / f"{number}.dpr"
    cells = math.prod(shape) // shape[0] * (shape[0] + 1)
    threshold = smallest_threshold(Fraction(2), cells, FALSE_CELLS)
    command = [
        str(Path(sys.executable).with_name("dpublish")),
        "release",
        str(table),
        "--schema",
        str(schema),
        "--method",
        "histogram",
        "--epsilon",
        "1",
        "--set",
        f"threshold={threshold}",
        "--ledger",
        f"sqlite:///{folder / 'bench.ledger'}",
        "--budget",
        "1000",
        "--again",  # earlier runs asked the same of other rows
        "--out",
        str(out),
        "--overwrite",
    ]
    timing = timed(command)
    return {
        **timing,
        "domain_bits": round(math.log2(cells), 2),
        "threshold": threshold,
        "bundle_mb": out.stat().st_size / 1e6,
    }


def best(runs: list[dict[str, float]]) -> dict[str, float]:
    return min(runs, key=lambda run: run["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=15)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    report: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "rows": given.rows,
        "columns": given.columns,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["DPUBLISH_STATE"] = str(folder / "state")
        table = folder / "table.parquet"
        shape = write_table(table, rows=given.rows, columns=given.columns, bits=40)
        polars = [sys.executable, "-c", POLARS, str(table)]
        release(folder, table, shape, 0)  # leaves compiled code in the cache
        timed(polars)
        report["dpublish_release"] = best([release(folder, table, shape, i) for i in range(1, 4)])
        report["polars_read_and_count"] = best([timed(polars) for _ in range(3)])
        report["times_polars"] = (
            report["dpublish_release"]["seconds"] / report["polars_read_and_count"]["seconds"]
        )
        report["by_rows"] = []
        for i, share in enumerate((8, 4, 2, 1)):
            write_table(table, rows=given.rows // share, columns=given.columns, bits=40)
            report["by_rows"].append(
                {"rows": given.rows // share, **release(folder, table, shape, 10 + i)}
            )
        report["by_domain"] = []
        write_table(table, rows=given.rows, columns=given.columns, bits=20)
        for i, bits in enumerate((20, 40, 60)):
            report["by_domain"].append(
                release(folder, table, cardinalities(given.columns, bits), 20 + i)
            )
    print(json.dumps(report, indent=2))
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
