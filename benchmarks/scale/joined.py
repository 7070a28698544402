"""Joined histograms at scale: the whole command, reading included, with its peak memory.

    python benchmarks/scale/joined.py --json build/bench/joined.json

Tables are made up (skewed and correlated codes): rows x 15 columns for several numbers of rows, and
100,000 rows x 100 columns.
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

sys.path.insert(0, str(Path(__file__).resolve().parent))
from make_table import write_table


def write_schema(path: Path, shape: list[int]) -> None:
    lines = ["[dataset]", 'name = "scale"', 'neighbours = "add-remove-one"', 'target = "c7"']
    for i, levels in enumerate(shape):
        lines += [
            f"[columns.c{i}]",
            'kind = "integer"',
            "lower = 0",
            f"upper = {levels - 1}",
            f"bins = {levels}",
        ]
    path.write_text("\n".join(lines) + "\n")


def timed(command: list[str]) -> dict[str, float]:
    """Wall time and peak memory of a child, read from the kernel's account of it."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command[0]} failed with {child.returncode}")
    return {"seconds": round(seconds, 2), "peak_mb": round(usage.ru_maxrss / 1024)}


def release(folder: Path, *, rows: int, columns: int, bits: int, run: int) -> dict[str, Any]:
    table, schema = folder / "table.parquet", folder / "schema.toml"
    shape = write_table(table, rows=rows, columns=columns, bits=bits)
    write_schema(schema, shape)
    command = [
        str(Path(sys.executable).with_name("dpublish")),
        "release",
        str(table),
        "--schema",
        str(schema),
        "--method",
        "joined-histograms",
        "--epsilon",
        "1",
        "--ledger",
        f"sqlite:///{folder / 'bench.ledger'}",
        "--budget",
        "1000",
        "--again",  # earlier runs asked the same of other rows
        "--out",
        str(folder / f"release-{run}.dpr"),
    ]
    return {
        "rows": rows,
        "columns": columns,
        **timed(command),
        "bundle_mb": (folder / f"release-{run}.dpr").stat().st_size / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    report: dict[str, Any] = {"cpus": os.cpu_count(), "load": os.getloadavg()[0], "runs": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["DPUBLISH_STATE"] = str(folder / "state")
        release(folder, rows=1000, columns=15, bits=60, run=0)  # leaves compiled code in the cache
        cases = [(100_000, 100, 400), *((given.rows // part, 15, 60) for part in (10, 2, 1))]
        for run, (rows, columns, bits) in enumerate(cases, start=1):
            report["runs"].append(release(folder, rows=rows, columns=columns, bits=bits, run=run))
            print(report["runs"][-1], flush=True)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
