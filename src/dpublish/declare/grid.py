"""A grid of positions over numeric columns, and the tree of boxes that halves it: public facts both
sides share.

A column with bounds and a precision has a number of equal positions, up to 2^40, which are never
listed. A box of the tree is named by its depth and its prefix: the leading bits of all positions'
codes inside it. Level k splits every column that has more than k bits, so one column gives a binary
tree, two columns of equal size a quadtree.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Ints
from dpublish.declare.columns import Column, Kind
from dpublish.declare.domain import Axis, Domain, whole_bound
from dpublish.errors import PlanError, SchemaError, refuse

Codes = NDArray[np.uint64]

MAX_BITS = 62
MAX_POSITIONS = 1 << 40
DEFAULT_POSITIONS = 1 << 20
MAX_DIGITS = 200
"""Characters that the exact lower bound and step of a grid may have in a release."""
NEAR = 1e-3
"""Positions by which a value that lies on an edge may miss it, when floats divide it by the
step."""


@dataclass(frozen=True)
class Grid:
    """One column's positions: position i stands for the values in [lower + i step, lower + (i + 1)
    step)."""

    name: str
    kind: Kind
    lower: Fraction
    step: Fraction
    positions: int
    outside: str = "clip"
    missing: bool = False
    """Whether the schema counts rows without a value as such."""

    @property
    def bits(self) -> int:
        return (self.positions - 1).bit_length()

    @property
    def upper(self) -> Fraction:
        return self.lower + self.step * self.positions

    @property
    def whole(self) -> bool:
        return self.kind != "real"

    def value(self, position: Ints | Floats) -> Floats:
        """The lower edge of a position, as a float (dates and times: the number)."""
        return float(self.lower) + np.asarray(position, dtype=np.float64) * float(self.step)

    def coordinate(self, value: Floats) -> Floats:
        """Where a value lies, counted in positions from the lower bound; values beyond a bound are
        at that bound."""
        found = (np.asarray(value, dtype=np.float64) - float(self.lower)) / float(self.step)
        return np.clip(found, 0.0, float(self.positions))

    def axis(self, edges: Sequence[int] | Ints) -> Axis:
        """An axis whose bins end at these positions."""
        ends = (
            tuple(int(self.lower) + int(edge) for edge in edges)
            if self.whole
            else tuple(float(self.lower + self.step * int(edge)) for edge in edges)
        )
        return Axis(
            name=self.name, kind=self.kind, edges=ends, outside=self.outside, missing=self.missing
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "lower": str(self.lower),
            "step": str(self.step),
            "positions": self.positions,
            "outside": self.outside,
            # left out where it says nothing, as in releases made before it was known
            **({"missing": True} if self.missing else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Grid:
        return cls(
            name=str(data["name"]),
            kind=cast(Kind, data["kind"]),
            lower=Fraction(data["lower"]),
            step=Fraction(data["step"]),
            positions=int(data["positions"]),
            outside=str(data["outside"]),
            missing=data.get("missing") is True,
        )


def grid_of(column: Column, *, schema_name: str) -> Grid:
    """The positions of a declared column: whole numbers, days and seconds one by one, reals by
    precision, else by bins."""
    if not column.numeric:
        raise PlanError(
            f"Column '{column.name}' is {column.kind}; intervals need a column of numbers, "
            f"dates or times."
        )
    lower, upper = column.require_bounds(schema_name)
    if column.kind == "real":
        low, high = (
            Fraction(repr(float(cast(float, lower)))),
            Fraction(repr(float(cast(float, upper)))),
        )
        if column.precision is not None:
            step = column.precision
            positions = math.ceil((high - low) / step)
        else:
            positions = column.bins or DEFAULT_POSITIONS
            step = (high - low) / positions
    else:
        low, step = Fraction(whole_bound(lower)), Fraction(1)
        positions = whole_bound(upper) - whole_bound(lower) + 1
    refuse(
        PlanError,
        (
            positions > MAX_POSITIONS,
            f"Column '{column.name}' has {positions:,} positions between its bounds; at most 2^40 "
            "are supported. Declare tighter bounds or a coarser precision.",
        ),
        (  # a release with it could not be opened
            max(len(str(low)), len(str(step))) > MAX_DIGITS,
            f"The bounds or the precision of column '{column.name}' have more than {MAX_DIGITS} "
            "digits when written out. Declare bounds of a usual size.",
        ),
    )
    outside = "clip" if column.outside == "clip" else "drop"
    return Grid(column.name, column.kind, low, step, positions, outside, bool(column.missing))


@dataclass(frozen=True)
class Boxes:
    """Boxes of the tree: depth and prefix of each."""

    depth: Ints
    prefix: Codes

    def __len__(self) -> int:
        return int(self.depth.size)


@dataclass(frozen=True)
class TreeShape:
    """How the product of grids is halved, level by level. `bits` is given where a tree deeper than
    the grid is wanted."""

    grids: tuple[Grid, ...]
    bits: tuple[int, ...]

    @classmethod
    def over(cls, grids: Sequence[Grid]) -> TreeShape:
        bits = tuple(grid.bits for grid in grids)
        if sum(bits) > MAX_BITS:
            raise PlanError(
                f"The columns have 2^{sum(bits)} positions together; at most 2^{MAX_BITS} are "
                f"supported. "
                "Choose fewer columns or a coarser precision."
            )
        return cls(tuple(grids), bits)

    @property
    def absent(self) -> int:
        """The code of rows without a value: the first that is no position's."""
        return 1 << self.total_bits

    @property
    def depth(self) -> int:
        """The depth of single positions."""
        return max(self.bits)

    @cached_property
    def split_axes(self) -> tuple[tuple[int, ...], ...]:
        """Which columns each level halves, in the order of their bits in a code."""
        return tuple(
            tuple(axis for axis, bits in enumerate(self.bits) if bits > level)
            for level in range(self.depth)
        )

    @cached_property
    def used_bits(self) -> tuple[int, ...]:
        """How many bits of a code a prefix has, by depth."""
        return tuple(itertools.accumulate(map(len, self.split_axes), initial=0))

    @property
    def total_bits(self) -> int:
        return self.used_bits[-1]

    @property
    def fanout(self) -> int:
        return 1 << (len(self.split_axes[0]) if self.depth else 1)

    def domain(self) -> Domain:
        """The whole grid as one box: what manifests and column checks read."""
        return Domain(tuple(grid.axis((0, grid.positions)) for grid in self.grids))

    def codes(self, positions: Sequence[Ints]) -> Codes:
        """The codes of points; with one column, the positions themselves."""
        if len(self.grids) == 1:
            return positions[0].astype(np.uint64)
        out = np.zeros(positions[0].size, dtype=np.uint64)
        for level, axes in enumerate(self.split_axes):
            for axis in axes:
                bit = np.uint64(self.bits[axis] - 1 - level)
                out = (out << np.uint64(1)) | (
                    (positions[axis].astype(np.uint64) >> bit) & np.uint64(1)
                )
        return out

    def spans(self, boxes: Boxes) -> tuple[Codes, Codes]:
        """First code of each box, and first code after it."""
        shift = (self.total_bits - np.array(self.used_bits, dtype=np.int64)[boxes.depth]).astype(
            np.uint64
        )
        return boxes.prefix << shift, (boxes.prefix + np.uint64(1)) << shift

    def corners(self, boxes: Boxes) -> tuple[list[Ints], list[Ints]]:
        """First position and first position after each box, by column, cut off at the last
        position."""
        starts = [np.zeros(len(boxes), dtype=np.int64) for _ in self.grids]
        first, _ = self.spans(boxes)
        place = self.total_bits
        for level, axes in enumerate(self.split_axes):
            for axis in axes:
                place -= 1
                bit = ((first >> np.uint64(place)) & np.uint64(1)).astype(np.int64)
                starts[axis] |= bit << (self.bits[axis] - 1 - level)
        widths = [np.int64(1) << np.maximum(bits - boxes.depth, 0) for bits in self.bits]
        return starts, [
            np.minimum(start + width, grid.positions)
            for start, width, grid in zip(starts, widths, self.grids, strict=True)
        ]

    def children(self, boxes: Boxes) -> Boxes:
        """The parts of boxes of one depth that hold at least one position, in order."""
        if not len(boxes):
            return boxes
        level = int(boxes.depth[0])
        parts = np.uint64(1 << len(self.split_axes[level]))
        prefix = (
            boxes.prefix[:, None] * parts + np.arange(parts, dtype=np.uint64)[None, :]
        ).reshape(-1)
        made = Boxes(np.full(prefix.size, level + 1, dtype=np.int64), prefix)
        starts, _ = self.corners(made)
        inside = np.logical_and.reduce(
            [s < grid.positions for s, grid in zip(starts, self.grids, strict=True)]
        )
        return Boxes(made.depth[inside], made.prefix[inside])

    def shares(self, boxes: Boxes, low: Floats, high: Floats) -> Floats:
        """How much of each box lies in each query; `low` and `high` are coordinates, one row a
        query, one column per axis."""
        starts, ends = self.corners(boxes)
        out = np.ones((low.shape[0], len(boxes)))
        for axis in range(len(self.grids)):
            a, b = starts[axis][None, :], ends[axis][None, :]
            cover = np.minimum(b, high[:, axis, None]) - np.maximum(a, low[:, axis, None])
            out *= np.clip(cover, 0.0, None) / (b - a)
        return out

    def reached(self, boxes: Boxes, low: Floats, high: Floats) -> NDArray[np.bool_]:
        """Whether a box may hold rows of a query whose ends belong to it.

        Rows of a real column heap on round values: all rows of a box may have the value with which
        it starts, so a query that ends there reaches the box. Ends of whole columns are given as
        the position after the last.
        """
        starts, ends = self.corners(boxes)
        out = np.ones((low.shape[0], len(boxes)), dtype=np.bool_)
        for axis, grid in enumerate(self.grids):
            a, b = starts[axis][None, :], ends[axis][None, :]
            first, last = low[:, axis, None], high[:, axis, None]
            if grid.whole:
                out &= np.minimum(b, last) > np.maximum(a, first)
            else:  # the upper bound of the column itself lies in the last box
                out &= (a <= last + NEAR) & ((first < b) | (b == grid.positions))
        return out

    @staticmethod
    def root() -> Boxes:
        return Boxes(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint64))

    def to_json(self) -> list[dict[str, Any]]:
        return [grid.to_json() for grid in self.grids]

    @classmethod
    def from_json(cls, data: Sequence[Mapping[str, Any]]) -> TreeShape:
        try:
            return cls.over([Grid.from_json(item) for item in data])
        except PlanError as error:
            raise SchemaError(str(error)) from None
