"""What a report says about an interval tree: every column, and the quantiles of a single one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpublish.arrays import Floats
from dpublish.declare.calendar import CALENDAR, spelled
from dpublish.declare.grid import Grid
from dpublish.errors import QueryError
from dpublish.present.charts import LOG, Bar, spans_decades
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
    usage,
)
from dpublish.query.constants import quoted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpublish.releases.interval_tree.release import IntervalTreeRelease

SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_FINE = 256
_TAIL = 0.005
"""Share of the rows at either end that one bar holds, so that wide bounds do not make all other
bars empty."""


def sections(release: IntervalTreeRelease) -> Report:
    single = len(release.columns) == 1
    boxes = "intervals" if single else "boxes"
    charts: list[Block] = [Paragraph("Estimated numbers of rows with 95% intervals (black lines).")]
    for name in release.columns:
        charts += [Heading(name), Chart(name, column_bars(release, name))]
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
            (f"{release.rows:,.0f}", "rows (estimated)")
            if release.total is None
            else (f"{release.total:,}", "rows (public number)"),
            (f"{len(release.columns):,}", "column" if single else "columns"),
            (f"{len(release.boxes):,}", f"{boxes}, {release.manifest['facts']['tree']}"),
        ],
        sections=[
            how_it_was_made(release),
            Section("What it shows", charts),
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
    alone = len(release.columns) == 1
    which = f"({quoted(release.columns[0])} is null)" if alone else "of at least one column"
    note = f"; {one.note}" if one.note else ""
    return Paragraph(
        f"Without a value {which}: {one.value:,.0f} rows ({one.low:,.0f} to {one.high:,.0f}{note})."
    )


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
        found, (low, high) = release.quantile(share), release.quantile_limits(share)
        limits = f"{_shown(low)} to {_shown(high)}"
        rows.append((f"{share:.0%} of the rows lie below", _shown(found), limits))
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
    return usage(
        release,
        *lines,
        "release.plot()            # a picture",
        "release.sample(1000)            # synthetic points",
    )


# Pictures of an interval tree: the density of one column with its error, a heat map of two.

STEPS = 200
SIDE = 96
MAP_PARTS = 12
_LABEL_LENGTH = 34


def plot_tree(release: IntervalTreeRelease, columns: Sequence[str], *, level: float) -> Figure:
    from dpublish.present.figures import SOFT, Figure, FuncFormatter, short_label

    names = tuple(columns) or release.columns[:2]
    for name in names:
        if name not in release.columns:
            raise QueryError(f"No column '{name}' here. Columns: {', '.join(release.columns)}.")
    if len(names) not in (1, 2) or len(set(names)) != len(names):
        raise QueryError("A picture shows one column or two different ones.")
    labels = [short_label(name, _LABEL_LENGTH) for name in names]
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    grids = [release.shape.grids[release.columns.index(name)] for name in names]
    most = STEPS if len(names) == 1 else SIDE
    cuts = [
        np.linspace(0.0, float(grid.positions), min(grid.positions, most) + 1) for grid in grids
    ]
    edges = [grid.value(cut) for grid, cut in zip(grids, cuts, strict=True)]
    if len(names) == 1:
        answers = release.answer(*column_ranges(release, names[0], cuts[0]), level)
        axes.stairs(
            np.maximum(answers.value, 0.0),
            edges[0],
            fill=True,
            color="#9ecae1",
            label="estimated rows",
        )
        middles = (edges[0][1:] + edges[0][:-1]) / 2
        closed = np.isfinite(answers.high)
        top = 1.5 * float(max(1.0, np.where(closed, answers.high, answers.value).max()))
        high = np.where(closed, answers.high, top)
        axes.fill_between(
            middles,
            answers.low,
            high,
            step="mid",
            color="#08519c",
            alpha=0.25,
            label=f"{100 * level:.4g}% limits",
        )
        if not closed.all():
            axes.set_ylim(top=0.98 * top)
            figure.text(
                0.995,
                0.005,
                "shaded to the top: there is no upper limit",
                ha="right",
                fontsize=7,
                color=SOFT,
            )
        axes.set(xlabel=labels[0], ylabel="rows")
        if spans_decades(answers.value):
            # below one row the axis is linear, so that 0 has a place
            axes.set_yscale("symlog", linthresh=1.0)
            axes.set(ylim=(0.0, None), ylabel=f"rows ({LOG})")
        axes.legend(frameon=False)
    else:
        pixels = np.sqrt(np.maximum(_pixels(release, names, cuts), 0.0))
        shown = axes.pcolormesh(edges[0], edges[1], pixels.T, cmap="viridis")
        figure.colorbar(shown, ax=axes, label="square root of the estimated rows")
        axes.set(xlabel=labels[0], ylabel=labels[1])
        said = _map_limits(release, names, level)
        figure.text(0.995, 0.005, said, ha="right", fontsize=7, color=SOFT)
    dataset = short_label(str(release.manifest["dataset"]), _LABEL_LENGTH)
    for grid, axis in zip(grids, (axes.xaxis, axes.yaxis), strict=False):
        axis.set_major_formatter(FuncFormatter(_written(grid)))
    if len(names) == 1:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.0f}"))
    axes.tick_params(labelsize=8.5)
    axes.set_title(f"{dataset}: {' x '.join(labels)}", loc="left")
    return figure


def _written(grid: Grid) -> Callable[[float, Any], str]:
    """Numbers as people write them, and dates as dates."""
    if grid.kind in CALENDAR:
        return lambda number, _: spelled(grid.kind, int(number))
    return lambda number, _: f"{number:,.10g}"


def column_ranges(release: IntervalTreeRelease, name: str, cuts: Floats) -> tuple[Floats, Floats]:
    """One query a bar; columns that are not shown are not restricted."""
    low = np.zeros((cuts.size - 1, len(release.columns)))
    high = np.tile(
        np.array([float(grid.positions) for grid in release.shape.grids]), (cuts.size - 1, 1)
    )
    axis = release.columns.index(name)
    low[:, axis], high[:, axis] = cuts[:-1], cuts[1:]
    return low, high


def _map_limits(release: IntervalTreeRelease, names: Sequence[str], level: float) -> str:
    """How wide the limits of parts of a map are, which has no place for error bars."""
    sides = []
    for name in names:
        grid = release.shape.grids[release.columns.index(name)]
        sides.append(column_ranges(release, name, _even(0, grid.positions, MAP_PARTS)))
    (low, high), (least, most) = sides
    lows, highs = (
        both(one[:, None, :], other[None, :, :]).reshape(-1, one.shape[1])
        for both, one, other in ((np.maximum, low, least), (np.minimum, high, most))
    )
    found = release.answer(lows, highs, level)
    half = (found.high - found.low) / 2
    shown = f"each of {len(low)} x {len(least)} parts of this map"
    if not np.isfinite(half).all():
        return f"{100 * level:.4g}% limits: there is no upper limit for some of {shown}"
    return f"{100 * level:.4g}% limits of {shown}: ± {half.min():,.0f} to ± {half.max():,.0f} rows"


def _pixels(release: IntervalTreeRelease, names: Sequence[str], cuts: Sequence[Floats]) -> Floats:
    """Estimated counts of a grid of pixels: overlaps are products over columns, so two matrices are
    enough."""
    starts, ends = release.shape.corners(release.boxes)
    parts = []
    for name, cut in zip(names, cuts, strict=True):
        a, b = (edges[release.columns.index(name)][None, :] for edges in (starts, ends))
        cover = np.minimum(b, cut[1:, None]) - np.maximum(a, cut[:-1, None])
        parts.append(np.clip(cover, 0.0, None) / (b - a))
    return np.asarray((parts[0] * release.counts[None, :]) @ parts[1].T)
