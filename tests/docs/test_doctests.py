"""Examples in docstrings run, and the names that readers meet first have one."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

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
    for test in found:
        said: list[str] = []
        result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
        assert result.failed == 0, "".join(said)
