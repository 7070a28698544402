"""Sessions over domains too large for a histogram: joined histograms that hard answers correct,
with a promise that is known beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.curator.sessions.answers import read_query
from dpublish.curator.sessions.session import OnlineSession
from dpublish.methods.online import joined
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

COLUMNS = [f"c{place}" for place in range(8)]
LEVELS, ROWS = 6, 30_000
WIDE = dp.OnlineMultiplicativeWeights()


def schema(rows: int = ROWS, *, relation: str = "replace-one", more: str = "") -> dp.Schema:
    levels = ", ".join(f'"v{level}"' for level in range(LEVELS))
    known = "size" if relation == "replace-one" else "nominal_size"
    return dp.Schema.from_toml(
        f'[dataset]\nname = "wide"\nneighbours = "{relation}"\n{known} = {rows}\n{more}'
        + "".join(
            f'[columns.{name}]\nkind = "categorical"\nlevels = [{levels}]\n' for name in COLUMNS
        )
    )


def coded(seed: int = 1) -> np.ndarray:
    """Columns that follow a hidden kind; the last is the sum of two others, which no pair tells."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(3, size=ROWS)
    rows = [(kind + draw.geometric(0.5, ROWS) - 1) % LEVELS for _ in COLUMNS[:-1]]
    return np.stack([*rows, (rows[0] + rows[1]) % LEVELS])


CODES = coded()
FRAME = pl.DataFrame(
    {name: [f"v{code}" for code in codes] for name, codes in zip(COLUMNS, CODES, strict=True)}
)


def conjunctions(count: int, seed: int) -> list[list[tuple[int, int]]]:
    draw = np.random.default_rng(seed)
    return [
        [(int(column), int(draw.integers(LEVELS))) for column in chosen]
        for chosen in (draw.choice(8, draw.integers(1, 4), replace=False) for _ in range(count))
    ]


def text_of(asked: list[tuple[int, int]]) -> str:
    return " and ".join(f"c{column} = 'v{level}'" for column, level in asked)


def truth(asked: list[tuple[int, int]]) -> int:
    return int(np.all([CODES[column] == level for column, level in asked], axis=0).sum())


def talk(plan: Any, questions: list[Any], seed: int) -> list[tuple[str, float, Any]]:
    noise = SeededNoise(seed)
    opening = WIDE.begin(noise, CODES, plan.settings)
    state = WIDE.state(plan.settings, opening.public)
    out = []
    for asked in questions:
        query = read_query(text_of(asked), plan.settings.domain, state.resolution, state.codes)
        reply = state.answer(noise, CODES, opening.threshold, query)
        state.learn(query, reply)
        out.append((reply.label, reply.value - truth(asked), reply))
        if state.halted:
            break
    return out


def test_the_domain_decides_what_is_bought() -> None:
    wide = WIDE.plan(schema(), Cost.pure(1)).settings
    assert wide.domain_size > 1 << 18
    assert wide.support == joined.SUPPORT
    (said,) = WIDE.plan(schema(), Cost.pure(1)).warnings
    assert "joined-histograms, released at this cost" in said
    assert wide.synopsis_epsilon == joined.SHARE
    assert (
        wide.synopsis_epsilon + wide.check_epsilon + wide.max_hard * wide.hard_answer_epsilon == 1
    )
    few = dp.OnlineMultiplicativeWeights(columns=COLUMNS[:3]).plan(schema(), Cost.pure(1)).settings
    assert few.support is None
    assert few.synopsis_scale is not None
    named = dp.OnlineMultiplicativeWeights(columns=COLUMNS[:3], synopsis="joined", max_hard=3)
    settings = named.plan(schema(relation="add-remove-one"), Cost.pure(1)).settings
    assert (settings.support, settings.max_hard) == (joined.SUPPORT, 3)
    assert settings.count_epsilon > 0


def test_answers_are_as_near_as_promised_and_intervals_hold() -> None:
    """Four sessions of 60 questions: with probability 95% each, fewer than 90% of all hold once in
    10^4 even if a session's errors go together in tens."""
    plan = WIDE.plan(schema(), Cost.pure(1))
    promised = plan.settings.accuracy * ROWS
    assert promised < 0.04 * ROWS
    held = near = asked = 0
    errors = []
    for seed in range(4):
        for label, off, reply in talk(plan, conjunctions(60, seed), seed):
            held += reply.low <= reply.value - off <= reply.high
            near += abs(off) <= promised
            asked += 1
            errors.append(abs(off))
            assert label in ("easy", "hard")
    assert asked >= 200
    assert held >= 0.9 * asked
    assert near >= 0.9 * asked
    assert np.mean(errors) < 0.25 * promised


def test_hard_answers_correct_the_synopsis() -> None:
    """What no pair of columns tells is wrong in the model, is called hard, and is right when it is
    asked again: noise of a hard answer has scale 80, so 800 is missed once in 20,000."""
    plan = WIDE.plan(schema(), Cost.pure(1))
    asked = [(0, 0), (1, 1), (7, 1)]
    first, second = talk(plan, [asked, asked], 5)
    assert first[0] == "hard"
    assert abs(first[1]) < 800
    assert second[0] == "easy"
    assert abs(second[1]) < 800


def test_a_session_of_a_wide_table_survives_a_restart(tmp_path: Path) -> None:
    curator = dp.Curator(
        FRAME, schema(), ledger=tmp_path / "l", budget=dp.Budget(epsilon=1), store=tmp_path / "s"
    )
    desk = curator.answer_online(WIDE, epsilon=1, key="desk")
    hard = text_of([(0, 0), (1, 1), (7, 1)])
    first = desk.ask(hard, key="q1")
    assert desk.ask(hard, key="q1").to_bytes() == first.to_bytes()
    with pytest.raises(dp.BudgetError, match="another query"):
        desk.ask("c0 = 'v1'", key="q1")
    with pytest.raises(dp.QueryError, match="predicate"):
        desk.ask(np.ones(4))
    again = OnlineSession(desk.folder)
    assert again.ask(hard, key="q1").to_bytes() == first.to_bytes()
    assert again.status().hard == desk.status().hard
    assert np.array_equal(again._state.histogram, desk._state.histogram)  # type: ignore[attr-defined]
    header = (desk.folder / "session.json").read_text()
    assert len(header) < 3_000_000
    again.close()
    assert not (desk.folder / "private.bin").exists()


def test_what_cannot_be_promised_is_refused_before_paying() -> None:
    with pytest.raises(dp.PlanError, match="nothing useful can be promised"):
        WIDE.plan(schema(1000), Cost.pure(1))
    with pytest.raises(dp.PlanError, match="above 0 and"):
        dp.OnlineMultiplicativeWeights(synopsis_share=1).plan(schema(), Cost.pure(1))
    with pytest.raises(dp.PlanError, match="online-multiplicative-weights"):
        dp.MedianMechanism().plan(schema(), Cost.pure(1))
    with pytest.raises(dp.PlanError, match="online-multiplicative-weights"):
        dp.MedianMechanism(columns=["c0"], synopsis="joined").plan(schema(), Cost.pure(1))
    with pytest.raises(dp.PlanError, match="takes at most"):
        dp.OnlineMultiplicativeWeights(synopsis="histogram").plan(schema(), Cost.pure(1))
    with pytest.raises(dp.PlanError, match="codes of all rows"):
        WIDE.plan(schema(1 << 34, relation="add-remove-one"), Cost.pure(1))


def test_rows_that_a_rule_forbids_are_left_out_of_answers_too() -> None:
    rule = "[[rules]]\nif = \"c0 = 'v0'\"\nthen = \"c1 = 'v0'\"\n"
    plan = WIDE.plan(schema(more=rule), Cost.pure(1))
    assert plan.settings.domain.rules
    assert plan.settings.count_epsilon > 0


def test_stray_rows_show_every_level_and_weigh_little() -> None:
    domain = WIDE.plan(schema(), Cost.pure(1)).settings.domain
    stray = joined.stray_codes(domain, 4096)
    for codes, axis in zip(stray, domain.axes, strict=True):
        shares = np.bincount(codes, minlength=axis.cardinality) / 4096
        assert shares.min() > 0.6 / axis.cardinality
    weights = joined.first_weights(joined.SUPPORT)
    assert weights.sum() == pytest.approx(1)
    assert weights[-4096:].sum() == pytest.approx(joined.STRAY_WEIGHT)
