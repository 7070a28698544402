"""What the methods over an explicit query class share: reading the request, the public number of
rows, the domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Ints
from dpublish.compiled import njit
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import SparseCounts
from dpublish.methods.field_types import require_columns, require_pure
from dpublish.privacy.cost import Cost
from dpublish.workloads import theory
from dpublish.workloads.query_classes import QueryClass, Table, query_class

MAX_UNIVERSE = 1 << 20


@dataclass(frozen=True)
class Request:
    """A query class over the cells of a domain, and the public number of rows that stands for n."""

    domain: Domain
    queries: QueryClass
    count: int
    rows: int

    def moved(self, schema: Schema, table: Table) -> float:
        """How far one unit moves all answers together, in rows."""
        moved = theory.class_sensitivity(
            table, neighbours=schema.neighbours, rows_per_unit=schema.unit.max_rows
        )
        return moved / self.queries.unit

    def theorems(self, schema: Schema, table: Table, epsilon: float) -> list[str]:
        """What theory says of the class."""
        return theory.class_sentences(
            some_queries(table) / self.queries.unit,
            rows=self.rows,
            epsilon=epsilon,
            neighbours=schema.neighbours,
            rows_per_unit=schema.unit.max_rows,
        )


def read_request(
    schema: Schema,
    cost: Cost,
    columns: Sequence[str] | None,
    bins: int | None,
    queries: QueryClass | str,
    what: str,
) -> Request:
    require_columns(schema, f"{what} needs")
    require_pure(cost, f"{what} costs")
    rows = schema.rows_or_nominal
    if rows is None:
        key = "size" if schema.neighbours == "replace-one" else "nominal_size"
        raise PlanError(f"{what} compares shares of the rows: add {key} = ... to [dataset].")
    names = tuple(schema.columns) if columns is None else tuple(columns)
    if not names or len(set(names)) != len(names):
        raise PlanError("columns must list at least one column, and none twice.")
    if rows > MAX_ROWS:
        raise PlanError(
            f"{what} compares whole numbers of 64 bits, for at most 2^40 rows; the schema allows "
            f"{rows:,}."
        )
    domain = without_precision(schema, bins).domain(names, rows=rows, bins=bins)
    if not 2 <= domain.size <= MAX_UNIVERSE:
        raise PlanError(
            f"The columns span {domain.size:,} cells; {what} works on 2 to {MAX_UNIVERSE:,}. "
            f"Choose other columns or bins."
        )
    # run() reads the class back from its text, so that text is what is planned for
    chosen = query_class(query_class(queries).text())
    count = chosen.size(domain)
    if count < 1:
        raise PlanError(f"The class '{chosen.text()}' has no query over {', '.join(names)}.")
    return Request(domain, chosen, count, rows)


MAX_ROWS = 1 << 40


def without_precision(schema: Schema, bins: int | None) -> Schema:
    """A precision is finer than a query class can use: bins that are asked for take its place."""
    if bins is None:
        return schema
    return replace(
        schema,
        columns={
            name: replace(column, precision=None)
            if column.bins is None and column.edges is None
            else column
            for name, column in schema.columns.items()
        },
    )


def dense_counts(numbers: SparseCounts, domain: Domain) -> Ints:
    counts = np.zeros(domain.size, dtype=np.int64)
    counts[numbers.cells.astype(np.int64)] = numbers.counts
    return counts


def true_answers(table: Table, numbers: SparseCounts, domain: Domain) -> Ints:
    """The sums of all queries over the private counts, exactly."""
    out = np.empty(table.shape[0], dtype=np.int64)
    exact_sums(table, dense_counts(numbers, domain), out)
    return out


def some_queries(table: Table) -> Table:
    """At most 512 queries on at most 64 cells, spread evenly: enough of a class to see what it
    shatters."""
    return table[:: -(-table.shape[0] // 512), :: -(-table.shape[1] // 64)]


def weighted_answers(table: Table, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sums of all queries over published weights."""
    out = np.empty(table.shape[0])
    weighted_sums(table, weights, out)
    return out


# Scores of all multisets, and multiplicative weights, compiled.


@njit(cache=True, nogil=True)
def exact_sums(table: NDArray[np.generic], counts: Ints, out: Ints) -> None:
    """out[q] = sum of table[q, x] * counts[x], in whole numbers; the table stays one or two bytes a
    value."""
    for q in range(table.shape[0]):
        total = np.int64(0)
        for x in range(table.shape[1]):
            total += np.int64(table[q, x]) * counts[x]
        out[q] = total


@njit(cache=True, nogil=True)
def weighted_sums(table: NDArray[np.generic], weights: Floats, out: Floats) -> None:
    """The same for weights. Every row is added up from its first cell to its last, so results do
    not depend on the machine."""
    for q in range(table.shape[0]):
        total = 0.0
        for x in range(table.shape[1]):
            total += table[q, x] * weights[x]
        out[q] = total


@njit(cache=True, nogil=True)
def multiset_scores(target: Ints, table: Ints, size: int, scores: Ints) -> None:
    """scores[i] = -max_q |target_q - sum of table[q, x] over the i-th multiset|, multisets in
    lexicographic order.

    One query vector is added for each element that changes, so most multisets cost one addition and
    one maximum.
    """
    queries, points = table.shape
    chosen = np.zeros(size, dtype=np.int64)
    partial = np.zeros((size + 1, queries), dtype=np.int64)
    depth = 0
    place = 0
    while True:
        for level in range(depth, size):
            for q in range(queries):
                partial[level + 1, q] = partial[level, q] + table[q, chosen[level]]
        worst = np.int64(0)
        for q in range(queries):
            gap = abs(target[q] - partial[size, q])
            if gap > worst:
                worst = gap
        scores[place] = -worst
        place += 1
        depth = size - 1
        while depth >= 0 and chosen[depth] == points - 1:
            depth -= 1
        if depth < 0:
            return
        chosen[depth] += 1
        for level in range(depth + 1, size):
            chosen[level] = chosen[depth]


@njit(cache=True, nogil=True)
def reweigh(weights: Floats, row: Floats, answer: float, total: float) -> None:
    """One multiplicative update: cells that the query counts go up when the answer is above what
    the weights say."""
    said = 0.0
    for x in range(weights.size):
        said += row[x] * weights[x]
    push = (answer - said) / (2.0 * total)
    norm = 0.0
    for x in range(weights.size):
        weights[x] *= np.exp(push * row[x])
        norm += weights[x]
    for x in range(weights.size):
        weights[x] *= total / norm
