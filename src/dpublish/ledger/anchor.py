"""A high-water mark outside the ledger, so that an old copy put back is noticed.

The order is: commit in the ledger, then advance the mark, then return the receipt.

* A crash between commit and mark leaves the ledger ahead of its mark. That is an extension of the mark, so an honest ledger
  is never locked out.
* No receipt is returned before the mark covers its entry. A copy that lacks an entry covered by the mark is refused; a copy
  that lacks only entries beyond the mark lacks only debits for which nothing was ever shown.

Marks live in `$DPUBLISH_STATE/anchors` (default `~/.local/state/dpublish/anchors`), one file per ledger id. A mark is replaced
by rename under a file lock, with the file and its directory flushed to disk.

Beside the mark stands its trail: earlier entries of the same chain. Recovery finds in it where a copy parted from what this
machine has seen, and so how much the copy does not know of.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dpublish.errors import LedgerUnavailable
from dpublish.ledger import crashpoints
from dpublish.ledger.file_lock import file_lock
from dpublish.ledger.protects import Protects
from dpublish.ledger.quanta import Quanta
from dpublish.owned import open_owned, owned_folder

PATIENCE = 30.0
"""How many seconds to wait for another process that is writing."""

RECENT: Final = 100
"""So many of the newest entries are all in the trail; further back, about so many for every doubling of the distance."""


def state_directory() -> Path:
    """Where this machine remembers its ledgers."""
    given = os.environ.get("DPUBLISH_STATE") or "~/.local/state/dpublish"
    try:
        return Path(given).expanduser()
    except RuntimeError:  # a service account need not have one
        raise LedgerUnavailable(
            "This account has no home folder to keep the anchor of a ledger in. Set DPUBLISH_STATE to a directory that can be "
            "written and outlives the ledger."
        ) from None


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The last entry this machine vouches for, and the total spent at that point."""

    seq: int
    hash: str
    spent: Quanta


@dataclass(frozen=True, kw_only=True)
class Seen:
    """All that the anchor remembers: the mark, some of the entries before it (oldest first), and whom the ledger protects."""

    mark: Mark
    trail: tuple[Mark, ...] = ()
    protects: Protects | None = None


class Anchor:
    """The mark of one ledger."""

    def __init__(self, ledger_id: str, *, directory: Path | None = None, patience: float = PATIENCE) -> None:
        self.ledger_id = ledger_id
        self.path = (directory or state_directory()) / "anchors" / f"{ledger_id}.json"
        self._patience = patience

    def read(self) -> Mark | None:
        """The mark, or None on a machine that has never used this ledger."""
        seen = self.seen()
        return None if seen is None else seen.mark

    def seen(self) -> Seen | None:
        """The mark and what is kept with it. A file of format 1 has no trail and names no unit."""
        value = _read_json(self.path)
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
            raise _unreadable(self.path) from None

    def advance(
        self,
        mark: Mark,
        hash_at: Callable[[int], str | None],
        *,
        trail_after: Callable[[int], Iterable[Mark]] | None = None,
        protects: Protects | None = None,
    ) -> None:
        """Move the mark forward, never back. `hash_at` gives the hash of a committed entry of the ledger at hand.

        The current mark must be an entry of this ledger even when it is already further on: two diverged copies in use at
        the same time would otherwise take turns. `trail_after` gives entries between a number and the mark; without it no
        trail is kept.
        """
        with self._locked():
            current = self.seen()
            if current is not None:
                if current.mark == mark:
                    return
                if hash_at(current.mark.seq) != current.mark.hash:
                    raise rolled_back(self.path, mark.seq, current.mark.seq)
                if current.mark.seq >= mark.seq:
                    return
                protects = protects or current.protects
            trail: Sequence[Mark] = ()
            if trail_after is not None and current is not None and current.trail:
                trail = [*current.trail, current.mark, *trail_after(current.mark.seq)]
            elif trail_after is not None:  # a first use, or an anchor of format 1
                trail = list(trail_after(-1))
            self._write(Seen(mark=mark, trail=thinned(trail, mark.seq), protects=protects))

    def replace(self, seen: Seen, *, instead_of: Mark | None) -> None:
        """Set the mark. Only recovery does this, after writing off what the old mark `instead_of` had seen."""
        with self._locked():
            if self.read() != instead_of:
                raise LedgerUnavailable(
                    f"The anchor {self.path} moved while the ledger was being recovered: another copy of it is in use. Stop "
                    "whatever uses that copy. If it is the newest, go on with it; otherwise recover again."
                )
            self._write(seen)

    def _write(self, seen: Seen) -> None:
        mark = seen.mark
        value = {
            "format": 2,
            "ledger": self.ledger_id,
            "seq": mark.seq,
            "hash": mark.hash,
            "spent": list(mark.spent),
            "trail": [[earlier.seq, earlier.hash, list(earlier.spent)] for earlier in seen.trail],
            "protects": seen.protects.to_json() if seen.protects else None,
        }
        _write_json(self.path, value)

    def _locked(self) -> AbstractContextManager[None]:
        return _locked(self.path, self._patience)


class Place:
    """Which ledger this machine made at a location, so that deleting a ledger does not quietly renew its budget."""

    def __init__(self, location: str, name: str, *, directory: Path | None = None) -> None:
        self.location = location
        digest = hashlib.sha256(f"{location}\n{name}".encode()).hexdigest()
        self.path = (directory or state_directory()) / "places" / f"{digest[:32]}.json"
        self._name = name

    def known(self) -> bool:
        return _read_json(self.path) is not None

    def gone(self) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"A ledger '{self._name}' was made at {self.location} before and is gone. A new one would forget what was "
            "spent. Put the old ledger back, or choose another place or name for other data. If nothing was ever "
            f"published with the old one, delete {self.path} and try again."
        )

    def remember(self, ledger_id: str) -> None:
        with _locked(self.path, PATIENCE):  # several processes may make the same ledger at once
            _write_json(self.path, {"format": 1, "location": self.location, "name": self._name, "ledger": ledger_id})


def sweep_state(patience: float = 0.0) -> list[Path]:
    """Remove what killed writers left in this machine's memory of its ledgers. One that is writing holds the lock."""
    removed = []
    for temporary in sorted(state_directory().glob("*/.*.tmp")):
        path = temporary.with_name(temporary.name.removeprefix(".").removesuffix(".tmp") + ".json")
        with suppress(LedgerUnavailable, OSError), _locked(path, patience):
            temporary.unlink()
            removed.append(temporary)
    return removed


def thinned(trail: Iterable[Mark], newest: int) -> tuple[Mark, ...]:
    """The part of a trail worth keeping: about one entry in d / RECENT at the distance d from the newest.

    What is kept at a distance is kept at all smaller ones, so thinning again and again loses nothing more. Where an entry is
    missing, recovery counts from an earlier one: it then writes off a little too much, about a hundredth, and never too little.
    """
    return tuple(mark for mark in trail if mark.seq % (1 << max((newest - mark.seq) // RECENT, 1).bit_length() - 1) == 0)


def _read_mark(seq: Any, hash: Any, spent: Any) -> Mark:
    if not isinstance(seq, int) or not isinstance(hash, str):
        raise ValueError
    return Mark(seq=seq, hash=hash, spent=Quanta(*spent))


def _locked(path: Path, patience: float) -> AbstractContextManager[None]:
    """Alone with the file at `path`, among all processes and threads that ask in this way."""
    lock = path.with_suffix(".lock")
    try:
        owned_folder(lock.parent)
    except OSError as error:
        raise _unwritable(path, error) from None
    held = (
        f"Another process has held {lock} for more than {patience:g} seconds. "
        "Stop that process, then ask again with the same key."
    )
    return file_lock(lock, patience, unusable=lambda error: _unwritable(path, error), held=held)


def rolled_back(path: Path, head: int, marked: int) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"The ledger does not continue what this machine has seen: entry {marked} is anchored in {path}, and the ledger at "
        f"hand (entry {head}) does not contain it. An older copy was probably put back. Put the newest copy back. If it is "
        "lost, dpublish.ledger.recover_ledger(url, name=...) writes off what the anchor shows as spent and goes on."
    )


def _unreadable(path: Path) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"The anchor {path} cannot be read as an anchor. Without it an old copy of the ledger cannot be told from the newest. "
        "If you are sure that the ledger is the newest copy, delete the anchor; the next use makes a new one."
    )


def _unwritable(path: Path, error: OSError) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"The anchor {path} cannot be used ({error.strerror or type(error).__name__}). Free the disk or set DPUBLISH_STATE to "
        "a directory that can be written and outlives the ledger, then ask again with the same key."
    )


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unwritable(path, error) from None
    except ValueError:
        raise _unreadable(path) from None
    if not isinstance(value, dict):
        raise _unreadable(path)
    return value


def _write_json(path: Path, value: dict[str, Any]) -> None:
    # One fixed temporary name: writers hold the file's lock, and a killed writer leaves nothing that piles up.
    temporary = path.with_name(f".{path.stem}.tmp")
    try:
        owned_folder(path.parent)
        with os.fdopen(open_owned(temporary, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as file:
            file.write(json.dumps(value, sort_keys=True) + "\n")
            file.flush()
            os.fsync(file.fileno())
        crashpoints.reach("anchor.written")
        temporary.replace(path)
        crashpoints.reach("anchor.renamed")
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise _unwritable(path, error) from None
