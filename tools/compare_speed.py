"""Did a change make anything slower? CPU time before and after it, measured in turns.

    python tools/compare_speed.py --before REV [--only joined] [--runs 7]

One process for each state of the code stays up and does the same work in turns (`speed_runs.py`),
after one run that is not counted: a release of each main method, solvers, sessions, queries, SQL,
reports, and the start of `dpublish --help` and `dpublish query`. Printed are the medians and their
ratio. What is above the bar is measured again with three times as many runs before it is believed.
Ends with 1 when something stays above.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from checkouts import ROOT, command_with, source_of

RUNS = Path(__file__).with_name("speed_runs.py")


class Side:
    """One state of the code, at work in a folder of its own."""

    def __init__(self, source: Path) -> None:
        self._folder = tempfile.TemporaryDirectory()
        command, environment = command_with(source, RUNS, [])
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=self._folder.name,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names = self._line().split("\t")

    def seconds(self, name: str) -> float:
        assert self._process.stdin is not None
        print(name, file=self._process.stdin, flush=True)
        return float(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip("\n")
        if not line:
            raise SystemExit("A run failed; what it says stands above.")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()


def medians(before: Side, after: Side, name: str, runs: int) -> tuple[float, float]:
    """Median CPU seconds of both sides, which take turns in going first."""
    seconds: dict[Side, list[float]] = {before: [], after: []}
    for turn in range(runs):
        for side in (before, after) if turn % 2 else (after, before):
            seconds[side].append(side.seconds(name))
    return statistics.median(seconds[before]), statistics.median(seconds[after])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", metavar="REV", required=True, help="the commit to compare with")
    parser.add_argument(
        "--source",
        metavar="DIR",
        type=Path,
        default=ROOT,
        help="the checkout to run; this one when left out",
    )
    parser.add_argument(
        "--only",
        metavar="WORD",
        action="append",
        default=[],
        help="only work with this word; repeatable",
    )
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument(
        "--bar", type=float, default=1.05, help="the largest ratio that counts as no slower"
    )
    given = parser.parse_args()
    slower = []
    with Side(source_of(given.before)) as before, Side(given.source) as after:
        print(f"{'':32} {'before':>9} {'after':>9} {'ratio':>6}")
        for name in after.names:
            if given.only and not any(word in name for word in given.only):
                continue
            medians(before, after, name, 1)
            old, new = medians(before, after, name, given.runs)
            if new > given.bar * old:
                old, new = medians(before, after, name, 3 * given.runs)
            slower += [name] if new > given.bar * old else []
            print(
                f"{name:32} {old:9.4f} {new:9.4f} "
                f"{new / old:6.3f}{' slower' if new > given.bar * old else ''}",
                flush=True,
            )
    raise SystemExit(1 if slower else 0)


if __name__ == "__main__":
    main()
