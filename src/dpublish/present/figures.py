"""Figures with matplotlib: what all of them share (bars with error bars, labels that fit, colours),
and marginals: bars for one column, a heat map for two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.estimate import whole_number
from dpublish.present.charts import LOG, shortened, spans_decades
from dpublish.present.report import axis_title, bin_lengths, level_label

try:
    from matplotlib.figure import Figure as Figure
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import FuncFormatter as FuncFormatter
except ImportError:
    raise QueryError(
        "Plots need matplotlib. Install it with: pip install 'dpublish[plots]'."
    ) from None


BAR, INK, SOFT, GRID = "#4477aa", "#222222", "#666666", "#e4e4e4"
OPEN_END = "an arrow: there is no upper limit"
_LABEL_LENGTH = 28
_LETTER = 0.075
"""Inches of a letter of a label, about."""


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
    if spans_decades(value):
        # below one row the axis is linear, so that 0 has a place
        axes.set_xscale("symlog", linthresh=1.0)
        note = "; ".join(filter(None, (note, LOG)))
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
    end = 1.18 * float(max(np.where(closed, high, value).max(initial=0.0), 1e-12))
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
    cut = shortened(label, length)
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


class TableRelease(Protocol):
    """What a figure needs of a release."""

    domain: Domain
    manifest: Mapping[str, Any]

    def marginal(self, *columns: str, level: float = 0.95) -> pl.DataFrame: ...

    def counted_together(self, *columns: str) -> bool: ...


def plot_marginal(
    release: TableRelease, columns: Sequence[str], *, level: float = 0.95, top: int = 25
) -> Figure:
    """A figure of one or two columns; of long lists the `top` largest are shown and the rest is
    mentioned."""
    if len(columns) not in (1, 2):
        raise QueryError(
            "A plot shows one column or two. Name them: release.plot('age') or "
            "release.plot('age', 'income')."
        )
    whole_number("top", top, 1, 200)
    if len(columns) == 1:
        return _bars(release, columns[0], level, top)
    return _heat(release, columns[0], columns[1], level, top)


def _bars(release: TableRelease, column: str, level: float, top: int) -> Figure:
    frame = release.marginal(column, level=level)
    axis = release.domain.axis(column)
    frame, per = _densities(frame, axis)
    frame, note = keep_largest(frame, top, ordered=axis.ordered)
    figure, axes, open_end = bars_figure(
        [_short(level_label(axis, label)) for label in frame.to_series(0)],
        *(frame.to_series(index).to_numpy() for index in (1, 3, 4)),
        axis=f"rows{per} ({100 * level:.4g}% intervals)",
    )
    dress(
        figure,
        axes,
        f"{_dataset(release)}: {short_label(axis_title(axis), 60)}",
        "; ".join(filter(None, (note, open_end))),
    )
    return figure


def _densities(frame: pl.DataFrame, axis: Axis) -> tuple[pl.DataFrame, str]:
    """Rows for each stretch as long as the shortest bin, where bins are not equally wide: a bar
    then says how common its values are, and not how wide its bin is. What has no width is left
    out."""
    lengths, per = bin_lengths(axis)
    if not per:
        return frame, ""
    shown = frame.head(axis.base)
    numbers = [shown.to_series(index) * lengths for index in range(1, shown.width)]
    return pl.DataFrame([shown.to_series(0), *numbers]), f" per {_short(per)}"


def _heat(release: TableRelease, first: str, second: str, level: float, top: int) -> Figure:
    frame = release.marginal(first, second, level=level)
    sides = [release.domain.axis(name) for name in (first, second)]
    shape = [axis.cardinality for axis in sides]
    grid = frame.to_series(2).to_numpy().reshape(shape)
    reach = (frame.to_series(5) - frame.to_series(4)).to_numpy().reshape(shape) / 2
    picked, labels, notes = [], [], []
    for place, axis in enumerate(sides):
        sums = pl.DataFrame(
            {"label": axis.labels, "sum": grid.sum(axis=1 - place), "code": np.arange(shape[place])}
        )
        kept, note = keep_largest(sums, top, ordered=axis.ordered)
        picked.append(kept["code"].to_numpy())
        labels.append([_short(level_label(axis, label)) for label in kept["label"]])
        notes += [f"{_short(axis.name)}: {note}"] if note else []
    grid, reach = (one[np.ix_(picked[0], picked[1])] for one in (grid, reach))
    figure = Figure(
        figsize=(
            min(16.0, 2.6 + 0.56 * max(5, len(labels[1]))),
            1.9 + 0.36 * max(4, len(labels[0])),
        ),
        dpi=150,
        layout="constrained",
    )
    axes = figure.subplots()
    image = axes.imshow(grid, cmap="Blues", aspect="auto", vmin=0)
    room = 0.5 * max(5, len(labels[1])) / max(1, len(labels[1]))
    turned = _LETTER * (1 + max((len(label) for label in labels[1]), default=0)) > room
    axes.set_xticks(
        range(len(labels[1])),
        labels[1],
        rotation=40 if turned else 0,
        ha="right" if turned else "center",
    )
    axes.set_yticks(range(len(labels[0])), labels[0])
    axes.set_xlabel(_short(axis_title(sides[1])), color=SOFT)
    axes.set_ylabel(_short(axis_title(sides[0])), color=SOFT)
    if grid.size <= 150:
        brightest = max(float(grid.max()), 1.0)
        for (row, column), number in np.ndenumerate(grid):
            colour = "white" if number > 0.55 * brightest else INK
            give = reach[row, column]
            text = f"{number:,.0f}" + (f"\n± {give:,.0f}" if np.isfinite(give) else "\nno limit")
            axes.text(column, row, text, ha="center", va="center", fontsize=6, color=colour)
        notes.append(f"±: half of the {100 * level:.4g}% interval")
    if not release.counted_together(first, second):
        # a guess should not look like a count
        axes.add_patch(
            Rectangle(
                (-0.5, -0.5),
                len(labels[1]),
                len(labels[0]),
                fill=False,
                hatch="///",
                edgecolor=GRID,
                linewidth=0,
            )
        )
        notes.append("hatched: not counted together, the numbers are a model's guess")
    bar = figure.colorbar(
        image, ax=axes, format=FuncFormatter(lambda number, _: f"{number:,.0f}"), label="rows"
    )
    bar.outline.set_visible(False)
    dress(
        figure, axes, f"{_dataset(release)}: {_short(first)} by {_short(second)}", "; ".join(notes)
    )
    return figure


def keep_largest(frame: pl.DataFrame, top: int, *, ordered: bool) -> tuple[pl.DataFrame, str]:
    """The `top` rows with the largest second column (in their own order when it means something),
    and a note on the rest."""
    if frame.height <= top and ordered:
        return frame, ""
    place = np.argsort(-frame.to_series(1).to_numpy(), kind="stable")[:top]
    shown = frame[np.sort(place) if ordered else place]
    left = frame.height - shown.height
    return shown, f"the {top} largest of {frame.height} are shown" if left else ""


def _short(label: str) -> str:
    return short_label(label, _LABEL_LENGTH)


def _dataset(release: TableRelease) -> str:
    return _short(str(release.manifest["dataset"]))
