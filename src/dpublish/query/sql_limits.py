"""Limits beside the aggregates of a SELECT: what the release's own estimates say of the rows that
each line of the result stands for.

Counts have `_low` and `_high`; sums, means and what is computed from them also a `_note`, which
says what the limits rest on or why there are none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl
from sqlglot import exp

from dpublish.declare.columns import OTHER
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.estimate import Estimate, check_level
from dpublish.query.aggregates import Chosen, chosen_by
from dpublish.query.constants import Tree, bare, shown
from dpublish.query.expressions import expression_chosen, expression_keys
from dpublish.query.predicate import And, Constant, Leaf, Node, parse_predicate, parse_select
from dpublish.query.sql import output_name
from dpublish.releases.frames import column_values, free_name, other_names

MAX_LINES = 2_000
"""Lines of a result with limits: each is a question of its own."""
_AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)
_EXTREMES = (
    "no limits: the least and the greatest value of the release's table, where noise may have put "
    "or taken one"
)
_UNKNOWN = "no limits are worked out for this expression; ask for its aggregates one by one"
Where = Node | Chosen


class Asked(Protocol):
    """A release that gives estimates of rows that were read already."""

    @property
    def domain(self) -> Domain: ...

    def count_of(self, where: Where, level: float) -> Estimate: ...

    def aggregate_of(self, kind: str, tree: Tree, where: Where, level: float) -> Estimate: ...


@dataclass(frozen=True)
class _Group:
    """What a SELECT groups by: for every value that a line can show, the cells of its rows."""

    place: int | None
    """The column, where it is one; codes of a column and of its flag are looked for together."""
    codes: dict[Any, set[int]]
    keys: dict[Any, Chosen]


@dataclass(frozen=True)
class _Question:
    """What a SELECT asks: its condition, what it groups by, and its aggregates, by their names in
    the result."""

    where: Where | None
    groups: dict[str, _Group]
    items: dict[str, Tree]


def with_limits(release: Asked, query: str, result: pl.DataFrame, level: float) -> pl.DataFrame:
    """The result with more columns after every aggregate NAME: NAME_low and NAME_high, which hold
    with probability `level`, and unless it is a count NAME_note."""
    check_level(level)
    domain = release.domain
    question = _question(query, domain)
    if result.height > MAX_LINES:
        raise QueryError(
            f"The result has {result.height:,} lines; limits are given for at most {MAX_LINES:,}. "
            f"Add a LIMIT."
        )
    lines = (
        result.select(list(question.groups)).iter_rows()
        if question.groups
        else [()] * result.height
    )
    rows = [_rows(question, domain, line) for line in lines]
    columns: list[pl.Series] = []
    for name in result.columns:
        if name not in question.items:
            columns.append(result[name])
            continue
        tree = question.items[name]
        found = [_limits(release, tree, where, level) for where in rows]
        low, high, notes = (
            [first for first, _, _ in found],
            [last for _, last, _ in found],
            [note for _, _, note in found],
        )
        columns.append(_within(result[name], low, high))
        taken = (*result.columns, *(one.name for one in columns))
        columns.append(pl.Series(free_name(f"{name}_low", taken), low, dtype=pl.Float64))
        columns.append(pl.Series(free_name(f"{name}_high", taken), high, dtype=pl.Float64))
        if not _counts_rows(tree):
            note = free_name(f"{name}_note", taken)
            columns.append(pl.Series(note, notes, dtype=pl.String))
    return pl.DataFrame(columns)


def aggregates_of(query: str, domain: Domain) -> dict[str, tuple[Tree, frozenset[int]]] | None:
    """The sums and means of a query by name, each with the columns that it rests on; None for a
    query that limits cannot be given for."""
    try:
        question = _question(query, domain)
    except QueryError:
        return None
    from dpublish.query.expressions import places_in
    from dpublish.query.predicate import columns_of

    shared: set[int] = set()
    if question.where is not None:
        where = question.where
        shared |= {*(where.places if isinstance(where, Chosen) else columns_of(where))}
    for group in question.groups.values():
        shared |= {group.place} if group.place is not None else set()
        shared |= {place for one in group.keys.values() for place in one.places}
    return {
        name: (tree, frozenset({*shared, *places_in(tree, domain)}))
        for name, tree in question.items.items()
        if not _counts_rows(tree)
    }


def _within(
    values: pl.Series, low: Sequence[float | None], high: Sequence[float | None]
) -> pl.Series:
    """Values between their limits, as estimates are: SQL adds up weights, which know neither the
    public number of rows nor that counts are not negative, and takes a cut bin by its middle."""
    if not values.dtype.is_numeric():
        return values
    inside = [
        value if value is None or first is None or last is None else min(max(value, first), last)
        for value, first, last in zip(values.to_list(), low, high, strict=True)
    ]
    whole = all(value is None or float(value).is_integer() for value in inside)
    kind = values.dtype if whole and values.dtype.is_integer() else pl.Float64
    return pl.Series(values.name, inside, dtype=kind, strict=False)


def _limits(
    release: Asked, tree: Tree, where: Where, level: float
) -> tuple[float | None, float | None, str]:
    """Limits of one aggregate, or of what is computed from several, and what they rest on."""
    parts = [tree] if isinstance(tree, _AGGREGATES) else list(tree.find_all(*_AGGREGATES))
    if any(isinstance(part, exp.Min | exp.Max) for part in parts):
        return None, None, _EXTREMES
    each = 1 - (1 - level) / max(1, len(parts))
    notes: dict[str, None] = {}

    def of(part: Tree) -> tuple[float, float]:
        if isinstance(part, exp.Count):
            rows = where if _counts_rows(part) else _known(part.this, where, release.domain)
            one = release.count_of(rows, each)
        else:
            kind = "sum" if isinstance(part, exp.Sum) else "mean"
            one = release.aggregate_of(kind, part.this, where, each)
        notes.update({one.note: None} if one.note else {})
        return one.low, one.high

    try:
        low, high = _range(tree, of)
    except QueryError as error:
        if _counts_rows(tree):
            raise
        return None, None, f"no limits: {error}"
    return low, high, "; ".join(notes)


def _range(tree: Tree, of: Callable[[Tree], tuple[float, float]]) -> tuple[float, float]:
    """The range of arithmetic over aggregates."""
    tree = bare(tree)
    if isinstance(tree, _AGGREGATES):
        return of(tree)
    if isinstance(tree, exp.Literal) and not tree.is_string:
        return float(tree.this), float(tree.this)
    if isinstance(tree, exp.Neg):
        low, high = _range(tree.this, of)
        return -high, -low
    if isinstance(tree, exp.Round | exp.Cast):
        return _range(tree.this, of)
    share = _share_of(tree)
    if share is not None:
        # a share is known better than its parts: they miss together
        low, high = of(exp.Avg(this=share[0]))
        return min(low * share[1], high * share[1]), max(low * share[1], high * share[1])
    if isinstance(tree, exp.Add | exp.Sub | exp.Mul | exp.Div):
        first, second = _range(tree.this, of), _range(tree.expression, of)
        if isinstance(tree, exp.Add):
            return first[0] + second[0], first[1] + second[1]
        if isinstance(tree, exp.Sub):
            return first[0] - second[1], first[1] - second[0]
        if isinstance(tree, exp.Div):
            if second[0] <= 0 <= second[1]:
                # a number of rows may be none; what is not negative stays so
                least = first[0] / second[1] if first[0] >= 0 < second[1] else -math.inf
                return least, math.inf
            second = 1 / second[1], 1 / second[0]
        ends = [a * b for a in first for b in second]
        return min(ends), max(ends)
    raise QueryError(_UNKNOWN)


def _share_of(tree: Tree) -> tuple[Tree, float] | None:
    """The CASE and the factor of: factor * sum(case when ... then 1 else 0 end) / count(*)."""
    if not isinstance(tree, exp.Div) or not _counts_rows(bare(tree.expression)):
        return None
    factor, top = 1.0, bare(tree.this)
    if isinstance(top, exp.Mul):
        sides = [bare(top.this), bare(top.expression)]
        numbers = [isinstance(side, exp.Literal) and not side.is_string for side in sides]
        if sum(numbers) != 1:
            return None
        factor, top = float(sides[numbers.index(True)].this), sides[numbers.index(False)]
    case = bare(top.this) if isinstance(top, exp.Sum) else None
    if not isinstance(case, exp.Case) or case.args.get("default") is None:
        return None
    ends = [*(branch.args.get("true") for branch in case.args["ifs"]), case.args["default"]]
    return (case, factor) if all(isinstance(end, exp.Literal) for end in ends) else None


def _known(tree: Tree, where: Where, domain: Domain) -> Where:
    """Of some rows, those whose value of a column is not null."""
    column = bare(tree)
    place = domain.names.index(_column(column, domain.names))
    axis = domain.axes[place]
    every = range(axis.base + int(axis.other and not axis.numeric))
    return _both(where, _test(place, axis, list(every)), domain)


def _both(first: Where, second: Where, domain: Domain) -> Where:
    if not isinstance(first, Chosen) and not isinstance(second, Chosen):
        return And((first, second))
    one, other = (
        part if isinstance(part, Chosen) else chosen_by(part, domain) for part in (first, second)
    )
    places = tuple(sorted({*one.places, *other.places}))
    shape = tuple(domain.axes[place].cardinality for place in places)
    if math.prod(shape) > 1 << 20:
        raise QueryError("The query names too many values of too many columns for limits.")
    one, other = one.over(places, shape), other.over(places, shape)
    return Chosen(
        places, one.inside & other.inside, one.touched & other.touched, one.share * other.share
    )


def _rows(question: _Question, domain: Domain, line: tuple[Any, ...]) -> Where:
    """The rows that a line of the result stands for."""
    codes: dict[int, set[int]] = {}
    found: Where | None = None
    for group, value in zip(question.groups.values(), line, strict=True):
        if value not in (group.codes if group.place is not None else group.keys):
            # the names of columns and of results were mixed
            raise QueryError(
                "Limits cannot tell which rows a line counts. Give no column the name of another."
            )
        if group.place is not None:
            # a column and its flag speak of the same codes
            some = group.codes[value]
            codes[group.place] = codes.get(group.place, some) & some
        else:
            one = group.keys[value]
            found = one if found is None else _both(found, one, domain)
    parts: list[Node] = [
        _test(place, domain.axes[place], sorted(some)) for place, some in codes.items()
    ]
    if question.where is not None:
        if isinstance(question.where, Chosen):
            found = question.where if found is None else _both(found, question.where, domain)
        else:
            parts.append(question.where)
    node: Node = And(tuple(parts)) if parts else Constant(True)
    return node if found is None else _both(node, found, domain)


def _question(query: str, domain: Domain) -> _Question:
    tree = parse_select(query)
    source = tree.args.get("from") or tree.args.get("from_")
    if tree.args.get("with") or tree.args.get("with_") or not isinstance(source.this, exp.Table):
        raise QueryError(
            "Limits are given for counts straight from release: leave out subqueries, or level."
        )
    grouped = tree.args["group"].expressions if tree.args.get("group") else []
    flags = {flag: name for name, flag in other_names(domain.axes).items()}
    items = {output_name(item): _unnamed(item) for item in tree.expressions}
    aggregated = {name: item for name, item in items.items() if item.find(*_AGGREGATES)}
    if not aggregated:
        raise QueryError(
            "Limits are given for count(*), sums and means, which the query does not ask for. Add "
            "one, or leave level out."
        )
    groups: dict[str, _Group] = {}
    for item in grouped:
        label, item = _shown_as(bare(item), items)
        plain = _column_or_none(item, (*domain.names, *flags))
        if plain is not None:
            place = domain.names.index(flags.get(plain, plain))
            by_value = _by_value(domain.axes[place], flag=plain in flags)
            groups[label] = _Group(place, by_value, {})
        else:
            groups[label] = _Group(None, {}, expression_keys(item, domain))
    where = tree.args.get("where")
    return _Question(
        None if where is None else _read(where.this, flags, domain), groups, aggregated
    )


def _read(tree: Tree, flags: Mapping[str, str], domain: Domain) -> Where:
    """A WHERE as a predicate, or else by working it out for every cell."""
    try:
        return _condition(tree, flags, domain)
    except QueryError:
        return expression_chosen(tree, domain)


def _shown_as(item: Tree, items: Mapping[str, Tree]) -> tuple[str, Tree]:
    """The name in the result of what is grouped by, and what it is: a column, an expression, the
    name of one, or its number."""
    if isinstance(item, exp.Literal) and not item.is_string:
        place = int(item.this) - 1
        if 0 <= place < len(items):
            return list(items.items())[place]
    for name, shown_item in items.items():
        same = isinstance(item, exp.Column) and isinstance(shown_item, exp.Column)
        if same and shown_item.name.lower() == item.name.lower():
            return name, item
        if not same and _spelled(shown_item) == _spelled(item):
            return name, shown_item
    for name, shown_item in items.items():
        if isinstance(item, exp.Column) and name.lower() == item.name.lower():
            return name, shown_item
    raise QueryError(f"Limits need to know which rows a line counts: select '{shown(item)}' too.")


def _spelled(tree: Tree) -> str:
    return str(bare(tree).sql(dialect="postgres", normalize=True)).lower()


def _unnamed(item: Tree) -> Tree:
    return bare(item.this if isinstance(item, exp.Alias) else item)


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


def _column_or_none(item: Tree, names: Sequence[str]) -> str | None:
    found = [
        name for name in names if isinstance(item, exp.Column) and name.lower() == item.name.lower()
    ]
    return next((name for name in found if name == item.name), found[0] if found else None)


def _column(item: Tree, names: Sequence[str]) -> str:
    found = _column_or_none(item, names)
    if found is None:
        raise QueryError(f"count({shown(item)}) is worked out for columns only.")
    return found


def _counts_rows(item: Tree) -> bool:
    return isinstance(item, exp.Count) and (
        item.this is None or isinstance(item.this, exp.Star | exp.Literal)
    )


def _by_value(axis: Axis, *, flag: bool) -> dict[Any, set[int]]:
    """For every value that a line can show, the codes of its rows. Null stands for all codes that
    have no value."""
    every = np.arange(axis.cardinality)
    values = (every == axis.other_code).tolist() if flag else column_values(axis, every).to_list()
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
