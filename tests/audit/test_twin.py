"""Tier D: the harness itself, on the small program of `program/` (its planted leaks are in
`planted/programs.py`)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from dpublish import audit
from dpublish.audit.twin import Hooks
from dpublish.audit.twin_child import FrozenEntropy, frozen_time
from dpublish.errors import InputError

from .planted.programs import FIRST, HOOKS, PROGRAM, run_twin


def test_report_of_a_program_that_survives() -> None:
    report = run_twin(())
    document = json.loads(json.dumps(report.to_json()))
    assert document["passed"] is True
    assert document["files"] == ["release.json", "secret.ledger"]
    assert document["exit_codes"] == [0]
    assert document["taps"] == 1
    assert "survived the twin audit" in report.summary()


def test_a_missing_hook_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PROGRAM))
    hooks = Hooks(entry=HOOKS.entry, noise="twin_program:made_noise", clocks=(), draws=HOOKS.draws)
    with pytest.raises(InputError, match="could not be set up"):
        audit.twin([["release"]], FIRST, FIRST, hooks=hooks)


def test_a_run_without_a_release_is_no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PROGRAM))
    hooks = Hooks(entry="twin_program:now", noise=HOOKS.noise, clocks=(), draws=HOOKS.draws)
    report = audit.twin([["release"]], FIRST, FIRST, hooks=hooks)
    assert "taps" in {finding.check for finding in report.findings}


SCHEMA = b"""
[dataset]
name = "tiny"
neighbours = "add-remove-one"
nominal_size = 3

[columns.colour]
kind = "categorical"
levels = ["red", "blue"]
outside = "drop"
"""


def test_the_command_line_is_caught_when_inputs_are_no_neighbours() -> None:
    """Two rows apart: the gate, the counting and the mechanism in between do not hide it from the
    replayer."""
    release = (
        "release rows.csv --schema tiny.toml --method histogram --epsilon 1 --ledger "
        "tiny.ledger --out tiny.dpr --key k"
    )
    commands = [["ledger", "open", "tiny.ledger", "--epsilon", "2"], release.split()]
    first, second = {"rows.csv": b"colour\nred\n"}, {"rows.csv": b"colour\nred\nred\nblue\n"}
    report = audit.twin(commands, first, second, public={"tiny.toml": SCHEMA})
    assert report.exit_codes == (0, 0)
    assert {finding.check for finding in report.findings} == {"distance"}, report.summary()


def test_refusals() -> None:
    with pytest.raises(InputError, match="same file names"):
        audit.twin([["x"]], {"a": b""}, {"b": b""})
    with pytest.raises(InputError, match="outside the working folder"):
        audit.twin([["x"]], {"../a": b""}, {"../a": b""})


def test_frozen_sources() -> None:
    entropy = FrozenEntropy()
    first, second = entropy(8), entropy(8)
    assert first != second
    entropy.restart()
    assert entropy(8) == first
    assert frozen_time(datetime.now(UTC)) == frozen_time(datetime.now(UTC))
    assert frozen_time(datetime.now()).tzinfo is None
    assert frozen_time("2024-05-06T07:08:09Z") == "2020-01-01T12:00:00Z"
    assert frozen_time("2024-05-06T07:08:09+00:00") == "2020-01-01T12:00:00+00:00"
    assert frozen_time(1.5) == frozen_time(7) == frozen_time(10**18) / 10**9
