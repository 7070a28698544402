"""Which cells of a domain a predicate selects, without listing the domain.

Along each column that the predicate names, codes that it cannot tell apart are one *class*; a bin
that a constant cuts is spread over several classes in proportion to their share of the bin. A
predicate is then a small table over classes. Parts that share no column are worked out on their own
and combined, so the table stays small even for long predicates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Flags
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.models.bin_shapes import part_between
from dpublish.query.linear_condition import cells_above
from dpublish.query.predicate import And, Constant, Leaf, Node, Or, Plane, columns_of

MAX_TABLE = 1 << 22

Codes = Callable[[int], NDArray[np.int64]]
"""Gives the codes of the released cells along one axis."""


@dataclass(frozen=True)
class Coverage:
    """Of some cells: which are wholly selected, which are at all, and how much of each is."""

    inside: Flags
    touched: Flags
    share: NDArray[np.float64]


@dataclass(frozen=True)
class Selection:
    """A predicate over `size` cells (of the columns it names): how many it selects, and a function
    for given cells."""

    size: int
    inside: int
    touched: int
    share: float
    cover: Callable[[Codes, int], Coverage]

    def widened(self, factor: int) -> Selection:
        """The same predicate over a domain with further columns, `factor` cells for each one
        here."""
        return Selection(
            self.size * factor,
            self.inside * factor,
            self.touched * factor,
            self.share * factor,
            self.cover,
        )


def select(node: Node, domain: Domain) -> Selection:
    """The selection of a predicate over the whole domain."""
    chosen = _select(node, domain)
    return chosen.widened(domain.size // chosen.size)


_SELECTED: WeakKeyDictionary[Node, tuple[Domain, Selection]] = WeakKeyDictionary()
"""What conditions that are still in use select: the lines of a SELECT share theirs, and ask for
several numbers of the same rows."""


def _select(node: Node, domain: Domain) -> Selection:
    if isinstance(node, Constant):
        return _constant(node.holds)
    if isinstance(node, Plane):
        return _plane(node, domain)  # what it selects holds on to it
    kept = _SELECTED.get(node)
    if kept is None or kept[0] is not domain:
        kept = _SELECTED[node] = domain, _selection(node, domain)
    return kept[1]


def _selection(node: Node, domain: Domain) -> Selection:
    if isinstance(node, And | Or):
        groups = _independent(node.parts)
        if len(groups) > 1:
            parts = [
                _select(type(node)(tuple(group)) if len(group) > 1 else group[0], domain)
                for group in groups
            ]
            return _both(parts) if isinstance(node, And) else _either(parts)
    return _table(node, domain)


def _independent(parts: Sequence[Node]) -> list[list[Node]]:
    """Parts grouped so that two groups share no column."""
    groups: list[tuple[set[int], list[Node]]] = []
    for part in parts:
        columns, members = set(columns_of(part)), [part]
        apart = []
        for group in groups:
            if group[0] & columns:
                columns |= group[0]
                members = group[1] + members
            else:
                apart.append(group)
        groups = [*apart, (columns, members)]
    return [members for _, members in groups]


def _constant(holds: bool) -> Selection:
    def cover(codes: Codes, count: int) -> Coverage:
        flags = np.full(count, holds)
        return Coverage(flags, flags, flags.astype(np.float64))

    return Selection(1, int(holds), int(holds), float(holds), cover)


def cover_plane(node: Plane, domain: Domain, codes: Codes, count: int) -> Coverage:
    """The coverage of given cells by a halfspace."""
    share, inside, touched = cells_above(
        [domain.axes[axis] for axis in node.axes],
        node.weights,
        node.bound,
        node.strict,
        lambda place: codes(node.axes[place]),
        count,
    )
    return Coverage(inside, touched, np.where(inside, 1.0, share))


def _plane(node: Plane, domain: Domain) -> Selection:
    shape = tuple(domain.axes[axis].cardinality for axis in node.axes)
    size = math.prod(shape)
    if size > MAX_TABLE:
        raise QueryError(
            f"The columns of a weighted sum have {size:,} combinations of bins here; at most "
            f"{MAX_TABLE:,} are looked at."
        )
    every = dict(zip(node.axes, np.indices(shape).reshape(len(shape), size), strict=True))
    found = cover_plane(node, domain, every.__getitem__, size)
    return Selection(
        size=size,
        inside=int(found.inside.sum()),
        touched=int(found.touched.sum()),
        share=float(found.share.sum()),
        cover=lambda codes, count: cover_plane(node, domain, codes, count),
    )


def _both(parts: Sequence[Selection]) -> Selection:
    def cover(codes: Codes, count: int) -> Coverage:
        each = [part.cover(codes, count) for part in parts]
        return Coverage(
            np.logical_and.reduce([one.inside for one in each]),
            np.logical_and.reduce([one.touched for one in each]),
            np.multiply.reduce([one.share for one in each]),
        )

    return Selection(
        size=math.prod(part.size for part in parts),
        inside=math.prod(part.inside for part in parts),
        touched=math.prod(part.touched for part in parts),
        share=math.prod(part.share for part in parts),
        cover=cover,
    )


def _either(parts: Sequence[Selection]) -> Selection:
    # a cell is wholly in a union over separate columns only when it is wholly in one part, so all
    # four rules are complements
    def cover(codes: Codes, count: int) -> Coverage:
        each = [part.cover(codes, count) for part in parts]
        return Coverage(
            np.logical_or.reduce([one.inside for one in each]),
            np.logical_or.reduce([one.touched for one in each]),
            1.0 - np.multiply.reduce([1.0 - one.share for one in each]),
        )

    size = math.prod(part.size for part in parts)
    return Selection(
        size=size,
        inside=size - math.prod(part.size - part.inside for part in parts),
        touched=size - math.prod(part.size - part.touched for part in parts),
        share=size - math.prod(part.size - part.share for part in parts),
        cover=cover,
    )


@dataclass(frozen=True)
class _AxisClasses:
    """One axis as a predicate sees it. `shares[p, k]`: how much of a code with profile p lies in
    class k."""

    truth: NDArray[np.int8]  # leaves x classes: 1 true, 0 false, -1 unknown
    profile_of_code: NDArray[np.int64]
    shares: NDArray[np.float64]
    members: list[int]


def _table(node: Node, domain: Domain) -> Selection:
    axes = sorted(columns_of(node))
    leaves: dict[int, list[Leaf]] = {index: [] for index in axes}
    _collect(node, leaves)
    classes = {index: _classes(domain.axes[index], leaves[index]) for index in axes}
    for count in (
        math.prod(one.shares.shape[1] for one in classes.values()),
        math.prod(one.shares.shape[0] for one in classes.values()),
    ):
        if count > MAX_TABLE:
            raise QueryError(
                "The predicate ties together too many values of too many columns at once. "
                "Use fewer constants, or ask for its parts one by one."
            )
    true, _ = _truth(node, axes, leaves, classes)
    shape = tuple(classes[index].shares.shape[1] for index in axes)
    share = np.broadcast_to(true, shape).astype(np.float64)
    hit, miss = share, 1.0 - share
    for place, index in enumerate(axes):
        matrix = classes[index].shares
        support = (matrix > 0).astype(np.float64)
        share, hit, miss = (
            _contract(table, by, place)
            for table, by in ((share, matrix), (hit, support), (miss, support))
        )
    touched, inside = hit > 0, miss == 0
    share = np.where(inside, 1.0, np.minimum(share, 1.0))

    def cover(codes: Codes, count: int) -> Coverage:
        where = tuple(classes[index].profile_of_code[codes(index)] for index in axes)
        return Coverage(inside[where], touched[where], share[where])

    members = [classes[index].members for index in axes]
    return Selection(
        size=math.prod(domain.axes[index].cardinality for index in axes),
        inside=_weigh(inside, members),
        touched=_weigh(touched, members),
        share=_weigh_share(share, members),
        cover=cover,
    )


def _contract(
    table: NDArray[np.float64], by: NDArray[np.float64], place: int
) -> NDArray[np.float64]:
    return np.moveaxis(np.tensordot(by, table, axes=(1, place)), 0, place)


def _weigh(flags: Flags, members: Sequence[list[int]]) -> int:
    """How many cells the flagged profiles stand for; a domain has at most 2^63 cells, so 64
    unsigned bits never overflow."""
    table = flags.astype(np.uint64)
    for counts in reversed(members):
        table = (table * np.array(counts, dtype=np.uint64)).sum(axis=-1, dtype=np.uint64)
    return int(table)


def _weigh_share(share: NDArray[np.float64], members: Sequence[list[int]]) -> float:
    for counts in reversed(members):
        share = share @ np.array(counts, dtype=np.float64)
    return float(share)


def _collect(node: Node, leaves: dict[int, list[Leaf]]) -> None:
    if isinstance(node, Leaf):
        leaves[node.axis].append(node)
    elif isinstance(node, Plane):
        raise QueryError(
            "A condition about a weighted sum stands beside another one about the same columns. "
            "Ask for them one by one."
        )
    elif not isinstance(node, Constant):
        for part in node.parts:
            _collect(part, leaves)


def _truth(
    node: Node, axes: Sequence[int], leaves: dict[int, list[Leaf]], classes: dict[int, _AxisClasses]
) -> tuple[Flags, Flags]:
    """Where a node is true and where it is false, over classes (broadcastable)."""
    if isinstance(node, Constant):
        flag = np.full((1,) * len(axes), node.holds)
        return flag, ~flag
    if isinstance(node, Leaf):
        row = next(i for i, leaf in enumerate(leaves[node.axis]) if leaf is node)
        values = classes[node.axis].truth[row]
        shape = [1] * len(axes)
        shape[axes.index(node.axis)] = len(values)
        yes, no = (values == 1).reshape(shape), (values == 0).reshape(shape)
        return (no, yes) if node.negated else (yes, no)
    assert not isinstance(node, Plane)  # `_collect` has refused it
    sides = [_truth(part, axes, leaves, classes) for part in node.parts]
    true, false = sides[0]
    for yes, no in sides[1:]:
        true, false = (
            (true & yes, false | no) if isinstance(node, And) else (true | yes, false & no)
        )
    return true, false


def _classes(axis: Axis, leaves: Sequence[Leaf]) -> _AxisClasses:
    extra = [(leaf.other, leaf.missing) for leaf in leaves]
    special = [[_sign(pair[0]) for pair in extra]] if axis.other else []
    special += [[_sign(pair[1]) for pair in extra]] if axis.missing else []
    if axis.numeric:
        truth, first, cut = _numeric_classes(axis, leaves)
    else:
        flags = [
            leaf.codes if leaf.codes is not None else np.zeros(axis.base, dtype=np.bool_)
            for leaf in leaves
        ]
        truth, first, cut = np.array(flags, dtype=np.int8), np.arange(axis.base), {}
    plain = truth.shape[1]
    if special:
        truth = np.concatenate([truth, np.array(special, dtype=np.int8).T], axis=1)
    merged, class_of = np.unique(truth, axis=1, return_inverse=True)
    class_of = class_of.reshape(-1).astype(np.int64)
    home = np.concatenate([class_of[first], class_of[plain:]])
    rows = list(np.eye(merged.shape[1]))
    for code, pieces in cut.items():
        row = np.zeros(merged.shape[1])
        for number, piece in pieces:
            row[class_of[number]] += piece
        if np.count_nonzero(row) > 1:
            home[code] = len(rows)
            rows.append(row)
    members = np.bincount(home, minlength=len(rows)).tolist()
    return _AxisClasses(merged, home, np.array(rows), members)


def _sign(truth: bool | None) -> int:
    return -1 if truth is None else int(truth)


def _numeric_classes(
    axis: Axis, leaves: Sequence[Leaf]
) -> tuple[NDArray[np.int8], NDArray[np.int64], dict[int, list[tuple[int, float]]]]:
    """Where the leaves hold by class, which class each bin starts in, and how the bins with a cut
    inside are shared out: bin -> [(class, share)]."""
    kind = np.float64 if axis.kind == "real" else np.int64
    edges = np.array(axis.edges, dtype=kind)
    starts, ends = edges[:-1], edges[1:].copy()
    if axis.kind == "real":
        ends[-1] = np.nextafter(ends[-1], np.inf)  # the last bin holds its upper edge
    bottom, top = starts[0].item(), ends[-1].item()
    ends_of = {
        end for leaf in leaves for interval in leaf.intervals for end in interval if end is not None
    }
    cuts = sorted(end for end in ends_of if bottom < end < top)
    points = [bottom, *cuts]
    truth = np.zeros((len(leaves), len(points)), dtype=np.int8)
    for row, leaf in enumerate(leaves):
        for low, high in leaf.intervals:
            for number, point in enumerate(points):
                if (low is None or low <= point) and (high is None or point < high):
                    truth[row, number] = 1
    marks = np.array(cuts, dtype=kind)
    first = np.searchsorted(marks, starts, side="right").astype(np.int64)
    last = np.searchsorted(marks, ends, side="left").astype(np.int64)
    shared: dict[int, list[tuple[int, float]]] = {}
    for code in np.flatnonzero(first != last).tolist():
        start, end = starts[code].item(), ends[code].item()
        pieces = []
        for number in range(first[code], last[code] + 1):
            low = start if number == first[code] else cuts[number - 1]
            high = end if number == last[code] else cuts[number]
            pieces.append((number, max(part_between(axis, code, low, high), 5e-324)))
        shared[code] = pieces
    return truth, first, shared


# Which cells of a few columns a predicate selects: wholly, at all, and how much of each.


def cover_codes(
    node: Node,
    domain: Domain,
    columns: Sequence[int],
    codes: Sequence[NDArray[np.int64]],
    count: int,
) -> Coverage:
    """The coverage of cells given by their codes along `columns`, which include all that the
    predicate names."""
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
    codes = list(np.indices(shape).reshape(len(shape), cells))
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
