"""The process of one job: runs its requests one after the other, and ends.

    python -m dpublish.server.worker FOLDER

The folder holds the order (requests as JSON, and who is named in the ledger). The worker writes
there the name of its current step, then the results, or the failure in words that hold no row.
Its standard streams lead nowhere, so nothing that a library says is overheard; the log of the
service belongs to another process and stays as it is. Results may be as private as the rows.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pkgutil
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from dpublish import requests
from dpublish.errors import PrivateSideError, PublishError
from dpublish.owned import open_owned, replace_owned
from dpublish.requests.base import REQUESTS, Caller, Progress, Request, plain
from dpublish.requests.ledger import actor_of

ORDER: Final = "order.json"
RESULTS: Final = "results.json"
FAILURE: Final = "failure.json"
STEP: Final = "step"
LOCK: Final = "lock"
"""Held by the worker as long as it lives; holds the number of its process group."""
CANCELLED: Final = "cancelled"
BUSY: Final = 75


def request_types() -> dict[str, type[Request]]:
    """Every request by its verb."""
    for module in pkgutil.iter_modules(requests.__path__):
        import_module(f"dpublish.requests.{module.name}")
    return REQUESTS


class Worker(Caller):
    """What surrounds a request here: steps go to a file, and nobody can be asked."""

    def __init__(self, folder: Path, actor: Any) -> None:
        self._folder, self._actor = folder, actor

    @property
    def actor(self) -> Any:
        return self._actor

    def progress(self, step: str) -> None:
        replace_owned(self._folder / STEP, step.encode())

    @contextlib.contextmanager
    def private(self) -> Iterator[Progress]:
        yield self.progress


def failure_of(error: BaseException) -> dict[str, Any]:
    """A failure as JSON. What was not foreseen could quote a row, and gets constant words."""
    known = error if isinstance(error, PublishError) else PrivateSideError()
    return {
        "type": type(known).__name__, "message": str(known), "exit_code": known.exit_code,
    }  # fmt: skip


def run(folder: Path) -> int:
    """Do what is ordered; 0 when all of it was done."""
    lock = open_owned(folder / LOCK, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return BUSY
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpgid(0)).encode(), 0)
    signal.signal(signal.SIGTERM, _leave)
    if (folder / CANCELLED).exists():
        return 1
    try:
        order = json.loads((folder / ORDER).read_bytes())
        caller = Worker(folder, actor_of(order["actor"]))
        kinds = request_types()
        results = [
            plain(kinds[document["request"]].from_json(document).run(caller).to_json())
            for document in order["requests"]
        ]
    except (SystemExit, KeyboardInterrupt):
        return 1
    except BaseException as error:  # also panics of native code
        replace_owned(folder / FAILURE, json.dumps(failure_of(error)).encode())
        return 1
    replace_owned(folder / RESULTS, json.dumps(results).encode())
    return 0


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
