"""The wall around everything that sees private rows or counts: what fails in there leaves nothing
of it behind."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final, TypeVar

from dpublish.errors import PrivateSideError, PublishError
from dpublish.quiet import no_logs, quiet_native_code

T = TypeVar("T")
EXIT_CODES: Final = frozenset({0, 1, *(128 + number for number in signal.valid_signals())})
"""What signal handlers end a process with. Any other number could be a count."""


def guarded(action: Callable[[], T], *, foreseen: tuple[type[PublishError], ...] = ()) -> T:
    """Run something that sees private numbers. Whatever goes wrong in here comes out as one
    constant text.

    `action` fetches those numbers itself: a traceback keeps the local variables of every frame it
    passed, so they must live only in frames that end before the exception is raised. `foreseen` are
    exact types whose texts this package makes from public facts; those keep their text.
    """
    failure: BaseException
    try:
        with quiet_native_code(), no_logs():
            return action()
    except (KeyboardInterrupt, SystemExit, GeneratorExit) as stop:
        failure = stopped(stop)
    except PublishError as known:
        failure = type(known)(str(known)) if type(known) in foreseen else PrivateSideError()
    except BaseException:  # a panic of native code is not an Exception
        failure = PrivateSideError()
    # raised outside the handler, so that neither __cause__ nor __context__ holds an exception that
    # could quote a row
    raise failure


def stopped(stop: KeyboardInterrupt | SystemExit | GeneratorExit) -> BaseException:
    """The same wish to stop, made anew: texts, notes, causes and frames of the one that was caught
    may hold anything."""
    if isinstance(stop, SystemExit):
        usual = stop.code is None or (type(stop.code) is int and stop.code in EXIT_CODES)
        return SystemExit(stop.code if usual else 1)
    return KeyboardInterrupt() if isinstance(stop, KeyboardInterrupt) else GeneratorExit()
