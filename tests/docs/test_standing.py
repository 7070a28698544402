"""Where we stand: every method of the catalogue has a baseline, and the page has a row for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import dpublish as dp
from dpublish.catalogue import methods
from dpublish.privacy.cost import Cost

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


def test_a_row_says_how_it_stands_and_how_many_runs_it_had(baselines: Any) -> None:
    standing, _ = baselines
    found = standing.figures({"default": [1.0, 1.2], "other": [2.0], "named one": [1.5, 1.5]})
    row = {"task": "t", "methods": ["m"], **found}
    assert _cells(standing.line_of(row)) == [
        "t", "1.1 +- 0.1", "named one 1.5", "ahead", "other 2", "2 (other 1)",
    ]  # fmt: skip
    assert _cells(standing.line_of({**row, "default": 1.69}))[3] == "even"
    assert _cells(standing.line_of({**row, "default": 3.0}))[3] == "**behind**"
    said = {**row, "default": 3.0, "named": ["named one"]}
    assert _cells(standing.line_of(said))[3] == "behind, as the plan says (named one)"
    # what the plan names must be nearer than the default
    assert _cells(standing.line_of({**said, "named one": 3.1}))[3] == "**behind**"


def test_what_a_plan_names_is_read_from_the_plan(baselines: Any) -> None:
    standing, _ = baselines
    words = {"workload": "take workload"}
    schema = dp.Schema.from_toml(
        '[dataset]\nname = "s"\nneighbours = "replace-one"\nsize = 10000\n'
        + "".join(f'[columns.{name}]\nkind = "categorical"\nlevels = ["x", "y"]\n' for name in "ab")
    )
    plan = dp.MultiplicativeWeights().plan(schema, Cost.pure(1))
    assert standing.named(plan, words) == ["workload"]
    assert standing.named(dp.Workload().plan(schema, Cost.pure(1)), words) == []


def test_every_line_of_the_page_follows_from_its_figures(baselines: Any) -> None:
    standing, _ = baselines
    page = (ROOT / "docs" / "standing.md").read_text(encoding="utf-8")
    assert page.startswith(standing.HEAD)
    lines = page.removeprefix(standing.HEAD).split("\n\n")[0].splitlines()
    assert len(lines) >= len(methods())
    for line in lines:
        _, own, best, said, rest, runs = _cells(line)
        value, _, error = own.partition(" +- ")
        others = dict(_figure(one) for one in [best, *filter(None, rest.split("; "))])
        assert others[standing.best_of(others)] == _figure(best)[1]
        listed = said.partition("(")[2].rstrip(")")
        wanted = standing.standing(
            _number(value), _number(error or "0"), others, listed.split(", ") if listed else []
        )
        assert said == wanted, line
        assert int(runs.split(" ")[0]) > 0


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" |")]


def _figure(text: str) -> tuple[str, float]:
    name, _, value = text.rpartition(" ")
    return name, _number(value)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def test_the_page_has_a_row_for_every_method() -> None:
    page = (ROOT / "docs" / "standing.md").read_text(encoding="utf-8")
    last = page.splitlines()[-1]
    assert last.startswith("Methods: ")
    assert set(last.removeprefix("Methods: ").rstrip(".").split(", ")) == set(methods())
