"""The thesis's own parameters: at least as large as the formulas, refused below the n they need,
and pure by composition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from dpublish import audit
from dpublish.audit.trials.online import Conversation
from dpublish.errors import PlanError
from dpublish.methods.online.median.mechanism import MedianMechanism, thesis_parameters
from dpublish.privacy.cost import Cost
from methods.online.conversations import schema_of


def test_parameters_are_on_the_safe_side_of_the_formulas() -> None:
    found = thesis_parameters(
        epsilon=Fraction(1), accuracy=Fraction(1, 10), queries=1000, cells=64, rows=10**18
    )
    m = 160_000 * math.log(1000) * math.log(10) / 0.01
    assert m <= found.size <= m * 1.00001
    step = 1 / (720 * m * math.log(64))
    assert step * 0.99999 <= found.step_epsilon <= step
    assert found.max_hard <= 20 * found.size * math.log(64)
    required = 30 * math.log(2000) * math.log2(1000) / (step * 0.1)
    assert required <= found.required_rows <= required * 1.0001
    # the whole of k queries costs at most half of epsilon, by plain composition
    assert 2 * 1000 * found.step_epsilon <= Fraction(1, 2)


def test_a_small_table_is_refused_with_the_n_it_needs() -> None:
    mechanism = MedianMechanism(accounting="thesis", accuracy="0.1", max_queries=1000)
    with pytest.raises(PlanError, match=r"need n >= [\d,]{16,} rows \(4.6\); there are 40,000"):
        mechanism.plan(schema_of(64, 40_000), Cost.pure(1))
    with pytest.raises(PlanError, match="needs accuracy"):
        MedianMechanism(accounting="thesis").plan(schema_of(64, 40_000), Cost.pure(1))
    with pytest.raises(PlanError, match="public number of rows"):
        mechanism.plan(schema_of(64, 40_000, neighbours="add-remove-one"), Cost.pure(1))


@pytest.mark.parametrize("share", ["1/2", "1"])
def test_a_synopsis_beside_the_thesis_is_refused(share: str) -> None:
    """Its steps are worked out from all of epsilon: with a synopsis more would be spent."""
    mechanism = MedianMechanism(
        accounting="thesis", accuracy="0.49", max_queries=10, synopsis_share=share
    )
    with pytest.raises(PlanError, match="none for synopsis_share"):
        mechanism.plan(schema_of(2, 10**12), Cost.pure(1))


@pytest.mark.parametrize(
    ("queries", "cells", "accuracy"), [(1, 4, "1/2"), (10, 1, "1/2"), (10, 4, "1")]
)
def test_degenerate_parameters(queries: int, cells: int, accuracy: str) -> None:
    with pytest.raises(PlanError):
        thesis_parameters(
            epsilon=Fraction(1), accuracy=Fraction(accuracy), queries=queries, cells=cells, rows=10
        )


def test_a_table_that_is_large_enough() -> None:
    """10^13 rows exist in no file, but counts of that size do: taps add up to at most epsilon, and
    the session stops at k."""
    rows = 10**13
    mechanism = MedianMechanism(accounting="thesis", accuracy="0.49", max_queries=6, resolution=16)
    plan = mechanism.plan(schema_of(4, rows), Cost.pure(1))
    assert plan.facts["required_rows"] <= rows

    def choose(labels: list[str]) -> Sequence[int] | None:
        return ((1, 0, 0, 0), (1, 1, 0, 0))[len(labels) % 2] if len(labels) < 9 else None

    one = np.array([rows - 10, 10, 0, 0])
    other = one - np.array([1, 0, 0, -1])
    talk = Conversation(mechanism, plan, choose)
    report = audit.replay(talk, [(tuple(one.tolist()), tuple(other.tolist()))], epsilon=1, runs=2)
    assert report.passed, report.summary()
    from dpublish.noise.source import SeededNoise

    seen = talk(SeededNoise(3), tuple(one.tolist()))
    assert len(seen) == 7
    assert seen[-1] == ("halted", None)
    assert seen[0][0] == "hard"  # nearly all rows are in cell 0, which no hypothesis expects
