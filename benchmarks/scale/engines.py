"""What an engine costs per row: this machine, and Spark on it, beside Spark's own group-by.

    python benchmarks/scale/engines.py --rows 10000000 --spark --json build/bench/engines.json

A made-up Parquet table of 15 columns of codes. Each figure is CPU time and peak memory of a process
of its own, children included (for Spark: of the Java process and its Python workers as well).

    encode      reads and encodes all columns, and counts nothing: the floor of every method
    histogram   counts of the cells of four columns
    tables      the tables of all 91 pairs of the other columns with the target, in one pass
    joined      the whole release by joined histograms
    group-by    (Spark) its own `groupBy` of the same four columns: the floor of what Spark does
    group-pairs (Spark) its own count of the same 91 tables in one pass (`groupingSets`), up to 1e6
                rows unless it is asked for with --only: it writes every row 91 times

At the end stand nanoseconds of CPU a row, less the CPU of the same task over a thousand rows, and
how many times the floors ours takes.

`--copies 100` counts a folder in which the file stands a hundred times, for more rows than the disk
holds: every copy is read, decoded and counted. `--only encode joined` leaves the others out.
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
from joined import write_schema
from make_table import write_table

SMALLEST = 1_000  # rows of the table whose cost is taken off: starting, and compiling
MAX_GROUPED = 1_000_000
CLUSTER = "local[2]"

SCRIPT = """
import sys, itertools, time, os
from pathlib import Path
from dpublish.counting.compute import compute
from dpublish.declare.encode import Encoder
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import CellCounts, ContingencyTables
from dpublish.sources.sources import open_source

task, table, schema, url = sys.argv[1:]
facts = Schema.read(schema)
names = list(facts.columns)
domain = facts.domain(names)
if url != "local":
    from dpublish.sources.spark import SparkSource
    source = open_source(SparkSource(table, url))
    session = source.frame.sparkSession
else:
    source = open_source(table)
four = facts.domain([names[i] for i in (0, 2, 7, 10)])
target = names.index("c7")
pairs = tuple((a, b, target) for a, b in itertools.combinations(range(len(names)), 2)
              if target not in (a, b))
started = time.perf_counter()
if task == "encode":
    for batch, _ in source.coded(Encoder(domain)):
        pass
elif task == "histogram":
    compute(CellCounts(four), source, facts, key=bytes(16))
elif task == "tables":
    compute(ContingencyTables(domain, pairs), source, facts, key=bytes(16))
elif task == "group-by":
    source.frame.groupBy([names[i] for i in (0, 2, 7, 10)]).count().toArrow()
elif task == "group-pairs":
    sets = [[names[place] for place in table] for table in pairs]
    source.frame.groupingSets(sets, *names).count().toArrow()
print(time.perf_counter() - started)
"""


def tree_cpu(pid: int) -> float:
    """CPU seconds of a process and all below it that live, from the kernel's account."""
    ticks = os.sysconf("SC_CLK_TCK")
    total, todo = 0.0, [pid]
    while todo:
        one = todo.pop()
        try:
            stat = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(x) for x in stat[11:15]) / ticks
            for begun in Path(f"/proc/{one}/task").glob("*/children"):  # by any thread
                todo += [int(x) for x in begun.read_text().split()]
        except OSError:
            continue
    return total


def timed(command: list[str]) -> dict[str, float]:
    """Seconds, CPU seconds with all descendants, and peak memory of the process itself."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    below = 0.0
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        below = max(below, tree_cpu(child.pid))
        time.sleep(0.05)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command[1:3]} failed with {child.returncode}")
    return {
        "seconds": round(time.perf_counter() - start, 2),
        "cpu": round(max(below, usage.ru_utime + usage.ru_stime), 2),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }


def per_row(runs: list[dict[str, Any]], smallest: int) -> list[dict[str, Any]]:
    """Nanoseconds of CPU a row of each task, and how many times its floor that is."""
    base = {(run["engine"], run["task"]): run["cpu"] for run in runs if run["rows"] == smallest}
    cost = {
        (run["rows"], run["engine"], run["task"]): 1e9
        * (run["cpu"] - base[run["engine"], run["task"]])
        / run["rows"]
        for run in runs
        if run["rows"] != smallest
    }
    floors = {
        ("local", "joined"): ["encode"],
        (CLUSTER, "histogram"): ["group-by"],
        (CLUSTER, "tables"): ["group-by", "group-pairs"],
    }
    return [
        {
            "rows": rows,
            "engine": engine,
            "task": task,
            "ns": round(found),
            **{
                f"times {floor}": round(found / cost[rows, engine, floor], 2)
                for floor in floors.get((engine, task), [])
                if cost.get((rows, engine, floor), 0) > 0
            },
        }
        for (rows, engine, task), found in cost.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    report: dict[str, Any] = {"cpus": os.cpu_count(), "load": os.getloadavg()[0], "runs": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["DPUBLISH_STATE"] = str(folder / "state")
        schema = folder / "schema.toml"
        tasks = [("local", task) for task in ("encode", "histogram", "tables")]
        if given.spark:
            tasks += [(CLUSTER, t) for t in ("group-by", "histogram", "tables", "group-pairs")]
        tasks = [one for one in tasks if not given.only or one[1] in given.only]
        for made in [SMALLEST, *given.rows]:
            table = folder / f"{made}"
            table.mkdir()
            file = table / "0.parquet"
            write_schema(schema, write_table(file, rows=made, columns=15, bits=60))
            for copy in range(1, given.copies):
                os.link(file, table / f"{copy}.parquet")
            rows = made * given.copies
            for url, task in tasks:
                if task == "group-pairs" and rows > MAX_GROUPED and task not in given.only:
                    continue
                command = [sys.executable, "-c", SCRIPT, task, str(table), str(schema), url]
                if made == SMALLEST and url == "local":
                    timed(command)  # leaves compiled code in the cache
                measured = {"rows": rows, "engine": url, "task": task, **timed(command)}
                report["runs"].append(measured)
                print(measured, flush=True)
            if given.only and "joined" not in given.only:
                continue
            command = [
                str(Path(sys.executable).with_name("dpublish")),
                "release",
                str(table),
                *("--schema", str(schema), "--method", "joined-histograms", "--epsilon", "1"),
                *("--ledger", f"sqlite:///{folder / f'{rows}.ledger'}", "--budget", "10"),
                *("--out", str(folder / f"{rows}.dpr"), "--second-budget"),
            ]
            measured = {"rows": rows, "engine": "local", "task": "joined", **timed(command)}
            report["runs"].append(measured)
            print(measured, flush=True)
    report["per_row"] = per_row(report["runs"], SMALLEST * given.copies)
    for line in report["per_row"]:
        print(line)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
