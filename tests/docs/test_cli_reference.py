"""docs/cli.md is what the program says of itself."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from docs.stand_in import ROOT


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cli_reference", ROOT / "tools" / "cli_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_current() -> None:
    tool = load()
    assert tool.PAGE.read_text(encoding="utf-8") == tool.reference(), "run: make docs"


def test_the_reference_has_every_command() -> None:
    page = load().reference()
    for verb in ("demo", "release", "schema draft", "ledger recover", "audit"):
        assert f"\n## `dpublish {verb}`\n" in page
