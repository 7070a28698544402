"""Facts about all rows, declared in the schema: rules that every row obeys, and totals.

Rules are structural zeros of a table:

    [[rules]]
    if = "age < 15"
    then = "married = 'no'"

A rule is a public fact. A row breaks it when `if` is true of it and `then` is false; of a missing
cell neither is known, and nothing is broken. Rows that break a rule are left out, each by itself,
and what the rule makes impossible has no people in the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.columns import Column
from dpublish.declare.domain import Axis, Domain, resolve_axis
from dpublish.errors import QueryError, SchemaError, did_you_mean, refuse

if TYPE_CHECKING:
    from dpublish.query.predicate import Node

MAX_RULES = 64
MAX_RULE_COLUMNS = 4
MAX_RULE_CELLS = 1 << 24
"""Combinations of values of the columns of one rule."""
_KEYS = {"if", "then", "source"}


class Fact(Protocol):
    """What is declared of the rows that satisfy a condition over a few columns: a rule says that
    there are none, a total how many there are."""

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

    def to_manifest(self) -> dict[str, Any]:
        return {**self.to_dict(), "columns": list(self.columns)}

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
    domain = _coarse(columns.values(), schema_name)
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
        rule = rule_of(table["if"], table["then"], domain, where)
        if _broken_by_all(rule, columns, schema_name):
            raise SchemaError(
                f"{where}: every row breaks '{rule.describe()}', so that a release would leave out "
                "all of them. Mend its constants."
            )
        out.append(replace(rule, source=table.get("source", "")))
    return tuple(out)


def rule_of(given: str, then: str, domain: Domain, where: str) -> Rule:
    """A rule over the columns of a domain, checked."""
    from dpublish.query.predicate import columns_of, parse_predicate

    try:
        named = [columns_of(parse_predicate(text, domain)) for text in (given, then)]
    except QueryError as error:
        raise SchemaError(f"{where}: {error}") from None
    places = sorted(named[0] | named[1])
    refuse(
        SchemaError,
        (not all(named), f"{where}: if and then must each name a column."),
        (
            len(places) > MAX_RULE_COLUMNS,
            f"{where} names more than {MAX_RULE_COLUMNS} columns.",
        ),
    )
    return Rule(given, then, tuple(domain.names[place] for place in places))


def _broken_by_all(rule: Rule, columns: Mapping[str, Column], schema_name: str) -> bool:
    """Whether no declared value can obey a rule."""
    domain = exact_domain([rule], columns, schema_name)
    if math.prod(domain.shape) > MAX_RULE_CELLS:
        return False
    found = cells_where(rule, domain)
    return found is not None and bool(found.cells.all())


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
    inside = (end for end in ends if axis.edges[0] < end < axis.edges[-1])
    return replace(axis, edges=tuple(sorted({*axis.edges, *inside})))


def cut_bins(rules: Sequence[Rule], columns: Mapping[str, Column], schema_name: str) -> list[Rule]:
    """The rules that compare with a number inside a declared bin, so that counts of such bins do
    not tell which rows break them."""
    out = []
    for rule in rules:
        named = [columns[name] for name in rule.columns]
        whole = _coarse(named, schema_name)
        pairs = zip(named, whole.axes, strict=True)
        parts = Domain(
            tuple(
                axis if one.bins or one.edges else with_cuts(axis, [rule], whole)
                for one, axis in pairs
            )
        )
        found = cells_where(rule, parts)
        if found is not None and found.cut.any():
            out.append(rule)
    return out


def exact_domain(facts: Sequence[Fact], columns: Mapping[str, Column], schema_name: str) -> Domain:
    """The columns of rules or totals, over parts that none of them cuts."""
    names = dict.fromkeys(name for fact in facts for name in fact.columns)
    whole = _coarse([columns[name] for name in names], schema_name)
    return Domain(tuple(with_cuts(axis, facts, whole) for axis in whole.axes))


def _coarse(columns: Iterable[Column], schema_name: str) -> Domain:
    """Columns with one bin each where they declare none."""
    return Domain(
        tuple(resolve_axis(one, schema_name=schema_name, default_bins=1) for one in columns)
    )


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


# Public totals, declared in the schema: how many rows there are, or satisfy a condition.
#
#     [[totals]]
#     rows = 21790
#     where = "sex = 'female'"
#     source = "census 2021, table 3"
#
# A total is a number that is known without these rows, and its source says from where. It is never
# counted. Without `where` it is that of all rows. Totals that contradict each other, the declared
# size or a rule are refused with the schema.


MAX_TOTALS = 256
MAX_TOTAL = 1 << 48
MAX_ATOMS = 1 << 16
"""Combinations of values that totals and rules of the same columns tell apart, together."""
_TOTAL_KEYS = {"rows", "where", "source"}
_OF_SINGLE_ROWS = {"values", "values_file", "column", "columns", "file", "per_row", "table"}


@dataclass(frozen=True)
class Total:
    """`rows` rows satisfy `where` (all of them where that is empty), and `source` says so;
    `columns` are those that it names."""

    rows: int
    source: str
    where: str = ""
    columns: tuple[str, ...] = ()

    @property
    def condition(self) -> str:
        return self.where

    def to_dict(self) -> dict[str, Any]:
        where = {"where": self.where} if self.where else {}
        return {"rows": self.rows, **where, "source": self.source}

    def describe(self) -> str:
        which = f"with {self.where}" if self.where else "in all"
        return f"{self.rows:,} rows {which} ({self.source})"


def read_totals(
    listed: Any,
    columns: Mapping[str, Column],
    *,
    schema_name: str,
    unit: str | None = None,
    rules: Sequence[Rule] = (),
    size: int | None = None,
) -> tuple[Total, ...]:
    """The [[totals]] of a schema. `size` is the declared number of rows, where units are rows."""
    if not isinstance(listed, list) or len(listed) > MAX_TOTALS:
        raise SchemaError(
            f"totals are written as [[totals]] tables with rows and source, at most {MAX_TOTALS} "
            "of them."
        )
    domain = _coarse(columns.values(), schema_name)
    out = []
    for number, table in enumerate(listed, start=1):
        where = f"[[totals]], number {number}"
        if not isinstance(table, Mapping):
            raise SchemaError(f'{where} must be a table with rows = ... and source = "...".')
        _refuse_values_of_rows(table, where)
        for key in table:
            if key not in _TOTAL_KEYS:
                raise SchemaError(f"{where}: unknown key '{key}'.{did_you_mean(key, _TOTAL_KEYS)}")
        out.append(
            total_of(table.get("rows"), table.get("where", ""), table.get("source"), domain, where)
        )
    for one in out:
        if unit in one.columns:
            raise SchemaError(
                f"The total '{one.describe()}' speaks of single units ('{unit}'). {_NOT_PROTECTED}"
            )
    if said := contradiction(out, rules, columns, schema_name=schema_name, size=size):
        raise SchemaError(said)
    return tuple(out)


def total_of(rows: Any, where: Any, source: Any, domain: Domain, place: str) -> Total:
    """A total over the columns of a domain, checked."""
    from dpublish.query.predicate import columns_of, parse_predicate

    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows <= MAX_TOTAL:
        raise SchemaError(f"{place}: rows must be a whole number from 0 to {MAX_TOTAL:,}.")
    for key, text in (("source", source), ("where", where or "all")):
        if not isinstance(text, str) or not text.strip() or not text.isprintable():
            more = ": where the number is published, or who stands for it" * (key == "source")
            raise SchemaError(f'{place} needs {key} = "...", a line of text{more}.')
    if not where:
        return Total(rows, source)
    try:
        named = sorted(columns_of(parse_predicate(where, domain)))
    except QueryError as error:
        raise SchemaError(f"{place}: {error}") from None
    if not named or len(named) > MAX_RULE_COLUMNS:
        raise SchemaError(
            f"{place}: where must name one to {MAX_RULE_COLUMNS} columns; leave it out for the "
            "number of all rows."
        )
    return Total(rows, source, where, tuple(domain.names[column] for column in named))


_NOT_PROTECTED = (
    "Public values of single rows would say who is in the data, and no guarantee covers what is "
    "public: a total is a number of many rows."
)


def _refuse_values_of_rows(table: Mapping[str, Any], where: str) -> None:
    single = sorted(_OF_SINGLE_ROWS & set(table))
    if single or isinstance(table.get("rows"), list | Mapping | str):
        raise SchemaError(f"{where}: '{(single or ['rows'])[0]}' is refused. {_NOT_PROTECTED}")


def contradiction(
    totals: Sequence[Total],
    rules: Sequence[Rule],
    columns: Mapping[str, Column],
    *,
    schema_name: str,
    size: int | None,
) -> str | None:
    """What is wrong with totals that no table of rows has, together with the rules; None where some
    table has them (fractions of rows allowed).

    Columns that a fact names together are looked at together, over the combinations of values that
    facts tell apart; all of them have the same number of rows. A linear program finds the least
    number of rows by which the totals miss each other.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    whole = {one.rows for one in totals if not one.where} | ({size} if size is not None else set())
    if len(whole) > 1:
        return f"The number of all rows is declared as {' and as '.join(map(str, sorted(whole)))}."
    if not any(one.where for one in totals):
        return None
    groups = _together([*(one for one in totals if one.where), *rules])
    # of every group of facts: all its combinations are all rows, and those of a fact are its rows
    blocks = [_atoms(some, columns, schema_name) for some in groups]
    atoms = sparse.block_diag([np.vstack([np.ones(cells.shape[1]), cells]) for cells in blocks])
    facts = [fact for some in groups for fact in (None, *some)]
    right = [float(fact.rows) if isinstance(fact, Total) else 0.0 for fact in facts]
    all_rows = np.array([[-1.0 if fact is None else 0.0] for fact in facts])
    missed = np.array([isinstance(fact, Total) for fact in facts])
    slack = sparse.identity(len(facts), format="csc")[:, missed]
    matrix = sparse.hstack([all_rows, atoms, slack, -slack]).tocsr()
    price = np.zeros(matrix.shape[1])
    price[-2 * slack.shape[1] :] = 1.0
    bounds: list[tuple[float, float | None]] = [(0.0, None)] * len(price)
    if whole:
        bounds[0] = (float(next(iter(whole))),) * 2
    found = linprog(price, A_eq=matrix, b_eq=right, bounds=bounds, method="highs")
    if found.status == 0 and found.fun <= max(1e-3, 1e-9 * max(right)):
        return None
    off = np.zeros(len(facts))
    if found.status == 0:
        off[missed] = found.x[-2 * slack.shape[1] :].reshape(2, -1).sum(axis=0)
    worst = [fact for fact, by in zip(facts, off, strict=True) if fact is not None and by > 1e-4]
    shown = "; ".join(one.describe() for one in (worst or totals)[:3])
    known = f" There are {next(iter(whole)):,} rows." if whole else ""
    return f"The totals contradict each other, or the rules: no table has {shown}.{known}"


def _together(facts: Sequence[Fact]) -> list[list[Fact]]:
    """Facts that share columns, directly or through others."""
    out: list[tuple[set[str], list[Fact]]] = []
    for fact in facts:
        names, some = set(fact.columns), [fact]
        for other in [one for one in out if one[0] & names]:
            out.remove(other)
            names, some = names | other[0], [*other[1], *some]
        out.append((names, some))
    return [some for _, some in out]


def _atoms(
    facts: Sequence[Fact], columns: Mapping[str, Column], schema_name: str
) -> NDArray[np.bool_]:
    """Facts x combinations of values that they tell apart: which satisfy which."""
    domain = exact_domain(facts, columns, schema_name)
    cells = [cells_where(fact, domain) for fact in facts]
    patterns: list[NDArray[np.int64]] = []
    for place, levels in enumerate(domain.shape):
        seen = [
            np.moveaxis(one.cells, one.places.index(place), 0).reshape(levels, -1)
            for one in cells
            if one is not None and place in one.places
        ]
        _, first = np.unique(np.hstack(seen), axis=0, return_index=True)
        patterns.append(np.sort(first))
    shape = [len(pattern) for pattern in patterns]
    if math.prod(shape) > MAX_ATOMS:
        raise SchemaError(
            f"The totals and rules about {', '.join(domain.names)} tie together "
            f"{math.prod(shape):,} combinations of values; at most {MAX_ATOMS:,} are looked at. "
            "Declare fewer of them."
        )
    out = []
    for one in cells:
        assert one is not None
        table = one.cells[np.ix_(*(patterns[place] for place in one.places))]
        wide = [shape[place] if place in one.places else 1 for place in range(len(shape))]
        spread = table.transpose(np.argsort(one.places)).reshape(wide)
        out.append(np.broadcast_to(spread, shape).ravel())
    return np.stack(out)
