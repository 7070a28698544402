"""One process, and one thread of it, at a time: a lock on a file, which ends with the process that
holds it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dpublish.errors import LedgerUnavailable
from dpublish.owned import open_owned

_PAUSE = 0.002


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
