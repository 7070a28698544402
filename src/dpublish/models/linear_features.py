"""Rows as vectors: the public coding that a linear model is trained and used with.

Every column becomes at most one number of size at most 1, so a row of c columns and the constant
has length at most sqrt(c + 1). All vectors are divided by a number R just above that, which depends
on c alone, so no row is longer than 1.

* numbers and dates: (value - lower) / (upper - lower), the value being the middle of its bin;
* ordinal levels: rank / (levels - 1);
* other levels: one indicator per level, the first level being the reference that has none;
* '(other)' and '(missing)': an indicator each, the column's number being 0.

That is the coding "reference-levels". The coding "centred" has numbers from -1 to 1, 0 being the
middle of the declared bounds, and levels as the corners of a simplex around 0, all of length 1 and
equally far apart. So a row of c columns is no longer than sqrt(c); but numbers are mostly near the
middle of their bounds, and rows are mostly shorter. Vectors are divided by half of that, and a row
that is longer than 1 then is to be shortened to 1 for training (`factors`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Codes, Floats
from dpublish.declare.columns import MISSING, OTHER
from dpublish.declare.domain import Axis

# Rows as vectors for importance weights: indicators of levels, numbers in [0, 1], and products of
# two columns.
#
# A row has one group of features for each column and each chosen pair of columns, and within a
# group its features are at most 1 long. With g groups no row is longer than sqrt(g); `fill`
# divides by a number R just above that, which follows from the schema. (Ji and Elkan divide by
# the root of the number of features, which is never less.)

Numbers = Literal["bins", "scaled"]
NUMBERS: tuple[str, ...] = ("bins", "scaled")
NormBound = Literal["columns", "dimension"]


@dataclass(frozen=True)
class Group:
    """One column, or two: how many codes it has, and the features of each code (None: one indicator
    a code)."""

    axes: tuple[int, ...]
    codes: int
    width: int
    table: Floats | None


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

    def fill(self, codes: Sequence[NDArray[Any]], out: Floats) -> None:
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

    def vectors(self, codes: Sequence[NDArray[Any]]) -> Floats:
        """The vectors of some rows, not divided."""
        out = np.empty((len(codes[0]), self.dimension))
        self.fill(codes, out)
        out *= self.divisor
        return out

    def scores(self, codes: Sequence[NDArray[Any]], coefficients: Floats) -> Floats:
        """coefficients . x for each row, without making the vectors."""
        total = np.zeros(len(codes[0]))
        for group, start in zip(self.groups, self.starts, strict=False):
            part = coefficients[start : start + group.width]
            by_code = part if group.table is None else group.table @ part
            total += by_code[self.group_codes(codes, group)]
        return total

    def sums(self, codes: Sequence[NDArray[Any]], values: Floats) -> Floats:
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


CONSTANT = "(constant)"
REFERENCE, CENTRED = "reference-levels", "centred"
CODINGS = (REFERENCE, CENTRED)
SHORTENED = 0.5
"""Of the longest that a centred row can be; longer ones are shortened. By benchmarks/defaults."""
CONSTANT_SHARE = Fraction(1, 5)
"""Of the square of the longest vector, for the constant of a centred coding."""
_CUT = 1 - 2.0**-40
_ROOM = 1 + 2.0**-30
"""R is larger than sqrt(c + 1), or sqrt(g), by this factor, which pays for every rounding in the
tables."""


@dataclass(frozen=True)
class LinearFeatures:
    """The coding of the given columns, in their order. The first feature is the constant."""

    axes: tuple[Axis, ...]
    coding: str = REFERENCE

    @property
    def centred(self) -> bool:
        return self.coding == CENTRED

    @property
    def divisor(self) -> float:
        if self.centred:
            kept = SHORTENED / math.sqrt(1 - CONSTANT_SHARE)
            return math.sqrt(len(self.axes)) * kept * _ROOM
        return math.sqrt(len(self.axes) + 1) * _ROOM

    @cached_property
    def tables(self) -> tuple[Floats, ...]:
        """For each column, the features of each code, already divided."""
        made = _centred_features if self.centred else _codes_to_features
        return tuple(made(axis) / self.divisor for axis in self.axes)

    @property
    def constant(self) -> float:
        return math.sqrt(CONSTANT_SHARE) / _ROOM if self.centred else 1.0 / self.divisor

    @property
    def longest_allowed(self) -> int:
        """What no vector of this coding is longer than."""
        return 2 if self.centred else 1

    def factors(self, codes: Sequence[NDArray[Any]]) -> Floats:
        """By how much each row is shortened, so that none is longer than 1: a number above 0 and at
        most 1 that its own codes determine."""
        squares = np.full(len(codes[0]) if codes else 0, self.constant**2)
        for column, table in zip(codes, self.tables, strict=True):
            squares += (table * table).sum(axis=1)[column]
        # the cut outweighs every rounding of the sum, the root and the quotient
        return np.where(squares <= _CUT**2, 1.0, _CUT / np.sqrt(squares))

    def effects(self, coefficients: Floats) -> list[tuple[str, str, float]]:
        """(column, level, how much the score grows) for one model: when a row has the level, or,
        with an empty level, when a number goes from its lowest to its highest."""
        found = [(CONSTANT, "", float(coefficients[0] * self.constant))]
        for axis, table, (start, stop) in zip(self.axes, self.tables, self._spans(), strict=True):
            own = coefficients[start:stop]
            if self.centred and not axis.ordered:
                grown = (table @ own).tolist()
                levels = list(axis.labels)
            else:
                width = 2.0 if self.centred else 1.0
                grown = [float(own[0]) * width, *own[1:].tolist()] if axis.ordered else own.tolist()
                grown = [value / self.divisor for value in grown]
                levels = _feature_levels(axis)
            found += [(axis.name, level, value) for level, value in zip(levels, grown, strict=True)]
        return found

    @property
    def dimension(self) -> int:
        return 1 + sum(feature_count(axis) for axis in self.axes)

    @cached_property
    def names(self) -> tuple[tuple[str, str], ...]:
        """(column, level) of each feature; the level is empty for a number."""
        return (
            (CONSTANT, ""),
            *((axis.name, level) for axis in self.axes for level in _feature_levels(axis)),
        )

    def longest_square(self) -> Fraction:
        """An upper bound on the squared length of every possible row, of the doubles as they stand
        in the tables."""
        longest = Fraction(self.constant) ** 2
        for table in self.tables:
            width = table.shape[1]
            computed = float((table * table).sum(axis=1).max()) if width else 0.0
            # a sum of `width` rounded squares is off by less than this factor
            longest += Fraction(computed) * (1 + Fraction(width + 4, 1 << 52))
        return longest

    def fill(self, codes: Sequence[NDArray[Any]], out: Floats) -> None:
        """Write the vectors of some rows, given one array of codes a column."""
        out[:, 0] = self.constant
        for column, table, (start, stop) in zip(codes, self.tables, self._spans(), strict=True):
            if stop > start:
                out[:, start:stop] = table[column]

    def _spans(self) -> Iterator[tuple[int, int]]:
        start = 1
        for table in self.tables:
            yield start, start + table.shape[1]
            start += table.shape[1]


def feature_count(axis: Axis) -> int:
    """How many features a column becomes, worked out without making its table."""
    return 1 + int(axis.other) + int(axis.missing) if axis.ordered else axis.cardinality - 1


def _codes_to_features(axis: Axis) -> Floats:
    extra = int(axis.other) + int(axis.missing)
    if not axis.ordered:
        return np.eye(axis.cardinality, dtype=np.float64)[:, 1:]
    table = np.zeros((axis.cardinality, 1 + extra), dtype=np.float64)
    table[: axis.base, 0] = _scaled(axis)
    table[axis.base :, 1:] = np.eye(extra, dtype=np.float64)
    return table


def _centred_features(axis: Axis) -> Floats:
    if axis.ordered:
        table = _codes_to_features(axis)
        table[: axis.base, 0] = 2.0 * table[: axis.base, 0] - 1.0
        return table
    levels = axis.cardinality
    corners = np.zeros((levels, max(levels - 1, 0)))
    # the rows of a Helmert matrix: coordinate j sets level j + 1 against the levels before it
    for j in range(levels - 1):
        corners[: j + 1, j] = 1.0 / math.sqrt((j + 1) * (j + 2))
        corners[j + 1, j] = -(j + 1) / math.sqrt((j + 1) * (j + 2))
    return corners * math.sqrt(levels / max(levels - 1, 1))


def _scaled(axis: Axis) -> Floats:
    """The number in [0, 1] that stands for each declared code of an ordered axis."""
    if not axis.numeric:
        return np.arange(axis.base, dtype=np.float64) / max(1, axis.base - 1)
    low = axis.edges[0]
    high = axis.edges[-1] if axis.kind == "real" else axis.edges[-1] - 1
    if high <= low:
        return np.zeros(axis.base, dtype=np.float64)
    middles = np.array([axis.midpoint(code) for code in range(axis.base)], dtype=np.float64)
    return np.clip((middles - float(low)) / (float(high) - float(low)), 0.0, 1.0)


def _feature_levels(axis: Axis) -> list[str]:
    if not axis.ordered:
        return list(axis.labels[1:])
    return ["", *([OTHER] if axis.other else []), *([MISSING] if axis.missing else [])]
