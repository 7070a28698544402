"""One HTML page about a release of weighted rows: no script, no network, nothing else to load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpublish.errors import QueryError
from dpublish.present.charts import Bar, bar_chart, safe_text
from dpublish.present.report import MAX_BARS, release_page, save_page
from dpublish.releases.weighted_rows.estimate import LOGISTIC

if TYPE_CHECKING:
    from dpublish.declare.domain import Axis
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
    "SQL, samples and models made from the weights carry no error bars.",
)
_WIDTH, _HEIGHT, _FOOT, _LEFT, _HEAD = 800, 220, 34, 40, 16


def write_report(release: WeightedRowsRelease, path: str | Path) -> Path:
    return save_page(report_html(release), path)


def report_html(release: WeightedRowsRelease) -> str:
    public = release.manifest["facts"]["public"]
    lead = (
        f"Public rows ({safe_text(str(public['name']))}) with one weight each. Weighted, they "
        f"stand for private rows, which "
        f"are not in this file. Weighted by: "
        f"<b>{safe_text(release.summary()['weighted by'])}</b>. SHA-256 of the public rows: "
        f"<code>{safe_text(str(public['sha256']))}</code>."
    )
    tiles = [
        (f"{public['rows']:,}", "public rows"),
        (f"{release.effective_rows:,.0f}", "effective rows: what the weighted rows are worth"),
        (f"{len(release.features.axes):,}", "columns weighted by"),
    ]
    body = [_weights(release), _shares(release), _means(release), _coefficients(release)]
    return release_page(
        release, lead=lead, tiles=tiles, body=body, limits=LIMITS, warnings=release.warnings()
    )


def _weights(release: WeightedRowsRelease) -> str:
    weights = release.sample_weight
    points = [0.01, 0.25, 0.5, 0.75, 0.99]
    row = "".join(
        f'<td class="number">{value:,.3g}</td>'
        for value in (*np.quantile(weights, points), weights.max())
    )
    head = "".join(
        f'<th class="number">{text}</th>'
        for text in ("1%", "quarter", "half", "three quarters", "99%", "largest")
    )
    share = release.effective_rows / len(weights)
    return (
        "<h2>The weights</h2><p>Weights have mean 1. A weight of 3 says that such rows are three "
        "times as common among the "
        f"private rows. {len(weights):,} weighted rows carry as much information as "
        f"{release.effective_rows:,.0f} rows without "
        f"weights ({share:.0%}).</p>{weight_histogram(weights)}"
        f"<table><tr>{head}</tr><tr>{row}</tr></table>"
    )


def weight_histogram(weights: np.ndarray) -> str:
    """How many rows have weights of which size, in bins that each span a factor of two."""
    sizes = np.where(weights > 0.0, np.log2(np.maximum(weights, 1e-300)), -np.inf)
    places = np.clip(np.floor(sizes), -7, 9)
    first, last = int(min(places.min(), 0)), int(max(places.max(), 0))
    counts = np.array([int((places == place).sum()) for place in range(first, last + 1)])
    room, tall = _WIDTH - 2 * _LEFT, _HEIGHT - _FOOT - _HEAD
    step = room / len(counts)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Weights" class="chart">'
    ]
    for k, count in enumerate(counts.tolist()):
        x, height = _LEFT + k * step, tall * count / max(1, counts.max())
        top = _HEAD + tall - height
        parts.append(
            f'<g><title>{count:,} rows</title><rect class="bar" x="{x + 1:.1f}" y="{top:.1f}" '
            f'width="{step - 2:.1f}" '
            f'height="{height:.1f}"/><text class="value" x="{x + step / 2:.1f}" y="{top - 4:.1f}" '
            f'text-anchor="middle">'
            f"{count:,}</text></g>"
        )
    for k in range(len(counts) + 1):
        x, power = _LEFT + k * step, first + k
        label = (
            "0"
            if power == -7
            else "more"
            if power == 10
            else f"{2**power:,}"
            if power >= 0
            else f"1/{2**-power}"
        )
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - _FOOT + 14}" '
            f'text-anchor="middle">{label}</text>'
        )
    parts.append(
        f'<text class="tick" x="{_LEFT + room / 2}" y="{_HEIGHT - 4}" text-anchor="middle">weight '
        f"(rows in each span)</text>"
    )
    return "".join([*parts, "</svg>"])


def _has_rows(release: WeightedRowsRelease) -> bool:
    return release._rows is not None


def _shares(release: WeightedRowsRelease) -> str:
    if not _has_rows(release):
        return (
            "<h2>Columns</h2><p>This release holds no rows, only their hash. Open it, attach the "
            "public rows "
            "(<code>release.attach(rows)</code>) and make the page again to see columns and "
            "means.</p>"
        )
    parts = []
    for place, axis in enumerate(release.features.axes[:MAX_CHARTS]):
        bars, plain = _column_bars(release, place, axis)
        note = (
            f"Share of '{plain[0]}' among the public rows as they are: {plain[1]:.1%}; "
            f"weighted: {plain[2]:.1%}."
        )
        parts.append(
            f"<h3>{safe_text(axis.name)}</h3>{bar_chart(bars, axis.name)}<p "
            f"class='soft'>{safe_text(note)}</p>"
        )
    lines = "95% intervals" if release.limits is not None else safe_text(LOGISTIC)
    more = len(release.features.axes) - MAX_CHARTS
    tail = f"<p>{more} more columns are in the release.</p>" if more > 0 else ""
    return (
        f"<h2>Columns</h2><p>Estimated numbers of private rows; black lines: {lines}. Beneath "
        f"each chart: the value that the "
        f"weights changed most.</p>{''.join(parts)}{tail}"
    )


def _column_bars(
    release: WeightedRowsRelease, place: int, axis: Axis
) -> tuple[list[Bar], tuple[str, float, float]]:
    codes = release._codes[place].astype(np.int64)
    everyone = np.ones(len(codes), dtype=np.bool_)
    plain = np.bincount(codes, minlength=axis.cardinality) / len(codes)
    weighted = (
        np.bincount(codes, weights=release.sample_weight, minlength=axis.cardinality)
        / release.sample_weight.sum()
    )
    changed = int(np.argmax(np.abs(weighted - plain)))
    shown = np.flatnonzero(plain > 0.0)
    if len(shown) > MAX_BARS:
        shown = np.sort(shown[np.argsort(-weighted[shown], kind="stable")[:MAX_BARS]])
    limits = None if release.limits is None else release.limits.level_limits(place, 0.95)
    bars, total = [], release.private_rows
    for code in shown.tolist():
        one = release._mean((codes == code).astype(np.float64), everyone, 0.95, share=True)
        low, high = (one.low, one.high) if limits is None else (limits[0][code], limits[1][code])
        bars.append(
            Bar(
                axis.label(code),
                one.value * total,
                min(low, one.value) * total,
                max(high, one.value) * total,
            )
        )
    return bars, (axis.label(changed), float(plain[changed]), float(weighted[changed]))


def _means(release: WeightedRowsRelease) -> str:
    if not _has_rows(release):
        return ""
    rows = release.rows
    numbers = [
        name
        for name in rows.columns
        if rows[name].dtype.is_numeric() or rows[name].dtype == pl.Boolean
    ][:MAX_MEANS]
    if not numbers:
        return ""
    lines = []
    for name in numbers:
        try:
            one = release.estimate(_quoted(name))
        except QueryError:  # a column without any value
            continue
        before = float(rows[name].cast(pl.Float64).drop_nulls().to_numpy().mean())
        note = safe_text(" ".join([f"{one.note}."] * (one.basis == "bounds") + list(one.warnings)))
        lines.append(
            f'<tr><td>{safe_text(name)}</td><td class="number">{before:,.4g}</td><td '
            f'class="number">{one.value:,.4g}</td>'
            f'<td class="number">{one.low:,.4g} to {one.high:,.4g}</td><td>{one.basis}</td></tr>'
            + (
                f'<tr><td colspan="5" class="soft">{safe_text(name)}: {note}</td></tr>'
                if note
                else ""
            )
        )
    head = (
        '<tr><th>column</th><th class="number">public rows as they are</th><th '
        'class="number">weighted</th>'
        '<th class="number">interval</th><th>rests on</th></tr>'
    )
    return f"<h2>Means</h2><table>{head}{''.join(lines)}</table>{_grouped(release, numbers)}"


def _grouped(release: WeightedRowsRelease, numbers: list[str]) -> str:
    """Means of the first numbers in the groups of one column of few values."""
    rows = release.rows
    labels = [axis.name for axis in release.features.axes if not axis.numeric]
    groups = [name for name in labels if 2 <= rows[name].n_unique() <= MAX_GROUPS]
    by = groups[-1] if groups else None
    values = [name for name in numbers if name != by][:3]
    if by is None or not values:
        return ""
    found = []
    for name in values:
        table = release.means(_quoted(name), by=by)
        for row in table.iter_rows(named=True):
            label = "(missing)" if row[by] is None else str(row[by])
            found.append(
                f"<tr><td>{safe_text(name)}</td><td>{safe_text(label)}</td><td "
                f'class="number">{row["mean"]:,.4g}</td>'
                f'<td class="number">{row["low"]:,.4g} to '
                f"{row['high']:,.4g}</td><td>{row['basis']}</td>"
                f'<td class="number">{row["effective_rows"]:,.0f}</td></tr>'
            )
    head = (
        f'<tr><th>mean of</th><th>{safe_text(by)}</th><th class="number">weighted</th><th '
        f'class="number">interval</th>'
        '<th>rests on</th><th class="number">effective rows</th></tr>'
    )
    return f"<h3>Means by {safe_text(by)}</h3><table>{head}{''.join(found)}</table>"


def _coefficients(release: WeightedRowsRelease) -> str:
    beta = release.coefficients
    largest = np.argsort(-np.abs(beta), kind="stable")[:MAX_COEFFICIENTS]
    names = release.features.names
    lines = "".join(
        f"<tr><td>{safe_text(names[k][0])}</td><td>{safe_text(names[k][1])}</td><td "
        f'class="number">{beta[k]:+.3f}</td>'
        f'<td class="number">x {np.exp(np.clip(beta[k], -500.0, 500.0)):,.3g}</td></tr>'
        for k in largest.tolist()
    )
    return (
        "<h2>Coefficients</h2><p>A row's weight is the product of the factors of its values"
        f" (and of a number that makes the mean 1). The {len(largest)} largest of "
        f"{len(beta):,}:</p>"
        '<table><tr><th>column</th><th>value</th><th class="number">coefficient</th><th '
        'class="number">factor</th></tr>'
        f"{lines}</table>"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
