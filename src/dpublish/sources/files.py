"""Files that a user names: whether they are there, and their lines."""

from __future__ import annotations

import errno
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from dpublish.declare.spelling import MARK
from dpublish.errors import InputError, refuse
from dpublish.sources.texts import LONGEST_TEXT, UNREADABLE, lossy

Stamp = tuple[Path, tuple[int, ...] | None]
"""A file, and what it was."""

_BLOCK = 1 << 22
PACKED = (".gz", ".zst")
"""Endings of packed files."""

JSON_LINES = (".jsonl", ".ndjson")
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
STATISTICAL = (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt")

_LINE_FEED = b"\n"


def existing_file(path: str | Path, what: str = "") -> Path:
    """The path, if a file (with `what`) stands there; otherwise what is wrong with it is said in
    full."""
    path = Path(path)
    try:
        path.stat()
    except OSError as error:
        number = error.errno
    except ValueError:  # a zero byte in the name
        number = errno.ENOENT
    else:
        number = 0
    there_not = number in (errno.ENOENT, errno.ENOTDIR)
    dangling = number == errno.ENOENT and path.is_symlink()
    refuse(
        InputError,
        (number == errno.ELOOP, f"'{path}' is a symbolic link that leads back to itself."),
        (dangling, f"'{path}' is a symbolic link to a file that is not there."),
        (there_not, f"There is no file '{path}'{f' with {what}' if what else ''}."),
        (number, f"'{path}' cannot be opened ({os.strerror(number or 0)})."),
    )
    # asked of what can be looked at: of other paths Python may raise
    refuse(
        InputError,
        (path.is_dir(), f"'{path}' is a folder, not a file."),
        (
            not path.is_file(),
            f"'{path}' is no ordinary file, and rows may have to be read more than once.",
        ),
    )
    return path


def stamp_of(path: Path) -> tuple[int, ...] | None:
    """What tells a file from the same one after it was written to or put in its place."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def open_plain(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked if its name ends in .gz or .zst."""
    return open_packed(path, path.suffix if path.suffix in PACKED else "")


def open_packed(path: Path, packed: str) -> IO[bytes]:
    """The bytes of a file, unpacked by what its name ends in."""
    if packed == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if packed == ".zst":
        import pyarrow as pa

        return cast(IO[bytes], pa.input_stream(str(path), compression="zstd"))
    return path.open("rb")


def opens(opening: Callable[[], IO[bytes]]) -> bool:
    """Whether the start of a file can be read."""
    try:
        with opening() as file:
            file.read(1)
    except (OSError, EOFError, zlib.error):
        return False
    return True


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, without their ends and a byte order mark; one that is too long is
    U+FFFD.

    A line ends with a line feed and nothing else: anything else in somebody's line would make rows
    of its parts.
    """
    with open_plain(path) as file:
        while line := file.readline(LONGEST_TEXT + 2):
            text = line.removesuffix(_LINE_FEED)
            if len(text) > LONGEST_TEXT:
                while line and not line.endswith(_LINE_FEED):
                    line = file.readline(_BLOCK)
            yield UNREADABLE if len(text) > LONGEST_TEXT else lossy(text).removeprefix(MARK)
