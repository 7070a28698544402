"""Parts of importance weights: the loss that the solver gets, the calibration, budgets, and the
tables."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpublish import audit
from dpublish.declare.domain import Axis
from dpublish.declare.relation import ROOT_TWO, Relation
from dpublish.errors import PlanError
from dpublish.methods.erm.design import Design
from dpublish.methods.erm.losses import LogisticLoss
from dpublish.methods.erm.solver import Problem, certified_length, minimise
from dpublish.methods.importance_weights.balanced import (
    BalancedSetting,
    for_gaussian,
    for_objective,
    for_output,
)
from dpublish.methods.importance_weights.moments import (
    Amounts,
    Fit,
    Measured,
    _worst_pair,
    candidate_pairs,
    choose_set,
    table_counts,
)
from dpublish.methods.importance_weights.planning import choice, default_rounds, split
from dpublish.models.linear_features import WeightFeatures
from dpublish.models.public_rows import PublicSet
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.privacy.cost import Cost

AXES = (
    Axis("a", "categorical", levels=("x", "y", "z")),
    Axis("b", "boolean", levels=("false", "true")),
    Axis("n", "real", edges=(0.0, 0.5, 1.0, 2.0), missing=True),
)


def setting(**changes: object) -> BalancedSetting:
    facts = {
        "dimension": 20,
        "normaliser": 5000,
        "public_rows": 3000,
        "rows_per_unit": 1,
        "moved_rows": 2,
        "heaviest": 5000 / 3000,
        "ridge": Fraction(1, 100),
    }
    return BalancedSetting(**{**facts, **changes})  # type: ignore[arg-type]


def problem_of(heavy: float, seed: int = 0) -> tuple[Problem, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = WeightFeatures(AXES, ((0, 1),), "scaled")
    codes = [rng.integers(0, axis.cardinality, 700) for axis in AXES]
    weights = np.where(np.arange(700) < 400, 1.0, heavy)
    signs = np.where(np.arange(700) < 400, 1.0, -1.0)
    vectors = np.empty((700, features.dimension))
    features.fill(codes, vectors)
    problem = Problem(
        Design(features, codes),
        signs,
        LogisticLoss(),
        400,
        0.01,
        np.zeros(features.dimension),
        weights,
    )
    return problem, vectors


@pytest.mark.parametrize("heavy", [0.05, 1.0, 40.0])
def test_the_solver_certifies_weighted_rows(heavy: float) -> None:
    """The certificate covers the error of the gradient, measured against sums in extended
    precision."""
    problem, filled = problem_of(heavy)
    assert problem.weights is not None
    point = np.array([float(value) for value in minimise(problem, 2.0**-26)])
    vectors, weights = filled.astype(np.longdouble), problem.weights
    margins = (vectors @ point.astype(np.longdouble)) * problem.signs
    slopes = -weights.astype(np.longdouble) / (1 + np.exp(margins)) * problem.signs
    gradient = slopes @ vectors / 400 + np.longdouble(0.01) * point
    computed = problem.gradient(point, problem.margins(point))
    length = float(np.sqrt((gradient**2).sum()))
    assert length <= certified_length(problem, point, computed)
    assert float(np.sqrt(((gradient - computed) ** 2).sum())) <= certified_length(
        problem, point, np.zeros_like(computed)
    )


def test_calibrations() -> None:
    output = for_output(setting(), Fraction(1, 2))
    assert output.sensitivity == (Fraction(2, 5000) + 2 * output.tolerance) * 100
    assert output.grid < output.sensitivity / 500
    assert output.noise_length(20, 5000) == pytest.approx(20 * float(output.sensitivity) * 2)
    gaussian = for_gaussian(setting(), Fraction(1, 8))
    assert gaussian.coefficient_deviation(20) == pytest.approx(float(gaussian.sensitivity) * 2)
    objective = for_objective(setting(), Fraction(1, 2), release_share=Fraction(1, 50))
    assert objective.tilt is not None
    spent = (
        objective.tilt.epsilon
        + objective.amount
        + Fraction(math.log1p(0.25 / (5000 * float(objective.ridge))))
    )
    assert float(spent) == pytest.approx(0.5, abs=1e-9)
    assert objective.gradient_deviation(20, 5000) == pytest.approx(
        math.sqrt(21) * 2 / float(objective.tilt.epsilon) / 5000
    )
    tight = for_objective(
        setting(ridge=Fraction(1, 10**9)), Fraction(1, 10), release_share=Fraction(1, 50)
    )
    assert tight.ridge > Fraction(1, 10**9), (
        "more regularization is added where the Jacobian would take too much"
    )


ONE = Relation("add-remove-one", 1)


def test_a_cost_as_what_steps_can_spend() -> None:
    assert BudgetSplit.of(Cost.pure(2), ONE) == BudgetSplit("laplace", Fraction(2), ONE)
    rho = BudgetSplit.of(Cost.zcdp("1/8"), ONE)
    epsilon, rest = choice(rho, Fraction(1, 10))
    assert epsilon**2 / 8 <= Fraction(1, 80) < (epsilon + Fraction(1, 10**9)) ** 2 / 8
    assert rest == Fraction(9, 80)
    assert (
        Cost.zcdp(BudgetSplit.of(Cost.approximate(1, "1e-6"), ONE).amount)
        .to_approximate("1e-6")
        .epsilon
        <= 1
    )
    with pytest.raises(PlanError, match="delta"):
        BudgetSplit.of(Cost.zcdp("1/8", "1e-6"), ONE)
    for law, power in (("laplace", 1 / 3), ("gaussian", 1 / 2)):
        parts = split(Fraction(1), [8, 64], law)  # type: ignore[arg-type]
        assert sum(parts) == 1
        assert float(parts[1] / parts[0]) == pytest.approx(8**power)
    assert default_rounds(BudgetSplit("laplace", Fraction(1), ONE), 100_000, 2) == 1
    assert default_rounds(BudgetSplit("laplace", Fraction(1), ONE), None, 9) == 0


def test_amounts() -> None:
    assert ROOT_TWO**2 > 2
    none: dict[str, Any] = {
        "tables": (),
        "set_choice": Fraction(0),
        "pair_choice": Fraction(0),
        "pair_table": Fraction(0),
    }
    replaced = Amounts(
        budget=BudgetSplit("gaussian", Fraction(1), Relation("replace-one", 3)), **none
    )
    assert (replaced.l1, replaced.budget.sensitivity) == (6, 3 * ROOT_TWO)
    added = Amounts(
        budget=BudgetSplit("laplace", Fraction(1), Relation("add-remove-one", 3)), **none
    )
    assert (added.l1, added.budget.sensitivity) == (3, 3)
    decay = math.exp(-1 / 6)
    assert added.variance(Fraction(1, 2)) == pytest.approx(2 * decay / (1 - decay) ** 2)
    assert replaced.variance(Fraction(1, 2)) == pytest.approx(18, rel=1e-5)


class TestFeatures:
    def codes(self, rows: int = 50) -> list[np.ndarray]:
        rng = np.random.default_rng(3)
        return [rng.integers(0, axis.cardinality, rows) for axis in AXES]

    @pytest.mark.parametrize("bound", ["columns", "dimension"])
    @pytest.mark.parametrize("numbers", ["bins", "scaled"])
    @pytest.mark.parametrize("pairs", [(), ((0, 1),), ((0, 2), (1, 2))])
    def test_sums_and_scores_agree_with_vectors(
        self, numbers: str, pairs: tuple[tuple[int, int], ...], bound: str
    ) -> None:
        features = WeightFeatures(AXES, pairs, numbers, bound)  # type: ignore[arg-type]
        groups = features.dimension if bound == "dimension" else len(AXES) + len(pairs)
        assert features.divisor == pytest.approx(groups**0.5)
        codes = self.codes()
        vectors = features.vectors(codes)
        assert vectors.shape == (50, features.dimension) == (50, len(features.names))
        beta = np.random.default_rng(1).normal(size=features.dimension)
        weights = np.random.default_rng(2).random(50)
        assert features.scores(codes, beta) == pytest.approx(vectors @ beta)
        assert features.sums(codes, weights) == pytest.approx(weights @ vectors)
        assert features.longest_square() <= 1
        filled = np.empty_like(vectors)
        features.fill(codes, filled)
        assert (np.linalg.norm(filled, axis=1) <= 1).all()

    def test_names(self) -> None:
        assert WeightFeatures(AXES[:2], ((0, 1),)).names[:6] == (
            ("a", "x"),
            ("a", "y"),
            ("a", "z"),
            ("b", "false"),
            ("b", "true"),
            ("a*b", "x*false"),
        )

    def test_tables_and_candidates(self) -> None:
        features = WeightFeatures(AXES, ((0, 1),))
        codes = self.codes()
        counts = table_counts(features, codes, (0, 2))
        assert counts.sum() == 50
        assert counts[4 * 1 + 3] == int(((codes[0] == 1) & (codes[2] == 3)).sum())
        assert candidate_pairs(features, 8) == [(1, 2)]
        assert candidate_pairs(features, 100) == [(0, 2), (1, 2)]


def test_expected_counts_stay_in_64_bits() -> None:
    """A nominal size, and noise, may be larger than a word: what a row is held against wrapped
    around then, and one row moved a score by 2^64."""
    features = WeightFeatures(AXES[:2], (), "bins")
    codes = (np.array([0, 0]), np.array([0, 0]))
    sets = [PublicSet("others", pl.DataFrame({"row": [0, 1]}), codes, np.array([0.5, 0.5]), 0)] * 2
    budget = BudgetSplit("laplace", Fraction(1), Relation("add-remove-one", 1))
    amounts = Amounts(
        budget=budget,
        tables=(),
        set_choice=Fraction(1, 2),
        pair_choice=Fraction(1, 2),
        pair_table=Fraction(1),
    )

    def run(noise: Any, rows: Any) -> Any:
        held = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        huge = Fit(sets[0], total=None, precision=None)
        huge.tables = [Measured(np.full(3, 2**62), 1.0), Measured(np.full(2, 2**62), 1.0)]
        huge.refit(features)
        object.__setattr__(huge, "_total", 10**20)
        chosen = choose_set(noise, features, held, sets, amounts, 10**20)
        pairs = [(0, 1), (0, 1)]
        return chosen, _worst_pair(noise, features, held, huge, amounts, pairs)

    report = audit.replay(run, [((), ((0, 0),)), (((1, 1),), ((1, 1), (2, 1)))], epsilon=1, runs=1)
    assert report.passed, report.summary()
