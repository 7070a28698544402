"""The house stays one that a newcomer can walk through: short files, few of them in a room, and
every room explained."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "dpublish"
MODULES = sorted(SOURCE.rglob("*.py"))
MAX_FILES = 15
"""Modules of one folder, beside its `__init__.py`."""
MAX_LINES = 600


def test_no_folder_holds_more_than_fifteen_modules() -> None:
    rooms = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    crowded = {str(room.relative_to(ROOT)): n for room, n in rooms.items() if n > MAX_FILES}
    assert not crowded, "split by noun, or fold small files into the one that imports them"


def test_no_file_is_longer_than_six_hundred_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in MODULES
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long


def test_every_room_is_on_the_map() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    assert {room for room in rooms if f"{room}/" not in text} == set()


def test_the_glossary_knows_the_name_of_every_folder() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").lower()
    folders = {path.parent.name for path in MODULES if path.parent != SOURCE}
    known = {name for name in folders if name in text or name.replace("_", "-") in text}
    assert folders - known == set()
