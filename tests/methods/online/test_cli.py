"""`dpublish online`: open, ask, status, close, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpublish.cli.app import run

SCHEMA = (
    '[dataset]\nname = "t"\n[columns.a]\nkind = "integer"\nlower = 0\nupper = 14\nbins = '
    "15\nmissing = true\n"
)
OPEN = (
    "online",
    "open",
    "t.csv",
    "desk",
    "--schema",
    "t.toml",
    "--ledger",
    "t.ledger",
    "--epsilon",
    "1",
    "--budget",
    "2",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.toml").write_text(SCHEMA)
    (tmp_path / "t.csv").write_text(
        "a\n" + "\n".join(str(i * i % 15) for i in range(20_000)) + "\n"
    )
    return tmp_path


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    code = run([*words, "--json"])
    seen = capsys.readouterr()
    assert code == 0, seen.err
    return json.loads(seen.out)


def failure(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = run([*words, "--json"])
    return code, json.loads(capsys.readouterr().err)["error"]["message"]


@pytest.mark.parametrize("method", ["median-mechanism", "online-multiplicative-weights"])
def test_from_open_to_close(folder: Path, capsys: pytest.CaptureFixture[str], method: str) -> None:
    opened = document(
        capsys, *OPEN, "--method", method, "--set", "max-hard=6", "--set", "level=0.9", "--key", "k"
    )
    assert opened["state"] == "open"
    assert opened["hard_left"] == 6
    assert opened["promise"][0].startswith("An easy answer")
    assert "hard answers" in opened["promise"][1]
    assert not any("easy answer" in sentence for sentence in opened["compared_with"])
    answer = document(capsys, "online", "ask", "desk", "a < 5", "--key", "q")
    assert answer["estimate"]["level"] == 0.9
    low, high = answer["estimate"]["low"], answer["estimate"]["high"]
    width = high - low  # fresh noise: 90% limits alone would fail one run in ten
    assert low - 2 * width <= sum(i * i % 15 < 5 for i in range(20_000)) <= high + 2 * width
    assert document(capsys, "online", "ask", "desk", "a < 5", "--key", "q") == answer
    (folder / "w.json").write_text(json.dumps([0.5] * 16))
    assert (
        document(capsys, "online", "ask", "desk", "--weights", "w.json")["query"]
        == "(linear query)"
    )
    assert document(capsys, "online", "status", "desk")["asked"] == 2
    assert (
        document(
            capsys,
            *OPEN,
            "--method",
            method,
            "--set",
            "max-hard=6",
            "--set",
            "level=0.9",
            "--key",
            "k",
        )["asked"]
        == 2
    )
    assert run(["online", "status", "desk"]) == 0
    shown = capsys.readouterr().out
    assert [
        line.split()[1] for line in shown.splitlines() if line.strip().startswith("promise")
    ] == ["An", "At"]
    assert "compare" in shown
    assert "with the help of this session, is right in at most 74 of 100 cases" in " ".join(
        shown.split()
    )
    assert run(["online", "ask", "desk", "a >= 8"]) == 0
    assert "hard answers left" in capsys.readouterr().out
    assert document(capsys, "online", "close", "desk")["state"] == "closed"
    assert failure(capsys, "online", "ask", "desk", "a < 6")[0] == 3


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--method", "median"), "There is no online method"),
        (("--set", "max-hrd=3"), "Did you mean 'max_hard'"),
        (("--set", "max-hard=0"), "max_hard must lie between"),
        (("--set", "level=high"), "must be a number"),
        (("--set", "columns=b"), "no column 'b'"),
    ],
)
def test_wrong_requests(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    code, message = failure(capsys, *OPEN, *words)
    assert code == 2
    assert text in message
    assert not (folder / "desk").exists()


def test_wrong_questions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document(capsys, *OPEN, "--method", "online-multiplicative-weights", "--set", "max-hard=6")
    (folder / "w.json").write_text('{"a": 1}')
    for words, text in (
        (("a <",), "does not parse"),
        ((), "Give a QUERY"),
        (("--weights", "w.json"), "JSON list"),
        (("--weights", "none.json"), "cannot be read"),
    ):
        code, message = failure(capsys, "online", "ask", "desk", *words)
        assert code == 2
        assert text in message
    assert failure(capsys, "online", "ask", "nowhere", "a < 5")[0] == 2
    assert document(capsys, "online", "status", "desk")["asked"] == 0
