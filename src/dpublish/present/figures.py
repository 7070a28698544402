"""What all pictures share, with matplotlib: bars with error bars, labels that fit, colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.grid import Floats
from dpublish.errors import QueryError

try:
    from matplotlib.figure import Figure as Figure
    from matplotlib.ticker import FuncFormatter as FuncFormatter
except ImportError:
    raise QueryError(
        "Plots need matplotlib. Install it with: pip install 'dpublish[plots]'."
    ) from None

BAR, INK, SOFT, GRID = "#4477aa", "#222222", "#666666", "#e4e4e4"
OPEN_END = "an arrow: there is no upper limit"


def bars_figure(
    labels: Sequence[str], value: Floats, low: Floats, high: Floats, *, axis: str
) -> tuple[Figure, Any, str]:
    """Horizontal bars with error bars, the first on top: the figure, its axes, and a note where a
    limit is infinite."""
    figure = Figure(figsize=(7.2, 1.3 + 0.27 * max(3, len(labels))), dpi=150, layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(labels))
    axes.barh(places, value, height=0.68, color=BAR, zorder=2)
    note = error_bars(axes, places, value, low, high)
    axes.set_xlim(left=0)  # after the error bars, so that the other end has room for them
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.set_xlabel(axis, color=SOFT)
    axes.grid(axis="x", color=GRID, zorder=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.0f}"))
    return figure, axes, note


def error_bars(axes: Any, places: NDArray[Any], value: Floats, low: Floats, high: Floats) -> str:
    """An infinite limit is an arrow to the end of the picture: a bar without it would look
    certain."""
    closed = np.isfinite(high)
    # ends are non-negative lengths; a bar cut off at zero may start beside its interval
    spread = np.maximum(np.stack([value - low, np.where(closed, high, value) - value]), 0.0)
    axes.errorbar(
        value, places, xerr=spread, fmt="none", ecolor=INK, elinewidth=1.1, capsize=2.5, zorder=3
    )
    if closed.all():
        return ""
    longest = float(max(np.where(closed, high, value).max(initial=0.0), 1e-12))
    end = 1.18 * longest
    axes.set_xlim(right=1.04 * end)
    for place, start in zip(places[~closed], value[~closed], strict=True):
        axes.annotate(
            "",
            xy=(end, place),
            xytext=(start, place),
            zorder=3,
            arrowprops={
                "arrowstyle": "->",
                "color": INK,
                "linewidth": 1.1,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
    return OPEN_END


def short_label(label: str, length: int) -> str:
    # a dollar sign would start a formula
    cut = label if len(label) <= length else label[: length - 1] + "…"
    return "".join(c if c.isprintable() else "·" for c in cut).replace("$", r"\$")


def dress(figure: Figure, axes: Any, title: str, note: str) -> None:
    """The title, no frame, and a note in small letters."""
    axes.set_title(title, loc="left", fontsize=11, color=INK, fontweight="bold")
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, labelsize=8.5, colors=INK)
    if note:
        # as a label of the figure it has a line of its own below the axis; a text put there would
        # run into the axis label
        figure.supxlabel(note, x=0.995, ha="right", fontsize=7, color=SOFT)
