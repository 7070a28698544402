"""The ledger on SQLAlchemy Core: one code path for SQLite and PostgreSQL.

A debit is an entry that `chained` appends. A lost connection, even during COMMIT, is resolved by
the key on a new connection: the conditional UPDATE waits for whatever transaction still holds the
row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dpublish.errors import BudgetError, PlanError
from dpublish.ledger import chain, crashpoints
from dpublish.ledger.base import COLUMN, OtherBudget, Receipt, Sealed, words_of
from dpublish.ledger.chain import Quanta, Record
from dpublish.ledger.chained import AlreadyThere
from dpublish.ledger.populations import (
    SECOND,
    SHARED,
    Population,
    listed,
    name_others,
    registered,
    registrations,
    require_asked_for,
    unnamed,
)
from dpublish.ledger.recovery import RecoverableLedger
from dpublish.ledger.snapshot import Snapshot
from dpublish.privacy.cost import Cost

_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_KEY = 200
_LONGEST_WHAT = 100_000
DRAWING: Final = "drawing"
"""The kind of the entry that says that noise is about to be drawn for a key, or never will be."""
ROWS_KEY: Final = "rows_key"
MAX_RUNS: Final = 3
"""So many runs of a key may begin. Each may die in a way that tells of the rows."""


class SqlLedger(RecoverableLedger):
    """One named budget in a database. Made by `open_ledger`."""

    def debit(
        self,
        key: str,
        cost: Cost,
        what: Mapping[str, object],
        *,
        rows_key: bytes | None = None,
        again: bool = True,
    ) -> Receipt:
        key, recorded, converted = self._checked(key, cost, what)
        charged = Quanta.of_cost(converted)
        attempt = chain.token()  # tells our own commit from a rival's when the connection is lost
        detail = {
            "cost": cost.to_json(),
            "exact": converted.to_json(),
            "what": recorded,
            "attempt": attempt,
            **({ROWS_KEY: rows_key.hex()} if rows_key is not None else {}),
        }
        people, protects = Population.of_request(recorded), words_of(recorded)

        def once() -> Record:
            with self._reading() as snapshot:
                self._take_up(snapshot)
                found = snapshot.find("debit", key)
            if found is None:
                try:
                    with self._writing() as snapshot:
                        others = registered(self, snapshot, people, protects) if people else []
                        shared = {SHARED: [one.to_json() for one in others]} if others else {}
                        found = self.append(
                            snapshot,
                            "debit",
                            key,
                            charged,
                            {**detail, **shared},
                            protects=protects,
                        )
                        if not again:
                            _require_new(snapshot, key, detail)
                        if people:  # last: a debit that is refused registers nobody
                            listed(self, people, others)
                except AlreadyThere as taken:
                    found = taken.record
            return found

        record = self._database.attempt(once)
        crashpoints.reach("debit.committed")
        if not _same_request(record.detail, detail):
            raise BudgetError(
                f"The key '{key}' already paid for something else in ledger '{self.name}'. "
                f"Nothing was spent. Use a new key."
            )
        self.vouch(record)
        crashpoints.reach("debit.anchored")
        return Receipt(
            ledger_id=self.ledger_id,
            name=self.name,
            seq=record.seq,
            key=key,
            charged=record.charged.cost(),
            cost=cost,
            head_hash=chain.digest(record.text()),
            created=record.created,
            fresh=record.detail["attempt"] == attempt,
            other_budgets=tuple(map(OtherBudget.from_json, record.detail.get(SHARED, ()))),
            rows_key=_rows_key(record),
            budget=self._cap.cost(),
            spent=record.spent.cost(),
        )

    def require_payable(
        self, key: str, cost: Cost, what: Mapping[str, object], *, again: bool = True
    ) -> None:
        key, recorded, converted = self._checked(key, cost, what)
        charged, people = Quanta.of_cost(converted), Population.of_request(recorded)

        def look(snapshot: Snapshot) -> None:
            if snapshot.find("debit", key) is not None:
                return
            head, protects = snapshot.head(), words_of(recorded)
            self._pinned(snapshot.protects(head), protects, "debit")
            if not again:
                _require_new(snapshot, key, {"cost": cost.to_json(), "what": recorded})
            if not charged.within(self._cap.minus(head.spent)):
                raise self._exceeded(head, charged)
            if people is not None:
                require_asked_for(self, snapshot, people, protects)

        self._look(look)

    def _checked(
        self, key: str, cost: Cost, what: Mapping[str, object]
    ) -> tuple[str, dict[str, Any], Cost]:
        """What can be refused without looking; the request as it is recorded, and its charge."""
        key = _checked_key(key)
        if self.blocked is not None:
            raise self.blocked
        recorded = chain.plain(dict(what))
        if len(chain.canonical(recorded)) > _LONGEST_WHAT:
            raise PlanError(
                f"The description of a debit is longer than {_LONGEST_WHAT} characters. Record a "
                f"hash instead."
            )
        return key, recorded, self.budget.charge(cost)

    def run_again(self, key: str) -> int:
        token = chain.token()

        def once() -> Record:
            try:
                with self._writing() as snapshot:
                    return self._next_run(snapshot, key, token)
            except AlreadyThere:  # a rival took this number
                return once()

        record = self._database.attempt(once)
        self.vouch(record)
        return int(record.detail["run"])

    def _next_run(self, snapshot: Snapshot, key: str, token: str) -> Record:
        debit = snapshot.find("debit", key)
        if debit is None or _rows_key(debit) is None or snapshot.find(DRAWING, key) is not None:
            raise BudgetError(
                f"Key '{key}' was paid for{f' on {debit.created}' if debit else ''}, and a run of "
                "it has drawn noise or failed: it is still going on, or its answer is lost. It is "
                "not made again, because that would be a second answer for one payment. Use a new "
                "key to pay for a new release."
            )
        for number in range(2, MAX_RUNS + 1):
            found = snapshot.find("attempt", f"{number}:{key}")
            if found is None:
                detail = {"run": number, "attempt": token}
                return self.append(snapshot, "attempt", f"{number}:{key}", Quanta(), detail)
            if found.detail["attempt"] == token:  # the news of our own commit was lost
                return found
        raise BudgetError(
            f"Key '{key}' was paid for on {debit.created}, and {MAX_RUNS} runs of it ended before "
            "they drew noise, or are still going on. It is not tried again: how a run dies may "
            "tell of the rows. Find out why, for example too little memory, then use a new key to "
            "pay for a new release."
        )

    def drawing(self, key: str) -> bool:
        return self._drawn(key, {})

    def failed(self, key: str) -> None:
        self._drawn(key, {"failed": True})

    def _drawn(self, key: str, detail: Mapping[str, Any]) -> bool:
        """Compare and set: the entry `drawing` of a key is unique, so one call appends it."""
        token = chain.token()

        def write(snapshot: Snapshot) -> Record:
            if snapshot.find("debit", key) is None:
                raise BudgetError(f"The key '{key}' was never paid for.")
            return self.append(snapshot, DRAWING, key, Quanta(), {**detail, "attempt": token})

        record = self._enter(write)
        crashpoints.reach("drawing.committed")
        self.vouch(record)
        return bool(record.detail["attempt"] == token)

    def allow_second_budget(self) -> None:
        if not self._look(Snapshot.may_be_second):
            self.vouch(self._note({SECOND: True}))

    def seal(
        self, key: str, *, sha256: str, size: int, location: str, manifest: str | None = None
    ) -> None:
        key = _checked_key(key)
        if (
            not all(_SHA256.fullmatch(digest) for digest in (sha256, manifest or sha256))
            or size < 0
        ):
            raise PlanError(
                "An answer is sealed with the 64 hexadecimal digits of its SHA-256 and its size "
                "in bytes."
            )
        detail = {"sha256": sha256, "size": int(size), "location": str(location)}
        if manifest is not None:
            detail["manifest"] = manifest

        def write(snapshot: Snapshot) -> Record:
            if snapshot.find("debit", key) is None:
                raise BudgetError(
                    f"The key '{key}' was never paid for, so it cannot have an answer."
                )
            return self.append(snapshot, "seal", key, Quanta(), detail)

        record = self._enter(write)
        crashpoints.reach("seal.committed")
        sealed = record.detail
        if (sealed["sha256"], sealed["size"]) != (sha256, size) or manifest not in (
            None,
            sealed.get("manifest", manifest),
        ):
            raise BudgetError(
                f"The key '{key}' already has another answer. One key has one answer; the first "
                f"one stands."
            )
        self.vouch(record)
        crashpoints.reach("seal.anchored")

    def answer(self, key: str) -> Sealed | None:
        key = _checked_key(key)

        def look(snapshot: Snapshot) -> Record | None:
            self._take_up(snapshot)
            return snapshot.find("seal", key)

        record = self._look(look)
        if record is None:
            return None
        self.vouch(record)
        return Sealed(
            key=key,
            sha256=record.detail["sha256"],
            size=record.detail["size"],
            location=record.detail["location"],
            created=record.created,
            manifest=record.detail.get("manifest"),
        )

    def take_note_of_others(self) -> None:
        """Record the ledgers that began to pay for the same people since this one was last used."""

        def once() -> Record | None:
            with self._reading() as snapshot:
                if not any(unnamed(self, snapshot, people) for people in registrations(snapshot)):
                    return None
            with self._writing() as snapshot:
                records = [name_others(self, snapshot, one) for one in registrations(snapshot)]
            return next((record for record in reversed(records) if record is not None), None)

        record = self._database.attempt(once)
        if record is not None:
            self.vouch(record)


def _checked_key(key: str) -> str:
    if not isinstance(key, str) or not key or len(key) > _LONGEST_KEY or not key.isprintable():
        raise PlanError(
            f"A key is 1 to {_LONGEST_KEY} printable characters; {key!r:.60} was given."
        )
    return key


def _rows_key(debit: Record) -> bytes | None:
    """What chooses rows of a unit, in debits since there is a mark of drawing."""
    kept = debit.detail.get(ROWS_KEY)
    return None if kept is None else bytes.fromhex(kept)


def _require_new(snapshot: Snapshot, key: str, asked: Mapping[str, Any]) -> None:
    """Refuse a request that another key has paid for, if that key has its answer or may get it."""
    for paid in snapshot.same_requests(asked):
        mark, sealed = snapshot.find(DRAWING, paid.key), snapshot.find("seal", paid.key)
        lost = mark.detail.get("failed") if mark else _rows_key(paid) is None
        if paid.key == key or (lost and not sealed):
            continue
        free = (
            f"returns that answer and is free: --key '{paid.key}' (in Python: key='{paid.key}')"
            if sealed
            else f"is drawing noise or has lost its answer: see --key '{paid.key}'"
            if mark
            else f"goes on with it and is free, unless it is still running: --key '{paid.key}'"
        )
        raise BudgetError(
            f"This very request was paid for on {paid.created}, under another key, which {free}. "
            'Nothing was spent. If the rows are new, say so in the schema: period = "..." under '
            "[dataset]. To pay for a second answer about the same rows: --again (again=True)."
        )


def _same_request(kept: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether a debit was made for what is asked now. The attempt and what the ledger added do not
    count."""

    def text(detail: Mapping[str, Any]) -> str:
        what = detail["what"]
        if COLUMN not in kept["what"]:  # a request of format 1 has the unit in words only
            what = {name: value for name, value in what.items() if name != COLUMN}
        return chain.canonical([detail["cost"], detail["exact"], what])

    return text(kept) == text(asked)
