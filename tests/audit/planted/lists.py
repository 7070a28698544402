"""Lists of queries of several classes that are measured apart, with the budget paid out wrongly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.declare.statistic import TableCounts
from dpublish.methods.workload.mechanism import (
    Sublist,
    Workload,
    WorkloadSettings,
    cells_of,
    measured_lists,
    measured_queries,
    measured_tables,
)
from dpublish.privacy.cost import Cost
from dpublish.workloads.query_classes import MixedQueries

from .counting import ADD
from .registry import ONE, bug, replayed, whole

SCHEMA = """
[dataset]
name = "lists"
neighbours = "add-remove-one"
nominal_size = 3
[columns.x]
kind = "integer"
lower = 0
upper = 1
bins = 2
missing = true
"""


@cache
def settings() -> WorkloadSettings:
    """A condition by itself and a table, with half of the budget each."""
    schema, half = Schema.from_toml(SCHEMA), Cost.pure("1/2")
    made = [
        Workload(queries=asked, answer="direct").plan(schema, half).settings
        for asked in ("linear:0,1,0.5", "marginals:1")
    ]
    assert [one.how for one in made] == ["queries", "tables"]
    whole_budget = made[0].budget.holding(2 * made[0].budget.amount)
    lists = tuple(Sublist((place,), Fraction(1, 2), one) for place, one in enumerate(made))
    return replace(
        made[0], how="lists", budget=whole_budget, lists=lists,
        query_class=MixedQueries([one.query_class for one in made]),
    )  # fmt: skip


def counted(rows):
    shape = settings().domain.shape[0]
    return TableCounts({(0,): np.bincount(whole(list(rows)), minlength=shape).astype(np.int64)})


def values(output):
    return tuple(tuple(table["value"].tolist()) for table in output.tables.values())


def apart(noise, rows):
    return values(measured_lists(noise, counted(rows), settings()))


def each_with_the_whole_budget(noise, rows):
    """Both lists as if each were alone, and had everything."""
    numbers, found = counted(rows), []
    for one in settings().lists:
        own = replace(one.settings, budget=settings().budget)
        if own.how == "tables":
            found.append(measured_tables(noise, numbers, own))
        else:
            found.append(measured_queries(noise, cells_of(numbers, (0,)), own))
    return tuple(value for output in found for value in values(output))


LISTS = (
    bug(
        "two lists of one release with the whole budget each",
        "replay",
        "claim",
        broken=each_with_the_whole_budget,
        correct=apart,
        run=replayed(ADD, epsilon=ONE),
    ),
)
