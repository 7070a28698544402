"""Conditions about a weighted sum of columns, such as "2 * age + weight >= 150": a halfspace,
written as SQL writes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpublish.arrays import Floats
from dpublish.declare.calendar import CALENDAR, EXAMPLES, WORDS, number_of, read_bound
from dpublish.declare.domain import Axis
from dpublish.errors import QueryError, did_you_mean
from dpublish.models.bin_shapes import place_of, tilts_of
from dpublish.models.hierarchical_counts import spread_points
from dpublish.query.constants import Tree, bare, read_constant, shown
from dpublish.query.predicate import MAX_DEPTH, parse_sql

_CONDITION = "2 * age + weight >= 150"
_EXAMPLE = f"Write for example: {_CONDITION}."


@dataclass(frozen=True)
class Linear:
    """A number, and a weight of each column that is named."""

    weights: dict[str, float]
    number: float

    def plus(self, other: Linear, factor: float = 1.0) -> Linear:
        weights = dict(self.weights)
        for name, weight in other.weights.items():
            weights[name] = weights.get(name, 0.0) + factor * weight
        return Linear(weights, self.number + factor * other.number)

    def times(self, factor: float) -> Linear:
        return Linear(
            {name: factor * weight for name, weight in self.weights.items()}, factor * self.number
        )


@dataclass(frozen=True)
class Halfspace:
    """Where a weighted sum of columns is at least `bound`, or above it where it is `strict`."""

    weights: dict[str, float]
    bound: float
    strict: bool


def linear_condition(text: str | Tree, columns: Mapping[str, str]) -> Halfspace:
    """The halfspace of a condition, which may have been parsed. `columns` has the kind of each."""
    tree = bare(parse_sql(text, example=_CONDITION) if isinstance(text, str) else text)
    if not isinstance(tree, exp.GTE | exp.GT | exp.LTE | exp.LT):
        raise QueryError(
            f"'{shown(tree)}' is not a comparison of a weighted sum with a number. {_EXAMPLE}"
        )
    sign = 1.0 if isinstance(tree, exp.GTE | exp.GT) else -1.0
    difference = (
        _read(tree.this, columns, 0).plus(_read(tree.expression, columns, 0), -1.0).times(sign)
    )
    if not any(difference.weights.values()):
        raise QueryError(
            f"The condition names no column that counts. {_EXAMPLE} Columns: {', '.join(columns)}."
        )
    if not all(
        math.isfinite(number) for number in (*difference.weights.values(), difference.number)
    ):
        raise QueryError("The numbers of the condition are too large.")
    return Halfspace(difference.weights, -difference.number, isinstance(tree, exp.GT | exp.LT))


def _read(tree: Tree, columns: Mapping[str, str], depth: int) -> Linear:
    if depth > MAX_DEPTH:
        raise QueryError(f"The condition is nested more than {MAX_DEPTH} levels deep.")
    tree = bare(tree)
    if isinstance(tree, exp.Column) and not tree.table:
        return Linear({_name(tree.name, columns): 1.0}, 0.0)
    if isinstance(tree, exp.Neg):
        return _read(tree.this, columns, depth + 1).times(-1.0)
    if isinstance(tree, exp.Add | exp.Sub | exp.Mul | exp.Div):
        first, second = (
            _read(tree.this, columns, depth + 1),
            _read(tree.expression, columns, depth + 1),
        )
        if isinstance(tree, exp.Add | exp.Sub):
            return first.plus(second, 1.0 if isinstance(tree, exp.Add) else -1.0)
        if isinstance(tree, exp.Mul) and not first.weights:
            return second.times(first.number)
        if not second.weights and (isinstance(tree, exp.Mul) or second.number):
            return first.times(second.number if isinstance(tree, exp.Mul) else 1.0 / second.number)
        raise QueryError(
            f"'{shown(tree)}' is not linear: columns may be added, and multiplied by numbers. "
            f"{_EXAMPLE}"
        )
    return Linear({}, _number(tree, columns))


def _name(name: str, columns: Mapping[str, str]) -> str:
    if name in columns:
        return name
    raise QueryError(
        f"No column '{name}' here.{did_you_mean(name, columns)} Columns: {', '.join(columns)}."
    )


def _number(tree: Tree, columns: Mapping[str, str]) -> float:
    """A number; a date stands for its ordinal, as in `count`, and a time for its seconds."""
    value = read_constant(tree)
    if isinstance(value, str):
        kinds = [kind for kind in CALENDAR if kind in columns.values()] or ["date"]
        found = {kind: moment for kind in kinds if (moment := read_bound(kind, value))}
        if len(found) != 1:
            known = " nor ".join(f"one of {WORDS[k]}, such as '{EXAMPLES[k]}'" for k in kinds)
            raise QueryError(
                f"'{value[:40]}' is neither a number nor {known}."
                if not found
                else f"'{value[:40]}' may be a day or its midnight. Write the time of day too."
            )
        return float(number_of(*found.values()))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QueryError(f"'{shown(tree)}' is not a number. {_EXAMPLE}")
    try:
        return float(value)
    except OverflowError:
        raise QueryError("The numbers of the condition are too large.") from None


# Boxes and hyperplanes: how much of every box lies above one.


Sides = tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]

POINTS, FEWEST = 512, 2
"""Evenly spread points that stand for a box which the plane cuts; fewer where many are cut."""
WORK = 1 << 19
CHUNK = 1 << 12
_DUST = 1e-9


def above_plane(
    low: Floats,
    high: Floats,
    weights: Sequence[float],
    bound: float,
    *,
    steps: Sequence[float],
    strict: bool = False,
    tilts: Floats | None = None,
) -> Sides:
    """For every box (one row each, one column a column) the share of it where the weighted sum is
    at least `bound`, or above it; whether all of it surely is; and whether any of it may be.

    `high` is the last value of a column of whole numbers, which lie `steps` apart, and the upper
    edge of others, whose step is 0. Rows are spread evenly inside a box, or with `tilts` as
    `models.bin_shapes` says. What lies on the plane is neither surely above nor surely below.
    """
    factors, apart = np.asarray(weights, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    least = (np.minimum(factors * low, factors * high)).sum(axis=1)
    most = (np.maximum(factors * low, factors * high)).sum(axis=1)
    dust = _DUST * (np.abs(factors * low).sum(axis=1) + np.abs(factors * high).sum(axis=1) + 1)
    edge = bound + dust if strict else bound - dust
    inside, touched = least > bound + dust, most >= bound - dust
    share = (least >= edge).astype(np.float64)
    cut = np.flatnonzero((share == 0) & (most >= edge) & (most > least))
    count = int(np.clip(WORK // max(1, len(cut)), FEWEST, POINTS))
    spread = spread_points(count, len(factors))
    whole = apart > 0
    for start in range(0, len(cut), CHUNK):
        some = cut[start : start + CHUNK]
        first = low[some][:, None, :]
        span = (high[some] - low[some] + apart)[:, None, :]
        place = np.broadcast_to(spread, (len(some), *spread.shape))
        if tilts is not None:
            place = place_of(np.broadcast_to(tilts[some][:, None, :], place.shape), place)
        number = np.floor(place * span / np.where(whole, apart, 1.0))
        last = np.where(whole, span / np.where(whole, apart, 1.0) - 1, np.inf)
        points = np.where(whole, np.minimum(number, last) * apart, place * span)
        share[some] = ((first + points) @ factors >= edge[some][:, None]).mean(axis=1)
    return share, inside, touched


def cells_above(
    axes: Sequence[Axis],
    weights: Sequence[float],
    bound: float,
    strict: bool,
    codes: Callable[[int], NDArray[np.int64]],
    count: int,
) -> Sides:
    """The same for cells given by their codes along some columns. A row without a value, or with
    one that is not declared, meets no such condition."""
    low, high, tilts = (np.zeros((count, len(axes))) for _ in range(3))
    valued = np.ones(count, dtype=np.bool_)
    for place, axis in enumerate(axes):
        code = codes(place)
        valued &= code < axis.base
        within = np.minimum(code, axis.base - 1)
        edges = np.array(axis.edges, dtype=np.float64)
        low[:, place] = edges[within]
        high[:, place] = edges[within + 1] - (0.0 if axis.kind == "real" else 1.0)
        tilts[:, place] = tilts_of(axis)[within]
    share, inside, touched = above_plane(
        low,
        high,
        weights,
        bound,
        steps=[0.0 if axis.kind == "real" else 1.0 for axis in axes],
        strict=strict,
        tilts=tilts if tilts.any() else None,
    )
    return share * valued, inside & valued, touched & valued


def least_and_most(axes: Sequence[Axis], weights: Sequence[float]) -> tuple[float, float]:
    """The least and the largest weighted sum that there can be."""
    ends = [
        sorted((weight * float(axis.edges[0]), weight * float(axis.edges[-1])))
        for axis, weight in zip(axes, weights, strict=True)
    ]
    return math.fsum(end[0] for end in ends), math.fsum(end[1] for end in ends)
