"""Figures of set-valued releases, with matplotlib: frequent items and frequent itemsets, with
error bars."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpublish.errors import QueryError
from dpublish.present.figures import Figure, bars_figure, dress, short_label

if TYPE_CHECKING:
    from dpublish.releases.itemsets.release import ItemsetRelease

_LABEL_LENGTH = 44
MAX_BARS = 100


def plot_items(release: ItemsetRelease, *, top: int, level: float) -> Figure:
    """The most frequent items."""
    frame, others = release.frequent_items(top=_bars(top), level=level)
    title = f"{release.manifest['dataset']}: most frequent items"
    return _figure(frame["item"].to_list(), frame, "count", title, level, others)


def plot_top_itemsets(release: ItemsetRelease, k: int, *, min_size: int, level: float) -> Figure:
    """The most frequent itemsets of at least `min_size` items."""
    frame = release.top_itemsets(_bars(k), min_size=min_size, level=level)
    labels = [" + ".join(items) for items in frame["items"].to_list()]
    return _figure(
        labels, frame, "estimate", f"{release.manifest['dataset']}: most frequent itemsets", level
    )


def _bars(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, Integral) or not 1 <= number <= MAX_BARS:
        raise QueryError(f"A plot shows 1 to {MAX_BARS} bars, not {number!r}.")
    return number


def _figure(
    labels: list[str], frame: pl.DataFrame, column: str, title: str, level: float, others: str = ""
) -> Figure:
    order = np.argsort(-frame[column].to_numpy(), kind="stable")
    labels, frame = [labels[int(place)] for place in order], frame[order]
    value, low, high = (frame[name].to_numpy() for name in (column, "low", "high"))
    # without a noisy total there is no upper end
    shown = [short_label(label, _LABEL_LENGTH) for label in labels]
    figure, axes, note = bars_figure(
        shown, value, low, high, axis=f"transactions ({100 * level:.4g}% intervals)"
    )
    dress(
        figure,
        axes,
        short_label(title, _LABEL_LENGTH),
        " ".join(part for part in (others, note) if part),
    )
    return figure
