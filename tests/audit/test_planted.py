"""Every planted bug is caught by the tier that must catch it, for the stated reason; its correct
twin survives."""

from __future__ import annotations

from pathlib import Path

import pytest

from .planted import PLANTED, Planted

NAMES = Path(__file__).parent / "planted" / "names.txt"
"""Every planted bug by its name, one in a line, so that none is lost; two branches that add some
merge without a conflict."""


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_bug_is_caught(planted: Planted) -> None:
    report = planted.run(planted.broken)
    assert not report.passed, f"survived: {planted.name}"
    assert report.tier == planted.tier
    assert planted.checks & {finding.check for finding in report.findings}, report.summary()


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_correct_version_survives(planted: Planted) -> None:
    report = planted.run(planted.correct)
    assert report.passed, report.summary()


def test_registry_is_complete() -> None:
    names = [planted.name for planted in PLANTED]
    assert len(names) == len(set(names))
    assert set(names) == set(NAMES.read_text(encoding="utf-8").splitlines())
    assert {planted.tier for planted in PLANTED} == {"exact", "replay", "sampled", "twin"}
