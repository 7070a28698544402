"""What a SELECT over a release may hold, and why it may not hold other things."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from dpublish.errors import QueryError
from dpublish.query.constants import Tree
from dpublish.query.sql_groups import AGGREGATES

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
