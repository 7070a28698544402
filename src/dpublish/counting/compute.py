"""Which function computes which statistic: the one table that joins mechanisms to the private side.

A mechanism names the exact numbers it wants (`Statistic`); here stands who reads rows for them.
Modules are loaded when needed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpublish.declare.schema import Schema
from dpublish.declare.statistic import Statistic

if TYPE_CHECKING:
    from dpublish.sources.sources import Source

ANSWERS = {
    "SectorCounts": "dpublish.counting.points:count_sectors",
    "GridPoints": "dpublish.counting.points:compute",
    "AgentLists": "dpublish.counting.graphs:compute",
    "AgentRows": "dpublish.counting.graphs:compute",
    "GraphEdges": "dpublish.counting.graphs:compute",
    "PresentItems": "dpublish.counting.graphs:compute",
    "Transactions": "dpublish.counting.transactions:compute",
    "CellCounts": "dpublish.counting.cells:compute",
    "CodedRows": "dpublish.counting.cells:compute",
    "ContingencyTables": "dpublish.counting.cells:compute",
}


def compute(
    statistic: Statistic,
    source: Source,
    schema: Schema,
    *,
    key: bytes,
    progress: Callable[[int], None] | None = None,
) -> Any:
    """The exact private numbers that a mechanism asked for."""
    module, name = ANSWERS[type(statistic).__name__].split(":")
    return getattr(import_module(module), name)(
        statistic, source, schema, key=key, progress=progress
    )
