"""How much noise a private linear model needs, in exact arithmetic and from public facts alone.

Logarithms and exponentials are evaluated as balls and rounded against the user; every number that
reaches the noise is a `Fraction`. The theorems are in private_classifier.proof.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx

from dpublish.methods.erm.losses import Loss
from dpublish.methods.erm.solver import exact_number, rounding_bound
from dpublish.noise.balls import fraction_ball
from dpublish.noise.base import Noise

_PRECISION = 192
SOLVER_ROOM = 1 << 1
"""Times the rounding bound at a point longer than any that is likely: doubles get there with room,
and what the tolerance adds to the noise is small beside the noise in the objective."""
SOLVER_SHARE = Fraction(1, 1 << 16)
TILT_FINENESS = Fraction(1, 1 << 20)
OUTPUT_FINENESS = Fraction(1, 1 << 10)


@dataclass(frozen=True)
class Constant:
    """A first coordinate with a ridge of its own, no larger than that of the others: `square` is at
    least its square in any row."""

    square: Fraction
    ridge: Fraction


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Public facts of one binary model. `moved_rows` is how many rows a unit adds and takes away
    together."""

    epsilon: Fraction
    dimension: int
    normaliser: int
    rows_per_unit: int
    moved_rows: int
    loss: Loss
    regularization: Fraction
    constant: Constant | None = None


@dataclass(frozen=True, kw_only=True)
class Tilt:
    """The random linear term of objective perturbation: noise of density prop. to exp(-epsilon |b|
    / sensitivity) on a grid."""

    epsilon: Fraction
    sensitivity: Fraction
    grid: Fraction


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What to minimise, how far, and what noise to add to the answer. `ridge` is a double,
    `tolerance` a power of two."""

    ridge: Fraction
    tolerance: Fraction
    sensitivity: Fraction
    epsilon: Fraction
    grid: Fraction
    tilt: Tilt | None = None
    constant_ridge: Fraction | None = None

    def noise_length(self, dimension: int, normaliser: int) -> float:
        """The expected length of all noise in the coefficients. Where the noise is in the objective
        it is about this for coefficients under `ridge`; a constant with a smaller ridge of its own
        moves further."""
        direct = dimension * self.sensitivity / self.epsilon
        if self.tilt is None:
            return float(direct)
        return float(
            direct
            + dimension * self.tilt.sensitivity / self.tilt.epsilon / (normaliser * self.ridge)
        )


def for_output(setting: Setting) -> Calibration:
    """Theorem 1: the minimiser moves by at most moved_rows / (N lambda), the computed one by 2
    tolerance / lambda more."""
    tolerance = solver_tolerance(setting, setting.regularization, tilt_length=0.0)
    sensitivity = (
        Fraction(setting.moved_rows, setting.normaliser) + 2 * tolerance
    ) / setting.regularization
    return Calibration(
        ridge=setting.regularization,
        tolerance=tolerance,
        sensitivity=sensitivity,
        epsilon=setting.epsilon,
        grid=power_of_two_below(sensitivity / setting.epsilon * OUTPUT_FINENESS),
    )


def for_objective(setting: Setting, *, release_share: Fraction) -> Calibration:
    """Theorem 2: epsilon = (noise in the objective) + (Jacobian) + release_share * epsilon for
    everything that is not ideal."""
    release_epsilon = setting.epsilon * release_share
    objective_epsilon = setting.epsilon - release_epsilon
    ridge, constant = setting.regularization, setting.constant
    jacobian = jacobian_loss(setting, ridge, constant)
    if 2 * jacobian > objective_epsilon:
        needed = ridge_for(setting, objective_epsilon / 2)
        if constant is None:
            ridge = max(ridge, needed)
        else:  # both grow alike, so that 1 / inverse_ridge is what is needed
            growth = needed * inverse_ridge(ridge, constant)
            ridge = double_above(ridge * growth)
            constant = Constant(constant.square, double_above(constant.ridge * growth))
        jacobian = jacobian_loss(setting, ridge, constant)
    lowest = ridge if constant is None else constant.ridge
    finer = lowest / ridge
    tilt_epsilon = round_down(objective_epsilon - jacobian)
    tilt_scale = setting.moved_rows / tilt_epsilon
    tilt = Tilt(
        epsilon=tilt_epsilon,
        sensitivity=Fraction(setting.moved_rows),
        grid=power_of_two_below(tilt_scale * TILT_FINENESS * finer),
    )
    tolerance = solver_tolerance(
        setting, ridge, tilt_length=4.0 * float((setting.dimension + 10) * tilt_scale), finer=finer
    )
    # half a grid step a coordinate, so at most sqrt(d)/2 steps in length
    rounding = tilt.grid * (math.isqrt(setting.dimension) + 1) / 2
    sensitivity = 2 * (tolerance + rounding / setting.normaliser) / lowest
    return Calibration(
        ridge=ridge,
        tolerance=tolerance,
        sensitivity=sensitivity,
        epsilon=release_epsilon,
        grid=power_of_two_below(sensitivity / release_epsilon / 16),
        tilt=tilt,
        constant_ridge=None if constant is None else constant.ridge,
    )


def jacobian_loss(setting: Setting, ridge: Fraction, constant: Constant | None = None) -> Fraction:
    """An upper bound on rows_per_unit * log(1 + c inverse_ridge / N), c the curvature bound of the
    loss."""
    with ctx.workprec(_PRECISION):
        bound = setting.loss.curvature_bound * inverse_ridge(ridge, constant)
        inside = fraction_ball(1 + bound / setting.normaliser)
        return exact_number((arb(setting.rows_per_unit) * inside.log()).upper())


def inverse_ridge(ridge: Fraction, constant: Constant | None) -> Fraction:
    """At least sum_j x_j^2 / ridge_j for every vector x no longer than 1."""
    if constant is None:
        return 1 / ridge
    return constant.square / constant.ridge + (1 - constant.square) / ridge


def ridge_for(setting: Setting, loss: Fraction) -> Fraction:
    """A double just above c / (N (exp(loss / rows_per_unit) - 1)), which keeps jacobian_loss at or
    below `loss`."""
    with ctx.workprec(_PRECISION):
        growth = exact_number(fraction_ball(loss / setting.rows_per_unit).expm1().lower())
    # the last factor outweighs the rounding up in jacobian_loss
    least = setting.loss.curvature_bound / (setting.normaliser * growth)
    return double_above(least * (1 + Fraction(1, 1 << 40)))


def solver_tolerance(
    setting: Setting, ridge: Fraction, *, tilt_length: float, finer: Fraction = Fraction(1)
) -> Fraction:
    """A power of two that costs little noise and that double precision reaches with plenty of
    room. `finer` is the share of the ridge that the least penalised coordinate has."""
    lowest = float(ridge * finer)
    tilted = 2.0 * tilt_length / setting.normaliser
    length = math.sqrt(2.0 / float(ridge)) + tilted / float(ridge)
    if finer < 1:  # one coordinate, which takes its part of the tilt, may be longer
        length += math.sqrt(2.0 / lowest) + tilted / (lowest * math.sqrt(setting.dimension))
    reached = rounding_bound(
        rows=setting.normaliser,
        mass=float(setting.normaliser),
        heaviest=1.0,
        dimension=setting.dimension,
        normaliser=setting.normaliser,
        loss=setting.loss,
        ridge=float(ridge),
        length=length,
        tilt_length=tilt_length,
    )
    return 2 * power_of_two_below(
        max(SOLVER_SHARE * finer / setting.normaliser, SOLVER_ROOM * Fraction(reached))
    )


def draw_tilt(noise: Noise, dimension: int, tilt: Tilt | None, label: str) -> list[Fraction]:
    """The random linear term, exactly; zero where there is none."""
    if tilt is None:
        return [Fraction(0)] * dimension
    steps = noise.gamma_norm(
        [Fraction(0)] * dimension,
        grid=tilt.grid,
        sensitivity=tilt.sensitivity,
        epsilon=tilt.epsilon,
        label=label,
    )
    return [step * tilt.grid for step in steps]


def power_of_two_below(value: Fraction) -> Fraction:
    """The largest power of two that is at most `value`."""
    power = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length())
    return power if power <= value else power / 2


def double_above(value: Fraction) -> Fraction:
    """A double that is at least `value`, as a Fraction; the next one at most."""
    near = float(value)
    return Fraction(near if Fraction(near) >= value else math.nextafter(near, math.inf))


def round_down(value: Fraction) -> Fraction:
    """A short positive fraction just below a positive value."""
    step = power_of_two_below(value) / (1 << 40)
    return (value // step) * step
