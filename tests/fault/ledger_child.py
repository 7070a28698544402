"""Processes that use a ledger and may be killed.

Run as a program it is a nursery: it imports the ledger once, reads jobs as JSON lines and forks one
light child per job, so that fifty kills do not cost fifty interpreter starts. Each child appends
what it showed to a log, as a reader would see it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from dpublish.errors import BudgetExceeded, LedgerUnavailable
from dpublish.ledger import Ledger, crashpoints, open_ledger
from dpublish.ledger.base import Receipt
from dpublish.privacy.cost import Budget, Cost


def show(log: str, *words: object) -> None:
    """One line, one write: what leaves the process cannot be torn or taken back."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())
    os.close(descriptor)


def answer(ledger: Ledger, folder: Path, log: str, key: str, cost: Cost, store: str) -> None:
    """What a careful curator does for one key: pay, draw, store, seal, show; or show the stored
    answer; or admit the loss."""
    receipt = ledger.debit(key, cost, {"key": key})
    path = folder / f"{key}.answer"
    if receipt.fresh:
        content = os.urandom(8)  # fresh noise
        digest = hashlib.sha256(content).hexdigest()
        partial = folder / f".{key}.{os.getpid()}"
        partial.write_bytes(content)
        partial.replace(path)
        ledger.seal(key, sha256=digest, size=8, location=path.name)
        show(log, store, key, digest)
        return
    sealed = ledger.answer(key)
    if sealed is None:
        show(log, "lost", key)
        return
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == sealed.sha256
    show(log, store, key, digest)


class CheckThenSpend:
    """A planted bug: looks at the balance, then spends, with nothing to hold the two together."""

    def __init__(self, path: str, cap: float) -> None:
        self._path, self._cap = Path(path), cap

    def debit(self, key: str, cost: Cost, what: object) -> None:
        spent = len(self._path.read_text().splitlines()) if self._path.exists() else 0
        if spent >= self._cap:
            raise BudgetExceeded("planted")
        time.sleep(0.001)
        show(str(self._path), key)


def run(job: dict[str, Any]) -> None:
    cost = Cost.pure(job["cost"])
    if job["kind"] == "race":
        ledger: Any
        if job.get("planted"):
            ledger = CheckThenSpend(job["planted"], job["cap"])
        else:
            ledger = open_ledger(job["url"], verify=False)
        show(job["log"], "ready")
        while not Path(job["gate"]).exists():
            time.sleep(0.005)
        for i in range(10_000):
            try:
                receipt: Receipt | None = ledger.debit(f"{job['name']}-{i}", cost, {})
            except BudgetExceeded:
                return
            show(job["log"], "accepted", f"{job['name']}-{i}", receipt.seq if receipt else 0)
    elif job["kind"] == "work":
        reached = 0

        def hook(name: str) -> None:
            nonlocal reached
            reached += name == job.get("point")
            if name == job.get("point") and reached == job["count"]:
                os.kill(os.getpid(), signal.SIGKILL)

        with crashpoints.armed(hook), open_ledger(job["url"], patience=20) as ledger:
            show(job["log"], "ready")
            for key in job["keys"]:
                try:
                    answer(ledger, Path(job["folder"]), job["log"], key, cost, "shown")
                except BudgetExceeded:
                    show(job["log"], "exceeded", key)
                except LedgerUnavailable:
                    show(job["log"], "unavailable", key)
    elif job["kind"] == "create":
        with open_ledger(job["url"], budget=Budget(epsilon=1), create=True) as ledger:
            ledger.debit(job["name"], cost, {})
        show(job["log"], "created", ledger.ledger_id)


def nursery() -> None:
    # Imported before the forks, so that no child pays for it.
    for module in (
        "psycopg",
        "sqlalchemy.dialects.postgresql.psycopg",
        "sqlalchemy.dialects.sqlite",
        "dpublish.ledger.opening",
    ):
        importlib.import_module(module)
    for line in sys.stdin:
        job = json.loads(line)
        if "wait" in job:
            status = os.waitpid(job["wait"], 0)[1]
            print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)
            continue
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run(job)
                code = 0
            except BaseException as error:
                show(job["log"], "error", type(error).__name__, str(error).replace("\n", " "))
            finally:
                os._exit(code)
        print(json.dumps(child), flush=True)


if __name__ == "__main__":
    nursery()
