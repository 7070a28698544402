"""What declared rules leave of a condition: rows that break a rule were left out before anything
was counted, so that a condition which only such rows meet has none.

Only the numbers that a condition and the rules compare with tell values of a column apart here, so
that no bin of a release is cut by either.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.domain import Axis, Domain
from dpublish.errors import BundleError, QueryError
from dpublish.query.masks import cover_table
from dpublish.query.predicate import And, Leaf, Node, Or, Plane, columns_of, parse_predicate
from dpublish.releases.bundle.manifest import read_rules

RULED_OUT = "a rule of the schema says that there are none"
MAX_CELLS = 1 << 18
"""Combinations of values that are looked at; of a condition over more of them nothing is said."""


@dataclass(frozen=True)
class Ruled:
    """The rows of a domain, of which none meets a condition of `broken`."""

    domain: Domain
    broken: tuple[Node, ...]

    @classmethod
    def read(cls, listed: Any, domain: Domain) -> Ruled:
        """The rules in a manifest, as far as the domain has their columns."""
        broken = []
        for item in read_rules(listed):
            if set(item["columns"]) <= set(domain.names):
                text = f"({item['if']}) and not ({item['then']})"
                try:
                    broken.append(parse_predicate(text, domain))
                except QueryError as error:
                    raise BundleError(f"rules: {error}") from None
        return cls(domain, tuple(broken))

    def forbid(self, node: Node) -> bool:
        """Whether only rows that break a rule could meet a condition."""
        columns = set(columns_of(node))
        rules = [one for one in self.broken if columns_of(one) & columns]
        if not rules:
            return False
        named = columns.union(*map(columns_of, rules))
        places, axes = sorted(named), list(self.domain.axes)
        for place in places:
            axes[place] = _parts(axes[place], place, [node, *rules])
        if math.prod(axes[place].cardinality for place in places) > MAX_CELLS:
            return False
        parts = Domain(tuple(axes))
        try:
            touched = cover_table(node, parts, places).touched
            left = touched & _kept(rules, parts, places)
        except QueryError:  # a condition too long to be looked at
            return False
        return bool(touched.any() and not left.any())

    def kept(self, places: Sequence[int]) -> NDArray[np.bool_]:
        """Which combinations of codes of some columns no rule forbids wholly."""
        rules = [one for one in self.broken if columns_of(one) <= set(places)]
        return _kept(rules, self.domain, places)


def _kept(rules: Sequence[Node], domain: Domain, places: Sequence[int]) -> NDArray[np.bool_]:
    kept = np.ones([domain.axes[place].cardinality for place in places], dtype=np.bool_)
    for rule in rules:
        own = [place for place in places if place in columns_of(rule)]
        inside = cover_table(rule, domain, own).inside
        kept &= ~inside.reshape(
            [domain.axes[place].cardinality if place in own else 1 for place in places]
        )
    return kept


def _parts(axis: Axis, place: int, nodes: Collection[Node]) -> Axis:
    """A column with the parts that conditions tell apart; as it is where a weighted sum names
    it."""
    if not axis.numeric:
        return axis
    ends: set[Any] = set()
    left = list(nodes)
    for node in left:
        if isinstance(node, And | Or):
            left.extend(node.parts)
        elif isinstance(node, Plane) and place in node.axes:
            ends.update(axis.edges)
        elif isinstance(node, Leaf) and node.axis == place:
            ends |= {end for pair in node.intervals for end in pair if end is not None}
    first, last = axis.edges[0], axis.edges[-1]
    inner = sorted(end for end in ends if first < end < last)
    return replace(axis, edges=(first, *inner, last), tilts=())
