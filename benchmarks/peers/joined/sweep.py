"""The whole comparison as a queue: one run at a time, those already in the file left out, until a
time of day (UTC).

    python sweep.py --data DIR --environments DIR [--out FILE.jsonl] [--until 02:45] [--only METHOD
    ...] [--table TABLE ...]
        [--epsilon E ...] [--seeds N] [--again]

Stop it and start it again at will: it goes on with the first run that the file lacks. Runs that
failed or took too long are in the file too and not tried again. --again takes the lines of what is
named out first.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from coded import TABLES, coded
from runs import Job, append, jobs_of, leave_out, read_runs
from shipped import SHIPPED

from methods import ADAPTIVE, METHODS, OURS, RAW
from run import run

EPSILONS = ("0.1", "0.3", "1", "3", "10")
SHIPPED_EPSILONS = ("0.3", "1", "3")
SEEDS = 5


def jobs() -> Iterator[Job]:
    """What says most comes first: one seed of every peer at epsilon 1, then more seeds, then the
    other epsilons."""
    peers = [name for name in METHODS if name not in (*OURS, "real")]
    quick = [name for name in peers if name not in ADAPTIVE]
    waves = [
        (quick, ("1",), range(1)),
        (ADAPTIVE, ("1",), range(1)),
        (quick, ("1",), range(1, SEEDS)),
        (ADAPTIVE, ("1",), range(1, 2)),
        (quick, EPSILONS, range(1)),
        (quick, EPSILONS, range(1, SEEDS)),
        (ADAPTIVE, EPSILONS, range(SEEDS)),
        (("real",), ("1",), range(SEEDS)),
        (OURS, ("1",), range(SEEDS)),
        (OURS, EPSILONS, range(SEEDS)),
    ]
    for methods, epsilons, seeds in waves:
        for seed, epsilon, table, method in itertools.product(seeds, epsilons, TABLES, methods):
            if (method not in RAW or table in SHIPPED) and (
                epsilon in SHIPPED_EPSILONS or table not in SHIPPED
            ):
                yield method, table, epsilon, seed


def wanted(job: Job, given: argparse.Namespace) -> bool:
    named = (given.only, given.table, given.epsilon)
    return job[3] < given.seeds and all(
        not names or part in names for part, names in zip(job, named, strict=False)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--environments", type=Path, default=Path("build/peers"))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("runs.jsonl"))
    parser.add_argument(
        "--until", help="HH:MM, UTC: no run starts after it, and one under way is stopped"
    )
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for one run")
    parser.add_argument("--only", action="append", choices=list(METHODS))
    parser.add_argument("--table", action="append", choices=TABLES)
    parser.add_argument("--epsilon", action="append", choices=EPSILONS)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs of each line, from seed 0")
    parser.add_argument(
        "--again", action="store_true", help="forget earlier runs of what --only names"
    )
    given = parser.parse_args()
    if given.again:
        if not given.only:
            parser.error("--again needs --only: peers take hours")
        leave_out(
            (line for line in read_runs(given.out) if wanted(jobs_of(line)[0], given)), given.out
        )
    end = _end(given.until)
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("stopped")
    )  # an exception, so that the run under way is ended too
    while (
        True
    ):  # the list is made anew after every run, so that lines taken out or added count at once
        ready = {held for line in read_runs(given.out) for held in jobs_of(line)}
        job = next((job for job in jobs() if job not in ready and wanted(job, given)), None)
        seconds = (end - datetime.datetime.now(datetime.UTC)).total_seconds()
        if job is None or seconds <= 0:
            return
        method, table, epsilon, seed = job
        line = run(
            method,
            coded(table, given.data),
            epsilon,
            seed,
            given.environments,
            min(given.timeout, seconds),
        )
        if "failed" in line and datetime.datetime.now(datetime.UTC) >= end:
            return  # stopped by the clock, not by its own limit: nothing is known about it
        append(line, given.out)


def _end(text: str | None) -> datetime.datetime:
    now = datetime.datetime.now(datetime.UTC)
    if text is None:
        return now + datetime.timedelta(days=365)
    hour, minute = (int(part) for part in text.split(":"))
    end = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return end if end > now else end + datetime.timedelta(days=1)


if __name__ == "__main__":
    main()
