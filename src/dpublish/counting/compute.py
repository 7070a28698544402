"""The one place that joins mechanisms to the private side.

A mechanism names the exact numbers it wants (`Statistic`); the engine of the source counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from dpublish.declare.schema import Schema
from dpublish.declare.statistic import Statistic
from dpublish.errors import PlanError

if TYPE_CHECKING:
    from dpublish.counting.engines.local import Engine
    from dpublish.sources.sources import Source


def compute(
    statistic: Statistic,
    source: Source,
    schema: Schema,
    *,
    key: bytes,
    progress: Callable[[int], None] | None = None,
) -> Any:
    """The exact private numbers that a mechanism asked for."""
    return engine_of(source)(source, schema, key, progress).answer(statistic)


def engine_of(source: Source) -> type[Engine]:
    """Which engine counts the rows of a source."""
    module = import_module(f"dpublish.counting.engines.{source.engine}")
    return cast("type[Engine]", getattr(module, source.engine.capitalize()))


def place_of(statistic: Statistic, source: Source, schema: Schema) -> str | None:
    """Where a statistic is counted, in a sentence for a plan; None on this machine, from rows."""
    return engine_of(source).place(statistic, source, schema)


def require_countable(statistic: Statistic, source: Source) -> None:
    """Refuse, before anything is spent, what the engine of this source does not count."""
    reason = engine_of(source).refusal(statistic)
    if reason is not None:
        raise PlanError(
            f"This method cannot count on the workers of {source.engine.capitalize()}: {reason}. "
            "Give the rows as a file, a frame or a query. Nothing was spent."
        )
