"""A model given a condition: how many rows satisfy it, and rows that do.

A condition is taken apart into what it says of single columns and the rest. The first part goes
into the model as evidence: each level keeps the share of its rows that satisfy it, and the junction
tree spreads the news, so that rows are drawn among those that satisfy it from the start, however
rare they are. What ties columns together is checked row by row. Bins that a constant cuts are
looked at in pieces, so that a drawn number satisfies the condition and not only its bin.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from dpublish.arrays import Floats, Ints
from dpublish.declare.domain import Axis, Domain
from dpublish.models.bin_shapes import part_between, tilts_of
from dpublish.models.junction_tree.consistency import sum_groups
from dpublish.models.junction_tree.model import JunctionModel, draw
from dpublish.query.masks import cover_codes
from dpublish.query.predicate import And, Constant, Leaf, Node, Or, columns_of
from dpublish.releases.frames import drawn_values

ROUNDS = 60
"""Times that rows are drawn before there are too few of them."""


@dataclass(frozen=True)
class Pieces:
    """The levels of a column, those that a constant cuts in pieces: which level each piece is of,
    and how much of it."""

    axis: Axis
    level: Ints
    share: Floats


class Conditioned:
    """A model given a condition."""

    def __init__(self, model: JunctionModel, domain: Domain, node: Node) -> None:
        self._domain = domain
        self._pieces = {
            column: pieces_of(domain.axes[column], leaves_of(node, column))
            for column in columns_of(node)
        }
        self._refined = Domain(
            tuple(
                self._pieces[place].axis if place in self._pieces else axis
                for place, axis in enumerate(domain.axes)
            )
        )
        alone, self._rest = taken_apart(node)
        # what is left of each piece: all of it, or nothing
        self._kept = {
            column: self._pieces[column].share * self._holds(part, column)
            for column, part in alone.items()
        }
        self._impossible = isinstance(self._rest, Constant) and not self._rest.holds
        evidence = {
            column: np.bincount(self._pieces[column].level, weights=kept).astype(np.float64)
            for column, kept in self._kept.items()
        }
        self.model = given(model, evidence)
        """The model of the rows that satisfy what the condition says of single columns."""

    @property
    def exact(self) -> bool:
        """Whether the condition says nothing but of single columns, so that no row needs a
        check."""
        return isinstance(self._rest, Constant)

    def expected(self, rows: int, generator: np.random.Generator) -> float:
        """How many rows satisfy the condition; of `rows` drawn ones where columns are tied
        together."""
        if self._impossible or self.model.total <= 0:
            return 0.0
        if self.exact:
            return self.model.total
        return self.model.total * float(self._satisfied(self._draw(rows, generator)).mean())

    def sample(self, number: int, generator: np.random.Generator) -> tuple[pl.DataFrame, int]:
        """Rows that satisfy the condition, with the types of their columns, and how many were
        found: fewer than asked for where they are too rare."""
        kept: list[list[Ints]] = []
        held, batch = 0, number if self.exact else max(10_000, 2 * number)
        for _ in range(0 if self._impossible or self.model.total <= 0 else ROUNDS):
            codes = self._draw(batch, generator)
            hit = np.flatnonzero(self._satisfied(codes))
            kept.append([code[hit] for code in codes])
            held += len(hit)
            if held >= number:
                break
        order = generator.permutation(held)[:number]
        axes = self._refined.axes
        codes = (
            [np.concatenate(parts)[order] for parts in zip(*kept, strict=True)]
            if kept
            else [order] * len(axes)
        )
        return pl.DataFrame(
            [drawn_values(axis, code, generator) for axis, code in zip(axes, codes, strict=True)]
        ), held

    def _draw(self, number: int, generator: np.random.Generator) -> list[Ints]:
        """Codes of rows, in pieces of levels along the columns that the condition names."""
        codes = self.model.sample_codes(number, generator)
        for column, pieces in self._pieces.items():
            if len(pieces.level) > self._domain.axes[column].cardinality:
                codes[column] = _draw_pieces(
                    pieces.level, self._kept.get(column, pieces.share), codes[column], generator
                )
        return codes

    def _satisfied(self, codes: Sequence[Ints]) -> Ints:
        columns = sorted(columns_of(self._rest))
        return self._covered(
            self._rest, columns, [codes[column] for column in columns], len(codes[0])
        )

    def _holds(self, part: Node, column: int) -> Ints:
        """Of which pieces of a column a condition on it alone is true."""
        pieces = np.arange(len(self._pieces[column].level), dtype=np.int64)
        return self._covered(part, [column], [pieces], len(pieces))

    def _covered(
        self, node: Node, columns: Sequence[int], codes: Sequence[Ints], count: int
    ) -> Ints:
        # no constant cuts a piece, but for the one point that closes a column of real numbers
        share = cover_codes(node, self._refined, columns, codes, count).share
        return np.asarray(share > 0.5, dtype=np.int64)


def taken_apart(node: Node) -> tuple[dict[int, Node], Node]:
    """What a condition says of single columns, and the rest: true together just where the condition
    is."""
    alone: dict[int, list[Node]] = {}
    rest: list[Node] = []
    for part in _conjuncts(node):
        columns = columns_of(part)
        if len(columns) == 1:
            alone.setdefault(min(columns), []).append(part)
        elif columns or not (isinstance(part, Constant) and part.holds):
            rest.append(part)
    joined = {
        column: parts[0] if len(parts) == 1 else And(tuple(parts))
        for column, parts in alone.items()
    }
    if any(isinstance(part, Constant) for part in rest):
        return joined, Constant(False)
    return joined, (And(tuple(rest)) if len(rest) > 1 else rest[0]) if rest else Constant(True)


def _conjuncts(node: Node) -> list[Node]:
    return (
        [one for part in node.parts for one in _conjuncts(part)]
        if isinstance(node, And)
        else [node]
    )


def leaves_of(node: Node, column: int) -> list[Leaf]:
    """The tests of one column."""
    if isinstance(node, Leaf):
        return [node] if node.axis == column else []
    return (
        [leaf for part in node.parts for leaf in leaves_of(part, column)]
        if isinstance(node, And | Or)
        else []
    )


def pieces_of(axis: Axis, leaves: Sequence[Leaf]) -> Pieces:
    """A column whose bins are cut where the tests change."""
    codes = np.arange(axis.cardinality, dtype=np.int64)
    ends = {
        end for leaf in leaves for interval in leaf.intervals for end in interval if end is not None
    }
    cuts = {
        end for end in ends - set(axis.edges) if axis.edges and axis.edges[0] < end < axis.edges[-1]
    }
    if not cuts:
        return Pieces(axis, codes, np.ones(len(codes)))
    edges = sorted([*axis.edges, *cuts])
    kind = np.float64 if axis.kind == "real" else np.int64
    level = (
        np.searchsorted(
            np.array(axis.edges, dtype=kind), np.array(edges[:-1], dtype=kind), side="right"
        )
        - 1
    )
    share = np.array(
        [
            part_between(axis, code, before, after)
            for code, (before, after) in zip(level.tolist(), itertools.pairwise(edges), strict=True)
        ]
    )
    extra = codes[axis.base :]
    widths = np.diff(np.array(edges, dtype=np.float64)), np.diff(np.array(axis.edges, dtype=float))
    tilts = tilts_of(axis)[level] * widths[0] / widths[1][level]
    return Pieces(
        replace(axis, edges=tuple(edges), tilts=tuple(tilts.tolist()) if axis.tilts else ()),
        np.concatenate([level, extra]).astype(np.int64),
        np.concatenate([share, np.ones(len(extra))]),
    )


def given(model: JunctionModel, evidence: dict[int, Floats]) -> JunctionModel:
    """The model of those rows that evidence leaves: of each level of a column, a share. Its total
    says how many they are."""
    labels, singles, factors = model.labels.copy(), list(model.singles), {}
    for column, share in evidence.items():
        if column == model.target:
            labels *= share
            continue
        left = model.within_state(column) * share[:, None]
        singles[column] = left
        factors[column] = sum_groups(left, model.state_of[column], model.beliefs.states[column])
    beliefs = model.beliefs.given(factors)
    # trees of columns know nothing of each other but the label, of which each has its own opinion
    # now
    for one, before in beliefs.order:
        if before is None:
            labels *= np.where(
                model.labels > 0,
                beliefs.over(one, ()) / np.where(model.labels > 0, model.labels, 1.0),
                0.0,
            )
    if model.target is not None:
        singles[model.target] = np.diag(labels)
    return JunctionModel(
        labels, singles, model.state_of, beliefs, model.tables, target=model.target
    )


def _draw_pieces(level: Ints, kept: Floats, codes: Ints, generator: np.random.Generator) -> Ints:
    """A piece of the level of each row."""
    sizes = np.bincount(level)
    starts = np.cumsum(sizes) - sizes  # pieces of a level stand side by side
    conditional = np.zeros((len(sizes), int(sizes.max())))
    conditional[level, np.arange(len(level)) - starts[level]] = kept
    conditional[conditional.sum(axis=1) <= 0.0, 0] = 1.0  # no row is of such a level
    return np.asarray(starts[codes] + draw(codes, conditional, generator))
