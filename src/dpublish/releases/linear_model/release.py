"""A published linear classifier: probabilities, predictions and coefficients from it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.analyse.predict import row_codes
from dpublish.arrays import Floats
from dpublish.declare.domain import Axis
from dpublish.errors import BundleError
from dpublish.models.linear_features import CODINGS, LinearFeatures
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
from dpublish.releases.base import Release
from dpublish.releases.bundle.manifest import MAX_AXES, read_domain, table, text, whole
from dpublish.releases.frames import column_values, read_columns

COEFFICIENTS_SCHEMA = {"model": pl.UInt32, "feature": pl.UInt32, "multiple": pl.Int64}
LOSSES = ("logistic", "huber")
FRAME = {"class": pl.String, "column": pl.String, "level": pl.String, "coefficient": pl.Float64}
MAX_DIMENSION = 4096
_GRID = re.compile(r"[0-9]{1,60}(/[1-9][0-9]{0,60})?", re.ASCII)


class LinearModelRelease(Release):
    """Coefficients of a linear classifier: one vector for a target of two levels, otherwise one a
    level (one against the rest).

    Rows for prediction are polars or pandas frames, or mappings of columns, with the raw values of
    the feature columns. A value that the coding does not know adds nothing to a score.
    """

    kind: ClassVar[str] = "linear-model"
    own: ClassVar[tuple[str, ...]] = ("predict_proba", "decision_function", "to_sklearn")

    def parse(self) -> None:
        manifest, tables = self.manifest, self.tables
        domain = read_domain(manifest.get("domain"))
        if len(domain.axes) != 1 or domain.axes[0].numeric or domain.axes[0].base < 2:
            raise BundleError(
                "domain: a linear model has one column here, its target, with at least two levels."
            )
        facts = table(manifest, "facts", "manifest")
        self.loss = text(facts, "loss", "facts")
        if self.loss not in LOSSES:
            raise BundleError(f"facts: 'loss' must be one of {', '.join(LOSSES)}.")
        if text(facts, "coding", "facts") not in CODINGS:
            raise BundleError(
                "facts: this coding of features is not known to this version of dpublish."
            )
        grid = text(facts, "grid", "facts")
        if not _GRID.fullmatch(grid) or not Fraction(1, 1 << 200) <= Fraction(grid) <= 1 << 200:
            raise BundleError("facts: 'grid' must be a fraction written as text.")
        self.target: Axis = domain.axes[0]
        levels = self.target.base
        models = whole(facts, "models", "facts")
        if models != (1 if levels == 2 else levels):
            raise BundleError("facts: 'models' does not fit the levels of the target.")
        dimension = whole(facts, "dimension", "facts", limit=MAX_DIMENSION, lowest=1)
        self.features = LinearFeatures(_read_encoding(facts), str(facts["coding"]))
        if self.features.dimension != dimension:
            raise BundleError("facts: 'dimension' does not fit the encoding.")
        multiples = _read_multiples(tables, models, dimension)
        self.coefficients: Floats = multiples * float(Fraction(grid))
        """One row a model, for features as `LinearFeatures` codes them."""

    @property
    def classes(self) -> NDArray[Any]:
        """The levels of the target, in the order of the columns of `predict_proba`."""
        return column_values(self.target, np.arange(self.target.base)).to_numpy()

    def decision_function(self, rows: Any) -> Floats:
        """One score a row and model; above zero speaks for the model's class."""
        return np.asarray(self._vectors(rows) @ self.coefficients.T)

    def predict_proba(self, rows: Any) -> Floats:
        """One column a class. Several one-against-the-rest scores are scaled to add up to 1.

        With the Huber loss the scores are margins, so these numbers rank well but are not
        calibrated probabilities.
        """
        chances = 1.0 / (1.0 + np.exp(-np.clip(self.decision_function(rows), -700.0, 700.0)))
        if self.target.base == 2:
            return np.hstack([1.0 - chances, chances])
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def predict(self, rows: Any) -> NDArray[Any]:
        """The likeliest class of each row."""
        return np.asarray(self.classes[self.predict_proba(rows).argmax(axis=1)])

    def to_frame(self) -> pl.DataFrame:
        """One row per model and feature: how much the score grows when a row has the level, or when
        a number goes from its lowest to its highest. In a centred coding levels are set against
        their average, otherwise against the first."""
        models = [1] if self.target.base == 2 else range(self.target.base)
        rows = [
            (self.target.labels[model], *effect)
            for model, own in zip(models, self.coefficients, strict=True)
            for effect in self.features.effects(own)
        ]
        return pl.DataFrame(rows, schema=FRAME, orient="row")

    def to_sklearn(self) -> Any:
        """A scikit-learn classifier, already fitted, that takes frames of raw rows."""
        from dpublish.analyse.learn import LinearModelClassifier

        return LinearModelClassifier(self)

    def summary(self) -> dict[str, str]:
        facts = self.manifest["facts"]
        return {
            **super().summary(),
            "predicts": f"{self.target.name} "
            f"({', '.join(self.target.labels[:8])}{', ...' if self.target.base > 8 else ''})",
            "from": ", ".join(axis.name for axis in self.features.axes),
            "noise": f"expected length about {float(facts['expected_noise_length']):.3g} in the "
            f"coefficients of each model"
            if isinstance(facts.get("expected_noise_length"), int | float)
            else "not stated",
        }

    def _vectors(self, rows: Any) -> Floats:
        # every row is scored; what training never saw codes as nothing
        codes = row_codes(rows, self.features.axes)
        constant = np.full((codes[0].size, 1), self.features.constant)
        parts = [
            np.pad(features, ((0, 1), (0, 0)))[code]
            for code, features in zip(codes, self.features.tables, strict=True)
        ]
        return np.hstack([constant, *parts])

    def sections(self) -> Report:
        columns = tuple(axis.name for axis in self.features.axes)
        return Report(
            lead=(
                f"This release is a classifier, {_LOSSES[self.loss]}, that predicts ",
                Strong(self.target.name),
                " from ",
                Strong(listed(columns)),
                ". It was trained on private rows with noise; the rows themselves are not in it.",
            ),
            tiles=[
                (f"{self.target.base:,}", "classes"),
                (f"{len(columns):,}", "columns it looks at"),
                (f"{self.features.dimension:,}", "coefficients of each model"),
            ],
            sections=[how_it_was_made(self), _coefficients(self), _usage(self)],
            limits=(*LIMITS, MARGINS) if self.loss == "huber" else LIMITS,
        )


def _read_encoding(facts: Mapping[str, Any]) -> tuple[Axis, ...]:
    items = facts.get("encoding")
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_AXES:
        raise BundleError(f"facts: 'encoding' must list 1 to {MAX_AXES} columns.")
    # one at a time: the features together may span more cells than a domain that is counted over
    axes = tuple(read_domain([item]).axes[0] for item in items)
    if len({axis.name for axis in axes}) != len(axes):
        raise BundleError("facts: 'encoding' names a column twice.")
    if LinearFeatures(axes).dimension > MAX_DIMENSION:
        raise BundleError(f"facts: 'encoding' makes more than {MAX_DIMENSION} features.")
    return axes


def _read_multiples(tables: Mapping[str, pl.DataFrame], models: int, dimension: int) -> Floats:
    if set(tables) != {"coefficients"}:
        raise BundleError(
            f"A linear model holds one table, coefficients.parquet; this one holds: "
            f"{sorted(tables)}."
        )
    model, feature, multiple = read_columns(
        tables["coefficients"],
        COEFFICIENTS_SCHEMA,
        "coefficients.parquet must have the columns model, feature (UInt32) and multiple "
        "(Int64), no nulls.",
    )
    places = np.arange(models * dimension)
    if not np.array_equal(model, places // dimension) or not np.array_equal(
        feature, places % dimension
    ):
        raise BundleError("coefficients.parquet must list every model and feature once, in order.")
    return multiple.astype(np.float64).reshape(models, -1)


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
