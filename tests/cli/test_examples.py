"""Every verb's help shows one example, and the examples run, in the order they are told in."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cli.conftest import Command
from dpublish.cli.app import EXAMPLES, app
from dpublish.cli.hospital import SCHEMA, make_visits

SURVEY = """
[survey]
name = "habits"
epsilon = 2
[questions.smokes]
method = "binary"
epsilon = 1
"""


START = """
[dataset]
name = "hospital-start"
neighbours = "add-remove-one"
unit = "patient"
max_rows_per_unit = 1
[columns.ward]
kind = "categorical"
discover = true
[columns.age]
kind = "integer"
discover = true
"""

MODEL = (
    "release", "hospital.csv", "--schema", "hospital.toml", "--method", "private-classifier",
    "--set", "features=age,stay_days", "--epsilon", "1", "--ledger", "hospital.ledger",
    "--out", "model.dpr",
)  # fmt: skip


def verbs() -> dict[str, Any]:
    found: dict[str, Any] = {}
    tree: Any = get_command(app)
    for name, command in tree.commands.items():
        inner = getattr(command, "commands", None)
        found |= (
            {f"{name} {verb}": one for verb, one in inner.items()} if inner else {name: command}
        )
    return found


def test_every_verb_has_an_example_of_its_own() -> None:
    known = verbs()
    assert set(known) == set(EXAMPLES)
    for verb, command in known.items():
        assert EXAMPLES[verb].startswith(f"dpublish {verb} ")
        assert command.epilog == f"Example: {EXAMPLES[verb]}"


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dpublish: Command
) -> None:
    """All but the demo and the service, which have tests of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPUBLISH_STATE", str(tmp_path / "state"))
    visits = make_visits(1_500, 1)
    visits.write_csv("hospital.csv")
    visits.head(50).write_csv("visits.csv")
    Path("hospital.toml").write_text(SCHEMA, encoding="utf-8")
    Path("start.toml").write_text(START, encoding="utf-8")
    Path("survey.toml").write_text(SURVEY, encoding="utf-8")
    Path("answers.csv").write_text("smokes\nyes\nno\nyes\n", encoding="utf-8")
    Path("edges.csv").write_text("a,b\n0,1\n1,2\n3,4\n", encoding="utf-8")
    Path("codebook.json").write_text(json.dumps({"AGE": {"values": {"min": 0, "max": 99}}}))
    for verb, example in EXAMPLES.items():
        if verb in ("demo", "serve"):
            continue
        if verb == "predict":
            assert dpublish(*MODEL).code == 0
        words = shlex.split(example)[1:]
        shown = dpublish(*words)
        assert shown.code == 0, f"{example}\n{shown.out}{shown.err}"
