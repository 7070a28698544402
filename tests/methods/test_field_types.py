"""Settings of the wrong type or beyond all measure are refused by name; numbers of numpy are
numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import pytest

import dpublish as dp
from dpublish.errors import PlanError
from dpublish.methods.field_types import Checked, Interval

SCHEMA = dp.Schema.from_toml(
    '[dataset]\nname = "s"\nneighbours = "replace-one"\nsize = 100\n[columns.a]\nkind = '
    '"integer"\nlower = 0\nupper = 9\n'
)
BASKETS = dp.Schema.from_toml('[dataset]\nname = "b"\n[items]\nuniverse = ["x", "y", "z"]\n')


@pytest.mark.parametrize(
    ("method", "settings", "text"),
    [
        (dp.Histogram, {"threshold_factor": "1e400"}, "threshold_factor is so large"),
        (dp.IntervalTree, {"structure_share": 5e-324}, "structure_share is so small"),
        (dp.SetPartition, {"false_partitions": "1e400"}, "false_partitions is so large"),
        (dp.JoinedHistograms, {"cell_deviations": 1e300}, "cell_deviations is so large"),
        (dp.Histogram, {"threshold_factor": [1]}, "threshold_factor must be a number"),
    ],
)
def test_amounts_beyond_all_measure_are_refused_by_name(
    method: Any, settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(PlanError, match=text):
        method(**settings)


@pytest.mark.parametrize("method", [dp.MedianMechanism, dp.OnlineMultiplicativeWeights])
def test_decimals_are_numbers_where_no_exact_amount_is_asked_for(method: Any) -> None:
    plan = method(level=Decimal("0.5")).plan(SCHEMA, dp.Cost.pure(10_000))
    assert json.loads(json.dumps(plan.to_json())) == plan.to_json()
    with pytest.raises(PlanError, match="level"):
        method(level=Decimal("NaN")).plan(SCHEMA, dp.Cost.pure(1))


@pytest.mark.parametrize(
    ("mechanism", "schema"),
    [
        (dp.SetPartition(max_partitions=np.int64(3)), BASKETS),
        (dp.MultiplicativeWeights(rounds=np.int32(3), queries="marginals:1"), SCHEMA),
        (dp.GeneralizedTable(columns=["a"], bins=np.int64(3)), SCHEMA),
        (dp.Histogram(threshold_factor=np.float64(0.5)), SCHEMA),
        (dp.Histogram(threshold_factor=np.float32(0.5)), SCHEMA),
    ],
)
def test_numbers_of_numpy_are_numbers(mechanism: Any, schema: dp.Schema) -> None:
    plan = mechanism.plan(schema, dp.Cost.pure(1))
    assert json.loads(json.dumps(plan.to_json())) == plan.to_json()


@dataclass(frozen=True, kw_only=True)
class Constrained(Checked):
    """Settings with declared limits."""

    bins: Annotated[int | None, Interval(1)] = None
    share: Annotated[Fraction | float | int | str, Interval(0, below=1)] = 0
    cuts: Annotated[Sequence[int], Interval(2, 9)] = ()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"bins": 0}, "bins must be at least 1, not 0."),
        ({"share": "3/2"}, "share must be at least 0 and below 1, not 3/2."),
        ({"share": 1}, "share must be at least 0 and below 1, not 1."),
        ({"cuts": (3, 10)}, "cuts must lie between 2 and 9, not 10."),
    ],
)
def test_a_setting_outside_its_declared_limits_is_refused_by_name(
    settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(PlanError, match=re.escape(text)):
        Constrained(**settings)
    Constrained(bins=1, share="1/2", cuts=(2, 9))
