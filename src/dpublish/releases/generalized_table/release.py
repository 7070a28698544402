"""A generalised table: disjoint regions that cover the domain, with noisy counts; counts and rows
from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.declare.domain import Domain
from dpublish.errors import BundleError, QueryError
from dpublish.estimate import Estimate, check_level
from dpublish.models.integer_limits import integer_rows, possible, within_limits
from dpublish.models.noisy_counts import laplace_cumulants, spread_quantile
from dpublish.present.charts import shortened
from dpublish.present.report import (
    Paragraph,
    Report,
    Section,
    Strong,
    Table,
    big,
    column_charts,
    how_it_was_made,
    listed,
    usage_of_cells,
)
from dpublish.query.masks import select
from dpublish.query.predicate import Node, columns_of, parse_predicate
from dpublish.query.sql_limits import CellsSay, answer_sql
from dpublish.releases.aggregates import CellsRelease, PartSums, places_named
from dpublish.releases.bundle.manifest import fraction, read_domain, table
from dpublish.releases.frames import (
    Answers,
    counted_table,
    drawn_values,
    free_name,
    generator_of,
    marginal_shape,
    named_columns,
    read_columns,
    rows_to_draw,
    sql_table,
)

MAX_POINTS = 20_000_000


class GeneralizedRelease(CellsRelease):
    """Noisy counts of regions: in each column a stretch of values, in the order of the column's
    taxonomy."""

    kind: ClassVar[str] = "generalized-table"

    def parse(self) -> None:
        manifest, tables = self.manifest, self.tables
        self.domain: Domain = read_domain(manifest.get("domain"))
        scales = table(manifest, "facts", "manifest").get("scales")
        if not isinstance(scales, list) or not scales or len(scales) > 10_000:
            raise BundleError("facts: 'scales' must list the noise scales.")
        spreads = [
            laplace_cumulants(fraction({"scale": text}, "scale", "facts")) for text in scales
        ]
        axes = range(len(self.domain.axes))
        if set(tables) != {"regions", *(f"order_{place}" for place in axes)}:
            raise BundleError(
                f"A generalised table holds regions and one order per column; this one holds: "
                f"{sorted(tables)}."
            )
        kinds = {f"{end}_{place}": pl.Int32 for place in axes for end in ("low", "high")}
        *ends, counts, depth = read_columns(
            tables["regions"],
            {**kinds, "count": pl.Int64, "depth": pl.Int32},
            "regions.parquet must have low and high for every column, count and depth, "
            "without nulls.",
        )
        if depth.size and not 0 <= depth.min() <= depth.max() < len(scales):
            raise BundleError("regions.parquet names a noise scale that is not there.")
        self._low: list[NDArray[np.int32]] = ends[::2]
        self._high: list[NDArray[np.int32]] = ends[1::2]
        self._order: list[NDArray[np.int32]] = []
        volume = np.ones(depth.size)
        for place, (axis, low, high) in enumerate(
            zip(self.domain.axes, self._low, self._high, strict=True)
        ):
            refusal = f"order_{place}.parquet must list every code of '{axis.name}' once."
            self._order += read_columns(tables[f"order_{place}"], {"code": pl.Int32}, refusal)
            if not np.array_equal(np.sort(self._order[place]), np.arange(axis.cardinality)):
                raise BundleError(refusal)
            if (low < 0).any() or (high <= low).any() or (high > axis.cardinality).any():
                raise BundleError(
                    f"regions.parquet names values of '{axis.name}' that are not there."
                )
            volume *= high - low
        if abs(float(volume.sum()) - self.domain.size) > 1e-6 * self.domain.size:
            raise BundleError("The regions do not cover the domain once.")
        if not within_limits(counts):
            raise BundleError("A count is not believable.")
        self.counts: NDArray[np.int64] = counts
        self._k2, self._k4 = (
            np.array([spread[part] for spread in spreads])[depth] for part in (0, 1)
        )
        # a public number of rows says what the noise of all counts adds up to: each gives back its
        # part of that by least squares
        over = 0.0 if self.public_total is None else float(self.counts.sum()) - self.public_total
        spare = self._k2 / max(float(self._k2.sum()), 1e-300)
        self.estimates: NDArray[np.float64] = self.counts - over * spare

    def estimate(self, predicate: str | Node, *, level: float = 0.95) -> Estimate:
        """How many rows satisfy a predicate. Rows count as even inside a region; `low` and `high`
        do not assume so."""
        node = parse_predicate(predicate, self.domain)
        if (none := self.ruled_out(node, level)) is not None:
            return none
        rows, sizes, codes = self._points(sorted(set(columns_of(node))))
        found = select(node, self.domain).cover(codes.__getitem__, rows.size)
        share = np.bincount(rows, weights=found.share, minlength=sizes.size) / sizes
        inside = np.bincount(rows, weights=found.inside, minlength=sizes.size) == sizes
        touched = np.bincount(rows, weights=found.touched, minlength=sizes.size) > 0
        every = np.arange(sizes.size)
        met = np.zeros(sizes.size, dtype=np.int64)
        return self._answers(met, every, share, inside, touched, 1, level).one()

    def cell_counts(self, places: tuple[int, ...]) -> NDArray[np.float64]:
        rows, sizes, codes = self._points(places)
        weights = self.estimates[rows] / sizes[rows]
        return counted_table(self.domain, places, [codes[place] for place in places], weights)

    def cell_sums(self, places: tuple[int, ...]) -> PartSums:
        rows, _, codes = self._points(places)

        def low_of(weights: NDArray[np.float64], alpha: float) -> float:
            k2, k4 = weights**2 @ self._k2, weights**4 @ self._k4
            spread = spread_quantile(alpha, np.array([k2]), np.zeros(1), np.array([k4]))
            return float(weights @ self.estimates) - float(spread[0])

        return PartSums(
            owner=rows,
            codes=tuple(codes[place] for place in places),
            parts=self.counts.size,
            estimates=self.cell_counts(places),
            low_of=low_of,
        )

    def marginal(self, *columns: str, level: float = 0.95) -> pl.DataFrame:
        """Counts of every combination of codes of the named columns: labels, count, standard_error,
        low, high."""
        places = named_columns(self.domain, columns)
        shape = marginal_shape(self.domain, places)
        rows, sizes, codes = self._points(places)
        group = np.ravel_multi_index(tuple(codes[place] for place in places), shape)
        whole, every = sizes[rows] == 1, np.ones(rows.size, dtype=np.bool_)
        answers = self._answers(
            group, rows, 1.0 / sizes[rows], whole, every, math.prod(shape), level
        )
        return self.by_columns(places, answers.figures())

    def _answers(
        self,
        groups: NDArray[np.int64],
        rows: NDArray[np.int64],
        share: NDArray[np.float64],
        inside: NDArray[np.bool_],
        touched: NDArray[np.bool_],
        number: int,
        level: float,
    ) -> Answers:
        """Estimates of `number` groups of cells. Entry i says how much of region `rows[i]` is in
        group `groups[i]`."""
        alpha = 1.0 - check_level(level)

        def total(values: NDArray[Any]) -> NDArray[np.float64]:
            return np.bincount(groups, weights=values, minlength=number).astype(np.float64)

        def reach(chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
            k2, k4 = self._left(
                *(total(np.where(chosen, spread[rows], 0.0)) for spread in (self._k2, self._k4))
            )
            return spread_quantile(alpha / 2, k2, np.zeros(number), k4)

        counts = self.estimates[rows]
        least, most = total(np.where(inside, counts, 0.0)), total(np.where(touched, counts, 0.0))
        low, high = integer_rows(least - reach(inside), most + reach(touched))
        # how a region that is cut divides is not known: spread as if any division were as likely. A
        # level that is rare is rare in every region, so divisions go together and their errors add
        # up, not their squares
        cut = total(np.where(touched & ~inside, np.maximum(counts, 0.0), 0.0)) ** 2 / 12
        spread, _ = self._left(total(share**2 * self._k2[rows]), np.zeros(number))
        error = np.sqrt(spread + cut)
        low, high = possible(low, np.maximum(low, high), error, self.max_rows)
        error = np.where(high > low, error, 0.0)
        # adding 0 turns a negative zero into a plain one
        value = np.clip(total(share * counts), low, high) + 0.0
        return Answers(value, error, low + 0.0, high + 0.0, level)

    def _left(
        self, second: NDArray[np.float64], fourth: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Cumulants of the noise of sums over regions, once the public number of rows has taken its
        part out: e_S (1 - p) - e_rest p, where p is the part of S in all the variance."""
        if self.public_total is None:
            return second, fourth
        part = np.clip(second / max(float(self._k2.sum()), 1e-300), 0.0, 1.0)
        rest = np.maximum(float(self._k4.sum()) - fourth, 0.0)
        return second * (1 - part), (1 - part) ** 4 * fourth + part**4 * rest

    def _points(
        self, places: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, NDArray[np.int64]]]:
        """All combinations of the named columns' codes, region by region: the region of each, how
        many it has, the codes."""
        sizes = np.ones(self.counts.size, dtype=np.int64)
        for place in places:
            sizes *= self._high[place] - self._low[place]
            if sizes.sum(dtype=np.float64) > MAX_POINTS:
                raise QueryError(
                    "Too many columns with too many values are named for this release. Ask about "
                    "fewer."
                )
        rows = np.repeat(np.arange(sizes.size), sizes)
        rest = np.arange(rows.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        codes: dict[int, NDArray[np.int64]] = {}
        for place in places:
            width = (self._high[place] - self._low[place])[rows]
            codes[place] = self._order[place][self._low[place][rows] + rest % width].astype(
                np.int64
            )
            rest = rest // width
        return rows, sizes, codes

    def sql(self, query: str, *, level: float | None = 0.95) -> pl.DataFrame:
        """Answer a SELECT over the table `release`; rows count as even inside a region, over the
        columns that are named.

        Aggregates have limits and notes beside them, unless `level` is None.
        """
        # only those are spread out: all at once may be too many
        rows, sizes, codes = self._points(places_named(query, self.domain))
        return answer_sql(
            CellsSay(self),
            query,
            sql_table(self.domain.axes, codes, self.estimates[rows] / sizes[rows]),
            self.domain.names,
            self.domain.axes,
            level,
        )

    def weighted_codes(
        self, columns: Sequence[str]
    ) -> tuple[list[NDArray[np.int64]], NDArray[np.float64]]:
        """All combinations of codes of some columns, region by region, and their share of the
        region's noisy count."""
        places = named_columns(self.domain, columns)
        rows, sizes, codes = self._points(places)
        return [codes[place] for place in places], self.estimates[rows] / sizes[rows]

    @property
    def rows(self) -> int:
        """The number of rows the release speaks of: the sum of its counts."""
        return int(min(max(0, round(float(self.estimates.sum()))), self.max_rows))

    def to_frame(self) -> pl.DataFrame:
        """One row a region: the values of each column as text, and the noisy count as `weight`."""
        columns = {
            axis.name: [
                self._described(axis.labels, order[low:high])
                for low, high in zip(lows, highs, strict=True)
            ]
            for axis, order, lows, highs in zip(
                self.domain.axes, self._order, self._low, self._high, strict=True
            )
        }
        return pl.DataFrame({**columns, free_name("weight", self.domain.names): self.counts})

    @staticmethod
    def _described(labels: tuple[str, ...], codes: NDArray[np.int32]) -> str:
        if codes.size == len(labels) > 1:
            return "(any)"
        return " | ".join(labels[int(code)] for code in codes)

    def sample(self, n: int | None = None, *, seed: int | None = None) -> pl.DataFrame:
        """Synthetic rows in proportion to the counts, evenly spread inside each region. Error bars
        computed from them as if they were real rows are far too small."""
        weights = np.maximum(self.counts, 0).astype(np.float64)
        size = rows_to_draw(self.rows if n is None else n)
        if size and weights.sum() <= 0:
            raise QueryError("The release holds no region to draw from.")
        rng = generator_of(seed)
        rows = (
            rng.choice(weights.size, size=size, p=weights / weights.sum())
            if size
            else np.empty(0, dtype=np.int64)
        )
        codes = [
            order[low[rows] + (rng.random(size) * (high[rows] - low[rows])).astype(np.int64)]
            for order, low, high in zip(self._order, self._low, self._high, strict=True)
        ]
        return pl.DataFrame(
            [
                drawn_values(axis, code.astype(np.int64), rng)
                for axis, code in zip(self.domain.axes, codes, strict=True)
            ]
        )

    def summary(self) -> dict[str, str]:
        return {
            **super().summary(),
            "columns": ", ".join(self.domain.names),
            "regions": f"{self.counts.size:,} of {self.domain.size:,} cells",
        }

    def sections(self) -> Report:
        return Report(
            lead=(
                "This release divides all combinations of ",
                Strong(listed(self.domain.names)),
                " into regions and holds a noisy count of each. It was made from private rows; the "
                "rows themselves are not in it.",
            ),
            tiles=[
                (f"{self.rows:,}", "rows (sum of noisy counts)"),
                (f"{len(self.domain.axes):,}", "columns"),
                (f"{self.counts.size:,}", f"regions of {big(self.domain.size)} cells"),
            ],
            sections=[
                how_it_was_made(self),
                Section(
                    "What it shows",
                    [
                        Paragraph(
                            "Estimated numbers of rows with 95% intervals (black lines). An "
                            "interval reaches from what is certainly in a group to what may be in "
                            "it."
                        ),
                        *column_charts(self.domain, self.marginal),
                    ],
                ),
                _largest(self),
                usage_of_cells(self, "release.sample(1000)            # synthetic rows"),
            ],
            limits=LIMITS,
        )


SHOWN_REGIONS = 15
LIMITS = (
    "Intervals hold in 95% of releases for a question fixed beforehand.",
    "What happens inside a region is not in the release: rows count as even there. The intervals "
    "do not assume so, and are wide where regions are cut by a question.",
    "Synthetic rows carry no error bars; in SQL, what has no limits has a note.",
)


def _largest(release: GeneralizedRelease) -> Section:
    order = np.argsort(-release.counts, kind="stable")[:SHOWN_REGIONS]
    rows = [
        (*(shortened(cell, 60) for cell in row[:-1]), f"{row[-1]:,}")
        for row in release.to_frame()[order].iter_rows()
    ]
    names = release.domain.names
    return Section("The largest regions", [Table((*names, "rows"), rows, right=(len(names),))])
