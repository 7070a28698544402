"""docs/cli.md and docs/methods.md are what the program says of itself."""

from __future__ import annotations

from types import ModuleType

import cli_reference
import method_reference
import pytest

from dpublish.catalogue import methods
from dpublish.methods.registry import describe


@pytest.mark.parametrize("tool", [cli_reference, method_reference], ids=["cli", "methods"])
def test_the_reference_is_current(tool: ModuleType) -> None:
    assert tool.PAGE.read_text(encoding="utf-8") == tool.reference(), "run: make docs"


def test_the_reference_has_every_command() -> None:
    page = cli_reference.reference()
    for verb in ("demo", "release", "schema draft", "ledger recover", "audit", "methods"):
        assert f"\n## `dpublish {verb}`\n" in page


def test_the_reference_has_every_method() -> None:
    page = method_reference.reference()
    assert [name for name in methods("release") if f"\n## `{name}`" not in page] == []


def test_a_method_must_explain_its_settings_and_its_privacy() -> None:
    lines = "\n".join(
        f"    {heading}: words"
        for heading in ("Input", "Output", "Relies on", "Shows / hides", "Accuracy")
    )
    silent = type("Silent", (), {"__doc__": f"Nothing.\n\n{lines}\n"})
    with pytest.raises(ValueError, match="says nothing under Privacy"):
        describe("silent", silent)

    import dataclasses

    @dataclasses.dataclass
    class Terse:
        """Words.

        Input: a
        Output: b
        Privacy: c
        Relies on: d
        Shows / hides: e
        Accuracy: f
        """

        share: int = 1

    with pytest.raises(ValueError, match="does not explain share"):
        describe("terse", Terse)
