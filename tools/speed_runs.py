"""Run a piece of work whenever its name comes in, and answer with the CPU seconds that it took.

Started by `compare_speed.py`, once for each state of the code. Works in the current folder.
"""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from release_cases import Case, Session, baskets, bits, people, write_tables
from release_texts import open_session, publish, solve_case
from solver_cases import SUBSETS, Solver

ROWS = 20_000
EDGES = [(a, b) for a, b in itertools.combinations(range(60), 2) if (a * 7 + b * 13) % 5 == 0]
PLACES = [(x * 3 % 17, x * 5 % 23) for x in range(60)]
NEAR = {"epsilon": "4", "delta": "1e-6"}
STARTS = {"start: --help": ["--help"], "start: query": ["query", "histogram.dpr", "a = 'x'"]}
QUESTIONS = (
    "a = 'x' and b = 'yes'",
    "income >= 300 and a = 'y'",
    "income between 100 and 700",
    "grade >= 'middle'",
)


def releases() -> list[Case]:
    """One of each main method."""
    text, goal = people("add-remove-one", rows=ROWS), people("replace-one", target="b", rows=ROWS)
    few = {"columns": ["a", "b", "grade", "income"]}
    several, sets = (
        people("replace-one", per_unit=2, rows=ROWS),
        baskets("add-remove-one", rows=ROWS),
    )
    return [
        Case("histogram", "histogram", text, "people.csv", few),
        Case("histogram units", "histogram", several, "visits.csv", few),
        Case("histogram wide", "histogram", text, "people.csv", {"threshold": 3}),
        Case("projected", "projected-histogram", text, "people.csv", {"target": "b", "k": 2}),
        Case("joined", "joined-histograms", goal, "people.csv"),
        Case("joined delta", "joined-histograms", goal, "people.csv", {"rounds": 2}, NEAR),
        Case("generalized", "generalized-table", goal, "people.csv"),
        Case(
            "weights", "importance-weights", text, "people.csv", {**few, "public": "volunteers.csv"}
        ),
        Case(
            "weights output",
            "importance-weights",
            text,
            "people.csv",
            {"public": "volunteers.csv", "variant": "output"},
        ),
        Case("classifier", "private-classifier", text, "people.csv", {"target": "b"}),
        Case("set partition", "set-partition", sets, "baskets.csv", {"separator": " "}),
        Case("basic itemsets", "basic-itemsets", sets, "baskets.csv", {"separator": " "}),
        Case("tree", "interval-tree", text, "people.csv", {"columns": ["income"]}),
        Case("plane", "interval-tree", text, "people.csv", {"columns": ["income", "height"]}),
        Case("halfspaces", "halfspaces", text, "people.csv", {"columns": ["income", "height"]}),
        Case("mwem", "multiplicative-weights", text, "people.csv", few),
        Case(
            "net",
            "net",
            bits("replace-one", rows=ROWS),
            "bits.csv",
            {"queries": "marginals:1", "points": 12},
        ),
    ]


def problems() -> list[Solver]:
    sites = [place % 60 for place in range(400)]
    return [
        Solver("min-cut", "min_cut", [(a, b) for a, b in EDGES if b < 14], {"vertices": 14}),
        Solver("k-median", "k_median", sites, {"k": 4, "metric": PLACES}),
        Solver("vertex-cover", "vertex_cover", EDGES, {"vertices": 60}),
        Solver("set-cover", "set_cover", ["e0", "e3"], {"sets": SUBSETS, "rule": "greedy"}, NEAR),
        Solver(
            "public-projects",
            "public_projects",
            [[n % 40, n % 7] for n in range(2000)],
            {"k": 8, "resources": 40},
        ),
    ]


def works() -> dict[str, Callable[[Path], Any]]:
    """Everything that is measured, by name; each gets an empty folder."""
    found: dict[str, Callable[[Path], Any]] = {}
    for case in releases():
        found[f"release: {case.name}"] = lambda folder, case=case: release(case, folder)
    for solver in problems():
        found[f"solve: {solver.name}"] = lambda folder, solver=solver: solve_case(solver, folder)
    settings = {"max_hard": 10, "max_queries": 100, "accuracy": "1/50"}
    for name in ("median-mechanism", "online-multiplicative-weights"):
        asked = ["p = true", "q = true", "p = true and q = true"] * 5
        session = Session(name, name, bits("replace-one", rows=ROWS), "bits.csv", settings, asked)
        found[f"online: {name}"] = lambda folder, session=session: talk(session, folder)
    for kind in ("histogram", "joined", "weights"):
        found[f"query: {kind}"] = lambda folder, kind=kind: ask(kind)
        found[f"sql: {kind}"] = lambda folder, kind=kind: select(kind)
        found[f"report: {kind}"] = lambda folder, kind=kind: report(kind, folder)
    for name, words in STARTS.items():
        found[name] = lambda folder, words=words: start(words)
    return found


def release(case: Case, folder: Path) -> Any:
    schema = folder / "schema.toml"
    schema.write_text(case.schema)
    return publish(case, folder, schema)


def start(words: list[str]) -> None:
    """A whole command, from the start of Python to its end."""
    opened("histogram")
    subprocess.run(
        [sys.executable, "-m", "dpublish", *words], check=True, stdout=subprocess.DEVNULL
    )


def talk(session: Session, folder: Path) -> None:
    desk = open_session(session, folder)
    for query in session.questions:
        desk.ask(query)


def opened(kind: str) -> Any:
    """A release to ask; made the first time, which is not counted."""
    import dpublish as dp

    if not Path(f"{kind}.dpr").exists():
        folder = Path(f"made {kind}")
        folder.mkdir()
        (case,) = (case for case in releases() if case.name == kind)
        release(case, folder).save(f"{kind}.dpr")
    return dp.open_release(f"{kind}.dpr")


def ask(kind: str) -> None:
    for _ in range(5):
        asked = opened(kind)
        for question in QUESTIONS:
            asked.estimate(question)
        asked.marginal("a", "grade")


def select(kind: str) -> None:
    for _ in range(5):
        opened(kind).sql(
            "select a, grade, count(*), avg(income) from release where b = 'yes' group by a, grade"
        )


def report(kind: str, folder: Path) -> None:
    opened(kind).report(folder / "page.html")


def main() -> None:
    os.environ["DPUBLISH_STATE"] = str(Path("state").absolute())
    write_tables(Path(), rows=ROWS)
    known = works()
    print("\t".join(known), flush=True)
    for number, name in enumerate(map(str.strip, sys.stdin)):
        folder = Path(f"run{number}")
        folder.mkdir()
        start = cpu()
        known[name](folder)
        print(cpu() - start, flush=True)


def cpu() -> float:
    """CPU seconds of this process and of those that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main()
