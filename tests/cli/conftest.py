"""A small private table with canaries in it, and a way to run commands as a user does."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpublish.cli.app import run

CANARY = "CANARY7f3a91"

SCHEMA = """
[dataset]
name = "shop"
neighbours = "replace-one"
target = "member"

[columns.age]
kind = "integer"
lower = 18
upper = 97
bins = 4
missing = true

[columns.city]
kind = "categorical"
levels = ["Bern", "Graz", "Lyon"]

[columns.member]
kind = "boolean"
outside = "drop"
"""


@dataclass(frozen=True)
class Shown:
    """What a user sees of one command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


Command = Callable[..., Shown]


@pytest.fixture
def dpublish(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run one command in this process. No output may ever carry a canary."""

    def command(*words: str) -> Shown:
        capsys.readouterr()
        code = run([str(word) for word in words])
        seen = capsys.readouterr()
        assert CANARY not in seen.out + seen.err
        assert "Traceback" not in seen.err or "--debug" in words
        return Shown(code, seen.out, seen.err)

    return command


def shop_csv() -> str:
    """400 rows. Canaries sit in declared columns, in an undeclared one, and in broken lines."""
    draw = random.Random(5)
    lines = ["age,city,member,note"]
    for i in range(400):
        age = draw.choice([19, 25, 33, 41, 58, 77, CANARY if i % 50 == 0 else 30])
        city = CANARY if i % 40 == 7 else draw.choice(["Bern", "Bern", "Graz", "Lyon"])
        lines.append(f"{age},{city},{draw.choice(['yes', 'no', 'no'])},{CANARY}-{i}")
    lines.insert(200, f'"{CANARY},{CANARY}')
    lines.insert(300, f"{CANARY},{CANARY},{CANARY},{CANARY},{CANARY}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with shop.csv and shop.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.csv").write_text(shop_csv(), encoding="utf-8")
    (tmp_path / "shop.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


@pytest.fixture
def released(shop: Path, dpublish: Command) -> Path:
    """The working folder after one release of 1 out of 2."""
    shown = dpublish(
        *RELEASE, "--epsilon", "1", "--budget", "2", "--key", "first", "--out", "shop.dpr"
    )
    assert shown.code == 0, shown.err
    return shop


RELEASE = ("release", "shop.csv", "--schema", "shop.toml", "--ledger", "shop.ledger")
