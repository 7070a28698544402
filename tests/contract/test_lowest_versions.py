"""The lowest versions that may be installed are ones that work.

Found by installing the lowest of everything: with python-flint 0.6 a release was paid for and lost,
because no noise could be drawn, and with typer 0.12 no command started.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
FLOORS = dict(
    re.fullmatch(r"([a-z0-9-]+)>=([0-9.]+)", line).groups() for line in PROJECT["dependencies"]
)  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "lowest"), [("python-flint", (0, 7)), ("typer", (0, 24))])
def test_versions_that_do_not_work_are_not_taken(name: str, lowest: tuple[int, ...]) -> None:
    assert tuple(map(int, FLOORS[name].split("."))) >= lowest


def test_every_dependency_has_a_lowest_version() -> None:
    assert len(FLOORS) == len(PROJECT["dependencies"])
