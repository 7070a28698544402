"""The files of an online session, written so that a crash at any moment loses nothing that was shown.

    session.json       public facts, fixed at opening; its SHA-256 is sealed in the ledger
    private.bin        the exact counts and the noisy threshold; readable by the owner only; deleted when the session is closed
    transcript.jsonl   one line an answer, each holding the hash of the line before; flushed to disk before an answer is shown
    lock               held while a query is answered

A high-water mark outside the folder (see `dpublish.ledger.anchor`) notices an older copy of the folder put back, and a copy
taken to another machine: either would answer with fresh noise what was already answered.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from dpublish.errors import InputError, LedgerUnavailable, PublishError
from dpublish.ledger.anchor import Anchor, Mark
from dpublish.ledger.crashpoints import reach
from dpublish.ledger.file_lock import file_lock
from dpublish.ledger.quanta import Quanta
from dpublish.noise.base import IntArray

PATIENCE = 60.0
_NO_SPEND = Quanta()


def canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


class SessionFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            content = (folder / "session.json").read_bytes()
            header = json.loads(content)
            if header["format"] != "dpublish-online":
                raise ValueError
        except FileNotFoundError:
            raise InputError(f"'{folder}' is not an online session. 'dpublish online open' makes one.") from None
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"'{folder}/session.json' cannot be read as an online session.") from None
        if header["format_version"] != 1:
            raise InputError(f"'{folder}' was made by a newer dpublish. Update dpublish to go on with it.")
        self.header: dict[str, Any] = header
        self.lock = folder / "lock"
        self.header_size = len(content)
        self.digest = hashlib.sha256(content).hexdigest()
        self._anchor = Anchor(f"online-{header['session']}")
        self._hashes = [self.digest]
        self._end = 0

    @classmethod
    def create(cls, folder: Path, header: Mapping[str, Any], counts: IntArray, threshold: int) -> None:
        """Write all files under another name, flush them, then rename: the folder is there whole or not at all."""
        for stale in folder.parent.glob(f".{glob.escape(folder.name)}.*.partial"):
            shutil.rmtree(stale, ignore_errors=True)  # left by a crash; holds counts that nothing will ever need
        partial = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
        # blinded, so that the digest in the public header tells nothing about the counts
        blind = {"blind": secrets.token_hex(32), "threshold": str(threshold), "cells": int(counts.size)}
        private = canonical(blind) + b"\n" + counts.astype("<i8").tobytes()
        public = {**header, "private_digest": hashlib.sha256(private).hexdigest()}
        try:
            partial.mkdir(mode=0o700)
            _write(partial / "private.bin", private)
            _write(partial / "transcript.jsonl", b"")
            _write(partial / "session.json", canonical(public))
            _flush_folder(partial)
            reach("online:prepared")
            partial.rename(folder)
            _flush_folder(folder.parent)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise PublishError(
                f"The session cannot be written to '{folder}' ({os.strerror(error.errno or 0)}). The budget is spent, and no "
                "answer was given: make room and open it again with the same key."
            ) from None

    def read_private(self) -> tuple[IntArray, int] | None:
        """The exact counts and the noisy threshold; None when the file is gone, as it is after closing."""
        try:
            content = (self.folder / "private.bin").read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerUnavailable(f"The private part of '{self.folder}' cannot be read ({error.strerror}).") from None
        if hashlib.sha256(content).hexdigest() != self.header["private_digest"]:
            raise LedgerUnavailable(f"The private part of '{self.folder}' is not the one of this session.")
        line, _, raw = content.partition(b"\n")
        return np.frombuffer(raw, dtype="<i8").astype(np.int64), int(json.loads(line)["threshold"])

    def delete_private(self) -> None:
        with suppress(FileNotFoundError):
            (self.folder / "private.bin").unlink()
            _flush_folder(self.folder)

    def new_entries(self) -> Iterator[dict[str, Any]]:
        """Lines not read or written here before, checked against the chain. A torn last line was never shown: it is cut off."""
        path = self.folder / "transcript.jsonl"
        try:
            with path.open("r+b") as file:
                if file.seek(0, os.SEEK_END) < self._end:
                    raise self._rolled_back()
                file.seek(self._end)
                rest = file.read()
                whole, newline, torn = rest.rpartition(b"\n")
                if torn:
                    file.truncate(self._end + len(whole) + len(newline))
                    os.fsync(file.fileno())
        except OSError as error:
            raise LedgerUnavailable(f"The transcript '{path}' cannot be used ({error.strerror}).") from None
        found = []
        for line in whole.splitlines() if newline else ():
            found.append(self._checked(line, len(self._hashes)))
        self._end += len(whole) + len(newline)
        self._check_mark()
        yield from found

    def _checked(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            entry: dict[str, Any] = json.loads(line)
            digest = entry.pop("hash")
            good = entry["previous"] == self._hashes[-1] and entry["number"] == number and digest == _digest(entry)
        except (ValueError, KeyError, TypeError, AttributeError):
            good = False
        if not good:
            raise LedgerUnavailable(
                f"Line {number} of '{self.folder}/transcript.jsonl' was altered. The session answers nothing further."
            )
        self._hashes.append(digest)
        return entry

    def append(self, entry: dict[str, Any]) -> None:
        """Put one line on disk. On failure the file is as before, and nothing may be shown."""
        entry["previous"] = self._hashes[-1]
        digest = _digest(entry)
        line = canonical({**entry, "hash": digest}) + b"\n"
        path = self.folder / "transcript.jsonl"
        try:
            with path.open("r+b", buffering=0) as file:
                try:
                    file.seek(self._end)
                    half = len(line) // 2
                    _write_all(file.fileno(), line[:half])
                    reach("online:torn")
                    _write_all(file.fileno(), line[half:])
                    os.fsync(file.fileno())
                except OSError:
                    with suppress(OSError):
                        file.truncate(self._end)
                        os.fsync(file.fileno())
                    raise
        except OSError as error:
            raise LedgerUnavailable(
                f"The transcript '{path}' cannot be written ({os.strerror(error.errno or 0)}), so no answer is given."
            ) from None
        self._hashes.append(digest)
        self._end += len(line)

    def mark(self, entries: int) -> None:
        """Advance the high-water mark outside the folder to this many entries."""
        try:
            self._anchor.advance(Mark(seq=entries, hash=self._hashes[entries], spent=_NO_SPEND), self._hash_at)
        except LedgerUnavailable as error:
            if "does not continue" in str(error):
                raise self._rolled_back() from None
            raise

    def _check_mark(self) -> None:
        mark = self._anchor.read()
        if mark is None:
            raise LedgerUnavailable(
                f"This machine has no mark of the session in '{self.folder}' ({self._anchor.path}). A copy on another machine "
                "would answer twice for one payment: go on where the session was opened."
            )
        if self._hash_at(mark.seq) != mark.hash:
            raise self._rolled_back()

    def _hash_at(self, number: int) -> str | None:
        return self._hashes[number] if 0 <= number < len(self._hashes) else None

    def _rolled_back(self) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"The transcript in '{self.folder}' lacks answers that were already shown. An older copy was probably put back: "
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
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
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
