"""Small sessions without files: a mechanism, public facts, and a function (noise, counts) -> transcript for the audits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpublish.audit import neighbours
from dpublish.cost import Cost
from dpublish.errors import BudgetExceeded
from dpublish.mechanisms.online.base import OnlineMechanism, Query
from dpublish.noise.base import Noise
from dpublish.plan import Plan
from dpublish.schema import Schema

Counts = tuple[int, ...]
Transcript = tuple[tuple[str, int | None], ...]

CELLS = 3
PAIRS: list[tuple[Counts, Counts]] = [
    (tuple(np.bincount(one, minlength=CELLS).tolist()), tuple(np.bincount(two, minlength=CELLS).tolist()))
    for one, two in neighbours.replace_one(range(CELLS), rows=2)
]
"""Counts of all neighbouring data sets of two rows."""


def adaptive(labels: list[str]) -> Sequence[int] | None:
    """Two queries over `CELLS` cells; the second depends on the label of the first."""
    if not labels:
        return (1, 0, 0)
    if len(labels) == 1:
        return (1, 1, 0) if labels[0] == "easy" else (0, 1, 0)
    return None


def schema_of(cells: int, rows: int, *, neighbours: str = "replace-one", extra: str = "") -> Schema:
    size = "size" if neighbours == "replace-one" else "nominal_size"
    return Schema.from_toml(
        f'[dataset]\nname = "t"\nneighbours = "{neighbours}"\n{size} = {rows}\n{extra}'
        f'[columns.v]\nkind = "integer"\nlower = 0\nupper = {cells - 2}\nbins = {cells - 1}\noutside = "clip"\nmissing = true\n'
    )


def tiny_plan(facts: dict[str, Any], *, cells: int, epsilon: int = 1) -> Plan:
    """A plan with facts made by hand: a real plan refuses so few rows, since nothing useful can be promised for them."""
    common = {
        "accounting": "sparse-vector",
        "rows": 2,
        "max_rows_per_unit": 1,
        "resolution": 1,
        "level": 0.95,
        "max_queries": 10,
        "stops_after_max_queries": False,
        "count_epsilon": "0",
    }
    schema = schema_of(max(cells, 3), 2)
    return Plan(method="t", kind="online", schema=schema, cost=Cost.pure(epsilon), facts={**common, **facts})


def conversation(
    mechanism: OnlineMechanism, plan: Plan, cells: int, choose: Callable[[list[str]], Sequence[int] | None]
) -> Callable[[Noise, Counts], Transcript]:
    """Asks what `choose` says, given the labels so far, until it says None or the session ends; all that an analyst sees."""

    def talk(noise: Noise, counts: Counts) -> Transcript:
        exact = np.array(counts, dtype=np.int64)
        opening = mechanism.begin(noise, exact, plan)
        desk = mechanism.desk(plan.facts, opening.public, cells)
        seen: list[tuple[str, int | None]] = []
        while (flags := choose([label for label, _ in seen])) is not None:
            query = Query(np.array(flags, dtype=np.int64) * desk.resolution, "q")
            try:
                reply = desk.answer(noise, exact, opening.threshold, query)
            except BudgetExceeded:
                seen.append(("halted", None))
                break
            desk.learn(query, reply)
            seen.append((reply.label, reply.noisy if reply.label == "hard" else round(reply.value * 1000)))
        return tuple(seen)

    return talk
