"""Runs every benchmark under benchmarks/baselines (the obvious alternatives, on generated data)
and under benchmarks/scale, and keeps its figures: `python benchmarks/run.py --out build/bench`.
`--only baselines` (or `scale`, or one name) leaves out the others, and `--runs 3` makes it short.
Tables of benchmarks/scale have a million rows or so; `--full` takes the sizes that docs/scale.md
speaks of. A table of seconds stands at the end, and beside the figures (times.json).

With `--resume` (as `make bench` has it) a benchmark whose figures stand in the folder, from the
same code and the same sizes, is not run again: a run that was interrupted goes on where it was.

Where a baseline was run, `docs/standing.md` is written at the end, if all of them stand in the
folder, from one code: where we are ahead, where not.

The benchmarks of papers and of peers need data or packages that are not installed by default; each
has a page of its own beside it that says how to run it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
HELPERS = {"make_table.py", "standing.py"}
MEASURING = ("baselines", "defaults", "scale")
"""Folders of benchmarks that figures come from."""
SMALLER = {
    "engines": ["--rows", "1000000"],
    "baskets": ["--records", "300000"],
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
    parser.add_argument(
        "--resume", action="store_true", help="keep figures of the same code and sizes"
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    times, ran, stands = {}, False, []
    code = code_hash()
    for name, how in benchmarks(given.only, given.runs, given.full):
        figures, mark = given.out.resolve() / f"{name}.json", given.out / f"{name}.mark"
        this = {"code": code, "how": how[1:] if how[0] == "-m" else [Path(how[0]).name, *how[1:]]}
        kept = json.loads(mark.read_text()) if mark.exists() and figures.exists() else {}
        if given.resume and kept.get("this") == this:
            print(f"== {name}: stands", flush=True)
            times[name] = kept["times"]
        else:
            print(f"== {name}", flush=True)
            mark.unlink(missing_ok=True)
            begun, used = time.monotonic(), _used()
            done = subprocess.run(
                [sys.executable, *how, "--json", str(figures)], cwd=HERE.parent, check=False
            )
            times[name] = {"seconds": time.monotonic() - begun, "cpu_seconds": _used() - used}
            if done.returncode or code_hash() != code:
                print(f"{name}: failed, or the code changed while it ran", flush=True)
                failed.append(name)
                continue
            mark.write_text(json.dumps({"this": this, "times": times[name]}) + "\n")
            ran = ran or name.startswith("baselines-")
        stands.append(name)
    every = {f"baselines-{one.stem}" for one in scripts("baselines")}
    if ran and every <= set(stands):
        made = [sys.executable, "-m", "benchmarks.baselines.standing", str(given.out.resolve())]
        if subprocess.run(made, cwd=HERE.parent, check=False).returncode:
            failed.append("standing")
    elif ran:
        print("docs/standing.md stays as it is: not all baselines were run by this code")
    for name, spent in times.items():
        print(f"{name:24} {spent['seconds']:6.0f} s {spent['cpu_seconds']:6.0f} CPU s")
    (given.out / "times.json").write_text(json.dumps(times, indent=1) + "\n")
    print(f"figures in {given.out}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def scripts(folder: str) -> list[Path]:
    return [one for one in sorted((HERE / folder).glob("*.py")) if one.name not in HELPERS]


def benchmarks(only: str | None, runs: int | None, full: bool) -> Iterator[tuple[str, list[str]]]:
    """The name of every benchmark that is asked for, and how Python is called for it."""
    for script in [*scripts("baselines"), *scripts("scale")]:
        scale = script.parent.name == "scale"
        name = script.stem if scale else f"baselines-{script.stem}"
        if only and only not in f"{script.parent.name}-{name}":
            continue
        if scale:
            yield name, [str(script), *([] if full else SMALLER.get(name, []))]
        else:
            own = [] if runs is None else ["--runs", str(runs)]
            yield name, ["-m", f"benchmarks.baselines.{script.stem}", *own]


def code_hash() -> str:
    """Of all that figures may depend on: the product and the benchmarks."""
    found = hashlib.sha256()
    folders = [HERE.parent / "src" / "dpublish", *(HERE / one for one in MEASURING)]
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        found.update(f"{path.relative_to(HERE.parent)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def _used() -> float:
    """CPU seconds of the benchmarks so far."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


if __name__ == "__main__":
    sys.exit(main())
