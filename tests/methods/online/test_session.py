"""A durable session: paid once, the same bytes for the same key, the same answers after a restart,
refusals before paying."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
import stat
import threading
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.curator.sessions import session as online
from dpublish.ledger import crashpoints

CANARY = "canary-7f3a"
SCHEMA = """
[dataset]
name = "clinic"
[columns.age]
kind = "integer"
lower = 0
upper = 79
bins = 8
missing = true
[columns.ward]
kind = "categorical"
levels = ["north", "south"]
outside = "other"
"""
METHODS = [dp.MedianMechanism(max_hard=10), dp.OnlineMultiplicativeWeights(max_hard=10)]


def rows() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    ages = np.clip(rng.normal(30, 12, 30_000), 0, 79).astype(int)
    return pl.DataFrame(
        {"age": ages, "ward": rng.choice(["north", "south", CANARY], 30_000, p=[0.7, 0.2, 0.1])}
    )


FRAME = rows()


@pytest.fixture
def curator(tmp_path: Path) -> dp.Curator:
    return dp.Curator(
        FRAME,
        dp.Schema.from_toml(SCHEMA),
        ledger=tmp_path / "c.ledger",
        budget=dp.Budget(epsilon=3),
    )


def spent(curator: dp.Curator) -> Fraction:
    return curator.ledger.status().spent.epsilon


@pytest.mark.parametrize("other", [dp.Histogram(), "median-mechanism", None])
def test_a_session_is_refused_to_a_method_of_releases(curator: dp.Curator, other: Any) -> None:
    with pytest.raises(dp.PlanError, match=r"opened with an online method.*Nothing was spent"):
        curator.answer_online(other, epsilon=1, key="desk")
    assert spent(curator) == 0


def test_the_rows_of_a_session_are_those_whose_number_was_taken_for_public(tmp_path: Path) -> None:
    """Units are counted before the debit, and rows after it: of a database in one transaction."""
    with closing(sqlite3.connect(tmp_path / "rows.db")) as base:
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("CREATE TABLE t (a INTEGER)")
        base.executemany("INSERT INTO t VALUES (?)", [(i % 15,) for i in range(2000)])
        base.commit()

        def more(reached: str) -> None:
            if reached == "online:debited":
                base.execute("INSERT INTO t VALUES (3)")
                base.commit()

        schema = '[dataset]\nname = "t"\n[columns.a]\nkind = "integer"\nlower = 0\nupper = 14\n'
        curator = dp.Curator(
            dp.SqlSource(f"sqlite:///{tmp_path / 'rows.db'}", "select a from t"),
            dp.Schema.from_toml(f"{schema}bins = 15\n"),
            ledger=tmp_path / "l.ledger",
            budget=dp.Budget(epsilon=1),
        )
        with crashpoints.armed(more):
            desk = curator.answer_online(dp.OnlineMultiplicativeWeights(max_hard=4), epsilon=1)
        assert base.execute("SELECT count(*) FROM t").fetchone() == (2001,)
    counts, _ = desk._require_private()
    assert counts.sum() == 2000


@pytest.mark.parametrize("mechanism", METHODS, ids=lambda m: m.method)
def test_a_session_from_open_to_close(curator: dp.Curator, mechanism: Any, tmp_path: Path) -> None:
    desk = curator.answer_online(mechanism, epsilon=1, key="desk")
    assert spent(curator) == 1
    first = desk.ask("age < 30 and ward = 'north'", key="q1")
    true = FRAME.filter((pl.col("age") < 30) & (pl.col("ward") == "north")).height
    # noise is fresh here, so 95% limits would fail one run in twenty; five times their width fails
    # less than once in a million
    width = first.estimate.high - first.estimate.low
    assert first.estimate.low - 2 * width <= true <= first.estimate.high + 2 * width
    assert desk.ask("age < 30 and ward = 'north'", key="q1").to_bytes() == first.to_bytes()
    assert desk.status().asked == 1
    with pytest.raises(dp.BudgetError, match="another query"):
        desk.ask("age < 40", key="q1")
    linear = np.linspace(0, 1, desk.domain.size)
    second = desk.ask(linear, key="q2")
    third = desk.ask("ward is null or age >= 70")
    assert [answer.number for answer in desk.transcript()] == [1, 2, 3]

    again = curator.answer_online(mechanism, epsilon=1, key="desk")
    assert spent(curator) == 1, "the same key is paid once"
    assert [answer.to_bytes() for answer in again.transcript()] == [
        one.to_bytes() for one in (first, second, third)
    ]
    assert dp.OnlineSession(desk.folder).status() == desk.status()
    assert desk.header["publishable"]

    again.close()
    assert desk.status().state == "closed", "another object sees it at once"
    assert not (desk.folder / "private.bin").exists()
    with pytest.raises(dp.BudgetExceeded, match="closed"):
        desk.ask("age < 20")
    assert desk.ask("age < 30 and ward = 'north'", key="q1").to_bytes() == first.to_bytes()
    for path in desk.folder.iterdir():
        assert CANARY not in path.read_text(encoding="latin-1")


@pytest.mark.parametrize("mechanism", METHODS, ids=lambda m: m.method)
def test_a_restart_changes_no_later_answer(
    curator: dp.Curator, mechanism: Any, tmp_path: Path
) -> None:
    """The same seed with and without a restart after every query: hypotheses and secret come back
    exactly."""
    queries = [
        "age < 30",
        "ward = 'north'",
        "age >= 50",
        "age < 30 and ward = 'south'",
        "age between 10 and 39",
        "ward = 'south'",
    ]

    def talk(key: str, restart: bool) -> list[Any]:
        desk = curator.answer_online(mechanism, epsilon=1, key=key, folder=tmp_path / key, seed=9)
        seen = []
        for query in queries:
            if restart:
                desk = dp.OnlineSession(desk.folder)
            seen.append(desk.ask(query, key=query).estimate)
        assert not desk.status().publishable
        return seen

    # the seed of a median session's hypotheses is drawn from the seeded noise too, so both sessions
    # agree
    assert talk("straight", restart=False) == talk("restarted", restart=True)


def test_two_processes_share_a_session(curator: dp.Curator) -> None:
    one = curator.answer_online(dp.OnlineMultiplicativeWeights(max_hard=10), epsilon=1)
    two = dp.OnlineSession(one.folder)
    one.ask("age < 20", key="a")
    two.ask("age < 40", key="b")
    assert one.ask("age < 40", key="b").to_bytes() == two.ask("age < 40", key="b").to_bytes()
    assert one.status() == two.status()
    done: list[int] = []

    def ask(number: int) -> None:
        done.append((one, two)[number % 2].ask("age < 60", key=f"t{number % 4}").number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [3, 3, 4, 4, 5, 5, 6, 6]


def test_it_stops_when_hard_answers_are_used_up(curator: dp.Curator) -> None:
    desk = curator.answer_online(
        dp.OnlineMultiplicativeWeights(max_hard=2, accuracy="0.03"), epsilon=1
    )
    edges, asked = iter((20, 30, 40, 50, 10, 60)), 0
    while desk.status().hard_left:
        desk.ask(f"age < {next(edges)}")
        asked += 1
    with pytest.raises(dp.BudgetExceeded, match="All 2 hard answers"):
        desk.ask("age < 70")
    assert desk.status().state == "used up"
    assert desk.status().hard_left == 0
    assert len(desk.transcript()) == asked


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("age <", "does not parse"),
        ("height > 3", "no column 'height'"),
        ("ward = 'west'", "ward"),
        ("age < 25", "cuts a bin"),
        ([0.5], "one weight for each of the 27 cells"),
        ([2.0] * 27, "between 0 and 1"),
        ([float("nan")] * 27, "between 0 and 1"),
        (object(), "predicate"),
    ],
)
def test_wrong_queries_ask_nothing(curator: dp.Curator, query: Any, text: str) -> None:
    desk = curator.answer_online(METHODS[1], epsilon=1, key="desk")
    with pytest.raises(dp.QueryError, match=text):
        desk.ask(query)
    assert desk.status().asked == 0


@pytest.mark.parametrize(
    "mechanism",
    [
        dp.MedianMechanism(answer_share=0),
        dp.MedianMechanism(columns=["height"]),
        dp.MedianMechanism(max_hard=50),
    ],
)
def test_wrong_requests_spend_nothing(tmp_path: Path, mechanism: Any) -> None:
    few = dp.Curator(
        FRAME.head(50),
        dp.Schema.from_toml(SCHEMA),
        ledger=tmp_path / "f.ledger",
        budget=dp.Budget(epsilon=3),
    )
    with pytest.raises(dp.InputError):
        few.answer_online(mechanism, epsilon=1)
    assert spent(few) == 0


def test_an_unbounded_column_spends_nothing(tmp_path: Path) -> None:
    text = '[dataset]\nname = "t"\n[columns.age]\nkind = "integer"\nlower = 0\n'
    made = dp.Curator(
        FRAME, dp.Schema.from_toml(text), ledger=tmp_path / "u.ledger", budget=dp.Budget(epsilon=3)
    )
    with pytest.raises(dp.SchemaError, match="upper"):
        made.answer_online(METHODS[0], epsilon=1)
    assert spent(made) == 0


def test_the_private_part_is_for_the_owner_alone(curator: dp.Curator) -> None:
    desk = curator.answer_online(METHODS[1], epsilon=1)
    assert stat.S_IMODE((desk.folder / "private.bin").stat().st_mode) == 0o600
    assert stat.S_IMODE(desk.folder.stat().st_mode) == 0o700
    shown = json.dumps(desk.header) + repr(desk.status())
    assert '"threshold"' in shown, "the public threshold is a fact of the plan"
    secret = json.loads((desk.folder / "private.bin").read_bytes().split(b"\n")[0])["threshold"]
    assert secret not in shown


def test_an_older_copy_is_refused(curator: dp.Curator, tmp_path: Path) -> None:
    desk = curator.answer_online(METHODS[1], epsilon=1)
    desk.ask("age < 20")
    shutil.copytree(desk.folder, tmp_path / "old")
    desk.ask("age < 40")
    with pytest.raises(dp.LedgerUnavailable, match="older copy"):
        dp.OnlineSession(tmp_path / "old")
    shutil.rmtree(desk.folder)
    shutil.copytree(tmp_path / "old", desk.folder)
    with pytest.raises(dp.LedgerUnavailable, match="older copy"):
        desk.ask("age < 50")


def test_a_copy_on_another_machine_is_refused(
    curator: dp.Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = curator.answer_online(METHODS[1], epsilon=1)
    monkeypatch.setenv("DPUBLISH_STATE", str(tmp_path / "elsewhere"))
    with pytest.raises(dp.LedgerUnavailable, match="no mark"):
        dp.OnlineSession(desk.folder)


@pytest.mark.parametrize("file", ["transcript.jsonl", "private.bin", "session.json"])
def test_altered_files_are_refused(curator: dp.Curator, file: str) -> None:
    desk = curator.answer_online(METHODS[1], epsilon=1, key="desk")
    desk.ask("age < 20")
    path = desk.folder / file
    content = bytearray(path.read_bytes())
    place = content.index(b"age") if file == "transcript.jsonl" else content.index(b'"', 20) - 1
    content[place] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises((dp.LedgerUnavailable, dp.InputError, dp.BudgetError)):
        curator.answer_online(METHODS[1], epsilon=1, key="desk")


@pytest.mark.parametrize("asked", [False, True], ids=["before an answer", "after an answer"])
def test_every_alteration_of_the_header_is_refused_in_words(
    curator: dp.Curator, asked: bool
) -> None:
    """It was used before it was held against the mark, so a missing or odd field ended in a failure
    from deep inside."""
    desk = curator.answer_online(METHODS[1], epsilon=1, key="desk")
    if asked:
        desk.ask("age < 20")
    header = json.loads((desk.folder / "session.json").read_text())
    altered = [{**header, name: odd} for name in header for odd in (None, -1, "", [], {})]
    altered += [
        {name: value for name, value in header.items() if name != left_out} for left_out in header
    ]
    altered += [{**header, "facts": {**header["facts"], name: "x"}} for name in header["facts"]]
    for changed in altered:
        if changed == header:
            continue
        (desk.folder / "session.json").write_text(json.dumps(changed))
        with pytest.raises((dp.LedgerUnavailable, dp.InputError)):
            dp.OnlineSession(desk.folder)
        with pytest.raises((dp.LedgerUnavailable, dp.InputError, dp.BudgetError)):
            curator.answer_online(METHODS[1], epsilon=1, key="desk")


def test_a_lost_session_is_not_made_again(curator: dp.Curator) -> None:
    desk = curator.answer_online(METHODS[1], epsilon=1, key="desk")
    shutil.rmtree(desk.folder)
    with pytest.raises(dp.BudgetError, match="not made again"):
        curator.answer_online(METHODS[1], epsilon=1, key="desk")
    with pytest.raises(dp.BudgetError):
        curator.answer_online(METHODS[0], epsilon=1, key="desk")


def test_a_folder_of_another_session_is_refused_before_paying(
    curator: dp.Curator, tmp_path: Path
) -> None:
    curator.answer_online(METHODS[1], epsilon=1, key="one", folder=tmp_path / "desk")
    with pytest.raises(dp.InputError, match="another session"):
        curator.answer_online(METHODS[1], epsilon=1, key="two", folder=tmp_path / "desk")
    assert spent(curator) == 1


def test_a_failure_inside_shows_nothing(
    curator: dp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = curator.answer_online(METHODS[1], epsilon=1)

    def fail(*given: Any) -> Any:
        raise ValueError(f"count of {CANARY} is 2981")

    with monkeypatch.context() as patched:
        patched.setattr(type(desk._state), "answer", fail)
        with pytest.raises(dp.PrivateSideError) as caught:
            desk.ask("age < 20")
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None
    assert desk.status().hard == 1, "the failure may have told that the query is hard"
    assert desk.ask("age < 20").number == 2


def test_unknown_method_and_no_session(tmp_path: Path) -> None:
    with pytest.raises(dp.InputError, match="not known"):
        online.online_class("median")
    with pytest.raises(dp.InputError, match="not an online session"):
        dp.OnlineSession(tmp_path)


def test_private_total_is_bought(tmp_path: Path) -> None:
    text = SCHEMA.replace(
        'name = "clinic"', 'name = "clinic"\nneighbours = "add-remove-one"\nnominal_size = 30000'
    )
    made = dp.Curator(
        FRAME, dp.Schema.from_toml(text), ledger=tmp_path / "a.ledger", budget=dp.Budget(epsilon=3)
    )
    desk = made.answer_online(dp.OnlineMultiplicativeWeights(max_hard=5), epsilon=1)
    public = desk.header["public"]
    spread = public["total_high"] - public["total_low"]
    assert public["total_low"] - 2 * spread <= 30_000 <= public["total_high"] + 2 * spread
    answer = desk.ask("age < 30").estimate
    width = answer.high - answer.low  # fresh noise: 95% limits alone would fail one run in twenty
    assert (
        answer.low - 2 * width <= FRAME.filter(pl.col("age") < 30).height <= answer.high + 2 * width
    )


@pytest.mark.parametrize(
    "cost", [dp.Cost.approximate(1, "1e-9"), dp.Cost.zcdp("1/8")], ids=["delta", "rho"]
)
def test_only_pure_sessions_run_beside_others(cost: dp.Cost, tmp_path: Path) -> None:
    """Concurrent composition is proved for pure sessions; another method may state another cost,
    and is refused unpaid."""

    class Approximate(dp.MedianMechanism):
        def plan(self, schema: dp.Schema, cost_: dp.Cost) -> dp.Plan:
            return dataclasses.replace(super().plan(schema, cost_), cost=cost)

    curator = dp.Curator(
        FRAME,
        dp.Schema.from_toml(SCHEMA),
        ledger=tmp_path / "c.ledger",
        budget=dp.Budget(epsilon=3, delta="1e-6"),
    )
    with pytest.raises(dp.PlanError, match="pure epsilon alone"):
        curator.answer_online(Approximate(max_hard=10), epsilon=1)
    assert curator.ledger.status().debits == 0
