"""Noisy sector counts of random projections: how many rows lie above any hyperplane."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.declare.grid import MAX_DIGITS, MAX_POSITIONS, Grid
from dpublish.errors import BundleError, PublishError, QueryError, did_you_mean
from dpublish.estimate import Estimate, check_level
from dpublish.models.integer_limits import half_width, integer_rows, within_limits
from dpublish.models.noisy_counts import laplace_cumulants
from dpublish.models.sectors import Sectors
from dpublish.present.charts import Bar
from dpublish.present.report import (
    Block,
    Chart,
    Heading,
    Paragraph,
    Report,
    Section,
    Strong,
    how_it_was_made,
    listed,
    usage,
)
from dpublish.query.constants import quoted
from dpublish.releases.base import Release
from dpublish.releases.bundle.manifest import fraction, table, text, whole
from dpublish.releases.frames import read_columns

COUNTS_SCHEMA: dict[str, Any] = {"count": pl.Int64}
MAX_CELLS = 1 << 22


class HalfspacesRelease(Release):
    """Noisy counts of the cells of projections to the circle or the sphere."""

    kind: ClassVar[str] = "halfspaces"
    own: ClassVar[tuple[str, ...]] = ("count",)

    def parse(self) -> None:
        manifest, tables = self.manifest, self.tables
        facts = table(manifest, "facts", "manifest")
        self.variance = laplace_cumulants(fraction(facts, "scale", "facts"))[0]
        self.sectors = sectors = _read_sectors(facts)
        if set(tables) != {"counts"}:
            raise BundleError("A halfspaces release holds one table, counts.parquet.")
        (counts,) = read_columns(
            tables["counts"],
            COUNTS_SCHEMA,
            "counts.parquet must have the column count (Int64) without nulls.",
        )
        if counts.size != sectors.projections * sectors.cells:
            raise BundleError("counts.parquet must hold one count per cell of every projection.")
        if not within_limits(counts):
            raise BundleError("counts.parquet holds a count that is not believable.")
        counts = counts.reshape(sectors.projections, -1)
        self.counts: NDArray[np.float64] = counts.astype(np.float64)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(grid.name for grid in self.sectors.grids)

    @property
    def rows(self) -> float:
        """The estimated number of rows: every projection counts all of them."""
        return min(float(self.counts.sum(axis=1).mean()), self.max_rows)

    def count(self, weights: Mapping[str, float], *, above: float, level: float = 0.95) -> Estimate:
        """How many rows have a weighted sum of columns of at least `above`, in the columns' own
        units (dates: ordinals).

        `low` and `high` cover the noise, the rows of cells that the hyperplane cuts, and the
        spread between projections. Where nothing is projected away (two columns on the sphere)
        they hold for every table. Otherwise they are not a theorem: what all projections lose
        alike is not seen. Details: the `margin` for which it is meant (rows whose angle to the
        hyperplane has a smaller sine may go either way) and the `answers` of the single
        projections.
        """
        check_level(level)
        for name in weights:
            if name not in self.columns:
                raise QueryError(
                    f"No column '{name}' here.{did_you_mean(name, self.columns)} Columns: "
                    f"{', '.join(self.columns)}."
                )
        numbers = [float(weights.get(name, 0.0)) for name in self.columns]
        if not all(math.isfinite(number) for number in [*numbers, float(above)]) or not any(
            numbers
        ):
            raise QueryError("A halfspace needs finite weights, not all zero, and a finite bound.")
        angles = self.sectors.angles(self.sectors.direction(numbers, float(above)))
        answers = (self.sectors.shares(angles) * self.counts).sum(axis=1)
        # how rows lie inside a cell that the plane cuts is not known: none of them, or all, may be
        # above
        whole, touched = angles >= self.sectors.reach, angles > -self.sectors.reach
        least, most = (
            float(np.median((cells * self.counts).sum(axis=1))) for cells in (whole, touched)
        )
        noise = float(np.sqrt(touched.sum(axis=1).max() * self.variance))
        count = answers.size
        spread = float(np.std(answers, ddof=1)) if count > 1 else noise
        # the spread holds the noise already; a median of m is about 1.25 times as uncertain as
        # their mean
        error = max(spread, noise) * (1.2533 if count > 2 else 1.0) / math.sqrt(count)
        value = float(np.median(answers))
        width = half_width(error * error, (1 - level) / 2, "laplace")
        cut = max(0.0, most - least)
        ends = integer_rows(min(value, least) - width, max(value, most) + width)
        low, high = (min(max(0.0, float(end)), self.max_rows) for end in ends)
        return Estimate(
            value=min(max(value, low), high),  # noise may take it where no count is
            standard_error=math.hypot(error, cut / math.sqrt(12)),
            low=low,
            high=high,
            level=level,
            details={
                "margin": self.sectors.margin,
                "answers": tuple(float(answer) for answer in answers),
            },
        )

    def estimate(self, condition: str, *, level: float = 0.95) -> Estimate:
        """The same for a condition such as "2 * age + weight >= 150"; dates are written as
        '2020-01-31'."""
        from dpublish.query.linear_condition import linear_condition

        found = linear_condition(condition, {grid.name: grid.kind for grid in self.sectors.grids})
        return self.count(found.weights, above=found.bound, level=level)

    def summary(self) -> dict[str, str]:
        sectors = self.sectors
        return {
            **super().summary(),
            "columns": ", ".join(self.columns),
            "projections": f"{sectors.projections} to dimension {sectors.k}, {sectors.cells} "
            "cells each",
        }

    def sections(self) -> Report:
        sectors = self.sectors
        more = len(self.columns) - MAX_CHARTS
        charts: list[Block] = []
        for grid in sectors.grids[:MAX_CHARTS]:
            charts += [Heading(grid.name), Chart(grid.name, bars_above(self, grid))]
        if more > 0:
            charts.append(Paragraph(f"{more} more columns are in the release.", "soft"))
        return Report(
            lead=(
                "This release answers how many rows lie above any plane through the space of ",
                Strong(listed(self.columns)),
                ": how many have a weighted sum of these columns of at least some number. It holds "
                "noisy counts of random projections of private rows; the rows themselves are not "
                "in it.",
            ),
            tiles=[
                (f"{self.rows:,.0f}", "rows (estimated)"),
                (f"{len(self.columns):,}", "columns"),
                (
                    f"{sectors.projections:,}",
                    f"projections to dimension {sectors.k}, {sectors.cells:,} cells each",
                ),
            ],
            sections=[
                how_it_was_made(self),
                Section(
                    "What it shows",
                    [
                        Paragraph(
                            "Estimated numbers of rows at or above a value of one column, whatever "
                            "the others are, with 95% intervals (black lines)."
                        ),
                        *charts,
                    ],
                ),
                _usage(self),
            ],
            limits=[
                "Answers are meant for planes that few rows are close to: rows whose angle to the "
                f"plane has a sine below {sectors.margin:.3g} may be counted on either side.",
                "Intervals cover the noise and whatever lies in cells that the plane cuts"
                + (
                    "."
                    if sectors.lossless
                    else ", and the spread between projections. What all projections lose alike is "
                    "not seen."
                ),
            ],
        )


def _read_sectors(facts: Mapping[str, Any]) -> Sectors:
    k = whole(facts, "k", "facts", limit=3, lowest=2)
    projections = whole(facts, "projections", "facts", limit=MAX_CELLS, lowest=1)
    cells = whole(facts, "cells", "facts", limit=MAX_CELLS, lowest=4)
    if projections * cells > MAX_CELLS:
        raise BundleError("facts: more cells than a release may have.")
    seed = facts.get("projection_seed")
    if isinstance(seed, bool) or not isinstance(seed, int) or abs(seed) > 1 << 63:
        raise BundleError("facts: 'projection_seed' must be a whole number.")
    listed = facts.get("grid")
    if not isinstance(listed, list) or not 1 <= len(listed) <= 64:
        raise BundleError("facts: 'grid' must list 1 to 64 columns.")
    try:
        grids = []
        for item in listed:
            whole(item, "positions", "grid", limit=MAX_POSITIONS, lowest=1)
            if max(len(text(item, "lower", "grid")), len(text(item, "step", "grid"))) > MAX_DIGITS:
                raise BundleError("grid: a bound is too long.")
            grids.append(Grid.from_json(item))
    except (
        AttributeError,
        ValueError,
        TypeError,
        KeyError,
        ArithmeticError,
        PublishError,
    ) as error:
        raise BundleError(f"facts: 'grid' cannot be read ({type(error).__name__}).") from None
    if len({grid.name for grid in grids}) != len(grids) or any(grid.step <= 0 for grid in grids):
        raise BundleError("grid: names must differ and steps must be above 0.")
    return Sectors(tuple(grids), k, projections, cells, seed)


MAX_CHARTS = 12
STEPS = 10


def bars_above(release: HalfspacesRelease, grid: Grid) -> list[Bar]:
    """Rows at or above some values of one column, evenly between its bounds."""
    places = np.unique(np.rint(np.linspace(0, grid.positions, min(STEPS, grid.positions) + 1)))[
        1:-1
    ]
    axis = grid.axis([0, *places.astype(np.int64).tolist(), grid.positions])
    bars = []
    for place, value in enumerate(grid.value(places).tolist()):
        one = release.count({grid.name: 1.0}, above=value)
        start = axis.label(place + 1).lstrip("[").split("..")[0].split(",")[0]
        bars.append(Bar(f"{start} or more", max(0.0, one.value), one.low, one.high))
    return bars


def _usage(release: HalfspacesRelease) -> Section:
    some = release.sectors.grids[:2]
    middle = sum(float((grid.lower + grid.upper) / 2) for grid in some)
    condition = f"{' + '.join(quoted(grid.name) for grid in some)} >= {middle:g}"
    return usage(release, f"release.estimate({condition!r})            # with an error bar")
