"""Balanced logistic regression of private against public rows, and how much noise its coefficients
need.

    J(f) = (1/N) sum_private log(1 + exp(-x.f)) + sum_public u_i log(1 + exp(x.f)) + (ridge/2) |f|^2
    + (tilt . f) / N

with |x| <= 1, sum u_i = 1, and N the public or nominal number of private rows. It is handed to the
certified solver of private classifiers as a problem whose public rows weigh N u_i. Theorems:
importance_weights.proof.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Ints
from dpublish.methods.erm.calibration import (
    OUTPUT_FINENESS,
    SOLVER_ROOM,
    SOLVER_SHARE,
    TILT_FINENESS,
    Setting,
    Tilt,
    draw_tilt,
    jacobian_loss,
    power_of_two_below,
    ridge_for,
    round_down,
)
from dpublish.methods.erm.design import Design
from dpublish.methods.erm.losses import LogisticLoss
from dpublish.methods.erm.solver import Problem, minimise, nearest_doubles, rounding_bound
from dpublish.models.linear_features import WeightFeatures
from dpublish.noise.base import Noise, saturated


@dataclass(frozen=True, kw_only=True)
class BalancedSetting:
    """Public facts. `moved_rows` is how many rows a unit adds and takes away together; `heaviest`
    the largest public weight."""

    dimension: int
    normaliser: int
    public_rows: int
    rows_per_unit: int
    moved_rows: int
    heaviest: float
    ridge: Fraction

    def tolerance(self, ridge: Fraction, tilt_length: float) -> Fraction:
        """A gradient length, a power of two, that adds little to the noise and that double
        precision reaches with room."""
        reached = rounding_bound(
            rows=self.normaliser + self.public_rows,
            # the weights of the public rows add up to N too
            mass=2.0 * self.normaliser,
            heaviest=self.heaviest,
            dimension=self.dimension,
            normaliser=self.normaliser,
            loss=LogisticLoss(),
            ridge=float(ridge),
            length=math.sqrt(4.0 / float(ridge))
            + 2.0 * tilt_length / (self.normaliser * float(ridge)),
            tilt_length=tilt_length,
        )
        return 2 * power_of_two_below(
            max(SOLVER_SHARE / self.normaliser, SOLVER_ROOM * Fraction(reached))
        )

    def solution_sensitivity(self, tolerance: Fraction) -> Fraction:
        """Theorem 2: the minimiser moves by at most moved_rows / (N ridge), the computed one by 2
        tolerance / ridge more."""
        return (Fraction(self.moved_rows, self.normaliser) + 2 * tolerance) / self.ridge


@dataclass(frozen=True, kw_only=True)
class BalancedCalibration:
    """What to minimise, how far, and what noise to add to the answer. `amount` is an epsilon, or a
    rho for Gaussian noise."""

    ridge: Fraction
    tolerance: Fraction
    sensitivity: Fraction
    amount: Fraction
    grid: Fraction
    gaussian: bool = False
    tilt: Tilt | None = None

    def coefficient_deviation(self, dimension: int) -> float:
        """The standard deviation of the noise in one coefficient."""
        if self.gaussian:
            return float(self.sensitivity) / math.sqrt(2.0 * float(self.amount))
        return math.sqrt(dimension + 1) * float(self.sensitivity / self.amount)

    def gradient_deviation(self, dimension: int, normaliser: int) -> float:
        """The standard deviation of the noise in one coordinate of the gradient of J."""
        if self.tilt is None:
            return 0.0
        return (
            math.sqrt(dimension + 1) * float(self.tilt.sensitivity / self.tilt.epsilon) / normaliser
        )

    def noise_length(self, dimension: int, normaliser: int) -> float:
        """The expected length of all noise in the coefficients (an upper bound, where the noise is
        in the objective)."""
        if self.gaussian:
            return math.sqrt(dimension) * self.coefficient_deviation(dimension)
        direct = dimension * float(self.sensitivity / self.amount)
        if self.tilt is None:
            return direct
        return direct + dimension * float(
            self.tilt.sensitivity / self.tilt.epsilon / (normaliser * self.ridge)
        )


def for_output(setting: BalancedSetting, epsilon: Fraction) -> BalancedCalibration:
    tolerance = setting.tolerance(setting.ridge, 0.0)
    sensitivity = setting.solution_sensitivity(tolerance)
    return BalancedCalibration(
        ridge=setting.ridge,
        tolerance=tolerance,
        sensitivity=sensitivity,
        amount=epsilon,
        grid=power_of_two_below(sensitivity / epsilon * OUTPUT_FINENESS),
    )


def for_gaussian(setting: BalancedSetting, rho: Fraction) -> BalancedCalibration:
    tolerance = setting.tolerance(setting.ridge, 0.0)
    sensitivity = setting.solution_sensitivity(tolerance)
    deviation = Fraction(float(sensitivity) / math.sqrt(2.0 * float(rho)))
    return BalancedCalibration(
        ridge=setting.ridge,
        tolerance=tolerance,
        sensitivity=sensitivity,
        amount=rho,
        grid=power_of_two_below(deviation * OUTPUT_FINENESS),
        gaussian=True,
    )


def for_objective(
    setting: BalancedSetting, epsilon: Fraction, *, release_share: Fraction
) -> BalancedCalibration:
    """Theorem 4: epsilon = (noise in the objective) + (Jacobian) + release_share * epsilon for
    everything that is not ideal."""
    release_epsilon = epsilon * release_share
    objective_epsilon = epsilon - release_epsilon
    ridge = setting.ridge
    # the Jacobian is moved by private rows alone, which weigh 1
    facts = Setting(
        epsilon=epsilon,
        dimension=setting.dimension,
        normaliser=setting.normaliser,
        rows_per_unit=setting.rows_per_unit,
        moved_rows=setting.moved_rows,
        loss=LogisticLoss(),
        regularization=ridge,
    )
    jacobian = jacobian_loss(facts, ridge)
    if 2 * jacobian > objective_epsilon:
        ridge = max(ridge, ridge_for(facts, objective_epsilon / 2))
        jacobian = jacobian_loss(facts, ridge)
    tilt_epsilon = round_down(objective_epsilon - jacobian)
    scale = setting.moved_rows / tilt_epsilon
    tilt = Tilt(
        epsilon=tilt_epsilon,
        sensitivity=Fraction(setting.moved_rows),
        grid=power_of_two_below(scale * TILT_FINENESS),
    )
    tolerance = setting.tolerance(ridge, 4.0 * float((setting.dimension + 10) * scale))
    # half a grid step a coordinate, so at most sqrt(d)/2 steps in length
    rounding = tilt.grid * (math.isqrt(setting.dimension) + 1) / 2
    sensitivity = 2 * (tolerance + rounding / setting.normaliser) / ridge
    return BalancedCalibration(
        ridge=ridge,
        tolerance=tolerance,
        sensitivity=sensitivity,
        amount=release_epsilon,
        grid=power_of_two_below(sensitivity / release_epsilon / 16),
        tilt=tilt,
    )


def public_weights(base: Floats, normaliser: int) -> Floats:
    """The weight of each public row in the problem, N u_i."""
    return base * float(normaliser)


def balanced_coefficients(
    noise: Noise,
    features: WeightFeatures,
    private: Sequence[NDArray[Any]],
    public: Sequence[NDArray[Any]],
    base: Floats,
    *,
    normaliser: int,
    calibration: BalancedCalibration,
) -> Ints:
    """The mechanism: multiples of the grid, for vectors divided by R."""
    codes = [np.concatenate([own, other]) for own, other in zip(private, public, strict=True)]
    rows = len(private[0])
    weights = np.concatenate([np.ones(rows), public_weights(base, normaliser)])
    signs = np.where(np.arange(len(weights)) < rows, 1.0, -1.0)
    tilt = draw_tilt(noise, features.dimension, calibration.tilt, "objective")
    problem = Problem(
        Design(features, codes), signs, LogisticLoss(), normaliser, float(calibration.ridge),
        tilt=nearest_doubles(tilt), weights=weights, exact_tilt=tilt,
    )  # fmt: skip
    return blurred(noise, minimise(problem, calibration.tolerance), calibration)


def blurred(noise: Noise, found: Sequence[Fraction], calibration: BalancedCalibration) -> Ints:
    """Coefficients with noise, as multiples of the grid."""
    if calibration.gaussian:
        return noise.lattice_gaussian(
            found,
            grid=calibration.grid,
            sensitivity=calibration.sensitivity,
            rho=calibration.amount,
            label="coefficients",
        )
    return saturated(
        noise.gamma_norm(
            found,
            grid=calibration.grid,
            sensitivity=calibration.sensitivity,
            epsilon=calibration.amount,
            label="coefficients",
        )
    )


def heaviest_weight(base: Floats, normaliser: int) -> float:
    """The largest weight of any row in the problem, private rows weighing 1."""
    return max(1.0, float(public_weights(base, normaliser).max()))
