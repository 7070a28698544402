"""Limits beside the counts of a SELECT: what `estimate` says of the rows that each line of the result stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl
from sqlglot import exp

from dpublish.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.public.constants import Tree, bare, shown
from dpublish.public.estimation import Estimate, check_level
from dpublish.public.frames import column_values, free_name
from dpublish.public.predicate import All, Constant, Leaf, Node, parse_predicate, parse_sql
from dpublish.public.sql import output_name

MAX_LINES = 2_000
"""Lines of a result with limits: each is a question of its own."""


class Ask(Protocol):
    """How many rows satisfy a condition: a release's own `estimate`."""

    def __call__(self, predicate: Node, /, *, level: float) -> Estimate: ...


@dataclass(frozen=True)
class _Question:
    """What a SELECT counts: its condition, the columns that it groups by, and its counts, by their names in the result."""

    where: Node | None
    groups: dict[str, int]
    counts: tuple[str, ...]


def with_limits(ask: Ask, domain: Domain, query: str, result: pl.DataFrame, level: float) -> pl.DataFrame:
    """The result with two more columns after every count(*): NAME_low and NAME_high, which hold with probability `level`."""
    check_level(level)
    question = _question(query, domain)
    if result.height > MAX_LINES:
        raise QueryError(f"The result has {result.height:,} lines; limits are given for at most {MAX_LINES:,}. Add a LIMIT.")
    axes = {name: domain.axes[place] for name, place in question.groups.items()}
    known = {name: _by_value(question.groups[name], axis) for name, axis in axes.items()}
    ends: list[tuple[float, float]] = []
    for line in result.select(list(question.groups)).iter_rows() if question.groups else [()] * result.height:
        try:
            parts: list[Node] = [known[name][value] for name, value in zip(question.groups, line, strict=True)]
        except KeyError:  # the names of columns and of results were mixed
            raise QueryError("Limits cannot tell which rows a line counts. Give no column the name of another.") from None
        parts += [question.where] if question.where is not None else []
        found = ask(All(tuple(parts)) if parts else Constant(True), level=level)
        ends.append((found.low, found.high))
    columns: list[pl.Series] = []
    for name in result.columns:
        columns.append(result[name])
        if name in question.counts:
            taken = (*result.columns, *(one.name for one in columns))
            # a condition that cuts a bin takes it by its middle here, and by its share in an estimate
            low = [min(end[0], value) for end, value in zip(ends, result[name], strict=True)]
            high = [max(end[1], value) for end, value in zip(ends, result[name], strict=True)]
            columns.append(pl.Series(free_name(f"{name}_low", taken), low, dtype=pl.Float64))
            columns.append(pl.Series(free_name(f"{name}_high", taken), high, dtype=pl.Float64))
    return pl.DataFrame(columns)


def _question(query: str, domain: Domain) -> _Question:
    tree = parse_sql(query)
    source = tree.args.get("from") or tree.args.get("from_")
    if tree.args.get("with") or tree.args.get("with_") or not isinstance(source.this, exp.Table):
        raise QueryError("Limits are given for counts straight from release: leave out subqueries, or level.")
    grouped = tree.args["group"].expressions if tree.args.get("group") else []
    names = [_column(item, domain) for item in grouped]
    shown_as = {_plain(item): output_name(item) for item in tree.expressions}
    counts = tuple(output_name(item) for item in tree.expressions if _counts_rows(item))
    if not counts:
        raise QueryError("Limits are given for count(*), which the query does not ask for. Add it, or leave level out.")
    groups: dict[str, int] = {}
    for name, item in zip(names, grouped, strict=True):
        label = next((label for plain, label in shown_as.items() if plain == name.lower()), None)
        if label is None:
            raise QueryError(f"Limits need to know which rows a line counts: select '{shown(item)}' too.")
        groups[label] = domain.names.index(name)
    where = tree.args.get("where")
    return _Question(None if where is None else parse_predicate(where.this.sql(dialect="postgres"), domain), groups, counts)


def _column(item: Tree, domain: Domain) -> str:
    item = bare(item)
    found = [name for name in domain.names if isinstance(item, exp.Column) and name.lower() == item.name.lower()]
    exact = [name for name in found if name == item.name]
    if not found:
        raise QueryError(f"Limits are given for counts by columns, and '{shown(item)}' is none. Leave level out for it.")
    return (exact or found)[0]


def _plain(item: Tree) -> str:
    """The column that an item of the SELECT shows, in small letters; empty for anything else."""
    item = bare(item.this if isinstance(item, exp.Alias) else item)
    return str(item.name).lower() if isinstance(item, exp.Column) else ""


def _counts_rows(item: Tree) -> bool:
    item = bare(item.this if isinstance(item, exp.Alias) else item)
    return isinstance(item, exp.Count) and (item.this is None or isinstance(item.this, exp.Star | exp.Literal))


def _by_value(place: int, axis: Axis) -> dict[Any, Leaf]:
    """For every value that a line can show, the test that its rows pass. Null stands for all codes that have no value."""
    codes: dict[Any, list[int]] = {}
    for code, value in enumerate(column_values(axis, np.arange(axis.cardinality)).to_list()):
        codes.setdefault(value, []).append(code)
    return {value: _test(place, axis, some) for value, some in codes.items()}


def _test(place: int, axis: Axis, codes: Sequence[int]) -> Leaf:
    declared = [code for code in codes if code < axis.base]
    other, missing = axis.other_code in codes, axis.missing_code in codes
    if not axis.numeric:
        flags = np.isin(np.arange(axis.base), declared)
        return Leaf(place, codes=flags, other=other, missing=missing)
    # the last bin of a real column holds its upper end
    ends = tuple((axis.edges[code], axis.edges[code + 1] if code + 1 < axis.base else None) for code in declared)
    return Leaf(place, intervals=ends, other=other, missing=missing)
