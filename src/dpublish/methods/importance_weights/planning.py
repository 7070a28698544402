"""What importance weights will cost and probably achieve: from the schema and the public rows
alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.arrays import Floats
from dpublish.declare.relation import Relation
from dpublish.errors import PlanError
from dpublish.methods.importance_weights.balanced import (
    BalancedCalibration,
    BalancedSetting,
    for_gaussian,
    for_objective,
    for_output,
)
from dpublish.methods.importance_weights.moments import Amounts
from dpublish.models.linear_features import WeightFeatures
from dpublish.models.public_rows import PublicSet
from dpublish.privacy.budget_split import BudgetSplit, Law, in_proportion
from dpublish.privacy.cost import Cost
from dpublish.privacy.gaussian import Steps, largest_gaussian_rho

TYPICAL_COEFFICIENT = 0.5
"""What a data-free choice of the regularization takes coefficients to be like: weights differ by
factors of about e^0.5."""

REGULARIZATIONS = tuple(float(x) for x in np.geomspace(1e-4, 10.0, 61))
MAX_FOR_PAIRS = Fraction(1, 2)
"""Share of the amount for tables that chosen pairs get at most."""
_ROWS_A_PAIR = 5000
"""N epsilon that one privately chosen pair should have behind it."""
_PARTS = 10**6
MAX_GRAM_ROWS = 20_000


def choice(budget: BudgetSplit, share: Fraction) -> tuple[Fraction, Fraction]:
    """An epsilon for choices that use at most `share` of the budget, and what is left of its
    amount. Beside Gaussian noise choices are exponential mechanisms."""
    epsilon = budget.bounded_range_epsilon(share)
    if epsilon == 0:
        raise PlanError(
            "The share of the cost for choices is too small. Use a larger cost or fewer choices."
        )
    return epsilon, budget.amount - budget.amount * share


def split(amount: Fraction, cells: Sequence[int], law: Law) -> tuple[Fraction, ...]:
    """Divide an amount between tables so that the sum of squared errors over all cells is least.

    With epsilon_t a table of k_t cells has squared error prop. to k_t / epsilon_t^2, hence shares
    prop. to k_t^(1/3); with rho_t it is k_t / rho_t, hence k_t^(1/2).
    """
    power = 1 / 3 if law == "laplace" else 1 / 2
    return tuple(
        amount * part
        for part in in_proportion([max(1, round(_PARTS * size**power)) for size in cells])
    )


def share_out(
    budget: BudgetSplit, tables: Sequence[int], *, sets: int, rounds: int, choice_share: Fraction
) -> Amounts:
    """Shares for choosing a public set, for choosing pairs, for the tables named beforehand, and
    for the chosen pairs."""
    left, set_choice, pair_choice, pair_table = budget.amount, Fraction(0), Fraction(0), Fraction(0)
    if sets > 1:
        set_choice, left = choice(budget, choice_share)
    if rounds:
        share = choice_share * budget.amount / left
        pair_choice = choice(budget.holding(left), share / rounds)[0]
        left -= share * left
        for_pairs = left * pair_share(rounds, len(tables))
        pair_table = for_pairs / rounds
        left -= for_pairs
    return Amounts(
        budget=budget,
        tables=split(left, tables, budget.law),
        set_choice=set_choice,
        pair_choice=pair_choice,
        pair_table=pair_table,
    )


def gaussian_steps(
    relation: Relation, *, tables: int, sets: int, rounds: int, choice_share: Fraction
) -> Steps | None:
    """What the account of Gaussian noise has to know of the steps that `share_out` pays for; None
    where choices cost so much beside the counts that follow them that it says nothing."""
    choosing = choice_share * ((sets > 1) + (rounds > 0))
    left = 1 - choosing
    # what a choice costs, in parts of what is set aside for the counts after it: all of them after
    # that of a public set, one table of a pair at least after that of a pair
    crowding = choice_share / left if sets > 1 else Fraction(0)
    if rounds:
        crowding = max(crowding, choice_share / (left * pair_share(rounds, tables)))
    return Steps(choosing, crowding, relation.rows * (tables + rounds)) if crowding < 1 else None


def gaussian_budget(
    cost: Cost, relation: Relation, steps: Steps | None, *, extra: Fraction
) -> BudgetSplit:
    """The whole cost as an amount. An epsilon with a delta is accounted for as one Gaussian, where
    that allows more than the way over zCDP; its noise has `extra` variance if it is whole."""
    plain = BudgetSplit.of(cost, relation)
    if cost.kind != "approximate" or steps is None:
        return plain
    rho = largest_gaussian_rho(steps, cost.epsilon, cost.delta)
    return plain if rho is None else BudgetSplit("gaussian", rho, relation, extra)


def pair_share(rounds: int, tables: int) -> Fraction:
    """A chosen pair counts as two tables that were named beforehand, so that a few pairs do not
    drown the columns in noise."""
    return min(MAX_FOR_PAIRS, Fraction(2 * rounds, 2 * rounds + tables))


def default_rounds(budget: BudgetSplit, rows: int | None, columns: int) -> int:
    """How many pairs to choose privately when nobody says: as many as the noise leaves room for."""
    if rows is None or columns < 2:
        return 0
    room = rows * like_epsilon(budget) // _ROWS_A_PAIR
    return int(min(columns * (columns - 1) // 2, 3 * columns, room))


def largest_pair(rows: int | None, budget: BudgetSplit) -> int:
    """How many cells a pair may have to be worth measuring: at least about ten rows a cell for each
    unit of noise."""
    return max(4, min(2048, int((rows or 1000) * min(1.0, like_epsilon(budget)) / 10)))


def like_epsilon(budget: BudgetSplit) -> float:
    """The epsilon of Laplace noise that is about as wide."""
    amount = float(budget.amount)
    return amount if budget.law == "laplace" else math.sqrt(2.0 * amount)


def gram_of(features: WeightFeatures, public: PublicSet) -> Floats:
    """Second moments of the public rows' vectors (not divided by R), from at most MAX_GRAM_ROWS of
    them."""
    step = max(1, -(-public.rows // MAX_GRAM_ROWS))
    vectors = features.vectors([column[::step] for column in public.codes])
    base = public.base[::step]
    return np.asarray((vectors * (base / base.sum())[:, None]).T @ vectors)


def calibrate(
    variant: str, setting: BalancedSetting, budget: BudgetSplit, release_share: Fraction
) -> BalancedCalibration:
    if variant == "output":
        return for_output(setting, budget.amount)
    if variant == "gaussian":
        return for_gaussian(setting, budget.amount)
    return for_objective(setting, budget.amount, release_share=release_share)


@dataclass(frozen=True)
class Forecast:
    """Errors to expect for one regularization, before any private row is read."""

    regularization: float
    noise_length: float
    share_error: float
    shrinkage: float

    @property
    def error(self) -> float:
        return math.hypot(self.share_error, self.shrinkage)


def forecast(
    features: WeightFeatures,
    gram: Floats,
    *,
    moved: int,
    rows: int,
    budget: BudgetSplit,
    regularizations: Sequence[float],
) -> list[Forecast]:
    """Expected noise in the shares of single levels, and what shrinkage does to them, for output
    noise, at weights near 1.

    A coefficient of typical size is shrunk by lambda / (lambda + h), h the curvature of the
    balanced loss at zero (half the public second moments); the noise is that of the solution's
    sensitivity R t / (N lambda). Both are carried to the shares by the public covariance.
    """
    dimension = features.dimension
    spread = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    found = []
    for value in regularizations:
        step = features.divisor * moved / (rows * value)
        if budget.law == "laplace":
            deviation = math.sqrt(dimension + 1) * step / float(budget.amount)
            length = dimension * step / float(budget.amount)
        else:
            deviation = step / math.sqrt(2.0 * float(budget.amount))
            length = math.sqrt(dimension) * deviation
        # a share's slope is a column of the covariance; its mean square over features is the mean
        # of squared eigenvalues
        by_noise = deviation * math.sqrt(float((spread**2).mean()))
        kept = value / (value + 0.5 * spread)
        by_ridge = TYPICAL_COEFFICIENT * math.sqrt(float(((spread * kept) ** 2).mean()))
        found.append(Forecast(value, length, by_noise, by_ridge))
    return found


def recommended(forecasts: Sequence[Forecast]) -> float:
    """The regularization with the least expected error, to two digits."""
    return float(f"{min(forecasts, key=lambda one: one.error).regularization:.2g}")


def error_table(
    forecasts: Sequence[Forecast], chosen: float, budget: BudgetSplit
) -> list[dict[str, Any]]:
    """Noise and shrinkage around the chosen regularization, at a third of the budget, at all of it,
    and at three times it."""
    near = sorted(forecasts, key=lambda one: abs(math.log(one.regularization / chosen)))[:13:3]
    table = []
    for one in sorted(near, key=lambda found: found.regularization):
        for times in (1 / 3, 1.0, 3.0):
            cheaper = times if budget.law == "laplace" else math.sqrt(times)
            entry = asdict(one)
            entry["noise_length"] /= cheaper
            entry["share_error"] /= cheaper
            table.append({"amount": float(budget.amount) * times, **entry})
    return table
