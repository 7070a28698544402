"""Plots of weighted rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpublish.errors import QueryError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpublish.releases.weighted_rows.release import WeightedRowsRelease

_PLAIN, _WEIGHTED = "#b8b8b8", "#1f6fb2"
_LABEL_LENGTH = 44


def plot_shares(release: WeightedRowsRelease, column: str, *, level: float, top: int) -> Figure:
    """Shares of the values of one column: public rows as they are, and weighted, with error
    bars."""
    from dpublish.present.figures import Figure, dress, error_bars, short_label

    values = release.rows.get_column(column) if column in release.rows.columns else None
    if values is None:
        raise QueryError(
            f"There is no column '{column}'. Columns: {', '.join(release.rows.columns[:40])}."
        )
    if values.n_unique() > 200:
        raise QueryError(
            f"Column '{column}' has {values.n_unique()} values, too many for bars. Use "
            f"release.estimate(...)."
        )
    table = release.marginal(column, level=level)
    total = release.private_rows
    weighted = table["count"].to_numpy() / total
    low, high = (table[end].to_numpy() / total for end in ("low", "high"))
    labels = ["(missing)" if label is None else str(label) for label in table[column].to_list()]
    plain = np.array(
        [
            float((values.is_null() if label is None else (values == label)).sum())
            for label in table[column].to_list()
        ]
    ) / len(values)
    order = np.argsort(-weighted, kind="stable")[:top]
    if values.dtype.is_numeric():
        order = np.sort(order)
    place = np.arange(len(order))[::-1]
    figure = Figure(figsize=(7.0, 1.2 + 0.42 * len(order)), layout="constrained")
    axes = figure.subplots()
    axes.barh(place + 0.2, plain[order], height=0.38, color=_PLAIN, label="public rows as they are")
    axes.barh(place - 0.2, weighted[order], height=0.38, color=_WEIGHTED, label="weighted")
    error_bars(axes, place - 0.2, weighted[order], low[order], high[order])
    axes.set_yticks(place, [short_label(labels[index], _LABEL_LENGTH) for index in order])
    axes.set_xlabel(f"share of rows ({100 * level:.4g}% intervals)")
    axes.legend(frameon=False, fontsize="small")
    left = (
        [f"the {len(order)} largest of {len(labels)} are shown"] if len(order) < len(labels) else []
    )
    if "assumed" in table["basis"].to_list():
        left.append("error bars hold only if private rows are like public ones")
    dress(figure, axes, short_label(column, _LABEL_LENGTH), "; ".join(left))
    return figure
