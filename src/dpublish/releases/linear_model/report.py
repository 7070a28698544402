"""One HTML page about a published linear classifier: no script, no network, nothing else to
load."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from dpublish.present.charts import safe_text
from dpublish.present.report import listed, release_page, save_page, usage

if TYPE_CHECKING:
    from dpublish.releases.linear_model.release import LinearModelRelease

SHOWN = 20
MAX_CLASSES = 12
_LOSSES = {
    "logistic": "logistic regression",
    "huber": "a support vector machine with the Huber loss",
}


def write_report(release: LinearModelRelease, path: str | Path) -> Path:
    return save_page(report_html(release), path)


def report_html(release: LinearModelRelease) -> str:
    columns = tuple(axis.name for axis in release.features.axes)
    lead = (
        f"This release is a classifier, {_LOSSES[release.loss]}, that predicts "
        f"<b>{safe_text(release.target.name)}</b> from "
        f"<b>{safe_text(listed(columns))}</b>. It was trained on private rows with noise; the "
        f"rows themselves are not in it."
    )
    tiles = [
        (f"{release.target.base:,}", "classes"),
        (f"{len(columns):,}", "columns it looks at"),
        (f"{release.features.dimension:,}", "coefficients of each model"),
    ]
    limits = [
        "How well it predicts is not in the release: test it on labelled rows of your own.",
        "Coefficients carry the noise of the release, and of columns that go together no single "
        "one means much.",
        "A value that the coding does not know adds nothing to a score.",
    ]
    if release.loss == "huber":
        limits.append(
            "Scores are margins: predict_proba ranks rows well, and its numbers are not calibrated."
        )
    body = [
        _coefficients(release),
        _usage(release),
    ]
    return release_page(release, lead=lead, tiles=tiles, body=body, limits=limits)


def _coefficients(release: LinearModelRelease) -> str:
    frame = release.to_frame()
    labels = frame["class"].unique(maintain_order=True).to_list()
    blocks = []
    for label in labels[:MAX_CLASSES]:
        largest = (
            frame.filter(pl.col("class") == label)
            .sort(pl.col("coefficient").abs(), descending=True)
            .head(SHOWN)
        )
        lines = "".join(
            _line(release, *row)
            for row in largest.select("column", "level", "coefficient").iter_rows()
        )
        factor = '<th class="number">odds times</th>' if release.loss == "logistic" else ""
        blocks.append(
            f"<h3>For {safe_text(release.target.name)} = "
            f"{safe_text(label)}</h3><table><tr><th>column</th><th>value</th>"
            f'<th class="number">coefficient</th>{factor}</tr>{lines}</table>'
        )
    more = len(labels) - MAX_CLASSES
    tail = f'<p class="soft">{more} more classes are in the release.</p>' if more > 0 else ""
    noise = release.manifest["facts"].get("expected_noise_length")
    count = release.features.dimension
    # the noise has no preferred direction, so that each coefficient gets an even part of its square
    typical = (
        float(noise) / release.features.divisor / math.sqrt(count)
        if isinstance(noise, int | float)
        else None
    )
    noisy = (
        ""
        if typical is None
        else f" Noise is expected to move each of them by no more than about {typical:.2g}."
    )
    return (
        f"<h2>Coefficients</h2><p>How much the score grows when a row has the value, or when a "
        f"number goes from its lowest to "
        f"its highest: the {min(SHOWN, count)} largest of "
        f"{count:,}.{noisy}</p>{''.join(blocks)}{tail}"
    )


def _line(release: LinearModelRelease, column: str, level: str, coefficient: float) -> str:
    factor = (
        f'<td class="number">{math.exp(min(coefficient, 500.0)):,.3g}</td>'
        if release.loss == "logistic"
        else ""
    )
    return (
        f"<tr><td>{safe_text(column)}</td><td>{safe_text(level)}</td><td "
        f'class="number">{coefficient:+.3f}</td>{factor}</tr>'
    )


def _usage(release: LinearModelRelease) -> str:
    return usage(
        release,
        "release.predict(rows)            # the likeliest class of each row of a frame",
        "release.predict_proba(rows)            # one column a class",
        "release.to_sklearn()            # a fitted scikit-learn classifier",
    )
