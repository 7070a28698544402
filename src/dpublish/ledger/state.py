"""What this machine remembers of its ledgers: small JSON files in `$DPUBLISH_STATE` (default
`~/.local/state/dpublish`).

    anchors/     one mark per ledger, see `dpublish.ledger.anchor`
    places/      which ledger was made or first used where
    populations/ which ledgers pay for whom, see `dpublish.ledger.populations`
    private-sources  hashes of the paths of files that were paid for

A file is replaced by rename under a lock, with the file and its folder flushed to disk.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from dpublish.errors import LedgerUnavailable, PlanError
from dpublish.ledger import crashpoints
from dpublish.outputs import glob_files
from dpublish.owned import open_owned, owned_folder, replace_owned

PATIENCE = 30.0
"""How many seconds to wait for another process that is writing."""

Value = dict[str, Any]

_LONGEST = 200
_PRIVATE_FILES = "private-sources"
_PAUSE = 0.002


def state_directory() -> Path:
    """Where this machine remembers its ledgers."""
    given = os.environ.get("DPUBLISH_STATE") or "~/.local/state/dpublish"
    try:
        return Path(given).expanduser()
    except RuntimeError:  # a service account need not have one
        raise LedgerUnavailable(
            "This account has no home folder to keep the anchor of a ledger in. Set "
            "DPUBLISH_STATE to a directory that can be "
            "written and outlives the ledger."
        ) from None


class JsonFile:
    """One JSON object in a file, which is there whole or not at all."""

    def __init__(self, path: Path, patience: float = PATIENCE) -> None:
        self.path = path
        self.shown = str(path)
        self._patience = patience

    def read(self) -> Value | None:
        try:
            value = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unwritable(error) from None
        except ValueError:
            raise self.unreadable() from None
        if not isinstance(value, dict):
            raise self.unreadable()
        return value

    def update(self, change: Callable[[Value | None], Value | None]) -> None:
        """Write what `change` makes of the current value, alone among all who ask in this way; None
        leaves it."""
        with self.locked():
            value = change(self.read())
            if value is not None:
                self._write(value)

    def unreadable(self) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"The anchor {self.shown} cannot be read as an anchor. Without it an old copy of the "
            f"ledger cannot be told from "
            "the newest. If you have a head line that vouches for the ledger at hand, delete the "
            "anchor, and "
            "'dpublish ledger verify LEDGER --head LINE' makes a new one."
        )

    def locked(self, patience: float | None = None) -> AbstractContextManager[None]:
        lock = self.path.with_suffix(".lock")
        patience = self._patience if patience is None else patience
        try:
            owned_folder(lock.parent)
        except OSError as error:
            raise self._unwritable(error) from None
        held = (
            f"Another process has held {lock} for more than {patience:g} seconds. "
            "Stop that process, then ask again with the same key."
        )
        return file_lock(lock, patience, unusable=self._unwritable, held=held)

    def _unwritable(self, error: OSError) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"The anchor {self.shown} cannot be used ({error.strerror or type(error).__name__}). "
            f"Free the disk or set "
            "DPUBLISH_STATE to a directory that can be written and outlives the ledger, then ask "
            "again with the same key."
        )

    def _write(self, value: Value) -> None:
        path = self.path
        # One fixed temporary name: writers hold the file's lock, and a killed writer leaves nothing
        # that piles up.
        temporary = path.with_name(f".{path.stem}.tmp")
        try:
            owned_folder(path.parent)
            temporary.unlink(missing_ok=True)  # what a killed writer left, or somebody's link
            with os.fdopen(
                open_owned(temporary, os.O_WRONLY | os.O_EXCL), "w", encoding="utf-8"
            ) as file:
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
            raise self._unwritable(error) from None


class _PlaceFile(JsonFile):
    """Which ledgers this machine has used at one location. One that cannot be read may name any, so
    it is never passed over."""

    def read(self) -> Value | None:
        value = super().read()
        if value is not None:
            words = [value.get("location"), value.get("name"), *_ledgers(value)]
            if not all(isinstance(word, str) for word in words):
                raise self.unreadable()
        return value

    def unreadable(self) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"{self.shown} cannot be read. It names a ledger that this machine has used, perhaps "
            f"this one, and then an old "
            "copy must not be taken for a first use. Put the file back as it was. If it is lost "
            "and nothing was ever published "
            "from a ledger whose anchor is missing, delete it and try again."
        )


def _ledgers(value: Value) -> list[Any]:
    """The ids in a place's file, newest first. Format 1 has one."""
    earlier = value.get("earlier", [])
    return [value.get("ledger"), *(earlier if isinstance(earlier, list) else [None])]


def _places() -> list[tuple[Path, Value]]:
    """All that the state folder says of places."""
    folder = state_directory() / "places"
    try:  # a glob would take a folder that may not be listed for an empty one
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LedgerUnavailable(
            f"The folder {folder}, which names the ledgers that this machine has used, cannot be "
            f"listed "
            f"({error.strerror or type(error).__name__}). Make it readable, or set DPUBLISH_STATE "
            f"to where it is."
        ) from None
    return [(path, value) for path in paths if (value := _PlaceFile(path).read()) is not None]


class Place:
    """Which ledgers this machine used at a location, so that deleting a ledger does not quietly
    renew its budget."""

    def __init__(self, location: str, name: str, *, directory: Path | None = None) -> None:
        self.location = location
        digest = hashlib.sha256(f"{location}\n{name}".encode()).hexdigest()
        self._file = _PlaceFile((directory or state_directory()) / "places" / f"{digest[:32]}.json")
        self._name = name

    @classmethod
    def like(cls, location: str, name: str) -> Place | None:
        """The place of a ledger that was here under this name, in whatever spelling."""
        was_here = (value["name"] for _, value in _places() if value["location"] == location)
        found = next((one for one in was_here if folded(one) == folded(name)), None)
        return None if found is None else cls(location, found)

    @property
    def path(self) -> Path:
        return self._file.path

    def knows(self, ledger_id: str) -> bool:
        value = self._file.read()
        return value is not None and ledger_id in _ledgers(value)

    def gone(self) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"A ledger '{self._name}' was made at {self.location} before and is gone. A new one "
            f"would forget what was "
            "spent. Put the old ledger back, or choose another place or name for other data. If "
            "nothing was ever "
            f"published with the old one, delete {self.path} and try again."
        )

    def remember(self, ledger_id: str) -> None:
        """Name the ledger here, beside those that were here before it."""

        def named(current: Value | None) -> Value | None:
            earlier = [] if current is None else _ledgers(current)
            if ledger_id in earlier:  # several processes may make the same ledger at once
                return None
            return {
                "format": 2,
                "location": self.location,
                "name": self._name,
                "ledger": ledger_id,
                "earlier": earlier,
            }

        self._file.update(named)


def places_of(ledger_id: str) -> list[Path]:
    """The files in which this machine names a ledger as one that it has used."""
    return [path for path, value in _places() if ledger_id in _ledgers(value)]


def remember(path: str | Path) -> None:
    """Note that a file, a folder with all that is in it, or the folders of a pattern's files are
    private, since something about them is about to be paid for."""
    named = [path] if Path(path).exists() else {one.parent for one in glob_files(path)}
    new = {_path_hash(one) for one in named}
    if new <= _remembered():
        return
    kept = state_directory() / _PRIVATE_FILES
    with JsonFile(kept).locked():  # another process may be adding to it
        replace_owned(kept, "".join(f"{one}\n" for one in sorted(_remembered() | new)).encode())


def is_remembered(path: str | Path) -> bool:
    """Whether any of the file, or of the files of a folder or pattern, is known as private, by
    itself or by a folder above it."""
    known = _remembered()
    inside = Path(path).rglob("*") if Path(path).is_dir() else glob_files(path)
    reals = (Path(os.path.realpath(one)) for one in (path, *inside))
    return bool(known) and any(
        _path_hash(above) in known for real in reals for above in (real, *real.parents)
    )


def _remembered() -> set[str]:
    try:
        return set((state_directory() / _PRIVATE_FILES).read_text(encoding="ascii").split())
    except OSError:
        return set()


def _path_hash(path: str | Path) -> str:
    return hashlib.sha256(os.path.realpath(path).encode()).hexdigest()


def sweep_state() -> list[Path]:
    """Remove what killed writers left in this machine's memory. One that is writing holds the lock,
    and is left alone."""
    removed = []
    for temporary in sorted(state_directory().glob("*/.*.tmp")):
        kept = temporary.with_name(f"{temporary.name.removeprefix('.').removesuffix('.tmp')}.json")
        with suppress(LedgerUnavailable, OSError), JsonFile(kept).locked(patience=0.0):
            temporary.unlink()
            removed.append(temporary)
    return removed


@contextmanager
def file_lock(
    path: Path, patience: float, *, unusable: Callable[[OSError], LedgerUnavailable], held: str
) -> Iterator[None]:
    """Alone with whatever `path` stands for, among all that ask in this way.

    `unusable` words the failure to open the file; `held` is the text after `patience` seconds of
    waiting.
    """
    deadline = time.monotonic() + patience
    try:
        descriptor = open_owned(path, os.O_RDWR)
    except OSError as error:
        raise unusable(error) from None
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise LedgerUnavailable(held) from None
                time.sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)


def folded(name: str) -> str:
    """What two spellings of one name share: no case, no blanks around it, one form of each
    character (NFKC)."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", plain).split())


def checked_name(name: str) -> str:
    """The name as given, if it is one."""
    if (
        not isinstance(name, str)
        or len(name) > _LONGEST
        or not name.isprintable()
        or not 1 <= len(folded(name)) <= _LONGEST
    ):
        raise PlanError(
            f"A ledger's name is 1 to {_LONGEST} printable characters, not all blank; "
            f"{name!r:.60} was given."
        )
    return name


def spelled_alike(name: str, spellings: list[str], where: str) -> LedgerUnavailable:
    """Names that were different before names were folded."""
    shown = ", ".join(repr(spelling) for spelling in sorted(spellings))
    return LedgerUnavailable(
        f"The ledger at {where} holds several budgets whose names are one and the same now, when "
        f"case and blanks are left "
        f"aside: {shown}. '{name}' could be any of them, and nothing is paid from any of them. "
        f"'dpublish ledger status LEDGER "
        "--name' with the exact spelling shows one; 'dpublish ledger merge LEDGER --name NAME' "
        "makes one of them, with the sum "
        "of what was spent and the smallest cap."
    )
