"""Conditions about a weighted sum of columns, such as "2 * age + weight >= 150": a halfspace,
written as SQL writes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpublish.declare.calendar import CALENDAR, EXAMPLES, WORDS, number_of, read_bound
from dpublish.errors import QueryError, did_you_mean
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
    if isinstance(tree, exp.GTE | exp.GT):
        sign = 1.0
    elif isinstance(tree, exp.LTE | exp.LT):
        sign = -1.0
    else:
        raise QueryError(
            f"'{shown(tree)}' is not a comparison of a weighted sum with a number. {_EXAMPLE}"
        )
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
    strict = isinstance(tree, exp.GT | exp.LT)
    return Halfspace(difference.weights, -difference.number, strict)


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
