"""Work that a page or a program sets going: one process per job, which ends with it.

What both the pages and the API rely on is `JobRunner`. A job is a list of requests of
`dpublish.requests`, run one after the other until one fails. Its results may be as private as the
rows: they are kept in a file for the service's owner alone, never in a table or a log.

A request that pays carries a key. So a worker that died, or was killed with the service, is
followed by another one with the same key, and the ledger decides: an answer that was sealed is
fetched, a run that drew no noise goes on unpaid, and what was lost is reported as lost.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from dpublish.errors import LedgerUnavailable
from dpublish.owned import owned_folder, replace_owned
from dpublish.requests.base import Request, plain
from dpublish.requests.ledger import OfKey, actor_of
from dpublish.server.store import JOBS, Store, now, picked, record, set_rows
from dpublish.server.worker import CANCELLED, FAILURE, LOCK, ORDER, RESULTS, STEP

DOOR: Final = "dpublish serve"
PRIVATE_SECONDS: Final = 86_400.0
"""How long what a check found is kept, for whoever does not delete it."""
RESTARTS: Final = 2
"""So often a worker that died without a word is followed by another: the ledger allows three
runs of a key."""
_LOOK: Final = 0.05
NOT_PAID: Final = "Nothing was paid, and nothing is lost."
NOTHING_TO_PAY: Final = "It pays for nothing, and nothing is lost."
UNKNOWN: Final = "Whether it was paid cannot be said: the ledger cannot be read at this moment."
_DIED: Final = "The job ended without an answer, several times. Its worker may lack memory."

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


class JobRunner:
    """A worker process per job, each in a process group of its own. A worker goes on when the
    service is stopped or killed; the next start finds it again by the lock that it holds."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        *,
        at_once: int = 2,
        minutes: int = 240,
        grace: float = 10.0,
    ) -> None:
        self.store, self.folder = store, folder
        self._turn = threading.Semaphore(at_once)
        self._seconds, self._grace = minutes * 60, grace
        self._closed = threading.Event()
        owned_folder(folder)
        self._find_again()
        self.forget_private()

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
        self.forget_private()
        job = secrets.token_hex(8)
        home = self.folder / job
        owned_folder(home)
        order = {
            "requests": [plain(_keyed(one, job).to_json()) for one in requests],
            "actor": actor_of({"who": actor, "door": DOOR, **(approval or {})}).to_json(),
        }
        replace_owned(home / ORDER, json.dumps(order).encode())
        self.store.add(
            JOBS,
            {
                "id": job, "subject": subject, "state": "waiting", "actor": actor,
                "requests": json.dumps([one.verb for one in requests]),
                "created": now(), "spent": False,
            },
            by=actor, action="job started", subject=subject, job=job,
        )  # fmt: skip
        self._begin(job)
        return job

    def status(self, job: str) -> JobStatus:
        """Where it is; an InputError where there is none."""
        row = self.store.known(JOBS, "job", id=job)
        step = row["step"]
        with contextlib.suppress(OSError):
            step = (self.folder / job / STEP).read_text(encoding="utf-8")
        return JobStatus(
            **picked(
                row, "id", "subject", "state", "actor", "created", "started", "ended", "spent"
            ),
            verbs=tuple(json.loads(row["requests"])),
            step=step,
            error=None if row["error"] is None else json.loads(row["error"]),
        )

    def results(self, job: str) -> Sequence[Mapping[str, Any]]:
        """What its requests answered, as JSON; may be as private as the rows. Empty until it is
        done."""
        found: Sequence[Mapping[str, Any]] = _document(self.folder / job / RESULTS) or []
        return found

    def cancel(self, job: str, *, actor: str) -> JobStatus:
        """End it, or keep it from starting. `status` says what is lost once it has ended."""
        status = self.status(job)
        if status.over:
            return status
        home = self.folder / job
        (home / CANCELLED).touch(mode=0o600)
        self.store.did(actor, "job cancelled", job)
        if not _signal(home, signal.SIGTERM):  # it waits for its turn, or has just ended
            self.store.set(
                JOBS,
                {"id": job, "state": "waiting"},
                {"state": "cancelled", "ended": now(), "error": json.dumps(_cancelled(NOT_PAID))},
            )
        else:
            threading.Thread(target=self._insist, args=(home,), daemon=True).start()
        return self.status(job)

    def forget(self, job: str) -> None:
        """Delete its results."""
        for name in (RESULTS, ORDER):
            (self.folder / job / name).unlink(missing_ok=True)

    def forget_private(self, seconds: float = PRIVATE_SECONDS) -> None:
        """Delete what checks found so long ago: it is as private as the rows."""
        for row in self.store.rows(JOBS, state="done"):
            if json.loads(row["requests"]) == ["check"]:
                results = self.folder / str(row["id"]) / RESULTS
                with contextlib.suppress(OSError):
                    if time.time() - results.stat().st_mtime > seconds:
                        self.forget(str(row["id"]))

    def close(self) -> None:
        """Watch no longer. Workers go on: what they make may be paid for."""
        self._closed.set()

    # -- watching

    def _find_again(self) -> None:
        """What an earlier process of the service left: workers that still run are watched, and
        what ended or never began without a word is run (again) under the same keys."""
        for row in (
            *self.store.rows(JOBS, state="running"),
            *self.store.rows(JOBS, state="waiting"),
        ):
            job = str(row["id"])
            if (self.folder / job / ORDER).exists():
                self._begin(job)
            else:
                self.store.set(JOBS, {"id": job}, {"state": "lost", "ended": now()})

    def _begin(self, job: str) -> None:
        threading.Thread(target=self._watch, args=(job,), daemon=True).start()

    def _watch(self, job: str) -> None:
        home = self.folder / job
        with self._turn:
            for _ in range(1 + RESTARTS):
                if self._closed.is_set():
                    return
                if not _ended(home):
                    self._run(job, home)
                if _ended(home) or self._closed.is_set():
                    break
        if not self._closed.is_set():
            self._record_end(job, home)

    def _run(self, job: str, home: Path) -> None:
        """One worker, from its start (unless it runs already) to its end."""
        child = None
        if not _held(home):
            # its words go nowhere: libraries quote rows
            child = subprocess.Popen(
                [sys.executable, "-m", "dpublish.server.worker", str(home)],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self.store.set(
            JOBS,
            {"id": job, "state": "waiting"},
            {"state": "running", "started": now(), "pid": child.pid if child else None},
        )
        latest = time.monotonic() + self._seconds
        while child.poll() is None if child else _held(home):
            if time.monotonic() > latest:
                _signal(home, signal.SIGKILL)
                minutes = f"{self._seconds / 60:g} minutes"
                failure = {
                    "type": "TooLong",
                    "message": f"The job was ended because it ran for more than {minutes}.",
                    "exit_code": 6,
                }
                replace_owned(home / FAILURE, json.dumps(failure).encode())
            if self._closed.wait(_LOOK):
                return

    def _insist(self, home: Path) -> None:
        """Whoever does not stop when asked is stopped."""
        latest = time.monotonic() + self._grace
        while time.monotonic() < latest and _held(home):
            time.sleep(_LOOK)
        _signal(home, signal.SIGKILL)

    def _record_end(self, job: str, home: Path) -> None:
        """Say in the tables how it ended, with what the ledger knows of its payment."""
        paid, words = _payment(home)
        error = _document(home / FAILURE)
        if (home / RESULTS).exists():
            state, error = "done", None
        elif (home / CANCELLED).exists():
            state, error = "cancelled", _cancelled(words)
        else:
            state = "failed"
            error = error or {"type": "WorkerEnded", "message": _DIED, "exit_code": 6}
            error = {**error, "payment": words}
        ended = {
            "state": state,
            "ended": now(),
            "spent": paid,
            "error": None if error is None else json.dumps(error),
        }
        with self.store.change() as connection:
            row = self.store.one(JOBS, id=job)
            if row is None or row["state"] not in ("waiting", "running"):
                return
            set_rows(connection, JOBS, {"id": job, "state": row["state"]}, ended)
            record(
                connection,
                actor=row["actor"],
                action="job ended",
                subject=row["subject"],
                job=job,
                state=state,
            )


def _keyed(request: Request, job: str) -> Request:
    """A request that pays has a key, so that a second worker goes on where the first one died."""
    if hasattr(request, "ledger") and getattr(request, "key", "") is None:
        return dataclasses.replace(request, key=f"job-{job}")  # type: ignore[call-arg]
    return request


def _payment(home: Path) -> tuple[bool, str]:
    """Whether a job's requests paid, and what the ledger says of the answers."""
    order = _document(home / ORDER) or {}
    said = [one for one in order.get("requests", ()) if one.get("key") and one.get("ledger")]
    if not said:
        return False, NOTHING_TO_PAY
    words: list[str] = []
    for one in said:
        asked = OfKey(url=one["ledger"], name=one.get("name", "default"), key=one["key"])
        try:
            state = asked.run()
            words += [state.describe()] if state.paid else []
        except LedgerUnavailable:
            # a ledger that is not there yet has paid for nothing; what cannot be read may have
            words += [] if _no_file(one["ledger"]) else [UNKNOWN]
    return bool(words), " ".join(words) or NOT_PAID


def _no_file(url: str) -> bool:
    return url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists()


def _cancelled(words: str) -> dict[str, Any]:
    return {"type": "Cancelled", "message": f"Cancelled. {words}", "exit_code": 130}


def _ended(home: Path) -> bool:
    return any((home / name).exists() for name in (RESULTS, FAILURE, CANCELLED)) and not _held(home)


def _held(home: Path) -> bool:
    """Whether a worker is alive: it holds a lock from its start to its end, however that comes."""
    try:
        descriptor = os.open(home / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _signal(home: Path, number: signal.Signals) -> bool:
    """Tell a living worker, and whatever it started, to end."""
    if not _held(home):
        return False
    with contextlib.suppress(OSError, ValueError):
        os.killpg(int((home / LOCK).read_text()), number)
        return True
    return False


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
