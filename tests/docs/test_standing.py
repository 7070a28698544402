"""Where we stand: every method of the catalogue has a baseline, and the page has a row for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dpublish.catalogue import methods

ROOT = Path(__file__).parents[2]


@pytest.fixture
def baselines(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    from benchmarks.baselines import baskets, decisions, local, queries, standing, tables

    return standing, (baskets, decisions, local, queries, tables)


def test_every_method_of_the_catalogue_has_a_baseline(baselines: Any) -> None:
    _, modules = baselines
    covered = [name for module in modules for name in module.COVERS]
    assert sorted(covered) == sorted(methods())


def test_the_page_is_refused_if_a_method_has_no_figures(baselines: Any) -> None:
    standing, _ = baselines
    rows = [{"task": name, "methods": [name], "default": 1.0, "other": 2.0} for name in methods()]
    assert standing.missing(rows) == []
    assert standing.missing(rows[1:]) == rows[0]["methods"]
    assert standing.line_of(rows[0]).split("|")[4].strip() == "ahead"
    assert "behind" in standing.line_of({**rows[0], "default": 3.0})
    assert standing.line_of({**rows[0], "default": 2.05}).split("|")[4].strip() == "even"


def test_the_page_has_a_row_for_every_method() -> None:
    page = (ROOT / "docs" / "standing.md").read_text(encoding="utf-8")
    last = page.splitlines()[-1]
    assert last.startswith("Methods: ")
    assert set(last.removeprefix("Methods: ").rstrip(".").split(", ")) == set(methods())
