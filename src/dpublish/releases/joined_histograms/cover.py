"""Which cells of a few columns a predicate selects: wholly, at all, and how much of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpublish.declare.domain import Domain
from dpublish.models.junction_tree.consistency import Ints
from dpublish.query.masks import Coverage, cover_plane, select
from dpublish.query.predicate import And, Constant, Leaf, Node, Or, Plane


def cover_codes(
    node: Node, domain: Domain, columns: Sequence[int], codes: Sequence[Ints], count: int
) -> Coverage:
    """The coverage of cells given by their codes along `columns`, which include all that the
    predicate names."""
    if not columns:
        flags = np.full(count, isinstance(node, Constant) and node.holds)
        return Coverage(flags, flags, flags.astype(np.float64))
    place = {column: index for index, column in enumerate(columns)}
    # a domain of these columns alone: the number of cells of a whole table may be beyond any float
    small = Domain(tuple(domain.axes[column] for column in columns))
    moved = _moved(node, place)
    if isinstance(moved, Plane):
        return cover_plane(moved, small, codes.__getitem__, count)
    return select(moved, small).cover(lambda index: codes[index], count)


def cover_table(node: Node, domain: Domain, columns: Sequence[int]) -> Coverage:
    """The coverage of every combination of levels of `columns`, as tables with one axis a
    column."""
    shape = tuple(domain.axes[column].cardinality for column in columns)
    cells = math.prod(shape)
    codes = (
        [code.astype(np.int64) for code in np.unravel_index(np.arange(cells), shape)]
        if shape
        else []
    )
    found = cover_codes(node, domain, columns, codes, cells)
    return Coverage(
        found.inside.reshape(shape), found.touched.reshape(shape), found.share.reshape(shape)
    )


def _moved(node: Node, place: dict[int, int]) -> Node:
    """The same predicate with axes renumbered."""
    if isinstance(node, Leaf):
        return replace(node, axis=place[node.axis])
    if isinstance(node, Plane):
        return replace(node, axes=tuple(place[axis] for axis in node.axes))
    if isinstance(node, And | Or):
        return type(node)(tuple(_moved(part, place) for part in node.parts))
    return node
