"""Counting on this machine, from batches; in several passes where memory asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from dpublish.counting.engines.base import Engine
from dpublish.declare.domain import Domain
from dpublish.declare.encode import CodeArray
from dpublish.declare.statistic import (
    ContingencyTables,
    GridPoints,
    SparseCounts,
    Statistic,
    TableCounts,
)

if TYPE_CHECKING:
    from dpublish.methods.set_partition.transactions import Baskets, Transactions


class Local(Engine):
    """Reads a source in this process. Modules are loaded when needed."""

    answers: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {
        **Engine.answers,
        "ColumnValues": lambda engine, asked: engine.read("values:compute", asked),
        "SectorCounts": lambda engine, asked: engine.read("points:count_sectors", asked),
        **dict.fromkeys(
            ("AgentLists", "AgentRows", "GraphEdges", "PresentItems"),
            lambda engine, asked: engine.read("graphs:compute", asked),
        ),
    }

    @property
    def kept(self) -> Any:
        """The source, without the rows that break a declared rule."""
        from dpublish.counting.ruled import without_broken

        return without_broken(self.source, self.schema)

    def read(self, dotted: str, asked: Statistic) -> Any:
        module, name = dotted.split(":")
        compute = getattr(import_module(f"dpublish.counting.{module}"), name)
        return compute(asked, self.kept, self.schema, key=self.key, progress=self.progress)

    def cells(self, domain: Domain) -> SparseCounts:
        from dpublish.counting.cells import count_cells

        return count_cells(self.kept, self.schema, domain, key=self.key, progress=self.progress)

    def tables(self, asked: ContingencyTables) -> TableCounts:
        from dpublish.counting.cells import count_in_tables

        return count_in_tables(asked, self.kept, self.schema, key=self.key, progress=self.progress)

    def rows(self, domain: Domain) -> list[CodeArray]:
        from dpublish.counting.cells import coded_rows

        return coded_rows(self.kept, self.schema, domain, key=self.key, progress=self.progress)

    def transactions(self, asked: Transactions) -> Baskets:
        from dpublish.counting.transactions import compute

        return compute(asked, self.kept, self.schema, key=self.key, progress=self.progress)

    def points(self, asked: GridPoints) -> SparseCounts:
        from dpublish.counting.points import count_points

        return count_points(asked, self.kept, self.schema, key=self.key, progress=self.progress)
