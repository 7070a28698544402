"""Counting on this machine, from batches; in several passes where memory asks for it."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from dpublish.declare.domain import Domain
from dpublish.declare.encode import CodeArray
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import (
    ContingencyTables,
    GridPoints,
    Private,
    SparseCounts,
    Statistic,
    TableCounts,
    Tabulator,
)

if TYPE_CHECKING:
    from dpublish.methods.set_partition.transactions import Baskets, Transactions


# What a mechanism may ask of rows, and nothing else.
#
# Exact integer counts are sums: a statistic of the whole is the sum of the statistics of its parts.
# So an engine counts parts wherever they lie, with the one encoder and the one set of kernels that
# there is, and adds up. A cell means the same in every engine because the same code reads it.

Progress = Callable[[int], None]


@dataclass(frozen=True, repr=False)
class Engine(Private, abc.ABC):
    """Counts the rows of one source. `key` chooses the rows of units that have too many; `progress`
    is a sign of life that tells nothing about how much is left."""

    answers: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {
        "CellCounts": lambda engine, asked: engine.cells(asked.domain),
        "ContingencyTables": lambda engine, asked: engine.tables(asked),
        "Tabulation": lambda engine, asked: Tabulator(engine.tables, asked.domain, engine.cells),
        "CodedRows": lambda engine, asked: engine.rows(asked.domain),
        "Transactions": lambda engine, asked: engine.transactions(asked),
        "GridPoints": lambda engine, asked: engine.points(asked),
    }

    source: Any
    schema: Schema
    key: bytes
    progress: Progress | None = None

    def answer(self, statistic: Statistic) -> Any:
        """The exact private numbers that a mechanism asked for."""
        return self.answers[type(statistic).__name__](self, statistic)

    @classmethod
    def refusal(cls, statistic: Statistic) -> str | None:
        """Why this engine does not compute a statistic, from public facts; None if it does."""
        if type(statistic).__name__ in cls.answers:
            return None
        return "what it asks of rows is counted on one machine only"

    @classmethod
    def place(cls, statistic: Statistic, source: Any, schema: Schema) -> str | None:
        """Where a statistic is counted, from public facts, in a sentence for a plan."""
        return None

    @abc.abstractmethod
    def cells(self, domain: Domain) -> SparseCounts:
        """How many kept rows fall into each occupied cell."""

    @abc.abstractmethod
    def tables(self, asked: ContingencyTables) -> TableCounts:
        """Many contingency tables in one pass."""

    @abc.abstractmethod
    def rows(self, domain: Domain) -> list[CodeArray]:
        """The kept rows as codes."""

    @abc.abstractmethod
    def transactions(self, asked: Transactions) -> Baskets:
        """The kept transactions."""

    @abc.abstractmethod
    def points(self, asked: GridPoints) -> SparseCounts:
        """How many kept rows have each code of a grid."""


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
