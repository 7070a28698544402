"""The median mechanism: what it promises, its exact privacy on tiny data, replay of an adaptive
session, and its accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish import audit
from dpublish.audit.trials.online import Conversation
from dpublish.errors import BudgetExceeded, PlanError
from dpublish.methods.online.base import dense_counts
from dpublish.methods.online.median.mechanism import (
    EASY,
    MedianMechanism,
    MedianState,
    closeness,
    possible_values,
)
from dpublish.methods.online.state import Query
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from methods.online.conversations import PAIRS, growing, schema_of, sixteen_cells, tiny_plan

TINY = MedianMechanism(hypotheses="listed", database_size=2, resolution=1, grid=2, max_hard=1)
LISTED = {"grid": 2, "reach": 1, "hypotheses": "listed", "database_size": 2}


def test_sensitivity_of_the_tiny_session_is_one() -> None:
    """What the hand-made facts of the exact audit state is true, on all neighbours and all
    queries."""
    listed = np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2], [1, 1, 0], [1, 0, 1], [0, 1, 1]])
    for flags in np.ndindex(2, 2, 2):
        units = (listed @ np.array(flags)).astype(np.int64)
        for one, two in PAIRS:
            values = [
                closeness(units, int(np.array(side) @ np.array(flags)), 1, 2) for side in (one, two)
            ]
            assert abs(values[0] - values[1]) <= 1


def test_exact_privacy_of_a_whole_adaptive_session() -> None:
    talk = Conversation(TINY, tiny_plan(TINY, LISTED))
    report = audit.exact(talk, PAIRS[:8], epsilon=1, window=(-2, 3), max_branches=400_000)
    assert report.passed, report.summary()
    assert report.outcomes > 5


@pytest.mark.parametrize(
    "cheat",
    [
        {"hard_answer_epsilon": Fraction(2)},  # the hard answer costs more than is charged for it
        {"check_epsilon": Fraction(4)},  # the comparisons do
    ],
)
def test_exact_audit_catches_a_wrong_price(cheat: dict[str, Any]) -> None:
    talk = Conversation(TINY, tiny_plan(TINY, {**LISTED, **cheat}))
    assert not audit.exact(talk, PAIRS[:3], epsilon=1, window=(-2, 3), max_branches=400_000).passed


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_replay_of_an_adaptive_session(relation: str) -> None:
    """The real plan on 16 cells: same taps in the same order, no private value further apart than
    declared."""
    mechanism = MedianMechanism(max_hard=4, max_queries=20, resolution=8)
    plan = mechanism.plan(schema_of(16, 4000, neighbours=relation), Cost.pure(2))
    report = audit.replay(
        Conversation(mechanism, plan, growing), sixteen_cells(relation, 0, 5), runs=2
    )
    assert report.passed, report.summary()


def test_replay_catches_a_session_that_peeks() -> None:
    mechanism = MedianMechanism(max_hard=4, max_queries=20, resolution=8)
    plan = mechanism.plan(schema_of(16, 4000), Cost.pure(2))

    class Peeking(MedianState):
        def answer(self, noise: Any, counts: Any, threshold: int, query: Query) -> Any:
            reply = super().answer(noise, counts, threshold, query)
            self.max_hard += int(counts[0]) % 2  # a limit that depends on the data
            return reply

    def talk(noise: Any, counts: Any) -> Any:
        made = Conversation(mechanism, plan, growing)
        original = MedianMechanism.state
        try:
            MedianMechanism.state = lambda *given: _as(Peeking, original(*given))  # type: ignore[method-assign]
            return made(noise, counts)
        finally:
            MedianMechanism.state = original  # type: ignore[method-assign]

    one = [300] * 13 + [100, 0, 0]
    other = [299, *one[1:15], 1]
    assert not audit.replay(talk, [(tuple(one), tuple(other))], runs=1).passed


def _as(kind: type, desk: Any) -> Any:
    desk.__class__ = kind
    return desk


def test_declared_sensitivity_covers_closeness() -> None:
    """Random hypotheses and values: closeness moves by at most what the plan declares, and not by
    much less."""
    rng = np.random.default_rng(3)
    mechanism = MedianMechanism(accuracy="0.25")
    facts = mechanism.plan(schema_of(64, 20_000), Cost.pure(1)).facts
    reach, grid, moves = int(facts["reach"]), int(facts["grid"]), mechanism.resolution
    worst = 0
    for _ in range(200):
        units = rng.integers(0, 20_000 * moves, 50)
        if rng.random() < 0.5:
            units[:] = units[0]
        true = int(units[0]) + int(rng.integers(-2, 3)) * moves
        values = [closeness(units, place, reach, grid) for place in (true, true + moves)]
        worst = max(worst, abs(values[0] - values[1]))
    assert worst <= facts["check_sensitivity"] < worst * 1.01


def test_an_easy_query_is_within_reach() -> None:
    """Lemma 3: a mean closeness above (1 + 1/e) / 2 puts the median within one reach, and the
    interval holds the truth."""
    rng = np.random.default_rng(4)
    tight = 0
    for _ in range(300):
        units = np.sort(rng.normal(0, rng.uniform(0.1, 2), 31)) * 1000
        true = rng.normal(0, 1000)
        mean = float(np.exp(-np.abs(units - true) / 1000).mean())
        low, high = possible_values(units, mean * (1 - 1e-9), 1000.0)
        assert low - 0.01 <= true <= high + 0.01
        if mean >= EASY:
            assert abs(np.median(units) - true) <= 1000
            tight += 1
    assert tight > 20


def test_intervals_hold_and_hard_answers_stay_few() -> None:
    """400 range queries on 80,000 rows: at 95% at least 90% of the intervals hold (false-alarm rate
    below 1e-4 if they held exactly 95%), easy answers are within the promise as often, and the
    session does not run out."""
    rng = np.random.default_rng(5)
    cells, rows = 64, 80_000
    mechanism = MedianMechanism(max_hard=40, max_queries=400)
    plan = mechanism.plan(schema_of(cells, rows), Cost.pure(1))
    weights = np.exp(-(((np.arange(cells) - 20) / 9) ** 2))
    counts = np.bincount(rng.choice(cells, rows, p=weights / weights.sum()), minlength=cells)
    noise = SeededNoise(8)
    opening = mechanism.begin(noise, counts, plan.settings)
    desk = mechanism.state(plan.settings, opening.public)
    held = near = 0
    for _ in range(400):
        a, b = sorted(rng.integers(0, cells, 2))
        flags = np.zeros(cells, dtype=np.int64)
        flags[a : b + 1] = 1
        query = Query(flags * desk.resolution, "q")
        reply = desk.answer(noise, counts, opening.threshold, query)
        desk.learn(query, reply)
        true = int(counts @ flags)
        held += reply.low <= true <= reply.high
        near += abs(reply.value - true) <= plan.facts["accuracy"] * rows
    assert held >= 360
    assert near >= 380
    assert 0 < desk.hard < 40


def test_it_halts_when_hard_answers_are_used_up() -> None:
    mechanism = MedianMechanism(max_hard=1, max_queries=5)
    plan = mechanism.plan(schema_of(16, 100_000), Cost.pure(1))
    counts = dense_counts(np.array([0], dtype=np.uint64), np.array([100_000]), 16)
    noise = SeededNoise(1)
    opening = mechanism.begin(noise, counts, plan.settings)
    desk = mechanism.state(plan.settings, opening.public)
    query = Query(np.eye(16, dtype=np.int64)[0] * desk.resolution, "q")
    reply = desk.answer(noise, counts, opening.threshold, query)
    assert (reply.label, round(reply.value / 100_000, 2)) == ("hard", 1.0)
    desk.learn(query, reply)
    with pytest.raises(BudgetExceeded, match="All 1 hard answers"):
        desk.answer(noise, counts, opening.threshold, query)


def test_no_hypothesis_left_is_a_clean_halt() -> None:
    def stubborn(labels: list[str]) -> Sequence[int] | None:
        return (1, 0, 0) if len(labels) < 40 else None

    prices = {"max_hard": 30, "check_epsilon": Fraction(9), "hard_answer_epsilon": Fraction(1, 2)}
    plan = tiny_plan(TINY, {**LISTED, **prices})
    talk = Conversation(TINY, plan, stubborn)
    ends = {talk(SeededNoise(seed), (2, 0, 0))[-1][0] for seed in range(20)}
    assert "halted" in ends


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"max_hard": 0}, "max_hard must lie between 1"),
        ({"max_queries": 0}, "max_queries"),
        ({"accuracy": "0.001"}, "is the least"),
        ({"accuracy": 2}, "share of all rows"),
        ({"hypotheses": "listed", "database_size": 30}, "too many databases"),
        ({"answer_share": 1}, "answer_share"),
        ({"count_share": "4/5"}, "together"),
        ({"level": 2}, "level"),
        ({"columns": ["w"]}, "no column 'w'"),
        ({"columns": []}, "at least one column"),
        ({"resolution": 1 << 30}, "resolution"),
        ({"grid": 0}, "grid"),
        ({"accounting": "guess"}, "accounting"),
        ({"max_hard": 5000}, "nothing useful"),
        ({"max_hard": 900_000}, "do not fit in memory"),
    ],
)
def test_bad_plans_are_refused(settings: dict[str, Any], text: str) -> None:
    from dpublish.errors import InputError

    with pytest.raises(InputError, match=text):
        MedianMechanism(**settings).plan(schema_of(64, 20_000), Cost.pure(1))


def test_domain_and_size_are_checked() -> None:
    with pytest.raises(PlanError, match="at most 16,384"):
        MedianMechanism().plan(schema_of(40_000, 1_000_000), Cost.pure(1))
    no_size = (
        schema_of(8, 100, neighbours="add-remove-one").to_toml().replace("nominal_size = 100\n", "")
    )
    from dpublish.declare.schema import Schema

    with pytest.raises(PlanError, match="nominal_size"):
        MedianMechanism().plan(Schema.from_toml(no_size), Cost.pure(1))
    with pytest.raises(PlanError, match="pure epsilon"):
        MedianMechanism().plan(schema_of(8, 10_000), Cost.zcdp(1))


def test_the_budget_is_split_exactly() -> None:
    schema = schema_of(16, 50_000, neighbours="add-remove-one")
    facts = MedianMechanism(max_hard=10).plan(schema, Cost.pure("1/3")).facts
    whole = [Fraction(facts[name]) for name in ("count_epsilon", "check_epsilon")]
    assert sum(whole) + 10 * Fraction(facts["hard_answer_epsilon"]) == Fraction(1, 3)
    assert whole[0] == Fraction(1, 60)


def test_promise_grows_with_the_logarithm_of_queries() -> None:
    promised = [
        MedianMechanism(max_queries=k, max_hard=50)
        .plan(schema_of(64, 10**6), Cost.pure(1))
        .facts["accuracy"]
        for k in (10**2, 10**4, 10**6)
    ]
    first, second = promised[1] - promised[0], promised[2] - promised[1]
    assert first > 0
    assert math.isclose(first, second, rel_tol=0.35)


@pytest.mark.nightly
def test_sampled_audit_of_a_session() -> None:
    """Family-wise false-alarm rate 1e-3, as `audit.sampled` states."""
    talk = Conversation(TINY, tiny_plan(TINY, LISTED))
    report = audit.sampled(talk, PAIRS[:3], epsilon=1, samples=1000, false_alarm=1e-3)
    assert report.passed, report.summary()


def test_a_huge_noisy_total_is_cut_so_that_sums_stay_in_64_bits() -> None:
    """A noisy total has no end; rows times the weights' resolution must."""
    from dpublish.methods.online.state import LARGEST_PRODUCT, OnlineState

    settings = tiny_plan(TINY, {**LISTED, "resolution": 1 << 16}).settings

    class Bare(OnlineState[Any]):
        """Only the constructor is looked at."""

    Bare.__abstractmethods__ = frozenset()
    for total in (1 << 61, 23166646792077828, 5, -3):
        desk = Bare(settings, {"total": total, "total_low": 0, "total_high": 0})  # type: ignore[abstract]
        assert desk.rows >= 1
        assert desk.rows * desk.resolution < LARGEST_PRODUCT
    assert Bare(settings, {"total": 5, "total_low": 0, "total_high": 0}).rows == 5  # type: ignore[abstract]
