"""The private numbers that methods over grids ask for: how many rows lie at each position."""

from __future__ import annotations

from dataclasses import dataclass

from dpublish.declare.grid import TreeShape
from dpublish.declare.statistic import Statistic


@dataclass(frozen=True)
class GridPoints(Statistic):
    """A statistic: the codes of the kept rows in a grid, counted. Answered by `SparseCounts` over
    codes."""

    shape: TreeShape
