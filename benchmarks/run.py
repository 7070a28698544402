"""Runs every benchmark under benchmarks/scale, and under benchmarks/baselines (the obvious
alternatives, on generated data), and keeps its figures: `python benchmarks/run.py --out
build/bench`. `--only baselines` leaves out the others, and `--runs 3` makes it short.

At the end `docs/standing.md` is written from the baselines' figures: where we are ahead, where not.

The benchmarks of papers and of peers need data or packages that are not installed by default; each
has a page of its own beside it that says how to run it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
HELPERS = {"make_table.py", "standing.py"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", help="run the benchmarks whose name contains this")
    parser.add_argument(
        "--runs", type=int, help="runs of each baseline; its own number if left out"
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for script in sorted([*(HERE / "scale").glob("*.py"), *(HERE / "baselines").glob("*.py")]):
        name = script.stem if script.parent.name == "scale" else f"baselines-{script.stem}"
        if script.name in HELPERS or (given.only and given.only not in name):
            continue
        module = ["-m", f"benchmarks.baselines.{script.stem}"]
        print(f"== {name}", flush=True)
        figures = given.out.resolve() / f"{name}.json"
        how = [str(script)] if script.parent.name == "scale" else module
        if given.runs and script.parent.name != "scale":
            how = [*how, "--runs", str(given.runs)]
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, *how, "--json", str(figures)], cwd=HERE.parent, check=False
        )
        print(f"== {name}: {time.monotonic() - begun:.0f} s", flush=True)
        if done.returncode:
            failed.append(name)
    if not given.only or given.only == "baselines":
        words = f"{given.runs} runs of each" if given.runs else "runs as each baseline says"
        page = [str(given.out.resolve()), words]
        made = [sys.executable, "-m", "benchmarks.baselines.standing", *page]
        if subprocess.run(made, cwd=HERE.parent, check=False).returncode:
            failed.append("standing")
    print(f"figures in {given.out}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
