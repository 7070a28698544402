"""The wall around everything that sees private rows or counts: what fails in there leaves nothing of it behind."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from dpublish.errors import PrivateSideError, PublishError
from dpublish.quiet import no_logs, quiet_native_code

T = TypeVar("T")


def guarded(action: Callable[[], T], *, foreseen: tuple[type[PublishError], ...] = ()) -> T:
    """Run something that sees private numbers. Whatever goes wrong in here comes out as one constant text.

    `action` fetches those numbers itself: a traceback keeps the local variables of every frame it passed, so they must live
    only in frames that end before the exception is raised. `foreseen` are exact types whose texts this package makes from
    public facts; those keep their text.
    """
    failure: BaseException
    try:
        with warnings.catch_warnings(), quiet_native_code(), no_logs():
            warnings.simplefilter("ignore")
            return action()
    except (KeyboardInterrupt, SystemExit, GeneratorExit) as stop:
        failure = stop.with_traceback(None)
        failure.__cause__ = failure.__context__ = None
    except PublishError as known:
        failure = type(known)(str(known)) if type(known) in foreseen else PrivateSideError()
    except BaseException:  # a panic of native code is not an Exception
        failure = PrivateSideError()
    # raised outside the handler, so that neither __cause__ nor __context__ holds an exception that could quote a row
    raise failure
