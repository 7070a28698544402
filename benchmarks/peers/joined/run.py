"""Runs one method on one of the coded tables and appends its figures to a file of JSON lines.

    python run.py METHOD --table adult --data DIR --environments DIR --out FILE.jsonl

Every method, ours too, runs in a process of its own on one thread, under the interpreter of its
environment (README.md).
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from coded import TABLES, Coded, coded, schema_text
from measures import auc_of, measure
from runs import append

from methods import METHODS

HERE = Path(__file__).resolve().parent
DELTA = "1e-9"
ONE_THREAD = {
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
    ),
    "POLARS_MAX_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


def run(
    method: str, table: Coded, epsilon: str, seed: int, environments: Path, timeout: float
) -> dict[str, Any]:
    """Figures of one run. A method that fails or takes too long leaves a line that says so."""
    line: dict[str, Any] = {"method": method, "table": table.name, "epsilon": epsilon, "seed": seed}
    chosen = METHODS[method]
    python = (
        str(environments / chosen.environment / "bin" / "python")
        if chosen.environment
        else sys.executable
    )
    with tempfile.TemporaryDirectory() as folder:
        source, target, errors = (
            Path(folder) / name for name in ("in.npz", "out.npz", "errors.txt")
        )
        flags = np.array(table.ordered)
        np.savez(
            source,
            train=table.train,
            test=table.test,
            levels=table.levels,
            ordered=flags,
            schema=schema_text(table),
            values=table.values,
            bounds=np.array([bound or (np.nan, np.nan) for bound in table.bounds], dtype=float),
            whole=np.array(table.whole),
            raw_schema=schema_text(table, raw=True),
        )
        words = [str(source), str(target), epsilon, DELTA, str(seed), *chosen.words]
        start = time.perf_counter()
        code, usage = child([python, str(HERE / chosen.script), *words], errors, timeout)
        line |= {
            "process_seconds": round(time.perf_counter() - start, 3),
            "load": os.getloadavg()[0],
        }
        line["process_cpu"] = round(usage.ru_utime + usage.ru_stime, 3)
        if code is None:
            return line | {"failed": f"stopped after {timeout:g} s"}
        if code or not target.exists():
            return line | {"failed": f"exit {code}: {errors.read_text()[-300:]}"}
        held = np.load(target)
        line |= {
            "seconds": float(held["seconds"]),
            "cpu": float(held["cpu"]),
            "peak_mb": round(float(held["peak_mb"])),
        }
        if "scores" in held:
            return line | {"auc_logistic": auc_of(table, held["scores"])}
        if "values" in held:  # of a method that was given the numbers themselves
            values = held["values"]
            rows = table.to_codes(values)
        else:
            rows = held["rows"].astype(np.int64)
            values = table.to_values(rows, seed)
        return line | {"rows": len(rows)} | measure(table, rows, values)


def child(command: list[str], errors: Path, timeout: float) -> tuple[int | None, Any]:
    """The exit code (None: stopped) and what the process used."""
    with errors.open("w") as file:
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=os.environ | ONE_THREAD,
            start_new_session=True,
        )
    until = time.monotonic() + timeout
    try:
        while time.monotonic() < until:
            found, status, usage = os.wait4(process.pid, os.WNOHANG)
            if found:
                process.returncode = os.waitstatus_to_exitcode(status)
                return process.returncode, usage
            time.sleep(0.1)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)  # a session of its own: its helpers go with it
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    return None, usage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=list(METHODS))
    parser.add_argument("--table", choices=TABLES, action="append")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--environments", type=Path, default=Path("build/peers"))
    parser.add_argument("--epsilon", action="append")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=3600)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    for name in given.table or TABLES:
        table = coded(name, given.data)
        for epsilon in given.epsilon or ["1"]:
            for seed in range(given.seeds):
                append(
                    run(given.method, table, epsilon, seed, given.environments, given.timeout),
                    given.out,
                )


if __name__ == "__main__":
    main()
