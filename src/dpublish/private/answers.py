"""Which function answers which need: the one table that joins mechanisms to the private side.

A mechanism names the exact numbers it wants (`Need`); here stands who reads rows for them. Modules are loaded when needed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpublish.mechanisms.base import Need
from dpublish.schema import Schema

if TYPE_CHECKING:
    from dpublish.readers.sources import Source

ANSWERS = {
    "SectorCounts": "dpublish.private.sector_counts:answer_need",
    "GridPoints": "dpublish.private.positions:answer_need",
    "AgentLists": "dpublish.private.structures:answer_need",
    "AgentRows": "dpublish.private.structures:answer_need",
    "GraphEdges": "dpublish.private.structures:answer_need",
    "PresentItems": "dpublish.private.structures:answer_need",
    "Transactions": "dpublish.private.baskets:answer_need",
    "CellCounts": "dpublish.private.counts:answer_need",
    "CodedRows": "dpublish.private.counts:answer_need",
}


def answer_need(
    need: Need, source: Source, schema: Schema, *, key: bytes, progress: Callable[[int], None] | None = None
) -> Any:
    """The exact private numbers that a mechanism asked for."""
    module, name = ANSWERS[type(need).__name__].split(":")
    return getattr(import_module(module), name)(need, source, schema, key=key, progress=progress)
