"""A high-water mark outside the ledger, so that an old copy put back is noticed.

The order is: commit in the ledger, then advance the mark, then return the receipt.

* A crash between commit and mark leaves the ledger ahead of its mark. That is an extension of the
  mark, so an honest ledger is never locked out.
* No receipt is returned before the mark covers its entry. A copy that lacks an entry covered by the
  mark is refused; a copy that lacks only entries beyond the mark lacks only debits for which
  nothing was ever shown.

The mark of this machine lives in its state folder, one file per ledger id; further ones, the
witnesses, where the curator wants them (`dpublish.ledger.witness`).

Beside the mark stands its trail: earlier entries of the same chain. Recovery finds in it where a
copy parted from what this machine has seen, and so how much the copy does not know of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from dpublish.errors import LedgerUnavailable
from dpublish.ledger.base import Protects
from dpublish.ledger.chain import Quanta
from dpublish.ledger.state import PATIENCE, JsonFile, Value, state_directory

RECENT: Final = 100
"""So many of the newest entries are all in the trail; further back, about so many for every
doubling of the distance."""


class Keeper(Protocol):
    """Where one mark is kept: a file, or a row of a database."""

    shown: str

    def read(self) -> Value | None: ...

    def update(self, change: Callable[[Value | None], Value | None]) -> None: ...

    def unreadable(self) -> LedgerUnavailable: ...


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The last entry this machine vouches for, and the total spent at that point."""

    seq: int
    hash: str
    spent: Quanta


@dataclass(frozen=True, kw_only=True)
class Seen:
    """All that the anchor remembers: the mark, some of the entries before it (oldest first), and
    whom the ledger protects."""

    mark: Mark
    trail: tuple[Mark, ...] = ()
    protects: Protects | None = None

    def covers(self, mark: Mark) -> bool:
        """Whether the mark is known to be this one or one before it on the same chain."""
        return any(
            (known.seq, known.hash) == (mark.seq, mark.hash) for known in (self.mark, *self.trail)
        )


class Anchor:
    """The mark of one ledger, in the state folder of this machine unless a keeper is given."""

    def __init__(
        self,
        ledger_id: str,
        *,
        directory: Path | None = None,
        patience: float = PATIENCE,
        keeper: Keeper | None = None,
    ) -> None:
        self.ledger_id = ledger_id
        self.path = (directory or state_directory()) / "anchors" / f"{ledger_id}.json"
        self._keeper: Keeper = keeper or JsonFile(self.path, patience)
        self.shown = self._keeper.shown

    def read(self) -> Mark | None:
        """The mark, or None where this ledger has never been used."""
        seen = self.seen()
        return None if seen is None else seen.mark

    def seen(self) -> Seen | None:
        """The mark and what is kept with it. A file of format 1 has no trail and names no unit."""
        return self._parsed(self._keeper.read())

    def advance(
        self,
        mark: Mark,
        hash_at: Callable[[int], str | None],
        *,
        trail_after: Callable[[int], Iterable[Mark]] | None = None,
        protects: Protects | None = None,
        first: bool = True,
    ) -> None:
        """Move the mark forward, never back. `hash_at` gives the hash of a committed entry of the
        ledger at hand.

        The current mark must be an entry of this ledger even when it is already further on: two
        diverged copies in use at the same time would otherwise take turns. `trail_after` gives
        entries between a number and the mark; without it no trail is kept. Unless this may be the
        `first` mark, one must be there: what is gone is not made again in passing.
        """

        def further(value: Value | None) -> Value | None:
            current, pinned = self._parsed(value), protects
            if current is None and not first:
                raise disappeared(self.shown)
            if current is not None:
                if current.mark == mark:
                    return None
                if hash_at(current.mark.seq) != current.mark.hash:
                    raise rolled_back(self.shown, mark.seq, current.mark.seq)
                if current.mark.seq >= mark.seq:
                    return None
                pinned = protects or current.protects
            trail: Sequence[Mark] = ()
            if trail_after is not None and current is not None and current.trail:
                trail = [*current.trail, current.mark, *trail_after(current.mark.seq)]
            elif trail_after is not None:  # a first use, or an anchor of format 1
                trail = list(trail_after(-1))
            return self._text(Seen(mark=mark, trail=thinned(trail, mark.seq), protects=pinned))

        self._keeper.update(further)

    def replace(self, seen: Seen, *, instead_of: Mark | None) -> None:
        """Set the mark. Only recovery does this, after writing off what the old mark `instead_of`
        had seen."""

        def other(value: Value | None) -> Value | None:
            current = self._parsed(value)
            if current is not None and current.mark == seen.mark:
                return None
            if (None if current is None else current.mark) != instead_of:
                raise LedgerUnavailable(
                    f"The anchor {self.shown} moved while the ledger was being recovered: another "
                    f"copy of it is in use. Stop "
                    "whatever uses that copy. If it is the newest, go on with it; otherwise "
                    "recover again."
                )
            return self._text(seen)

        self._keeper.update(other)

    def _parsed(self, value: Value | None) -> Seen | None:
        if value is None:
            return None
        try:
            if value["ledger"] != self.ledger_id:
                raise ValueError
            return Seen(
                mark=_read_mark(value["seq"], value["hash"], value["spent"]),
                trail=tuple(_read_mark(*item) for item in value.get("trail", ())),
                protects=Protects.from_json(value.get("protects")),
            )
        except (KeyError, TypeError, ValueError):
            raise self._keeper.unreadable() from None

    def _text(self, seen: Seen) -> Value:
        mark = seen.mark
        return {
            "format": 2,
            "ledger": self.ledger_id,
            "seq": mark.seq,
            "hash": mark.hash,
            "spent": list(mark.spent),
            "trail": [[earlier.seq, earlier.hash, list(earlier.spent)] for earlier in seen.trail],
            "protects": seen.protects.to_json() if seen.protects else None,
        }


def thinned(trail: Iterable[Mark], newest: int) -> tuple[Mark, ...]:
    """The part of a trail worth keeping: about one entry in d / RECENT at the distance d from the
    newest.

    What is kept at a distance is kept at all smaller ones, so thinning again and again loses
    nothing more. Where an entry is missing, recovery counts from an earlier one: it then writes off
    a little too much, about a hundredth, and never too little.
    """
    return tuple(
        mark
        for mark in trail
        if mark.seq % (1 << max((newest - mark.seq) // RECENT, 1).bit_length() - 1) == 0
    )


def _read_mark(seq: Any, hash: Any, spent: Any) -> Mark:
    if not isinstance(seq, int) or not isinstance(hash, str):
        raise ValueError
    return Mark(seq=seq, hash=hash, spent=Quanta(*spent))


def disappeared(where: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"The anchor {where} disappeared while the ledger was open. Nothing was answered. Put it "
        "back, or open the ledger again, which says what else can be done; then ask again with the "
        "same key."
    )


def rolled_back(where: str, head: int, marked: int) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"The ledger does not continue what was seen of it: entry {marked} is anchored in "
        f"{where}, and the ledger at "
        f"hand (entry {head}) does not contain it. An older copy was probably put back. Put the "
        f"newest copy back. If it is "
        "lost, dpublish.ledger.recover_ledger(url, name=...) writes off what the anchor shows as "
        "spent and goes on."
    )
