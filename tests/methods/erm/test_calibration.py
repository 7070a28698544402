"""Calibration: exact amounts that add up, and the two theorems held against densities worked out in
full."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpublish.methods.erm.calibration import (
    Constant,
    Setting,
    Tilt,
    double_above,
    draw_tilt,
    for_objective,
    for_output,
    jacobian_loss,
    power_of_two_below,
    ridge_for,
    round_down,
)
from dpublish.methods.erm.losses import HuberLoss, LogisticLoss, Loss
from dpublish.noise.source import SeededNoise

LOGISTIC, HUBER = LogisticLoss(), HuberLoss(Fraction(1, 4))
SHARE = Fraction(1, 50)


def setting_of(**changes: object) -> Setting:
    facts: dict[str, object] = {
        "epsilon": Fraction(1),
        "dimension": 10,
        "normaliser": 1000,
        "rows_per_unit": 1,
        "moved_rows": 2,
        "loss": LOGISTIC,
        "regularization": Fraction(1, 128),
    }
    return Setting(**{**facts, **changes})  # type: ignore[arg-type]


class TestAmounts:
    def test_output_sensitivity_is_the_theorems(self) -> None:
        found = for_output(setting_of())
        assert found.sensitivity == (Fraction(2, 1000) + 2 * found.tolerance) * 128
        assert found.epsilon == 1
        assert found.tilt is None
        # the solver's part is small beside the rows'
        assert found.sensitivity < Fraction(2, 1000) * 128 * Fraction(101, 100)

    @pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(10)])
    @pytest.mark.parametrize("dimension", [20, 100, 400])
    def test_what_the_solver_adds_is_small_beside_the_noise_in_the_objective(
        self, epsilon: Fraction, dimension: int
    ) -> None:
        # the classifier's own ridges: that of the constant is far below the others' in wide tables
        rows = 30_000
        ridge = double_above(min(Fraction(1), 16 * (2 * dimension / (rows * epsilon)) ** 2))
        own = double_above(min(ridge, 2 / (rows * epsilon)))
        setting = setting_of(
            epsilon=epsilon,
            dimension=dimension,
            normaliser=rows,
            regularization=ridge,
            constant=Constant(Fraction(1, 5), own),
        )
        found = for_objective(setting, release_share=SHARE)
        assert found.tilt is not None
        solver = dimension * found.sensitivity / found.epsilon
        assert solver < Fraction(1, 8) * found.noise_length(dimension, setting.normaliser)

    def test_add_remove_and_several_rows(self) -> None:
        assert (
            for_output(setting_of(moved_rows=1)).sensitivity
            < Fraction(11, 20) * for_output(setting_of()).sensitivity
        )
        many = for_output(setting_of(moved_rows=6, rows_per_unit=3))
        assert many.sensitivity > 3 * Fraction(2, 1000) * 128

    @pytest.mark.parametrize("loss", [LOGISTIC, HUBER], ids=["logistic", "huber"])
    @pytest.mark.parametrize(
        "epsilon", [Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(10)]
    )
    @pytest.mark.parametrize("rows_per_unit", [1, 4])
    @pytest.mark.parametrize(
        "regularization", [Fraction(1, 1 << 20), Fraction(1, 128), Fraction(1)]
    )
    def test_the_parts_of_objective_perturbation_never_exceed_epsilon(
        self, loss: Loss, epsilon: Fraction, rows_per_unit: int, regularization: Fraction
    ) -> None:
        setting = setting_of(
            loss=loss,
            epsilon=epsilon,
            rows_per_unit=rows_per_unit,
            moved_rows=2 * rows_per_unit,
            regularization=regularization,
        )
        found = for_objective(setting, release_share=SHARE)
        assert found.tilt is not None
        jacobian = jacobian_loss(setting, found.ridge)
        exact = rows_per_unit * math.log1p(
            float(loss.curvature_bound) / (1000 * float(found.ridge))
        )
        assert exact <= float(jacobian) * (1 + 1e-12)
        assert found.tilt.epsilon + jacobian + found.epsilon <= epsilon
        # little is lost to rounding, and at least half of what there is goes to the noise
        assert found.tilt.epsilon + jacobian + found.epsilon > epsilon * (1 - Fraction(1, 10**6))
        assert found.tilt.epsilon >= (epsilon - found.epsilon) * Fraction(49, 100)
        assert found.ridge >= regularization
        assert Fraction(float(found.ridge)) == found.ridge

    def test_more_regularization_is_added_only_where_it_is_needed(self) -> None:
        assert for_objective(setting_of(), release_share=SHARE).ridge == Fraction(1, 128)
        assert for_objective(
            setting_of(epsilon=Fraction(1, 1000)), release_share=SHARE
        ).ridge > Fraction(1, 128)

    def test_ridge_for_is_enough_and_not_much_more(self) -> None:
        setting = setting_of(rows_per_unit=3)
        for loss in (Fraction(1, 1000), Fraction(1, 2), Fraction(5)):
            ridge = ridge_for(setting, loss)
            assert jacobian_loss(setting, ridge) <= loss
            assert jacobian_loss(setting, ridge * Fraction(999, 1000)) > loss

    def test_roundings_go_the_safe_way(self) -> None:
        for value in (Fraction(1, 3), Fraction(10**30, 7), Fraction(1), Fraction(1, 10**30)):
            power = power_of_two_below(value)
            assert power <= value < 2 * power
            assert value <= double_above(value) <= value * (1 + Fraction(1, 1 << 51))
            assert value * (1 - Fraction(1, 1 << 39)) <= round_down(value) <= value


def test_a_tilt_is_never_cut_short() -> None:
    """Theorem 2 bounds how far the tilt is from the ideal one by half a grid step, for every draw
    that there is."""
    coarse, fine = (
        draw_tilt(
            SeededNoise(11),
            4,
            Tilt(epsilon=Fraction(1), sensitivity=Fraction(2), grid=Fraction(1, 1 << bits)),
            "tilt",
        )
        for bits in (20, 80)
    )
    assert max(abs(value) for value in fine) * (1 << 80) > 1 << 63
    for a, b in zip(coarse, fine, strict=True):
        assert abs(a - b) <= (Fraction(1, 1 << 20) + Fraction(1, 1 << 80)) / 2


def log_density(
    vectors: np.ndarray,
    signs: np.ndarray,
    point: np.ndarray,
    *,
    loss: Loss,
    ridge: np.ndarray | float,
    rate: float,
) -> float:
    """log of the density, up to a constant, of the minimiser of the tilted objective: normaliser
    1000, noise exp(-rate |b|)."""
    margins = signs * (vectors @ point)
    tilt = -1000 * ridge * point - (loss.slopes(margins) * signs) @ vectors
    hessian = (
        1000 * np.diag(ridge * np.ones(point.size))
        + (vectors * loss.curvatures(margins)[:, None]).T @ vectors
    )
    return -rate * float(np.linalg.norm(tilt)) + float(np.linalg.slogdet(hessian)[1])


def worst_ratio(
    *,
    loss: Loss,
    epsilon: Fraction,
    rows_per_unit: int,
    jacobian_charged: bool = True,
    moved: int = 2,
    constant: Constant | None = None,
    constant_charged: bool = True,
) -> float:
    """The largest log-ratio of densities found over tiny neighbouring tables, against what the
    objective may spend."""
    setting = setting_of(
        loss=loss,
        epsilon=epsilon,
        dimension=2,
        rows_per_unit=rows_per_unit,
        moved_rows=moved * rows_per_unit,
        regularization=Fraction(1, 1 << 30),
        constant=constant if constant_charged else None,
    )
    found = for_objective(setting, release_share=SHARE)
    assert found.tilt is not None
    ridge = float(found.ridge) * np.ones(2)
    if constant is not None:
        ridge[0] = float(found.constant_ridge or found.ridge * constant.ridge * (1 << 30))
    allowed = epsilon - found.epsilon
    tilt_epsilon = found.tilt.epsilon if jacobian_charged else allowed
    rate = float(tilt_epsilon / (moved * rows_per_unit))
    worst = 0.0
    rng = np.random.default_rng(2011)
    for trial in range(800):
        shared = int(rng.integers(0, 3))
        rows = shared + 2 * rows_per_unit
        angles = (
            rng.uniform(0, 2 * np.pi, rows) if trial % 2 else rng.integers(0, 4, rows) * np.pi / 2
        )
        vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        if constant is not None:  # the same first coordinate in every row, some rows shortened
            first = math.sqrt(constant.square)
            vectors = np.stack([np.full(rows, first), np.sin(angles) * math.sqrt(1 - first**2)], 1)
            vectors *= rng.choice([0.5, 1.0], (rows, 1)) if trial % 3 == 0 else 1.0
        signs = rng.choice([-1.0, 1.0], rows)
        point = rng.normal(size=2) * 10 ** rng.uniform(-2, 1)
        one, other = np.r_[: shared + rows_per_unit], np.r_[:shared, shared + rows_per_unit : rows]
        if moved == 1:
            other = np.r_[:shared]
        densities = [
            log_density(vectors[kept], signs[kept], point, loss=loss, ridge=ridge, rate=rate)
            for kept in (one, other)
        ]
        worst = max(worst, abs(densities[0] - densities[1]) / float(allowed))
    return worst


class TestObjectiveDensities:
    """Theorem 2 with the density of the ideal minimiser computed in full, for 800 pairs of tiny
    tables each. Deterministic."""

    @pytest.mark.parametrize("loss", [LOGISTIC, HUBER], ids=["logistic", "huber"])
    @pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(2)])
    @pytest.mark.parametrize("rows_per_unit", [1, 2])
    @pytest.mark.parametrize("moved", [1, 2])
    def test_no_pair_exceeds_epsilon(
        self, loss: Loss, epsilon: Fraction, rows_per_unit: int, moved: int
    ) -> None:
        assert (
            worst_ratio(loss=loss, epsilon=epsilon, rows_per_unit=rows_per_unit, moved=moved)
            <= 1 + 1e-9
        )

    @pytest.mark.parametrize("loss", [LOGISTIC, HUBER], ids=["logistic", "huber"])
    @pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(2)])
    def test_a_constant_with_a_ridge_of_its_own_is_paid_for(
        self, loss: Loss, epsilon: Fraction
    ) -> None:
        constant = Constant(Fraction(1, 5), Fraction(1, 1 << 33))
        found = worst_ratio(loss=loss, epsilon=epsilon, rows_per_unit=1, constant=constant)
        assert found <= 1 + 1e-9

    def test_a_constant_that_is_not_charged_is_found(self) -> None:
        constant = Constant(Fraction(1, 5), Fraction(1, 1 << 36))
        settings = {"loss": HUBER, "epsilon": Fraction(2), "rows_per_unit": 1}
        assert worst_ratio(**settings, constant=constant, constant_charged=False) > 1.05  # type: ignore[arg-type]

    def test_an_uncharged_jacobian_is_found(self) -> None:
        assert (
            worst_ratio(loss=HUBER, epsilon=Fraction(2), rows_per_unit=1, jacobian_charged=False)
            > 1.05
        )


def test_the_minimiser_moves_by_no_more_than_the_sensitivity() -> None:
    """Theorem 1 on random neighbours."""
    from dpublish.declare.domain import Axis
    from dpublish.methods.erm.design import Design
    from dpublish.methods.erm.solver import Problem, minimise
    from dpublish.models.linear_features import LinearFeatures

    features = LinearFeatures((Axis("a", "categorical", levels=("x", "y", "z")),))
    ridge, normaliser = 0.5, 40

    def solve(codes: np.ndarray, signs: np.ndarray) -> np.ndarray:
        found = minimise(
            Problem(Design(features, [codes]), signs, LOGISTIC, normaliser, ridge, np.zeros(3)),
            1e-10,
        )
        return np.array([float(value) for value in found])

    rng = np.random.default_rng(5)
    bound = 2 / (normaliser * ridge) + 2e-10 / ridge
    for _ in range(100):
        codes, signs = rng.integers(0, 3, normaliser), rng.choice([-1.0, 1.0], normaliser)
        there, turned = codes.copy(), signs.copy()
        there[0], turned[0] = rng.integers(0, 3), -signs[0]
        assert np.linalg.norm(solve(codes, signs) - solve(there, turned)) <= bound
