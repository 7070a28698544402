"""What a linear condition is off by, from public facts: the number of columns and rows, and the
cost.

On made-up tables the mean error of a random halfspace, as a share of the rows, falls as a power of
rows times epsilon. The powers are those that benchmarks/defaults/halfspaces.py prints, one for each
number of columns that was tried; numbers between them are interpolated.
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
    "tree": ((8.53, -0.827), (1.38, -0.564), (0.899, -0.417), (0.594, -0.306), (0.594, -0.306)),
    "joined": ((2.77, -0.584), (2.63, -0.553), (0.563, -0.309), (0.557, -0.264), (1.05, -0.338)),
    "sectors": ((0.0873, -0.054), (0.218, -0.047), (0.207, 0.0), (0.25, 0.0), (0.25, 0.0)),
}
"""Factor and power of rows times epsilon, for each number of columns; `TREE_COLUMNS` is the most
that a tree was tried on."""
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
