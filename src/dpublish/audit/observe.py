"""One run of a mechanism, with everything that a reader could see of it: output, error, log lines,
printed text, warnings."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpublish.noise.base import Noise
from dpublish.noise.enumerator import freeze
from dpublish.noise.tape import ReplayMismatch, TapMisuse

MechanismCall = Callable[[Noise, Any], Any]


@dataclass(frozen=True, slots=True)
class Observation:
    """`output` is frozen, so that equal means indistinguishable, array widths and key order
    included."""

    output: Any
    error: tuple[str, str] | None
    log: tuple[str, ...]
    printed: str
    warned: tuple[str, ...]

    def differences(self, other: Observation) -> list[str]:
        """Names of the parts that differ."""
        return [name for name in self.__slots__ if getattr(self, name) != getattr(other, name)]


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=0)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.split(".")[0] == "numba":
            return  # the compiler tells of types when a kernel is first used, never of values
        self.lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")


def observe(mechanism: MechanismCall, noise: Noise, data: Any) -> Observation:
    """Run `mechanism` on a copy of `data`. Exceptions are part of the observation, except those
    that end an audit."""
    handler = _Lines()
    logger = logging.getLogger()
    level = logger.level
    printed = io.StringIO()
    output: Any = None
    error = None
    with contextlib.ExitStack() as stack:
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.enter_context(contextlib.redirect_stdout(printed))
        stack.enter_context(contextlib.redirect_stderr(printed))
        stack.callback(logger.setLevel, level)
        stack.callback(logger.removeHandler, handler)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        try:
            output = mechanism(noise, copy.deepcopy(data))
        except (ReplayMismatch, TapMisuse):
            raise
        except Exception as raised:
            error = (type(raised).__name__, str(raised))
    texts = tuple(f"{item.category.__name__}: {item.message}" for item in caught)
    return Observation(freeze(output), error, tuple(handler.lines), printed.getvalue(), texts)
