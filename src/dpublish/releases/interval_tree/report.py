"""What a report says about an interval tree: every column, and the quantiles of a single one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpublish.declare.calendar import CALENDAR
from dpublish.present.charts import Bar
from dpublish.present.report import (
    MAX_BARS,
    Block,
    Chart,
    Heading,
    Paragraph,
    Report,
    Section,
    Strong,
    Table,
    how_it_was_made,
    listed,
    quoted,
    usage,
)
from dpublish.releases.interval_tree.figures import column_ranges

if TYPE_CHECKING:
    from dpublish.declare.grid import Floats
    from dpublish.releases.interval_tree.release import IntervalTreeRelease

SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_FINE = 256
_TAIL = 0.005
"""Share of the rows at either end that one bar holds, so that wide bounds do not make all other
bars empty."""


def sections(release: IntervalTreeRelease) -> Report:
    single = len(release.columns) == 1
    boxes = "intervals" if single else "boxes"
    rows = (f"{release.rows:,.0f}", "rows (estimated)")
    charts: list[Block] = []
    for name in release.columns:
        charts += [Heading(name), Chart(name, column_bars(release, name))]
    shows = "Estimated numbers of rows with 95% intervals (black lines)."
    if release.missing is not None:
        charts.append(_without_value(release))
    return Report(
        lead=(
            "This release divides the values of ",
            Strong(listed(release.columns)),
            f" into {boxes} and holds noisy counts of them, from which the number of rows in any "
            "other range follows. It was made from private rows; the rows themselves are not in "
            "it.",
        ),
        tiles=[
            rows if release.total is None else (f"{release.total:,}", "rows (public number)"),
            (f"{len(release.columns):,}", "column" if single else "columns"),
            (f"{len(release.boxes):,}", f"{boxes}, {release.manifest['facts']['tree']}"),
        ],
        sections=[
            how_it_was_made(release),
            Section("What it shows", [Paragraph(shows), *charts]),
            *([_quantiles(release)] if single else []),
            _usage(release),
        ],
        limits=[
            "Intervals hold in 95% of releases for a question fixed beforehand.",
            f"How rows lie within one of the {boxes} is not in the release. Error bars of ranges "
            "that cut one make no assumption about it, and are wide there; values, quantiles and "
            "synthetic points take rows as spread evenly.",
            "Synthetic points carry no error bars and keep the noise of the counts.",
        ],
    )


def _without_value(release: IntervalTreeRelease) -> Paragraph:
    """Rows that are in none of the bars."""
    one = release.without_value()
    if len(release.columns) == 1:
        asked = f"Without a value ({quoted(release.columns[0])} is null)"
    else:
        asked = "Without a value of at least one column"
    note = f"; {one.note}" if one.note else ""
    return Paragraph(f"{asked}: {one.value:,.0f} rows ({one.low:,.0f} to {one.high:,.0f}{note}).")


def column_bars(release: IntervalTreeRelease, name: str) -> list[Bar]:
    """Even ranges over the values that hold nearly all rows, and one range for what lies below and
    above."""
    grid = release.shape.grids[release.columns.index(name)]
    cuts = _bar_cuts(release, name, grid.positions)
    answers, axis = (
        release.answer(*column_ranges(release, name, cuts), 0.95),
        grid.axis(cuts.astype(np.int64)),
    )
    return [
        Bar(
            axis.label(place),
            max(0.0, float(answers.value[place])),
            float(answers.low[place]),
            float(answers.high[place]),
        )
        for place in range(len(cuts) - 1)
    ]


def _bar_cuts(release: IntervalTreeRelease, name: str, positions: int) -> Floats:
    fine = _even(0, positions, _FINE)
    counts = np.maximum(release.answer(*column_ranges(release, name, fine), 0.95).value, 0.0)
    below = np.concatenate([[0.0], np.cumsum(counts)])
    first = fine[np.searchsorted(below, _TAIL * below[-1], side="right") - 1]
    last = fine[np.searchsorted(below, (1 - _TAIL) * below[-1])]
    inner = _even(first, last, MAX_BARS - 2) if last > first else np.array([first])
    return np.unique(np.concatenate([[0.0], inner, [float(positions)]]))


def _even(first: float, last: float, most: int) -> Floats:
    """Whole places from first to last, evenly, with at most so many steps."""
    return np.unique(np.rint(np.linspace(first, last, min(int(last - first), most) + 1)))


def _quantiles(release: IntervalTreeRelease) -> Section:
    rows = []
    for share in SHARES:
        low, high = release.quantile_limits(share)
        found = _shown(release.quantile(share))
        rows.append(
            (f"{share:.0%} of the rows lie below", found, f"{_shown(low)} to {_shown(high)}")
        )
    return Section("Quantiles", [Table(("", "estimate", "95% interval"), rows, right=(1, 2))])


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _usage(release: IntervalTreeRelease) -> Section:
    name, grid = release.columns[0], release.shape.grids[0]
    low, high = grid.value(np.array([0, grid.positions // 2])).tolist()
    lines = []
    if grid.kind not in CALENDAR:
        lines.append(
            f"release.estimate({f'{quoted(name)} between {low:g} and {high:g}'!r})            # "
            f"with an error bar"
        )
    if len(release.columns) == 1:
        lines += [
            "release.quantile(0.5)            # the median",
            "release.quantile_limits(0.5)            # and its limits",
        ]
    lines += [
        "release.plot()            # a picture",
        "release.sample(1000)            # synthetic points",
    ]
    return usage(release, *lines)
