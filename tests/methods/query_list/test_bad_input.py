"""Bad input to query releases and online sessions, as a curator types it: a clear text, exit code
2, and nothing spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dpublish as dp
from dpublish.cli.app import run
from dpublish.errors import InputError, QueryError

SCHEMA = """
[dataset]
name = "t"
[columns.a]
kind = "integer"
lower = 0
upper = 99
[columns.open]
kind = "real"
lower = 0
[columns.c]
kind = "real"
lower = 0
upper = 1
"""
ROWS = "a,open,c\n" + "".join(f"{i % 100},{i % 7},{i % 11 / 11}\n" for i in range(3000))
PAID = ("--schema", "t.toml", "--ledger", "l.db", "--epsilon", "1", "--budget", "5", "--json")
DESK = dp.MedianMechanism(columns=["a"], bins=20, max_hard=5, accuracy=0.2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("t.toml").write_text(SCHEMA)
    Path("t.csv").write_text(ROWS)
    return tmp_path


@pytest.fixture
def curator(folder: Path) -> dp.Curator:
    return dp.Curator(
        "t.csv", dp.Schema.from_toml(SCHEMA), ledger="l.db", budget=dp.Budget(epsilon=5)
    )


def spent() -> int:
    return (
        dp.Curator("t.csv", dp.Schema.from_toml(SCHEMA), ledger="l.db", budget=dp.Budget(epsilon=5))
        .ledger.status()
        .debits
    )


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    code = run(list(words))
    seen = capsys.readouterr()
    assert code == 2, seen.out + seen.err
    return str(json.loads(seen.err)["error"]["message"])


@pytest.mark.parametrize(
    ("method", "settings", "words"),
    [
        ("interval-tree", ["columns=open"], "'open' has no upper bound"),
        ("halfspaces", ["columns=a,open"], "'open' has no upper bound"),
        ("halfspaces", ["columns=a,c", "cells=1000000000"], "1,000,000,000 counts; at most"),
        (
            "halfspaces",
            ["columns=a,c", "k=2", "projections=1000000000000"],
            "Use fewer projections or cells",
        ),
        ("halfspaces", ["columns=a,c", "k=1000000"], "k must be 2 or 3"),
        (
            "interval-tree",
            ["columns=a", "max-cells=100000000000"],
            "max_cells must",
        ),
        ("net", ["columns=a", "queries=intervals", "points=50"], "multiplicative-weights"),
        (
            "mwem",
            ["columns=a", "queries=intervals", "rounds=1000000000"],
            "rounds must lie between",
        ),
        ("mwem", ["columns=a", "queries=predicates:a << 3"], "not part of the predicate language"),
    ],
)
def test_releases(
    folder: Path, capsys: pytest.CaptureFixture[str], method: str, settings: list[str], words: str
) -> None:
    given = [word for setting in settings for word in ("--set", setting)]
    assert words in refused(
        capsys, "release", "t.csv", "--method", method, *given, "--out", "x.dpr", *PAID
    )
    assert not Path("x.dpr").exists()
    assert spent() == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["columns=a", "max-hard=0"], "max_hard must lie between 1"),
        (["columns=a", "max-hard=100000000000"], "max_hard must"),
        (["columns=open"], "'open' has no upper bound"),
        (["columns=a,c", "bins=100000"], "at most 16,384"),
        (["columns=a", "hypotheses=listed", "database-size=1000000000"], "too many databases"),
        (["columns=a", "resolution=100000000000000000000"], "resolution must"),
    ],
)
def test_sessions(
    folder: Path, capsys: pytest.CaptureFixture[str], settings: list[str], words: str
) -> None:
    given = [word for setting in settings for word in ("--set", setting)]
    opened = ("online", "open", "t.csv", "desk", "--method", "median-mechanism", *given, *PAID)
    assert words in refused(capsys, *opened)
    assert not Path("desk").exists()
    assert spent() == 0


OUTSIDE = ["a between 500 and 600", "a < 0", "a > 99", "a < 10 and a > 50"]


def test_questions_outside_the_declared_domain(
    curator: dp.Curator, capsys: pytest.CaptureFixture[str]
) -> None:
    """A session counts no such question, and an interval tree does not pass 0 off as an
    estimate."""
    release = curator.publish(dp.IntervalTree(columns=["a"]), epsilon=1)
    release.save("a.dpr")
    desk = curator.answer_online(DESK, epsilon=1, folder="desk")
    for question in OUTSIDE:
        for ask in (release.estimate, desk.ask):
            with pytest.raises(QueryError, match="holds for no value"):
                ask(question)
        assert "holds for no value" in refused(capsys, "query", "a.dpr", question, "--json")
        assert "holds for no value" in refused(capsys, "online", "ask", "desk", question, "--json")
    assert desk.status().asked == 0
    assert release.estimate("a < 10 or a > 500").value > 0
    assert spent() == 2


def test_questions_that_do_not_parse(curator: dp.Curator) -> None:
    desk = curator.answer_online(DESK, epsilon=1)
    for question in ("a >>> 3", "a between 3", "", "a = 'x'", "drop table a", "a < 10 or"):
        with pytest.raises(InputError):
            desk.ask(question)
    assert desk.status().asked == 0
    assert spent() == 1


@pytest.mark.parametrize("method", [dp.IntervalTree(), dp.Halfspaces(by="sectors")])
@pytest.mark.parametrize(
    "column",
    ["lower = -1e300\nupper = 1e300", "lower = 0\nupper = 1e-250", "lower = 1e-250\nupper = 1"],
)
def test_bounds_that_a_release_cannot_hold_are_refused_before_payment(
    tmp_path: Path, method: Any, column: str
) -> None:
    schema = dp.Schema.from_toml(
        f'[dataset]\nname = "t"\nsize = 1\n[columns.x]\nkind = "real"\nbins = 4\n{column}\n'
    )
    curator = dp.Curator(
        pl.DataFrame({"x": [0.5]}), schema, ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=1)
    )
    with pytest.raises(dp.PlanError, match="bounds of a usual size"):
        curator.publish(method, epsilon=1)
    assert curator.ledger.status().spent.epsilon == 0
