"""The ledger on SQLAlchemy Core: one code path for SQLite and PostgreSQL.

A debit is one conditional UPDATE that reserves the amount and locks the head row, then one INSERT
of the chained entry, then COMMIT, then the anchor. Everything that decides is read after the lock
is held. A lost connection, even during COMMIT, is resolved by the key on a new connection: the
conditional UPDATE waits for whatever transaction still holds the row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, bindparam, insert, update

from dpublish.errors import BudgetError, BudgetExceeded, LedgerUnavailable, PlanError
from dpublish.ledger import chain, crashpoints
from dpublish.ledger.anchor import Anchor, Mark, Seen, disappeared, rolled_back, thinned
from dpublish.ledger.base import (
    BY,
    CARRIED,
    COLUMN,
    Actor,
    Entry,
    EntryKind,
    Ledger,
    OtherBudget,
    Protects,
    Receipt,
    Sealed,
    Status,
    words_of,
)
from dpublish.ledger.chain import Quanta, Record
from dpublish.ledger.database import Database
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
from dpublish.ledger.snapshot import Snapshot, altered
from dpublish.ledger.tables import entries, ledgers
from dpublish.ledger.witness import REMOVED, WITNESS, in_force, place_of, read_head, witness_at
from dpublish.privacy.cost import Budget, Cost, show

_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_KEY = 200
_LONGEST_WHAT = 100_000
DRAWING: Final = "drawing"
"""The kind of the entry that says that noise is about to be drawn for a key, or never will be."""
ROWS_KEY: Final = "rows_key"
MAX_RUNS: Final = 3
"""So many runs of a key may begin. Each may die in a way that tells of the rows."""

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


class _AlreadyThere(Exception):
    """Unwinds, and so undoes, a write transaction that found its key taken."""

    def __init__(self, record: Record) -> None:
        self.record = record


class SqlLedger(Ledger):
    """One named budget in a database. Made by `open_ledger`."""

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
                except _AlreadyThere as taken:
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

        def once() -> None:
            with self._reading() as snapshot:
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

        self._database.attempt(once)

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
            except _AlreadyThere:  # a rival took this number
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

        def once() -> Record:
            try:
                with self._writing() as snapshot:
                    if snapshot.find("debit", key) is None:
                        raise BudgetError(f"The key '{key}' was never paid for.")
                    return self.append(
                        snapshot, DRAWING, key, Quanta(), {**detail, "attempt": token}
                    )
            except _AlreadyThere as taken:
                return taken.record

        record = self._database.attempt(once)
        crashpoints.reach("drawing.committed")
        self.vouch(record)
        return bool(record.detail["attempt"] == token)

    def allow_second_budget(self) -> None:
        def once() -> bool:
            with self._reading() as snapshot:
                return snapshot.may_be_second()

        if not self._database.attempt(once):
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

        def once() -> Record:
            try:
                with self._writing() as snapshot:
                    if snapshot.find("debit", key) is None:
                        raise BudgetError(
                            f"The key '{key}' was never paid for, so it cannot have an answer."
                        )
                    return self.append(snapshot, "seal", key, Quanta(), detail)
            except _AlreadyThere as taken:
                return taken.record

        record = self._database.attempt(once)
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

        def once() -> Record | None:
            with self._reading() as snapshot:
                self._take_up(snapshot)
                return snapshot.find("seal", key)

        record = self._database.attempt(once)
        if record is None:
            return None
        self.vouch(record)
        detail = record.detail
        return Sealed(
            key=key,
            sha256=detail["sha256"],
            size=detail["size"],
            location=detail["location"],
            created=record.created,
            manifest=detail.get("manifest"),
        )

    def status(self) -> Status:
        return self._database.attempt(lambda: self._looked(deep=False))

    def history(self) -> list[Entry]:
        def once() -> list[Entry]:
            with self._reading() as snapshot:
                return snapshot.history()

        return self._database.attempt(once)

    def verify(self, *, head: str | None = None) -> Status:
        if head is not None:
            self.require(head)
        return self._database.attempt(lambda: self._looked(deep=True))

    def add_witness(self, place: str | Path) -> str:
        """Keep a further anchor at a folder or in a database from now on; the place as it was
        recorded."""
        self.status()  # what this handle vouches with must stand
        place, anchor, head = self.compare(place)
        if place not in self._witnesses:
            # first: a place that cannot be written must not be one that every debit waits for
            self._cover([anchor], head, first=True)
            record = self._note({WITNESS: place})
            self._witnesses = {**self._witnesses, place: anchor}
            self.vouch(record)
        return place

    def drop_witness(self, place: str) -> None:
        """Go on without a witness. The caller has heard it, or has left it out because it is
        lost."""
        self.leave_out([place])
        self.vouch(self._note({REMOVED: place}))

    def close(self) -> None:
        self._database.close()

    @property
    def location(self) -> str:
        """Where it is, without a password; for the curator's eyes."""
        return self._database.target.shown

    # -- used by opening and recovery
    # ------------------------------------------------------------------------------------

    def require(self, head: str) -> None:
        """Refuse a ledger that lacks the entry of a head line."""
        ledger_id, seq, hash = read_head(head)
        if ledger_id != self.ledger_id:
            raise LedgerUnavailable(
                f"The head line speaks of ledger {ledger_id}; this is {self.ledger_id}. Nothing "
                f"was changed."
            )

        def once() -> tuple[int, str | None]:
            with self._reading() as snapshot:
                return snapshot.head().seq, snapshot.hash_at(seq)

        newest, found = self._database.attempt(once)
        if found != hash:
            raise rolled_back("the head line given", newest, seq)

    def compare(self, place: str | Path) -> tuple[str, Anchor, Record]:
        """Refuse a ledger that lacks what a witness has seen, also one that it does not name. The
        witness, and the head."""
        place = place_of(place, self._database.target.shown)
        anchor = witness_at(place, self.ledger_id, self._database.patience)

        def once() -> Record:
            known = anchor.read()  # before the snapshot, which can only be further on
            with self._reading() as snapshot:
                head = snapshot.head()
                if known is not None:
                    snapshot.check_anchor(head, known, anchor.shown)
                return head

        return place, anchor, self._database.attempt(once)

    def heard(self) -> list[tuple[Anchor, Mark | None]]:
        """What every anchor has seen: this machine's first, then the witnesses."""
        return [(anchor, anchor.read()) for anchor in self._anchors]

    def missing_witnesses(self) -> list[str]:
        """The places of witnesses that have no mark. They had one when they were named."""
        return [place for place, anchor in self._witnesses.items() if anchor.read() is None]

    @property
    def witnesses(self) -> tuple[str, ...]:
        """The places of the witnesses that are heard."""
        return tuple(self._witnesses)

    def lost_witnesses(self) -> list[str]:
        """The places of those that are missing or cannot be read."""

        def lost(anchor: Anchor) -> bool:
            try:
                return anchor.read() is None
            except LedgerUnavailable:
                return True

        return [place for place, anchor in self._witnesses.items() if lost(anchor)]

    def leave_out(self, places: Collection[str]) -> None:
        """Do not ask these witnesses any more. Only for the removal of one."""
        self._left_out |= set(places)
        self._witnesses = {
            place: anchor for place, anchor in self._witnesses.items() if place not in places
        }

    def adopt(self) -> None:
        """First use on this machine: verify everything, then trust the head from now on."""

        def once() -> Record:
            with self._reading() as snapshot:
                head = snapshot.head()
                snapshot.walk(head)
                return head

        head = self._database.attempt(once)
        self._cover([self._anchor], head, first=True)
        self.vouch(head)

    def write_off(self) -> None:
        """Charge what the anchor has seen beyond this copy, then anchor this copy. See
        `recover_ledger`.

        The copy may have gone its own way, so the balances alone tell nothing: what the anchor has
        seen is counted from the newest entry known to be in both, and from nothing when none is. An
        entry known is at most the entry where they parted, and so the charge is right or too much.
        """
        self._database.attempt(self._intact)  # with the witnesses it names
        held = [(anchor, anchor.seen()) for anchor in self._anchors]
        memories = [seen for _, seen in held if seen is not None]
        # what one anchor has seen and another too is lost once; what neither shares with the other
        # may have been spent twice
        apart = [
            seen
            for place, seen in enumerate(memories)
            if not any(
                other.covers(seen.mark) and (place > number or not seen.covers(other.mark))
                for number, other in enumerate(memories)
                if number != place
            )
        ]
        record = self._database.attempt(self._intact)
        for seen in apart:
            record = self._write_off(seen)
        following = self._database.attempt(lambda: self._anchored(record))
        for anchor, old in held:
            if old is not None or anchor is self._anchor:  # a witness that is gone is not made anew
                anchor.replace(following, instead_of=old.mark if old else None)

    def _intact(self) -> Record:
        with self._reading() as snapshot:
            self._take_up(snapshot)
            head = snapshot.head()
            snapshot.walk(head)
            return head

    def _anchored(self, record: Record) -> Seen:
        with self._reading() as snapshot:
            protects = snapshot.protects(record)
            trail = snapshot.trail(record, -1)
        return Seen(mark=_mark(record), trail=thinned(trail, record.seq), protects=protects)

    def _write_off(self, seen: Seen) -> Record:
        def once() -> Record:
            with self._reading() as snapshot:
                head = snapshot.head()
                if snapshot.hash_at(seen.mark.seq) == seen.mark.hash:
                    return head
                common = snapshot.parting(seen.trail)
            mark = seen.mark
            lost = mark.spent.minus(common.spent) if common else mark.spent
            # Copies in use at the same time may together have spent more than there was. Then
            # nothing is left, and it is said.
            over = lost.beyond(self._cap.minus(head.spent))
            detail: dict[str, Any] = {
                "reason": "recovered from another copy",
                "lost_seq": mark.seq,
                "lost_hash": mark.hash,
                "common_seq": common.seq if common else None,
            }
            if any(over):
                detail["overspent"] = list(over)
            try:
                with self._writing() as snapshot:
                    return self.append(
                        snapshot,
                        "write-off",
                        mark.hash,
                        lost.minus(over),
                        detail,
                        trusted=head,
                        protects=seen.protects,
                    )
            except _AlreadyThere:
                return (
                    self._intact()
                )  # an earlier recovery was cut short before it could move the anchor

        return self._database.attempt(once)

    def _looked(self, *, deep: bool) -> Status:
        with self._reading() as snapshot:
            self._take_up(snapshot)
        # The mark is read before the snapshot: a ledger that grows meanwhile can only be further
        # on.
        heard = self.heard()
        with self._reading() as snapshot:
            head = snapshot.head()
            if deep:
                snapshot.walk(head)
            for anchor, mark in heard:
                if mark is not None:
                    snapshot.check_anchor(head, mark, anchor.shown)
            return snapshot.status(head)

    @contextmanager
    def _reading(self) -> Iterator[Snapshot]:
        with self._database.reading() as connection:
            yield Snapshot(connection, self.ledger_id, name=self.name, budget=self.budget)

    @contextmanager
    def _writing(self) -> Iterator[Snapshot]:
        with self._database.writing() as connection:
            yield Snapshot(connection, self.ledger_id, name=self.name, budget=self.budget)

    def _note(self, detail: Mapping[str, Any]) -> Record:
        """Chain a fact beside the payments. Each is noted once, whatever happens to the
        connection."""
        key = chain.token()

        def once() -> Record:
            try:
                with self._writing() as snapshot:
                    return self.append(snapshot, "note", key, Quanta(), detail)
            except _AlreadyThere as taken:
                return taken.record

        return self._database.attempt(once)

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

    # -- inside a transaction
    # ------------------------------------------------------------------------------------------

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
            amounts = {"epsilon": charged.epsilon, "delta": charged.delta, "rho": charged.rho}
            row = snapshot.connection.execute(
                _RESERVE, {"id": self.ledger_id, **amounts}
            ).one_or_none()
        if self._take_up(snapshot) and trusted:
            raise LedgerUnavailable(
                "The ledger's witnesses changed while it was being recovered. Nothing was spent. "
                "Recover again."
            )
        found = snapshot.find(kind, key)
        if found is not None:
            raise _AlreadyThere(found)
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
        # the update compared with the cap in the row, which is the ledger's own only while nobody
        # touched it
        if (row.cap_epsilon, row.cap_delta, row.cap_rho) != tuple(self._cap):
            raise altered()
        if head is None or head.spent != spent.minus(charged) or (trusted and head != trusted):
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
        short = charged.beyond(left)
        rounding = (
            " The shortage is only the rounding of fractions to the ledger's smallest unit: ask "
            "for what is left."
            if max(short) <= 1000
            else ""
        )
        return BudgetExceeded(
            f"The release would cost {_amounts(charged)}, but ledger '{self.name}' has "
            f"{_amounts(left, self._cap)} left of "
            f"{_amounts(self._cap)}. Nothing was spent. Ask for less, or publish from another "
            f"budget.{rounding}"
        )

    # -- the anchor
    # ------------------------------------------------------------------------------------------

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
            if seq == record.seq - 1:
                return record.previous

            def once() -> str | None:
                with self._reading() as snapshot:
                    return snapshot.hash_at(seq)

            return self._database.attempt(once)

        def trail_after(seq: int) -> list[Mark]:
            before = Mark(
                seq=record.seq - 1, hash=record.previous, spent=record.spent.minus(record.charged)
            )
            if seq >= before.seq - 1:  # as a rule the anchor follows step by step
                return [before] if seq < before.seq else []

            def once() -> list[Mark]:
                with self._reading() as snapshot:
                    return snapshot.trail(record, seq)

            return self._database.attempt(once)

        protects = Protects.from_json(record.detail.get(CARRIED))
        for anchor in anchors:
            anchor.advance(
                _mark(record), hash_at, trail_after=trail_after, protects=protects, first=first
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


def _mark(record: Record) -> Mark:
    return Mark(seq=record.seq, hash=chain.digest(record.text()), spent=record.spent)


def _amounts(amount: Quanta, shape: Quanta | None = None) -> str:
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
