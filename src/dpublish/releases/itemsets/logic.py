"""Boolean questions about items: their language, and their truth in itemsets and in partitions that
are only partly decided.

bread and milk          "whole milk" or 'rolls/buns'          bread and not (beer or wine)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpublish.errors import QueryError, did_you_mean
from dpublish.query.predicate import MAX_DEPTH, parse_sql

Truths = NDArray[np.int8]
"""1 true, 0 undecided, -1 false."""

MAX_ATOMS = 64


@dataclass(frozen=True)
class Item:
    position: int


@dataclass(frozen=True)
class Not:
    part: Node


@dataclass(frozen=True)
class Every:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Some:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Always:
    holds: bool


Node = Item | Not | Every | Some | Always


def parse_items(text: str, position: Mapping[str, int]) -> Node:
    """Read a question; names with blanks or signs in them need quotes."""
    names = [name if name.isidentifier() else f'"{name}"' for name in list(position)[:2]]
    return _read(parse_sql(text, example=" and not ".join(names)), position, 0)


def _read(tree: Any, position: Mapping[str, int], depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise QueryError(f"The question is nested more than {MAX_DEPTH} levels deep.")
    if isinstance(tree, exp.Paren):
        return _read(tree.this, position, depth + 1)
    if isinstance(tree, exp.Not):
        return Not(_read(tree.this, position, depth + 1))
    if isinstance(tree, exp.And | exp.Or):
        parts = tuple(_read(part, position, depth + 1) for part in (tree.left, tree.right))
        return Every(parts) if isinstance(tree, exp.And) else Some(parts)
    if isinstance(tree, exp.Boolean):
        return Always(bool(tree.this))
    if (isinstance(tree, exp.Column) and not tree.table) or isinstance(tree, exp.Literal):
        return Item(find_item(str(tree.name), position))
    raise QueryError(
        f"'{tree.sql()[:80]}' is not part of the language of items. Write item names (quoted when "
        f"they have blanks or signs "
        'in them) with and, or, not: bread and not "whole milk".'
    )


def find_item(name: str, position: Mapping[str, int]) -> int:
    if name not in position:
        raise QueryError(
            f"There is no item '{name[:80]}' in the release's "
            f"universe.{did_you_mean(name, position)}"
        )
    return position[name]


def atoms_of(node: Node) -> tuple[int, ...]:
    """The items a question speaks of, ascending."""
    out: set[int] = set()
    todo: list[Node] = [node]
    while todo:
        one = todo.pop()
        if isinstance(one, Item):
            out.add(one.position)
        elif isinstance(one, Not):
            todo.append(one.part)
        elif isinstance(one, Every | Some):
            todo += one.parts
    if len(out) > MAX_ATOMS:
        raise QueryError(
            f"A question may speak of {MAX_ATOMS} items; this one speaks of {len(out)}."
        )
    return tuple(sorted(out))


def truth_of(node: Node, state: Callable[[int], Truths], size: int) -> Truths:
    """Kleene's three-valued truth, for many states of the items at once."""
    if isinstance(node, Item):
        return state(node.position)
    if isinstance(node, Not):
        return -truth_of(node.part, state, size)
    if isinstance(node, Always):
        return np.full(size, 1 if node.holds else -1, dtype=np.int8)
    values = [truth_of(part, state, size) for part in node.parts]
    joined: Truths = (
        np.minimum.reduce(values) if isinstance(node, Every) else np.maximum.reduce(values)
    )
    return joined
