"""Several classes of queries in one list: which are measured together, with which shares of the
budget, and what each class errs by. From public facts alone.

Each class counts alike: what is made small is the mean over classes of the mean square error, in
multiples of what the class would have alone with all of the budget. Tables may serve several
classes at once, but a few queries are often nearer when they are measured by themselves. So three
ways are compared: all classes together; those that want tables together, and each of the others by
itself; every class by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpublish.declare.domain import Domain
from dpublish.methods.workload.plan import (
    Direct,
    best_direct,
    shortened,
    square_of_one,
    words_of,
)
from dpublish.methods.workload.strategy import GRID, Part, asked_columns, mean_square
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.workloads.query_classes import MixedQueries, QueryClass, members_of

Groups = Sequence[Sequence[Part]]


@dataclass(frozen=True)
class Together:
    """Some classes of a list, by their places in it, that are measured together with a share of
    the budget. `domain` has the columns that their answers are measured over."""

    classes: tuple[int, ...]
    queries: QueryClass
    domain: Domain
    direct: Direct
    share: Fraction = Fraction(1)


def weighed(groups: Groups, alone: Sequence[float]) -> list[list[Part]]:
    """Parts of several classes, weighed so that each class counts alike: by what it errs, as a
    multiple of what it would err by (mean square `alone`) if all of the budget were for it."""
    return [
        [replace(part, weight=1 / (square * sum(one.count for one in parts))) for part in parts]
        for parts, square in zip(groups, alone, strict=True)
    ]


def best_lists(
    queries: QueryClass, domain: Domain, groups: Groups, budget: BudgetSplit, known: int | None
) -> tuple[tuple[Together, ...], list[float]]:
    """How to measure a list, none where that cannot be done; and the mean square of each class if
    it were alone."""
    classes = members_of(queries)
    if len(classes) == 1:
        found = best_direct(queries, domain, groups, budget, known)
        whole = () if found is None else (Together((0,), queries, domain, found),)
        return whole, [1.0 if found is None else found.mean_square]
    single: list[Together | None] = []
    for place, one in enumerate(classes):
        seen = Domain(tuple(domain.axes[at] for at in asked_columns(one, domain)))
        found = best_direct(one, domain, [groups[place]], budget, known, seen)
        where = domain if found is None or found.strategy else seen
        single.append(None if found is None else Together((place,), one, where, found))
    alone = [1.0 if own is None else own.direct.mean_square for own in single]
    parts = weighed(groups, alone)

    def together(places: Sequence[int]) -> Together | None:
        if len(places) == 1:
            return single[places[0]]
        some = MixedQueries([classes[place] for place in places])
        found = best_direct(some, domain, [parts[place] for place in places], budget, known)
        return None if found is None else Together(tuple(places), some, domain, found)

    every = tuple(range(len(classes)))
    tables = tuple(
        place for place, own in enumerate(single) if own is None or own.direct.strategy is not None
    )
    ways = {(every,), tuple((place,) for place in every)}
    ways.add((*((tables,) if tables else ()), *((p,) for p in every if p not in tables)))
    made = {places: together(places) for places in {some for way in ways for some in way}}
    tried = [
        _shared([held for places in way if (held := made[places])], alone, budget, known, parts)
        for way in sorted(ways)
        if all(made[places] is not None for places in way)
    ]
    return min(tried, key=lambda way: _score(way, alone), default=()), alone


def _score(way: Sequence[Together], alone: Sequence[float]) -> float:
    return sum(
        square / alone[place]
        for one in way
        for place, square in zip(one.classes, one.direct.squares, strict=True)
    )


def _shared(
    way: Sequence[Together],
    alone: Sequence[float],
    budget: BudgetSplit,
    known: int | None,
    parts: Groups,
) -> tuple[Together, ...]:
    """With shares of the budget that make the score least: errors go down as one over the share
    (Laplace), or its root (Gaussian)."""
    power = 1 / 3 if budget.law == "laplace" else 1 / 2
    wanted = [_score([one], alone) ** power for one in way]
    whole = [max(1, math.floor(GRID * one / sum(wanted))) for one in wanted]
    whole[whole.index(max(whole))] += GRID - sum(whole)
    out = []
    for one, amount in zip(way, whole, strict=True):
        share = Fraction(amount, GRID)
        direct = _with(one, budget.holding(budget.amount * share), known, parts)
        out.append(replace(one, share=share, direct=direct))
    return tuple(out)


def _with(one: Together, budget: BudgetSplit, known: int | None, parts: Groups) -> Direct:
    """The same measurements for less."""
    made = one.direct
    if made.strategy is None:
        square = square_of_one(made.sensitivity, budget, one.queries)
        return replace(made, mean_square=square, squares=(square,) * len(one.classes))
    squares = tuple(
        mean_square(
            made.strategy,
            [replace(part, weight=1.0) for part in parts[place]],
            budget,
            known is not None,
        )
        for place in one.classes
    )
    return replace(made, mean_square=sum(squares) / len(squares), squares=squares)


def squares_of(way: Sequence[Together]) -> tuple[float, ...]:
    """The mean square of every class of a list, in its order."""
    found = {
        place: square
        for one in way
        for place, square in zip(one.classes, one.direct.squares, strict=True)
    }
    return tuple(found[place] for place in sorted(found))


@dataclass(frozen=True)
class Errors:
    """What each way of answering a list is expected to err by: mean squares, one per class."""

    queries: QueryClass
    counts: tuple[int, ...]
    alone: tuple[float, ...]
    squares: Mapping[str, tuple[float, ...]]

    def least(self) -> str:
        """The way with the least mean over classes, each in multiples of its error alone."""

        def score(name: str) -> float:
            return sum(a / b for a, b in zip(self.squares[name], self.alone, strict=True))

        return min(self.squares, key=lambda name: (score(name), name != "direct"))

    def overall(self) -> dict[str, float]:
        """Root mean squares over all queries."""
        return {
            name: math.sqrt(
                sum(a * b for a, b in zip(squares, self.counts, strict=True)) / sum(self.counts)
            )
            for name, squares in self.squares.items()
        }

    def by_class(self) -> list[dict[str, Any]]:
        return [
            {
                "queries": one.text(),
                "count": self.counts[place],
                "alone": math.sqrt(self.alone[place]),
                **{name: math.sqrt(some[place]) for name, some in self.squares.items()},
            }
            for place, one in enumerate(members_of(self.queries))
            if len(self.counts) > 1
        ]

    def sentences(self, chosen: str) -> list[str]:
        if chosen not in self.squares or not self.by_class():
            return []
        each = [
            f"{shortened(one['queries'])} {one[chosen]:,.4g} (measured alone {one['alone']:,.4g})"
            for one in self.by_class()
        ]
        return [
            f"Expected error by class: {'; '.join(each)}. Each class counts alike, by what it errs "
            "in multiples of what it would err by alone; one release answers all of them."
        ]


def told(one: Together, domain: Domain, budget: BudgetSplit, lists: int) -> list[str]:
    """What is measured for some classes."""
    if lists == 1:
        return words_of(one.direct, domain, budget)
    share = f"For {shortened(one.queries.text())}, {float(one.share):.1%} of the budget: "
    return [share + line for line in words_of(one.direct, domain, budget, "that")]
