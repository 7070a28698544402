"""Online multiplicative weights: exact privacy on tiny data, replay, accuracy, refusals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish import audit
from dpublish.audit.trials.online import Conversation
from dpublish.errors import InputError
from dpublish.methods.online.multiplicative_weights.mechanism import OnlineMultiplicativeWeights
from dpublish.methods.online.state import Query
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from methods.online.conversations import PAIRS, growing, schema_of, sixteen_cells, tiny_plan

TINY = OnlineMultiplicativeWeights(resolution=1, max_hard=1)


def test_exact_privacy_of_a_whole_adaptive_session() -> None:
    talk = Conversation(TINY, tiny_plan(TINY, {}))
    report = audit.exact(talk, PAIRS[:8], epsilon=1, window=(-2, 3), max_branches=400_000)
    assert report.passed, report.summary()


@pytest.mark.parametrize(
    "cheat", [{"hard_answer_epsilon": Fraction(2)}, {"check_epsilon": Fraction(4)}]
)
def test_exact_audit_catches_a_wrong_price(cheat: dict[str, Any]) -> None:
    talk = Conversation(TINY, tiny_plan(TINY, cheat))
    assert not audit.exact(talk, PAIRS[:3], epsilon=1, window=(-2, 3), max_branches=400_000).passed


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_replay_of_an_adaptive_session(relation: str) -> None:
    mechanism = OnlineMultiplicativeWeights(max_hard=4, max_queries=20, resolution=8)
    plan = mechanism.plan(schema_of(16, 4000, neighbours=relation), Cost.pure(2))
    report = audit.replay(
        Conversation(mechanism, plan, growing), sixteen_cells(relation, 0), runs=3
    )
    assert report.passed, report.summary()


def test_intervals_hold_and_hard_answers_stay_few() -> None:
    """400 range queries: at 95% at least 90% of the intervals hold; false-alarm rate below 1e-4 if
    they held exactly 95%."""
    rng = np.random.default_rng(5)
    cells, rows = 256, 40_000
    mechanism = OnlineMultiplicativeWeights(max_hard=40, max_queries=400)
    plan = mechanism.plan(schema_of(cells, rows), Cost.pure(1))
    weights = np.exp(-(((np.arange(cells) - 80) / 36) ** 2))
    counts = np.bincount(rng.choice(cells, rows, p=weights / weights.sum()), minlength=cells)
    noise = SeededNoise(8)
    opening = mechanism.begin(noise, counts, plan.settings)
    desk = mechanism.state(plan.settings, opening.public)
    held = 0
    for _ in range(400):
        a, b = sorted(rng.integers(0, cells, 2))
        flags = np.zeros(cells, dtype=np.int64)
        flags[a : b + 1] = 1
        query = Query(flags * desk.resolution, "q")
        reply = desk.answer(noise, counts, opening.threshold, query)
        desk.learn(query, reply)
        held += reply.low <= int(counts @ flags) <= reply.high
    assert held >= 360
    assert 0 < desk.hard < 40
    again = mechanism.state(plan.settings, opening.public)
    assert again.histogram.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("settings", "rows", "text"),
    [
        ({"max_hard": 0}, 10_000, "max_hard"),
        ({"accuracy": "0.0001"}, 10_000, "is the least"),
        ({"max_hard": 900_000}, 10**9, "do not fit in memory"),
        ({"max_hard": 50}, 500, "nothing useful"),
        ({}, 20, "nothing useful"),
    ],
)
def test_bad_plans_are_refused(settings: dict[str, Any], rows: int, text: str) -> None:
    with pytest.raises(InputError, match=text):
        OnlineMultiplicativeWeights(**settings).plan(schema_of(64, rows), Cost.pure(1))


def test_a_tight_accuracy_is_warned_about() -> None:
    plan = OnlineMultiplicativeWeights(accuracy="0.05", max_queries=10**6).plan(
        schema_of(64, 20_000), Cost.pure(1)
    )
    assert "by noise alone" in plan.warnings[0]
