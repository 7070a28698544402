"""Files and folders that only their owner may read, and names that a file has only while it is
written.

What the private side keeps is nobody else's, whatever the umask: 0600 for files, 0700 for folders
that are made. A folder that was there already is left as it is.

A temporary name holds a lock for as long as its writer lives. What a killed run left is therefore
told from what another run is writing this moment, and can be removed by anybody who comes by.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

FILE: Final = 0o600
FOLDER: Final = 0o700
_TEMPORARY: Final = re.compile(r"\.(.+)\.(?:[0-9a-f]{8}|[0-9a-f]{16})\.(?:partial|tmp)", re.DOTALL)


def open_owned(path: Path, flags: int) -> int:
    """A descriptor of a file that is made when it is not there. Ours are for us alone, also those
    of earlier runs.

    A link of that name is not followed: whoever put it there would choose what is written over.
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE)
    try:
        found = os.fstat(descriptor)
        if found.st_uid == os.geteuid() and found.st_mode & 0o777 != FILE:
            os.fchmod(descriptor, FILE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_owned(path: Path) -> None:
    """The file, empty and for its owner alone, unless something has that name."""
    with suppress(FileExistsError):
        os.close(open_owned(path, os.O_RDWR | os.O_EXCL))


def write_through(file: IO[bytes], content: bytes) -> None:
    """Write, and have it on the disk before anything else is done."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def owned_folder(path: Path) -> None:
    """The folder, and those above it that are missing, for their owner alone."""
    if path.is_dir():
        return
    if path.parent != path:
        owned_folder(path.parent)
    try:
        path.mkdir(mode=FOLDER)
        path.chmod(FOLDER)
    except FileExistsError:
        if not path.is_dir():
            raise


def replace_owned(path: Path, content: bytes) -> None:
    """Write a file for its owner alone; it appears whole, and in place of one of the same name.
    Pipes are written to."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    with temporary(path) as fresh:
        fresh.write_bytes(content)
        fresh.replace(path)


@contextmanager
def temporary(path: Path, *, folder: bool = False, owned: bool = True) -> Iterator[Path]:
    """An empty file (or folder) beside `path`, under a name that nobody else uses. It is removed
    unless it was renamed.

    With `owned=False` it has the permissions that the umask gives: what is published is for others
    to read.
    """
    fresh, descriptor = _locked_new(path, folder, owned)
    try:
        yield fresh
    finally:
        _remove(fresh, descriptor)
        os.close(descriptor)


def sweep(folder: Path, names: str | re.Pattern[str]) -> list[Path]:
    """Remove temporary files and folders in `folder` whose writer is gone, if they stand for one of
    `names`.

    Never all that look temporary: other programs use such names too.
    """
    removed: list[Path] = []
    wanted = re.compile(re.escape(names)) if isinstance(names, str) else names
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            found = _TEMPORARY.fullmatch(path.name)
            if found is not None and wanted.fullmatch(found[1]) and _remove_abandoned(path):
                removed.append(path)
    return removed


def _locked_new(path: Path, folder: bool, owned: bool) -> tuple[Path, int]:
    while True:
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
        if folder:
            fresh.mkdir(mode=FOLDER if owned else 0o777)
            try:
                if owned:
                    fresh.chmod(FOLDER)
                descriptor = os.open(fresh, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except (
                FileNotFoundError
            ):  # swept before it was opened; `mkdir` tells when the folder around it is gone
                continue
        elif owned:
            descriptor = open_owned(fresh, os.O_RDWR | os.O_EXCL)
        else:
            descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with suppress(OSError):  # a file system without locks: then nobody sweeps it either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is(fresh, descriptor):  # somebody may have swept it before it was locked
            return fresh, descriptor
        os.close(descriptor)


def _is(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except OSError:
        return False


def _remove_abandoned(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _remove(path, descriptor)
    except OSError:  # its writer lives
        return False
    finally:
        os.close(descriptor)


def _remove(path: Path, descriptor: int) -> bool:
    """Remove what the descriptor has open, if it still has this name."""
    if not _is(path, descriptor):
        return False
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        return True
    return False
