"""Pictures of an interval tree: the density of one column with its error, a heat map of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpublish.declare.calendar import CALENDAR, spelled
from dpublish.declare.grid import Floats
from dpublish.errors import QueryError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpublish.releases.interval_tree.release import IntervalTreeRelease

STEPS = 200
SIDE = 96
_LABEL_LENGTH = 34


def plot_tree(release: IntervalTreeRelease, columns: Sequence[str], *, level: float) -> Figure:
    from dpublish.present.charts import LOG, spans_decades
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
    counts = [
        min(
            release.shape.grids[release.columns.index(name)].positions,
            STEPS if len(names) == 1 else SIDE,
        )
        for name in names
    ]
    cuts = []
    for name, count in zip(names, counts, strict=True):
        grid = release.shape.grids[release.columns.index(name)]
        cuts.append(np.linspace(0.0, float(grid.positions), count + 1))
    edges = [
        release.shape.grids[release.columns.index(name)].value(cut)
        for name, cut in zip(names, cuts, strict=True)
    ]
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
        limits = f"{100 * level:.4g}% limits"
        axes.fill_between(
            middles, answers.low, high, step="mid", color="#08519c", alpha=0.25, label=limits
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
        axes.set_xlabel(labels[0])
        axes.set_ylabel("rows")
        if spans_decades(answers.value):
            # below one row the axis is linear, so that 0 has a place
            axes.set_yscale("symlog", linthresh=1.0)
            axes.set_ylim(bottom=0.0)
            axes.set_ylabel(f"rows ({LOG})")
        axes.legend(frameon=False)
    else:
        pixels = np.maximum(_pixels(release, names, cuts), 0.0)
        shown = axes.pcolormesh(edges[0], edges[1], np.sqrt(pixels.T), cmap="viridis")
        figure.colorbar(shown, ax=axes, label="square root of the estimated rows")
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
    dataset = short_label(str(release.manifest["dataset"]), _LABEL_LENGTH)
    for name, axis in zip(names, (axes.xaxis, axes.yaxis), strict=False):
        axis.set_major_formatter(FuncFormatter(_written(release, name)))
    if len(names) == 1:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.0f}"))
    axes.tick_params(labelsize=8.5)
    axes.set_title(f"{dataset}: {' x '.join(labels)}", loc="left")
    return figure


def _written(release: IntervalTreeRelease, name: str) -> Callable[[float, Any], str]:
    """Numbers as people write them, and dates as dates."""
    grid = release.shape.grids[release.columns.index(name)]

    def text(number: float, _: Any) -> str:
        if grid.kind in CALENDAR:
            return spelled(grid.kind, int(number))
        return f"{number:,.10g}"

    return text


def column_ranges(release: IntervalTreeRelease, name: str, cuts: Floats) -> tuple[Floats, Floats]:
    """One query a bar; columns that are not shown are not restricted."""
    low = np.zeros((cuts.size - 1, len(release.columns)))
    high = np.tile(
        np.array([float(grid.positions) for grid in release.shape.grids]), (cuts.size - 1, 1)
    )
    axis = release.columns.index(name)
    low[:, axis], high[:, axis] = cuts[:-1], cuts[1:]
    return low, high


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
