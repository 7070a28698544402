"""Runs every benchmark under benchmarks/scale, and under benchmarks/baselines (the obvious
alternatives, on generated data), and keeps its figures: `python benchmarks/run.py --out
build/bench`. `--only baselines` (or `scale`, or one name) leaves out the others, and
`--runs 3` makes it short. Tables of benchmarks/scale have a million rows or so; `--full` takes the
sizes that docs/scale.md speaks of. A table of seconds stands at the end, and beside the figures
(times.json).

Where a baseline was run, `docs/standing.md` is written at the end from the figures of all of them
that stand in the folder: where we are ahead, where not.

The benchmarks of papers and of peers need data or packages that are not installed by default; each
has a page of its own beside it that says how to run it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
HELPERS = {"make_table.py", "standing.py"}
SMALLER = {
    "engines": ["--rows", "1000000"],
    "histogram_counts": ["--rows", "1000000"],
    "importance_weights": ["--rows", "20000", "--columns", "50"],
    "interval_tree": ["--rows", "1000000", "--queries", "10000"],
    "joined": ["--rows", "1000000"],
    "local_model": ["--people", "1000000"],
    "noise": ["--draws", "200000"],
    "optimize": ["--sites", "3000"],
    "private_kd": ["--rows", "200000", "--release-rows", "1000000"],
    "release": ["--rows", "1000000"],
    "serve": ["--seconds", "3"],
}
"""What each benchmark of scale is asked for without `--full`; others run as they are."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", help="run the benchmarks whose name contains this")
    parser.add_argument(
        "--runs", type=int, help="runs of each baseline; its own number if left out"
    )
    parser.add_argument("--full", action="store_true", help="tables of scale at their full size")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    failed, times = [], {}
    for script in sorted([*(HERE / "scale").glob("*.py"), *(HERE / "baselines").glob("*.py")]):
        name = script.stem if script.parent.name == "scale" else f"baselines-{script.stem}"
        if script.name in HELPERS or (
            given.only and given.only not in f"{script.parent.name}-{name}"
        ):
            continue
        module = ["-m", f"benchmarks.baselines.{script.stem}"]
        print(f"== {name}", flush=True)
        figures = given.out.resolve() / f"{name}.json"
        how = [str(script)] if script.parent.name == "scale" else module
        if given.runs and script.parent.name != "scale":
            how = [*how, "--runs", str(given.runs)]
        elif not given.full:
            how += SMALLER.get(name, [])
        begun, used = time.monotonic(), _used()
        done = subprocess.run(
            [sys.executable, *how, "--json", str(figures)], cwd=HERE.parent, check=False
        )
        times[name] = {"seconds": time.monotonic() - begun, "cpu_seconds": _used() - used}
        if done.returncode:
            failed.append(name)
    if any(name.startswith("baselines-") for name in times):
        made = [sys.executable, "-m", "benchmarks.baselines.standing", str(given.out.resolve())]
        if subprocess.run(made, cwd=HERE.parent, check=False).returncode:
            failed.append("standing")
    for name, spent in times.items():
        print(f"{name:24} {spent['seconds']:6.0f} s {spent['cpu_seconds']:6.0f} CPU s")
    (given.out / "times.json").write_text(json.dumps(times, indent=1) + "\n")
    print(f"figures in {given.out}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def _used() -> float:
    """CPU seconds of the benchmarks so far."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


if __name__ == "__main__":
    sys.exit(main())
