"""Keeps native code, logs and warnings quiet while rows, or a file from anywhere, are being read.

A panic in compiled code is printed by its own runtime straight to the process's standard error,
with the value that caused it, before Python sees anything. So the descriptor itself is pointed
elsewhere, not `sys.stderr`. A program that shows progress meanwhile writes to a copy of the
descriptor made beforehand.

Logs are the host application's: it may have set any logger of any library to DEBUG, where
SQLAlchemy writes every row it fetches. So while rows are read nothing is logged in this process, by
whatever thread: libraries have threads of their own.

Warnings are held back in the same way, by counting who is inside: Python keeps one list of filters
for all threads, and a thread that put back what it found would let another's warnings through, or
undo what the host has set meanwhile. So one filter of our own is put first, and it alone is taken
out; where a copy of the list keeps it, it does nothing once nobody is inside.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sqlalchemy import Engine

STDERR = 2
EVERY_LEVEL: Final = sys.maxsize
_lock = threading.Lock()
_depth = 0
_saved = -1
_log_depth = 0
_log_level = logging.NOTSET
_warning_depth = 0
_held: list[Any] = []


class _WhileInside:
    """In the place of a pattern for messages: fits every warning while any thread is inside, and
    none afterwards."""

    def match(self, text: str) -> bool:
        return _warning_depth > 0


_OURS: Final = ("ignore", _WhileInside(), Warning, None, 0)


@contextlib.contextmanager
def quiet_native_code() -> Iterator[None]:
    """Standard error goes nowhere while any thread is inside."""
    _enter()
    try:
        yield
    finally:
        _leave()


@contextlib.contextmanager
def no_logs() -> Iterator[None]:
    """No logger passes anything on, at any level, while any thread is inside."""
    global _log_depth, _log_level
    with _lock:
        if _log_depth == 0:
            _log_level = logging.root.manager.disable
            logging.disable(EVERY_LEVEL)
        _log_depth += 1
    try:
        yield
    finally:
        with _lock:
            _log_depth -= 1
            if (
                _log_depth == 0 and logging.root.manager.disable == EVERY_LEVEL
            ):  # else the host has set it anew
                logging.disable(_log_level)


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    """No warning is shown, turned into an exception or recorded while any thread is inside."""
    global _warning_depth, _held
    with _lock:
        filters: Any = warnings.filters
        if not filters or filters[0] is not _OURS:
            _take_out(filters)
            filters.insert(0, _OURS)
            _held = filters
        _warning_depth += 1
    try:
        yield
    finally:
        with _lock:
            _warning_depth -= 1
            if _warning_depth == 0:
                _take_out(
                    _held
                )  # the host may be inside `catch_warnings`, and will put this list back
                _take_out(warnings.filters)


def _take_out(filters: Any) -> None:
    filters[:] = [one for one in filters if one is not _OURS]


def unlogged(engine: Engine) -> Engine:
    """The engine, with loggers that pass nothing on: statements, parameters and rows are nobody
    else's, whatever the level."""
    silent = logging.Logger("silent")  # in no hierarchy: no setting of the host's reaches it
    silent.disabled = True
    for part in (engine, engine.pool):
        part.logger = silent
        part._should_log_info = part._should_log_debug = lambda: False  # type: ignore[method-assign]
    return engine


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
