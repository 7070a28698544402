"""Limits beside the counts of a SELECT: what `estimate` says of the rows that each line of the
result stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl
from sqlglot import exp

from dpublish.declare.columns import OTHER
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.estimate import Estimate, check_level
from dpublish.query.constants import Tree, bare, shown
from dpublish.query.predicate import And, Constant, Leaf, Node, parse_predicate, parse_select
from dpublish.query.sql import output_name
from dpublish.releases.frames import column_values, free_name, other_names

MAX_LINES = 2_000
"""Lines of a result with limits: each is a question of its own."""


class Ask(Protocol):
    """How many rows satisfy a condition: a release's own `estimate`."""

    def __call__(self, predicate: Node, /, *, level: float) -> Estimate: ...


@dataclass(frozen=True)
class _Group:
    """What a SELECT groups by: a column of the release, or the flag beside it that says where it is
    '(other)'."""

    place: int
    flag: bool


@dataclass(frozen=True)
class _Question:
    """What a SELECT counts: its condition, what it groups by, and its counts, by their names in the
    result."""

    where: Node | None
    groups: dict[str, _Group]
    counts: tuple[str, ...]


def with_limits(
    ask: Ask, domain: Domain, query: str, result: pl.DataFrame, level: float
) -> pl.DataFrame:
    """The result with two more columns after every count(*): NAME_low and NAME_high, which hold
    with probability `level`."""
    check_level(level)
    question = _question(query, domain)
    if result.height > MAX_LINES:
        raise QueryError(
            f"The result has {result.height:,} lines; limits are given for at most {MAX_LINES:,}. "
            f"Add a LIMIT."
        )
    known = {
        name: _by_value(group, domain.axes[group.place]) for name, group in question.groups.items()
    }
    ends: list[tuple[float, float]] = []
    for line in (
        result.select(list(question.groups)).iter_rows()
        if question.groups
        else [()] * result.height
    ):
        try:
            shown_codes = [
                known[name][value] for name, value in zip(question.groups, line, strict=True)
            ]
        except KeyError:  # the names of columns and of results were mixed
            raise QueryError(
                "Limits cannot tell which rows a line counts. Give no column the name of another."
            ) from None
        codes: dict[int, set[int]] = {}
        for group, some in zip(question.groups.values(), shown_codes, strict=True):
            codes[group.place] = (
                codes.get(group.place, some) & some
            )  # a column and its flag speak of the same codes
        parts: list[Node] = [
            _test(place, domain.axes[place], sorted(some)) for place, some in codes.items()
        ]
        parts += [question.where] if question.where is not None else []
        found = ask(And(tuple(parts)) if parts else Constant(True), level=level)
        ends.append((found.low, found.high))
    columns: list[pl.Series] = []
    for name in result.columns:
        columns.append(result[name])
        if name in question.counts:
            taken = (*result.columns, *(one.name for one in columns))
            # a condition that cuts a bin takes it by its middle here, and by its share in an
            # estimate
            low = [min(end[0], value) for end, value in zip(ends, result[name], strict=True)]
            high = [max(end[1], value) for end, value in zip(ends, result[name], strict=True)]
            columns.append(pl.Series(free_name(f"{name}_low", taken), low, dtype=pl.Float64))
            columns.append(pl.Series(free_name(f"{name}_high", taken), high, dtype=pl.Float64))
    return pl.DataFrame(columns)


def _question(query: str, domain: Domain) -> _Question:
    tree = parse_select(query)
    source = tree.args.get("from") or tree.args.get("from_")
    if tree.args.get("with") or tree.args.get("with_") or not isinstance(source.this, exp.Table):
        raise QueryError(
            "Limits are given for counts straight from release: leave out subqueries, or level."
        )
    grouped = tree.args["group"].expressions if tree.args.get("group") else []
    flags = {flag: name for name, flag in other_names(domain.axes).items()}
    names = [_column(item, (*domain.names, *flags)) for item in grouped]
    shown_as = {_plain(item): output_name(item) for item in tree.expressions}
    counts = tuple(output_name(item) for item in tree.expressions if _counts_rows(item))
    if not counts:
        raise QueryError(
            "Limits are given for count(*), which the query does not ask for. Add it, or leave "
            "level out."
        )
    groups: dict[str, _Group] = {}
    for name, item in zip(names, grouped, strict=True):
        label = next((label for plain, label in shown_as.items() if plain == name.lower()), None)
        if label is None:
            raise QueryError(
                f"Limits need to know which rows a line counts: select '{shown(item)}' too."
            )
        groups[label] = _Group(domain.names.index(flags.get(name, name)), name in flags)
    where = tree.args.get("where")
    return _Question(
        None if where is None else _condition(where.this, flags, domain), groups, counts
    )


def _condition(tree: Tree, flags: Mapping[str, str], domain: Domain) -> Node:
    """A WHERE as a predicate, which has no flags: it compares their columns with '(other)'."""
    columns = {
        flag.lower(): name
        for flag, name in flags.items()
        if flag.lower() not in map(str.lower, domain.names)
    }

    def plain(node: Tree) -> Tree:
        told = isinstance(node, exp.EQ | exp.Is) and isinstance(node.expression, exp.Boolean)
        flag = bare(node.this) if told else node
        if not isinstance(flag, exp.Column) or flag.name.lower() not in columns:
            return node
        column = exp.Column(this=exp.to_identifier(columns[flag.name.lower()], quoted=True))
        present = exp.Not(
            this=exp.Is(this=column.copy(), expression=exp.Null())
        )  # a flag is false, not unknown, of missing
        is_other = exp.And(
            this=present, expression=exp.EQ(this=column, expression=exp.Literal.string(OTHER))
        )
        return (
            exp.Paren(this=is_other)
            if not told or node.expression.this
            else exp.Not(this=exp.Paren(this=is_other))
        )

    return parse_predicate(tree.copy().transform(plain).sql(dialect="postgres"), domain)


def _column(item: Tree, names: Sequence[str]) -> str:
    item = bare(item)
    found = [
        name for name in names if isinstance(item, exp.Column) and name.lower() == item.name.lower()
    ]
    exact = [name for name in found if name == item.name]
    if not found:
        raise QueryError(
            f"Limits are given for counts by columns, and '{shown(item)}' is none. Leave level "
            f"out for it."
        )
    return (exact or found)[0]


def _plain(item: Tree) -> str:
    """The column that an item of the SELECT shows, in small letters; empty for anything else."""
    item = bare(item.this if isinstance(item, exp.Alias) else item)
    return str(item.name).lower() if isinstance(item, exp.Column) else ""


def _counts_rows(item: Tree) -> bool:
    item = bare(item.this if isinstance(item, exp.Alias) else item)
    return isinstance(item, exp.Count) and (
        item.this is None or isinstance(item.this, exp.Star | exp.Literal)
    )


def _by_value(group: _Group, axis: Axis) -> dict[Any, set[int]]:
    """For every value that a line can show, the codes of its rows. Null stands for all codes that
    have no value."""
    every = np.arange(axis.cardinality)
    values = (
        (every == axis.other_code).tolist() if group.flag else column_values(axis, every).to_list()
    )
    codes: dict[Any, set[int]] = {}
    for code, value in enumerate(values):
        codes.setdefault(value, set()).add(code)
    return codes


def _test(place: int, axis: Axis, codes: Sequence[int]) -> Leaf:
    declared = [code for code in codes if code < axis.base]
    other, missing = axis.other_code in codes, axis.missing_code in codes
    if not axis.numeric:
        flags = np.isin(np.arange(axis.base), declared)
        return Leaf(place, codes=flags, other=other, missing=missing)
    # the last bin of a real column holds its upper end
    ends = tuple(
        (axis.edges[code], axis.edges[code + 1] if code + 1 < axis.base else None)
        for code in declared
    )
    return Leaf(place, intervals=ends, other=other, missing=missing)
