"""Published releases that are kept open, by the hash of their file, and what they answered."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

from dpublish.requests.analyst import open_for

OPEN_RELEASES: Final = 64
KEPT_ANSWERS: Final = 20_000


class OpenReleases:
    """Published releases that are open, each with a lock: answering fills caches of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[str, tuple[Any, threading.Lock]] = OrderedDict()
        self._answers: OrderedDict[tuple[str, ...], bytes] = OrderedDict()

    def known(self, where: tuple[str, ...]) -> bytes | None:
        return self._answers.get(where)

    def keep(self, where: tuple[str, ...], answer: bytes) -> None:
        if len(answer) <= 20_000:
            with self._lock:
                self._answers[where] = answer
                while len(self._answers) > KEPT_ANSWERS:
                    self._answers.popitem(last=False)

    def get(self, path: Path, digest: str) -> tuple[Any, threading.Lock]:
        with self._lock:
            found = self._open.get(digest)
            if found is None:
                found = self._open[digest] = open_for(path, "manifest"), threading.Lock()
                while len(self._open) > OPEN_RELEASES:
                    self._open.popitem(last=False)
        return found
