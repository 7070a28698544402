"""What a report says about halfspaces: how many rows lie above some values of every column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
    quoted,
    usage,
)

if TYPE_CHECKING:
    from dpublish.declare.grid import Grid
    from dpublish.releases.halfspaces.release import HalfspacesRelease

MAX_CHARTS = 12
STEPS = 10


def sections(release: HalfspacesRelease) -> Report:
    sectors = release.sectors
    more = len(release.columns) - MAX_CHARTS
    charts: list[Block] = []
    for grid in sectors.grids[:MAX_CHARTS]:
        charts += [Heading(grid.name), Chart(grid.name, bars_above(release, grid))]
    if more > 0:
        charts.append(Paragraph(f"{more} more columns are in the release.", "soft"))
    shows = (
        "Estimated numbers of rows at or above a value of one column, whatever the others are, "
        "with "
        "95% intervals (black lines)."
    )
    return Report(
        lead=(
            "This release answers how many rows lie above any plane through the space of ",
            Strong(listed(release.columns)),
            ": how many have a weighted sum of these columns of at least some number. It holds "
            "noisy counts of random projections of private rows; the rows themselves are not in "
            "it.",
        ),
        tiles=[
            (f"{release.rows:,.0f}", "rows (estimated)"),
            (f"{len(release.columns):,}", "columns"),
            (
                f"{sectors.projections:,}",
                f"projections to dimension {sectors.k}, {sectors.cells:,} cells each",
            ),
        ],
        sections=[
            how_it_was_made(release),
            Section("What it shows", [Paragraph(shows), *charts]),
            _usage(release),
        ],
        limits=[
            "Answers are meant for planes that few rows are close to: rows whose angle to the "
            f"plane has a sine below {sectors.margin:.3g} may be counted on either side.",
            "Intervals cover the noise and whatever lies in cells that the plane cuts"
            + (
                "."
                if sectors.lossless
                else ", and the spread between projections. What all projections lose alike is not "
                "seen."
            ),
        ],
    )


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
    return usage(
        release,
        f"release.estimate({condition!r})            # with an error bar",
    )
