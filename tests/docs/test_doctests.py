"""Examples in docstrings run, and the names that readers meet first have one."""

from __future__ import annotations

import doctest
import inspect
from importlib import import_module

import pytest

import dpublish

EXAMPLES = {
    "dpublish.declare.relation": {"Relation"},
    "dpublish.declare.schema": {"Schema.from_toml"},
    "dpublish.estimate": {"Estimate"},
    "dpublish.methods.projected_histogram.choose_k": {"discernibility"},
    "dpublish.privacy.budget_split": {"BudgetSplit"},
    "dpublish.privacy.cost": {"Budget", "Cost"},
    "dpublish.workloads.theory": {
        "private_greedy_bound",
        "set_cover_lower_bound",
        "union_sample_size",
    },
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_docstring_examples_run(name: str) -> None:
    module = import_module(name)
    found = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert {test.name.removeprefix(f"{name}.") for test in found} >= EXAMPLES[name]
    _run(found)


EXPORTED = sorted(
    name
    for name in dpublish.__all__
    if inspect.isclass(getattr(dpublish, name)) or inspect.isfunction(getattr(dpublish, name))
)


@pytest.mark.parametrize("name", EXPORTED)
def test_every_exported_name_has_an_example_that_runs(name: str) -> None:
    exported = getattr(dpublish, name)
    own = vars(import_module(exported.__module__))
    found = doctest.DocTestFinder().find(exported, name, globs=own)
    examples = [test for test in found if test.examples]
    assert examples, f"{name} has no example"
    _run(examples)


def _run(tests: list[doctest.DocTest]) -> None:
    for test in tests:
        said: list[str] = []
        result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
        assert result.failed == 0, "".join(said)
