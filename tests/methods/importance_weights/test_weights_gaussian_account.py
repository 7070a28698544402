"""What the exact account of Gaussian noise takes for granted of the steps (theorem 6 of the proof),
held against the draws of whole runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpublish.declare.schema import Schema
from dpublish.methods.importance_weights import moments
from dpublish.methods.importance_weights.mechanism import ImportanceWeights
from dpublish.methods.importance_weights.planning import gaussian_steps
from dpublish.noise.source import SeededNoise
from dpublish.noise.tape import Recorder
from dpublish.privacy.cost import Cost, largest_rho
from dpublish.privacy.gaussian import EXTRA_VARIANCE, is_private

COST = Cost.approximate("1/2", "1e-6")
NAMES = "abcd"


def schema_of(neighbours: str) -> Schema:
    size = "size" if neighbours == "replace-one" else "nominal_size"
    text = f'[dataset]\nname = "tiny"\nneighbours = "{neighbours}"\n{size} = 600\n'
    for name in NAMES:
        text += f'[columns.{name}]\nkind = "categorical"\nlevels = ["x", "y"]\noutside = "drop"\n'
    return Schema.from_toml(text)


def rows_of(seed: int) -> pl.DataFrame:
    drawn = np.random.default_rng(seed).choice([0, 3, 6, 12, 15], size=300)
    return pl.DataFrame(
        {name: np.where(drawn >> place & 1, "x", "y") for place, name in enumerate(NAMES)}
    )


def wrong_steps(neighbours: str, *, rounds: int, sets: int, variant: Any = "moments") -> list[str]:
    """Run it, and name what is not as theorem 6 has it."""
    schema = schema_of(neighbours)
    more = {"choose_pairs": rounds} if variant == "moments" else {"regularization": "1/4"}
    method = ImportanceWeights(
        public=rows_of(1),
        alternatives=tuple(rows_of(9 + i) for i in range(sets - 1)),
        variant=variant,
        **more,
    )
    plan = method.plan(schema, COST)
    counted = variant == "moments"
    budget: Any = plan.settings.amounts.budget
    steps = gaussian_steps(
        schema.relation,
        tables=len(NAMES) if counted else 1,
        sets=sets,
        rounds=rounds,
        choice_share=Fraction(1, 10),
    )
    assert steps is not None
    assert budget.amount > largest_rho(COST.epsilon, COST.delta)
    assert budget.extra_variance == (EXTRA_VARIANCE if counted else 0)
    assert is_private(steps, budget.amount, COST.epsilon, COST.delta)
    codes = np.random.default_rng(3).integers(0, 2, size=(len(NAMES), 600))
    noise = Recorder(SeededNoise(5))
    method.run(noise, list(codes), plan)
    left = budget.amount * (1 - steps.choice_share)
    choices, touched, wrong = Fraction(0), 0, []
    for tap in noise.tape.taps:
        draw = tap.draw
        if draw.kind == "choose":
            if draw.rule != "exponential":
                wrong.append("rule")
            amount = draw.epsilon**2 / 8
            choices += amount
            if amount > steps.crowding * left:
                wrong.append("crowding")
            continue
        assert draw.kind == ("gaussian" if counted else "lattice-gaussian")
        variance = draw.sensitivity**2 / (2 * draw.rho) - budget.extra_variance
        left -= draw.sensitivity**2 / (2 * variance)
        touched += schema.relation.rows if counted else 0
    wrong += ["counts"] * (left < 0)
    wrong += ["choices"] * (choices > steps.choice_share * budget.amount)
    return wrong + ["touched"] * (touched > steps.touched)


@pytest.mark.parametrize(
    ("neighbours", "rounds", "sets"),
    [*itertools.product(("add-remove-one", "replace-one"), (0, 3), (1, 2))],
)
def test_steps_are_as_the_account_has_them(neighbours: str, rounds: int, sets: int) -> None:
    assert wrong_steps(neighbours, rounds=rounds, sets=sets) == []


@pytest.mark.parametrize("sets", [1, 2])
def test_steps_of_gaussian_coefficients(sets: int) -> None:
    assert wrong_steps("replace-one", rounds=0, sets=sets, variant="gaussian") == []


def flipping(self: moments.Amounts) -> str:
    # planted: a choice whose ratios lie in an interval twice as long
    return "permute-and-flip"


def plain_noise(noise: Any, budget: Any, counts: Any, *, label: str) -> Any:
    # planted: the variance that makes whole noise as good as real noise is forgotten
    return noise.gaussian(counts, sensitivity=budget.sensitivity, rho=budget.amount, label=label)


@pytest.mark.parametrize(
    ("place", "name", "planted", "found"),
    [
        (moments.Amounts, "choice_rule", property(flipping), "rule"),
        (moments, "noisy_counts", plain_noise, "counts"),
    ],
)
def test_planted_bugs_are_found(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, planted: Callable[..., Any], found: str
) -> None:
    monkeypatch.setattr(place, name, planted)
    assert found in wrong_steps("replace-one", rounds=3, sets=2)
