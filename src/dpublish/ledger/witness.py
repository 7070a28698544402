"""A second witness: a mark at a place of the curator's choice, and a line of text that stands for
one.

The ledger itself says which witnesses it has, in entries of the kind `note`. Whoever opens it, on
whatever machine, must hear them all; no receipt is returned before each has seen its entry. A
witness is a folder (another disk), or a database given by its address. A head line is a witness for
paper: it names an entry, and a ledger that lacks this entry is not the newest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, inspect, text

from dpublish.errors import LedgerUnavailable, PlanError
from dpublish.ledger.anchor import Anchor
from dpublish.ledger.database import Database, parse_target
from dpublish.ledger.state import JsonFile, Value, state_directory

WITNESS: Final = "witness"
REMOVED: Final = "removed"

_LINE: Final = re.compile(r"\s*([0-9a-f]{32}):([0-9]{1,18}):([0-9a-f]{64})\s*")
_LOCK: Final = 0x6470_7769  # one advisory lock per PostgreSQL database while a mark is moved


def read_head(line: str) -> tuple[str, int, str]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise PlanError(
            f"{line!r:.60} is not a head line. 'dpublish ledger status' prints one, in the form "
            f"LEDGER_ID:ENTRY:HASH; the "
            "receipt in a release's manifest has the three parts too (ledger_id, seq, head_hash)."
        )
    return found[1], int(found[2]), found[3]


def place_of(given: str | Path, ledger: str, *, new: bool = True) -> str:
    """A witness's place as the ledger records it: the whole path of a folder, or a database's
    address without a password.

    A `new` one must be usable; one that is to be removed need not be there any more.
    """
    words = str(given)
    if "://" not in words:
        if not words.strip():
            raise PlanError(
                "A witness is a folder, or the address of a database; an empty text was given."
            )
        path = Path(words).expanduser().resolve()
        if new:
            _elsewhere(path)
        if new and path.exists() and not path.is_dir():
            raise PlanError(
                f"{path} is a file. Give a folder, or a database as sqlite:///FILE or "
                f"postgresql://HOST/NAME."
            )
        return str(path)
    target = parse_target(words)
    if target.shown == ledger:
        raise PlanError(
            "The ledger cannot be its own witness: whoever puts an old copy back brings both back."
        )
    if target.url is not None and target.url.password is not None:
        raise PlanError(
            "Leave the password out: the ledger records the address. PostgreSQL reads PGPASSWORD "
            "and ~/.pgpass."
        )
    if target.path is None:
        return target.shown
    if new:
        _elsewhere(target.path.resolve())
    return f"sqlite:///{target.path}"


def _elsewhere(path: Path) -> None:
    """Refuse what is lost together with the anchor, or is the anchor itself."""
    if path.is_relative_to(state := state_directory().resolve()):
        raise PlanError(
            f"{path} is in {state}, which holds the anchor. A second witness lives elsewhere, "
            f"best on another machine."
        )


def witness_at(place: str, ledger_id: str, patience: float) -> Anchor:
    """The anchor that is kept at a recorded place."""
    if "://" in place:
        return Anchor(ledger_id, keeper=_Row(place, ledger_id, patience))
    return Anchor(ledger_id, keeper=_Copy(Path(place) / f"{ledger_id}.json", patience))


def in_force(notes: Iterable[Mapping[str, Any]]) -> list[str]:
    """The places of all witnesses that were named, oldest first, without those removed since."""
    places: dict[str, None] = {}
    for note in notes:
        if isinstance(note.get(WITNESS), str):
            places[note[WITNESS]] = None
        if isinstance(note.get(REMOVED), str):
            places.pop(note[REMOVED], None)
    return list(places)


def _unreadable(shown: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"The witness at {shown} cannot be read as one. Put it back as it was. If it is lost, "
        "'dpublish ledger witness LEDGER PLACE --remove' goes on without it."
    )


class _Copy(JsonFile):
    """A mark in a folder of the curator's choice."""

    def unreadable(self) -> LedgerUnavailable:
        return _unreadable(self.shown)

    def _unwritable(self, error: OSError) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"The witness {self.shown} cannot be used ({error.strerror or type(error).__name__}). "
            f"Make its folder available, "
            "then ask again with the same key. If it is lost, 'dpublish ledger witness LEDGER "
            "PLACE --remove' goes on "
            "without it."
        )


class _Row:
    """A mark in a database of the curator's choice, SQLite or PostgreSQL."""

    def __init__(self, place: str, ledger_id: str, patience: float) -> None:
        target = parse_target(place)
        self.shown = target.shown
        self._id = ledger_id
        self._target, self._patience = target, patience

    def read(self) -> Value | None:
        if self._target.path is not None and not self._target.path.exists():
            return None
        with self._database(create=False) as database:
            return database.attempt(lambda: self._read(database))

    def update(self, change: Callable[[Value | None], Value | None]) -> None:
        with self._database(create=True) as database:
            database.attempt(lambda: self._update(database, change))

    def unreadable(self) -> LedgerUnavailable:
        return _unreadable(self.shown)

    def _database(self, *, create: bool) -> closing[Database]:
        return closing(
            Database(self._target, patience=self._patience, create=create, role="witness")
        )

    def _read(self, database: Database) -> Value | None:
        with database.reading() as connection:
            return self._value(connection)

    def _value(self, connection: Connection) -> Value | None:
        if not inspect(connection).has_table("dpublish_witness"):
            return None
        found = connection.execute(
            text("SELECT value FROM dpublish_witness WHERE ledger_id = :id"), {"id": self._id}
        ).scalar_one_or_none()
        if found is None:
            return None
        try:
            value = json.loads(found)
        except (TypeError, ValueError):
            raise self.unreadable() from None
        if not isinstance(value, dict):
            raise self.unreadable()
        return value

    def _update(self, database: Database, change: Callable[[Value | None], Value | None]) -> None:
        with database.writing() as connection:
            if database.postgres:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            value = change(self._value(connection))
            if value is None:
                return
            connection.execute(
                text(
                    "CREATE TABLE IF NOT EXISTS dpublish_witness (ledger_id TEXT PRIMARY KEY, "
                    "value TEXT NOT NULL)"
                )
            )
            connection.execute(
                text(
                    "INSERT INTO dpublish_witness (ledger_id, value) VALUES (:id, :value) "
                    "ON CONFLICT (ledger_id) DO UPDATE SET value = excluded.value"
                ),
                {"id": self._id, "value": json.dumps(value, sort_keys=True)},
            )
