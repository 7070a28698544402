"""Rows as vectors for importance weights: indicators of levels, numbers in [0, 1], and products of
two columns.

A row has one group of features for each column and each chosen pair of columns, and within a group
its features are at most 1 long. With g groups no row is longer than sqrt(g); `fill` divides by a
number R just above that, which follows from the schema. (Ji and Elkan divide by the root of the
number of features, which is never less.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.columns import MISSING, OTHER
from dpublish.declare.domain import Axis
from dpublish.models.linear_features import FloatArray, _scaled

Codes = NDArray[Any]
Numbers = Literal["bins", "scaled"]
NUMBERS: tuple[str, ...] = ("bins", "scaled")
NormBound = Literal["columns", "dimension"]
_ROOM = 1 + 2.0**-30
"""R is larger than sqrt(g) by this factor, which pays for every rounding in the tables."""


@dataclass(frozen=True)
class Group:
    """One column, or two: how many codes it has, and the features of each code (None: one indicator
    a code)."""

    axes: tuple[int, ...]
    codes: int
    width: int
    table: FloatArray | None


@dataclass(frozen=True)
class WeightFeatures:
    """The coding of `axes`, then of `pairs` (places of two axes). `numbers`: an indicator a bin, or
    one number in [0, 1]. `norm_bound`: what R is the root of, groups or features."""

    axes: tuple[Axis, ...]
    pairs: tuple[tuple[int, int], ...] = ()
    numbers: Numbers = "bins"
    norm_bound: NormBound = "columns"

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        alone = [self._one(place) for place in range(len(self.axes))]
        return (*alone, *(self._two(alone[a], alone[b]) for a, b in self.pairs))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each group's features begin, and the dimension at the end."""
        return (0, *np.cumsum([group.width for group in self.groups]).tolist())

    @property
    def dimension(self) -> int:
        widths = [self._width(axis) for axis in self.axes]
        return sum(widths) + sum(widths[a] * widths[b] for a, b in self.pairs)

    @property
    def divisor(self) -> float:
        groups = len(self.axes) + len(self.pairs)
        return math.sqrt(self.dimension if self.norm_bound == "dimension" else groups) * _ROOM

    @cached_property
    def names(self) -> tuple[tuple[str, str], ...]:
        """(columns, levels) of each feature; a pair is written with '*'."""
        single = [self._levels(axis) for axis in self.axes]
        found = [
            (axis.name, level)
            for axis, levels in zip(self.axes, single, strict=True)
            for level in levels
        ]
        for a, b in self.pairs:
            name = f"{self.axes[a].name}*{self.axes[b].name}"
            found += [(name, f"{one}*{two}") for one in single[a] for two in single[b]]
        return tuple(found)

    def longest_square(self) -> Fraction:
        """An upper bound on the squared length of every vector that `fill` writes, of the doubles
        as they stand."""
        longest = Fraction(0)
        for group in self.groups:
            if group.table is None:
                longest += Fraction(1.0 / self.divisor) ** 2
            else:
                rows = group.table / self.divisor
                computed = float((rows * rows).sum(axis=1).max())
                # a sum of `width` rounded squares is off by less than this factor
                longest += Fraction(computed) * (1 + Fraction(group.width + 4, 1 << 52))
        return longest

    def group_codes(self, codes: Sequence[NDArray[Any]], group: Group) -> Codes:
        """The code of each row within a group; pairs are numbered row by row."""
        first = narrow(codes[group.axes[0]], self.axes[group.axes[0]].cardinality)
        if len(group.axes) == 1:
            return first
        second = group.axes[1]
        return narrow(
            first.astype(np.int64) * self.axes[second].cardinality + np.asarray(codes[second]),
            group.codes,
        )

    def fill(self, codes: Sequence[NDArray[Any]], out: FloatArray) -> None:
        """Write the vectors of some rows, divided by R, given one array of codes a column."""
        rows = np.arange(len(out))
        for group, start in zip(self.groups, self.starts, strict=False):
            block = out[:, start : start + group.width]
            places = self.group_codes(codes, group)
            if group.table is None:
                block[:] = 0.0
                block[rows, places] = 1.0 / self.divisor
            else:
                block[:] = (group.table / self.divisor)[places]

    def vectors(self, codes: Sequence[NDArray[Any]]) -> FloatArray:
        """The vectors of some rows, not divided."""
        out = np.empty((len(codes[0]), self.dimension))
        self.fill(codes, out)
        out *= self.divisor
        return out

    def scores(self, codes: Sequence[NDArray[Any]], coefficients: FloatArray) -> FloatArray:
        """coefficients . x for each row, without making the vectors."""
        total = np.zeros(len(codes[0]))
        for group, start in zip(self.groups, self.starts, strict=False):
            part = coefficients[start : start + group.width]
            by_code = part if group.table is None else group.table @ part
            total += by_code[self.group_codes(codes, group)]
        return total

    def sums(self, codes: Sequence[NDArray[Any]], values: FloatArray) -> FloatArray:
        """sum_i values_i x_i, without making the vectors."""
        found = []
        for group in self.groups:
            by_code = np.bincount(
                self.group_codes(codes, group), weights=values, minlength=group.codes
            )
            found.append(by_code if group.table is None else by_code @ group.table)
        return np.concatenate(found)

    def _one(self, place: int) -> Group:
        axis = self.axes[place]
        if not self._is_number(axis):
            return Group((place,), axis.cardinality, axis.cardinality, None)
        extra = axis.cardinality - axis.base
        table = np.zeros((axis.cardinality, 1 + extra))
        table[: axis.base, 0] = _scaled(axis)
        table[axis.base :, 1:] = np.eye(extra)
        return Group((place,), axis.cardinality, 1 + extra, table)

    def _two(self, one: Group, two: Group) -> Group:
        axes, codes, width = (*one.axes, *two.axes), one.codes * two.codes, one.width * two.width
        if one.table is None and two.table is None:
            return Group(axes, codes, width, None)
        left = np.eye(one.codes) if one.table is None else one.table
        right = np.eye(two.codes) if two.table is None else two.table
        return Group(axes, codes, width, np.asarray(np.kron(left, right), dtype=np.float64))

    def _is_number(self, axis: Axis) -> bool:
        return axis.numeric and self.numbers == "scaled"

    def _width(self, axis: Axis) -> int:
        return 1 + axis.cardinality - axis.base if self._is_number(axis) else axis.cardinality

    def _levels(self, axis: Axis) -> list[str]:
        if not self._is_number(axis):
            return list(axis.labels)
        return ["", *([OTHER] if axis.other else []), *([MISSING] if axis.missing else [])]


def narrow(codes: NDArray[Any], size: int) -> Codes:
    """Codes below `size` in as few bytes as they need."""
    kind = np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32
    return np.asarray(codes).astype(kind, copy=False)
