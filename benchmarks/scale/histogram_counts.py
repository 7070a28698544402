"""How fast rows become an exact sparse histogram, beside what others take for the same answer in
the same run.

    python benchmarks/scale/histogram_counts.py --rows 10000000 --columns 15 --json counts.json

Prints, and writes as JSON: the time to read the same bytes once (the floor), dpublish, polars and
duckdb in memory; the time and the peak memory from file to counts in a process of its own; time
against rows, and against the size of the domain.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from make_table import cardinalities, write_table

from dpublish.counting.cells import count_cells
from dpublish.declare.columns import Column
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.sources.sources import open_source

KEY = bytes(16)


def schema_for(shape: list[int]) -> tuple[Schema, Domain]:
    """Integers and labels in turn, so that both ways of encoding are timed."""
    columns = {}
    for i, cardinality in enumerate(shape):
        name = f"c{i}"
        if i % 2:
            levels = tuple(str(code) for code in range(cardinality))
            columns[name] = Column(name=name, kind="categorical", levels=levels, outside="drop")
        else:
            columns[name] = Column(name=name, kind="integer", lower=0, upper=cardinality - 1)
    schema = Schema(name="bench", columns=columns)
    return schema, schema.domain(list(columns))


def best(action: Callable[[], Any], *, repeats: int) -> tuple[float, float]:
    """The least wall time, and the least processor time of all threads, of a few repeats after one
    to warm up.

    The machine may be shared: wall time then suffers from others, processor time hardly.
    """
    action()
    walls, works = [], []
    for _ in range(repeats):
        wall, work = time.perf_counter(), time.process_time()
        action()
        walls.append(time.perf_counter() - wall)
        works.append(time.process_time() - work)
    return min(walls), min(works)


def note(out: dict[str, Any], name: str, times: tuple[float, float]) -> None:
    out[f"{name}_seconds"], out[f"{name}_cpu_seconds"] = times


def count(data: object, shape: list[int]) -> Any:
    schema, domain = schema_for(shape)
    return count_cells(open_source(data), schema, domain, key=KEY)


def from_file(path: Path, shape: list[int]) -> dict[str, float]:
    """Time and peak memory of a fresh process that goes from the file to counts, compiled code
    already cached."""
    command = [sys.executable, __file__, "--child", str(path), "--shape", ",".join(map(str, shape))]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(out))


def child(path: str, shape: list[int]) -> None:
    count(
        pl.DataFrame({f"c{i}": pl.Series([0], dtype=pl.UInt8) for i in range(len(shape))}), shape
    )  # loads compiled code
    before = peak_mb()
    wall, work = time.perf_counter(), time.process_time()
    counts = count(path, shape)
    out = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - work}
    print(
        json.dumps({**out, "peak_mb": peak_mb(), "start_mb": before, "occupied": counts.cells.size})
    )


def peak_mb() -> float:
    """From the kernel's own file: getrusage would still remember the parent's peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def compare(path: Path, shape: list[int], *, peers: bool) -> dict[str, Any]:
    frame = pl.read_parquet(path).rechunk()
    words = [
        column.to_numpy()[: len(column) // 8 * 8].view(np.uint64) for column in frame.get_columns()
    ]
    out: dict[str, Any] = {
        "rows": frame.height,
        "domain_bits": round(math.log2(math.prod(shape)), 2),
    }
    note(out, "read_floor", best(lambda: [word.sum() for word in words], repeats=5))
    note(out, "dpublish", best(lambda: count(frame, shape), repeats=5))
    counts = count(frame, shape)
    out["occupied_cells"] = int(counts.cells.size)
    out["times_read_floor"] = out["dpublish_seconds"] / out["read_floor_seconds"]
    if peers:
        grouped = frame.group_by(frame.columns).len()
        assert grouped.height == counts.cells.size
        assert int(grouped["len"].sum()) == counts.total
        assert sorted(grouped["len"].to_list()) == sorted(counts.counts.tolist())
        del grouped
        note(out, "polars", best(lambda: frame.group_by(frame.columns).len(), repeats=2))
        times = duckdb_times(frame)
        if times is not None:
            note(out, "duckdb", times)
        for peer in ("polars", "duckdb"):
            if f"{peer}_seconds" in out:
                out[f"times_faster_than_{peer}"] = out[f"{peer}_seconds"] / out["dpublish_seconds"]
                out[f"times_less_cpu_than_{peer}"] = (
                    out[f"{peer}_cpu_seconds"] / out["dpublish_cpu_seconds"]
                )
    return out


def duckdb_times(frame: pl.DataFrame) -> tuple[float, float] | None:
    try:
        import duckdb
    except ModuleNotFoundError:
        return None
    connection = duckdb.connect()
    table = frame.to_arrow()
    connection.register("source_rows", table)
    connection.execute("CREATE TABLE data AS SELECT * FROM source_rows")
    names = ", ".join(frame.columns)
    query = (
        f"CREATE OR REPLACE TABLE answer AS SELECT {names}, count(*) AS n FROM data GROUP BY "
        f"{names}"
    )
    return best(lambda: connection.execute(query), repeats=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-peers", action="store_true", help="leave polars and duckdb out")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--shape", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, [int(part) for part in given.shape.split(",")])
        return
    report: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "polars": pl.__version__,
    }
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.parquet"
        shape = write_table(table, rows=given.rows, columns=given.columns, bits=40)
        report["in_memory"] = compare(table, shape, peers=not given.no_peers)
        from_file(table, shape)  # leaves compiled code in the cache
        report["from_file"] = from_file(table, shape)
        table.unlink()
        report["by_rows"] = []
        for share in (8, 4, 2, 1):
            write_table(table, rows=given.rows // share, columns=given.columns, bits=40)
            report["by_rows"].append(compare(table, shape, peers=False))
        report["by_domain"] = []
        for bits in (20, 40, 60):
            write_table(table, rows=given.rows, columns=given.columns, bits=bits)
            report["by_domain"].append(
                compare(table, cardinalities(given.columns, bits), peers=False)
            )
    print(json.dumps(report, indent=2))
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
