"""What a release says of the noise in its counts is what the mechanism added."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish.declare.domain import Axis
from dpublish.declare.relation import Relation
from dpublish.methods.importance_weights.mechanism import amounts_facts
from dpublish.methods.importance_weights.moments import Amounts
from dpublish.models.linear_features import WeightFeatures
from dpublish.privacy.budget_split import BudgetSplit, Law
from dpublish.releases.weighted_rows.checks import read_counts

AXES = tuple(Axis(name, "categorical", levels=("x", "y", "z")) for name in "abc")


def read(purse: Any) -> Any:
    features = WeightFeatures(AXES, ((0, 1), (1, 2)))
    manifest = {
        "facts": {"variant": "moments", "public_total": 90},
        "plan": {"facts": {"purse": purse}},
    }
    return read_counts(manifest, features, np.arange(features.dimension))


@pytest.mark.parametrize(("law", "extra"), [("laplace", 0), ("gaussian", 0), ("gaussian", 2)])
@pytest.mark.parametrize("replaced", [True, False])
def test_variances(law: Law, extra: int, replaced: bool) -> None:
    tables = (Fraction(1, 7), Fraction(2, 7), Fraction(1, 3), Fraction(1, 5))
    relation = Relation("replace-one" if replaced else "add-remove-one", 3)
    amounts = Amounts(
        budget=BudgetSplit(law, Fraction(1), relation, Fraction(extra)),
        tables=tables,
        set_choice=Fraction(0),
        pair_choice=Fraction(1, 60),
        pair_table=Fraction(3, 40),
    )
    found = read(amounts_facts(amounts))
    assert found.noise == law
    assert found.total == 90
    wanted = [amounts.variance(amount) for amount in (*tables, amounts.pair_table)]
    assert [one.variance for one in (*found.columns, *found.tables)] == pytest.approx(
        wanted, rel=1e-5
    )
    assert found.tables[1].columns == (1, 2)
    assert found.tables[1].counts[1, 0, 0] == 9 + 9 + 3


@pytest.mark.parametrize(
    "change",
    [
        {"law": "cauchy"},
        {"tables": 3},
        {"pair_table": "0"},
        {"unit_rows": 0},
        {"tables": ["nan"]},
        {"unit_rows": "many"},
    ],
)
def test_strange_notes_are_not_believed(change: dict[str, Any]) -> None:
    purse = {
        "law": "laplace",
        "tables": ["1/7"] * 3,
        "pair_table": "1/9",
        "unit_rows": 1,
        "replaced": True,
    }
    assert read(purse) is not None
    assert read({**purse, **change}) is None
