"""Every example in README and docs runs."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from docs.blocks import KNOWN, Block, blocks_of, commands_of
from docs.stand_in import ROOT, write_adult
from dpublish.cli.app import run

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def adult(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("adult") / "adult.csv.gz"
    write_adult(path)
    return path


@pytest.fixture
def folder(adult: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a reader has at hand: the table and the examples."""
    shutil.copy(adult, tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__docs__"}
    for block in blocks_of(page):
        where = f"{page.name}, line {block.line}"
        if block.language == "python":
            exec(compile(block.text, where, "exec"), names)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "bash":
            for words, expected in commands_of(block):
                code = run(words)
                shown = capsys.readouterr()
                assert code == expected, f"{where}: {' '.join(words)}\n{shown.out}{shown.err}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in blocks_of(page):
        assert block.language in KNOWN, f"{page.name}, line {block.line}: ```{block.language}"


def test_the_runner_reads_continued_lines_and_exit_codes() -> None:
    block = Block(
        "bash", "$ dpublish plan --set \\\n   a=b  # exit 2\nls\ndpublish show 'a b'\n", 1
    )
    assert list(commands_of(block)) == [(["plan", "--set", "a=b"], 2), (["show", "a b"], 0)]
