"""Frequent itemsets and association rules of weighted itemsets.

No well-kept Python miner runs on weighted itemsets: those of mlxtend (0.25) and efficient-apriori
(2.0) count every transaction once and take no weights, and repeating each itemset as often as its
weight says would undo what makes a release small. wfpgrowth (0.1) takes weights, but is one small
module with two releases, and asks for a threshold; the weighted miner of arules is in R. A
best-first search for the top k needs no threshold and looks at little more than the k answers: that
is here.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpublish.errors import QueryError, did_you_mean
from dpublish.query.constants import quoted
from dpublish.query.predicate import MAX_DEPTH, parse_sql

# Boolean questions about items: their language, and their truth in itemsets and in partitions
# that are only partly decided.
#
# bread and milk "whole milk" or 'rolls/buns' bread and not (beer or wine)

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
    example = " and not ".join(map(quoted, list(position)[:2]))
    return _read(parse_sql(text, example=example), position, 0)


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
    decide = np.minimum if isinstance(node, Every) else np.maximum
    return np.asarray(decide.reduce([truth_of(part, state, size) for part in node.parts]))


Itemset = tuple[int, ...]
MAX_ITEMSETS = 100_000


@dataclass(frozen=True, eq=False)
class WeightedSets:
    """Itemset r is `members[offsets[r]:offsets[r + 1]]`, ascending item numbers below `items`, with
    weight `weights[r]`."""

    offsets: NDArray[np.int64]
    members: NDArray[np.int32]
    weights: NDArray[np.float64]
    items: int

    def holders(self, item: int) -> NDArray[np.int64]:
        """The rows that hold an item, ascending."""
        order, starts = self._by_item
        return order[starts[item] : starts[item + 1]]

    @cached_property
    def _by_item(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        rows = np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))
        order = np.argsort(self.members, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.members, minlength=self.items))])
        return rows[order], starts

    def members_of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The members of some rows, one row after the other, and how many each has."""
        lengths = np.diff(self.offsets)[rows]
        ends = np.cumsum(lengths)
        places = np.arange(lengths.sum()) + np.repeat(self.offsets[rows] - ends + lengths, lengths)
        return self.members[places], lengths

    def item_weights(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """The weight of every item within `rows` (all rows when left out)."""
        if rows is None:
            rows = np.arange(self.offsets.size - 1)
        members, lengths = self.members_of(rows)
        weights = np.repeat(self.weights[rows], lengths)
        return np.bincount(members, weights=weights, minlength=self.items).astype(np.float64)


def top_itemsets(
    sets: WeightedSets, k: int, *, min_size: int = 1, max_size: int | None = None
) -> list[tuple[Itemset, float]]:
    """The k itemsets of the greatest weight, heaviest first; ties go to smaller item numbers.
    Weights must not be negative.

    An itemset never weighs more than its parts, so that itemsets leave the queue in the order of
    their weight.
    """
    check_sizes(k, min_size, max_size)
    single = sets.item_weights()
    queue: list[tuple[float, Itemset]] = [
        (-float(single[item]), (int(item),)) for item in np.flatnonzero(single > 0)
    ]
    heapq.heapify(queue)
    found: list[tuple[Itemset, float]] = []
    while queue and len(found) < k:
        weight, items = heapq.heappop(queue)
        if len(items) >= min_size:
            found.append((items, -weight))
        if max_size is not None and len(items) >= max_size:
            continue
        within = sets.item_weights(rows_with(sets, items))
        for item in np.flatnonzero(within[items[-1] + 1 :] > 0) + items[-1] + 1:
            heapq.heappush(queue, (-float(within[item]), (*items, int(item))))
    return found


def check_sizes(k: int, min_size: int, max_size: int | None) -> None:
    if isinstance(k, bool) or not isinstance(k, Integral) or not 1 <= k <= MAX_ITEMSETS:
        raise QueryError(
            f"The number of itemsets must be a whole number from 1 to {MAX_ITEMSETS:,}, not {k!r}."
        )
    if min_size < 1 or (max_size is not None and max_size < min_size):
        raise QueryError(
            f"Sizes must satisfy 1 <= min_size <= max_size; given {min_size} and {max_size}."
        )


def rows_with(sets: WeightedSets, items: Itemset) -> NDArray[np.int64]:
    """The rows that hold all of the items, ascending: those of the rarest item, looked up among
    those of the others."""
    if not items:
        return np.arange(sets.offsets.size - 1)
    held = sorted((sets.holders(item) for item in items), key=len)
    rows = held[0]
    for others in held[1:]:
        if rows.size == 0:
            break
        place = np.searchsorted(others, rows)
        rows = rows[(place < others.size) & (others[np.minimum(place, others.size - 1)] == rows)]
    return rows


def support_table(sets: WeightedSets) -> NDArray[np.float64]:
    """The supports of all 2^items itemsets of a small universe at once, by the bits of an itemset.
    Weights may be negative."""
    masks = (
        np.bitwise_or.reduceat(np.left_shift(1, sets.members, dtype=np.int64), sets.offsets[:-1])
        if sets.offsets.size > 1
        else np.empty(0, dtype=np.int64)
    )
    table = np.bincount(masks, weights=sets.weights, minlength=1 << sets.items).astype(np.float64)
    for bit in range(sets.items):  # sums over supersets, one item at a time
        halves = table.reshape(-1, 2, 1 << bit)
        halves[:, 0] += halves[:, 1]
    return table


def top_of_table(
    table: NDArray[np.float64], k: int, *, min_size: int = 1, max_size: int | None = None
) -> list[tuple[Itemset, float]]:
    """As `top_itemsets`, from the supports of all itemsets, of which parts may weigh less than
    wholes."""
    check_sizes(k, min_size, max_size)
    items = int(table.size).bit_length() - 1
    masks = np.arange(table.size)
    sizes = sum((masks >> bit) & 1 for bit in range(items))
    fits = np.flatnonzero(
        (sizes >= min_size) & (sizes <= (items if max_size is None else max_size)) & (table > 0)
    )
    return [
        (tuple(bit for bit in range(items) if int(mask) >> bit & 1), float(table[mask]))
        for mask in fits[np.argsort(-table[fits], kind="stable")[:k]]
    ]


@dataclass(frozen=True)
class Rule:
    """If a transaction holds `given`, it often holds `then` as well."""

    given: Itemset
    then: Itemset
    support: float
    confidence: float
    lift: float


def association_rules(
    found: Mapping[Itemset, float], total: float, *, min_confidence: float
) -> list[Rule]:
    """All rules within the given itemsets, most confident first. `found` must hold every part of
    each of its itemsets."""
    if not 0 <= min_confidence <= 1:
        raise QueryError(f"min_confidence must lie between 0 and 1, not {min_confidence!r}.")
    rules = []
    for items, support in found.items():
        for size in range(1, len(items)):
            for given in combinations(items, size):
                then = tuple(item for item in items if item not in given)
                if given not in found or then not in found or found[given] <= 0 or found[then] <= 0:
                    continue
                confidence = support / found[given]
                if confidence >= min_confidence:
                    lift = confidence * total / found[then] if total > 0 else float("nan")
                    rules.append(Rule(given, then, support, confidence, lift))
    return sorted(rules, key=lambda rule: (-rule.confidence, -rule.support, rule.given, rule.then))


# Utility metrics of set-valued releases (Chen et al. 2011), for curators on data they are allowed
# to look at.
#
# They compare a release with the true transactions, so their results are not private: for tests,
# for public data, and for a curator's own eyes. Never publish them with a release, and never
# choose a setting by them on the data that is released.

SANITY_SHARE = 0.001
SMALL_UNIVERSE = 20


def support_of(sets: WeightedSets, items: Iterable[int]) -> float:
    """The weight of the rows that hold all of the items."""
    return float(sets.weights[rows_with(sets, tuple(items))].sum())


def supports(sets: WeightedSets, queries: Sequence[Iterable[int]]) -> NDArray[np.float64]:
    """`support_of` every query. Of a small universe all supports are worked out at once: queries
    then cost nothing."""
    if sets.items <= SMALL_UNIVERSE:
        masks = [sum(1 << int(item) for item in set(query)) for query in queries]
        return support_table(sets)[masks]
    return np.array([support_of(sets, query) for query in queries], dtype=np.float64)


def relative_errors(
    truth: WeightedSets,
    release: WeightedSets,
    queries: Sequence[Iterable[int]],
    *,
    sanity: float = SANITY_SHARE,
) -> NDArray[np.float64]:
    """|Q(release) - Q(truth)| / max(Q(truth), sanity * records) of every counting query.

    Exact, so as private as `truth`: not for publishing where that is private.
    """
    if not 0 < sanity <= 1:
        raise QueryError(
            f"The sanity bound is a share of the records, above 0 and at most 1; given {sanity!r}."
        )
    exact, noisy = supports(truth, queries), supports(release, queries)
    bound = max(sanity * float(truth.weights.sum()), np.finfo(np.float64).tiny)
    floor = np.maximum(exact, bound)
    return np.asarray(np.abs(noisy - exact) / floor, dtype=np.float64)


def top_similarity(truth: Mapping[Itemset, float], release: Mapping[Itemset, float]) -> float:
    """One minus the mean relative error of the supports of the true top itemsets; one that is
    missing counts as zero.

    1 means that both lists agree, supports and all. It falls below 0 when supports are far too
    large. As private as `truth`: not for publishing where that is private.
    """
    if not truth:
        raise QueryError("There is no itemset to compare.")
    losses = [abs(release.get(items, 0.0) - support) / support for items, support in truth.items()]
    return 1.0 - sum(losses) / len(losses)
