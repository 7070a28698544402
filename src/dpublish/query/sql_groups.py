"""A grouped SELECT straight from the release, in two steps: a table of lines with one column per
group and one per aggregate, and the rest of the query over that table.

Between the two the release puts its own estimates in the place of sums of weights, so that what SQL
shows, sorts and compares is what `estimate` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from dpublish.errors import QueryError
from dpublish.query.constants import Tree, bare, shown
from dpublish.releases.frames import free_name

AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Quantile)
_PERCENTILES = (exp.PercentileCont, exp.PercentileDisc)


@dataclass(frozen=True)
class Grouped:
    """What a grouped SELECT asks: its rows, what it groups by and its aggregates, by the names that
    they have in the table of lines; and its results that hold aggregates, by their own names."""

    where: Tree | None
    groups: Mapping[str, Tree]
    aggregates: Mapping[str, Tree]
    items: Mapping[str, Tree]
    line: str
    """The column that numbers the lines."""
    inner: Tree
    """The SELECT that makes the lines."""


def with_quantiles(tree: Tree) -> Tree:
    """The same query with all spellings of medians and quantiles written as quantile(x, share)."""

    def written(node: Tree) -> Tree:
        if isinstance(node, exp.Median):
            return _quantile(node.this, exp.Literal.number(0.5))
        if isinstance(node, exp.WithinGroup) and isinstance(node.this, _PERCENTILES):
            ordered = node.expression.expressions if isinstance(node.expression, exp.Order) else []
            if len(ordered) != 1 or ordered[0].args.get("desc"):
                raise QueryError(
                    "Write a quantile as quantile(age, 0.9), or as percentile_cont(0.9) within "
                    "group (order by age)."
                )
            return _quantile(ordered[0].this, node.this.this)
        return node

    return tree.transform(written)


def _quantile(of: Tree, share: Tree) -> Tree:
    return exp.Quantile(this=of.copy(), quantile=share.copy())


def share_of(node: Tree) -> float:
    """Which quantile is asked for."""
    share = node.args.get("quantile")
    if not isinstance(share, exp.Literal) or share.is_string or not 0 < float(share.this) < 1:
        raise QueryError(
            f"'{shown(node)}': write a quantile with a share between 0 and 1, as in quantile(age, "
            "0.9)."
        )
    return float(share.this)


def named_column(name: str) -> Tree:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def split(tree: Tree, named: Mapping[str, Tree], columns: Sequence[str]) -> Grouped:
    """Take a SELECT with resolved names apart; it is rewritten in place to one over the lines (FROM
    is left to the caller)."""
    results = {name: unnamed(item).copy() for name, item in named.items()}
    taken = (*columns, *named)
    names: dict[str, str] = {}
    groups: dict[str, Tree] = {}
    for key in [_grouped_by(item, results, columns) for item in groups_of(tree)]:
        text = spelled(key)
        if text not in names:
            names[text] = free_name(f"group{len(groups)}", taken)
            groups[names[text]] = key
    having = _with_results(tree.args.get("having"), results, columns)
    order = _with_results(tree.args.get("order"), results, ())
    aggregates: dict[str, Tree] = {}
    for part in (*results.values(), having, order):
        for node in () if part is None else part.find_all(*AGGREGATES):
            text = spelled(node)
            if text not in names:
                names[text] = free_name(f"aggregate{len(aggregates)}", taken)
                aggregates[names[text]] = node.copy()
    where = tree.args.get("where")
    found = Grouped(
        where=None if where is None else where.this.copy(),
        groups=groups,
        aggregates=aggregates,
        items={name: one for name, one in results.items() if one.find(*AGGREGATES)},
        line=free_name("line", taken),
        inner=_lines(tree, groups, aggregates),
    )

    def swapped(node: Tree) -> Tree:
        name = None if isinstance(node, exp.Identifier) else names.get(spelled(node))
        return node if name is None else named_column(name)

    def over_lines(part: Tree) -> Tree:
        made = part.transform(swapped)
        for one in made.find_all(exp.Column):
            if one.name not in names.values():
                raise QueryError(
                    f"'{shown(part)}': '{one.name}' is neither grouped by nor inside an aggregate. "
                    "Add it to GROUP BY, or ask for avg, min or max of it."
                )
        return made

    items = [exp.alias_(over_lines(one), name, quoted=True) for name, one in results.items()]
    tree.set("expressions", items)
    tree.set("where", None if having is None else exp.Where(this=over_lines(having.this)))
    tree.set("order", None if order is None else over_lines(order))
    tree.set("group", None)
    tree.set("having", None)
    return found


def groups_of(tree: Tree) -> list[Tree]:
    return list(tree.args["group"].expressions) if tree.args.get("group") else []


def unnamed(item: Tree) -> Tree:
    return bare(item.this if isinstance(item, exp.Alias) else item)


def _lines(tree: Tree, groups: Mapping[str, Tree], aggregates: Mapping[str, Tree]) -> Tree:
    inner = tree.copy()
    for clause in ("having", "order", "limit", "offset", "distinct", "with", "with_"):
        inner.set(clause, None)
    parts = {**groups, **aggregates} or {"one": exp.Count(this=exp.Star())}
    inner.set(
        "expressions", [exp.alias_(one.copy(), name, quoted=True) for name, one in parts.items()]
    )
    by = exp.Group(expressions=[one.copy() for one in groups.values()]) if groups else None
    inner.set("group", by)
    return inner


def _grouped_by(item: Tree, results: Mapping[str, Tree], columns: Sequence[str]) -> Tree:
    """What GROUP BY means by an expression, the name of a result, or its number."""
    item = bare(item)
    if isinstance(item, exp.Literal) and not item.is_string:
        place = int(item.this) - 1 if str(item.this).isdigit() else -1
        if not 0 <= place < len(results):
            raise QueryError(f"GROUP BY {item.this}: there are {len(results)} results.")
        found = list(results.values())[place]
    elif isinstance(item, exp.Column) and item.name not in columns and item.name in results:
        found = results[item.name]
    else:
        found = item
    if found.find(*AGGREGATES):
        raise QueryError(f"'{shown(found)}' is an aggregate: it cannot be grouped by.")
    return found.copy()


def _with_results(
    part: Tree | None, results: Mapping[str, Tree], columns: Sequence[str]
) -> Tree | None:
    """A clause with the results that it names written out."""

    def written(node: Tree) -> Tree:
        if isinstance(node, exp.Column) and node.name not in columns and node.name in results:
            return exp.Paren(this=results[node.name].copy())
        if isinstance(node, exp.Ordered) and isinstance(bare(node.this), exp.Literal):
            number = str(bare(node.this).this)
            if number.isdigit() and 0 < int(number) <= len(results):
                made = node.copy()
                made.set("this", list(results.values())[int(number) - 1].copy())
                return made
        return node

    return None if part is None else part.transform(written)


def spelled(tree: Any) -> str:
    return str(bare(tree).sql(dialect="postgres", identify=True))


# What a SELECT over a release may hold, and why it may not hold other things.

CLAUSES = {
    "with",
    "with_",
    "expressions",
    "from",
    "from_",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "distinct",
}
PLAIN = (
    *(
        exp.Column,
        exp.Identifier,
        exp.Literal,
        exp.Alias,
        exp.Paren,
        exp.Null,
        exp.Boolean,
        exp.Star,
    ),
    *(
        exp.And,
        exp.Or,
        exp.Not,
        exp.EQ,
        exp.NEQ,
        exp.LT,
        exp.LTE,
        exp.GT,
        exp.GTE,
        exp.In,
        exp.Between,
        exp.Is,
    ),
    *(
        exp.Add,
        exp.Sub,
        exp.Mul,
        exp.Div,
        exp.Mod,
        exp.Neg,
        exp.Case,
        exp.If,
        exp.Cast,
        exp.DataType,
    ),
    *(
        exp.Round,
        exp.Abs,
        exp.Floor,
        exp.Ceil,
        exp.Lower,
        exp.Upper,
        exp.Length,
        exp.Coalesce,
        exp.Nullif,
        exp.Like,
    ),
    *(
        exp.ILike,
        exp.Extract,
        exp.Var,
        exp.Ordered,
        exp.Group,
        exp.Order,
        exp.Where,
        exp.Having,
        exp.Limit,
        exp.Offset,
    ),
    *AGGREGATES,
)
REASONS: Mapping[Any, str] = {
    exp.Window: "Window functions number single rows, which a release does not have.",
    exp.Join: "Joins are not possible: there is one table, release.",
    exp.Distinct: "count(distinct ...) would count noise: a release may lack values that occur, "
    "and hold others that do not.",
    exp.Filter: "FILTER is not supported; use sum(case when ... then 1 else 0 end) or a where "
    "clause.",
    exp.Subquery: "A subquery may stand after FROM only.",
    exp.Select: "A subquery may stand after FROM only.",
}
PATTERN_LIMIT = 200
_LEVEL_LIMIT = 500
_SELECT_LIMIT = 100


def require_shallow(tree: Tree) -> None:
    """Refuse what the engine would take minutes for, or end the process over: it goes into its
    trees by recursion, and a run of `or` or `+` is one inside the other there, and so are the
    branches of a case and the parts of WITH."""
    selects, stack = 0, [(tree, 1)]
    while stack:
        node, level = stack.pop()
        selects += isinstance(node, exp.Select)
        level += len(node.args["ifs"]) if isinstance(node, exp.Case) else 0
        if level > _LEVEL_LIMIT:
            raise QueryError(
                f"The query has an expression of more than {_LEVEL_LIMIT} steps, one inside the "
                f"other. Shorten it; many values "
                "of one column are listed as: x in (1, 2, ...)."
            )
        stack += [(part, level + 1) for part in node.iter_expressions()]
    if selects > _SELECT_LIMIT:
        raise QueryError(f"The query has {selects} SELECTs; at most {_SELECT_LIMIT} are run.")
