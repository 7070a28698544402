"""The settings of a projected histogram held against a schema: every mistake is named before
anything is spent."""

from __future__ import annotations

from fractions import Fraction
from typing import get_args

from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError, did_you_mean
from dpublish.methods.histogram.mechanism import DEFAULT_COUNT_SHARE, total_is_public
from dpublish.methods.projected_histogram.coded_table import MAX_ROWS
from dpublish.methods.projected_histogram.mechanism import (
    BinRule,
    ProjectedHistogram,
    ScoreName,
    WayToChooseK,
)
from dpublish.methods.thresholds import MAX_THRESHOLD
from dpublish.noise.base import ChoiceRule
from dpublish.privacy.cost import exact

DEFAULT_OPTIONS = (1, 2, 3, 4, 5, 6)


def check_settings(method: ProjectedHistogram) -> None:
    """Everything about the settings that needs no schema."""
    for name, given, known in (
        ("score", method.score, get_args(ScoreName)),
        ("choose_k", method.choose_k, get_args(WayToChooseK)),
        ("rule", method.rule, get_args(ChoiceRule)),
        ("bin_rule", method.bin_rule, get_args(BinRule)),
    ):
        if given not in known:
            raise PlanError(
                f"{name} = '{given}' is not known.{did_you_mean(str(given), known)} Use one of: "
                f"{', '.join(known)}."
            )
    for name, number, low in (
        ("k", method.k, 1),
        ("cell_charge", method.cell_charge, 1),
        ("threshold", method.threshold, 0),
        ("max_support", method.max_support, 1),
        ("bins", method.bins, 2),
    ):
        if number is not None and (
            isinstance(number, bool) or not isinstance(number, int) or number < low
        ):
            raise PlanError(f"{name} must be a whole number of at least {low}, not {number!r}.")
    if method.threshold is not None and method.threshold >= MAX_THRESHOLD:
        raise PlanError(f"threshold = {method.threshold} is too large.")
    factor = exact(method.threshold_factor, "threshold_factor")
    if factor < 0:
        raise PlanError(f"threshold_factor must be at least 0, not {method.threshold_factor}.")
    if method.threshold is not None and factor != type(method).threshold_factor:
        raise PlanError(
            "threshold is given, and threshold_factor works one out. Give one of the two."
        )
    if not 0 <= exact(method.sigma, "sigma") < 1:
        raise PlanError(f"sigma must be at least 0 and below 1, not {method.sigma}.")
    if method.gamma is not None and not 0 < exact(method.gamma, "gamma") <= 1:
        raise PlanError(
            f"gamma must be above 0 and at most 1, not {method.gamma}: it is the share of epsilon "
            f"for counting."
        )
    if method.count_share is not None and not 0 <= exact(method.count_share, "count_share") < 1:
        raise PlanError(f"count_share must be at least 0 and below 1, not {method.count_share}.")
    if method.public_data is not None and method.choose_k != "public":
        raise PlanError(
            f'public_data is read for choose_k = "public" only, not for "{method.choose_k}".'
        )


def target_of(method: ProjectedHistogram, schema: Schema) -> str:
    target = method.target if method.target is not None else schema.target
    if target is None:
        raise PlanError(
            f"A projected histogram needs a target column, and schema '{schema.name}' names none. "
            f"Give target = ..., or add "
            "target = ... to [dataset]."
        )
    column = schema.column(target)
    if not column.numeric and len(column.levels) < 2:
        raise PlanError(
            f"Target '{target}' has one level only, so there is nothing to tell apart. Choose "
            f"another target."
        )
    return target


def candidates_of(method: ProjectedHistogram, schema: Schema, target: str) -> tuple[str, ...]:
    if method.candidates is None:
        names = tuple(name for name in schema.columns if name not in (target, schema.unit.column))
    else:
        names = tuple(method.candidates)
    if not names:
        raise PlanError(f"There is no column to choose besides the target '{target}'.")
    for i, name in enumerate(names):
        schema.column(name)
        if name == target:
            raise PlanError(f"The target '{target}' cannot be a candidate too.")
        if name == schema.unit.column:
            raise PlanError(f"Column '{name}' says whom a row belongs to and cannot be published.")
        if name in names[:i]:
            raise PlanError(f"Candidate '{name}' is listed twice.")
    if method.k is not None and method.k > len(names):
        raise PlanError(
            f"k = {method.k}, but there are only {len(names)} columns to choose from "
            f"({', '.join(names)})."
        )
    return names


def public_rows(method: ProjectedHistogram, schema: Schema) -> int | None:
    """The public number that stands for the number of rows; None where a noisy total or a given
    threshold does without."""
    size = schema.size_or_nominal
    if size is None:
        if schema.neighbours == "replace-one":
            raise PlanError(
                f"Schema '{schema.name}' declares no size, and choosing columns depends on it. "
                f"The number of units is public "
                "under replace-one: add size = ... to [dataset]."
            )
        if (
            method.threshold is None
            and method.count_share is not None
            and exact(method.count_share, "count_share") == 0
        ):
            raise PlanError(
                f"Schema '{schema.name}' declares no nominal_size, and count_share = 0 buys no "
                f"noisy total. "
                "Add nominal_size = ... (a public guess) to [dataset], or give threshold = ... or "
                "a count_share."
            )
        return None
    rows = size * schema.unit.max_rows
    if rows > MAX_ROWS:
        raise PlanError(
            f"A projected histogram takes at most {MAX_ROWS:,} rows; the schema allows {rows:,}."
        )
    return rows


def share_of(method: ProjectedHistogram, schema: Schema, domain: Domain) -> Fraction:
    """The share of epsilon for a noisy total: as given, or 1/20 where the number of counted rows is
    private."""
    if method.count_share is None:
        return Fraction(0) if total_is_public(schema, domain) else DEFAULT_COUNT_SHARE
    return exact(method.count_share, "count_share")


def options_of(method: ProjectedHistogram, most: int) -> tuple[int, ...]:
    """The values of k that data splitting tries, in the order given. Text is read as numbers, for
    the command line."""
    if method.k_options is None:
        options = tuple(k for k in DEFAULT_OPTIONS if k <= most)
    else:
        texts = [str(option).strip() for option in method.k_options]
        for text in texts:
            if not text.isdecimal() or not 1 <= int(text) <= most:
                raise PlanError(
                    f"k_options: '{text}' is not a whole number from 1 to {most}, the number of "
                    f"candidates."
                )
        options = tuple(int(text) for text in texts)
    if len(options) < 2 or len(set(options)) < len(options):
        raise PlanError("k_options must list at least two different values; to fix k, give k = ...")
    return options
