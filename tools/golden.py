"""Make a folder of golden files: small releases of every kind, ledgers, a session and a wallet, and
what they answer today.

    python tools/golden.py tests/golden/NAME

A golden folder is never made again: it stands for what people have from that day on. `tests/golden`
opens all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from release_cases import Case, cases, sessions, write_tables
from release_texts import document, open_session, publish, solve_case
from solver_cases import solvers

RELEASES = {
    "histogram": "histogram add-remove-one",
    "histogram-units": "histogram replace-one units",
    "projected": "projected replace-one",
    "generalized": "generalized replace-one",
    "joined": "joined replace-one",
    "joined-rounds": "joined delta rounds",
    "weights": "weights replace-one",
    "weights-output": "weights output",
    "weights-hash": "weights delta",
    "classifier": "classifier replace-one objective",
    "set-partition": "set-partition add-remove-one",
    "basic-itemsets": "basic-itemsets replace-one",
    "tree": "tree add-remove-one",
    "tree-dyadic": "tree dyadic replace-one units",
    "tree-search": "tree binary-search add-remove-one units",
    "plane": "plane replace-one",
    "halfspaces": "halfspaces replace-one",
    "mwem": "mwem add-remove-one",
    "net": "net replace-one",
    "frequent-itemsets": "frequent-itemsets replace-one",
    "workload": "workload replace-one",
    "discovery": "discovery replace-one",
}
"""Names of files, and the cases that they are made from."""
SOLUTIONS = ("cut", "median", "cover", "sets greedy", "projects")
SESSION = "median-mechanism replace-one"
ASKED = 3
"""How many questions of the session are asked before it is kept."""


def main() -> None:
    (target,) = sys.argv[1:]
    folder = Path(target).absolute()
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as made:
        os.chdir(made)
        os.environ["DPUBLISH_STATE"] = str(Path(made, "state"))
        write_tables(Path(made))
        shutil.copy("guests.csv", folder)
        releases = make_releases(folder / "releases")
        os.environ["DPUBLISH_STATE"] = str(folder / "state")
        expected = {
            "releases": releases,
            "session": make_session(folder / "session"),
            "ledgers": make_ledgers(folder / "ledgers"),
            "wallet": make_wallet(folder / "wallet.json"),
        }
    shutil.rmtree(folder / "state" / "places")  # where the ledgers lay on this machine
    for lock in [*folder.rglob("*.lock"), folder / "session" / "lock"]:
        lock.unlink()
    # a line per question keeps the file small, and readable where it differs
    text = re.sub(
        r'(?<=[}\]]), (?=\{"(?:release|file|session|wallet)")', ",\n", json.dumps(expected)
    )
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def make_releases(folder: Path) -> list[dict[str, Any]]:
    """The files, and every question with its answer."""
    folder.mkdir()
    known = {case.name: case for case in cases()}
    asked: list[dict[str, Any]] = []
    for name, case in {name: known[wanted] for name, wanted in RELEASES.items()}.items():
        work = Path(name)
        work.mkdir()
        (work / "schema.toml").write_text(case.schema)
        publish(case, work, work / "schema.toml").save(folder / f"{name}.dpr")
        asked += [_answered(folder.parent, f"{name}.dpr", words) for words in _questions(case)]
    for solver in solvers():
        if solver.name in SOLUTIONS:
            name = f"solution-{solver.name.split()[0]}.dpr"
            Path(name).mkdir()
            solve_case(solver, Path(name)).save(folder / name)
            asked.append(_answered(folder.parent, name, ["show"]))
    (folder.parent / "predicted.csv").unlink()
    return asked


def _questions(case: Case) -> list[list[str]]:
    if case.method == "discovery":
        return [["show"]]
    if case.method == "private-classifier":
        return [["predict", "guests.csv", "--out", "predicted.csv"]]
    if case.settings.get("publish") == "hash":
        return [["query", case.asked[0]]]  # refused: the rows are elsewhere
    tables = [] if case.method in ("halfspaces", "interval-tree") else [["query", "--by", case.by]]
    return [["query", *case.asked], *tables, *(["sql", text] for text in case.sql)]


def _answered(folder: Path, name: str, words: list[str]) -> dict[str, Any]:
    """One question and what the command line says to it, as JSON, asked from inside the golden
    folder."""
    verb, *rest = words
    with contextlib.chdir(folder):
        return {
            "release": name,
            "words": words,
            "says": document(verb, f"releases/{name}", *rest, "--json"),
        }


def make_session(folder: Path) -> dict[str, Any]:
    """A session in the middle of its life, and the answers that it gave."""
    work = Path("session")
    work.mkdir()
    (session,) = (one for one in sessions() if one.name == SESSION)
    opened = open_session(session, work)
    for number, query in enumerate(session.questions[:ASKED]):
        opened.ask(query, key=f"question {number}")
    shutil.copytree(work / "desk", folder)
    return {
        "transcript": [answer.to_json() for answer in opened.transcript()],
        "status": opened.status().to_json(),
        "next": session.questions[ASKED:],
    }


def make_ledgers(folder: Path) -> list[dict[str, Any]]:
    """Ledgers of both currencies, one file with two names, and one that went on from an older
    copy."""
    import dpublish as dp

    folder.mkdir()
    kept = []
    one_row = {"neighbours": "add-remove-one", "unit": "one row", "method": "histogram"}
    people = {
        "neighbours": "replace-one",
        "unit": "one value of 'who', at most 2 rows",
        "unit_column": "who",
    }

    def keep(file: str, name: str = "default") -> None:
        with dp.open_ledger(folder / file, name=name) as ledger:
            history = [entry.to_json() for entry in ledger.history()]
            kept.append(
                {
                    "file": file,
                    "name": name,
                    "status": ledger.status().to_json(),
                    "history": history,
                }
            )

    with dp.open_ledger(
        folder / "approximate.ledger", budget=dp.Budget(epsilon=3, delta="1e-5"), create=True
    ) as ledger:
        ledger.debit("first", dp.Cost.pure("1/2"), one_row)
        ledger.seal("first", sha256="a" * 64, size=100, location="first.dpr")
        ledger.debit("second", dp.Cost.approximate("1/3", "1e-6"), one_row)
        ledger.debit("third", dp.Cost.zcdp("1/100"), one_row)
    with dp.open_ledger(
        folder / "approximate.ledger", name="other", budget=dp.Budget(epsilon="1/2"), create=True
    ) as ledger:
        ledger.debit("first", dp.Cost.pure("1/8"), people)
    keep("approximate.ledger")
    keep("approximate.ledger", "other")
    with dp.open_ledger(folder / "zcdp.ledger", budget=dp.Budget(rho=1), create=True) as ledger:
        ledger.debit("first", dp.Cost.zcdp("1/7"), people)
        ledger.debit("second", dp.Cost.pure("1/2"), people)
        ledger.seal("second", sha256="b" * 64, size=100, location="second.dpr")
    keep("zcdp.ledger")
    copied = folder / "recovered.ledger"
    with dp.open_ledger(copied, budget=dp.Budget(epsilon=2), create=True) as ledger:
        ledger.debit("first", dp.Cost.pure("1/2"), one_row)
    shutil.copy(copied, "older")
    with dp.open_ledger(copied) as ledger:
        ledger.debit("lost", dp.Cost.pure("1/4"), one_row)
    for rest in folder.glob("recovered.ledger-*"):
        rest.unlink()
    shutil.copy("older", copied)
    document("ledger", "recover", str(copied))
    keep("recovered.ledger")
    return kept


def make_wallet(path: Path) -> dict[str, Any]:
    """What two people spent on two questions, one of which lost its report."""
    import dpublish as dp

    wallet = dp.local.DeviceLedger(path, epsilon=2)
    wallet.debit(["ann", "ben"], "commute", dp.Cost.pure(1).epsilon)
    wallet.record("commute", {"ann": 3, "ben": 4})
    wallet.debit(["ann"], "lost", dp.Cost.pure("1/2").epsilon)
    return {"epsilon": "2", "spent": {name: str(wallet.spent(name)) for name in ("ann", "ben")}}


if __name__ == "__main__":
    main()
