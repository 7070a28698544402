"""The solver: its certificate against exact arithmetic, and that it gets there."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from dpublish.domain import Axis
from dpublish.mechanisms.learning import solver
from dpublish.mechanisms.learning.losses import HuberLoss, LogisticLoss, Loss
from dpublish.mechanisms.learning.solver import Design, NotConverged, Problem, certified_length, minimise
from dpublish.public.linear_features import LinearFeatures

LOGISTIC, HUBER = LogisticLoss(), HuberLoss(Fraction(1, 2))


def features_of(columns: int, levels: int) -> LinearFeatures:
    texts = tuple(str(i) for i in range(levels))
    axes = [Axis(f"c{i}", "categorical", levels=texts) for i in range(columns - 1)]
    return LinearFeatures((*axes, Axis("w", "real", edges=tuple(float(i) for i in range(33)))))


def problem_of(
    seed: int, *, rows: int, loss: Loss, ridge: float, columns: int = 3, tilt: float = 0.0, separable: bool = False
) -> Problem:
    rng = np.random.default_rng(seed)
    features = features_of(columns, 4)
    codes = [rng.integers(0, axis.cardinality, rows) for axis in features.axes]
    truth = codes[0] + codes[-1] / 8 > 3
    noise = np.zeros(rows, dtype=bool) if separable else rng.random(rows) < 0.2
    signs = np.where(truth ^ noise, 1.0, -1.0)
    return Problem(Design(features, codes), signs, loss, max(1, rows), ridge, tilt * rng.normal(size=features.dimension))


def exact_gradient_square(problem: Problem, point: np.ndarray) -> arb:
    """|gradient|^2 in 200-bit balls, for the doubles as they stand."""
    vectors = np.vstack([block for _, block in problem.design.blocks()])
    total = [arb(float(t)) for t in problem.tilt]
    for row, sign in zip(vectors.tolist(), problem.signs.tolist(), strict=True):
        margin = arb(sign) * sum((arb(x) * arb(f) for x, f in zip(row, point.tolist(), strict=True)), arb(0))
        if isinstance(problem.loss, LogisticLoss):
            slope = -1 / (1 + margin.exp())
        else:
            assert isinstance(problem.loss, HuberLoss)
            width = arb(problem.loss.width.numerator) / arb(problem.loss.width.denominator)
            short = (1 + width - margin) / (2 * width)
            slope = -(arb(0) if short < 0 else arb(1) if short > 1 else short)
        total = [t + arb(sign) * slope * arb(x) for t, x in zip(total, row, strict=True)]
    parts = [t / problem.normaliser + arb(problem.ridge) * arb(f) for t, f in zip(total, point.tolist(), strict=True)]
    return sum((part * part for part in parts), arb(0))


@pytest.mark.parametrize("loss", [LOGISTIC, HUBER], ids=["logistic", "huber"])
@pytest.mark.parametrize("ridge", [1.0, 1e-2, 1e-5])
def test_the_certificate_bounds_the_exact_gradient(loss: Loss, ridge: float) -> None:
    problem = problem_of(1, rows=300, loss=loss, ridge=ridge, tilt=3.0)
    found = minimise(problem, 1e-9)
    rng = np.random.default_rng(2)
    with ctx.workprec(200):
        for point in (found, found + rng.normal(size=found.size) * 1e-11, np.zeros_like(found), 50 * found):
            bound = certified_length(problem, point, problem.gradient(point, problem.margins(point)))
            assert exact_gradient_square(problem, point) <= arb(bound) * arb(bound)
        assert exact_gradient_square(problem, found) <= arb(1e-9) ** 2


@pytest.mark.parametrize("loss", [LOGISTIC, HUBER], ids=["logistic", "huber"])
def test_it_converges_on_easy_and_on_nasty_problems(loss: Loss) -> None:
    for seed in range(12):
        for ridge in (1e-1, 1e-3, 1e-6):
            for separable in (False, True):
                for tilt in (0.0, 50.0):
                    problem = problem_of(seed, rows=60 + 40 * seed, loss=loss, ridge=ridge, tilt=tilt, separable=separable)
                    # the public tolerance of a plan is never below 2^10 times the rounding bound
                    start = np.zeros(problem.design.dimension)
                    slack = certified_length(problem, start, start)
                    tolerance = max(2.0**-16 / problem.normaliser, 1024 * slack)
                    found = minimise(problem, tolerance)
                    assert certified_length(problem, found, problem.gradient(found, problem.margins(found))) <= tolerance


def test_no_rows_and_one_row() -> None:
    for rows in (0, 1):
        problem = problem_of(3, rows=rows, loss=LOGISTIC, ridge=0.5)
        found = minimise(problem, 1e-10)
        assert np.linalg.norm(found) <= rows / 0.5


def test_it_finds_what_scikit_learn_finds() -> None:
    from sklearn.linear_model import LogisticRegression

    problem = problem_of(4, rows=2000, loss=LOGISTIC, ridge=1e-3)
    vectors = np.vstack([block for _, block in problem.design.blocks()])
    peer = LogisticRegression(C=1 / (1e-3 * 2000), fit_intercept=False, solver="newton-cholesky", tol=1e-10, max_iter=500)
    peer.fit(vectors, problem.signs)
    assert np.allclose(minimise(problem, 1e-10), peer.coef_[0], atol=1e-6)


def test_blocks_built_again_give_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = problem_of(5, rows=3000, loss=LOGISTIC, ridge=1e-2)
    monkeypatch.setattr(solver, "_DENSE", 0)
    rebuilt = problem_of(5, rows=3000, loss=LOGISTIC, ridge=1e-2)
    assert np.array_equal(minimise(kept, 1e-9), minimise(rebuilt, 1e-9))


def test_the_same_problem_gives_the_same_point() -> None:
    first, second = (minimise(problem_of(6, rows=500, loss=HUBER, ridge=1e-3), 1e-8) for _ in range(2))
    assert np.array_equal(first, second)


def test_an_unreachable_tolerance_is_refused_without_a_word() -> None:
    with pytest.raises(NotConverged) as caught:
        minimise(problem_of(7, rows=100, loss=LOGISTIC, ridge=1e-2), 1e-18)
    assert str(caught.value) == ""


def test_nothing_private_is_printed() -> None:
    problem = problem_of(8, rows=20, loss=LOGISTIC, ridge=1e-2)
    assert repr(problem) == "Problem(private)"
    assert repr(problem.design) == "Design(private)"


def test_a_singular_hessian_is_no_way_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a Hessian is singular in floating point is a function of the rows; the gradient's step is taken instead."""

    def singular(*_: object) -> None:
        raise np.linalg.LinAlgError("singular")

    problem = problem_of(3, rows=200, loss=LogisticLoss(), ridge=0.5)
    expected = minimise(problem, 1e-8)
    monkeypatch.setattr(np.linalg, "solve", singular)
    np.testing.assert_allclose(minimise(problem, 1e-8), expected, atol=1e-7)
