"""What a linear condition is off by, from public facts: the number of columns and rows, and the
cost.

On made-up tables the mean error of a random halfspace, as a share of the rows, falls as a power of
rows times epsilon. The powers are those that benchmarks/defaults/halfspaces.py prints, one for each
number of columns that was tried; numbers between them are interpolated. Tables are of columns that
depend on each other and of columns that hardly do, half of them each: joined histograms are 0.6 to
9 times as wrong as a tree on the first, and a tenth to three times on the others.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.privacy.cost import Cost

Way = Literal["tree", "joined", "sectors"]

TRIED = (2, 3, 4, 6, 8)
LAWS: dict[Way, tuple[tuple[float, float], ...]] = {
    "tree": ((8.53, -0.827), (1.74, -0.573), (0.337, -0.338), (0.59, -0.32), (0.59, -0.32)),
    "joined": ((2.77, -0.584), (1.04, -0.467), (0.123, -0.226), (0.379, -0.315), (1.05, -0.338)),
    "sectors": ((0.0873, -0.054), (0.218, -0.047), (0.207, 0.0), (0.25, 0.0), (0.25, 0.0)),
}
"""Factor and power of rows times epsilon, for each number of columns; `TREE_COLUMNS` is the most
that a tree was tried on. Those of two and eight columns, and of sectors, are of tables of columns
that depend on each other alone."""
TREE_COLUMNS = 6
CLEAR = 0.9
"""A tree has narrower limits: joined histograms are taken where their error is this much less."""
NAMES: dict[Way, str] = {
    "tree": "an interval tree",
    "joined": "joined histograms",
    "sectors": "sectors of projections",
}


def expected_error(way: Way, columns: int, rows: int, size: float) -> float:
    """Rows by which a halfspace is off on average; `size` is rows times epsilon."""
    factors, powers = zip(*LAWS[way], strict=True)
    place = float(min(max(columns, TRIED[0]), TRIED[-1]))
    factor = math.exp(float(np.interp(place, TRIED, np.log(factors))))
    power = float(np.interp(place, TRIED, powers))
    return rows * min(0.5, factor * math.pow(max(1.0, size), power))


def expected_errors(schema: Schema, columns: int, cost: Cost) -> dict[Way, float]:
    """Of each way that there is; empty where the number of rows is not declared."""
    units = schema.size_or_nominal
    if units is None or cost.epsilon <= 0:
        return {}
    rows = units * schema.unit.max_rows
    # the tables were made up with one row a unit, of which one is exchanged
    size = rows * float(cost.epsilon) * 2 / float(schema.relation.l1)
    ways: list[Way] = ["tree"] if columns <= TREE_COLUMNS else []
    return {way: expected_error(way, columns, rows, size) for way in [*ways, "joined", "sectors"]}


def best_way(errors: dict[Way, float], columns: int) -> Way:
    """A tree for few columns, unless joined histograms are clearly nearer."""
    if columns > TREE_COLUMNS:
        return "joined"
    if errors and errors["joined"] < CLEAR * errors["tree"]:
        return "joined"
    return "tree"
