"""What a report says about weighted rows: the weights, every column before and after, means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpublish.declare.domain import Axis
from dpublish.errors import QueryError
from dpublish.estimate import plain
from dpublish.present.charts import Bar, weight_histogram
from dpublish.present.report import (
    MAX_BARS,
    Block,
    Chart,
    Code,
    Drawing,
    Heading,
    Paragraph,
    Report,
    Section,
    Strong,
    Table,
    Text,
    axis_title,
    bin_lengths,
    how_it_was_made,
    level_label,
    said_of_bins,
)
from dpublish.query.constants import quoted
from dpublish.releases.weighted_rows.aggregates import LOGISTIC, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpublish.releases.weighted_rows.release import WeightedRowsRelease

MAX_CHARTS = 24
MAX_COEFFICIENTS = 20
MAX_GROUPS = 12
MAX_MEANS = 8
LIMITS = (
    "The public rows are public: the guarantee does not cover them, nor how they were chosen.",
    "Intervals of what was counted cover the privacy noise and the chance of which private rows "
    "there were; bounds hold "
    "whatever private rows are like beyond that. What is marked as assumed holds only if private "
    "rows are like public ones.",
    "A value that no public row has gets no weight, whatever the private rows hold.",
    "Samples and models made from the weights carry no error bars; in SQL, what has no limits has "
    "a note.",
)


def sections(release: WeightedRowsRelease) -> Report:
    public = release.manifest["facts"]["public"]
    return Report(
        lead=(
            f"Public rows ({public['name']}) with one weight each. Weighted, they stand for "
            "private "
            "rows, which are not in this file. Weighted by: ",
            Strong(release.summary()["weighted by"]),
            ". SHA-256 of the public rows: ",
            Code(str(public["sha256"])),
            ".",
        ),
        tiles=[
            (f"{public['rows']:,}", "public rows"),
            (
                f"{release.effective_rows:,.0f}",
                "effective rows: what the weighted rows are worth",
            ),
            (f"{len(release.features.axes):,}", "columns weighted by"),
        ],
        sections=[
            how_it_was_made(release),
            _weights(release),
            _columns(release),
            *_means(release),
            _coefficients(release),
        ],
        limits=LIMITS,
        warnings=release.warnings(),
    )


def _weights(release: WeightedRowsRelease) -> Section:
    weights = release.sample_weight
    points = np.quantile(weights, [0.01, 0.25, 0.5, 0.75, 0.99, 1.0])
    head = ("1%", "quarter", "half", "three quarters", "99%", "largest")
    said = (
        "Weights have mean 1. A weight of 3 says that such rows are three times as common among "
        f"the private rows. {len(weights):,} weighted rows carry as much information as "
        f"{release.effective_rows:,.0f} rows without weights "
        f"({release.effective_rows / len(weights):.0%})."
    )
    drawn, lines = weight_histogram(weights)
    return Section(
        "The weights",
        [
            Paragraph(said),
            Drawing(drawn, Table(("weight", "rows"), lines, right=(1,))),
            Table(head, [[f"{value:,.3g}" for value in points]], right=range(len(head))),
        ],
    )


def _columns(release: WeightedRowsRelease) -> Section:
    if release._rows is None:
        missing: Text = (
            "This release holds no rows, only their hash. Open it, attach the public rows (",
            Code("release.attach(rows)"),
            ") and make the page again to see columns and means.",
        )
        return Section("Columns", [Paragraph(missing)])
    lines = "95% intervals" if release.limits is not None else LOGISTIC
    blocks: list[Block] = [
        Paragraph(
            f"Estimated numbers of private rows; black lines: {lines}. Beneath each chart: the "
            "value that the weights changed most."
        )
    ]
    for place, axis in enumerate(release.features.axes[:MAX_CHARTS]):
        bars, most = _column_bars(release, place, axis)
        note = (
            f"Share of '{most[0]}' among the public rows as they are: {most[1]:.1%}; weighted: "
            f"{most[2]:.1%}."
        )
        blocks += [
            Heading(axis_title(axis)),
            Chart(axis.name, bars, said_of_bins(axis)),
            Paragraph(note, "soft"),
        ]
    more = len(release.features.axes) - MAX_CHARTS
    blocks += [Paragraph(f"{more} more columns are in the release.")] if more > 0 else []
    return Section("Columns", blocks)


def _column_bars(
    release: WeightedRowsRelease, place: int, axis: Axis
) -> tuple[list[Bar], tuple[str, float, float]]:
    codes = release._codes[place].astype(np.int64)
    everyone = np.ones(len(codes), dtype=np.bool_)
    before = np.bincount(codes, minlength=axis.cardinality) / len(codes)
    weighted = (
        np.bincount(codes, weights=release.sample_weight, minlength=axis.cardinality)
        / release.sample_weight.sum()
    )
    changed = int(np.argmax(np.abs(weighted - before)))
    shown = np.flatnonzero(before > 0.0)
    if len(shown) > MAX_BARS:
        shown = np.sort(shown[np.argsort(-weighted[shown], kind="stable")[:MAX_BARS]])
    rows, (lengths, _) = rows_of(release, 0.95), bin_lengths(axis)
    limits = None if release.limits is None else release.limits.level_limits(place, rows.level)
    bars = []
    for code in shown.tolist():
        one = release._mean((codes == code).astype(np.float64), everyone, rows.level, share=True)
        low, high = (one.low, one.high) if limits is None else (limits[0][code], limits[1][code])
        ends = rows.of(one.value, min(low, one.value), max(high, one.value))
        scale = float(lengths[code]) if code < lengths.size else 1.0
        bars.append(Bar(level_label(axis, axis.label(code)), *ends, scale))
    return bars, (axis.label(changed), float(before[changed]), float(weighted[changed]))


def _means(release: WeightedRowsRelease) -> list[Section]:
    if release._rows is None:
        return []
    rows = release.rows
    numbers = [
        name
        for name in rows.columns
        if rows[name].dtype.is_numeric() or rows[name].dtype == pl.Boolean
    ][:MAX_MEANS]
    if not numbers:
        return []
    lines: list[tuple[str, ...]] = []
    for name in numbers:
        try:
            one = release.estimate(quoted(name))
        except QueryError:  # a column without any value
            continue
        before = float(rows[name].cast(pl.Float64).drop_nulls().to_numpy().mean())
        value, low, high = one.written()
        lines.append((name, plain(before), value, f"{low} to {high}", one.basis))
        note = " ".join([f"{one.note}."] * (one.basis == "bounds") + list(one.warnings))
        lines += [(f"{name}: {note}",)] if note else []
    head = ("column", "public rows as they are", "weighted", "interval", "rests on")
    return [Section("Means", [Table(head, lines, right=(1, 2, 3, 4)), *_grouped(release, numbers)])]


def _grouped(release: WeightedRowsRelease, numbers: list[str]) -> list[Block]:
    """Means of the first numbers in the groups of one column of few values."""
    groups = [
        axis.name
        for axis in release.features.axes
        if not axis.numeric and 2 <= release.rows[axis.name].n_unique() <= MAX_GROUPS
    ]
    by = groups[-1] if groups else None
    values = [name for name in numbers if name != by][:3]
    if by is None or not values:
        return []
    found = [
        (
            name,
            "(missing)" if row[by] is None else str(row[by]),
            plain(row["mean"]),
            f"{plain(row['low'])} to {plain(row['high'])}",
            row["basis"],
            f"{row['effective_rows']:,.0f}",
        )
        for name in values
        for row in release.means(quoted(name), by=by).iter_rows(named=True)
    ]
    head = ("mean of", by, "weighted", "interval", "rests on", "effective rows")
    return [Heading(f"Means by {by}"), Table(head, found, right=(2, 3, 5))]


def _coefficients(release: WeightedRowsRelease) -> Section:
    beta = release.coefficients
    largest = np.argsort(-np.abs(beta), kind="stable")[:MAX_COEFFICIENTS]
    names = release.features.names
    rows = [
        (*names[k], f"{beta[k]:+.3f}", f"x {np.exp(np.clip(beta[k], -500.0, 500.0)):,.3g}")
        for k in largest.tolist()
    ]
    said = (
        "A row's weight is the product of the factors of its values (and of a number that makes "
        f"the mean 1). The {len(largest)} largest of {len(beta):,}:"
    )
    return Section(
        "Coefficients",
        [Paragraph(said), Table(("column", "value", "coefficient", "factor"), rows, right=(2, 3))],
    )


# Plots of weighted rows.

_PLAIN, _WEIGHTED = "#b8b8b8", "#1f6fb2"
_LABEL_LENGTH = 44


def plot_shares(release: WeightedRowsRelease, column: str, *, level: float, top: int) -> Figure:
    """Shares of the values of one column: public rows as they are, and weighted, with error
    bars."""
    from dpublish.present.figures import Figure, dress, error_bars, short_label

    values = release._column(column)
    if values.n_unique() > 200:
        raise QueryError(
            f"Column '{column}' has {values.n_unique()} values, too many for bars. Use "
            f"release.estimate(...)."
        )
    table = release.marginal(column, level=level)
    weighted, low, high = (
        table[end].to_numpy() / release.private_rows for end in ("count", "low", "high")
    )
    labels = ["(missing)" if label is None else str(label) for label in table[column].to_list()]
    plain = np.array([values.eq_missing(label).mean() for label in table[column].to_list()])
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
