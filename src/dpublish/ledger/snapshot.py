"""What can be read of one ledger inside one transaction, with every claim checked against the hash
chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from sqlalchemy import Connection, Select, bindparam, false, func, or_, select

from dpublish.errors import LedgerUnavailable, PublishError
from dpublish.ledger import chain
from dpublish.ledger.anchor import Mark, rolled_back
from dpublish.ledger.base import (
    BY,
    CARRIED,
    Entry,
    EntryKind,
    OtherBudget,
    Protects,
    Status,
    words_of,
)
from dpublish.ledger.chain import Quanta, Record
from dpublish.ledger.populations import POPULATION, SECOND, Population, own, recorded
from dpublish.ledger.tables import entries, ledgers
from dpublish.ledger.witness import in_force
from dpublish.privacy.cost import Budget, Cost

# Built once: composing a statement costs more than running it on SQLite.
_BY_KEY = select(entries.c.record, entries.c.hash).where(
    entries.c.ledger_id == bindparam("id"),
    entries.c.kind == bindparam("kind"),
    entries.c.key == bindparam("key"),
)
_BY_SEQ = select(entries.c.record, entries.c.hash).where(
    entries.c.ledger_id == bindparam("id"), entries.c.seq == bindparam("seq")
)
_NEWEST_NOTE = select(func.max(entries.c.seq)).where(
    entries.c.ledger_id == bindparam("id"), entries.c.kind == "note"
)

MERGED: Final = "merged"
"""The key of the write-off that uses up a ledger which was merged into another."""
GONE: Final = select(entries.c.ledger_id).where(
    entries.c.kind == "write-off", entries.c.key == MERGED
)
"""The ledgers that were merged into another."""

_LONGEST_TRAIL = 1000  # entries read at once for an anchor that has not followed the ledger


class Snapshot:
    """One ledger as one transaction sees it."""

    def __init__(
        self, connection: Connection, ledger_id: str, *, name: str, budget: Budget
    ) -> None:
        self.connection = connection
        self.ledger_id = ledger_id
        self._name = name
        self._budget = budget
        self._cap = Quanta.of_cap(budget)

    def find(self, kind: EntryKind, key: str) -> Record | None:
        return self._one(_BY_KEY, kind=kind, key=key)

    def record_at(self, seq: int) -> Record | None:
        return self._one(_BY_SEQ, seq=seq)

    def _one(self, query: Select[tuple[str, str]], **asked: object) -> Record | None:
        """The entry of this ledger that the columns name, if its text says the same of it."""
        row = self.connection.execute(query, {"id": self.ledger_id, **asked}).one_or_none()
        if row is None:
            return None
        record = Record.read(row.record, row.hash)
        if record.ledger_id != self.ledger_id or asked != {n: getattr(record, n) for n in asked}:
            raise altered()
        return record

    def hash_at(self, seq: int) -> str | None:
        record = self.record_at(seq)
        return None if record is None else chain.digest(record.text())

    def head(self) -> Record:
        """The newest entry, after checking that the balance in the head row is the one it
        records."""
        row = self.connection.execute(
            select(ledgers).where(ledgers.c.ledger_id == self.ledger_id)
        ).one_or_none()
        if row is None:
            raise altered()
        spent = _stored(row.spent_epsilon, row.spent_delta, row.spent_rho)
        cap = _stored(row.cap_epsilon, row.cap_delta, row.cap_rho)
        record = self.record_at(row.seq)
        newest = self.connection.execute(
            select(func.max(entries.c.seq)).where(entries.c.ledger_id == self.ledger_id)
        ).scalar_one_or_none()
        if (
            record is None
            or newest != record.seq
            or record.spent != spent
            or cap != self._cap
            or not spent.within(cap)
        ):
            raise altered()
        return record

    def protects(self, head: Record) -> Protects | None:
        """Whom the ledger speaks of. Entries of format 1 do not carry it: then the first one that
        says it decides."""
        if CARRIED in head.detail or head.seq == 0:
            return Protects.from_json(head.detail.get(CARRIED))
        rows = self.connection.execute(
            select(entries.c.record, entries.c.hash)
            .where(entries.c.ledger_id == self.ledger_id)
            .order_by(entries.c.seq)
        )
        for row in rows.yield_per(1000):
            record = Record.read(row.record, row.hash)
            said = words_of(record.detail["what"]) if record.kind == "debit" else None
            if found := Protects.from_json(record.detail.get(CARRIED)) or said:
                return found
        return None

    def trail(self, record: Record, after: int) -> list[Mark]:
        """Marks of entries above `after` that lead up to the record, oldest first. As many as hang
        together."""
        rows = self.connection.execute(
            select(entries.c.record, entries.c.hash)
            .where(
                entries.c.ledger_id == self.ledger_id,
                entries.c.seq > max(after, record.seq - 1 - _LONGEST_TRAIL),
                entries.c.seq < record.seq,
            )
            .order_by(entries.c.seq.desc())
        )
        marks: list[Mark] = []
        previous = record.previous
        for row in rows:
            if row.hash != previous:
                break
            earlier = Record.read(row.record, row.hash)
            marks.append(Mark(seq=earlier.seq, hash=row.hash, spent=earlier.spent))
            previous = earlier.previous
        return marks[::-1]

    def parting(self, trail: Sequence[Mark]) -> Mark | None:
        """The newest entry of the trail that this ledger has too."""
        return next((mark for mark in reversed(trail) if self.hash_at(mark.seq) == mark.hash), None)

    def notes(self) -> list[Record]:
        """What was noted beside the payments, oldest first."""
        return notes_of(self.connection, self.ledger_id)

    def populations(self) -> list[Record]:
        """For whom this ledger pays, in entries of its own chain, oldest first."""
        return _records_of(self.connection, self.ledger_id, POPULATION)

    def may_be_second(self) -> bool:
        """Whether somebody said that this ledger may pay for people that another one pays for."""
        return any(SECOND in note.detail for note in self.notes())

    def other_budgets(self) -> list[OtherBudget]:
        """The other ledgers that this one names, for the people that both pay for."""
        return recorded([*self.populations(), *self.notes()])

    def paid_for(self) -> list[Population]:
        """Everybody this ledger has paid for. One of an earlier format has not registered them."""
        records = self.populations() or _records_of(self.connection, self.ledger_id, "debit")
        found = (Population.of_record(record) for record in records)
        return list({people.key: people for people in found if people is not None}.values())

    def payers(self, people: Population, *, unregistered: bool) -> list[OtherBudget]:
        """The other ledgers of this database that pay for the same people; on request also those
        that have registered nobody, which have to be read from end to end."""
        kinds = entries.c.kind == POPULATION
        registered = select(entries.c.ledger_id).where(kinds, entries.c.key == people.key)
        some = select(entries.c.ledger_id).where(kinds)
        candidate = or_(
            ledgers.c.ledger_id.in_(registered),
            ledgers.c.ledger_id.not_in(some) if unregistered else false(),
        )
        rows = self.connection.execute(
            select(ledgers.c.ledger_id, ledgers.c.name).where(
                candidate, ledgers.c.ledger_id != self.ledger_id, ledgers.c.ledger_id.not_in(GONE)
            )
        ).all()
        budgets = [(row, budget_of(self.connection, row.ledger_id)) for row in rows]
        return [
            own(row.ledger_id, row.name, budget, theirs)
            for row, budget in budgets
            if budget is not None  # else it says so itself when it is opened
            for theirs in Snapshot(
                self.connection, row.ledger_id, name=row.name, budget=budget
            ).paid_for()
            if theirs.key == people.key
        ]

    def same_requests(self, asked: Mapping[str, Any]) -> list[Record]:
        """Debits for this very request and cost, newest first. Records are canonical text, so equal
        parts are equal texts."""
        find = func.strpos if self.connection.dialect.name == "postgresql" else func.instr
        parts = [
            find(entries.c.record, f'"{name}":{chain.canonical(asked[name])}') > 0
            for name in ("cost", "what")
        ]
        rows = self.connection.execute(
            select(entries.c.record, entries.c.hash)
            .where(entries.c.ledger_id == self.ledger_id, entries.c.kind == "debit", *parts)
            .order_by(entries.c.seq.desc())
        )
        return [
            record
            for record in (Record.read(row.record, row.hash) for row in rows)
            if all(record.detail[name] == asked[name] for name in ("cost", "what"))
        ]

    def one_at_a_time(self, key: str) -> None:
        """Alone in this database with what the hexadecimal `key` stands for, until the transaction
        ends. SQLite has one writer in any case."""
        if self.connection.dialect.name == "postgresql":
            self.connection.execute(select(func.pg_advisory_xact_lock(int(key[:15], 16))))

    def newest_note(self) -> int:
        """The number of the newest note, or -1."""
        found = self.connection.execute(_NEWEST_NOTE, {"id": self.ledger_id}).scalar_one_or_none()
        return -1 if found is None else int(found)

    def check_anchor(self, head: Record, mark: Mark, where: str) -> None:
        anchored = chain.digest(head.text()) if mark.seq == head.seq else self.hash_at(mark.seq)
        if anchored != mark.hash:
            raise rolled_back(where, head.seq, mark.seq)
        if not mark.spent.within(
            head.spent
        ):  # entries beyond the mark may be forged, but nothing is ever given back
            raise altered()

    def history(self) -> list[Entry]:
        rows = self.connection.execute(
            select(entries.c.record, entries.c.hash)
            .where(entries.c.ledger_id == self.ledger_id)
            .order_by(entries.c.seq)
        )
        return [_entry(Record.read(row.record, row.hash), row.hash) for row in rows]

    def walk(self) -> Record:
        """Recompute the chain and the sums from the first entry to the head, and compare every
        stored column. The head."""
        head = self.head()
        rows = self.connection.execute(
            select(entries).where(entries.c.ledger_id == self.ledger_id).order_by(entries.c.seq)
        )
        previous, spent, last = chain.START, Quanta(), -1
        pinned = None
        for row in rows:
            record = Record.read(row.record, row.hash)
            spent = spent.plus(record.charged)
            stored = _stored(row.charged_epsilon, row.charged_delta, row.charged_rho)
            sound = (
                record.seq == last + 1 == row.seq
                and record.ledger_id == self.ledger_id
                and record.previous == previous
                and record.charged == stored
                and min(record.charged) >= 0
                and record.spent == spent
                and (record.kind, record.key) == (row.kind, row.key)
            )
            if CARRIED in record.detail:
                sound = sound and pinned in (None, record.detail[CARRIED])
                pinned = record.detail[CARRIED]
            if record.seq == 0:
                first = {"name": self._name, "budget": self._budget.to_json()}
                said = {name: value for name, value in record.detail.items() if name != BY}
                sound = sound and record.kind == "open" and said == first
            if not sound:
                raise altered()
            previous, last = row.hash, record.seq
        if last != head.seq or previous != chain.digest(head.text()):
            raise altered()
        return head

    def status(self, head: Record) -> Status:
        rows = self.connection.execute(
            select(entries.c.kind, func.count())
            .where(entries.c.ledger_id == self.ledger_id)
            .group_by(entries.c.kind)
        )
        counts = {str(kind): int(number) for kind, number in rows}
        first = self.record_at(0)
        if first is None:
            raise altered()
        return Status(
            ledger_id=self.ledger_id,
            name=self._name,
            budget=self._budget,
            cap=self._cap.cost(),
            spent=head.spent.cost(),
            remaining=self._cap.minus(head.spent).cost(),
            entries=head.seq + 1,
            debits=counts.get("debit", 0),
            sealed=counts.get("seal", 0),
            head_seq=head.seq,
            head_hash=chain.digest(head.text()),
            created=first.created,
            protects=self.protects(head),
            overspent=self._overspent() if counts.get("write-off") else Cost(),
            witnesses=tuple(in_force(note.detail for note in self.notes()))
            if counts.get("note")
            else (),
            populations=tuple(
                people.describe()
                for people in map(Population.of_record, self.populations())
                if people
            ),
            other_budgets=tuple(self.other_budgets()),
        )

    def _overspent(self) -> Cost:
        total = Quanta()
        for record in _records_of(self.connection, self.ledger_id, "write-off"):
            total = total.plus(Quanta(*record.detail.get("overspent", ())))
        return total.cost()


def notes_of(connection: Connection, ledger_id: str) -> list[Record]:
    return _records_of(connection, ledger_id, "note")


def _records_of(connection: Connection, ledger_id: str, kind: str) -> list[Record]:
    rows = connection.execute(
        select(entries.c.record, entries.c.hash)
        .where(entries.c.ledger_id == ledger_id, entries.c.kind == kind)
        .order_by(entries.c.seq)
    )
    return [Record.read(row.record, row.hash) for row in rows]


def budget_of(connection: Connection, ledger_id: str) -> Budget | None:
    """The budget in a ledger's first entry; None where that entry is lost."""
    first = connection.execute(_BY_SEQ, {"id": ledger_id, "seq": 0}).one_or_none()
    if first is None:
        return None
    try:
        return Budget.from_json(Record.read(first.record, first.hash).detail["budget"])
    except LedgerUnavailable:
        raise
    except (PublishError, KeyError, TypeError, ValueError, ArithmeticError):
        raise altered() from None


def _stored(epsilon: object, delta: object, rho: object) -> Quanta:
    """Amounts in columns of whole numbers. SQLite keeps whatever was put there."""
    if not all(isinstance(amount, int) for amount in (epsilon, delta, rho)):
        raise altered()
    return Quanta(cast(int, epsilon), cast(int, delta), cast(int, rho))


def altered() -> LedgerUnavailable:
    return LedgerUnavailable(
        "The ledger's entries, sums and hashes do not agree: it was altered or damaged. Nothing "
        "was spent. "
        "Put an unaltered copy back, or start a new ledger and count the old budget as spent."
    )


def _entry(record: Record, hash: str) -> Entry:
    return Entry(
        seq=record.seq,
        kind=cast(EntryKind, record.kind),
        key=record.key,
        created=record.created,
        charged=record.charged.cost(),
        detail=record.detail,
        previous=record.previous,
        hash=hash,
    )
