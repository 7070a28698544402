"""Work that a page or a program sets going: one process per job, which ends with it.

What both the pages and the API rely on is `Jobs`. A job is a list of requests of
`dpublish.requests`, run one after the other until one fails. Its results may be as private as the
rows: they are kept in a file for the service's owner alone, never in a table or a log.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from sqlalchemy import insert

from dpublish.errors import InputError, PrivateSideError, PublishError
from dpublish.owned import owned_folder, replace_owned
from dpublish.requests.base import Caller, Progress, Request, plain
from dpublish.server.store import Row, Store, now, record
from dpublish.server.tables import JOBS

State = Literal["waiting", "running", "done", "failed", "cancelled", "lost"]


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """Where a job is. `step` names what it does now, never a count. `spent`: whether a payment may
    have been made."""

    id: str
    subject: str
    verbs: tuple[str, ...]
    state: State
    step: str | None
    actor: str
    created: str
    started: str | None
    ended: str | None
    error: Mapping[str, Any] | None
    spent: bool

    @property
    def over(self) -> bool:
        return self.state not in ("waiting", "running")


class Jobs(Protocol):
    """What pages and API ask of it."""

    def submit(
        self,
        requests: Sequence[Request],
        *,
        actor: str,
        subject: str,
        approval: Mapping[str, str] | None = None,
    ) -> str:
        """Start a job and say its id. `subject`: what it is about, such as 'release NAME'.
        `approval`: what the ledger's entries say beside the actor (`proposed_by`, `approved_by`,
        `two_persons`)."""

    def status(self, job: str) -> JobStatus:
        """Where it is; an InputError where there is none."""

    def results(self, job: str) -> Sequence[Mapping[str, Any]]:
        """What its requests answered, as JSON; may be as private as the rows. Empty until it is
        done."""

    def cancel(self, job: str, *, actor: str) -> JobStatus:
        """End it now. What was paid stays paid."""

    def forget(self, job: str) -> None:
        """Delete its results."""

    def close(self) -> None:
        """The service stops: jobs that run are ended."""


def request_types() -> dict[str, type[Request]]:
    """Every request by its verb."""
    from dpublish.requests import (
        analyst,
        audit,
        curator,
        ledger,
        local,
        online,
        plans,
        schemas,
        solve,
    )

    found: dict[str, type[Request]] = {}
    for module in (analyst, audit, curator, ledger, local, online, plans, schemas, solve):
        found |= module.REQUESTS
    return found


class JobRunner:
    """A child process per job, watched by a thread of this one."""

    def __init__(self, store: Store, folder: Path, *, at_once: int = 2, minutes: int = 240) -> None:
        self.store, self.folder = store, folder
        self._turn = threading.Semaphore(at_once)
        self._seconds = minutes * 60
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._cancelled: set[str] = set()
        owned_folder(folder)
        for row in (*store.rows(JOBS, state="running"), *store.rows(JOBS, state="waiting")):
            # the process that watched it is gone, and its children ended with it
            store.set(JOBS, {"id": row["id"]}, {"state": "lost", "ended": now()})

    def submit(
        self,
        requests: Sequence[Request],
        *,
        actor: str,
        subject: str,
        approval: Mapping[str, str] | None = None,
    ) -> str:
        job = secrets.token_hex(8)
        owned_folder(self.folder / job)
        documents = [plain(one.to_json()) for one in requests]
        replace_owned(self.folder / job / "requests.json", json.dumps(documents).encode())
        by = {"who": actor, "door": "dpublish serve", **(approval or {})}
        replace_owned(self.folder / job / "by.json", json.dumps(by).encode())
        verbs = [one.verb for one in requests]
        with self.store.change() as connection:
            connection.execute(
                insert(JOBS).values(
                    id=job, subject=subject, requests=json.dumps(verbs), state="waiting",
                    actor=actor, created=now(), spent=False,
                )
            )  # fmt: skip
            record(connection, actor=actor, action="job started", subject=subject, job=job)
        threading.Thread(target=self._watch, args=(job,), daemon=True).start()
        return job

    def status(self, job: str) -> JobStatus:
        row = self.store.one(JOBS, id=job)
        if row is None:
            raise InputError("There is no such job.")
        return _status(row, self.folder / job)

    def results(self, job: str) -> Sequence[Mapping[str, Any]]:
        with contextlib.suppress(OSError, ValueError):
            found: list[Mapping[str, Any]] = json.loads(
                (self.folder / job / "results.json").read_bytes()
            )
            return found
        return []

    def cancel(self, job: str, *, actor: str) -> JobStatus:
        self._cancelled.add(job)
        child = self._children.get(job)
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        self.store.did(actor, "job cancelled", job)
        return self.status(job)

    def forget(self, job: str) -> None:
        for name in ("results.json", "requests.json"):
            (self.folder / job / name).unlink(missing_ok=True)

    def close(self) -> None:
        for job in list(self._children):
            self.cancel(job, actor="office")

    def _watch(self, job: str) -> None:
        with self._turn:
            if job in self._cancelled:
                self.store.set(JOBS, {"id": job}, {"state": "cancelled", "ended": now()})
                return
            child = subprocess.Popen(
                [sys.executable, "-m", "dpublish.server.jobs", str(self.folder / job)],
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            self._children[job] = child
            self.store.set(
                JOBS, {"id": job}, {"state": "running", "started": now(), "pid": child.pid}
            )
            try:
                code = child.wait(self._seconds)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                code = child.wait()
            del self._children[job]
        state = "done" if code == 0 else "cancelled" if job in self._cancelled else "failed"
        error = None
        with contextlib.suppress(OSError):
            error = (self.folder / job / "error.json").read_text(encoding="utf-8")
        self.store.set(JOBS, {"id": job}, {"state": state, "ended": now(), "error": error})


def _status(row: Row, folder: Path) -> JobStatus:
    step = row["step"]
    with contextlib.suppress(OSError):
        step = (folder / "step").read_text(encoding="utf-8")
    error = None if row["error"] is None else json.loads(row["error"])
    shown = ("id", "subject", "state", "actor", "created", "started", "ended", "spent")
    verbs = tuple(json.loads(row["requests"]))
    return JobStatus(**{name: row[name] for name in shown}, verbs=verbs, step=step, error=error)


class _Child(Caller):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def actor(self) -> Any:
        from dpublish.requests.ledger import actor_of

        return actor_of(json.loads((self._folder / "by.json").read_bytes()))

    def progress(self, step: str) -> None:
        replace_owned(self._folder / "step", step.encode())

    @contextlib.contextmanager
    def private(self) -> Iterator[Progress]:
        yield self.progress


def run(folder: Path) -> int:
    """What the child does."""
    known = request_types()
    caller = _Child(folder)
    results: list[Any] = []
    try:
        for document in json.loads((folder / "requests.json").read_bytes()):
            request = known[document["request"]].from_json(document)
            results.append(plain(request.run(caller).to_json()))
    except PublishError as error:
        said = {"type": type(error).__name__, "message": str(error), "exit_code": error.exit_code}
        replace_owned(folder / "error.json", json.dumps(said).encode())
        return 1
    except Exception:
        constant = PrivateSideError()
        said = {"type": "PrivateSideError", "message": str(constant), "exit_code": 6}
        replace_owned(folder / "error.json", json.dumps(said).encode())
        return 1
    replace_owned(folder / "results.json", json.dumps(results).encode())
    return 0


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
