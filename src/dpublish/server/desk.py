"""Query desks of the office: proposed and approved as a release is, then asked by the researchers
who have a seat.

A desk is an online session in a folder of its own: its answers, its count of hard ones and its
durability are the session's. Here stands who may ask, and how many questions each. A key belongs to
the person who uses it: the same key with the same question gives the same answer again, and does
not count as another question.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Table, insert, update

from dpublish.errors import BudgetExceeded, InputError
from dpublish.owned import owned_folder
from dpublish.requests.base import Request
from dpublish.requests.online import OpenSession, PlanSession
from dpublish.server.accounts import Accounts, Actor, Role, read_roles
from dpublish.server.config import Config
from dpublish.server.datasets import Datasets, named, titled
from dpublish.server.desk_process import DeskProcess
from dpublish.server.jobs import JobRunner
from dpublish.server.store import (
    ACCOUNTS,
    DESKS,
    PROPOSALS,
    SEATS,
    Row,
    Store,
    now,
    picked,
    record,
    set_rows,
)

ONLINE: Final = "online"
"""In the request of a proposal: that it is for a desk."""
MAX_QUESTIONS: Final = 1_000_000


class Proposals:
    """What is the same for releases and desks on the way from a proposal to a job that pays. `what`
    is "release" or "desk"; `table` holds what has been made of proposals."""

    def __init__(self, config: Config, store: Store, jobs: JobRunner) -> None:
        self.config, self.store, self.jobs = config, store, jobs

    def require_new(self, what: str, table: Table, name: str) -> None:
        waiting = self.store.one(PROPOSALS, release=name, state="proposed")
        if waiting is not None or self.store.one(table, name=name) is not None:
            raise InputError(f"There is a {what} or proposal '{name}' already.")

    def add(
        self,
        what: str,
        dataset: Row,
        name: str,
        request: Mapping[str, Any],
        *,
        title: str,
        why: str,
        by: Actor,
        **amounts: str | None,
    ) -> str:
        one = secrets.token_hex(8)
        self.store.add(
            PROPOSALS,
            {
                "id": one, "dataset": dataset["name"], "release": name,
                "title": titled(title, name), "state": "proposed", "proposer": by.name,
                "request": json.dumps({**request, "digest": dataset["digest"]}),
                "created": now(), "why": why.strip()[:4000] or None,
                "two_person": self.config.two_person,
            },
            by=by.name, action=f"{what} proposed", subject=name, proposal=one, **amounts,
        )  # fmt: skip
        return one

    def accept(
        self,
        what: str,
        proposal: Row,
        decided: Mapping[str, Any],
        table: Table,
        *,
        state: str,
        by: Actor,
    ) -> None:
        """Write down, once, that a proposal is approved, and what is now being made."""
        held = {"id": proposal["id"], "state": "proposed"}
        with self.store.change() as connection:
            if not set_rows(connection, PROPOSALS, held, decided):
                raise InputError("Somebody decided about this proposal already.")
            connection.execute(
                insert(table).values(
                    name=proposal["release"], dataset=proposal["dataset"], title=proposal["title"],
                    job="", state=state, created=now(), creator=proposal["proposer"],
                )
            )  # fmt: skip
            record(
                connection, actor=by.name, action=f"{what} approved", subject=proposal["release"],
                proposal=proposal["id"], two_person=self.config.two_person,
            )  # fmt: skip

    def begin(self, what: str, proposal: Row, table: Table, requests: Sequence[Request]) -> str:
        """Let the job of an approved proposal begin, which debits the ledger. Says the job."""
        approval = {
            "proposed_by": proposal["proposer"],
            "approved_by": proposal["decider"],
            "two_persons": "kept" if proposal["two_person"] else "switched off",
        }
        name = proposal["release"]
        job = self.jobs.submit(
            requests, actor=proposal["decider"], subject=f"{what} {name}", approval=approval
        )
        with self.store.change() as connection:
            set_rows(connection, PROPOSALS, {"id": proposal["id"]}, {"job": job})
            set_rows(connection, table, {"name": name}, {"job": job})
        return job


class Desks:
    def __init__(
        self, config: Config, store: Store, datasets: Datasets, jobs: JobRunner, accounts: Accounts
    ) -> None:
        self.config, self.store, self.datasets, self.jobs = config, store, datasets, jobs
        self.accounts = accounts
        self.proposals = Proposals(config, store, jobs)
        self._processes: dict[str, DeskProcess] = {}
        self._lock = threading.Lock()

    # -- from a proposal to an open desk

    def propose(
        self,
        dataset: Row,
        *,
        desk: str,
        title: str,
        method: str,
        settings: Mapping[str, str],
        epsilon: str,
        why: str,
        by: Actor,
    ) -> str:
        """Ask for a desk; nothing is read or paid. The schema is pinned as it is now."""
        desk = named(desk, "desk")
        self.proposals.require_new("desk", DESKS, desk)
        # refuses what cannot be promised, before anybody is asked to approve
        self.plan(dataset, method=method, settings=settings, epsilon=epsilon)
        return self.proposals.add(
            "desk", dataset, desk,
            {
                ONLINE: True, "method": method, "settings": dict(settings), "epsilon": epsilon,
                "delta": None, "rho": None,
            },
            title=title, why=why, by=by, epsilon=epsilon,
        )  # fmt: skip

    def plan(
        self, dataset: Row, *, method: str, settings: Mapping[str, str], epsilon: str
    ) -> Mapping[str, Any]:
        """What a desk would promise, from the schema alone."""
        schema = self.datasets.schema_path(dataset)
        asked = PlanSession(schema=schema, method=method, settings=settings, epsilon=epsilon)
        return asked.run().to_json()

    def begin(self, proposal: Row, decided: Mapping[str, Any], *, by: Actor) -> str:
        """A proposal for a desk is approved: the job that pays begins. Says the job."""
        request = self.request_of(proposal)
        self.proposals.accept("desk", proposal, decided, DESKS, state="opening", by=by)
        return self.proposals.begin("desk", {**proposal, **decided}, DESKS, [request])

    def request_of(self, proposal: Row) -> OpenSession:
        dataset, asked = self.datasets.as_proposed(proposal)
        data, database = self.datasets.source(dataset)
        return OpenSession(
            data=data,
            database=database,
            session=self.folder(proposal["release"]),
            schema=self.datasets.schema_path(dataset),
            ledger=self.config.ledger_url,
            name=dataset["population"],
            method=asked["method"],
            settings=asked["settings"],
            epsilon=asked["epsilon"],
            key=f"office-{proposal['id']}",
        )

    def settle(self) -> None:
        """Write down what the jobs that open desks have come to."""
        for row in self.store.rows(DESKS, state="opening"):
            status = self.jobs.status(row["job"]) if row["job"] else None
            if status is not None and status.over:
                state = "open" if status.state == "done" else "failed"
                if self.store.set(DESKS, picked(row, "name", "state", "job"), {"state": state}):
                    self.store.did(status.actor, f"desk {state}", row["name"])

    # -- desks and seats

    def folder(self, desk: str) -> Path:
        home = self.config.state / "desks" / named(desk, "desk")
        owned_folder(home)
        return home / "session"

    def all(self) -> list[Row]:
        return self.store.rows(DESKS, newest="created")

    def get(self, desk: str) -> Row:
        return self.store.known(DESKS, "desk", name=desk)

    def seats(self, desk: str) -> list[dict[str, Any]]:
        """Who may ask, and how much each has asked."""
        names = {row["id"]: row["name"] for row in self.store.rows(ACCOUNTS)}
        return [{**row, "who": names[row["account"]]} for row in self.store.rows(SEATS, desk=desk)]

    def seat(self, desk: str, actor: Actor) -> Row | None:
        return self.store.one(SEATS, desk=desk, account=actor.account)

    def of(self, actor: Actor) -> list[Row]:
        """The desks that somebody may see: all for those of the office, else those with a seat."""
        if actor.may({Role.curator, Role.approver, Role.auditor, Role.admin}):
            return self.all()
        mine = {row["desk"] for row in self.store.rows(SEATS, account=actor.account)}
        return [row for row in self.all() if row["name"] in mine]

    def admit(self, desk: str, person: str, allowed: int, *, by: Actor) -> None:
        """Give a researcher a seat with so many questions, or change how many."""
        row = self.get(desk)
        account = self.accounts.find(person)
        if account is None or not account["active"]:
            raise InputError(f"There is no account '{person[:64]}'.")
        if not read_roles(account["roles"]) & {Role.researcher, Role.curator}:
            raise InputError(f"'{account['name']}' has not the role researcher.")
        if not 0 <= allowed <= MAX_QUESTIONS:
            raise InputError(f"A seat has 0 to {MAX_QUESTIONS} questions.")
        held = {"desk": row["name"], "account": account["id"]}
        with self.store.change() as connection:
            if not set_rows(connection, SEATS, held, {"allowed": allowed}):
                connection.execute(insert(SEATS).values(**held, allowed=allowed, asked=0, hard=0))
            record(
                connection, actor=by.name, action="seat given", subject=desk,
                person=account["name"], allowed=allowed,
            )  # fmt: skip

    # -- asking

    def status(self, desk: str, actor: Actor | None = None) -> dict[str, Any]:
        """What the desk promises and what is left of it, and of the caller's own questions."""
        row = self.get(desk)
        shown = picked(row, "name", "title", "dataset", "state", "created")
        session = self._process(desk).asked("status") if row["state"] in ("open", "closed") else {}
        seat = None if actor is None else self.seat(desk, actor)
        if seat is not None:
            left = max(0, seat["allowed"] - seat["asked"])
            seat = {**picked(seat, "allowed", "asked", "hard"), "left": left}
        return {**shown, "session": session, "seat": seat}

    def ask(self, desk: str, query: str, key: str, *, by: Actor) -> dict[str, Any]:
        """One question of somebody who has a seat. On disk before it is answered."""
        self._require_open(desk)
        if not 1 <= len(key) <= 100 or not key.isprintable():
            raise InputError("A key is 1 to 100 printable characters.")
        if not 1 <= len(query) <= 10_000:
            raise InputError("A question has 1 to 10,000 characters.")
        self._reserve(desk, by)
        try:
            given = self._process(desk).asked("ask", query=query, key=f"{by.account}:{key}")
        except InputError:  # it was not understood, and nothing was drawn
            self._count(desk, by, asked=-1)
            raise
        answer: dict[str, Any] = given["answer"]
        answer["key"] = key
        if not given["fresh"]:
            self._count(desk, by, asked=-1)
        elif answer["label"] == "hard":
            self._count(desk, by, hard=1)
        return answer

    def close(self, desk: str, *, by: Actor) -> None:
        """End a desk for good. Its exact counts are deleted, its answers stay."""
        self._require_open(desk)
        self._process(desk).asked("close")
        if self.store.set(
            DESKS, {"name": desk, "state": "open"}, {"state": "closed", "closed": now()}
        ):
            self.store.did(by.name, "desk closed", desk)

    def _require_open(self, desk: str) -> None:
        if self.get(desk)["state"] != "open":
            raise InputError(f"The desk '{desk}' is not open.")

    def stop(self) -> None:
        """The service ends: so do the processes. Every answer is on disk."""
        with self._lock:
            for one in self._processes.values():
                one.stop()
            self._processes.clear()

    def _process(self, desk: str) -> DeskProcess:
        with self._lock:
            return self._processes.setdefault(desk, DeskProcess(self.folder(desk)))

    def _reserve(self, desk: str, by: Actor) -> None:
        """Count a question before it is asked: after a crash one too many, never one too few."""
        taken = (
            update(SEATS)
            .where(
                SEATS.c.desk == desk,
                SEATS.c.account == by.account,
                SEATS.c.asked < SEATS.c.allowed,
            )
            .values(asked=SEATS.c.asked + 1)
        )
        with self.store.change() as connection:
            if connection.execute(taken).rowcount:
                return
        if self.seat(desk, by) is None:
            raise InputError("You have no seat at this desk. Its curator gives seats.")
        raise BudgetExceeded("You have asked all the questions that your seat allows.")

    def _count(self, desk: str, by: Actor, *, asked: int = 0, hard: int = 0) -> None:
        self.store.set(
            SEATS,
            {"desk": desk, "account": by.account},
            {"asked": SEATS.c.asked + asked, "hard": SEATS.c.hard + hard},
        )
