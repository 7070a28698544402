"""Synthetic weights over the cells of a domain, made to answer one class of queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.declare.domain import Domain
from dpublish.errors import BundleError, PublishError, QueryError
from dpublish.estimate import Estimate, check_level
from dpublish.models.integer_limits import counts_between
from dpublish.query.masks import cover_table, select
from dpublish.query.predicate import Node, columns_of, parse_predicate
from dpublish.query.sql_limits import CellsSay, Where, answer_sql
from dpublish.releases.aggregates import Asked, CellsRelease
from dpublish.releases.bundle.manifest import read_domain, table, text, whole
from dpublish.releases.frames import (
    cell_frame,
    counted_table,
    decode_cells,
    marginal_shape,
    named_columns,
    read_columns,
    sample_rows,
    sql_frame,
)
from dpublish.releases.synthetic.intervals import ClassLimits
from dpublish.workloads.query_classes import QueryClass, query_class

MAX_ROWS = 1 << 52
MAX_UNIVERSE = 1 << 20
CELLS_SCHEMA: dict[str, Any] = {"cell": pl.UInt64, "weight": pl.Float64}
ASKED_SCHEMA: dict[str, Any] = {"query": pl.UInt32, "answer": pl.Int64}


MADE_FOR = "the interval is the bound that the release states"
BOUNDS = (
    "not made for this question: the interval follows from those it was made for, and is "
    "wide where they cannot tell"
)
NOTHING = (
    "the release says nothing sure about it: it was not made for this question, or its "
    "bound is no better"
)


class SyntheticRelease(CellsRelease):
    """Weighted cells. Queries of the class that it was made for have the stated error; others what
    follows from it."""

    kind: ClassVar[str] = "synthetic"
    own: ClassVar[tuple[str, ...]] = ("answers",)

    def parse(self) -> None:
        manifest, tables = self.manifest, self.tables
        self.domain: Domain = read_domain(manifest.get("domain"))
        facts = table(manifest, "facts", "manifest")
        self.rows = whole(facts, "rows", "facts", limit=MAX_ROWS, lowest=1)
        bound = facts.get("error_bound")
        if (
            isinstance(bound, bool)
            or not isinstance(bound, int | float)
            or not 0 <= bound <= MAX_ROWS
        ):
            raise BundleError("facts: 'error_bound' must be a number of rows.")
        try:
            self.queries: QueryClass = query_class(text(facts, "queries", "facts"))
            """The class that the release was made for."""
        except PublishError as error:
            raise BundleError(f"facts: 'queries' cannot be read: {str(error)[:200]}") from None
        if "cells" not in tables or not set(tables) <= {"cells", "asked"}:
            raise BundleError(
                "A synthetic release holds cells.parquet (and may hold asked.parquet)."
            )
        cells, weights = read_columns(
            tables["cells"],
            CELLS_SCHEMA,
            "cells.parquet must have the columns cell (UInt64) and weight (Float64) without nulls.",
        )
        if not cells.size or int(cells[-1]) >= self.domain.size or np.any(cells[1:] <= cells[:-1]):
            raise BundleError("cells.parquet must list cells of the domain in order, each once.")
        if (
            not np.isfinite(weights).all()
            or np.any(weights < 0)
            or float(weights.sum()) > 2 * MAX_ROWS
        ):
            raise BundleError("cells.parquet holds a weight that is not believable.")
        if "asked" in tables:
            read_columns(
                tables["asked"],
                ASKED_SCHEMA,
                "asked.parquet must have the columns query (UInt32) and answer (Int64) without "
                "nulls.",
            )
        self.error_bound = float(bound)
        self.cells: NDArray[np.uint64] = cells
        self.weights: NDArray[np.float64] = weights

    def answers(self, queries: QueryClass | str | None = None) -> NDArray[np.float64]:
        """The answers to a class (by default its own), in rows, in the order of the class."""
        chosen = self.queries if queries is None else query_class(queries)
        return np.asarray(
            chosen.table(self.domain)[:, self.cells.astype(np.int64)] @ self.weights / chosen.unit
        )

    def estimate(self, predicate: str | Node, *, level: float = 0.95) -> Estimate:
        """How many rows satisfy a predicate, at a level of at most 95%.

        A query of the release's class has the stated bound. For any other the limits follow from
        the queries of the class and are wide where those cannot tell, up to all rows; `note` says
        which. They allow for all or none of a bin that is cut.
        """
        self._check_level(level)
        node = parse_predicate(predicate, self.domain)
        if (none := self.ruled_out(node, level)) is not None:
            return none
        selection = select(node, self.domain)
        found = selection.cover(
            lambda index: decode_cells(self.cells, self.domain, index), len(self.cells)
        )
        value = float(found.share @ self.weights)
        low, high = 0.0, self._most
        if self.limits is not None:
            places = sorted(columns_of(node))
            every = cover_table(node, self.domain, places)
            ends = self.limits.of(places, every.inside, every.touched)
            low, high = map(float, counts_between(*ends))
        value = min(max(value, low), high)
        # a stated bound gives half of itself as the standard error, so that two of them are the
        # interval; less where certain facts leave a shorter one (a value that cannot occur, all
        # rows)
        reach = max(value - low, high - value)
        near = reach <= self._bound * (1 + 1e-9) and selection.inside == selection.touched
        note = NOTHING if low <= 0 and high >= self._most else MADE_FOR if near else BOUNDS
        return Estimate(
            value, min(self._bound if near else reach, high - low) / 2, low, high, level, note=note
        )

    def met(self, node: Node, level: float) -> Estimate:
        # the stated bound holds for all queries at once, so that asking several costs no confidence
        return self.estimate(node, level=0.95)

    def cell_counts(self, places: tuple[int, ...]) -> NDArray[np.float64]:
        codes = [decode_cells(self.cells, self.domain, place) for place in places]
        return counted_table(self.domain, places, codes, self.weights)

    def cell_sums(self, places: tuple[int, ...]) -> None:
        """Limits follow from those of counts, which hold all at once."""

    def counted_together(self, *columns: str) -> bool:
        """Weights are fitted to all columns at once; limits say how far they can be trusted."""
        named_columns(self.domain, columns)
        return True

    def aggregate(self, kind: str, asked: Asked, where: Where, level: float) -> Estimate:
        self._check_level(level)
        return super().aggregate(kind, asked, where, level)

    def marginal(self, *columns: str, level: float = 0.95) -> pl.DataFrame:
        """Counts of every combination of codes of the named columns: labels, count, standard_error,
        low, high.

        The limits are those of `estimate`: the stated bound for counts that are queries of the
        release's class, else wider.
        """
        self._check_level(level)
        places = named_columns(self.domain, columns)
        marginal_shape(self.domain, places)
        counts = self.cell_counts(tuple(places)).ravel()
        low, high = np.zeros(counts.size), np.full(counts.size, self._most)
        if self.limits is not None:
            low, high = counts_between(*(ends.reshape(-1) for ends in self.limits.table(places)))
        counts = np.clip(counts, low, high)
        reach = np.maximum(counts - low, high - counts)
        near = reach <= self._bound * (1 + 1e-9)
        error = np.minimum(np.where(near, self._bound, reach), high - low) / 2
        return self.by_columns(
            places,
            {"count": counts, "standard_error": error, "low": low, "high": high},
        )

    @cached_property
    def limits(self) -> ClassLimits | None:
        """Limits of counts, from the bound; None where the domain is larger than one that a release
        can be made for."""
        if self.domain.size > MAX_UNIVERSE:
            return None
        weights = np.zeros(self.domain.size)
        weights[self.cells.astype(np.int64)] = self.weights
        return ClassLimits(
            self.domain, self.queries, weights, self._bound, least=self._least, most=self._most
        )

    @property
    def _bound(self) -> float:
        # a bound of all rows is none where their number is but a public guess
        none = self.error_bound == self.rows and not self._public_size
        return math.inf if none else self.error_bound

    @property
    def bounded(self) -> bool:
        """Whether a bound is stated."""
        return self._bound < math.inf

    @property
    def _public_size(self) -> bool:
        return bool(self.manifest["privacy"].get("neighbours") == "replace-one")

    @property
    def _most(self) -> float:
        """A number that no count exceeds for certain."""
        return float(self.rows) if self._public_size else math.inf

    @property
    def _least(self) -> float:
        """How many rows are counted for certain: all, where a unit is a row and no rule of a column
        drops one."""
        return (
            float(self.rows)
            if self._keeps_every_row
            and self._public_size
            and self.manifest["privacy"].get("unit") == "one row"
            else 0.0
        )

    @property
    def _keeps_every_row(self) -> bool:
        return all(
            axis.other or (axis.missing and axis.outside == "clip") for axis in self.domain.axes
        )

    @property
    def error(self) -> str:
        """The stated error, in words."""
        if not self.bounded:
            return "no bound: the number of rows is private"
        said = f"at most {self.error_bound:,.0f} rows on each of them, with probability 95%"
        # all else that the number of rows says of the error is in the bound
        drops = self.manifest["method"] == "net" and not self._keeps_every_row
        return f"{said}, and one more for each row that a rule dropped" if drops else said

    def sql(self, query: str, *, level: float | None = 0.95) -> pl.DataFrame:
        """Answer a SELECT over the table `release`. Aggregates have limits and notes beside them,
        unless `level` is None."""
        return answer_sql(
            CellsSay(self),
            query,
            sql_frame(self.cells, self.weights, self.domain),
            self.domain.names,
            self.domain.axes,
            level,
        )

    def to_frame(self) -> pl.DataFrame:
        """One row a cell and its weight as `weight`. Bins show as midpoints."""
        return cell_frame(self.cells, self.weights, self.domain, intervals=False)

    def sample(self, n: int | None = None, *, seed: int | None = None) -> pl.DataFrame:
        """Synthetic rows in proportion to the weights; as many as there were, unless `n` is
        given. Error bars computed from them as if they were real rows are far too small."""
        if not self.weights.any():
            raise QueryError(
                "No cell of this release has a weight, so there is nothing to draw rows from."
            )
        return sample_rows(
            self.cells, self.weights, self.domain, self.rows if n is None else n, seed
        )

    def weighted_codes(
        self, columns: Sequence[str]
    ) -> tuple[list[NDArray[np.int64]], NDArray[np.float64]]:
        """The codes of the cells along some columns, and their weights."""
        return [
            decode_cells(self.cells, self.domain, place)
            for place in named_columns(self.domain, columns)
        ], self.weights

    @staticmethod
    def _check_level(level: float) -> None:
        if check_level(level) > 0.95:
            raise QueryError(
                "The error of this release is stated at 95%; ask for a level of at most 0.95."
            )

    def summary(self) -> dict[str, str]:
        return {
            **super().summary(),
            "columns": ", ".join(self.domain.names),
            "made for": self.queries.describe(self.domain),
            "error": self.error,
        }
