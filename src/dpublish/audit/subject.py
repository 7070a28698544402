"""A release method of this library as something to audit: its tiny neighbouring inputs, its claim
and a callable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Words
from dpublish.audit.neighbours import row_pairs, rows_of, unit_pairs
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import (
    CellCounts,
    CodedRows,
    ContingencyTables,
    SparseCounts,
    TableCounts,
    Tabulation,
    Tabulator,
)
from dpublish.errors import InputError
from dpublish.methods.base import Mechanism, Output
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

Rows = tuple[int, ...]


@dataclass(frozen=True)
class Subject:
    """Call it with (noise, rows); rows are cell numbers of the domain that the method asks to have
    counted.

    Counting and bounding are not part of it: it audits the mechanism, the twin run audits the whole
    program.
    """

    mechanism: Mechanism
    plan: Plan
    domain: Domain

    @property
    def name(self) -> str:
        return self.plan.method

    @property
    def epsilon(self) -> Fraction:
        return self.plan.cost.epsilon

    def __call__(self, noise: Noise, rows: Rows) -> Output:
        return self.mechanism.run(noise, self.numbers(rows), self.plan)

    def numbers(self, rows: Rows) -> Any:
        """What the private side would hand to the method for these rows."""
        statistic = self.mechanism.statistic(self.plan)
        if isinstance(statistic, CellCounts):
            return _counted(np.array(rows, dtype=np.uint64))
        shape = self.domain.shape
        codes = np.indices(shape, dtype=np.int64).reshape(len(shape), -1)
        columns = [of_cell[list(rows)] for of_cell in codes]
        if isinstance(statistic, Tabulation):
            return tabulator_of(columns, statistic.domain)
        return columns

    def pairs(self, *, rows: int, cells: int | None = None) -> Iterator[tuple[Rows, Rows]]:
        """All neighbouring inputs of up to `rows` rows over the first `cells` cells (default:
        all)."""
        universe = range(min(self.domain.size, cells or self.domain.size))
        schema = self.plan.schema
        most = schema.unit.max_rows
        if most == 1:
            return row_pairs(schema.neighbours, universe, rows=rows)
        units = max(1, rows // most)
        pairs = unit_pairs(schema.neighbours, universe, units=units, max_rows_per_unit=most)
        return ((rows_of(one), rows_of(other)) for one, other in pairs)


def tabulator_of(columns: Sequence[NDArray[Any]], domain: Domain) -> Tabulator:
    """Counts tables of rows of codes, which are held: an input of an audit is read once."""
    return Tabulator(partial(_tables_of, columns), domain, partial(_cells_of, columns, domain))


def _cells_of(columns: Sequence[NDArray[Any]], fine: Domain, domain: Domain) -> SparseCounts:
    """Codes of the bins that hold each fine cell, counted together."""
    cells = np.zeros(len(columns[0]), dtype=np.uint64)
    for codes, cell, axis in zip(columns, fine.axes, domain.axes, strict=True):
        if cell.edges != axis.edges:
            inside = np.searchsorted(axis.edges, cell.edges[: cell.base], side="right") - 1
            extra = axis.base + np.arange(cell.cardinality - cell.base)
            codes = np.concatenate([inside, extra])[codes]
        cells = cells * np.uint64(axis.cardinality) + codes.astype(np.uint64)
    return _counted(cells)


def _counted(cells: Words) -> SparseCounts:
    return SparseCounts.summed(cells, np.ones(cells.size, dtype=np.int64))


def _tables_of(columns: Sequence[NDArray[Any]], asked: ContingencyTables) -> TableCounts:
    grouped = [asked.groups[i][c] if i in asked.groups else c for i, c in enumerate(columns)]
    tables = {}
    for table in asked.tables:
        counts = np.zeros([asked.shape[axis] for axis in table], dtype=np.int64)
        np.add.at(counts, tuple(grouped[axis] for axis in table), 1)
        tables[table] = counts
    return TableCounts(tables)


def subject(mechanism: Mechanism, schema: Schema, cost: Cost) -> Subject:
    """Plan `mechanism` as the gate would, and wrap it for an audit."""
    plan = mechanism.plan(schema, cost)
    statistic = mechanism.statistic(plan)
    if not isinstance(statistic, CellCounts | CodedRows | Tabulation):
        raise InputError(
            f"Method '{plan.method}' asks for {type(statistic).__name__}, and this audit only "
            f"makes up "
            f"rows of a table. Audit a "
            "function (noise, data) that calls its run() with numbers of your own."
        )
    domain = statistic.domain
    if domain.size > 1 << 16:
        raise InputError(
            f"The domain has {domain.size} cells. Audit the method on a smaller schema."
        )
    return Subject(mechanism, plan, domain)
