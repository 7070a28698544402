"""Everything that is ever tested, in parts: the everyday suite, then the long audits, fuzzing,
fault runs and laws.

`make nightly` runs all parts, one after the other, each on two processes. A part that fails, or
that is ended because it hangs, does not keep the next from running. At the end a table says how
many tests each part ran and what time it took; the exit code is 1 when any part failed or any test
that can be collected was in no part. Names of parts may be given to run those only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "nightly"
HANGS = 3600.0
"""Seconds after which a part is ended; on two idle cores the longest takes about a third of it."""

TRIALS = "tests/audit/test_trials.py"
NIGHTLY = {
    "audits": [f"{TRIALS}::test_exact", f"{TRIALS}::test_replay", f"{TRIALS}::test_twin"],
    "sampled": [f"{TRIALS}::test_sampled", "tests/audit/test_histogram.py"],
    "planted": [
        f"{TRIALS}::test_a_sixteenth_of_the_noise_is_found",
        f"{TRIALS}::test_an_order_with_hardly_any_hallucinated_edges_is_found",
        f"{TRIALS}::test_a_randomiser_that_tells_the_truth_half_of_the_time_is_found",
    ],
    "tables": [
        "tests/fuzz/test_inputs.py",
        "tests/sources",
        "tests/declare/test_encode.py",
        "tests/declare/test_schema.py",
    ],
    "fuzz": [f"tests/fuzz/test_{what}.py" for what in ("bundles", "kinds", "plans", "queries")],
    "faults": ["tests/fault"],
    "service": ["tests/server"],
}


@dataclass(frozen=True)
class Part:
    """Tests that run together: `arguments` are those of pytest."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What became of a part. `cpu` is what its processes used, children that they waited for
    included."""

    name: str
    tests: int
    failed: int
    wall: float
    cpu: float
    exit_code: int

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and self.failed == 0


def parts() -> list[Part]:
    """The everyday suite, the families above, and every nightly test that is in none of them."""
    families = [
        Part(name, ("--nightly", "-m", "nightly", *places)) for name, places in NIGHTLY.items()
    ]
    elsewhere = [f"--deselect={place}" for places in NIGHTLY.values() for place in places]
    return [
        Part("suite", ("-m", "not nightly")),
        *families,
        Part("laws", ("--nightly", "-m", "nightly", *elsewhere)),
    ]


def run(
    part: Part, reports: Path = REPORTS, *, processes: int = 2, hangs: float = HANGS
) -> Outcome:
    """Run one part; its output is shown as it comes."""
    reports.mkdir(parents=True, exist_ok=True)
    report = reports / f"{part.name}.xml"
    report.unlink(missing_ok=True)
    print(f"\n== {part.name}", flush=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        str(processes),
        "--dist",
        "worksteal",
        f"--junitxml={report}",
    ]
    start, used = time.monotonic(), _cpu()
    child = subprocess.Popen([*command, *part.arguments], cwd=ROOT, start_new_session=True)
    try:
        exit_code = child.wait(hangs)
    except subprocess.TimeoutExpired:
        print(f"{part.name} was ended: it ran for more than {hangs / 60:.0f} minutes", flush=True)
        exit_code = 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    tests, failed = _counts(report)
    return Outcome(part.name, tests, failed, time.monotonic() - start, _cpu() - used, exit_code)


def collected() -> int:
    """How many tests there are."""
    command = [sys.executable, "-m", "pytest", "--nightly", "--collect-only", "-q"]
    lines = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    # one line per file: its path and how many tests it has
    return sum(
        int(number)
        for path, _, number in (line.rpartition(": ") for line in lines)
        if path.endswith(".py")
    )


def table(outcomes: Sequence[Outcome]) -> str:
    lines = [f"{'part':<10}{'tests':>8}{'failed':>8}{'wall min':>10}{'CPU min':>10}  "]
    tests, failed = sum(one.tests for one in outcomes), sum(one.failed for one in outcomes)
    total = Outcome(
        "together",
        tests,
        failed,
        sum(one.wall for one in outcomes),
        sum(one.cpu for one in outcomes),
        0,
    )
    for one in (*outcomes, total):
        word = "" if one is total else "passed" if one.passed else "FAILED"
        figures = f"{one.tests:>8,}{one.failed:>8,}{one.wall / 60:>10.1f}{one.cpu / 60:>10.1f}"
        lines.append(f"{one.name:<10}{figures}  {word}".rstrip())
    return "\n".join(line.rstrip() for line in lines)


def main(arguments: Iterable[str] | None = None) -> int:
    every = {part.name: part for part in parts()}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"one or more of {', '.join(every)}; all when none is given",
    )
    wanted = parser.parse_args(None if arguments is None else list(arguments)).parts
    if unknown := [name for name in wanted if name not in every]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(every)}")
    outcomes = [run(every[name]) for name in wanted or every]
    print(f"\n{table(outcomes)}", flush=True)
    ran = sum(one.tests for one in outcomes)
    if not wanted and (there := collected()) != ran:
        print(f"{ran:,} tests ran, but there are {there:,}: some were in no part, or in two")
        return 1
    return 0 if all(one.passed for one in outcomes) else 1


def _counts(report: Path) -> tuple[int, int]:
    """Tests and failures of a part; none when pytest ended before it could write them."""
    if not report.is_file():
        return 0, 0
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    tests = sum(int(suite.get("tests", 0)) for suite in suites)
    return tests, sum(
        int(suite.get(kind, 0)) for suite in suites for kind in ("failures", "errors")
    )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
