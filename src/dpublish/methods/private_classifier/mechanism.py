"""A linear classifier trained on private rows: regularised risk minimisation with noise in the
answer or in the objective.

In: coded rows (private). Out: coefficients on a public grid, one vector for a target of two levels,
one for each level otherwise. It is the comparison for releases that publish a table: it answers one
question, and answers it well.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Ints
from dpublish.declare.domain import Axis, Domain, resolve_axis
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import CodedRows, Mechanism, Output
from dpublish.methods.erm.calibration import (
    Calibration,
    Constant,
    Setting,
    double_above,
    draw_tilt,
    for_objective,
    for_output,
)
from dpublish.methods.erm.design import Design
from dpublish.methods.erm.losses import HuberLoss, LogisticLoss, Loss
from dpublish.methods.erm.solver import Problem, minimise, nearest_doubles
from dpublish.methods.field_types import Interval, require_columns
from dpublish.models.linear_features import CENTRED, CODINGS, LinearFeatures
from dpublish.noise.base import Noise, saturated
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, Settings, as_json, hidden

Amount = Fraction | float | int | str
MAX_DIMENSION = 4096
SMALLEST_RIDGE = 1 << 32
"""Regularization is at least the loss's curvature divided by this: below it the solver may need
very long."""
CURVED, FLOOR, CONSTANT_FLOOR = 16, 10, 40
"""The default regularization under "objective": see `_regularization`. By benchmarks/defaults."""
CROWDED = Fraction(3, 100)
"""Columns / (n epsilon) above which noise is likely to outweigh what the rows say."""


def private_model(
    noise: Noise,
    design: Design,
    signs: Floats,
    *,
    loss: Loss,
    normaliser: int,
    calibration: Calibration,
    label: str,
) -> Ints:
    """One binary model: multiples of the grid."""
    tilt = draw_tilt(noise, design.dimension, calibration.tilt, f"{label}, objective")
    problem = Problem(
        design,
        signs,
        loss,
        normaliser,
        float(calibration.ridge),
        nearest_doubles(tilt),
        exact_tilt=tilt,
        constant_ridge=None
        if calibration.constant_ridge is None
        else float(calibration.constant_ridge),
    )
    return saturated(
        noise.gamma_norm(
            minimise(problem, calibration.tolerance),
            grid=calibration.grid,
            sensitivity=calibration.sensitivity,
            epsilon=calibration.epsilon,
            label=f"{label}, coefficients",
        )
    )


@dataclass(frozen=True, kw_only=True)
class ClassifierSettings(Settings):
    """What a classifier works with: the domain of features, the target last, and the calibration of
    each of its `models`, over a mean of `normaliser` rows."""

    domain: Domain
    models: int
    dimension: int
    normaliser: int
    model_epsilon: Fraction
    regularization: Fraction
    calibration: Calibration = hidden()
    fitted_loss: Loss = hidden()

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), **as_json(dataclasses.asdict(self.calibration))}


@dataclass(frozen=True, kw_only=True)
class PrivateClassifier(Mechanism):
    """Private logistic regression or support vector machine (Chaudhuri, Monteleoni and Sarwate
    2011).

    Input: coded rows. Neighbours: replace-one or add-remove-one, of a unit with at most c rows.
    Output: whole multiples of a public grid, one for each class model and feature; their number
    follows from the schema.
    Privacy: epsilon-DP (theorems 1, 2 and 3 of private_classifier.proof.md), epsilon / q for each
    of q class models.
    Relies on: `Noise.gamma_norm` being exact; rows per unit bounded by c; numpy's exp being right
    to 2^-46.
    Shows / hides: one direction in feature space for each class; nothing else about any row.
    Accuracy: noise in the coefficients of expected length about 2 d / (epsilon n regularization);
    `plan` states it.

    Parameters
    ----------
    target : the column to predict, one with levels; the schema's target when left out.
    features : the columns to predict from; all others when left out.
    loss : "logistic", or "huber" for a support vector machine with a smooth corner.
    perturbation : "output" adds noise to the minimiser, "objective" minimises a noisy objective.
    regularization : weight of |f|^2 / 2 beside the mean loss; chosen from public facts when left
        out.
    huber_width : half-width of the smooth corner.
    resolution : number of bins that a numeric column is read with.
    coding : "centred" (numbers around the middle of their bounds, levels around their average, a
        constant with a penalty of its own) or "reference-levels".
    release_share : share of epsilon that covers rounding and solver error under "objective".

    Examples
    --------
    >>> PrivateClassifier(target="ill").loss
    'logistic'
    """

    target: str | None = None
    features: Sequence[str] | None = None
    loss: Literal["logistic", "huber"] = "logistic"
    perturbation: Literal["output", "objective"] = "objective"
    regularization: Amount | None = None
    huber_width: Amount = Fraction(1, 2)
    resolution: Annotated[int, Interval(2, 1 << 16)] = 256
    coding: Literal["centred", "reference-levels"] = "centred"
    release_share: Annotated[Amount, Interval(above=0, below=1)] = Fraction(1, 50)

    def plan(self, schema: Schema, cost: Cost) -> Plan[ClassifierSettings]:
        require_columns(schema, "A classifier needs")
        if cost.kind != "pure" or cost.epsilon <= 0:
            raise PlanError(
                "A private classifier costs a pure epsilon above 0: leave delta and rho out."
            )
        share = exact(self.release_share, "release_share")
        target = self._target_axis(schema)
        names = self._feature_names(schema, target.name)
        if self.coding not in CODINGS:
            raise PlanError(
                f"coding = '{self.coding}' is not known. Use one of: {', '.join(CODINGS)}."
            )
        axes = tuple(self._feature_axis(schema, name) for name in names)
        coding = LinearFeatures(axes, self.coding)
        if coding.dimension > MAX_DIMENSION:
            raise PlanError(
                f"The features have {coding.dimension} coordinates; at most {MAX_DIMENSION} are "
                f"supported. "
                "Leave columns with many levels out of features."
            )
        rows = self._rows(schema)
        models = 1 if target.base == 2 else target.base
        setting = self._penalised(
            Setting(
                epsilon=cost.epsilon / models,
                dimension=coding.dimension,
                normaliser=rows,
                rows_per_unit=schema.unit.max_rows,
                moved_rows=schema.relation.rows,
                loss=self._loss(),
                regularization=Fraction(1),
            ),
            coding,
        )
        # theorems 1 and 2 rest on it; it holds for every schema known, and is checked in exact
        # arithmetic all the same
        if coding.longest_square() > coding.longest_allowed**2:
            raise PlanError(
                "The features cannot be scaled to length 1. Leave columns out of features."
            )
        if setting.regularization * SMALLEST_RIDGE < setting.loss.curvature_bound:
            raise PlanError(
                f"regularization = {float(setting.regularization):.3g} is too small for "
                f"{self.loss} loss: below "
                f"{float(setting.loss.curvature_bound / SMALLEST_RIDGE):.3g} a solver may need "
                f"very long, and "
                "noise drowns the coefficients anyway."
            )
        calibration = self._calibrate(setting, share)
        length = calibration.noise_length(setting.dimension, rows)
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters={
                "target": target.name,
                "features": list(names),
                "loss": self.loss,
                "perturbation": self.perturbation,
                "regularization": None
                if self.regularization is None
                else str(setting.regularization),
                "huber_width": str(_as_double(self.huber_width, "huber_width")),
                "resolution": self.resolution,
                "coding": self.coding,
                "release_share": str(share),
            },
            settings=ClassifierSettings(
                domain=Domain((*coding.axes, target)),
                models=models,
                dimension=coding.dimension,
                normaliser=rows,
                model_epsilon=setting.epsilon,
                regularization=setting.regularization,
                calibration=calibration,
                fitted_loss=setting.loss,
            ),
            forecast={"expected_noise_length": length},
            sentences=self._sentences(schema, cost, target, names, setting, calibration, length),
            warnings=self._warnings(setting, len(names), length),
        )

    def statistic(self, plan: Plan[ClassifierSettings]) -> CodedRows:
        return CodedRows(plan.settings.domain, ordered=True)

    def run(
        self, noise: Noise, numbers: Sequence[NDArray[Any]], plan: Plan[ClassifierSettings]
    ) -> Output:
        settings = plan.settings
        *axes, target = settings.domain.axes
        coding = LinearFeatures(tuple(axes), self.coding)
        design = Design(coding, numbers[:-1])
        labels = np.asarray(numbers[-1])
        factors = coding.factors(numbers[:-1]) if coding.centred else 1.0
        positives = [1] if target.base == 2 else list(range(target.base))
        multiples = [
            private_model(
                noise,
                design,
                np.where(labels == positive, 1.0, -1.0) * factors,
                loss=settings.fitted_loss,
                normaliser=settings.normaliser,
                calibration=settings.calibration,
                label=f"class {model}",
            )
            for model, positive in enumerate(positives)
        ]
        models = settings.models
        return Output(
            facts={
                "loss": self.loss,
                "perturbation": self.perturbation,
                "coding": self.coding,
                "encoding": [axis.to_json() for axis in coding.axes],
                "grid": str(settings.calibration.grid),
                "regularization": str(settings.calibration.ridge),
                "models": models,
                "dimension": coding.dimension,
                "expected_noise_length": plan.forecast["expected_noise_length"],
            },
            tables={
                "coefficients": {
                    "model": np.repeat(np.arange(models, dtype=np.uint32), coding.dimension),
                    "feature": np.tile(np.arange(coding.dimension, dtype=np.uint32), models),
                    "multiple": np.concatenate(multiples),
                }
            },
            # the features may span more cells than a manifest's domain may have, and are not
            # counted over
            domain=Domain((target,)),
        )

    def _calibrate(self, setting: Setting, share: Fraction) -> Calibration:
        if self.perturbation == "output":
            return for_output(setting)
        if self.perturbation == "objective":
            return for_objective(setting, release_share=share)
        raise PlanError(
            f"perturbation = '{self.perturbation}' is not known. Use output or objective."
        )

    def _loss(self) -> Loss:
        if self.loss == "logistic":
            return LogisticLoss()
        if self.loss == "huber":
            return HuberLoss(_as_double(self.huber_width, "huber_width"))
        raise PlanError(f"loss = '{self.loss}' is not known. Use logistic or huber.")

    def _target_axis(self, schema: Schema) -> Axis:
        name = self.target if self.target is not None else schema.target
        if name is None:
            raise PlanError(
                'A classifier needs a target: give target = "COLUMN", or add target to [dataset].'
            )
        column = schema.column(name)
        if column.numeric:
            raise PlanError(
                f"Target '{name}' is of kind {column.kind}. A classifier predicts a column with "
                f"levels."
            )
        if len(column.levels) < 2:
            raise PlanError(f"Target '{name}' has one level only, so there is nothing to predict.")
        # a class for undeclared labels would cost a share of epsilon; rows without a declared label
        # are left out instead
        column = dataclasses.replace(column, outside="drop", missing=False)
        return resolve_axis(column, schema_name=schema.name, default_bins=None)

    def _feature_names(self, schema: Schema, target: str) -> tuple[str, ...]:
        others = (name for name in schema.columns if name not in (target, schema.unit.column))
        names = tuple(others if self.features is None else self.features)
        if not names:
            raise PlanError("A classifier needs at least one feature.")
        for i, name in enumerate(names):
            schema.column(name)
            if name in names[:i]:
                raise PlanError(f"Feature '{name}' is listed twice.")
            if name == target:
                raise PlanError(f"'{name}' is the target and cannot be a feature too.")
        return names

    def _feature_axis(self, schema: Schema, name: str) -> Axis:
        """Numeric columns are read finely, whatever bins the schema declares for counting."""
        column = schema.column(name)
        if column.numeric:
            column = dataclasses.replace(column, bins=None, edges=None, precision=None)
        return resolve_axis(column, schema_name=schema.name, default_bins=self.resolution)

    def _rows(self, schema: Schema) -> int:
        rows = schema.rows_or_nominal
        if rows is None:
            key = "size" if schema.neighbours == "replace-one" else "nominal_size"
            raise PlanError(
                f"Schema '{schema.name}' declares no {key}, and the mean loss is divided by it. "
                f"Add {key} = ... to [dataset]."
            )
        return rows

    def _penalised(self, setting: Setting, coding: LinearFeatures) -> Setting:
        """The regularization, and that of the constant, which is smaller: a base rate is not to be
        explained by features. Under "output" one ridge must serve both (theorem 1)."""
        floor = setting.loss.curvature_bound / (setting.normaliser * setting.epsilon)
        ridge = self._regularization(setting, floor)
        setting = dataclasses.replace(setting, regularization=ridge)
        if not coding.centred or self.perturbation == "output":
            return setting
        square = Fraction(coding.constant) ** 2
        own = min(ridge, double_above(CONSTANT_FLOOR * floor * square))
        return dataclasses.replace(setting, constant=Constant(square, own))

    def _regularization(self, setting: Setting, floor: Fraction) -> Fraction:
        if self.regularization is not None:
            return _as_double(self.regularization, "regularization")
        # Output noise has expected length 2 d / (N epsilon regularization); here 2, coefficients
        # having 2 to 20.
        crowding = Fraction(setting.dimension, setting.normaliser) / setting.epsilon
        if self.perturbation == "output":
            return double_above(min(Fraction(1), crowding))
        # Noise in the objective is damped where the loss is curved. Ridge regression with noise of
        # variance v in the gradient, curvature h and coefficients of variance t wants v / (t h),
        # which is in proportion to the square of d t / (N epsilon); the Jacobian is to take no more
        # than about a tenth of epsilon.
        noisy = CURVED * (setting.moved_rows * crowding) ** 2
        return double_above(min(Fraction(1), max(noisy, FLOOR * floor)))

    def _sentences(
        self,
        schema: Schema,
        cost: Cost,
        target: Axis,
        names: Sequence[str],
        setting: Setting,
        calibration: Calibration,
        length: float,
    ) -> tuple[str, ...]:
        models = (
            f"{target.base} models, one a level, with epsilon {setting.epsilon} each"
            if target.base > 2
            else "one model"
        )
        kind = (
            "logistic regression"
            if self.loss == "logistic"
            else "support vector machine (Huber loss)"
        )
        return (
            f"Private {kind} for '{target.name}' from {len(names)} columns ({setting.dimension} "
            f"features): {models}.",
            f"Cost {cost.describe()}, protecting {schema.unit.describe()} ({schema.neighbours}).",
            "Rows without a declared level of the target are left out; the others are "
            f"{'centred, and ' if self.coding == CENTRED else ''}scaled to length at most 1.",
            f"The mean is over {setting.normaliser:,} rows; regularization "
            f"{float(calibration.ridge):.4g}.",
            f"Noise is added to the {'coefficients' if calibration.tilt is None else 'objective'}; "
            f"its expected length in the coefficients"
            f"{'' if calibration.constant_ridge is None else ', the constant aside,'} is "
            f"{'' if calibration.tilt is None else 'about '}{length:.3g}.",
        )

    def _warnings(self, setting: Setting, columns: int, length: float) -> tuple[str, ...]:
        crowding = Fraction(columns, setting.normaliser) / setting.epsilon
        if crowding > CROWDED:
            return (
                f"{columns} columns for {setting.normaliser:,} rows at epsilon "
                f"{float(setting.epsilon):.3g} a model: columns / (n epsilon) is "
                f"{float(crowding):.2g}, and above about {float(CROWDED):g} such a model is likely "
                "to be little better than chance. Name the few columns that matter (features = "
                "...), or publish those as a projected-histogram.",
            )
        longest = 1 / float(setting.regularization)
        if length < min(longest, 50.0):
            return ()
        return (
            f"The noise (length {length:.3g}) is likely to drown the coefficients. "
            "Use more rows, fewer features, a larger epsilon or a larger regularization.",
        )


def _as_double(value: Amount, what: str) -> Fraction:
    """A positive setting, rounded to a double, so that the solver and the proof speak of the same
    number."""
    number = exact(value, what)
    if number <= 0 or not math.isfinite(near := float(number)) or not 2.0**-100 < near < 2.0**100:
        raise PlanError(f"{what} must be above 0 and of moderate size, not {value}.")
    return Fraction(near)
