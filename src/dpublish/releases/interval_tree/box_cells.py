"""The boxes of an interval tree as cells of a domain, for conditions, SQL, tables and models over
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from dpublish.declare.domain import Domain
from dpublish.declare.grid import Boxes, Floats, Ints, TreeShape
from dpublish.errors import QueryError
from dpublish.releases.frames import free_name, sql_columns
from dpublish.releases.naming import named_columns

MAX_CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class BoxCells:
    """A domain whose bins end wherever a box does. Cell i belongs to box `owner[i]`, of which it is
    the part `share[i]`."""

    domain: Domain
    cuts: tuple[Ints, ...]
    """Where the bins of each column end, in positions of the grid."""
    codes: tuple[Ints, ...]
    owner: Ints
    share: Floats

    @classmethod
    def of(cls, shape: TreeShape, boxes: Boxes, *, absent: float = 0.0) -> BoxCells:
        """`absent`: the part of the last owner, after all boxes, that rows without a value of the
        only column are; 0 where they were not counted."""
        starts, ends = shape.corners(boxes)
        cuts = [np.unique(np.concatenate([s, e])) for s, e in zip(starts, ends, strict=True)]
        firsts = [np.searchsorted(cut, s) for cut, s in zip(cuts, starts, strict=True)]
        sizes = [
            np.searchsorted(cut, e) - first
            for cut, e, first in zip(cuts, ends, firsts, strict=True)
        ]
        pieces = np.multiply.reduce(sizes)
        if int(pieces.sum()) > MAX_CELLS:
            raise QueryError(
                "This release has too many boxes for this; ask for boxes with count(...) or "
                "ranges(...)."
            )
        owner = np.repeat(np.arange(len(boxes)), pieces)
        inner = np.arange(owner.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        codes: list[Ints] = []
        share = np.ones(owner.size)
        for axis in reversed(range(len(shape.grids))):
            code = firsts[axis][owner] + inner % sizes[axis][owner]
            inner = inner // sizes[axis][owner]
            codes.insert(0, code)
            share *= (cuts[axis][code + 1] - cuts[axis][code]) / (ends[axis] - starts[axis])[owner]
        axes = [grid.axis(cut) for grid, cut in zip(shape.grids, cuts, strict=True)]
        domain = Domain(tuple(replace(axis, missing=absent > 0) for axis in axes))
        if absent:
            codes[0] = np.append(codes[0], axes[0].base)
            owner, share = np.append(owner, len(boxes)), np.append(share, absent)
        return cls(domain, tuple(cuts), tuple(codes), owner, share)

    def weighted(self, counts: Floats) -> WeightedCells:
        """The cells with their share of the counts of the boxes: rows count as even inside a
        box."""
        return WeightedCells(self.domain, self.codes, counts[self.owner] * self.share)

    def corners(self, places: Sequence[int]) -> tuple[Floats, Floats]:
        """The lower and upper ends of every combination of bins of some columns, in positions;
        others are not restricted."""
        bins = np.indices([self.cuts[place].size - 1 for place in places]).reshape(len(places), -1)
        low = np.zeros((bins.shape[1], len(self.cuts)))
        high = np.tile(np.array([float(cut[-1]) for cut in self.cuts]), (bins.shape[1], 1))
        for place, code in zip(places, bins, strict=True):
            low[:, place], high[:, place] = self.cuts[place][code], self.cuts[place][code + 1]
        return low, high


@dataclass(frozen=True, eq=False)
class WeightedCells:
    """Cells with weights, as SQL and models take them."""

    domain: Domain
    codes: Sequence[Ints]
    weights: Floats
    target: str | None = None

    def weighted_codes(self, columns: Sequence[str]) -> tuple[list[Ints], Floats]:
        return [self.codes[place] for place in named_columns(self.domain, columns)], self.weights

    def sql_frame(self) -> pl.DataFrame:
        columns = sql_columns(self.domain.axes, dict(enumerate(self.codes)))
        return pl.DataFrame(
            [*columns, pl.Series(free_name("weight", self.domain.names), self.weights)]
        )
