"""One HTML page about an interval tree: no script, no network, nothing else to load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpublish.present.charts import Bar, bar_chart, safe_text
from dpublish.present.report import MAX_BARS, listed, quoted, release_page, save_page, usage
from dpublish.releases.interval_tree.figures import column_ranges

if TYPE_CHECKING:
    from dpublish.declare.grid import Floats
    from dpublish.releases.interval_tree.release import IntervalTreeRelease

SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_FINE = 256
_TAIL = 0.005
"""Share of the rows at either end that one bar holds, so that wide bounds do not make all other
bars empty."""


def write_report(release: IntervalTreeRelease, path: str | Path) -> Path:
    return save_page(report_html(release), path)


def report_html(release: IntervalTreeRelease) -> str:
    boxes = "intervals" if len(release.columns) == 1 else "boxes"
    lead = (
        f"This release divides the values of <b>{safe_text(listed(release.columns))}</b> into "
        f"{boxes} and holds noisy counts "
        "of them, from which the number of rows in any other range follows. It was made from "
        "private rows; the rows themselves "
        "are not in it."
    )
    rows = (f"{release.rows:,.0f}", "rows (estimated)")
    tiles = [
        rows if release.total is None else (f"{release.total:,}", "rows (public number)"),
        (f"{len(release.columns):,}", "column" if len(release.columns) == 1 else "columns"),
        (f"{len(release.boxes):,}", f"{boxes}, {release.manifest['facts']['tree']}"),
    ]
    limits = [
        "Intervals hold in 95% of releases for a question fixed beforehand.",
        f"How rows lie within one of the {boxes} is not in the release. Error bars of ranges that "
        f"cut one make no assumption "
        "about it, and are wide there; values, quantiles and synthetic points take rows as spread "
        "evenly.",
        "Synthetic points carry no error bars and keep the noise of the counts.",
    ]
    body = [
        "<h2>What it shows</h2><p>Estimated numbers of rows with 95% intervals (black lines).</p>",
        *(
            f"<h3>{safe_text(name)}</h3>{bar_chart(column_bars(release, name), name)}"
            for name in release.columns
        ),
        _quantiles(release) if len(release.columns) == 1 else "",
        _usage(release),
    ]
    return release_page(release, lead=lead, tiles=tiles, body=body, limits=limits)


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


def _quantiles(release: IntervalTreeRelease) -> str:
    lines = []
    for share in SHARES:
        low, high = release.quantile_limits(share)
        lines.append(
            f"<tr><td>{share:.0%} of the rows lie below</td><td "
            f'class="number">{_shown(release.quantile(share))}</td>'
            f'<td class="number">{_shown(low)} to {_shown(high)}</td></tr>'
        )
    head = '<tr><th></th><th class="number">estimate</th><th class="number">95% interval</th></tr>'
    return f"<h2>Quantiles</h2><table>{head}{''.join(lines)}</table>"


def _shown(value: object) -> str:
    return (
        f"{value:,.6g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else safe_text(str(value))
    )


def _usage(release: IntervalTreeRelease) -> str:
    name, grid = release.columns[0], release.shape.grids[0]
    low, high = grid.value(np.array([0, grid.positions // 2])).tolist()
    lines = []
    if grid.kind != "date":
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
