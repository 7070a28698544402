"""Entries of a ledger, chained in a database and vouched for by anchors.

An entry is one conditional UPDATE that reserves the amount and locks the head row, then one INSERT
of the chained entry, then COMMIT, then the anchor. Everything that decides is read after the lock
is held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Connection, bindparam, insert, update

from dpublish.errors import BudgetError, BudgetExceeded, LedgerUnavailable
from dpublish.ledger import chain, crashpoints
from dpublish.ledger.anchor import Anchor, Mark, disappeared
from dpublish.ledger.base import BY, CARRIED, Actor, Entry, EntryKind, Ledger, Protects, Status
from dpublish.ledger.chain import Quanta, Record
from dpublish.ledger.database import Database
from dpublish.ledger.snapshot import Snapshot, altered
from dpublish.ledger.tables import entries, ledgers
from dpublish.ledger.witness import in_force, witness_at
from dpublish.privacy.cost import Budget, show

T = TypeVar("T")

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
    .returning(
        ledgers.c.seq,
        *(ledgers.c.spent_epsilon, ledgers.c.spent_delta, ledgers.c.spent_rho),
        *(ledgers.c.cap_epsilon, ledgers.c.cap_delta, ledgers.c.cap_rho),
    )
)


class AlreadyThere(Exception):
    """Unwinds, and so undoes, a write transaction that found its key taken."""

    def __init__(self, record: Record) -> None:
        self.record = record


class ChainedLedger(Ledger):
    """What every entry of a ledger goes through, whatever it says."""

    def __init__(
        self,
        database: Database,
        anchor: Anchor,
        *,
        name: str,
        budget: Budget,
        actor: Actor,
        witnesses: Mapping[str, Anchor] | None = None,
    ) -> None:
        self._database = database
        self._anchor = anchor
        self._witnesses = dict(witnesses or {})
        self._noted = -1  # the newest note that was looked at for witnesses
        self._left_out: frozenset[str] = frozenset()
        self.ledger_id = anchor.ledger_id
        self.name = name
        self.budget = budget
        self.actor = actor
        self._cap = Quanta.of_cap(budget)
        self.blocked: LedgerUnavailable | None = (
            None  # why nothing may be paid from it, though it can be looked at
        )

    def close(self) -> None:
        self._database.close()

    @property
    def location(self) -> str:
        """Where it is, without a password; for the curator's eyes."""
        return self._database.target.shown

    def status(self) -> Status:
        return self._database.attempt(lambda: self._looked(deep=False))

    def history(self) -> list[Entry]:
        return self._look(Snapshot.history)

    def _looked(self, *, deep: bool) -> Status:
        with self._reading() as snapshot:
            self._take_up(snapshot)
        # The mark is read before the snapshot: a ledger that grows meanwhile can only be further
        # on.
        heard = self.heard()
        with self._reading() as snapshot:
            head = snapshot.walk() if deep else snapshot.head()
            for anchor, mark in heard:
                if mark is not None:
                    snapshot.check_anchor(head, mark, anchor.shown)
            return snapshot.status(head)

    def heard(self) -> list[tuple[Anchor, Mark | None]]:
        """What every anchor has seen: this machine's first, then the witnesses."""
        return [(anchor, anchor.read()) for anchor in self._anchors]

    @contextmanager
    def _reading(self) -> Iterator[Snapshot]:
        with self._database.reading() as connection:
            yield Snapshot(connection, self.ledger_id, name=self.name, budget=self.budget)

    @contextmanager
    def _writing(self) -> Iterator[Snapshot]:
        with self._database.writing() as connection:
            yield Snapshot(connection, self.ledger_id, name=self.name, budget=self.budget)

    def _look(self, look: Callable[[Snapshot], T]) -> T:
        """What one snapshot shows, looked at again after a passing fault."""

        def once() -> T:
            with self._reading() as snapshot:
                return look(snapshot)

        return self._database.attempt(once)

    def _enter(self, write: Callable[[Snapshot], Record]) -> Record:
        """The entry that one transaction appends, once whatever happens to the connection; or the
        one that has its key."""

        def once() -> Record:
            try:
                with self._writing() as snapshot:
                    return write(snapshot)
            except AlreadyThere as taken:
                return taken.record

        return self._database.attempt(once)

    def _note(self, detail: Mapping[str, Any]) -> Record:
        """Chain a fact beside the payments."""
        key = chain.token()
        return self._enter(lambda snapshot: self.append(snapshot, "note", key, Quanta(), detail))

    def append(
        self,
        snapshot: Snapshot,
        kind: EntryKind,
        key: str,
        charged: Quanta,
        detail: Mapping[str, Any],
        *,
        trusted: Record | None = None,
        protects: Protects | None = None,
    ) -> Record:
        """Reserve, chain and insert. `trusted` skips the anchor: recovery has already dealt with
        it."""
        row = None
        if charged.within(self._cap):  # also keeps the numbers within 64 bits
            row = snapshot.connection.execute(
                _RESERVE, {"id": self.ledger_id, **charged._asdict()}
            ).one_or_none()
        if self._take_up(snapshot) and trusted:
            raise LedgerUnavailable(
                "The ledger's witnesses changed while it was being recovered. Nothing was spent. "
                "Recover again."
            )
        found = snapshot.find(kind, key)
        if found is not None:
            raise AlreadyThere(found)
        if row is None:
            newest = snapshot.head()
            self._pinned(
                snapshot.protects(newest), protects, kind
            )  # said first: asking for less would not help
            raise self._exceeded(newest, charged)
        seq, spent = (
            int(row.seq),
            Quanta(int(row.spent_epsilon), int(row.spent_delta), int(row.spent_rho)),
        )
        crashpoints.reach(f"{kind}.locked")
        # Other processes move the mark only to committed entries, and those are all visible now
        # that the row is ours.
        marks = [] if trusted else self._required_marks()
        head = snapshot.record_at(seq - 1)
        if (
            # the update compared with the cap in the row, which is the ledger's own only while
            # nobody touched it
            (row.cap_epsilon, row.cap_delta, row.cap_rho) != tuple(self._cap)
            or head is None
            or head.spent != spent.minus(charged)
            or (trusted and head != trusted)
        ):
            raise altered()
        for anchor, mark in marks:
            snapshot.check_anchor(head, mark, anchor.shown)
        pinned = self._pinned(snapshot.protects(head), protects, kind)
        record = Record(
            ledger_id=self.ledger_id,
            seq=seq,
            kind=kind,
            key=key,
            created=chain.now(),
            previous=chain.digest(head.text()),
            charged=charged,
            spent=spent,
            detail={
                **detail,
                CARRIED: pinned.to_json() if pinned else None,
                BY: self.actor.to_json(),
            },
        )
        insert_record(snapshot.connection, record)
        crashpoints.reach(f"{kind}.inserted")
        return record

    def require_unit(self, snapshot: Snapshot, protects: Protects | None) -> None:
        """Refuse what speaks of another unit or relation than the ledger does."""
        self._pinned(snapshot.protects(snapshot.head()), protects, "debit")

    def _pinned(
        self, pinned: Protects | None, said: Protects | None, kind: EntryKind
    ) -> Protects | None:
        """Whom the ledger speaks of from this entry on. Amounts for another unit or relation cannot
        be added to it."""
        if pinned is None or said is None or pinned == said:
            return pinned or said
        if kind == "write-off":
            raise BudgetError(
                f"This copy of ledger '{self.name}' pays for {pinned.describe()}, and what is "
                f"lost was paid for "
                f"{said.describe()}. The two cannot be added up. Put the newest copy back. If it "
                f"is lost, start a new ledger "
                "for each and count the old budget as spent."
            )
        raise BudgetError(
            f"Ledger '{self.name}' pays for {pinned.describe()}; this release protects "
            f"{said.describe()}. What is spent on "
            "different units or relations cannot be added up. Nothing was spent. Give the release "
            "a ledger of its own, or a "
            "schema with the ledger's unit and relation."
        )

    def _exceeded(self, head: Record, charged: Quanta) -> BudgetExceeded:
        left = self._cap.minus(head.spent)
        rounding = (
            " The shortage is only the rounding of fractions to the ledger's smallest unit: ask "
            "for what is left."
            if max(charged.beyond(left)) <= 1000
            else ""
        )
        return BudgetExceeded(
            f"The release would cost {amounts_of(charged)}, but ledger '{self.name}' has "
            f"{amounts_of(left, self._cap)} left of "
            f"{amounts_of(self._cap)}. Nothing was spent. Ask for less, or publish from another "
            f"budget.{rounding}"
        )

    @property
    def _anchors(self) -> tuple[Anchor, ...]:
        return (self._anchor, *self._witnesses.values())

    def _take_up(self, snapshot: Snapshot) -> bool:
        """Hear the witnesses that the ledger names by now, whoever added or removed some. Whether
        there was a change."""
        newest = snapshot.newest_note()
        if (
            newest <= self._noted
        ):  # also keeps an older snapshot of another thread from taking one back
            return False
        named = [
            place
            for place in in_force(note.detail for note in snapshot.notes())
            if place not in self._left_out
        ]
        before = self._witnesses
        patience = self._database.patience
        self._witnesses = {
            place: before.get(place) or witness_at(place, self.ledger_id, patience)
            for place in named
        }
        self._noted = newest
        return named != list(before)

    def _required_marks(self) -> list[tuple[Anchor, Mark]]:
        marks = []
        for anchor, mark in self.heard():
            if mark is None:
                raise disappeared(anchor.shown)
            marks.append((anchor, mark))
        return marks

    def vouch(self, record: Record) -> None:
        """Nothing about an entry leaves this process before the anchor covers it."""
        self._cover(self._anchors, record, first=False)

    def _cover(self, anchors: Collection[Anchor], record: Record, *, first: bool) -> None:
        def hash_at(seq: int) -> str | None:
            before = seq == record.seq - 1
            return record.previous if before else self._look(lambda one: one.hash_at(seq))

        def trail_after(seq: int) -> list[Mark]:
            before = Mark(
                seq=record.seq - 1, hash=record.previous, spent=record.spent.minus(record.charged)
            )
            if seq >= before.seq - 1:  # as a rule the anchor follows step by step
                return [before] if seq < before.seq else []
            return self._look(lambda snapshot: snapshot.trail(record, seq))

        protects = Protects.from_json(record.detail.get(CARRIED))
        for anchor in anchors:
            anchor.advance(
                mark_of(record), hash_at, trail_after=trail_after, protects=protects, first=first
            )


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


def mark_of(record: Record) -> Mark:
    return Mark(seq=record.seq, hash=chain.digest(record.text()), spent=record.spent)


def amounts_of(amount: Quanta, shape: Quanta | None = None) -> str:
    """Exact text of the components that `shape` (or the amount itself) has."""
    cost, wanted = amount.cost(), shape or amount
    named = (
        ("epsilon", cost.epsilon, wanted.epsilon),
        ("rho", cost.rho, wanted.rho),
        ("delta", cost.delta, wanted.delta),
    )
    return (
        ", ".join(f"{name} = {show(value)}" for name, value, present in named if present)
        or "nothing"
    )
