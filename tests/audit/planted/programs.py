"""Whole programs that leak beside the release. The program is
`tests/audit/program/twin_program.py`; --bug names the leak."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from dpublish import audit
from dpublish.audit.report import Report
from dpublish.audit.twin import Hooks

from .registry import Planted, bug

PROGRAM = Path(__file__).parents[1] / "program"
HOOKS = Hooks(
    entry="twin_program:main",
    noise="twin_program:make_noise",
    clocks=("twin_program:now",),
    draws="twin_program:SteadyNoise",
)
FIRST, SECOND = {"rows.csv": b"0\n1\n1\n"}, {"rows.csv": b"0\n1\n1\n1\n"}


@cache
def run_twin(arguments: tuple[str, ...]) -> Report:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(PROGRAM)
    try:
        return audit.twin([["release", *arguments]], FIRST, SECOND, hooks=HOOKS)
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def leaks(name: str, flag: str, checks: str) -> Planted:
    return bug(name, "twin", checks, broken=("--bug", flag), correct=(), run=run_twin)


PROGRAMS = (
    leaks("row count on standard output", "printed", "stdout"),
    leaks("row count in a file name", "file-name", "file names"),
    leaks("true count in the bundle", "file-bytes", "file bytes"),
    leaks("exit code that depends on rows", "exit-code", "exit_code"),
    leaks("row count in the program's log", "log", "log"),
    leaks("error text on standard error", "stderr", "stderr"),
    leaks("noise drawn a row at a time", "draws", "number"),
)
