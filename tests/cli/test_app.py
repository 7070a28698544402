"""Help, start-up, exit codes and the two shapes of an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dpublish as dp
from cli.conftest import CANARY, RELEASE, Command
from dpublish.cli.app import run

HEAVY = {
    "numpy",
    "polars",
    "numba",
    "scipy",
    "sklearn",
    "matplotlib",
    "flint",
    "sqlalchemy",
    "sqlglot",
    "pandas",
    "rich.markdown",
}


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys\nfrom dpublish.cli.app import run\ncode = run(['--help'])\nprint(code, "
        "*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    code, *modules = done.stderr.split()
    assert code == "0"
    assert not HEAVY & set(modules)
    assert len(modules) > 50, "the list of modules is there"


def test_help_names_every_verb(dpublish: Command) -> None:
    shown = dpublish("--help")
    verbs = [
        "demo",
        "plan",
        "release",
        "schema",
        "ledger",
        "show",
        "query",
        "sql",
        "export",
        "report",
        "verify",
        "audit",
    ]
    assert shown.code == 0
    for verb in verbs:
        assert f"\n  {verb} " in shown.out
        assert dpublish(verb, "--help").code == 0


def test_version(dpublish: Command) -> None:
    assert dpublish("--version").out == f"dpublish {dp.__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["relase"],
        ["plan"],
        ["query"],
        ["ledger", "opne"],
        ["plan", "--epsilonn", "1"],
        ["sql", "x"],
    ],
)
def test_usage_errors(dpublish: Command, words: list[str]) -> None:
    shown = dpublish(*words)
    assert shown.code == 2
    assert shown.out == ""
    assert shown.err.startswith("Error: ")
    machine = dpublish(*words, "--json")
    assert machine.error["type"] == "UsageError"
    assert machine.error["exit_code"] == machine.code == 2


def test_a_group_without_verb_shows_its_help(dpublish: Command) -> None:
    shown = dpublish("ledger")
    assert shown.code == 2
    assert "history" in shown.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (dp.InputError("x"), 2),
        (dp.SchemaError("x"), 2),
        (dp.PlanError("x"), 2),
        (dp.QueryError("x"), 2),
        (dp.BudgetError("x"), 3),
        (dp.BudgetExceeded("x"), 3),
        (dp.LedgerUnavailable("x"), 4),
        (dp.BundleError("x"), 5),
        (dp.PrivateSideError("abcd"), 6),
        (dp.PublishError("x"), 1),
        (KeyboardInterrupt(), 130),
        (RuntimeError(CANARY), 70),
        (MemoryError(CANARY), 70),
    ],
)
def test_exit_codes(
    dpublish: Command, monkeypatch: pytest.MonkeyPatch, shop: Path, error: BaseException, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("dpublish.curator.gate.Curator.publish", fail)
    words = (*RELEASE, "--epsilon", "1", "--budget", "2", "--out", "shop.dpr")
    shown = dpublish(*words)
    assert (shown.code, shown.out) == (code, "")
    assert shown.err.startswith("Error: ")
    assert dpublish(*words, "--json").error["exit_code"] == code


class Panic(BaseException):
    """Stands for a crash of a native library, which does not derive from Exception."""


@pytest.mark.parametrize("error", [RuntimeError(CANARY), Panic(CANARY), ValueError(CANARY)])
def test_debug_never_explains_a_command_that_reads_rows(
    dpublish: Command, monkeypatch: pytest.MonkeyPatch, shop: Path, error: BaseException
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("dpublish.curator.gate.Curator.publish", fail)
    monkeypatch.setattr("dpublish.curator.draft.draft", fail)
    monkeypatch.setattr("dpublish.requests.analyst.Predict.run", fail)
    predict = ("predict", "shop.dpr", "shop.csv", "--out", "predicted.csv")
    release = (*RELEASE, "--epsilon", "1", "--budget", "2", "--out", "shop.dpr")
    for words in (release, ("schema", "draft", "shop.csv"), predict):
        shown = dpublish("--debug", *words)
        assert shown.code == 70
        assert "Details are never shown" in shown.err
        assert type(error).__name__ not in shown.err


def test_debug_explains_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("dpublish.releases.base.open_release", fail)
    assert run(["show", "x.dpr"]) == 70
    assert "a bug" not in capsys.readouterr().err
    assert run(["--debug", "show", "x.dpr"]) == 70
    assert "RuntimeError: a bug" in capsys.readouterr().err


def test_the_console_script_returns_the_exit_code(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("dpublish")
    (tmp_path / "torn.dpr").write_text("no release")
    done = subprocess.run(
        [script, "show", "torn.dpr", "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 5
    assert json.loads(done.stderr)["error"]["type"] == "BundleError"


def test_the_package_can_be_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dpublish", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, "dpublish"), done.stderr


@pytest.mark.parametrize("json_too", [True, False])
@pytest.mark.parametrize("unbuffered", ["1", ""])
def test_output_that_cannot_be_written_is_not_a_failed_command(
    released: Path, json_too: bool, unbuffered: str
) -> None:
    words = [
        sys.executable,
        "-m",
        "dpublish",
        "show",
        "shop.dpr",
        *(["--json"] if json_too else []),
    ]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            words,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=released,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 1, done.stderr
    assert "Standard output cannot be written (No space left on device)" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
