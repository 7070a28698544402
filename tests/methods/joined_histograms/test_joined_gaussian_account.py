"""What the exact account of Gaussian noise takes for granted of the steps (theorem 3 of the proof),
held against the draws of whole runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.audit.subject import Subject, subject
from dpublish.declare.schema import Schema
from dpublish.methods.joined_histograms import mechanism as module
from dpublish.methods.joined_histograms.plan import _gaussian_steps
from dpublish.methods.joined_histograms.rounds import choose_tables
from dpublish.noise.source import SeededNoise
from dpublish.noise.tape import Recorder
from dpublish.privacy.cost import Cost
from dpublish.privacy.gaussian import EXTRA_VARIANCE, is_private

COST = Cost.approximate("1/2", "1e-6")
SCHEMA = '[dataset]\nname = "tiny"\nneighbours = "{neighbours}"\n{size}\n' + "".join(
    f'[columns.{name}]\nkind = "categorical"\nlevels = ["x", "y"]\noutside = "drop"\n'
    for name in "abcdef"
)


def joined(neighbours: str, **more: Any) -> Subject:
    size = "size = 600" if neighbours == "replace-one" else ""
    schema = Schema.from_toml(SCHEMA.format(neighbours=neighbours, size=size))
    return subject(dp.JoinedHistograms(noise="gaussian", **more), schema, COST)


def wrong_steps(one: Subject, seed: int) -> list[str]:
    """Run it on rows that depend on one another, and name what is not as theorem 3 has it."""
    settings: Any = one.plan.settings
    rho, share = settings.amount, settings.choice_share
    assert settings.extra_variance == EXTRA_VARIANCE
    steps = _gaussian_steps(
        one.plan.schema,
        len(settings.features),
        share,
        settings.pair_share,
        checks=settings.public is not None,
    )
    assert steps is not None
    assert is_private(steps, rho, COST.epsilon, COST.delta)
    rows = np.random.default_rng(seed).choice([0, 3, 12, 21, 42, 63], size=600) % one.domain.size
    noise = Recorder(SeededNoise(seed))
    one(noise, rows.tolist())
    left, choices, touched, wrong = rho * (1 - share), Fraction(0), 0, []
    for tap in noise.tape.taps:
        draw = tap.draw
        if draw.kind == "gaussian":
            variance = draw.sensitivity**2 / (2 * draw.rho)
            left -= draw.sensitivity**2 / (2 * (variance - EXTRA_VARIANCE))
            touched += one.plan.schema.relation.rows
            continue
        assert draw.kind == "choose"
        if draw.rule != "exponential":
            wrong.append("rule")
        amount = draw.epsilon**2 / 8
        choices += amount
        if amount > steps.crowding * left:
            wrong.append("crowding")
    wrong += ["counts"] * (left < 0) + ["choices"] * (choices > share * rho)
    return wrong + ["touched"] * (touched > steps.touched)


@pytest.mark.parametrize(
    ("neighbours", "rounds"),
    [*itertools.product(("add-remove-one", "replace-one"), (None, 0, 1, 3))],
)
def test_steps_are_as_the_account_has_them(neighbours: str, rounds: int | None) -> None:
    for seed in range(2):
        assert wrong_steps(joined(neighbours, rounds=rounds), seed) == []


def test_a_single_column_has_no_choices() -> None:
    assert wrong_steps(joined("replace-one", columns=["a"]), 1) == []


@pytest.mark.parametrize("neighbours", ["add-remove-one", "replace-one"])
def test_checks_of_a_public_table_are_counts(neighbours: str) -> None:
    bits = (
        np.random.default_rng(4).choice([0, 3, 12, 21, 42, 63], size=900)[:, None] >> range(6)
    ) & 1
    public = pl.DataFrame(
        {name: np.array(["x", "y"])[bits[:, i]] for i, name in enumerate("abcdef")}
    )
    one = joined(neighbours, rounds=1, public=public)
    assert wrong_steps(one, 1) == []
    settings: Any = one.plan.settings
    assert settings.check_share == settings.choice_share == Fraction(1, 20)


def greedy_choice(*given: Any, share: Fraction, **more: Any) -> Any:
    return choose_tables(*given, share=8 * share, **more)


def plain_noise(noise: Any, budget: Any, counts: Any, *, share: Fraction, **more: Any) -> Any:
    # planted: the variance that makes whole noise as good as real noise is forgotten
    return noise.gaussian(
        counts,
        sensitivity=budget.sensitivity,
        rho=budget.amount * share,
        label=more["label"],
    )


@pytest.mark.parametrize(
    ("name", "planted", "found"),
    [
        ("choose_tables", greedy_choice, {"crowding", "choices"}),
        ("noisy_counts", plain_noise, {"counts"}),
    ],
)
def test_planted_bugs_are_found(
    monkeypatch: pytest.MonkeyPatch, name: str, planted: Callable[..., Any], found: set[str]
) -> None:
    one = joined("add-remove-one", rounds=2)
    assert wrong_steps(one, 3) == []
    monkeypatch.setattr(module, name, planted)
    assert found <= set(wrong_steps(one, 3))
