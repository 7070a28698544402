"""What a report says about a published linear classifier: its largest coefficients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from dpublish.present.report import (
    Block,
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

if TYPE_CHECKING:
    from dpublish.releases.linear_model.release import LinearModelRelease

SHOWN = 20
MAX_CLASSES = 12
_LOSSES = {
    "logistic": "logistic regression",
    "huber": "a support vector machine with the Huber loss",
}
LIMITS = (
    "How well it predicts is not in the release: test it on labelled rows of your own.",
    "Coefficients carry the noise of the release, and of columns that go together no single one "
    "means much.",
    "A value that the coding does not know adds nothing to a score.",
)
MARGINS = "Scores are margins: predict_proba ranks rows well, and its numbers are not calibrated."


def sections(release: LinearModelRelease) -> Report:
    columns = tuple(axis.name for axis in release.features.axes)
    return Report(
        lead=(
            f"This release is a classifier, {_LOSSES[release.loss]}, that predicts ",
            Strong(release.target.name),
            " from ",
            Strong(listed(columns)),
            ". It was trained on private rows with noise; the rows themselves are not in it.",
        ),
        tiles=[
            (f"{release.target.base:,}", "classes"),
            (f"{len(columns):,}", "columns it looks at"),
            (f"{release.features.dimension:,}", "coefficients of each model"),
        ],
        sections=[how_it_was_made(release), _coefficients(release), _usage(release)],
        limits=(*LIMITS, MARGINS) if release.loss == "huber" else LIMITS,
    )


def _coefficients(release: LinearModelRelease) -> Section:
    frame, odds = release.to_frame(), release.loss == "logistic"
    labels = frame["class"].unique(maintain_order=True).to_list()
    noise = release.manifest["facts"].get("expected_noise_length")
    count = release.features.dimension
    said = (
        "How much the score grows when a row has the value, or when a number goes from its lowest "
        f"to its highest: the {min(SHOWN, count)} largest of {count:,}."
    )
    if isinstance(noise, int | float):
        # the noise has no preferred direction, so that each coefficient gets an even part of its
        # square
        typical = float(noise) / release.features.divisor / math.sqrt(count)
        said += f" Noise is expected to move each of them by no more than about {typical:.2g}."
    blocks: list[Block] = [Paragraph(said)]
    head = ("column", "value", "coefficient", *(("odds times",) if odds else ()))
    for label in labels[:MAX_CLASSES]:
        largest = (
            frame.filter(pl.col("class") == label)
            .sort(pl.col("coefficient").abs(), descending=True)
            .head(SHOWN)
        )
        rows = [
            (
                column,
                level,
                f"{coefficient:+.3f}",
                *((f"{math.exp(min(coefficient, 500.0)):,.3g}",) if odds else ()),
            )
            for column, level, coefficient in largest.select(
                "column", "level", "coefficient"
            ).iter_rows()
        ]
        blocks += [Heading(f"For {release.target.name} = {label}"), Table(head, rows, right=(2, 3))]
    more = len(labels) - MAX_CLASSES
    if more > 0:
        blocks.append(Paragraph(f"{more} more classes are in the release.", "soft"))
    return Section("Coefficients", blocks)


def _usage(release: LinearModelRelease) -> Section:
    return usage(
        release,
        "release.predict(rows)            # the likeliest class of each row of a frame",
        "release.predict_proba(rows)            # one column a class",
        "release.to_sklearn()            # a fitted scikit-learn classifier",
    )
