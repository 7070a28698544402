"""The source archive holds what the first page speaks of: the tests, the tools that they need, the
documentation."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = {"Makefile", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
FOLDERS = {"benchmarks", "docs", "examples", "tests", "tools"}


def test_what_is_beside_the_package_is_in_the_archive() -> None:
    lines = [
        line.split() for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    ]
    assert {word for line in lines if line[0] == "include" for word in line[1:]} == FILES
    assert {word for line in lines if line[0] == "graft" for word in line[1:]} == FOLDERS
    assert all((ROOT / name).is_file() for name in FILES)
    assert all((ROOT / name).is_dir() for name in FOLDERS)
