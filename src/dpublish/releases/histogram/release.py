"""A thresholded noisy histogram: counts with error bars, SQL, synthetic rows, models, plots and a
report from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.declare.domain import Domain
from dpublish.errors import BundleError, QueryError
from dpublish.estimate import Estimate
from dpublish.models.noisy_counts import Suppression, one_spread_quantile
from dpublish.query.masks import select
from dpublish.query.predicate import Node, parse_predicate
from dpublish.query.sql_limits import CellsSay, answer_sql
from dpublish.releases.aggregates import CellsRelease
from dpublish.releases.bundle.manifest import fraction, read_domain, table, text, whole
from dpublish.releases.frames import (
    Answers,
    cell_frame,
    decode_cells,
    generator_of,
    marginal_shape,
    named_columns,
    sample_rows,
    sql_frame,
)
from dpublish.releases.histogram.intervals import CellSums, Question, Total, answer
from dpublish.releases.resampled import ResampledRelease, noise_like

CELLS_SCHEMA = {"cell": pl.UInt64, "count": pl.Int64}


class HistogramRelease(CellsRelease, ResampledRelease):
    """Noisy counts of the cells of a public domain; cells whose noisy count is not above the
    threshold are left out."""

    kind: ClassVar[str] = "histogram"

    def parse(self) -> None:
        manifest, tables = self.manifest, self.tables
        self.domain: Domain = read_domain(manifest.get("domain"))
        facts = table(manifest, "facts", "manifest")
        threshold = whole(facts, "threshold", "facts", limit=1 << 50)
        self.law = Suppression(threshold, fraction(facts, "scale", "facts"))
        if whole(facts, "domain_size", "facts") != self.domain.size:
            raise BundleError("facts: 'domain_size' is not the number of cells of the domain.")
        self.total = _read_total(facts)
        if set(tables) != {"cells"}:
            raise BundleError(
                f"A histogram release holds one table, cells.parquet; this one holds: "
                f"{sorted(tables)}."
            )
        frame = tables["cells"]
        if dict(frame.schema) != CELLS_SCHEMA:
            raise BundleError(
                "cells.parquet must have the columns cell (UInt64) and count (Int64)."
            )
        if frame["cell"].null_count() or frame["count"].null_count():
            raise BundleError("cells.parquet holds nulls.")
        cells, counts = frame["cell"].to_numpy(), frame["count"].to_numpy()
        if len(cells) and int(cells[-1]) >= self.domain.size:
            raise BundleError("cells.parquet names a cell outside the domain.")
        if np.any(cells[1:] <= cells[:-1]):
            raise BundleError("cells.parquet is not sorted by cell, or names a cell twice.")
        if np.any(counts <= threshold) or np.any(counts > 1 << 52):
            raise BundleError(
                "cells.parquet holds a count that is not above the threshold, or not believable."
            )
        self.cells: NDArray[np.uint64] = cells
        self.counts: NDArray[np.int64] = counts
        # one row each: counts, and the cumulant estimates k2, k3, k4 of every released cell
        self._figures = np.stack(
            [self.counts.astype(np.float64), *self.law.cell_cumulants(self.counts)]
        )
        # the sums that were asked for last: every group of a SELECT asks for the same ones
        self._summed: tuple[tuple[int, ...], SuppressedSums] | None = None
        self._everything = self._flag_sums(
            np.ones(len(self.counts), dtype=np.bool_), self.domain.size
        )

    def estimate(self, predicate: str | Node, *, level: float = 0.95) -> Estimate:
        """How many rows satisfy a predicate such as "age >= 40 and income = '>50K'", or a linear
        condition such as "2 * age + hours >= 150", with an error bar.

        A count over part of a bin assumes that rows are spread evenly inside it; `low` and `high`
        do not assume so.
        """
        node = parse_predicate(predicate, self.domain, planes=True)
        if (none := self.ruled_out(node, level)) is not None:
            return none
        selection = select(node, self.domain)
        found = selection.cover(
            lambda index: decode_cells(self.cells, self.domain, index), len(self.cells)
        )
        inside = self._flag_sums(found.inside, selection.inside)
        question = Question(inside, inside, inside)
        if selection.touched != selection.inside:  # some bin is cut
            touched = self._flag_sums(found.touched, selection.touched)
            question = Question(inside, touched, self._share_sums(found.share, selection.share))
        return answer(self.law, self._everything, self.total, question, level).one()

    def cell_counts(self, places: tuple[int, ...]) -> NDArray[np.float64]:
        if self._summed is not None and self._summed[0] == places:
            return self._summed[1].estimates
        shape = [self.domain.axes[place].cardinality for place in places]
        return self._group_answers(places, 0.95).value.reshape(shape)

    def cell_sums(self, places: tuple[int, ...]) -> SuppressedSums:
        if self._summed is None or self._summed[0] != places:
            part, counts = self._group_sums(places), self.cell_counts(places)
            self._summed = places, SuppressedSums(part, counts, self.law, self.total)
        return self._summed[1]

    def replicates(self, runs: int, *, seed: int | None) -> Iterator[Self]:
        """Cells that were left out are taken to be empty: the model is the released counts."""
        generator = generator_of(seed)
        chances = np.maximum(self.counts, 0).astype(np.float64)
        if not chances.sum() > 0:
            raise QueryError("No cell of this release passed the threshold: nothing can be drawn.")
        variance = self.law.noise_cumulants[0]
        for _ in range(runs):
            drawn = generator.multinomial(max(1, self.rows), chances / chances.sum())
            noisy = drawn + noise_like(generator, "laplace", variance, drawn.shape)
            kept = noisy > self.law.threshold
            frame = pl.DataFrame(
                {"cell": self.cells[kept], "count": noisy[kept].astype(np.int64)},
                schema=CELLS_SCHEMA,
            )
            yield type(self)(self.manifest, {"cells": frame})

    def marginal(self, *columns: str, level: float = 0.95) -> pl.DataFrame:
        """Counts of every combination of codes of the named columns: labels, count, standard_error,
        low, high."""
        indexes = named_columns(self.domain, columns)
        marginal_shape(self.domain, indexes)  # which refuses tables that are too large
        return self.by_columns(indexes, self._group_answers(indexes, level).figures())

    def sql(self, query: str, *, level: float | None = 0.95) -> pl.DataFrame:
        """Answer a SELECT over the table `release`. Aggregates have limits and notes beside them,
        unless `level` is None."""
        return answer_sql(
            CellsSay(self),
            query,
            sql_frame(self.cells, self.counts, self.domain),
            self.domain.names,
            self.domain.axes,
            level,
        )

    def to_frame(self, *, intervals: bool = False) -> pl.DataFrame:
        """One row a released cell and its noisy count as `weight`. Bins show as midpoints;
        `intervals` adds their labels."""
        return cell_frame(self.cells, self.counts, self.domain, intervals=intervals)

    def sample(self, n: int | None = None, *, seed: int | None = None) -> pl.DataFrame:
        """Synthetic rows in proportion to the noisy counts; as many as the release says there are,
        unless `n` is given. Error bars computed from them as if they were real rows are far too
        small: use `bootstrap`, `regress` and the estimates with limits."""
        return sample_rows(
            self.cells, self.counts, self.domain, self.rows if n is None else n, seed
        )

    @property
    def rows(self) -> int:
        """The number of rows the release speaks of: public, noisy, or the sum of the released
        counts."""
        value = max(0, self.total.value) if self.total.known else int(self.counts.sum())
        return int(min(value, self.total.ceiling))

    def codes(self, column: str) -> NDArray[np.int64]:
        """The codes of the released cells along one column."""
        return decode_cells(self.cells, self.domain, named_columns(self.domain, (column,))[0])

    def weighted_codes(
        self, columns: Sequence[str]
    ) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """The codes of the released cells along some columns, and their noisy counts."""
        return [self.codes(column) for column in columns], self.counts

    def summary(self) -> dict[str, str]:
        return {
            **super().summary(),
            "columns": ", ".join(self.domain.names),
            "cells": f"{len(self.cells):,} released of {self.domain.size:,}",
        }

    def _flag_sums(self, flags: NDArray[np.bool_], cells: int) -> CellSums:
        """Sums over one set of whole cells, `cells` of them, of which the released ones are
        flagged."""
        counts, k2, k3, k4 = self._figures @ flags.astype(np.float64)
        released = int(np.count_nonzero(flags))
        # the difference is taken in whole numbers: a domain may have more cells than a float can
        # count
        return CellSums(
            *(np.array([float(one)]) for one in (counts, released, cells - released, k2, k3, k4))
        )

    def _share_sums(self, share: NDArray[np.float64], cells: float) -> CellSums:
        """The same for cells that count in part."""
        counts, k2, k3, k4 = (
            float(row @ share**power)
            for row, power in zip(self._figures, (1, 2, 3, 4), strict=True)
        )
        released = float(share.sum())
        suppressed = max(0.0, cells - released)
        return CellSums(*(np.array([one]) for one in (counts, released, suppressed, k2, k3, k4)))

    def _group_answers(self, indexes: Sequence[int], level: float) -> Answers:
        part = self._group_sums(indexes)
        return answer(self.law, self._everything, self.total, Question(part, part, part), level)

    def _group_sums(self, indexes: Sequence[int]) -> CellSums:
        shape = tuple(self.domain.axes[index].cardinality for index in indexes)
        groups = math.prod(shape)
        codes = [decode_cells(self.cells, self.domain, index) for index in indexes]
        place = (
            np.ravel_multi_index(tuple(codes), shape)
            if codes
            else np.zeros(len(self.cells), dtype=np.int64)
        )
        released = np.bincount(place, minlength=groups)
        each = self.domain.size // groups

        def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.bincount(place, weights=values, minlength=groups).astype(np.float64)

        suppressed = (np.uint64(each) - released.astype(np.uint64)).astype(np.float64)
        counts, k2, k3, k4 = (total(row) for row in self._figures)
        return CellSums(counts, released.astype(np.float64), suppressed, k2, k3, k4)


def _read_total(facts: Mapping[str, Any]) -> Total:
    total = table(facts, "total", "facts")
    kind = text(total, "kind", "facts: total")
    if kind not in ("public", "noisy", "unknown"):
        raise BundleError(
            f"facts: total: kind '{kind[:40]}' is not known (public, noisy, unknown)."
        )
    if kind != "unknown" or total.get("value") is not None:
        lowest = 0 if kind == "public" else -(1 << 52)
        whole(total, "value", "facts: total", limit=1 << 52, lowest=lowest)
    if kind == "noisy" or total.get("scale") is not None:
        fraction(total, "scale", "facts: total")
    if facts.get("max_total") is not None:
        whole(facts, "max_total", "facts", limit=1 << 52)
    return Total.from_facts(facts)


# Sums over the cells of a thresholded histogram, with a lower limit.
#
# The score of a cell (its noisy count, or less than nothing where it was left out) is biased
# downwards only, so a sum of scores with amounts of at least 0 has a lower limit. Negative amounts
# are made positive by taking them from the number of rows, where that is known; and a cell that was
# left out has a noisy count of at most the threshold, which limits what it can take away.


@dataclass(frozen=True)
class SuppressedSums:
    """`cells` are sums over the cells that each combination of codes stands for; `estimates` the
    best guess of their rows."""

    cells: CellSums
    estimates: Floats
    law: Suppression
    total: Total

    @property
    def independent(self) -> bool:
        return not self.cells.suppressed.any()

    def value(self, amounts: Floats) -> float:
        return float((amounts * self.estimates).sum())

    def sure(self, amounts: Floats) -> float:
        return self.value(amounts)

    def low(self, amounts: Floats, alpha: float) -> float:
        cells, each = self.cells, amounts.reshape(-1)
        second, fourth = self.law.noise_cumulants
        if not cells.suppressed[each != 0.0].any():
            squares = each * each
            k2 = float(squares @ (cells.released * second))
            k4 = float((squares * squares) @ (cells.released * fourth))
            rounding = 0.5 * float(np.abs(each).max(initial=0.0))
            return float(each @ cells.counts) - (one_spread_quantile(alpha, k2, 0.0, k4) + rounding)
        rows = self.total.counted
        part = alpha if rows is None else alpha / 2
        # what was left out is at most the threshold with its noise
        up, down = np.maximum(each, 0.0), np.minimum(each, 0.0)
        capped = float(up @ cells.score(self.law)) + float(
            down @ (cells.counts + self.law.threshold * cells.suppressed)
        )
        k2 = float(up**2 @ cells.k2) + float(down**2 @ cells.cells) * second
        k4 = float(up**4 @ cells.k4) + float(down**4 @ cells.cells) * fourth
        found = capped - one_spread_quantile(part, k2, float(up**3 @ cells.k3), k4)
        if rows is None:
            return found
        shift = min(0.0, float(each.min()))
        raised = each - shift
        extra2, extra4 = self.total.cumulants
        spread = one_spread_quantile(
            part,
            float(raised**2 @ cells.k2) + shift**2 * extra2,
            float(raised**3 @ cells.k3),
            float(raised**4 @ cells.k4) + shift**4 * extra4,
        )
        by_total = float(raised @ cells.score(self.law)) + shift * rows - spread
        if self.total.kind == "public":
            by_total = max(by_total, shift * rows)  # no count is below 0
        return max(found, by_total)
