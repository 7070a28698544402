"""Pictures of set-valued releases, with matplotlib: frequent items and frequent itemsets, with error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpublish.errors import QueryError

if TYPE_CHECKING:
    from dpublish.public.releases.itemsets import ItemsetRelease

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter
except ImportError:
    raise QueryError("Plots need matplotlib. Install it with: pip install 'dpublish[plots]'.") from None

_BAR, _INK, _SOFT, _GRID = "#4477aa", "#222222", "#666666", "#e4e4e4"
_LABEL_LENGTH = 44
MAX_BARS = 100


def plot_items(release: ItemsetRelease, *, top: int, level: float) -> Figure:
    """The most frequent items."""
    frame = release.item_counts(top=_bars(top), level=level)
    title = f"{release.manifest['dataset']}: most frequent items"
    return _figure(frame["item"].to_list(), frame, "count", title, level)


def plot_top_itemsets(release: ItemsetRelease, k: int, *, min_size: int, level: float) -> Figure:
    """The most frequent itemsets of at least `min_size` items."""
    frame = release.top_itemsets(_bars(k), min_size=min_size, level=level)
    labels = [" + ".join(items) for items in frame["items"].to_list()]
    return _figure(labels, frame, "estimate", f"{release.manifest['dataset']}: most frequent itemsets", level)


def _bars(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MAX_BARS:
        raise QueryError(f"A plot shows 1 to {MAX_BARS} bars, not {number!r}.")
    return number


def _figure(labels: list[str], frame: pl.DataFrame, column: str, title: str, level: float) -> Figure:
    order = np.argsort(-frame[column].to_numpy(), kind="stable")
    labels, frame = [labels[int(place)] for place in order], frame[order]
    figure = Figure(figsize=(7.2, 1.3 + 0.27 * max(3, len(labels))), dpi=150, layout="constrained")
    axes = figure.subplots()
    places, value = np.arange(len(labels)), frame[column].to_numpy()
    low, high = frame["low"].to_numpy(), frame["high"].to_numpy()
    # without a noisy total there is no upper end to draw
    shown = np.where(np.isfinite(high), high, value)
    axes.barh(places, value, height=0.68, color=_BAR, zorder=2)
    axes.errorbar(
        value, places, xerr=[value - low, shown - value], fmt="none", ecolor=_INK, elinewidth=1.1, capsize=2.5, zorder=3
    )
    axes.set_yticks(places, [_short(label) for label in labels])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel(f"transactions ({level:.0%} intervals)", color=_SOFT)
    axes.grid(axis="x", color=_GRID, zorder=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.0f}"))
    axes.set_title(_short(title), loc="left", fontsize=11, color=_INK, fontweight="bold")
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0, labelsize=8.5, colors=_INK)
    return figure


def _short(label: str) -> str:
    # a dollar sign would start a formula
    cut = label if len(label) <= _LABEL_LENGTH else label[: _LABEL_LENGTH - 1] + "…"
    return "".join(c if c.isprintable() else "·" for c in cut).replace("$", r"\$")
