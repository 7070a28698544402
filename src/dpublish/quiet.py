"""Keeps native code quiet while rows, or a file from anywhere, are being read.

A panic in compiled code is printed by its own runtime straight to the process's standard error, with the value that caused
it, before Python sees anything. So the descriptor itself is pointed elsewhere, not `sys.stderr`. A program that shows progress
meanwhile writes to a copy of the descriptor made beforehand.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

STDERR = 2
_lock = threading.Lock()
_depth = 0
_saved = -1


@contextlib.contextmanager
def quiet_native_code() -> Iterator[None]:
    """Standard error goes nowhere while any thread is inside."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _depth, _saved
    with _lock:
        if _depth == 0:
            _flush()
            try:
                _saved = os.dup(STDERR)
            except OSError:  # a process without standard error has nothing to silence
                _saved = -1
            if _saved >= 0:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, STDERR)
                os.close(nowhere)
        _depth += 1


def _leave() -> None:
    global _depth, _saved
    with _lock:
        _depth -= 1
        if _depth == 0 and _saved >= 0:
            _flush()
            os.dup2(_saved, STDERR)
            os.close(_saved)
            _saved = -1


def _flush() -> None:
    """What Python still holds for standard error belongs to this side of the switch."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
