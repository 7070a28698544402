"""The plan of importance weights: what is refused, which tables or which calibration, and what to
expect."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.field_types import require_columns
from dpublish.methods.histogram.mechanism import total_is_public
from dpublish.methods.importance_weights.balanced import BalancedSetting, heaviest_weight
from dpublish.methods.importance_weights.mechanism import (
    AnyWeights,
    BalancedSettings,
    ImportanceWeights,
    MomentSettings,
)
from dpublish.methods.importance_weights.moments import candidate_pairs, pair_cells
from dpublish.methods.importance_weights.planning import (
    REGULARIZATIONS,
    Forecast,
    calibrate,
    default_rounds,
    error_table,
    forecast,
    gaussian_budget,
    gaussian_steps,
    gram_of,
    largest_pair,
    recommended,
    share_out,
)
from dpublish.methods.importance_weights.public_sets import Loaded
from dpublish.models.linear_features import WeightFeatures
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.privacy.cost import Cost, exact, positive
from dpublish.privacy.gaussian import EXTRA_VARIANCE
from dpublish.privacy.plan import Plan, some

# Plans of importance weights in words.

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
            f"{some(settings.rounds, 'pair')} of columns "
            f"{'is' if settings.rounds == 1 else 'are'} chosen privately and counted with noise of "
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


Planned = tuple[AnyWeights, dict[str, Any], list[str], list[str]]
"""Settings, what to expect, sentences, warnings."""

MAX_DIMENSION = 1 << 16
"""Features under "moments": a pass over the rows for each table, and no matrix."""
MAX_LOGISTIC_DIMENSION = 4096
"""Features of the logistic variants, which work with a matrix of all pairs of them."""
WORTH_NAMING = 1.1
"""From here on the plan says what chosen pairs cost the columns: times as much noise."""


def plan_weights(method: ImportanceWeights, schema: Schema, cost: Cost) -> Plan[AnyWeights]:
    """Price the release from public facts and public rows."""
    _check(method, schema, cost)
    loaded = method.loaded(schema)
    features = method.features_of(loaded.axes)
    most = MAX_DIMENSION if method.variant == "moments" else MAX_LOGISTIC_DIMENSION
    if features.dimension > most:
        raise PlanError(
            f"The columns and pairs have {features.dimension} features; variant = "
            f"'{method.variant}' takes at most {most}. "
            "Leave out columns with many levels, or pairs, or use fewer bins."
        )
    by_variant: Callable[..., Planned] = (
        _plan_moments if method.variant == "moments" else _plan_balanced
    )
    settings, expected, sentences, warnings = by_variant(method, schema, cost, loaded, features)
    return Plan(
        method=method.method,
        kind=method.kind,
        schema=schema,
        cost=cost,
        parameters=_parameters(method, loaded, features),
        settings=settings,
        forecast=expected,
        sentences=tuple(sentences),
        warnings=(*loaded.warnings, *warnings),
    )


def _check(method: ImportanceWeights, schema: Schema, cost: Cost) -> None:
    require_columns(schema, "Importance weights need")
    if method.public is None:
        raise PlanError('Importance weights need public rows: give public = "FILE" (or "uniform").')
    if method.variant not in ("moments", "output", "gaussian", "objective"):
        raise PlanError(
            f"variant = '{method.variant}' is not known. Use moments, output, gaussian or "
            f"objective."
        )
    if not (cost.epsilon > 0 or cost.rho > 0):
        raise PlanError("Importance weights cost an epsilon or a rho above 0.")
    if method.variant in ("output", "objective") and cost.kind != "pure":
        raise PlanError(
            f"variant = '{method.variant}' costs a pure epsilon: leave delta and rho out, or use "
            f"gaussian."
        )
    if method.variant == "gaussian" and cost.kind == "pure":
        raise PlanError(
            "variant = 'gaussian' costs rho, or epsilon with delta: give rho = ... or delta = ..."
        )
    if method.norm_bound not in ("columns", "dimension"):
        raise PlanError(
            f"norm_bound = '{method.norm_bound}' is not known. Use columns or dimension."
        )
    if method.norm_bound != "columns" and method.variant == "moments":
        raise PlanError(
            "norm_bound is about the rows of a logistic regression, which variant = 'moments' "
            "does without. Leave it out, or use output, objective or gaussian."
        )
    if method.publish not in ("rows", "hash"):
        raise PlanError(f"publish = '{method.publish}' is not known. Use rows or hash.")
    if method.choose_pairs and method.variant != "moments":
        raise PlanError("choose_pairs belongs to variant = 'moments'. Name pairs = ... instead.")
    if (
        method.regularization is not None
        and not 2.0**-32 < float(positive(method.regularization, "regularization")) < 2.0**60
    ):
        raise PlanError(f"regularization must be of moderate size, not {method.regularization}.")
    if method.max_weight is not None and positive(method.max_weight, "max_weight") < 1:
        raise PlanError(
            f"max_weight must be at least 1 (weights have mean 1), not {method.max_weight}."
        )


def _plan_moments(
    method: ImportanceWeights,
    schema: Schema,
    cost: Cost,
    loaded: Loaded,
    features: WeightFeatures,
) -> Planned:
    rows = schema.rows_or_nominal
    # how many pairs are worth choosing is asked of the way over zCDP, which knows no steps
    budget = BudgetSplit.of(cost, schema.relation)
    largest = largest_pair(rows, budget)
    fitting = len(candidate_pairs(features, largest))
    rounds = min(
        fitting,
        default_rounds(budget, rows, len(loaded.axes))
        if method.choose_pairs is None
        else method.choose_pairs,
    )
    most = features.dimension + sum(
        sorted(pair_cells(features, largest))[-rounds:] if rounds else []
    )
    if most > MAX_DIMENSION:
        raise PlanError(
            f"The columns, pairs and {rounds} more pairs may have {most} features; at most "
            f"{MAX_DIMENSION} are supported. "
            "Use a smaller choose_pairs, fewer bins, or leave out columns with many levels."
        )
    if len(loaded.sets) > 1 and rows is None:
        raise PlanError(
            f"Schema '{schema.name}' declares no nominal_size, and a choice of public sets "
            f"compares with it."
        )
    shared: dict[str, Any] = {
        "sets": len(loaded.sets),
        "rounds": rounds,
        "choice_share": exact(method.choice_share, "choice_share"),
    }
    sizes = [group.codes for group in features.groups]
    steps = gaussian_steps(schema.relation, tables=len(sizes), **shared)
    amounts = share_out(
        gaussian_budget(cost, schema.relation, steps, extra=EXTRA_VARIANCE), sizes, **shared
    )
    public = total_is_public(schema, Domain(loaded.axes))
    deviations = [math.sqrt(amounts.variance(amount)) for amount in amounts.tables]
    settings = MomentSettings(
        domain=Domain(loaded.axes),
        amounts=amounts,
        variant=method.variant,
        dimension=features.dimension,
        rounds=rounds,
        largest_pair=largest,
        nominal_rows=rows,
        public_total=schema.size if public else None,
    )
    errors = None if rows is None else [value / rows for value in deviations]
    expected = {"count_deviations": deviations, "share_errors": errors}
    sentences = moment_sentences(schema, cost, loaded, features, settings, expected)
    if rounds and rows and errors:
        shared["rounds"] = 0
        steps = gaussian_steps(schema.relation, tables=len(sizes), **shared)
        alone = share_out(
            gaussian_budget(cost, schema.relation, steps, extra=EXTRA_VARIANCE), sizes, **shared
        )
        least = math.sqrt(min(alone.variance(amount) for amount in alone.tables)) / rows
        if min(errors) < WORTH_NAMING * least:
            return settings, expected, sentences, []
        sentences.append(
            "Pairs take their part of the cost. Where only shares of single columns are asked for, "
            f"choose_pairs = 0 brings them from {min(errors):.2g} to {least:.2g} of noise, as "
            "counting the columns alone would."
        )
    return settings, expected, sentences, []


def _plan_balanced(
    method: ImportanceWeights,
    schema: Schema,
    cost: Cost,
    loaded: Loaded,
    features: WeightFeatures,
) -> Planned:
    rows = schema.rows_or_nominal
    if rows is None:
        key = "size" if schema.neighbours == "replace-one" else "nominal_size"
        raise PlanError(
            f"Schema '{schema.name}' declares no {key}, and the mean loss is divided by it. Add "
            f"{key} = ... to [dataset]."
        )
    shared: dict[str, Any] = {
        "sets": len(loaded.sets),
        "rounds": 0,
        "choice_share": exact(method.choice_share, "choice_share"),
    }
    steps = gaussian_steps(schema.relation, tables=1, **shared)
    # noise in coefficients is that of real numbers, rounded: it needs no extra variance
    budget = gaussian_budget(cost, schema.relation, steps, extra=Fraction(0))
    amounts = share_out(budget, [1], **shared)
    budget = budget.holding(amounts.tables[0])
    # theorems 2 to 4 need rows no longer than 1; this holds for every schema, and is checked all
    # the same
    if features.longest_square() > 1:
        raise PlanError("The features cannot be scaled to length 1. Leave columns out.")
    forecasts = forecast(
        features,
        gram_of(features, loaded.sets[0]),
        moved=schema.relation.rows,
        rows=rows,
        budget=budget,
        regularizations=REGULARIZATIONS,
    )
    advice = recommended(forecasts)
    strength = (
        advice
        if method.regularization is None
        else float(exact(method.regularization, "regularization"))
    )
    # the solver sees vectors divided by R, so its ridge is lambda / R^2; a double, so that proof
    # and solver agree on it
    ridge = Fraction(strength / features.divisor**2)
    setting = BalancedSetting(
        dimension=features.dimension,
        normaliser=rows,
        public_rows=max(one.rows for one in loaded.sets),
        rows_per_unit=schema.unit.max_rows,
        moved_rows=schema.relation.rows,
        heaviest=max(heaviest_weight(one.base, rows) for one in loaded.sets),
        ridge=ridge,
    )
    calibration = calibrate(
        method.variant, setting, budget, exact(method.release_share, "release_share")
    )
    length = calibration.noise_length(features.dimension, rows) / features.divisor
    settings = BalancedSettings(
        domain=Domain(loaded.axes),
        amounts=amounts,
        calibration=calibration,
        variant=method.variant,
        dimension=features.dimension,
        nominal_rows=rows,
        norm_bound=features.divisor,
        regularization=strength,
        recommended_regularization=advice,
    )
    expected = {
        "expected_noise_length": length,
        "expected": error_table(forecasts, strength, budget),
    }
    near = min(forecasts, key=lambda one: abs(math.log(one.regularization / strength)))
    sentences, warnings = balanced_sentences(
        schema, cost, loaded, features, budget, settings, length, near
    )
    return settings, expected, sentences, warnings


def _parameters(
    method: ImportanceWeights, loaded: Loaded, features: WeightFeatures
) -> dict[str, Any]:
    names = [axis.name for axis in loaded.axes]
    return {
        "public": [
            {"name": one.name, "rows": one.rows, "sha256": one.digest} for one in loaded.sets
        ],
        "columns": names,
        "variant": method.variant,
        "pairs": [f"{names[a]}*{names[b]}" for a, b in features.pairs],
        "choose_pairs": method.choose_pairs,
        "bins": method.bins,
        "regularization": None
        if method.regularization is None
        else str(exact(method.regularization, "regularization")),
        "choice_share": str(exact(method.choice_share, "choice_share")),
        "release_share": str(exact(method.release_share, "release_share")),
        "max_weight": None
        if method.max_weight is None
        else str(exact(method.max_weight, "max_weight")),
        "publish": method.publish,
        "resolution": method.resolution,
        "norm_bound": method.norm_bound,
    }
