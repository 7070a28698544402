"""Synthetic weights over the cells of a domain, made to answer one class of queries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.domain import Domain
from dpublish.errors import BundleError, PublishError, QueryError
from dpublish.public.estimation import Estimate
from dpublish.public.frames import cell_frame, decode_cells, sample_rows, sql_frame
from dpublish.public.manifest import read_domain, table, text, whole
from dpublish.public.releases.base import Release
from dpublish.public.releases.naming import marginal_frame, marginal_shape, named_columns
from dpublish.query_classes import QueryClass, query_class

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ROWS = 1 << 52
CELLS_SCHEMA: dict[str, Any] = {"cell": pl.UInt64, "weight": pl.Float64}
ASKED_SCHEMA: dict[str, Any] = {"query": pl.UInt32, "answer": pl.Int64}


class SyntheticRelease(Release):
    """Weighted cells. Queries of the class that it was made for have the stated error; others are answered without one."""

    kind: ClassVar[str] = "synthetic"

    def __init__(self, manifest: Mapping[str, Any], tables: Mapping[str, pl.DataFrame], *, path: Path | None = None) -> None:
        super().__init__(manifest, tables, path=path)
        facts = manifest["facts"]
        self.domain: Domain = Domain.from_json(manifest["domain"])
        self.rows = int(facts["rows"])
        self.error_bound = float(facts["error_bound"])
        self.cells: NDArray[np.uint64] = self.tables["cells"]["cell"].to_numpy()
        self.weights: NDArray[np.float64] = self.tables["cells"]["weight"].to_numpy()

    @classmethod
    def check(cls, manifest: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> None:
        domain = read_domain(manifest.get("domain"))
        facts = table(manifest, "facts", "manifest")
        whole(facts, "rows", "facts", limit=MAX_ROWS, lowest=1)
        bound = facts.get("error_bound")
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not 0 <= bound <= MAX_ROWS:
            raise BundleError("facts: 'error_bound' must be a number of rows.")
        try:
            query_class(text(facts, "queries", "facts"))
        except PublishError as error:
            raise BundleError(f"facts: 'queries' cannot be read: {str(error)[:200]}") from None
        if "cells" not in tables or not set(tables) <= {"cells", "asked"}:
            raise BundleError("A synthetic release holds cells.parquet (and may hold asked.parquet).")
        frame = tables["cells"]
        if dict(frame.schema) != CELLS_SCHEMA or any(frame[name].null_count() for name in CELLS_SCHEMA):
            raise BundleError("cells.parquet must have the columns cell (UInt64) and weight (Float64) without nulls.")
        cells, weights = frame["cell"].to_numpy(), frame["weight"].to_numpy()
        if not cells.size or int(cells[-1]) >= domain.size or np.any(cells[1:] <= cells[:-1]):
            raise BundleError("cells.parquet must list cells of the domain in order, each once.")
        if not np.isfinite(weights).all() or np.any(weights < 0) or float(weights.sum()) > 2 * MAX_ROWS:
            raise BundleError("cells.parquet holds a weight that is not believable.")
        asked = tables.get("asked")
        if asked is not None and (dict(asked.schema) != ASKED_SCHEMA or any(asked[name].null_count() for name in ASKED_SCHEMA)):
            raise BundleError("asked.parquet must have the columns query (UInt32) and answer (Int64) without nulls.")

    @property
    def queries(self) -> QueryClass:
        """The class that the release was made for."""
        return query_class(str(self.manifest["facts"]["queries"]))

    def answers(self, queries: QueryClass | str | None = None) -> NDArray[np.float64]:
        """The answers to a class (by default its own), in rows, in the order of the class."""
        chosen = self.queries if queries is None else query_class(queries)
        return np.asarray(chosen.table(self.domain)[:, self.cells.astype(np.int64)] @ self.weights / chosen.unit)

    def estimate(self, predicate: str, *, level: float = 0.95) -> Estimate:
        """How many rows satisfy a predicate. The limits are the bound for queries of the release's class, at 95%.

        A predicate outside the class has an answer but no promise; its limits are wide only by chance.
        """
        from dpublish.public.predicate import parse_predicate
        from dpublish.public.selection import select

        self._check_level(level)
        selection = select(parse_predicate(predicate, self.domain), self.domain)
        found = selection.cover(lambda index: decode_cells(self.cells, self.domain, index), len(self.cells))
        value = float(found.share @ self.weights)
        low, high = max(0.0, value - self.error_bound), min(float(self.rows), value + self.error_bound)
        return Estimate(value, self.error_bound / 2, low, max(high, value), level)

    def marginal(self, *columns: str, level: float = 0.95) -> pl.DataFrame:
        """Counts of every combination of codes of the named columns: labels, count, standard_error, low, high.

        The limits are those of `estimate`: promised for counts that are queries of the release's class.
        """
        self._check_level(level)
        places = named_columns(self.domain, columns)
        shape = marginal_shape(self.domain, places)
        group = np.ravel_multi_index(tuple(decode_cells(self.cells, self.domain, place) for place in places), shape)
        counts = np.bincount(group, weights=self.weights, minlength=math.prod(shape))
        low, high = np.maximum(counts - self.error_bound, 0.0), np.minimum(counts + self.error_bound, float(self.rows))
        error = np.full(counts.size, self.error_bound / 2)
        figures = {"count": counts, "standard_error": error, "low": low, "high": np.maximum(high, counts)}
        return marginal_frame(self.domain, places, figures)

    def sql(self, query: str) -> pl.DataFrame:
        """Answer a SELECT over the table `release`. Results carry no error bars; `estimate` and `marginal` do."""
        from dpublish.public.sql import run_sql

        return run_sql(query, sql_frame(self.cells, self.weights, self.domain), self.domain.names, self.domain.axes)

    def to_frame(self) -> pl.DataFrame:
        """One row a cell and its weight as `weight`. Bins show as midpoints."""
        return cell_frame(self.cells, self.weights, self.domain, intervals=False)

    def sample(self, n: int | None = None, *, seed: int | None = None) -> pl.DataFrame:
        """Synthetic rows in proportion to the weights; as many as there were, unless `n` is given."""
        if not self.weights.any():
            raise QueryError("No cell of this release has a weight, so there is nothing to draw rows from.")
        return sample_rows(self.cells, self.weights, self.domain, self.rows if n is None else n, seed)

    def plot(self, *columns: str, level: float = 0.95, top: int = 25) -> Figure:
        """A bar chart with error bars for one column, a heat map for two."""
        from dpublish.public.plots import plot_marginal

        return plot_marginal(self, columns, level=level, top=top)

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page about this release."""
        from dpublish.public.synthetic_report import write_report

        return write_report(self, path)

    @staticmethod
    def _check_level(level: float) -> None:
        if not 0 < level <= 0.95:
            raise QueryError("The error of this release is stated at 95%; ask for a level of at most 0.95.")

    def summary(self) -> dict[str, str]:
        out = super().summary()
        out["columns"] = ", ".join(self.domain.names)
        out["made for"] = self.queries.describe(self.domain)
        out["error"] = f"at most {self.error_bound:,.0f} rows on each of them, with probability 95%"
        return out
