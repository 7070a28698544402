"""Which function answers which need: the one table that joins mechanisms to the private side.

A mechanism names the exact numbers it wants (`Need`); here stands who reads rows for them. Modules
are loaded when needed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpublish.declare.schema import Schema
from dpublish.methods.base import Need

if TYPE_CHECKING:
    from dpublish.sources.sources import Source

ANSWERS = {
    "SectorCounts": "dpublish.counting.sectors:answer_need",
    "GridPoints": "dpublish.counting.points:answer_need",
    "AgentLists": "dpublish.counting.graphs:answer_need",
    "AgentRows": "dpublish.counting.graphs:answer_need",
    "GraphEdges": "dpublish.counting.graphs:answer_need",
    "PresentItems": "dpublish.counting.graphs:answer_need",
    "Transactions": "dpublish.counting.transactions:answer_need",
    "CellCounts": "dpublish.counting.cells:answer_need",
    "CodedRows": "dpublish.counting.cells:answer_need",
}


def answer_need(
    need: Need,
    source: Source,
    schema: Schema,
    *,
    key: bytes,
    progress: Callable[[int], None] | None = None,
) -> Any:
    """The exact private numbers that a mechanism asked for."""
    module, name = ANSWERS[type(need).__name__].split(":")
    return getattr(import_module(module), name)(need, source, schema, key=key, progress=progress)
