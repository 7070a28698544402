"""Keeps native code, logs and warnings quiet while rows, or a file from anywhere, are being read,
and leaves the rest of the process its voice.

A *private* thread is one that is inside, or that such a thread has begun (libraries have threads of
their own). Nothing that it logs, warns of, writes to `sys.stderr` or fails with in passing (an
exception in a thread or a finaliser) reaches anybody. Other threads, say of a server that answers
meanwhile, log and write as before.

A panic in compiled code is printed by its own runtime straight to the process's standard error,
from a thread that Python does not know, with the value that caused it, before Python sees anything.
So the descriptor itself is pointed elsewhere; Python's own stream of it, which handlers of other
threads hold, goes on through a copy of the descriptor. A program that shows progress meanwhile
writes to a copy of its own, made beforehand.

Hooks are put in by the first to enter and taken out by the last to leave, and only where they are
still ours: a hook that the host has put over one of them stays, and ours below it does nothing once
nobody is inside.
"""

from __future__ import annotations

import contextlib
import io
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
LIBRARIES: Final = frozenset({"py4j", "pyspark"})
"""Loggers of libraries that work in threads which were there before: silent in every thread."""
_BEGUN: Final = "_dpublish_begun_inside"
_lock = threading.RLock()
_depth = 0
_saved = -1
_streams: list[io.FileIO] = []
_inside: dict[int, int] = {}
_held: list[Any] = []
_hooks: list[tuple[Any, str, Any, Any]] = []


def private() -> bool:
    """Whether the current thread is inside, or was begun by one that is or was, while anybody
    is."""
    if not _inside:
        return False
    number = threading.get_ident()
    # `current_thread` would make up an object for a thread that Python does not know
    thread = threading._active.get(number)  # type: ignore[attr-defined]
    return number in _inside or hasattr(thread, _BEGUN)


class _WhilePrivate:
    """In the place of a pattern for messages: fits every warning of a private thread, and no
    other."""

    def match(self, text: str) -> bool:
        return private()


_OURS: Final = ("ignore", _WhilePrivate(), Warning, None, 0)


class _Void(io.RawIOBase):
    """Takes everything and keeps nothing."""

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        return len(content)


_nowhere: Final = io.TextIOWrapper(io.BufferedWriter(_Void()), encoding="utf-8", write_through=True)


class _OthersOnly:
    """`sys.stderr` while anybody is inside: a private thread gets one that leads nowhere."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(_nowhere if private() else self._stream, name)


@contextlib.contextmanager
def quiet_native_code() -> Iterator[None]:
    """The descriptor of standard error leads nowhere while any thread is inside."""
    _enter()
    try:
        yield
    finally:
        _leave()


@contextlib.contextmanager
def no_logs() -> Iterator[None]:
    """What this thread, and those that it begins, would log, warn of or write to `sys.stderr`
    reaches nobody, at any level."""
    number = threading.get_ident()
    with _lock:
        if not _inside:
            _put_in()
        _put_first()
        _inside[number] = _inside.get(number, 0) + 1
    try:
        yield
    finally:
        with _lock:
            _inside[number] -= 1
            if not _inside[number]:
                del _inside[number]
            if not _inside:
                _take_out()


def _put_in() -> None:
    """Ask `private` first, wherever a thread's words would leave it."""
    log, handle, start = logging.Logger._log, logging.Logger.handle, threading.Thread.start
    failed, dropped = threading.excepthook, sys.unraisablehook

    def quiet_log(self: logging.Logger, *args: Any, **options: Any) -> None:
        if not _silent(self.name):  # one level more: the caller is not this file
            log(self, *args, **{**options, "stacklevel": options.get("stacklevel", 1) + 1})

    def quiet_handle(self: logging.Logger, record: logging.LogRecord) -> None:
        if not _silent(record.name):
            handle(self, record)

    def marked_start(self: threading.Thread) -> None:
        if private():
            setattr(self, _BEGUN, True)
        start(self)

    def quiet_failed(args: Any) -> None:
        if not private():
            failed(args)

    def quiet_dropped(args: Any) -> None:
        if not private():
            dropped(args)

    _hook(logging.Logger, "_log", quiet_log)
    _hook(logging.Logger, "handle", quiet_handle)
    _hook(threading.Thread, "start", marked_start)
    _hook(threading, "excepthook", quiet_failed)
    _hook(sys, "unraisablehook", quiet_dropped)
    if sys.stderr is not None:
        _hook(sys, "stderr", _OthersOnly(sys.stderr))


def _hook(place: Any, name: str, ours: Any) -> None:
    _hooks.append((place, name, getattr(place, name), ours))
    setattr(place, name, ours)


def _silent(logger: str) -> bool:
    return bool(_inside) and (private() or logger.split(".", 1)[0] in LIBRARIES)


def _put_first() -> None:
    """Our filter before all others: Python keeps one list of them for all threads."""
    global _held
    filters: Any = warnings.filters
    if not filters or filters[0] is not _OURS:
        _without_ours(filters)
        filters.insert(0, _OURS)
        _held = filters


def _take_out() -> None:
    _without_ours(_held)  # the host may be inside `catch_warnings`, and will put this list back
    _without_ours(warnings.filters)
    for place, name, before, ours in reversed(_hooks):
        if getattr(place, name) is ours:
            setattr(place, name, before)
    _hooks.clear()


def _without_ours(filters: Any) -> None:
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
                _lead_streams(_saved)
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
            for raw in _streams:
                raw.__init__(STDERR, "w", closefd=False)  # type: ignore[misc]
            _streams.clear()
            os.close(_saved)
            _saved = -1


def _lead_streams(copy: int) -> None:
    """Python's own streams of standard error, whoever holds them, write to a copy of the
    descriptor."""
    for stream in (sys.stderr, sys.__stderr__):
        buffer = getattr(stream, "buffer", None)
        raw = getattr(buffer, "raw", buffer)  # without a buffer under PYTHONUNBUFFERED
        if isinstance(raw, io.FileIO) and not raw.closed and raw.fileno() == STDERR:
            raw.__init__(copy, "w", closefd=False)  # type: ignore[misc]
            _streams.append(raw)


def _flush() -> None:
    """What Python still holds for standard error belongs to this side of the switch."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
