"""What can be asked of a ledger: the account that every release is paid from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpublish.errors import InputError
from dpublish.ledger import merge_ledgers, open_ledger, recover_ledger, remove_witness
from dpublish.ledger.base import Actor, Entry, Status
from dpublish.ledger.state import sweep_state
from dpublish.privacy.cost import Budget
from dpublish.requests.base import NOBODY, Caller, Request
from dpublish.requests.curator import numbers_of, store_of

if TYPE_CHECKING:
    from dpublish.curator.backup import Backup


def actor_of(document: Mapping[str, Any]) -> Actor:
    """Who a ledger's entries name, from JSON: `who`, `door`, and in an office `proposed_by`,
    `approved_by` and `two_persons` ("kept" or "switched off")."""

    return Actor.from_json(document)


@dataclass(frozen=True, kw_only=True)
class OfLedger(Request):
    url: str
    name: str = "default"


@dataclass(frozen=True, kw_only=True)
class OpenedLedger:
    status: Status
    news: tuple[str, ...]

    def to_json(self) -> Mapping[str, Any]:
        return {**self.status.to_json(), "news": list(self.news)}


@dataclass(frozen=True, kw_only=True)
class OpenLedger(OfLedger, verb="ledger open"):
    """Create a ledger with a budget for life; opening it again with the same budget changes
    nothing."""

    epsilon: str | None = None
    delta: str | None = None
    rho: str | None = None
    witness: str | None = None
    second_budget: bool = False

    def run(self, caller: Caller = NOBODY) -> OpenedLedger:
        if self.epsilon is None and self.rho is None:
            raise InputError(
                "A ledger needs its budget for life: give --epsilon NUMBER (and --delta), or "
                "--rho NUMBER."
            )
        with open_ledger(
            self.url,
            budget=Budget(**numbers_of(epsilon=self.epsilon, delta=self.delta, rho=self.rho)),
            name=self.name,
            create=True,
            witness=self.witness,
            second_budget=self.second_budget,
            actor=caller.actor,
        ) as ledger:
            return OpenedLedger(status=ledger.status(), news=tuple(ledger.news))


@dataclass(frozen=True, kw_only=True)
class LedgerStatus(OfLedger, verb="ledger status"):
    """The cap, what is spent and what is left, and the unit and relation that these speak of."""

    def run(self, caller: Caller = NOBODY) -> Status:
        with open_ledger(self.url, name=self.name, actor=caller.actor) as ledger:
            return ledger.status()


@dataclass(frozen=True, kw_only=True)
class Entries:
    entries: Sequence[Entry]

    def to_json(self) -> Mapping[str, Any]:
        return {"entries": [entry.to_json() for entry in self.entries]}


@dataclass(frozen=True, kw_only=True)
class History(OfLedger, verb="ledger history"):
    """Every entry: what was paid, when, for what, and its hash."""

    def run(self, caller: Caller = NOBODY) -> Entries:
        with open_ledger(self.url, name=self.name, actor=caller.actor) as ledger:
            return Entries(entries=ledger.history())


@dataclass(frozen=True, kw_only=True)
class KeyState:
    """What a ledger knows of a key: what it paid, and whether its answer is there, can still be
    made, or is lost."""

    charged: str | None
    """In words; None where nothing was paid."""
    drawn: bool
    sealed: bool
    online: bool

    @property
    def paid(self) -> bool:
        return self.charged is not None

    def describe(self) -> str:
        if not self.paid:
            return "Nothing was paid, and nothing is lost."
        paid = f"{self.charged} is paid, and stays paid."
        if self.sealed:
            return f"{paid} Nothing is lost: the answer was made, and going on fetches it."
        if self.drawn:
            return f"{paid} Noise was drawn: unless the answer was stored already, it is lost."
        if self.online:
            return f"{paid} Nothing is lost: going on sets the session up, unpaid."
        return f"{paid} Nothing is lost: no noise was drawn, and going on costs nothing more."

    def to_json(self) -> Mapping[str, Any]:
        return {
            "paid": self.paid,
            "drawn": self.drawn,
            "sealed": self.sealed,
            "charged": self.charged,
            "words": self.describe(),
        }


@dataclass(frozen=True, kw_only=True)
class OfKey(OfLedger, verb="ledger key"):
    """What was paid under a key, and what became of it."""

    key: str

    def run(self, caller: Caller = NOBODY) -> KeyState:
        with open_ledger(self.url, name=self.name, verify=False, actor=caller.actor) as ledger:
            found = {entry.kind: entry for entry in ledger.history() if entry.key == self.key}
        debit = found.get("debit")
        return KeyState(
            charged=None if debit is None else debit.charged.describe(),
            drawn="drawing" in found,
            sealed="seal" in found,
            online=debit is not None and bool(debit.detail["what"].get("online")),
        )


@dataclass(frozen=True, kw_only=True)
class VerifiedLedger:
    status: Status
    removed: Sequence[Any]
    readable_by_others: Sequence[Any]

    def to_json(self) -> Mapping[str, Any]:
        return {
            "ok": True,
            **self.status.to_json(),
            "removed": self.removed,
            "readable_by_others": self.readable_by_others,
        }


@dataclass(frozen=True, kw_only=True)
class VerifyLedger(OfLedger, verb="ledger verify"):
    """Recompute the hash chain and the sums, and hold them against the anchor and a head line."""

    head: str | None = None

    def run(self, caller: Caller = NOBODY) -> VerifiedLedger:
        from dpublish.curator.store import sweep_store
        from dpublish.ledger.database import parse_target, readable_by_others

        with open_ledger(
            self.url, name=self.name, head=self.head, verify=False, actor=caller.actor
        ) as ledger:
            balance = ledger.verify(head=self.head)
        return VerifiedLedger(
            status=balance,
            removed=[*sweep_store(store_of(self.url)), *sweep_state()],
            readable_by_others=readable_by_others(parse_target(self.url)),
        )


@dataclass(frozen=True, kw_only=True)
class Witness(OfLedger, verb="ledger witness"):
    """Keep a second anchor at a place, or go on without it."""

    place: str
    remove: bool = False
    head: str | None = None

    def run(self, caller: Caller = NOBODY) -> Status:
        if self.remove:
            return remove_witness(
                self.url, self.place, name=self.name, head=self.head, actor=caller.actor
            )
        with open_ledger(
            self.url, name=self.name, witness=self.place, head=self.head, actor=caller.actor
        ) as ledger:
            return ledger.status()


@dataclass(frozen=True, kw_only=True)
class Merge(OfLedger, verb="ledger merge"):
    """Make one budget of several whose names differ in case and blanks only. No budget comes
    back."""

    def run(self, caller: Caller = NOBODY) -> Status:
        return merge_ledgers(self.url, name=self.name, actor=caller.actor)


@dataclass(frozen=True, kw_only=True)
class Recover(OfLedger, verb="ledger recover"):
    """Go on with another copy when the newest is lost. What is known to be spent beyond it is
    written off."""

    def run(self, caller: Caller = NOBODY) -> Status:
        return recover_ledger(self.url, name=self.name, actor=caller.actor)


@dataclass(frozen=True, kw_only=True)
class BackUp(Request, verb="ledger backup"):
    """Copy a ledger with all its budgets, the store of its answers, and a folder; check the
    copy."""

    url: str
    out: Path
    folder: Path | None = None

    def run(self, caller: Caller = NOBODY) -> Backup:
        from dpublish.curator.backup import back_up

        return back_up(self.url, self.out, store=store_of(self.url), folder=self.folder)


@dataclass(frozen=True, kw_only=True)
class RestoredLedgers:
    backup: Path
    budgets: Sequence[Status]

    def to_json(self) -> Mapping[str, Any]:
        return {"backup": self.backup, "budgets": [one.to_json() for one in self.budgets]}


@dataclass(frozen=True, kw_only=True)
class Restore(Request, verb="ledger restore"):
    """Put a backup back where nothing is. One that lacks what this machine has seen is refused
    unless `older`; then what is missing is written off."""

    backup: Path
    url: str
    folder: Path | None = None
    older: bool = False

    def run(self, caller: Caller = NOBODY) -> RestoredLedgers:
        from dpublish.curator.backup import restore

        return RestoredLedgers(
            backup=self.backup,
            budgets=restore(
                self.backup,
                self.url,
                store=store_of(self.url),
                folder=self.folder,
                older=self.older,
                actor=caller.actor,
            ),
        )
