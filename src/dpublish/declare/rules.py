"""Rules that every row obeys, declared in the schema: structural zeros of a table.

    [[rules]]
    if = "age < 15"
    then = "married = 'no'"

A rule is a public fact. A row breaks it when `if` is true of it and `then` is false; of a missing
cell neither is known, and nothing is broken. Rows that break a rule are left out, each by itself,
and what the rule makes impossible has no people in the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.columns import Column
from dpublish.declare.domain import Axis, Domain, resolve_axis
from dpublish.errors import QueryError, SchemaError, did_you_mean

if TYPE_CHECKING:
    from dpublish.query.predicate import Node

MAX_RULES = 64
MAX_RULE_COLUMNS = 4
MAX_RULE_CELLS = 1 << 24
"""Combinations of values of the columns of one rule."""
_KEYS = {"if", "then", "source"}


class Fact(Protocol):
    """What is declared of the rows that satisfy a condition over a few columns: a rule says that
    there are none, a total (totals.py) how many there are."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def condition(self) -> str: ...
    def describe(self) -> str: ...
    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Rule:
    """`given` implies `then`; `columns` are those that the two name. `source` says where the rule
    stands, for people."""

    given: str
    then: str
    columns: tuple[str, ...]
    source: str = ""

    @property
    def condition(self) -> str:
        """Of the rows that break it."""
        return f"({self.given}) and not ({self.then})"

    def to_dict(self) -> dict[str, str]:
        return {"if": self.given, "then": self.then}

    def describe(self) -> str:
        return f"{self.given} implies {self.then}"


@dataclass(frozen=True)
class CellsWhere:
    """Along the columns at some places of a domain: which combinations of codes satisfy a
    condition, and which of them only in part, because a constant of it cuts a bin."""

    places: tuple[int, ...]
    cells: NDArray[np.bool_]
    cut: NDArray[np.bool_]


def read_rules(listed: Any, columns: Mapping[str, Column], schema_name: str) -> tuple[Rule, ...]:
    """The [[rules]] of a schema."""
    if not isinstance(listed, list) or len(listed) > MAX_RULES:
        raise SchemaError(
            f"rules are written as [[rules]] tables with if and then, at most {MAX_RULES} of them."
        )
    axes = [resolve_axis(one, schema_name=schema_name, default_bins=1) for one in columns.values()]
    out = []
    for number, table in enumerate(listed, start=1):
        where = f"[[rules]], number {number}"
        if not isinstance(table, Mapping) or not {"if", "then"} <= set(table):
            raise SchemaError(f'{where} needs if = "..." and then = "...".')
        for key, text in table.items():
            if key not in _KEYS:
                raise SchemaError(f"{where}: unknown key '{key}'.{did_you_mean(key, _KEYS)}")
            if not isinstance(text, str) or not text.strip() or not text.isprintable():
                raise SchemaError(f"{where}: {key} must be a line of text.")
        rule = rule_of(table["if"], table["then"], Domain(tuple(axes)), where)
        out.append(replace(rule, source=table.get("source", "")))
    return tuple(out)


def rule_of(given: str, then: str, domain: Domain, where: str) -> Rule:
    """A rule over the columns of a domain, checked."""
    from dpublish.query.predicate import columns_of, parse_predicate

    try:
        named = [columns_of(parse_predicate(text, domain)) for text in (given, then)]
    except QueryError as error:
        raise SchemaError(f"{where}: {error}") from None
    if not all(named):
        raise SchemaError(f"{where}: if and then must each name a column.")
    places = sorted(named[0] | named[1])
    if len(places) > MAX_RULE_COLUMNS:
        raise SchemaError(f"{where} names more than {MAX_RULE_COLUMNS} columns.")
    return Rule(given, then, tuple(domain.names[place] for place in places))


@cache
def cells_where(fact: Fact, domain: Domain) -> CellsWhere | None:
    """Which combinations of codes break a rule, or are in a total; None where the domain lacks a
    column of it."""
    from dpublish.query.masks import select

    if not set(fact.columns) <= set(domain.names):
        return None
    places = tuple(domain.names.index(name) for name in fact.columns)
    small = Domain(tuple(domain.axes[place] for place in places))
    cells = math.prod(small.shape)
    if cells > MAX_RULE_CELLS:
        raise SchemaError(
            f"'{fact.describe()}' ties together {cells:,} combinations of values; at most "
            f"{MAX_RULE_CELLS:,} are looked at. Give its columns fewer bins."
        )
    codes = np.unravel_index(np.arange(cells), small.shape)
    node = _condition(fact, small)
    found = select(node, small).cover(lambda place: codes[place].astype(np.int64), cells)
    inside = found.inside.reshape(small.shape)
    return CellsWhere(places, inside, found.touched.reshape(small.shape) & ~inside)


def with_cuts(axis: Axis, facts: Sequence[Fact], domain: Domain) -> Axis:
    """A numeric axis with an edge at every constant that a condition compares its values with."""
    if not axis.numeric:
        return axis
    ends = {end for fact in facts for end in _constants(fact, axis.name, domain)}
    inside = {end for end in ends if axis.edges[0] < end < axis.edges[-1]}
    return replace(axis, edges=tuple(sorted({*axis.edges, *inside})))


def exact_domain(facts: Sequence[Fact], columns: Mapping[str, Column], schema_name: str) -> Domain:
    """The columns of rules or totals, over parts that none of them cuts."""
    names = dict.fromkeys(name for fact in facts for name in fact.columns)
    axes = [resolve_axis(columns[name], schema_name=schema_name, default_bins=1) for name in names]
    whole = Domain(tuple(axes))
    return Domain(tuple(with_cuts(axis, facts, whole) for axis in axes))


def _constants(fact: Fact, name: str, domain: Domain) -> set[Any]:
    from dpublish.query.predicate import And, Leaf, Or

    if name not in fact.columns or not set(fact.columns) <= set(domain.names):
        return set()
    place = domain.names.index(name)
    out, left = set(), [_condition(fact, domain)]
    for node in left:
        if isinstance(node, And | Or):
            left.extend(node.parts)
        elif isinstance(node, Leaf) and node.axis == place:
            out |= {end for interval in node.intervals for end in interval if end is not None}
    return out


def _condition(fact: Fact, domain: Domain) -> Node:
    from dpublish.query.predicate import parse_predicate

    return parse_predicate(fact.condition, domain)
