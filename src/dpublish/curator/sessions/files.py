"""The files of an online session, written so that a crash at any moment loses nothing that was
shown.

    session.json       public facts, fixed at opening; its SHA-256 is sealed in the ledger
    private.bin        the exact counts and the noisy threshold; readable by the owner only; deleted
                       when the session is closed
    transcript.jsonl   one line per answer, each holding the hash of the line before; flushed to
    disk
                       before an answer is shown
    lock               held while a query is answered

A high-water mark outside the folder (see `dpublish.ledger.anchor`) says how far the session has
come on this machine: -1 when it is set up, 0 when the ledger has sealed it, then the number of
lines. It holds the hash of that line, or at -1 and 0 of session.json. Below 0 a folder answers
nothing, so one payment never has two sessions: the ledger seals one digest, and every set-up has
its own. The mark also notices an older copy of the folder put back, and a copy taken to another
machine: either would answer with fresh noise what was already answered.

Before noise is drawn, `begin` writes a note behind the last line, and with it room for the longest
line that can follow. So a full disk is found before anything private is looked at. A note that is
still there later stands for a query whose reply was perhaps drawn and is lost; a line that says so
takes its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from dpublish.arrays import Ints
from dpublish.errors import InputError, LedgerUnavailable, PublishError
from dpublish.ledger.anchor import Anchor, Mark
from dpublish.ledger.chain import Quanta
from dpublish.ledger.crashpoints import reach
from dpublish.ledger.state import file_lock
from dpublish.owned import open_owned, sweep, temporary

PATIENCE = 60.0
UNSEALED = -1
"""The mark of a session that was set up on this machine and is not, or not yet known to be, sealed
in the ledger."""
MAX_TRIED = 1 << 26
"""Bytes of room that are tried before a session is set up, at most."""
_NO_SPEND = Quanta()
_FILLER = b" "


def canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


class SessionFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            content = (folder / "session.json").read_bytes()
            header = json.loads(content)
            known = (
                header["session"],
                header["private_digest"],
                header["receipt"]["key"],
                header["receipt"]["head_hash"],
            )
            if header["format"] != "dpublish-online" or not all(
                isinstance(one, str) for one in known
            ):
                raise ValueError
            version = header["format_version"]
        except FileNotFoundError:
            raise InputError(
                f"'{folder}' is not an online session. 'dpublish online open' makes one."
            ) from None
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(
                f"'{folder}/session.json' cannot be read as an online session."
            ) from None
        if version != 1:
            raise InputError(
                f"'{folder}' was made by a newer dpublish. Update dpublish to go on with it."
            )
        self.header: dict[str, Any] = header
        self.lock = folder / "lock"
        self.header_size = len(content)
        self.digest = hashlib.sha256(content).hexdigest()
        self._anchor = Anchor(f"online-{header['session']}")
        self._lines = [(self.digest, 0)]  # hash and end of every line; the header stands for line 0
        self._found: list[dict[str, Any]] = []  # checked, and not yet handed to the session

    @classmethod
    def create(cls, folder: Path, header: Mapping[str, Any], counts: Ints, threshold: int) -> None:
        """Write all files under another name, flush them, then rename: the folder is there whole or
        not at all.

        It is marked as set up on this machine before it has its name, and stays unusable until
        `confirm`.
        """
        sweep(
            folder.parent, folder.name
        )  # left by a crash; holds counts that nothing will ever need
        # blinded, so that the digest in the public header tells nothing about the counts
        blind = {
            "blind": secrets.token_hex(32),
            "threshold": str(threshold),
            "cells": int(counts.size),
        }
        private = canonical(blind) + b"\n" + counts.astype("<i8").tobytes()
        public = {**header, "private_digest": hashlib.sha256(private).hexdigest()}
        try:
            with temporary(folder, folder=True) as partial:
                _write(partial / "private.bin", private)
                _write(partial / "transcript.jsonl", b"")
                _write(partial / "session.json", canonical(public))
                _flush_folder(partial)
                reach("online:prepared")
                cls(partial)._move_mark(UNSEALED)
                reach("online:known")
                partial.rename(folder)
            _flush_folder(folder.parent)
        except OSError as error:
            raise PublishError(
                f"The session cannot be written to '{folder}' ({os.strerror(error.errno or 0)}). "
                f"The budget is spent, and no "
                "answer was given. A failure after noise was drawn closes the key: make room, "
                "and use a new one."
            ) from None

    @staticmethod
    def try_room(folder: Path, size: int) -> None:
        """Find out before rows are read whether a folder of about this size could be written."""
        try:
            with temporary(folder, folder=True) as partial:
                _write(partial / "room", bytes(min(size, MAX_TRIED)))
        except OSError as error:
            raise PublishError(
                f"The session cannot be written to '{folder}' ({os.strerror(error.errno or 0)}). "
                "The budget is spent; no row was read: make room and open it again with the same "
                "key."
            ) from None

    def read_private(self) -> tuple[Ints, int] | None:
        """The exact counts and the noisy threshold; None when the file is gone, as it is after
        closing."""
        found = self._read_private()
        if isinstance(found, str):
            raise LedgerUnavailable(found)
        return found

    def _read_private(self) -> tuple[Ints, int] | str | None:
        """A failure is returned as its text: an exception raised in here would remember the
        content."""
        try:
            content = (self.folder / "private.bin").read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"The private part of '{self.folder}' cannot be read ({error.strerror})."
        if hashlib.sha256(content).hexdigest() != self.header["private_digest"]:
            return f"The private part of '{self.folder}' is not the one of this session."
        line, _, raw = content.partition(b"\n")
        return np.frombuffer(raw, dtype="<i8").astype(np.int64), int(json.loads(line)["threshold"])

    def delete_private(self) -> None:
        with suppress(FileNotFoundError):
            (self.folder / "private.bin").unlink()
            _flush_folder(self.folder)

    def discard(self) -> None:
        """Delete a folder that can never be sealed, its private part first."""
        with suppress(OSError):
            self.delete_private()
            shutil.rmtree(self.folder)

    def new_entries(self) -> list[dict[str, Any]]:
        """Lines not handed out here before, checked against the chain; a query that was begun and
        not finished ends as a line that says it is lost.
        """
        mark = self.known_mark()
        with self._transcript("cannot be used ({why}).") as file:
            if file.seek(0, os.SEEK_END) < self._end:
                raise self._rolled_back()
            file.seek(self._end)
            *lines, rest = file.readall().split(b"\n")
            for place, line in enumerate(lines, start=1):
                if not self._take(line):
                    number = len(self._lines)
                    if place == len(lines) and number > mark.seq:
                        # never shown: a crash of the machine may leave a line's end without its
                        # beginning
                        rest = line + b"\n" + rest
                        break
                    raise LedgerUnavailable(
                        f"Line {number} of '{self.folder}/transcript.jsonl', or session.json, was "
                        f"altered. The session answers "
                        "nothing further."
                    )
            self._check(mark)
            begun = bool(rest.strip(_FILLER))
            if rest and not begun:  # room that a finished line did not need
                file.truncate(self._end)
                os.fsync(file.fileno())
        if begun:
            lost = {"number": len(self._lines), "key": "", "lost": True, "query_digest": ""}
            self.append(lost)
            self._found.append(lost)
        found, self._found = self._found, []
        return found

    def _take(self, line: bytes) -> bool:
        """Take in the next line; False when it does not continue the chain."""
        previous, end = self._lines[-1]
        try:
            entry: dict[str, Any] = json.loads(line)
            digest = entry.pop("hash")
            if (entry["previous"], entry["number"], digest) != (
                previous,
                len(self._lines),
                _digest(entry),
            ):
                return False
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        self._found.append(entry)
        self._lines.append((digest, end + len(line) + 1))
        return True

    @property
    def _end(self) -> int:
        return self._lines[-1][1]

    def begin(self, number: int, room: int) -> None:
        """Note on disk that query `number` is begun, in `room` bytes that its line will take the
        place of.

        On failure the file is as before. Afterwards the query either gets its line or counts as
        lost.
        """
        if number != len(self._lines):
            raise LedgerUnavailable(
                f"The session in '{self.folder}' was not read to its end. Open it again."
            )
        note = canonical({"begun": number})
        with self._transcript(
            "has no room for another answer ({why}). Nothing was asked: make room and ask again."
        ) as file:
            try:
                file.seek(self._end)
                _write_all(file.fileno(), note + _FILLER * (room - len(note)))
                os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):
                    file.truncate(self._end)
                    os.fsync(file.fileno())
                raise

    def withdraw(self) -> None:
        """Take back what `begin` noted. Only where no noise was drawn."""
        with self._transcript("cannot be written ({why}).") as file:
            file.truncate(self._end)
            os.fsync(file.fileno())

    def append(self, entry: dict[str, Any]) -> None:
        """Put one line on disk, over what `begin` wrote. On failure nothing may be shown, and what
        was begun stays begun."""
        entry["previous"], end = self._lines[-1]
        digest = _digest(entry)
        line = canonical({**entry, "hash": digest}) + b"\n"
        with self._transcript(
            "cannot be written ({why}), so no answer is given. A query begun counts as a hard one."
        ) as file:
            file.seek(end)
            half = len(line) // 2
            _write_all(file.fileno(), line[:half])
            reach("online:torn")
            _write_all(file.fileno(), line[half:])
            reach("online:uncut")
            file.truncate(end + len(line))
            os.fsync(file.fileno())
        self._lines.append((digest, end + len(line)))

    @contextmanager
    def _transcript(self, failure: str) -> Iterator[FileIO]:
        path = self.folder / "transcript.jsonl"
        try:
            with path.open("r+b", buffering=0) as file:
                yield file
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise LedgerUnavailable(f"The transcript '{path}' {failure.format(why=why)}") from None

    # -- the mark
    # ------------------------------------------------------------------------------------------

    def confirm(self) -> None:
        """The ledger has sealed this very folder: from now on it may answer. Does nothing when that
        is known already."""
        if self.known_mark().seq == UNSEALED:
            self._move_mark(0)

    def mark(self, entries: int) -> None:
        """Advance the high-water mark outside the folder to this many entries."""
        try:
            self._move_mark(entries)
        except LedgerUnavailable as error:
            if "does not continue" in str(error):
                raise self._rolled_back() from None
            raise

    def known_mark(self) -> Mark:
        mark = self._anchor.read()
        if mark is None:
            raise LedgerUnavailable(
                f"This machine has no mark of the session in '{self.folder}' "
                f"({self._anchor.path}). A copy on another machine "
                "would answer twice for one payment: go on where the session was opened."
            )
        return mark

    def require_own(self) -> None:
        """Refuse to seal what was set up on another machine, where it could answer too, or was
        altered since."""
        mark = self.known_mark()
        if mark.seq <= 0 and mark.hash != self.digest:
            raise LedgerUnavailable(
                f"'{self.folder}/session.json' was altered. Put it back, or open the session "
                f"elsewhere."
            )

    @property
    def never_sealed(self) -> bool:
        """Whether it was set up here, as it is now, and the ledger was never seen to seal it."""
        mark = self._anchor.read()
        return mark is not None and (mark.seq, mark.hash) == (UNSEALED, self.digest)

    def _move_mark(self, number: int) -> None:
        self._anchor.advance(
            Mark(seq=number, hash=self._hash_at(number) or "", spent=_NO_SPEND), self._hash_at
        )

    def _check(self, mark: Mark) -> None:
        if mark.seq == UNSEALED:
            raise LedgerUnavailable(
                f"The session in '{self.folder}' was set up, but its ledger is not known to have "
                f"sealed it, so it answers "
                "nothing. Open it again with its key."
            )
        if self._hash_at(mark.seq) != mark.hash:
            raise self._rolled_back()

    def _hash_at(self, number: int) -> str | None:
        return self._lines[max(number, 0)][0] if UNSEALED <= number < len(self._lines) else None

    def _rolled_back(self) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"The transcript in '{self.folder}' lacks answers that were already shown. An older "
            f"copy was probably put back: "
            "put the newest copy back. Without it the session cannot go on."
        )


def session_lock(path: Path) -> AbstractContextManager[None]:
    """One process, and one thread of it, at a time; `path` is the file that is locked."""

    def unusable(error: OSError) -> LedgerUnavailable:
        return LedgerUnavailable(f"'{path}' cannot be used ({os.strerror(error.errno or 0)}).")

    held = f"Another process has held '{path}' for more than {PATIENCE:g} seconds."
    return file_lock(path, PATIENCE, unusable=unusable, held=held)


def _digest(entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(entry)).hexdigest()


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _write(path: Path, content: bytes) -> None:
    descriptor = open_owned(path, os.O_WRONLY | os.O_EXCL)
    try:
        _write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
