"""The solver: its certificate against exact arithmetic, and that it gets there."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from dpublish.declare.domain import Axis
from dpublish.methods.erm import design, solver
from dpublish.methods.erm.design import Design
from dpublish.methods.erm.losses import HuberLoss, LogisticLoss, Loss
from dpublish.methods.erm.solver import (
    Problem,
    certified,
    certified_length,
    certified_newton,
    length_of,
    minimise,
    nearest_doubles,
    sum_unit,
)
from dpublish.models.linear_features import LinearFeatures, WeightFeatures

LOGISTIC, HUBER = LogisticLoss(), HuberLoss(Fraction(1, 2))
TINY_ROWS = 40


def doubles(point: list[Fraction]) -> np.ndarray:
    return np.array([float(value) for value in point])


def vectors_of(problem: Problem) -> np.ndarray:
    """The rows as a matrix, part by part."""
    whole = slice(0, problem.design.rows)
    found = np.zeros((problem.design.rows, problem.design.dimension))
    for part in problem.design.parts:
        table = np.eye(part.codes) * part.value if part.table is None else part.table
        found[:, part.start : part.start + part.width] = table[problem.design.codes(part, whole)]
    return found


def features_of(columns: int, levels: int) -> LinearFeatures:
    texts = tuple(str(i) for i in range(levels))
    axes = [Axis(f"c{i}", "categorical", levels=texts) for i in range(columns - 1)]
    return LinearFeatures((*axes, Axis("w", "real", edges=tuple(float(i) for i in range(33)))))


def problem_of(
    seed: int,
    *,
    rows: int,
    loss: Loss,
    ridge: float,
    columns: int = 3,
    tilt: float = 0.0,
    separable: bool = False,
) -> Problem:
    rng = np.random.default_rng(seed)
    features = features_of(columns, 4)
    codes = [rng.integers(0, axis.cardinality, rows) for axis in features.axes]
    truth = codes[0] + codes[-1] / 8 > 3
    noise = np.zeros(rows, dtype=bool) if separable else rng.random(rows) < 0.2
    signs = np.where(truth ^ noise, 1.0, -1.0)
    return Problem(
        Design(features, codes),
        signs,
        loss,
        max(1, rows),
        ridge,
        tilt * rng.normal(size=features.dimension),
    )


def exact_gradient_square(problem: Problem, point: np.ndarray) -> arb:
    """|gradient|^2 in balls, for the doubles as they stand."""
    return exact_length_square(problem, [arb(f) for f in point.tolist()])


def exact_length_square(problem: Problem, point: list[arb]) -> arb:
    vectors = vectors_of(problem)
    weights = np.ones(len(vectors)) if problem.weights is None else problem.weights
    total = [arb(float(t)) for t in problem.tilt]
    for row, sign, weight in zip(
        vectors.tolist(), problem.signs.tolist(), weights.tolist(), strict=True
    ):
        margin = arb(sign) * sum((arb(x) * f for x, f in zip(row, point, strict=True)), arb(0))
        if isinstance(problem.loss, LogisticLoss):
            slope = -1 / (1 + margin.exp())
        else:
            assert isinstance(problem.loss, HuberLoss)
            width = arb(problem.loss.width.numerator) / arb(problem.loss.width.denominator)
            short = (1 + width - margin) / (2 * width)
            slope = -(arb(0) if short < 0 else arb(1) if short > 1 else short)
        total = [
            t + arb(weight) * arb(sign) * slope * arb(x) for t, x in zip(total, row, strict=True)
        ]
    parts = [
        t / problem.normaliser + arb(problem.ridge) * f for t, f in zip(total, point, strict=True)
    ]
    return sum((part * part for part in parts), arb(0))


@pytest.mark.parametrize("loss", [LOGISTIC, HUBER], ids=["logistic", "huber"])
@pytest.mark.parametrize("ridge", [1.0, 1e-2, 1e-5])
def test_the_certificate_bounds_the_exact_gradient(loss: Loss, ridge: float) -> None:
    problem = problem_of(1, rows=300, loss=loss, ridge=ridge, tilt=3.0)
    found = doubles(minimise(problem, 1e-9))
    rng = np.random.default_rng(2)
    with ctx.workprec(200):
        for point in (
            found,
            found + rng.normal(size=found.size) * 1e-11,
            np.zeros_like(found),
            50 * found,
        ):
            bound = certified_length(
                problem, point, problem.gradient(point, problem.margins(point))
            )
            assert exact_gradient_square(problem, point) <= arb(bound) * arb(bound)
        assert exact_gradient_square(problem, found) <= arb(1e-9) ** 2


@pytest.mark.parametrize("loss", [LOGISTIC, HUBER], ids=["logistic", "huber"])
def test_it_converges_on_easy_and_on_nasty_problems(loss: Loss) -> None:
    for seed in range(12):
        for ridge in (1e-1, 1e-3, 1e-6):
            for separable in (False, True):
                for tilt in (0.0, 50.0):
                    problem = problem_of(
                        seed,
                        rows=60 + 40 * seed,
                        loss=loss,
                        ridge=ridge,
                        tilt=tilt,
                        separable=separable,
                    )
                    # the public tolerance of a plan is never below 2^10 times the rounding bound
                    start = np.zeros(problem.design.dimension)
                    slack = certified_length(problem, start, start)
                    tolerance = max(2.0**-16 / problem.normaliser, 1024 * slack)
                    assert certified(problem, solver.descend(problem, tolerance), tolerance)


def test_no_rows_and_one_row() -> None:
    for rows in (0, 1):
        problem = problem_of(3, rows=rows, loss=LOGISTIC, ridge=0.5)
        found = doubles(minimise(problem, 1e-10))
        assert np.linalg.norm(found) <= rows / 0.5


def test_it_finds_what_scikit_learn_finds() -> None:
    from sklearn.linear_model import LogisticRegression

    problem = problem_of(4, rows=2000, loss=LOGISTIC, ridge=1e-3)
    vectors = vectors_of(problem)
    peer = LogisticRegression(
        C=1 / (1e-3 * 2000), fit_intercept=False, solver="newton-cholesky", tol=1e-10, max_iter=500
    )
    peer.fit(vectors, problem.signs)
    assert np.allclose(doubles(minimise(problem, 1e-10)), peer.coef_[0], atol=1e-6)


def test_threads_and_chunks_change_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are of whole numbers: exact, so the same in any order."""
    whole = problem_of(5, rows=3000, loss=LOGISTIC, ridge=1e-2)
    point = np.random.default_rng(1).normal(size=whole.design.dimension)
    alone = whole.gradient(point, whole.margins(point))
    monkeypatch.setattr(design, "CHUNK", 100)
    monkeypatch.setattr(design, "_SMALL", 0)
    monkeypatch.setattr(design, "_THREADS", 3)
    assert np.array_equal(alone, whole.gradient(point, whole.margins(point)))


def test_sums_of_a_chunk_stay_in_64_bits() -> None:
    for heaviest in (1.0, 1.5, 2.0, 3e5, 2.0**40 * 1.1):
        unit = sum_unit(heaviest)
        assert Fraction(heaviest) / Fraction(unit) * design.CHUNK <= 1 << design.SUM_BITS
        assert unit <= heaviest * 2.0**-44
        assert np.frexp(unit)[0] == 0.5


@pytest.mark.parametrize("numbers", ["bins", "scaled"])
def test_parts_are_what_fill_writes(numbers: str) -> None:
    axes = features_of(3, 4).axes
    rng = np.random.default_rng(1)
    codes = [rng.integers(0, axis.cardinality, 70) for axis in axes]
    for features in (LinearFeatures(axes), WeightFeatures(axes, ((0, 1), (0, 2)), numbers)):  # type: ignore[arg-type]
        filled = np.empty((70, features.dimension))
        features.fill(codes, filled)
        problem = Problem(
            Design(features, codes), np.ones(70), LOGISTIC, 70, 0.1, np.zeros(features.dimension)
        )
        assert np.array_equal(vectors_of(problem), filled)
        weights = rng.random(70)
        expected = (filled * weights[:, None]).T @ filled
        held = [problem.design.codes(part, slice(0, 70)) for part in problem.design.parts]
        assert problem.design._gram_by_codes(held, weights) == pytest.approx(expected)
        assert problem.design._gram_by_rows(held, weights) == pytest.approx(expected, abs=1e-5)


def test_hessians_of_some_rows_serve_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(6, rows=20_000, loss=LOGISTIC, ridge=1e-3)
    monkeypatch.setattr(solver, "_ROWS", 500)
    assert solver.first_stride(20_000, problem.design.dimension) > 10
    assert certified(problem, solver.descend(problem, 1e-10), 1e-10)


def test_the_same_problem_gives_the_same_point() -> None:
    first, second = (
        minimise(problem_of(6, rows=500, loss=HUBER, ridge=1e-3), 1e-8) for _ in range(2)
    )
    assert first == second


class TestSettling:
    """What doubles cannot certify is settled in balls: there is no table on which the solver
    fails."""

    @pytest.mark.parametrize("loss", [LOGISTIC, HUBER], ids=["logistic", "huber"])
    def test_a_tolerance_that_doubles_cannot_certify(self, loss: Loss) -> None:
        problem = problem_of(7, rows=TINY_ROWS, loss=loss, ridge=1e-2, tilt=1.0)
        for tolerance in (1e-18, 1e-40):
            assert not certified(problem, solver.descend(problem, tolerance), tolerance)
            found = minimise(problem, tolerance)
            with ctx.workprec(400):
                exact = [arb(value.numerator) / arb(value.denominator) for value in found]
                assert exact_length_square(problem, exact) <= arb(tolerance) ** 2

    @pytest.mark.parametrize("loss", [LOGISTIC, HUBER], ids=["logistic", "huber"])
    @pytest.mark.parametrize("start", [0.0, 1e6, np.nan], ids=["zero", "far", "nan"])
    def test_a_planted_failure_of_doubles(
        self, loss: Loss, start: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Doubles give up at once, wherever they stand; the answer is the same to within both
        tolerances."""
        problem = problem_of(8, rows=TINY_ROWS, loss=loss, ridge=0.05)
        expected = doubles(minimise(problem, 1e-12))
        monkeypatch.setattr(solver, "descend", lambda *_: np.full(problem.design.dimension, start))
        found = minimise(problem, 1e-12)
        assert np.linalg.norm(doubles(found) - expected) <= 2e-12 / 0.05

    def test_gradient_steps_alone_get_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Newton's steps are a convenience: without them the gradient gets shorter all the same, as
        fast as the proof says."""
        problem = problem_of(9, rows=TINY_ROWS, loss=LOGISTIC, ridge=0.5)
        steps = []

        def singular(*_: object) -> None:
            steps.append(1)
            raise np.linalg.LinAlgError("singular")

        monkeypatch.setattr(np.linalg, "solve", singular)
        found = certified_newton(problem, Fraction(1, 10**9), np.zeros(problem.design.dimension))
        with ctx.workprec(200):
            assert exact_gradient_square(problem, doubles(found)) <= arb(2e-9) ** 2
        steepest, shortest = 0.25 + 0.5, 1e-9
        assert (
            len(steps)
            <= np.log(2 * 1.0 / shortest) / -np.log(max(31 / 32, 1 - 0.5 / (2 * steepest))) + 1
        )

    def test_many_more_rows_than_the_normaliser(self) -> None:
        """Under add-remove-one nothing bounds the number of rows; the tolerance is that of the
        nominal size."""
        problem = problem_of(10, rows=30_000, loss=LOGISTIC, ridge=1e-2, columns=2)
        crowded = Problem(problem.design, problem.signs, LOGISTIC, 1, 1e-2, problem.tilt)
        tolerance = 2.0**-31
        assert not certified(crowded, solver.descend(crowded, tolerance), tolerance)
        found = minimise(crowded, tolerance)
        again = certified_newton(crowded, Fraction(tolerance), np.zeros(crowded.design.dimension))
        gap = sum((one - other) ** 2 for one, other in zip(found, again, strict=True))
        assert gap <= Fraction(2 * tolerance / 1e-2) ** 2

    def test_no_rows_at_all(self) -> None:
        problem = problem_of(3, rows=0, loss=LOGISTIC, ridge=0.5, tilt=1.0)
        found = certified_newton(problem, Fraction(1, 10**30), np.zeros(problem.design.dimension))
        assert doubles(found) == pytest.approx(-problem.tilt / 0.5)

    def test_lengths_beyond_doubles_are_infinite(self) -> None:
        assert length_of(np.array([1e200, 1.0])) == np.inf
        assert length_of(np.array([np.nan])) == np.inf
        assert length_of(np.array([3.0, 4.0])) == 5.0

    def test_a_tilt_that_no_double_holds(self) -> None:
        steps = [Fraction((1 << 62) + 1), Fraction(-3), Fraction(1, 1 << 20)]
        features = LinearFeatures((Axis("a", "categorical", levels=("x", "y", "z")),))
        rows = Design(features, [np.array([0, 1, 2, 2])])
        nearest = np.array([float(step) for step in steps])
        problem = Problem(rows, np.ones(4), LOGISTIC, 4, 1.0, nearest, exact_tilt=steps)
        found = minimise(problem, Fraction(1, 1 << 30))
        # far out the loss is flat: the minimiser is -tilt / N to within one row's slope
        assert abs(found[0] + steps[0] / 4) < 2
        assert found[0] != Fraction(float(found[0])), (
            "an exact answer needs more digits than a double has"
        )

    @pytest.mark.parametrize(
        "size", [10**160, 10**290, 10**320, -(10**400)], ids=["160", "290", "320", "400"]
    )
    def test_a_tilt_beyond_the_range_of_doubles(self, size: int) -> None:
        """Noise has no limit, so neither has a tilt: the proof has no room for a failure on large
        ones."""
        steps = [Fraction(size), Fraction(-3), Fraction(1, 1 << 20)]
        features = LinearFeatures((Axis("a", "categorical", levels=("x", "y", "z")),))
        rows = Design(features, [np.array([0, 1, 2, 2])])
        problem = Problem(
            rows, np.ones(4), LOGISTIC, 4, 1.0, nearest_doubles(steps), exact_tilt=steps
        )
        found = minimise(problem, Fraction(1, 1 << 30))
        assert abs(found[0] + steps[0] / 4) < 2
        assert abs(found[1]) < 2


def test_nothing_private_is_printed() -> None:
    problem = problem_of(8, rows=20, loss=LOGISTIC, ridge=1e-2)
    assert repr(problem) == "Problem(private)"
    assert repr(problem.design) == "Design(private)"


def test_a_singular_hessian_is_no_way_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a Hessian is singular in floating point is a function of the rows; another step is
    taken instead."""
    problem = problem_of(3, rows=200, loss=LogisticLoss(), ridge=0.5)
    expected = doubles(minimise(problem, 1e-8))
    monkeypatch.setattr(
        Problem, "hessian", lambda self, *_: np.full((self.design.dimension,) * 2, -1.0)
    )
    np.testing.assert_allclose(doubles(minimise(problem, 1e-8)), expected, atol=1e-7)
