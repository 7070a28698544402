"""Small data and plans for sessions without files, which `Conversation` of the audit trials
holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpublish.audit import neighbours
from dpublish.audit.trials.online import TINY
from dpublish.declare.schema import Schema
from dpublish.methods.online.base import OnlineMechanism
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

Counts = tuple[int, ...]

CELLS = 3
PAIRS: list[tuple[Counts, Counts]] = [
    (
        tuple(np.bincount(one, minlength=CELLS).tolist()),
        tuple(np.bincount(two, minlength=CELLS).tolist()),
    )
    for one, two in neighbours.replace_one(range(CELLS), rows=2)
]
"""Counts of all neighbouring data sets of two rows."""


def schema_of(cells: int, rows: int, *, neighbours: str = "replace-one", extra: str = "") -> Schema:
    size = "size" if neighbours == "replace-one" else "nominal_size"
    return Schema.from_toml(
        f'[dataset]\nname = "t"\nneighbours = "{neighbours}"\n{size} = {rows}\n{extra}'
        f'[columns.v]\nkind = "integer"\nlower = 0\nupper = {cells - 2}\nbins = '
        f'{cells - 1}\noutside = "clip"\nmissing = true\n'
    )


def tiny_plan(
    mechanism: OnlineMechanism, more: Mapping[str, Any], *, cells: int = CELLS, epsilon: int = 1
) -> Plan:
    """A plan with settings made by hand: a real plan refuses so few rows, since nothing useful can
    be promised for them."""
    schema = schema_of(max(cells, 3), 2)
    settings = mechanism.settings_type(
        domain=schema.domain(("v",), rows=2), **{**TINY, "domain_size": cells, **more}
    )
    return Plan(
        method="t", kind="online", schema=schema, cost=Cost.pure(epsilon), settings=settings
    )


def growing(labels: list[str]) -> Sequence[int] | None:
    """An analyst on 16 cells whose next query depends on how the earlier ones were answered; twelve
    queries."""
    flags = np.zeros(16, dtype=np.int64)
    flags[: 3 + 2 * labels.count("hard") + labels.count("easy") % 4] = 1
    return None if len(labels) == 12 else tuple(flags.tolist())


def sixteen_cells(relation: str, *cells: int) -> list[tuple[Counts, Counts]]:
    """4,000 rows over 16 cells, and neighbours in which one row has left a cell (and come to
    another, for replace-one)."""
    one = np.bincount(np.random.default_rng(1).integers(0, 8, 4000), minlength=16)
    pairs = []
    for cell in cells:
        other = one.copy()
        other[cell] -= 1
        if relation == "replace-one":
            other[15] += 1
        pairs.append((tuple(one.tolist()), tuple(other.tolist())))
    return pairs
