"""Witnesses of a ledger, first use of it on a machine, and recovery from another copy."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from dpublish.errors import LedgerUnavailable
from dpublish.ledger.anchor import Anchor, Seen, rolled_back, thinned
from dpublish.ledger.base import Status
from dpublish.ledger.chain import Record
from dpublish.ledger.chained import AlreadyThere, ChainedLedger, mark_of
from dpublish.ledger.snapshot import Snapshot
from dpublish.ledger.witness import REMOVED, WITNESS, place_of, read_head, witness_at


class RecoverableLedger(ChainedLedger):
    """What is looked at and mended of a ledger beside its payments."""

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

    def require(self, head: str) -> None:
        """Refuse a ledger that lacks the entry of a head line."""
        ledger_id, seq, hash = read_head(head)
        if ledger_id != self.ledger_id:
            raise LedgerUnavailable(
                f"The head line speaks of ledger {ledger_id}; this is {self.ledger_id}. Nothing "
                f"was changed."
            )
        newest, found = self._look(lambda snapshot: (snapshot.head().seq, snapshot.hash_at(seq)))
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
        head = self._look(Snapshot.walk)
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
        following = self._look(
            lambda snapshot: Seen(
                mark=mark_of(record),
                protects=snapshot.protects(record),
                trail=thinned(snapshot.trail(record, -1), record.seq),
            )
        )
        for anchor, old in held:
            if old is not None or anchor is self._anchor:  # a witness that is gone is not made anew
                anchor.replace(following, instead_of=old.mark if old else None)

    def _intact(self) -> Record:
        with self._reading() as snapshot:
            self._take_up(snapshot)
            return snapshot.walk()

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
            except AlreadyThere:
                return (
                    self._intact()
                )  # an earlier recovery was cut short before it could move the anchor

        return self._database.attempt(once)
