"""The order of levels in SQL: an ordinal column compares, sorts and has a least and greatest value
as its schema declares.

The engine is given such a column as an enumeration of its levels. Where order has no part (=, in,
like, text functions, case, coalesce) the query reads it as text. '(other)', and whatever else is no
level, has no place in the order: comparing it is unknown, min and max pass over it, and it sorts
after the levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from sqlglot import exp

from dpublish.declare.columns import OTHER
from dpublish.declare.domain import Axis
from dpublish.declare.spelling import BLANKS
from dpublish.errors import QueryError
from dpublish.query.constants import Tree, bare, level_code, read_constant, shown

_COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_ORDER = (*_COMPARISONS, exp.Between, exp.Min, exp.Max, exp.Ordered)


@dataclass(frozen=True)
class Order:
    """The levels of an ordinal column and the values beside them. Without an axis: an order that an
    expression has lost."""

    axis: Axis | None
    beside: tuple[str, ...] = ()


_LOST = Order(None)
Orders = Mapping[str, Order]


def with_orders(frame: pl.DataFrame, axes: Sequence[Axis]) -> tuple[pl.DataFrame, dict[str, Order]]:
    """The frame with its ordinal columns as enumerations. A column of numbers stays one: it has its
    own order."""
    texts: dict[str, pl.Series] = {}
    beside: dict[
        tuple[str, ...], dict[str, None]
    ] = {}  # shared by columns of the same levels, which may be compared
    chosen = [
        axis for axis in axes if axis.kind == "ordinal" and frame.schema.get(axis.name) == pl.String
    ]
    for axis in chosen:
        column = frame.get_column(axis.name)
        spelled = {level.strip(BLANKS): level for level in axis.levels}
        values = column.drop_nulls().unique().sort().to_list()
        read = {
            value: spelled.get(value.strip(BLANKS), value) for value in values
        }  # as the encoder reads them
        texts[axis.name] = column.replace_strict(read, default=None, return_dtype=pl.String)
        strange = set(read.values()).difference(axis.levels)
        beside.setdefault(axis.levels, {}).update(dict.fromkeys(sorted(strange)))
    orders = {axis.name: Order(axis, tuple(beside[axis.levels])) for axis in chosen}
    kinds = {
        axis.name: pl.Enum(list(dict.fromkeys([*axis.levels, *beside[axis.levels]])))
        for axis in chosen
    }
    return frame.with_columns(texts[name].cast(kind) for name, kind in kinds.items()), orders


def order_of(tree: Tree, orders: Orders) -> Order | None:
    """The order that the values of an expression follow, None for those of plain text and
    numbers."""
    tree = bare(tree)
    if isinstance(tree, exp.Alias | exp.Min | exp.Max):
        return order_of(tree.this, orders)
    if isinstance(tree, exp.Column):
        return orders.get(tree.name)
    values: list[Tree] = []
    if isinstance(tree, exp.Case):
        values = [
            *(branch.args.get("true") for branch in tree.args.get("ifs") or ()),
            tree.args.get("default"),
        ]
    elif isinstance(tree, exp.Coalesce):
        values = [tree.this, *tree.expressions]
    elif isinstance(tree, exp.Nullif):
        values = [tree.this]
    return _LOST if any(value is not None and order_of(value, orders) for value in values) else None


def keep_orders(part: Tree, orders: Orders) -> None:
    """Rewrite one piece of a SELECT in place: by order where order counts, as text elsewhere. The
    piece has a parent."""
    if not orders:
        return
    ranked: list[Tree] = []
    for node in list(part.find_all(*_ORDER)):
        parts = (node.args.get(name) for name in ("this", "expression", "low", "high"))
        sides = [side for side in parts if side is not None]
        found = [order_of(side, orders) for side in sides]
        if _LOST in found:
            raise QueryError(
                f"'{shown(sides[found.index(_LOST)])}' is made from levels in an order, which it "
                f"does not keep. Compare or sort the column itself; "
                "for the order of the alphabet write cast(... as text)."
            )
        order = next((one for one in found if one is not None), None)
        if order is None or isinstance(node, exp.Ordered):
            continue
        for side, its in zip(sides, found, strict=True):
            if its is not None:
                _same_levels(node, order, its)
                ranked += [bare(side)] if isinstance(bare(side), exp.Column) else []
            else:
                _read_level(node, order, side)
    for column in [one for one in part.find_all(exp.Column) if one.name in orders]:
        order = orders[column.name]
        if any(column is one for one in ranked):
            if order.beside:
                column.replace(_level_or_null(column, order))
        elif not _stands_alone(column):
            column.replace(exp.Cast(this=column.copy(), to=exp.DataType.build("text")))


def _same_levels(node: Tree, first: Order, second: Order) -> None:
    if first.axis is None or second.axis is None or first.axis.levels != second.axis.levels:
        raise QueryError(f"'{shown(node)}' compares columns whose levels differ.")


def _read_level(node: Tree, order: Order, side: Tree) -> None:
    """Check that a constant is a level, and spell it as the column does."""
    axis, side = order.axis, bare(side)
    assert axis is not None
    if not isinstance(side, exp.Literal | exp.Boolean | exp.Neg | exp.Null):
        raise QueryError(
            f"'{shown(node)}': the levels of '{axis.name}' have an order among themselves only. "
            f"Compare with a level, or write "
            "cast(... as text) for the order of the alphabet."
        )
    constant: Any = read_constant(side)
    if constant is None:
        return
    if constant == OTHER and axis.other and OTHER not in axis.levels:
        raise QueryError(f"'{OTHER}' of column '{axis.name}' has no order. Use = or !=.")
    side.replace(exp.Literal.string(axis.levels[level_code(axis, constant)]))


def _level_or_null(column: Tree, order: Order) -> Tree:
    beside = exp.In(
        this=column.copy(), expressions=[exp.Literal.string(value) for value in order.beside]
    )
    return exp.Paren(
        this=exp.Case(ifs=[exp.If(this=beside, true=exp.Null())], default=column.copy())
    )


def _stands_alone(column: Tree) -> bool:
    """Whether a column is shown, grouped or sorted by as it is."""
    parent = column.parent
    while isinstance(parent, exp.Paren | exp.Alias):
        parent = parent.parent
    return isinstance(parent, exp.Select | exp.Group | exp.Ordered)
