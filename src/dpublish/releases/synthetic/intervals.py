"""Limits of any count, from the answers to one class of queries that are all within one bound of
the truth at once.

A condition is a set of cells. Where sums of queries hold it, or are held by it, their answers limit
its count. Of all such limits the tightest is taken, which costs no confidence because the bound
holds for all queries together. Where no query helps, the count lies between 0 and the number of
rows, and nothing more is said.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Flags, Floats
from dpublish.declare.domain import Domain
from dpublish.workloads.query_classes import Intervals, Marginals, QueryClass

MAX_SUBSETS = 200
MAX_WORK = 1 << 31


class ClassLimits:
    """Limits from `weights` (over all cells), which answer every query of a class within `bound`
    rows.

    The number of rows lies between `least` and `most`.
    """

    def __init__(
        self,
        domain: Domain,
        queries: QueryClass,
        weights: Floats,
        bound: float,
        *,
        least: float,
        most: float,
    ) -> None:
        self.domain, self.queries, self.bound, self.least, self.most = (
            domain,
            queries,
            bound,
            least,
            most,
        )
        self._weights = weights.reshape(domain.shape)
        for part in self._parts(range(len(domain.axes))):
            low, high = self._sum(
                part, np.ones([domain.shape[place] for place in part], dtype=np.bool_)
            )
            self.least, self.most = max(self.least, low), min(self.most, high)

    def of(self, places: Sequence[int], inside: Flags, touched: Flags) -> tuple[float, float]:
        """Limits of the rows in a set of cells, given over the codes of the columns at `places`.

        `inside` are cells that belong to it, `touched` those of which a part may: the limits allow
        for all or none of it.
        """
        low, high = self.least if inside.all() else 0.0, self.most if touched.any() else 0.0
        for least, most in self._found(places, inside, touched):
            low, high = max(low, least), min(high, most)
        # both ends hold whenever the bound does; should they cross, it does not, and neither end is
        # better than the other
        return (low, high) if low <= high else ((low + high) / 2, (low + high) / 2)

    def table(self, places: Sequence[int]) -> tuple[Floats, Floats]:
        """Limits of every cell of the table of some columns."""
        shape = tuple(self.domain.shape[place] for place in places)
        low, high = np.zeros(shape), np.full(shape, self.most)
        if not isinstance(self.queries, Marginals | Intervals):
            if math.prod(shape) * self._values.size <= MAX_WORK:
                for cell in np.ndindex(shape):
                    low[cell], high[cell] = self._one(places, shape, cell)
            return low, high
        for part in self._parts(places):
            counts = self._counts(part)
            if isinstance(self.queries, Marginals):
                least, most = np.maximum(counts - self.bound, 0.0), counts + self.bound
            else:
                each = [self._one(part, counts.shape, cell) for cell in np.ndindex(counts.shape)]
                least, most = (
                    np.array(ends).reshape(counts.shape) for ends in zip(*each, strict=True)
                )
            # a cell of all columns is part of its cell of fewer
            wide = tuple(
                size if place in part else 1 for place, size in zip(places, shape, strict=True)
            )
            high = np.minimum(high, most.reshape(wide))
            if len(part) == len(places):
                low = np.maximum(low, least)
        return low, np.maximum(low, high)

    def _one(
        self, places: Sequence[int], shape: tuple[int, ...], cell: tuple[int, ...]
    ) -> tuple[float, float]:
        flags = np.zeros(shape, dtype=np.bool_)
        flags[cell] = True
        return self.of(places, flags, flags)

    def _found(
        self, places: Sequence[int], inside: Flags, touched: Flags
    ) -> list[tuple[float, float]]:
        if not isinstance(self.queries, Marginals | Intervals):
            return [self._by_table(places, inside, touched)]
        found = []
        for part in self._parts(places):
            rest = tuple(axis for axis, place in enumerate(places) if place not in part)
            # the largest set over these columns that lies in it, and the smallest in which it lies
            within, around = np.asarray(inside.all(axis=rest)), np.asarray(touched.any(axis=rest))
            low = max(self._sum(part, within)[0], self.least - self._sum(part, ~within)[1])
            found.append(
                (low, min(self._sum(part, around)[1], self.most - self._sum(part, ~around)[0]))
            )
        return found

    def _parts(self, places: Sequence[int]) -> list[tuple[int, ...]]:
        """Sets of columns whose tables consist of queries. Few suffice: more could only make limits
        tighter."""
        if isinstance(self.queries, Intervals):
            named, axes = self.queries.column, self.domain.axes
            return [
                (place,)
                for place in places
                if (axes[place].ordered if named is None else axes[place].name == named)
            ]
        width = self.queries.width if isinstance(self.queries, Marginals) else 0
        widths = range(min(width, len(places)), 0, -1)
        subsets = (part for size in widths for part in itertools.combinations(places, size))
        return list(itertools.islice(subsets, MAX_SUBSETS))

    def _counts(self, part: Sequence[int]) -> Floats:
        rest = tuple(axis for axis in range(len(self.domain.axes)) if axis not in part)
        counts = self._weights.sum(axis=rest)
        # a sum keeps the order of the domain; the table has that of `part`
        kept = sorted(part)
        return np.asarray(counts.transpose([kept.index(place) for place in part]))

    def _sum(self, part: Sequence[int], flags: Flags) -> tuple[float, float]:
        counts = self._counts(part)
        if isinstance(self.queries, Intervals):
            return self._runs_sum(counts, flags, self.domain.axes[part[0]].base)
        # every cell is a query
        chosen = counts[flags]
        return float(np.maximum(chosen - self.bound, 0.0).sum()), float((chosen + self.bound).sum())

    def _runs_sum(self, counts: Floats, flags: Flags, base: int) -> tuple[float, float]:
        """Limits of a set of codes of one ordered column. Every run of its `base` codes with an
        order is a query."""
        edges = np.flatnonzero(np.diff(np.concatenate([[0], flags[:base].astype(np.int8), [0]])))
        starts, ends = edges[::2], edges[1::2]
        sums = np.concatenate([[0.0], np.cumsum(counts[:base])])
        low = float(np.maximum(sums[ends] - sums[starts] - self.bound, 0.0).sum())
        if flags[base:].any():
            return low, math.inf
        if not starts.size:
            return low, 0.0
        # two runs are covered by one query too, with what lies between them: that costs its rows
        # and saves a bound
        between = np.minimum(sums[starts[1:]] - sums[ends[:-1]], self.bound)
        return low, float(counts[flags].sum() + self.bound + between.sum())

    @cached_property
    def _values(self) -> NDArray[np.uint8] | NDArray[np.uint16]:
        return self.queries.table(self.domain)

    @cached_property
    def _answers(self) -> Floats:
        return np.asarray(self._values @ self._weights.reshape(-1) / self.queries.unit)

    def _by_table(
        self, places: Sequence[int], inside: Flags, touched: Flags
    ) -> tuple[float, float]:
        """Limits from single queries, whatever they are."""
        within, around = (self._spread(places, flags) for flags in (inside, touched))
        shared, apart = self._above(around)
        high = min(shared, apart)
        shared, apart = self._above(~within)
        # the second is right for any number of rows up to `most`: a query that is small outside
        # cannot owe its answer to there
        return max(
            self.least - shared, self.most - apart if math.isfinite(self.most) else 0.0
        ), high

    def _above(self, flags: Flags) -> tuple[float, float]:
        """Two numbers that the rows of these cells do not exceed: from queries with a value on all
        of them, and, when there are `most` rows, from queries that leave a part of each to
        others."""
        values, unit = self._values[:, flags], self.queries.unit
        least, largest = (
            values.min(axis=1, initial=unit) / unit,
            values.max(axis=1, initial=0) / unit,
        )
        with np.errstate(divide="ignore"):
            # q >= least on the cells, so their rows are at most q / least; and 1 - q >= 1 - largest
            shared = np.maximum(self._answers + self.bound, 0.0) / least
            apart = np.maximum(self.most - self._answers + self.bound, 0.0) / (1.0 - largest)
        usable = shared[least > 0], apart[largest < 1]
        first, second = (float(found.min()) if found.size else math.inf for found in usable)
        return first, second

    def _spread(self, places: Sequence[int], flags: Flags) -> Flags:
        """Flags over the codes of some columns, over all cells of the domain."""
        order = sorted(range(len(places)), key=places.__getitem__)
        shape = [size if place in places else 1 for place, size in enumerate(self.domain.shape)]
        return np.broadcast_to(flags.transpose(order).reshape(shape), self.domain.shape).reshape(-1)
