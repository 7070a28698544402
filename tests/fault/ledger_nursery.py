"""The test's side of `ledger_child.py`, and the invariants that must hold after any fault."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from dpublish.ledger import Ledger
from dpublish.privacy.cost import Cost, sequential


class Nursery:
    """Starts children, waits for them. Use as a context manager: leaving it ends the program that
    forks them."""

    def __enter__(self) -> Nursery:
        program = Path(__file__).with_name("ledger_child.py")
        self._program = subprocess.Popen(
            [sys.executable, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        self._program.stdout.close()
        self._program.wait(timeout=30)

    def _ask(self, message: dict[str, Any]) -> int:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(json.dumps(message) + "\n")
        self._program.stdin.flush()
        return int(json.loads(self._program.stdout.readline()))

    def start(self, **job: Any) -> int:
        """The process id of a new child."""
        return self._ask(
            {key: str(value) if isinstance(value, Path) else value for key, value in job.items()}
        )

    def wait(self, child: int) -> int:
        """Its exit code; minus the signal when it was killed."""
        return self._ask({"wait": child})


def lines(log: Path, first: str) -> list[list[str]]:
    """The words after `first` on every line of the log that starts with it."""
    if not log.exists():
        return []
    return [
        words[1:]
        for words in map(str.split, log.read_text().splitlines())
        if words and words[0] == first
    ]


def wait_for(log: Path, first: str, count: int, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while len(lines(log, first)) < count:
        assert not lines(log, "error"), log.read_text()
        assert time.monotonic() < deadline, f"no {count} lines '{first}' in {seconds} s"
        time.sleep(0.005)


def check_invariants(ledger: Ledger, log: Path, folder: Path, cost: Cost) -> None:
    """I1 to I5 of the ledger, against everything that was ever shown."""
    status = ledger.verify()  # I4: the chain, the sums and the anchor agree
    history = ledger.history()
    debits = [entry for entry in history if entry.kind == "debit"]
    paid = {entry.key for entry in debits}
    assert len(paid) == len(debits), "I3: one key, one debit"
    assert (
        status.spent == sequential(entry.charged for entry in history) == cost.scaled(len(debits))
    ), "I2"
    assert status.cap.covers(status.spent), "I2"
    answers = defaultdict(set)
    for key, digest in lines(log, "shown"):
        assert key in paid, "I1 and I5: an answer was shown that nobody paid for"
        answers[key].add(digest)
    assert all(len(digests) == 1 for digests in answers.values()), "I3: one key, one answer"
    sealed = {entry.key: entry.detail["sha256"] for entry in history if entry.kind == "seal"}
    for key, digests in answers.items():
        assert digests == {sealed[key]}
        assert hashlib.sha256((folder / f"{key}.answer").read_bytes()).hexdigest() == sealed[key]
    assert not lines(log, "error"), log.read_text()
