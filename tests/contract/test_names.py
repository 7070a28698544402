"""The public names: all of them load, none is missing, and heavy packages stay unloaded until they
are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dpublish as dp

EXPECTED = {
    "curator": {
        "BasicItemsets",
        "Budget",
        "Cost",
        "Curator",
        "Domain",
        "discernibility",
        "draft_schema",
        "FrequentItemsets",
        "GeneralizedTable",
        "HalfspaceQueries",
        "Halfspaces",
        "Discovery",
        "Histogram",
        "ImportanceWeights",
        "Intervals",
        "IntervalTree",
        "JoinedHistograms",
        "LinearQueries",
        "local",
        "Marginals",
        "MixedQueries",
        "Mechanism",
        "MedianMechanism",
        "MultiplicativeWeights",
        "Net",
        "OnlineMultiplicativeWeights",
        "OnlineSession",
        "open_ledger",
        "optimize",
        "Parities",
        "Plan",
        "Predicates",
        "PrivateClassifier",
        "ProjectedHistogram",
        "RandomSubsets",
        "Schema",
        "SetPartition",
        "SigningKey",
        "SqlSource",
        "theory",
        "Workload",
    },
    "analyst": {
        "Estimate",
        "connect",
        "open_release",
        "Release",
        "verify_bundle",
    },
    "auditor": {
        "audit",
    },
    "errors": {
        "BudgetError",
        "BudgetExceeded",
        "BundleError",
        "InputError",
        "LedgerUnavailable",
        "PlanError",
        "PrivateSideError",
        "PublishError",
        "QueryError",
        "SchemaError",
    },
}


def test_the_exported_names_are_these() -> None:
    assert set(dp.__all__) == set().union(*EXPECTED.values()) | {"__version__"}


@pytest.mark.parametrize("name", sorted(set().union(*EXPECTED.values())))
def test_every_name_loads(name: str) -> None:
    assert getattr(dp, name) is not None


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Histogramm'"):
        dp.Histogramm  # noqa: B018


def test_importing_dpublish_loads_nothing_heavy() -> None:
    heavy = "('numpy', 'polars', 'numba', 'scipy', 'sqlalchemy', 'sklearn')"
    code = f"import dpublish, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_exception_tree() -> None:
    for name in EXPECTED["errors"]:
        assert issubclass(getattr(dp, name), dp.PublishError)
    assert issubclass(dp.SchemaError, dp.InputError)
    assert issubclass(dp.BudgetExceeded, dp.BudgetError)
    assert not issubclass(dp.PrivateSideError, dp.InputError)
    codes = {getattr(dp, name).exit_code for name in EXPECTED["errors"]}
    assert codes == {1, 2, 3, 4, 5, 6}
