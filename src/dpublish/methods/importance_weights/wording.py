"""Plans of importance weights in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpublish.declare.schema import Schema
from dpublish.methods.importance_weights.planning import Forecast
from dpublish.methods.importance_weights.public_sets import Loaded
from dpublish.methods.importance_weights.records import BalancedSettings, MomentSettings
from dpublish.models.weight_features import WeightFeatures
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.privacy.cost import Cost

_KINDS = {
    "output": "noise in the coefficients",
    "gaussian": "Gaussian noise in the coefficients",
    "objective": "noise in the objective",
}


def moment_sentences(
    schema: Schema,
    cost: Cost,
    loaded: Loaded,
    features: WeightFeatures,
    settings: MomentSettings,
    expected: Mapping[str, Any],
) -> list[str]:
    amounts, deviations = settings.amounts, expected["count_deviations"]
    lines = _opening(schema, cost, loaded, features)
    lines.append(
        f"{len(features.groups)} tables of counts get discrete {amounts.budget.law.capitalize()} "
        f"noise; "
        f"standard deviation of a count {min(deviations):.3g} to {max(deviations):.3g}."
    )
    if expected["share_errors"] is not None:
        lines.append(
            f"Expect the share of a level to be off by {min(expected['share_errors']):.2g} to "
            f"{max(expected['share_errors']):.2g} "
            "by noise."
        )
    if settings.rounds:
        deviation = math.sqrt(amounts.variance(amounts.pair_table))
        lines.append(
            f"{settings.rounds} pairs of columns are chosen privately and counted with noise of "
            f"standard deviation "
            f"{deviation:.3g}."
        )
    lines.append("Weights are then fitted to the noisy counts, which costs nothing more.")
    return lines


def balanced_sentences(
    schema: Schema,
    cost: Cost,
    loaded: Loaded,
    features: WeightFeatures,
    budget: BudgetSplit,
    settings: BalancedSettings,
    length: float,
    near: Forecast,
) -> tuple[list[str], list[str]]:
    strength, advice, variant = (
        settings.regularization,
        settings.recommended_regularization,
        settings.variant,
    )
    lines = _opening(schema, cost, loaded, features)
    lines += [
        f"Balanced logistic regression with {_KINDS[variant]}; rows have length at most "
        f"{settings.norm_bound:.4g}.",
        f"Regularization {strength:.4g} (recommended from public facts: {advice:.4g}). Expected "
        f"length of the noise in the "
        f"coefficients {'at most ' if variant == 'objective' else ''}{length:.3g}.",
        f"At weights near 1, expect the share of a level to be off by {near.share_error:.2g} by "
        f"noise and {near.shrinkage:.2g} "
        "by shrinkage.",
    ]
    if schema.target is not None and budget.law == "laplace":
        direct = (
            2.0
            * features.dimension
            * features.divisor
            / (settings.nominal_rows * strength * float(budget.amount))
        )
        lines.append(
            f"If all you want is one linear model of '{schema.target}', method private-classifier "
            f"at the same cost and "
            f"regularization has noise of expected length {direct:.3g}, and answers nothing else."
        )
    warnings = []
    if length > 3.0:
        warnings.append(
            f"The noise in the coefficients (length {length:.3g}) makes weights differ by large "
            f"factors. Use "
            "variant = moments, a larger regularization, fewer columns or a larger cost."
        )
    if not advice / 10 <= strength <= advice * 10:
        warnings.append(
            f"regularization = {strength:.3g} is far from the recommended {advice:.3g}."
        )
    return lines, warnings


def _opening(schema: Schema, cost: Cost, loaded: Loaded, features: WeightFeatures) -> list[str]:
    names = " or ".join(f"'{one.name}' ({one.rows:,} rows)" for one in loaded.sets)
    pairs = f" and {len(features.pairs)} pairs" if features.pairs else ""
    return [
        f"Weights on the public rows {names} by {len(features.axes)} columns{pairs} "
        f"({features.dimension} features).",
        f"Cost {cost.describe()}, protecting {schema.unit.describe()} ({schema.neighbours}).",
    ]
