"""What a release says of a SELECT: its own estimates where sums of weights stood, with limits and
notes beside them.

Every aggregate NAME is followed by NAME_low and NAME_high, and by NAME_note, which says what the
limits rest on or why there are none. Plain counts have a note only where there is something to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from sqlglot import exp

from dpublish.declare.calendar import FIRST, series_of
from dpublish.declare.columns import OTHER
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.estimate import Estimate, check_level
from dpublish.query.aggregates import Chosen, both, chosen_by
from dpublish.query.constants import Tree, bare, shown
from dpublish.query.expressions import constant_condition, expression_chosen, expression_keys
from dpublish.query.predicate import Constant, Leaf, Node, parse_predicate
from dpublish.query.sql import Ran, run_asked
from dpublish.query.sql_groups import AGGREGATES, Grouped, share_of, spelled
from dpublish.releases.frames import column_values, free_name, other_names

MAX_LINES = 2_000
"""Lines of a result with limits: each is a question of its own."""
LEVEL = 0.95
COUNTED = "counted: the interval covers the noise"
_EXTREMES = (
    "no limits: the least and the greatest value of the release's table, where noise may have put "
    "or taken one"
)
_UNKNOWN = "no limits are worked out for this expression; ask for its aggregates one by one"
_APART = (
    "no limits: made from the lines of a subquery. Ask for aggregates straight from release for "
    "limits"
)
_WEIGHTS = "The number adds up the weights of the release"
_NOBODY = "no value: there may be no such rows"
_MANY = f"no limits: there are more than {MAX_LINES:,} lines. Add a LIMIT"
_DISTINCT = "no limits: lines that look the same are shown once. Leave out DISTINCT"
Where = Node | Chosen
Limits = tuple[float | None, float | None, str]


class Says(Protocol):
    """A release that gives estimates of the rows that a line of a result stands for. What it takes
    for rows is its own affair; a QueryError says why it has no answer."""

    def rows(self, asked: Grouped, lines: pl.DataFrame) -> Sequence[Any]:
        """The rows of every line."""
        ...

    def more(self, asked: Grouped, lines: pl.DataFrame) -> pl.DataFrame:
        """Lines that the release can speak of beside those of its own table."""
        ...

    def count(self, rows: Any, level: float) -> Estimate: ...

    def known(self, tree: Tree, rows: Any) -> Any:
        """Of some rows, those for which an expression has a value."""
        ...

    def aggregate(self, kind: str, tree: Tree, rows: Any, level: float) -> Estimate: ...

    def quantile(self, tree: Tree, share: float, rows: Any, level: float) -> Estimate: ...


def answer_sql(
    says: Says,
    query: str,
    frame: pl.DataFrame,
    columns: tuple[str, ...],
    axes: Sequence[Axis],
    level: float | None,
) -> pl.DataFrame:
    """Answer a SELECT over `frame` (see `run_sql`) with what the release says; without a level, the
    numbers alone."""
    answers = _Answers(says, LEVEL if level is None else check_level(level))
    ran = run_asked(query, frame, columns, axes, answers.ask)
    if ran.lines is not None and ran.lines.height > MAX_LINES:
        ran = answers.shown_lines(ran)
    return answers.with_moments(ran) if level is None else answers.with_limits(ran)


class _Answers:
    """The estimates of one query."""

    def __init__(self, says: Says, level: float) -> None:
        self.says, self.level = says, level
        self._found: dict[tuple[str, int, float], Estimate] = {}
        self._rows: Sequence[Any] | None = None
        self._spelled: dict[int, tuple[Tree, str]] = {}
        self._problem = ""

    def ask(self, asked: Grouped, lines: pl.DataFrame) -> pl.DataFrame:
        """The lines with estimates instead of sums of weights, where there are any."""
        self._found, self._rows, self._problem = {}, None, ""
        if lines.height > MAX_LINES:
            self._problem = f"{_MANY}. {_WEIGHTS}"
            return lines
        try:
            lines = self._with_more(asked, lines)
            self._rows = self.says.rows(asked, lines)
        except QueryError as error:
            self._problem = f"no limits: {str(error).rstrip('.')}. {_WEIGHTS}"
            return lines
        made = []
        for name, tree in asked.aggregates.items():
            if isinstance(tree, exp.Min | exp.Max):
                continue
            try:
                values = [self.one(tree, place, self.level).value for place in range(lines.height)]
            except QueryError:
                continue
            made.append(pl.Series(name, values, dtype=pl.Float64))
        self._refuse_reckoning(asked)
        return lines.with_columns(made)

    def _with_more(self, asked: Grouped, lines: pl.DataFrame) -> pl.DataFrame:
        """Also the lines that the release alone knows of, if it can answer all that is asked of
        them."""
        more = self.says.more(asked, lines)
        known = [not isinstance(one, exp.Min | exp.Max) for one in asked.aggregates.values()]
        if not more.height or not known or not all(known):
            return lines
        for number, rows in enumerate(self.says.rows(asked, more)):
            try:
                for tree in asked.aggregates.values():
                    self._asked(tree, rows, self.level)
            except QueryError:
                continue
            lines = pl.concat([lines, more[number : number + 1]])
        return lines

    def _refuse_reckoning(self, asked: Grouped) -> None:
        """A quantile of dates is a date: nothing can be added to it or divided by."""
        for tree in asked.items.values():
            for part in tree.find_all(exp.Quantile):
                if part is not bare(tree) and self._calendar(part) is not None:
                    raise QueryError(
                        f"'{shown(tree)}' computes something from a quantile of dates or times. "
                        f"Ask for {shown(part)} itself."
                    )

    def one(self, tree: Tree, place: int, level: float) -> Estimate:
        """One aggregate of one line."""
        assert self._rows is not None
        if id(tree) not in self._spelled:  # once, not for every line
            self._spelled[id(tree)] = (tree, spelled(tree))
        key = (self._spelled[id(tree)][1], place, level)
        if key not in self._found:
            self._found[key] = self._asked(tree, self._rows[place], level)
        return self._found[key]

    def _asked(self, tree: Tree, rows: Any, level: float) -> Estimate:
        if isinstance(tree, exp.Count):
            counted = rows if counts_rows(tree) else self.says.known(tree.this, rows)
            return self.says.count(counted, level)
        if isinstance(tree, exp.Quantile):
            return self.says.quantile(tree.this, share_of(tree), rows, level)
        number = number_or_none(tree.this)
        if number is not None:
            return self._of_constant(tree, number, rows, level)
        kind = "sum" if isinstance(tree, exp.Sum) else "mean"
        return self.says.aggregate(kind, tree.this, rows, level)

    def _of_constant(self, tree: Tree, number: float, rows: Any, level: float) -> Estimate:
        one = self.says.count(rows, level)
        if isinstance(tree, exp.Avg):
            return replace(one, value=number, low=number, high=number, measure="mean")
        value, low, high = (number * end for end in (one.value, one.low, one.high))
        return replace(one, value=value, low=low, high=high, measure="sum")

    def shown_lines(self, ran: Ran) -> Ran:
        """Of too many lines, estimates for those that the query shows: they were chosen by sums of
        weights."""
        if ran.asked is None or ran.lines is None or ran.again is None:
            return ran
        if ran.places is None or len(ran.places) > MAX_LINES:
            return ran
        kept = ran.lines[sorted(ran.places)].drop(ran.asked.line)
        return ran.again(self.ask(ran.asked, kept).with_row_index(ran.asked.line))

    def with_limits(self, ran: Ran) -> pl.DataFrame:
        columns: list[pl.Series] = []
        for name in ran.frame.columns:
            values = ran.frame[name]
            taken = (*ran.frame.columns, *(one.name for one in columns))
            note = free_name(f"{name}_note", taken)
            if name not in ran.derived:
                columns.append(values)
                continue
            if ran.asked is None or name not in ran.asked.items:
                columns += [values, pl.Series(note, [_APART] * len(values), dtype=pl.String)]
                continue
            tree = ran.asked.items[name]
            places = [None] * len(values) if ran.places is None else ran.places
            found = [self._limits(tree, place) for place in places]
            low, high = [one[0] for one in found], [one[1] for one in found]
            notes = [
                one[2] if value is not None or one[2] else _NOBODY
                for value, one in zip(values.to_list(), found, strict=True)
            ]
            three = [
                _within(values, low, high),
                pl.Series(free_name(f"{name}_low", taken), low, dtype=pl.Float64),
                pl.Series(free_name(f"{name}_high", taken), high, dtype=pl.Float64),
            ]
            kind = self._calendar(tree)
            columns += three if kind is None else [_moments(one, kind) for one in three]
            if not counts_rows(tree) or any(one and not one.startswith(COUNTED) for one in notes):
                columns.append(pl.Series(note, notes, dtype=pl.String))
        return pl.DataFrame(columns)

    def with_moments(self, ran: Ran) -> pl.DataFrame:
        """The result with days and times where quantiles of them were counted in days and
        seconds."""
        items = {} if ran.asked is None else ran.asked.items
        kinds = {name: self._calendar(tree) for name, tree in items.items()}
        return ran.frame.with_columns(
            _moments(ran.frame[name], kind) for name, kind in kinds.items() if kind
        )

    def _calendar(self, tree: Tree) -> str | None:
        """The kind of moments that a quantile is one of; None of numbers."""
        if not isinstance(bare(tree), exp.Quantile):
            return None
        asked = spelled(bare(tree))
        found = (one.details for key, one in self._found.items() if key[0] == asked)
        return next((details.get("calendar") for details in found), None)

    def _limits(self, tree: Tree, place: int | None) -> Limits:
        """Limits of one aggregate, or of what is computed from several, and what they rest on."""
        parts = [tree] if isinstance(tree, AGGREGATES) else list(tree.find_all(*AGGREGATES))
        if any(isinstance(part, exp.Min | exp.Max) for part in parts):
            return None, None, _EXTREMES
        if place is None or self._rows is None:
            return None, None, self._problem or _DISTINCT
        each = 1 - (1 - self.level) / max(1, len(parts))
        notes: dict[str, None] = {}

        def of(part: Tree) -> tuple[float, float]:
            one = self.one(part, place, each)
            notes.update({one.note: None} if one.note else {})
            return one.low, one.high

        try:
            low, high = _range(tree, of)
        except QueryError as error:
            told = str(error).rstrip(".")
            if any(isinstance(part, exp.Quantile) for part in parts):
                return None, None, f"no answer: {told}"
            return None, None, f"no limits: {told}. {_WEIGHTS}"
        return low, high, "; ".join(notes)


def _within(
    values: pl.Series, low: Sequence[float | None], high: Sequence[float | None]
) -> pl.Series:
    """Values between their limits: what is computed from several estimates may lie beside those
    of the whole, by their last digits or because it takes a cut bin by its middle."""
    if not values.dtype.is_numeric():
        return values
    inside = [
        value if value is None or first is None or last is None else min(max(value, first), last)
        for value, first, last in zip(values.to_list(), low, high, strict=True)
    ]
    whole = all(value is None or float(value).is_integer() for value in inside)
    kind = values.dtype if whole and values.dtype.is_integer() else pl.Float64
    return pl.Series(values.name, inside, dtype=kind, strict=False)


def _moments(numbers: pl.Series, kind: str) -> pl.Series:
    """Days or seconds as the moments they stand for."""
    if not numbers.dtype.is_numeric():
        return numbers
    whole = numbers.fill_null(FIRST[kind]).to_numpy().astype(np.int64)
    return series_of(kind, whole).alias(numbers.name).set(numbers.is_null(), None)


def _range(tree: Tree, of: Callable[[Tree], tuple[float, float]]) -> tuple[float, float]:
    """The range of arithmetic over aggregates."""
    tree = bare(tree)
    if isinstance(tree, AGGREGATES):
        return of(tree)
    if (number := number_or_none(tree)) is not None:
        return number, number
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
    if not isinstance(tree, exp.Div) or not counts_rows(bare(tree.expression)):
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


# -- releases that count the cells of a domain


class Counted(Protocol):
    """A release that gives estimates of conditions that were read already."""

    @property
    def domain(self) -> Domain: ...

    def count_of(self, where: Where, level: float) -> Estimate: ...

    def aggregate_of(self, kind: str, tree: Tree, where: Where, level: float) -> Estimate: ...

    def quantile_of(self, tree: Tree, share: float, where: Where, level: float) -> Estimate: ...


class _Codes(NamedTuple):
    """Some codes of one column; those of its flag are looked for together with them."""

    place: int
    codes: set[int]


_Group = Mapping[Any, _Codes | Chosen]
"""What a SELECT groups by: for every value that a line can show, the cells of its rows."""


@dataclass(frozen=True)
class CellsSay:
    """What a release of counted cells says: the rows of a line are a condition, or cells."""

    release: Counted

    def rows(self, asked: Grouped, lines: pl.DataFrame) -> Sequence[Where]:
        domain = self.release.domain
        flags = {flag: name for name, flag in other_names(domain.axes).items()}
        where = None if asked.where is None else _read(asked.where, flags, domain)
        groups = [_group(item, flags, domain) for item in asked.groups.values()]
        shown_lines = lines.select(list(asked.groups)).iter_rows() if groups else [()]
        test = cache(lambda place, codes: _test(place, domain.axes[place], sorted(codes)))
        return [_rows(where, groups, domain, line, test) for line in shown_lines]

    def more(self, asked: Grouped, lines: pl.DataFrame) -> pl.DataFrame:
        return lines.clear()

    def count(self, rows: Where, level: float) -> Estimate:
        return self.release.count_of(rows, level)

    def known(self, tree: Tree, rows: Where) -> Where:
        domain = self.release.domain
        name = column_or_none(bare(tree), domain.names)
        if name is None:
            raise QueryError(f"count({shown(tree)}) is worked out for columns only")
        place = domain.names.index(name)
        axis = domain.axes[place]
        every = range(axis.base + int(axis.other and not axis.numeric))
        return _both(rows, _test(place, axis, every), domain)

    def aggregate(self, kind: str, tree: Tree, rows: Where, level: float) -> Estimate:
        return self.release.aggregate_of(kind, tree, rows, level)

    def quantile(self, tree: Tree, share: float, rows: Where, level: float) -> Estimate:
        return self.release.quantile_of(tree, share, rows, level)


def _group(item: Tree, flags: Mapping[str, str], domain: Domain) -> _Group:
    plain = column_or_none(item, (*domain.names, *flags))
    if plain is None:
        return {value: _as_codes(one) for value, one in expression_keys(item, domain).items()}
    place = domain.names.index(flags.get(plain, plain))
    codes = _by_value(domain.axes[place], flag=plain in flags)
    return {value: _Codes(place, some) for value, some in codes.items()}


def _as_codes(cells: Chosen) -> _Codes | Chosen:
    """Whole values of one column as codes: a condition has an answer beside any other."""
    if len(cells.places) == 1 and np.array_equal(cells.inside, cells.touched):
        return _Codes(cells.places[0], set(np.flatnonzero(cells.inside).tolist()))
    return cells


def _both(first: Where, second: Where, domain: Domain) -> Where:
    if not isinstance(first, Chosen) and not isinstance(second, Chosen):
        return both(first, second)
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


def _rows(
    where: Where | None,
    groups: Sequence[_Group],
    domain: Domain,
    line: tuple[Any, ...],
    test: Callable[[int, frozenset[int]], Leaf],
) -> Where:
    """The rows that a line of the result stands for. `test` makes each test of a column once."""
    codes: dict[int, set[int]] = {}
    found: Where | None = None
    for group, value in zip(groups, line, strict=True):
        if value not in group:
            # a value that the engine made of an expression in another way than its cells have it
            raise QueryError("it is not known which rows a line counts")
        one = group[value]
        if isinstance(one, _Codes):
            # a column and its flag speak of the same codes
            codes[one.place] = codes.get(one.place, one.codes) & one.codes
        elif one.places:  # else a constant, which is the same for every row
            found = one if found is None else _both(found, one, domain)
    parts: list[Node] = [test(place, frozenset(some)) for place, some in codes.items()]
    if isinstance(where, Chosen):
        found = where if found is None else _both(found, where, domain)
    elif where is not None:
        parts.append(where)
    everything: Node = Constant(True)
    node = reduce(both, parts, everything)
    return node if found is None else _both(node, found, domain)


def _read(tree: Tree, flags: Mapping[str, str], domain: Domain) -> Where:
    """A WHERE as a predicate, or else by working it out for every cell."""
    try:
        return _condition(tree, flags, domain)
    except QueryError:
        return expression_chosen(tree, domain)


def _condition(tree: Tree, flags: Mapping[str, str], domain: Domain) -> Node:
    """A WHERE as a predicate, which has no flags: it compares their columns with '(other)'. Nor has
    it conditions of constants, such as 1 = 1."""
    columns = {
        flag.lower(): name
        for flag, name in flags.items()
        if flag.lower() not in map(str.lower, domain.names)
    }

    def plain(node: Tree) -> Tree:
        if (held := constant_condition(node, domain)) is not None:
            return exp.Boolean(this=held)
        told = isinstance(node, exp.EQ | exp.Is) and isinstance(node.expression, exp.Boolean)
        flag = bare(node.this) if told else node
        if not isinstance(flag, exp.Column) or flag.name.lower() not in columns:
            return node
        column = exp.Column(this=exp.to_identifier(columns[flag.name.lower()], quoted=True))
        # a flag is false, not unknown, of missing
        present = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
        is_other = exp.And(
            this=present, expression=exp.EQ(this=column, expression=exp.Literal.string(OTHER))
        )
        return (
            exp.Paren(this=is_other)
            if not told or node.expression.this
            else exp.Not(this=exp.Paren(this=is_other))
        )

    return parse_predicate(tree.copy().transform(plain).sql(dialect="postgres"), domain)


def column_or_none(item: Tree, names: Sequence[str]) -> str | None:
    """The column that an expression is, and nothing besides; that spelled just so where several
    differ in case alone."""
    found = [
        name for name in names if isinstance(item, exp.Column) and name.lower() == item.name.lower()
    ]
    return next((name for name in found if name == item.name), found[0] if found else None)


def number_or_none(item: Tree) -> float | None:
    """The number that an expression is, where it is one."""
    item = bare(item)
    plain = isinstance(item, exp.Literal) and not item.is_string
    return float(item.this) if plain else None


def counts_rows(item: Tree) -> bool:
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
        return Leaf(
            place, codes=np.isin(np.arange(axis.base), declared), other=other, missing=missing
        )
    # the last bin of a real column holds its upper end
    ends = tuple(
        (axis.edges[code], axis.edges[code + 1] if code + 1 < axis.base else None)
        for code in declared
    )
    return Leaf(place, intervals=ends, other=other, missing=missing)
