"""The ledger on SQLAlchemy Core: one code path for SQLite and PostgreSQL.

A debit is one conditional UPDATE that reserves the amount and locks the head row, then one INSERT of the chained entry, then
COMMIT, then the anchor. Everything that decides is read after the lock is held. A lost connection, even during COMMIT, is
resolved by the key on a new connection: the conditional UPDATE waits for whatever transaction still holds the row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, insert, update

from dpublish.cost import Budget, Cost, show
from dpublish.errors import BudgetError, BudgetExceeded, LedgerUnavailable, PlanError
from dpublish.ledger import chain, crashpoints
from dpublish.ledger.anchor import Anchor, Mark
from dpublish.ledger.base import Entry, EntryKind, Ledger, Receipt, Sealed, Status
from dpublish.ledger.chain import Record
from dpublish.ledger.database import Database
from dpublish.ledger.quanta import Quanta
from dpublish.ledger.snapshot import Snapshot, altered
from dpublish.ledger.tables import entries, ledgers

_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_KEY = 200
_LONGEST_WHAT = 100_000

_RESERVE = (
    update(ledgers)
    .where(
        ledgers.c.ledger_id == bindparam("id"),
        ledgers.c.spent_epsilon <= ledgers.c.cap_epsilon - bindparam("epsilon", type_=BigInteger),
        ledgers.c.spent_delta <= ledgers.c.cap_delta - bindparam("delta", type_=BigInteger),
        ledgers.c.spent_rho <= ledgers.c.cap_rho - bindparam("rho", type_=BigInteger),
    )
    .values(
        spent_epsilon=ledgers.c.spent_epsilon + bindparam("epsilon", type_=BigInteger),
        spent_delta=ledgers.c.spent_delta + bindparam("delta", type_=BigInteger),
        spent_rho=ledgers.c.spent_rho + bindparam("rho", type_=BigInteger),
        seq=ledgers.c.seq + 1,
    )
    .returning(ledgers.c.seq, ledgers.c.spent_epsilon, ledgers.c.spent_delta, ledgers.c.spent_rho)
)


class _AlreadyThere(Exception):
    """Unwinds, and so undoes, a write transaction that found its key taken."""

    def __init__(self, record: Record) -> None:
        self.record = record


class SqlLedger(Ledger):
    """One named budget in a database. Made by `open_ledger`."""

    def __init__(self, database: Database, anchor: Anchor, *, name: str, budget: Budget) -> None:
        self._database = database
        self._anchor = anchor
        self.ledger_id = anchor.ledger_id
        self.name = name
        self.budget = budget
        self._cap = Quanta.of_cap(budget)

    def debit(self, key: str, cost: Cost, what: Mapping[str, object]) -> Receipt:
        key = _checked_key(key)
        recorded = chain.plain(dict(what))
        if len(chain.canonical(recorded)) > _LONGEST_WHAT:
            raise PlanError(f"The description of a debit is longer than {_LONGEST_WHAT} characters. Record a hash instead.")
        converted = self.budget.charge(cost)
        charged = Quanta.of_cost(converted)
        attempt = chain.token()  # tells our own commit from a rival's when the connection is lost
        detail = {"cost": cost.to_json(), "exact": converted.to_json(), "what": recorded, "attempt": attempt}

        def once() -> Record:
            with self._reading() as snapshot:
                found = snapshot.find("debit", key)
            if found is None:
                try:
                    with self._writing() as snapshot:
                        found = self._append(snapshot, "debit", key, charged, detail)
                except _AlreadyThere as taken:
                    found = taken.record
            return found

        record = self._database.attempt(once)
        crashpoints.reach("debit.committed")
        if chain.canonical({**record.detail, "attempt": attempt}) != chain.canonical(detail):
            raise BudgetError(
                f"The key '{key}' already paid for something else in ledger '{self.name}'. Nothing was spent. Use a new key."
            )
        self._vouch(record)
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
        )

    def seal(self, key: str, *, sha256: str, size: int, location: str) -> None:
        key = _checked_key(key)
        if not _SHA256.fullmatch(sha256) or size < 0:
            raise PlanError("An answer is sealed with the 64 hexadecimal digits of its SHA-256 and its size in bytes.")
        detail = {"sha256": sha256, "size": int(size), "location": str(location)}

        def once() -> Record:
            try:
                with self._writing() as snapshot:
                    if snapshot.find("debit", key) is None:
                        raise BudgetError(f"The key '{key}' was never paid for, so it cannot have an answer.")
                    return self._append(snapshot, "seal", key, Quanta(), detail)
            except _AlreadyThere as taken:
                return taken.record

        record = self._database.attempt(once)
        crashpoints.reach("seal.committed")
        if (record.detail["sha256"], record.detail["size"]) != (sha256, size):
            raise BudgetError(f"The key '{key}' already has another answer. One key has one answer; the first one stands.")
        self._vouch(record)
        crashpoints.reach("seal.anchored")

    def answer(self, key: str) -> Sealed | None:
        key = _checked_key(key)

        def once() -> Record | None:
            with self._reading() as snapshot:
                return snapshot.find("seal", key)

        record = self._database.attempt(once)
        if record is None:
            return None
        self._vouch(record)
        detail = record.detail
        return Sealed(
            key=key, sha256=detail["sha256"], size=detail["size"], location=detail["location"], created=record.created
        )

    def status(self) -> Status:
        return self._database.attempt(lambda: self._checked(deep=False))

    def history(self) -> list[Entry]:
        def once() -> list[Entry]:
            with self._reading() as snapshot:
                return snapshot.history()

        return self._database.attempt(once)

    def verify(self) -> Status:
        return self._database.attempt(lambda: self._checked(deep=True))

    def close(self) -> None:
        self._database.close()

    # -- used by opening and recovery ------------------------------------------------------------------------------------

    def adopt(self) -> None:
        """First use on this machine: verify everything, then trust the head from now on."""

        def once() -> Record:
            with self._reading() as snapshot:
                head = snapshot.head()
                snapshot.walk(head)
                return head

        self._vouch(self._database.attempt(once))

    def write_off(self) -> None:
        """Charge what the anchor has seen beyond this copy, then anchor this copy. See `recover_ledger`."""
        mark = self._anchor.read()

        def once() -> Record:
            with self._reading() as snapshot:
                head = snapshot.head()
                snapshot.walk(head)
                if mark is None or snapshot.hash_at(mark.seq) == mark.hash:
                    return head
            lost = mark.spent.beyond(head.spent)
            detail = {"reason": "recovered from an older copy", "lost_seq": mark.seq, "lost_hash": mark.hash}
            try:
                with self._writing() as snapshot:
                    return self._append(snapshot, "write-off", mark.hash, lost, detail, trusted=head)
            except _AlreadyThere as taken:
                return taken.record  # an earlier recovery was cut short before it could move the anchor

        self._anchor.replace(_mark(self._database.attempt(once)))

    def _checked(self, *, deep: bool) -> Status:
        # The mark is read before the snapshot: a ledger that grows meanwhile can only be further on.
        mark = self._anchor.read()
        with self._reading() as snapshot:
            head = snapshot.head()
            if deep:
                snapshot.walk(head)
            snapshot.check_anchor(head, mark)
            return snapshot.status(head)

    @contextmanager
    def _reading(self) -> Iterator[Snapshot]:
        with self._database.reading() as connection:
            yield Snapshot(connection, self._anchor, name=self.name, budget=self.budget)

    @contextmanager
    def _writing(self) -> Iterator[Snapshot]:
        with self._database.writing() as connection:
            yield Snapshot(connection, self._anchor, name=self.name, budget=self.budget)

    # -- inside a transaction --------------------------------------------------------------------------------------------

    def _append(
        self,
        snapshot: Snapshot,
        kind: EntryKind,
        key: str,
        charged: Quanta,
        detail: Mapping[str, Any],
        *,
        trusted: Record | None = None,
    ) -> Record:
        """Reserve, chain and insert. `trusted` skips the anchor: recovery has already dealt with it."""
        row = None
        if charged.within(self._cap):  # also keeps the numbers within 64 bits
            amounts = {"epsilon": charged.epsilon, "delta": charged.delta, "rho": charged.rho}
            row = snapshot.connection.execute(_RESERVE, {"id": self.ledger_id, **amounts}).one_or_none()
        found = snapshot.find(kind, key)
        if found is not None:
            raise _AlreadyThere(found)
        if row is None:
            raise self._exceeded(snapshot.head(), charged)
        seq, spent = int(row.seq), Quanta(int(row.spent_epsilon), int(row.spent_delta), int(row.spent_rho))
        crashpoints.reach(f"{kind}.locked")
        # Other processes move the mark only to committed entries, and those are all visible now that the row is ours.
        mark = None if trusted else self._required_mark()
        head = snapshot.record_at(seq - 1)
        if head is None or head.spent != spent.minus(charged) or (trusted and head != trusted):
            raise altered()
        if not trusted:
            snapshot.check_anchor(head, mark)
        record = Record(
            ledger_id=self.ledger_id,
            seq=seq,
            kind=kind,
            key=key,
            created=chain.now(),
            previous=chain.digest(head.text()),
            charged=charged,
            spent=spent,
            detail=detail,
        )
        insert_record(snapshot.connection, record)
        crashpoints.reach(f"{kind}.inserted")
        return record

    def _exceeded(self, head: Record, charged: Quanta) -> BudgetExceeded:
        left = self._cap.minus(head.spent)
        short = charged.beyond(left)
        rounding = (
            " The shortage is only the rounding of fractions to the ledger's smallest unit: ask for what is left."
            if max(short) <= 1000
            else ""
        )
        return BudgetExceeded(
            f"The release would cost {_amounts(charged)}, but ledger '{self.name}' has {_amounts(left, self._cap)} left of "
            f"{_amounts(self._cap)}. Nothing was spent. Ask for less, or publish from another budget.{rounding}"
        )

    # -- the anchor ------------------------------------------------------------------------------------------------------

    def _required_mark(self) -> Mark:
        mark = self._anchor.read()
        if mark is None:
            raise LedgerUnavailable(
                f"The anchor {self._anchor.path} disappeared while the ledger was open. Open the ledger again to renew it."
            )
        return mark

    def _vouch(self, record: Record) -> None:
        """Nothing about an entry leaves this process before the anchor covers it."""

        def hash_at(seq: int) -> str | None:
            if seq == record.seq - 1:
                return record.previous

            def once() -> str | None:
                with self._reading() as snapshot:
                    return snapshot.hash_at(seq)

            return self._database.attempt(once)

        self._anchor.advance(_mark(record), hash_at)


def insert_record(connection: Connection, record: Record) -> None:
    text = record.text()
    connection.execute(
        insert(entries),
        {
            "ledger_id": record.ledger_id,
            "seq": record.seq,
            "kind": record.kind,
            "key": record.key,
            "charged_epsilon": record.charged.epsilon,
            "charged_delta": record.charged.delta,
            "charged_rho": record.charged.rho,
            "record": text,
            "hash": chain.digest(text),
        },
    )


def _checked_key(key: str) -> str:
    if not isinstance(key, str) or not key or len(key) > _LONGEST_KEY or not key.isprintable():
        raise PlanError(f"A key is 1 to {_LONGEST_KEY} printable characters; {key!r:.60} was given.")
    return key


def _mark(record: Record) -> Mark:
    return Mark(seq=record.seq, hash=chain.digest(record.text()), spent=record.spent)


def _amounts(amount: Quanta, shape: Quanta | None = None) -> str:
    """Exact text of the components that `shape` (or the amount itself) has."""
    cost, wanted = amount.cost(), shape or amount
    named = (("epsilon", cost.epsilon, wanted.epsilon), ("rho", cost.rho, wanted.rho), ("delta", cost.delta, wanted.delta))
    return ", ".join(f"{name} = {show(value)}" for name, value, present in named if present) or "nothing"
