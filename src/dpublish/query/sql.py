"""SELECT over a release, with every released cell counted as many times as its noisy count says.

The query is parsed, checked against a list of what can be weighted correctly, rewritten (count(*)
becomes the sum of the weights, avg(x) the weighted mean, ...) and run by polars on a table that
holds nothing but the release. A bin stands for its midpoint. Levels of ordinal columns follow the
order of the schema (`level_order`). '(other)' of a number, a date or a truth has no value, so it is
null there; a column x_other tells it from a missing one, and `x is null` means missing only.
Sums of weights are not yet what a release says: `sql_limits` puts its estimates in their place, and
limits beside them.

The same query of the same release gives the same lines in the same order: groups settle what ORDER
BY leaves open. Sums of weights that are not whole may differ in their last digits, since the engine
adds them up in parts, in no fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
from sqlglot import exp

from dpublish.declare.domain import Axis
from dpublish.errors import QueryError, did_you_mean
from dpublish.query.constants import Tree, bare, shown
from dpublish.query.level_order import Order, Orders, keep_orders, order_of, with_orders
from dpublish.query.predicate import MAX_DEPTH, parse_select
from dpublish.query.sql_groups import (
    AGGREGATES,
    CLAUSES,
    PATTERN_LIMIT,
    PLAIN,
    REASONS,
    Grouped,
    groups_of,
    named_column,
    require_shallow,
    share_of,
    split,
    unnamed,
    with_quantiles,
)
from dpublish.releases.frames import free_name, other_names


@dataclass(frozen=True)
class _Shape:
    """What a FROM offers: column names, whether each row still stands for many, and which columns
    have ordered levels."""

    columns: tuple[str, ...]
    weighted: bool
    orders: Orders = field(default_factory=dict)
    others: Mapping[str, str | None] = field(default_factory=dict)
    """For columns whose '(other)' is null: the column that says where, None when a subquery left it
    out."""
    derived: frozenset[str] = frozenset()
    """Columns that were made of aggregates."""
    release: bool = False
    """Whether it is the table of the release itself."""


Ask = Callable[[Grouped, pl.DataFrame], pl.DataFrame]
"""Puts estimates in the place of sums of weights, in a table of one line per group."""


@dataclass(frozen=True)
class Ran:
    """The result of a SELECT. Where it was grouped and straight from the release: what was asked,
    the table of lines, and (unless it was distinct) of which line each of the result is; `again`
    runs the rest of the query over other lines."""

    frame: pl.DataFrame
    derived: frozenset[str]
    asked: Grouped | None = None
    lines: pl.DataFrame | None = None
    places: Sequence[int] | None = None
    again: Callable[[pl.DataFrame], Ran] | None = None


def run_sql(
    query: str, frame: pl.DataFrame, columns: tuple[str, ...], axes: Sequence[Axis]
) -> pl.DataFrame:
    """Run a SELECT over `frame`, whose last column is the weight and whose others are `columns`;
    `axes` know their levels.

    Columns named by `other_names` that the frame holds may be asked for too.
    """
    return run_asked(query, frame, columns, axes, None).frame


def run_asked(
    query: str,
    frame: pl.DataFrame,
    columns: tuple[str, ...],
    axes: Sequence[Axis],
    ask: Ask | None,
) -> Ran:
    """The same with `ask` between sums of weights and what is made of them."""
    # a public row may have a column of that name, which is no flag of ours
    beyond = set(frame.columns[:-1]).difference(columns)
    others = {name: flag for name, flag in other_names(axes).items() if flag in beyond}
    columns = tuple(one for name in columns for one in (name, others.get(name)) if one is not None)
    weight = free_name("row_weight", columns)
    table, orders = with_orders(frame.rename({frame.columns[-1]: weight}), axes)
    try:
        tree = parse_select(query, columns)
        if not isinstance(tree, exp.Select):
            raise QueryError(
                "Only a SELECT can be run, for example: select income, count(*) from release "
                "group by income."
            )
        require_shallow(tree)
        tree.set("expressions", [_as_written(item) for item in tree.expressions])
        tree = with_quantiles(tree)
        rewriter = _Rewriter(weight, {"release": table}, ask)
        base = _Shape(columns, True, orders, others, release=True)
        shape = rewriter.select(tree, {"release": base}, depth=0, outermost=True)
        text = str(tree.sql(dialect="postgres", identify=True))
    except RecursionError:
        raise QueryError("The query is nested too deeply.") from None
    return _ran(text, rewriter, shape)


def _ran(text: str, rewriter: _Rewriter, shape: _Shape) -> Ran:
    weight, shown_lines = rewriter.weight, rewriter.shown
    # constants such as 1.0 make exact decimals with few places, which surprises more than it helps
    result = rewriter.run(text).with_columns(
        pl.col(pl.Decimal).cast(pl.Float64), pl.col(pl.Enum).cast(pl.String)
    )
    result = result.fill_nan(None)  # nothing by nothing is no number
    if weight in result.columns:
        result = result.rename({weight: free_name("weight", shape.columns)})
    if shown_lines is None:
        return Ran(result, shape.derived)
    name, asked = shown_lines
    places = result[asked.line].to_list() if asked.line in result.columns else None

    def again(lines: pl.DataFrame) -> Ran:
        rewriter.tables[name] = lines
        return _ran(text, rewriter, shape)

    lines = rewriter.tables[name]
    return Ran(result.drop(asked.line, strict=False), shape.derived, asked, lines, places, again)


_NO_NUMBER = exp.Max(this=exp.Cast(this=exp.Null(), to=exp.DataType.build("double")))
"""A quantile of weighted rows: the release says it, or nothing does."""


def _as_written(item: Tree) -> Tree:
    """A result under the name that the query spells, though it is spelt in another way later."""
    if isinstance(item, exp.Alias | exp.Column | exp.Star):
        return item

    def plainly(node: Tree) -> Tree:
        # the dialect has a longer word for it
        return (
            exp.Anonymous(this="median", expressions=[node.this])
            if isinstance(node, exp.Median)
            else node
        )

    return exp.alias_(item, output_name(item.transform(plainly)), quoted=True)


class _Rewriter:
    def __init__(
        self, weight: str, tables: dict[str, pl.DataFrame], ask: Ask | None = None
    ) -> None:
        self.weight, self.tables, self.ask = weight, tables, ask
        self.shown: tuple[str, Grouped] | None = None
        """The lines that the outermost SELECT shows, and what it asks."""

    def run(self, text: str) -> pl.DataFrame:
        try:
            return pl.SQLContext(self.tables).execute(text, eager=True)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the engine is not an Exception
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise QueryError(
                f"The query cannot be run: {reason.replace(self.weight, 'weight')}"
            ) from None

    def select(
        self,
        tree: Tree,
        known: Mapping[str, _Shape],
        *,
        depth: int,
        outermost: bool,
        plainly: bool = False,
    ) -> _Shape:
        """Check and rewrite one SELECT in place; say what it yields. `plainly` leaves the sums of
        weights as they are."""
        if depth > MAX_DEPTH // 10:
            raise QueryError("Subqueries are nested too deeply.")
        self._only(tree, CLAUSES, "in a query over a release")
        known = self._with(tree, dict(known), depth)
        source = self._source(tree, known, depth)
        self._expand_stars(tree, source)
        parts = self._parts(tree)
        for part in parts:
            self._check(part)
        for item in tree.expressions:
            self._resolve(item, source.columns)
        named = self._names(tree)
        for clause, part in _clauses(tree, *_RESOLVED).items():
            self._resolve(part, (*source.columns, *(() if clause == "where" else named)))
        grouped = bool(tree.args.get("group") or tree.args.get("having"))
        grouped = grouped or any(part.find(*AGGREGATES) for part in parts)
        where = tree.args.get("where")
        if where is not None and where.find(*AGGREGATES):
            raise QueryError("An aggregate cannot stand in WHERE. Use HAVING.")
        distinct = bool(tree.args.get("distinct"))
        asked = None
        if source.release and grouped and self.ask is not None and not plainly:
            asked, source = self._lines(tree, named, source, depth, self.ask)
            grouped, named = False, self._names(tree)
        derived = {
            name
            for name, item in named.items()
            if item.find(*AGGREGATES)
            or any(one.name in source.derived for one in item.find_all(exp.Column))
        }
        shown_orders, shown_others = _keep_orders(tree, source, named), _handed_on(named, source)
        for part in self._parts(tree):
            _missing_only(part, source)
        if grouped and not source.release and any(one.find(exp.Quantile) for one in parts):
            raise QueryError("Ask for a median or a quantile straight from release.")
        if source.weighted and grouped:
            self._weigh(tree)
        if distinct and tree.args["distinct"].args.get("on"):
            raise QueryError("'distinct on' is not supported in a query over a release.")
        weighted = source.weighted and not grouped and not distinct
        if weighted:
            if not outermost and (tree.args.get("limit") or tree.args.get("offset")):
                raise QueryError(
                    "LIMIT inside a subquery would cut weighted rows at random. Use it at the end "
                    "of the query."
                )
            tree.args["expressions"].append(named_column(self.weight))
        if outermost:
            by = groups_of(tree) if asked is None else [named_column(name) for name in asked.groups]
            _settle_order(tree, [named_column(name) for name in named] if distinct else by)
            if asked is not None and not distinct:
                tree.args["expressions"].append(named_column(asked.line))
        return _Shape(tuple(named), weighted, shown_orders, shown_others, frozenset(derived))

    def _lines(
        self, tree: Tree, named: Mapping[str, Tree], source: _Shape, depth: int, ask: Ask
    ) -> tuple[Grouped, _Shape]:
        """Work out the lines of a grouped SELECT from the release, and let it read them."""
        asked = split(tree, named, source.columns)
        shape = self.select(
            asked.inner, {"release": source}, depth=depth + 1, outermost=False, plainly=True
        )
        lines = self.run(str(asked.inner.sql(dialect="postgres", identify=True)))
        lines = ask(asked, lines).with_row_index(asked.line)
        name = free_name(f"lines{len(self.tables)}", tuple(self.tables))
        self.tables[name] = lines
        if depth == 0:
            self.shown = (name, asked)
        clause = tree.args.get("from") or tree.args.get("from_")
        clause.set("this", exp.Table(this=exp.to_identifier(name)))
        return asked, replace(
            shape,
            columns=(*shape.columns, asked.line),
            release=False,
            derived=frozenset(asked.aggregates),
        )

    def _with(self, tree: Tree, known: dict[str, _Shape], depth: int) -> dict[str, _Shape]:
        clause = tree.args.get("with") or tree.args.get("with_")
        if clause is None:
            return known
        if clause.args.get("recursive"):
            raise QueryError("Recursive queries are not supported.")
        for part in clause.expressions:
            inner, name = part.this, part.alias
            if not isinstance(inner, exp.Select) or part.args["alias"].args.get("columns"):
                raise QueryError(
                    f"'{name}' must be a plain SELECT: with {name} as (select ... from release)."
                )
            if name in known:
                raise QueryError(f"The name '{name}' is used twice.")
            known[name] = self.select(inner, known, depth=depth + 1, outermost=False)
        return known

    def _source(self, tree: Tree, known: Mapping[str, _Shape], depth: int) -> _Shape:
        clause = tree.args.get("from") or tree.args.get("from_")
        if clause is None:
            raise QueryError("The query has no FROM. The table is called release.")
        what = clause.this
        if isinstance(what, exp.Subquery) and isinstance(what.this, exp.Select):
            self._only(what, {"this", "alias"}, "after FROM")
            if not what.alias:
                what.set("alias", exp.TableAlias(this=exp.to_identifier(f"part{depth}")))
            return self.select(what.this, known, depth=depth + 1, outermost=False)
        if not isinstance(what, exp.Table) or not isinstance(what.this, exp.Identifier):
            raise QueryError(
                "FROM takes the table release, a name defined by WITH, or a subquery in "
                "parentheses."
            )
        self._only(what, {"this", "alias"}, "after FROM")
        match = next(
            (name for name in known if name == what.name or name.lower() == what.name.lower()), None
        )
        if match is None:
            raise QueryError(
                f"There is no table '{what.name[:80]}'.{did_you_mean(what.name, known)} The table "
                f"is called release."
            )
        what.set("this", exp.to_identifier(match))
        return known[match]

    def _only(self, tree: Tree, allowed: set[str], where: str) -> None:
        for key, value in tree.args.items():
            if value and key not in allowed:
                kind = type(value[0] if isinstance(value, list) else value)
                default = f"'{key.replace('_', ' ')}' is not supported {where}."
                raise QueryError(REASONS.get(kind, default))

    def _parts(self, tree: Tree) -> list[Tree]:
        """Every piece of this SELECT but its FROM and WITH."""
        return [*tree.expressions, *_clauses(tree, *_RESOLVED, "limit", "offset").values()]

    def _check(self, part: Tree) -> None:
        for node in part.walk():
            if type(node) not in PLAIN:
                default = f"'{shown(node)}' is not supported in a query over a release."
                raise QueryError(REASONS.get(type(node), default))
            if isinstance(node, AGGREGATES):
                if any(inner is not node for inner in node.find_all(*AGGREGATES)):
                    raise QueryError(f"'{shown(node)}' has an aggregate inside an aggregate.")
                if node.args.get("expressions"):
                    raise QueryError(f"'{shown(node)}' must have one argument.")
                if isinstance(node, exp.Quantile):
                    share_of(node)
            if (
                isinstance(node, exp.Like | exp.ILike)
                and len(str(node.expression.this)) > PATTERN_LIMIT
            ):
                raise QueryError(f"A pattern may have at most {PATTERN_LIMIT} characters.")
            if isinstance(node, exp.Group) and any(
                value for key, value in node.args.items() if key != "expressions"
            ):
                raise QueryError(
                    "GROUP BY takes columns and expressions; rollup, cube and 'all' are not "
                    "supported."
                )
            if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
                raise QueryError("'*' may stand alone after SELECT, or in count(*).")

    def _expand_stars(self, tree: Tree, source: _Shape) -> None:
        expanded: list[Tree] = []
        for item in tree.expressions:
            star = item.this if isinstance(item, exp.Column) else item
            if not isinstance(star, exp.Star):
                expanded.append(item)
                continue
            if any(star.args.values()):
                raise QueryError("'*' takes no except or replace here.")
            expanded += map(named_column, source.columns)
        tree.set("expressions", expanded)

    def _names(self, tree: Tree) -> dict[str, Tree]:
        """Name every output column, as the query spells it when it gives no name."""
        named: dict[str, Tree] = {}
        for place, item in enumerate(tree.expressions):
            name = output_name(item)
            if not isinstance(item, exp.Alias | exp.Column):
                item = exp.alias_(item, name, quoted=True)
                tree.expressions[place] = item
                item.parent = tree
            if name in named or name == self.weight:
                raise QueryError(
                    f"Two output columns are called '{name}'. Name one of them: ... as "
                    f"another_name."
                )
            named[name] = item
        return named

    def _resolve(self, part: Tree, allowed: tuple[str, ...]) -> None:
        """Check column names and give them the release's spelling; drop table prefixes, since there
        is one source."""
        for column in list(part.find_all(exp.Column)):
            column.set("table", None)
            if column.name in allowed:
                continue
            match = {name for name in allowed if name.lower() == column.name.lower()}
            if len(match) != 1:
                raise QueryError(
                    f"There is no column '{column.name[:80]}'.{did_you_mean(column.name, allowed)} "
                    f"Columns: {', '.join(allowed[:40])}. "
                    "Text goes in single quotes; names with signs in them in double quotes."
                )
            column.set("this", exp.to_identifier(match.pop(), quoted=True))

    def _weigh(self, tree: Tree) -> None:
        rules: dict[Any, Callable[[Tree], Tree]] = {
            exp.Count: self._count,
            exp.Sum: lambda node: exp.Sum(this=self._times(node.this)),
            exp.Avg: self._mean,
            exp.Quantile: lambda node: _NO_NUMBER.copy(),
        }
        for part in self._parts(tree):
            for node in list(part.find_all(*rules)):
                node.replace(rules[type(node)](node))

    def _times(self, value: Tree) -> Tree:
        return exp.Mul(this=exp.Paren(this=value.copy()), expression=named_column(self.weight))

    def _present(self, value: Tree) -> Tree:
        """The summed weight of the rows where `value` is not null."""
        known = exp.Not(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.Null()))
        case = exp.Case(
            ifs=[exp.If(this=known, true=named_column(self.weight))], default=exp.Literal.number(0)
        )
        return exp.Sum(this=case)

    def _count(self, node: Tree) -> Tree:
        counted = node.this
        if counted is None or isinstance(counted, exp.Star | exp.Literal):
            return _or_zero(exp.Sum(this=named_column(self.weight)))
        return _or_zero(self._present(counted))

    def _mean(self, node: Tree) -> Tree:
        return exp.Paren(
            this=exp.Div(
                this=exp.Sum(this=self._times(node.this)), expression=self._present(node.this)
            )
        )


def output_name(item: Tree) -> str:
    """What a column of the result is called: as the query names it, or else as it spells it."""
    name = (
        item.alias
        if isinstance(item, exp.Alias)
        else item.name
        if isinstance(item, exp.Column)
        else ""
    )
    return str(name) or shown(item).lower()


def _or_zero(total: Tree) -> Tree:
    """SQL's sum over no row is null; a count of no row is 0."""
    return exp.Coalesce(this=total, expressions=[exp.Literal.number(0)])


_RESOLVED = ("where", "group", "having", "order")
"""Clauses that name columns."""


def _clauses(tree: Tree, *names: str) -> dict[str, Tree]:
    """Those of some clauses that a SELECT has."""
    return {name: tree.args[name] for name in names if tree.args.get(name) is not None}


def _keep_orders(tree: Tree, source: _Shape, named: Mapping[str, Tree]) -> dict[str, Order]:
    """Let ordinal columns follow the order of their levels; say which output columns have one."""
    found = {name: order_of(item, source.orders) for name, item in named.items()}
    orders = {name: order for name, order in found.items() if order is not None}
    for item in list(tree.expressions):
        keep_orders(item, source.orders)
    # an output column may be named after WHERE; ORDER BY takes it before a source column of the
    # same name
    own = {"where": source.orders, "order": {**source.orders, **orders}}
    for clause, part in _clauses(tree, *_RESOLVED).items():
        keep_orders(part, own.get(clause, {**orders, **source.orders}))
    return orders


def _settle_order(tree: Tree, keys: Sequence[Tree]) -> None:
    """Let `keys`, which no two lines share, order the lines that the query leaves open: the
    engine's own order varies."""
    if keys:
        order = tree.args.get("order") or exp.Order(expressions=[])
        # after the rewriting of orders: a key that has lost the order of its levels may still
        # settle the order of lines
        order.set(
            "expressions", [*order.expressions, *(exp.Ordered(this=key.copy()) for key in keys)]
        )
        tree.set("order", order)


def _handed_on(named: Mapping[str, Tree], source: _Shape) -> dict[str, str | None]:
    """Which output columns hold '(other)' as null, and which output column says where."""
    plain = {name: unnamed(item) for name, item in named.items()}
    origin = {name: item.name for name, item in plain.items() if isinstance(item, exp.Column)}
    back: dict[str | None, str] = {column: name for name, column in origin.items()}
    return {
        name: back.get(source.others[column])
        for name, column in origin.items()
        if column in source.others
    }


def _missing_only(part: Tree, source: _Shape) -> None:
    """`x is null` means a missing value, also where '(other)' is null for want of a value that
    could stand for it."""
    for node in list(part.find_all(exp.Is)):
        column = bare(node.this)
        if (
            not isinstance(column, exp.Column)
            or column.name not in source.others
            or not isinstance(node.expression, exp.Null)
        ):
            continue
        flag = source.others[column.name]
        if flag is None:
            raise QueryError(
                f"'{shown(node)}': the subquery does not say where '{column.name}' is '(other)'. "
                f"Ask inside the subquery, or "
                "let it select the column that does (its name ends in _other) too."
            )
        if node.args.get("negate"):  # "is not null"; older parsers write it as a Not around
            node.replace(exp.Paren(this=exp.Or(this=node.copy(), expression=named_column(flag))))
        else:
            node.replace(
                exp.Paren(
                    this=exp.And(this=node.copy(), expression=exp.Not(this=named_column(flag)))
                )
            )
