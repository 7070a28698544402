"""Limits of shares and means over private rows from what was counted of them, whatever the weights
say.

The weights reproduce the tables that were counted. What these do not determine (how columns go
together that were not counted together, and where in its bin a value lies) they take from the
public rows, and private rows may differ there. So:

* a sum over the cells of one counted table has an unbiased answer and a known noise: limits cover
  noise and sampling;
* of a bin that is cut, the lower limit takes nothing and the upper limit all;
* anything else is bounded by counted parts (Frechet's bounds), as in joined histograms.

Limits of a ratio take its numerator less the ratio times its denominator, which is again a sum over
cells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpublish.arrays import Floats
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.estimate import Basis
from dpublish.models.integer_limits import half_width, quantile
from dpublish.models.junction_tree.measured import Measured
from dpublish.query.constants import bare
from dpublish.query.masks import cover_codes, cover_table
from dpublish.query.predicate import And, Leaf, Node, Or, columns_of, parse_predicate, parse_sql
from dpublish.releases.joined_histograms.intervals import Intervals

MAX_CELLS = 1 << 22
MAX_BINS = 256
"""Bins up to which a mean is bounded bin by bin."""
_FOR_TOTAL = 0.1
"""The part of the error probability that is kept for a noisy number of rows."""


@dataclass(frozen=True)
class Question:
    """The share of rows that meet a condition, or the mean of a column's numbers; among rows that
    meet `where`, if given."""

    condition: Node | None = None
    column: int | None = None
    where: Node | None = None

    @property
    def columns(self) -> list[int]:
        parts = [columns_of(node) for node in (self.condition, self.where) if node is not None]
        named = frozenset() if self.column is None else frozenset({self.column})
        return sorted(named.union(*parts))


@dataclass(frozen=True)
class Limits:
    """`error` is a standard error where the basis is "counted", and half the width in normal
    quantiles for bounds."""

    low: float
    high: float
    error: float
    basis: Basis


def held(mean: float, limits: Limits, *, silent: bool) -> tuple[float, float, float]:
    """A mean of weighted rows and its limits by what was counted; `silent` where no weight can tell
    what no public row has. Then, and where weights miss what was counted, that says it alone."""
    end = min(max(mean, limits.low), limits.high)
    if silent or (limits.basis == "counted" and not math.isclose(mean, end, rel_tol=1e-12)):
        end = (limits.low + limits.high) / 2
    return end, limits.low, limits.high


class CountedLimits:
    """Limits from one release's tables; `rows` is the number of private rows, for the sampling
    error."""

    def __init__(self, measured: Measured, axes: tuple[Axis, ...], rows: float) -> None:
        self._measured, self._domain, self._rows = measured, Domain(axes), max(1.0, rows)
        self._intervals = Intervals(measured, self._domain, None)
        # of the same condition, which many others are put beside
        self._range = lru_cache(maxsize=4096)(self._intervals.open_range)
        self._bins = cache(self._find_bins)

    def limits(self, question: Question, level: float) -> Limits:
        certain = None if question.condition is None else self._certain(question.condition)
        if certain is not None:
            return Limits(certain, certain, 0.0, "counted")
        found = self._one_table(question, level)
        if found is None and question.condition is not None:
            found = self._share(question.condition, question.where, level)
        elif found is None:
            assert question.column is not None
            found = self._mean(question.column, question.where, level)
        return found if question.condition is None else _possible(found)

    def crossed(
        self, firsts: Sequence[Node], seconds: Sequence[Node], level: float
    ) -> list[Limits]:
        """What `limits` says of each of some conditions about one column together with each of
        others about another one, which stands after it; what is said of one alone is worked out
        once."""
        columns = [min(columns_of(side[0])) for side in (firsts, seconds)]
        sides = [
            [cover_table(node, self._domain, [column]) for node in side]
            for column, side in zip(columns, (firsts, seconds), strict=True)
        ]
        together = self._intervals.counted_cells(columns) is not None
        bounds = None if together else self._crossed_parts(firsts, seconds, 1.0 - level)
        found = []
        for at, (one, other) in enumerate(itertools.product(*map(range, map(len, sides)))):
            first, second = sides[0][one], sides[1][other]
            inside, touched = (
                np.multiply.outer(getattr(first, end), getattr(second, end)).astype(np.float64)
                for end in ("inside", "touched")
            )
            if inside.all() or not touched.any():
                sure = float(inside.all())
                found.append(Limits(sure, sure, 0.0, "counted"))
                continue
            if bounds is not None:
                low, high = (float(end[at]) for end in bounds)
                limits: Limits | None = Limits(low, high, self._half(low, high, level), "bounds")
            else:
                limits = self._ratio(columns, inside, touched, np.ones(inside.shape), level)
            if limits is None:
                limits = self._share(_both(firsts[one], seconds[other]), None, level)
            found.append(_possible(limits))
        return found

    def _crossed_parts(
        self, firsts: Sequence[Node], seconds: Sequence[Node], alpha: float
    ) -> tuple[Floats, Floats]:
        """`_part` of each two conditions about columns that were not counted together."""
        # one part of the error probability each, and one for the number of rows
        each = (alpha - self._for_total(alpha)) / 3
        ranges = [
            [self._range(_gathered(node), each) for node in side] for side in (firsts, seconds)
        ]
        lows, highs = (
            [np.array([getattr(one, end) for one in side]) for side in ranges]
            for end in ("low", "high")
        )
        most = self._intervals.total_range(each).high
        high = np.minimum.outer(*highs).ravel()
        low = np.maximum(0.0, np.add.outer(*lows).ravel() - most)
        return self._of_all(np.minimum(low, high), high, alpha)

    def rows_range(self, level: float) -> tuple[float, float]:
        """How many rows there are."""
        found = self._intervals.total_range(1.0 - level)
        return max(0.0, found.low), max(0.0, found.high)

    def level_limits(self, column: int, level: float) -> tuple[Floats, Floats]:
        """Of every level (or bin) of a column, the limits of its share."""
        size = self._domain.axes[column].cardinality
        found = [self._ratio([column], one, one, np.ones(size), level) for one in np.eye(size)]
        low, high = (
            [math.nan if one is None else getattr(one, end) for one in found]
            for end in ("low", "high")
        )
        return np.clip(np.nan_to_num(low, nan=0.0), 0.0, 1.0), np.clip(
            np.nan_to_num(high, nan=1.0), 0.0, 1.0
        )

    def _certain(self, condition: Node) -> float | None:
        """1 for a condition that every declared row meets, 0 for one that none can meet; no count
        is needed to know that."""
        columns = sorted(columns_of(condition))
        if math.prod(self._domain.axes[column].cardinality for column in columns) > MAX_CELLS:
            return None
        cells = cover_table(condition, self._domain, columns)
        return 1.0 if cells.inside.all() else None if cells.touched.any() else 0.0

    def _one_table(self, question: Question, level: float) -> Limits | None:
        """Where one counted table holds all columns, and `where` cuts no bin."""
        columns = question.columns
        shape = [self._domain.axes[column].cardinality for column in columns]
        if (
            not columns
            or math.prod(shape) > MAX_CELLS
            or self._intervals.counted_cells(columns) is None
        ):
            return None
        within = np.ones(shape)
        if question.where is not None:
            chosen = cover_table(question.where, self._domain, columns)
            if not np.array_equal(chosen.inside, chosen.touched):
                return None
            within = chosen.inside.astype(np.float64)
        if question.condition is not None:
            asked = cover_table(question.condition, self._domain, columns)
            ends = [within * asked.inside, within * asked.touched]
        else:
            assert question.column is not None
            ranges = code_ranges(self._domain.axes[question.column])
            place = [-1 if column == question.column else 1 for column in columns]
            spread = [np.nan_to_num(one).reshape(place) for one in ranges]
            within = within * np.isfinite(ranges[0]).reshape(place)
            ends = [within * spread[0], within * spread[1]]
        return self._ratio(columns, ends[0], ends[1], within, level)

    def _ratio(
        self, columns: Sequence[int], low: Floats, high: Floats, within: Floats, level: float
    ) -> Limits | None:
        """Limits of sum(amounts * counts) / sum(within * counts), for the low and the high amounts
        of every cell."""
        counts = self._intervals.counted_cells(columns)
        assert counts is not None
        alpha, law = 1.0 - level, self._measured.noise
        total = float(counts.sum()) if self._measured.total is None else float(self._measured.total)
        public = self._measured.total is not None and bool((within == 1.0).all())
        below = total if public else float((within * counts).sum())
        if not public:
            # a denominator that noise may have made says nothing
            variance = self._intervals.sum_variance(columns, within)
            if below <= 2 * quantile(alpha / 2, law) * math.sqrt(variance):
                return None
        ends, errors = [], []
        for amounts, sign in ((low, -1.0), (high, 1.0)):
            # with a public number of rows any constant may be taken out and put back; the middle
            # leaves little noise
            shift = float(amounts.mean()) if public else 0.0
            ratio = float(((amounts - shift) * counts).sum()) / below + shift
            apart = amounts - (shift if public else ratio * within)
            variance = self._intervals.sum_variance(columns, apart)
            # noise is of whole rows: one more than a continuous law would allow
            unit = max(1e-12, float(np.abs(apart).max()))
            reach = unit * (1.0 + float(half_width(variance / unit**2, alpha / 2, law))) / below
            spread = max(0.0, float(((amounts - ratio * within) ** 2 * counts).sum()))
            sampling = math.sqrt(spread * max(total, below) / self._rows) / below
            width = math.hypot(reach, quantile(alpha / 2, "gaussian") * sampling)
            ends.append(ratio + sign * width)
            errors.append(math.hypot(math.sqrt(variance) / below, sampling))
        if np.array_equal(low, high):
            return Limits(ends[0], ends[1], errors[0], "counted")
        return Limits(ends[0], max(ends), self._half(ends[0], max(ends), level), "bounds")

    def _share(self, condition: Node, where: Node | None, level: float) -> Limits:
        if where is None:
            low, high = self._part(condition, 1.0 - level)
        else:
            alpha = (1.0 - level) / 2
            (low, high), (least, most) = (
                self._part(_both(condition, where), alpha),
                self._part(where, alpha),
            )
            low = max(0.0, low) / most if most > 0.0 else 0.0
            high = min(1.0, high / least) if least > 0.0 else 1.0
        return Limits(low, high, self._half(low, high, level), "bounds")

    def _part(self, node: Node, alpha: float) -> tuple[float, float]:
        """The least and the largest share of rows that may meet a condition, sampling included."""
        found = self._intervals.open_range(_gathered(node), alpha - self._for_total(alpha))
        low, high = self._of_all(np.array(found.low), np.array(found.high), alpha)
        return float(low), float(high)

    def _for_total(self, alpha: float) -> float:
        return _FOR_TOTAL * alpha if self._measured.total is None else 0.0

    def _of_all(self, low: Floats, high: Floats, alpha: float) -> tuple[Floats, Floats]:
        """Shares of all rows, from limits of their number."""
        total = self._intervals.total_range(self._for_total(alpha) or alpha)
        low, high = low / max(1.0, total.high), high / max(1.0, total.low)
        width = quantile(alpha / 2, "gaussian")
        # sampling errors of the parts that a bound rests on go together, in the worst case
        return low - width * self._sampling(low), high + width * self._sampling(high)

    def _mean(self, column: int, where: Node | None, level: float) -> Limits:
        """The mean lies between those that put as many rows as possible into the lowest bins, or
        into the highest."""
        axis = self._domain.axes[column]
        lows, highs = (one[: axis.base] for one in code_ranges(axis))
        if axis.base > MAX_BINS:
            low, high = float(lows[0]), float(highs[-1])
            return Limits(low, high, self._half(low, high, level), "bounds")
        # one part of the error probability a bin, and two for how many rows have a number
        alpha = (1.0 - level) / (axis.base + 2)
        least, most = (np.clip(end, 0.0, 1.0) for end in self._bin_parts(column, where, alpha))
        without = (
            self._part(Leaf(axis=column, other=True, missing=True), alpha)[1]
            if axis.cardinality > axis.base
            else 0.0
        )
        together = (1.0 if where is None else self._part(where, alpha)[0]) - max(0.0, without)
        # taken from 0.0, because a low end of -0.0 would be shown as -0
        low, high = (
            0.0 - _largest_mean(-lows, least, most, together),
            _largest_mean(highs, least, most, together),
        )
        return Limits(low, high, self._half(low, high, level), "bounds")

    def _find_bins(self, column: int) -> list[Node]:
        """The rows of each bin."""
        ends = [None, *self._domain.axes[column].edges[1:-1], None]
        return [
            Leaf(axis=column, intervals=(pair,), other=False, missing=False)
            for pair in itertools.pairwise(ends)
        ]

    def _bin_parts(self, column: int, where: Node | None, alpha: float) -> tuple[Floats, Floats]:
        """`_part` of every bin of a column, among rows that meet `where`."""
        parts = self._bins(column)
        named = [] if where is None else sorted(columns_of(where))
        if (
            where is not None
            and len(named) == 1
            and named != [column]
            and self._intervals.counted_cells([column, *named]) is None
        ):
            return self._crossed_parts(parts, [where], alpha)
        masses = [
            self._part(part if where is None else _both(part, where), alpha) for part in parts
        ]
        return np.array([mass[0] for mass in masses]), np.array([mass[1] for mass in masses])

    def _sampling(self, share: Floats) -> Floats:
        near = np.clip(share, 0.0, 1.0)
        return np.asarray(np.sqrt(near * (1.0 - near) / self._rows))

    def _half(self, low: float, high: float, level: float) -> float:
        return max(0.0, high - low) / (2 * quantile((1.0 - level) / 2, "gaussian"))


def _possible(found: Limits) -> Limits:
    """Limits of a share."""
    low, high = min(1.0, max(0.0, found.low)), max(0.0, min(1.0, found.high))
    return replace(found, low=low, high=high)


def code_ranges(axis: Axis) -> tuple[Floats, Floats]:
    """The smallest and the largest number that each code of a numeric column may stand for; NaN for
    other and missing."""
    edges = np.array(axis.edges, dtype=np.float64)
    none = np.full(axis.cardinality - axis.base, math.nan)
    return np.concatenate([edges[:-1], none]), np.concatenate(
        [edges[1:] - (axis.kind != "real"), none]
    )


def _both(first: Node, second: Node) -> And:
    """Two conditions at once, without conjunctions inside each other."""
    return And(
        tuple(
            part
            for node in (first, second)
            for part in (node.parts if isinstance(node, And) else (node,))
        )
    )


def _gathered(node: Node) -> Node:
    """The same condition with parts about the same column put together: a bound of them as one is
    narrower."""
    if not isinstance(node, And | Or):
        return node
    named: dict[frozenset[int], list[Node]] = {}
    for part in map(_gathered, node.parts):
        named.setdefault(columns_of(part), []).append(part)
    constants = named.pop(frozenset(), [])
    found = [
        type(node)(tuple(some)) if len(some) > 1 else some[0] for some in named.values()
    ] + constants
    return type(node)(tuple(found)) if len(found) > 1 else found[0]


def _largest_mean(values: Floats, least: Floats, most: Floats, together: float) -> float:
    """The largest mean of values with masses between two limits that add up to `together` or more.

    All there is of the largest values and the least of the rest, from the first place on where that
    is enough; the last of the large ones may be taken in part.
    """
    order = np.argsort(-values, kind="stable")
    values, least, most = values[order], least[order], np.maximum(most, least)[order]
    room = np.minimum(np.cumsum(most - least), max(0.0, together - float(least.sum())))
    in_part = least + np.diff(room, prepend=0.0)
    choices = [np.concatenate([most[:taken], least[taken:]]) for taken in range(1, len(values) + 1)]
    enough = [masses for masses in choices if masses.sum() >= together]
    return max(
        (
            float(masses @ values) / float(masses.sum())
            for masses in [in_part, *enough]
            if masses.sum() > 0.0
        ),
        default=float(values[0]),
    )


# Questions to weighted rows, as far as they can be put to the counted tables.

Codes = Sequence[NDArray[Any]]


def read_question(
    expression: str, where: str | None, axes: tuple[Axis, ...], known: Collection[str]
) -> Question | None:
    """A condition on weighted columns, or a numeric one alone; None for formulas and other columns.
    `known` are all names."""
    domain = Domain(axes)
    try:
        trees = [parse_sql(text) for text in (expression, where) if text is not None]
        named = {column.name for tree in trees for column in tree.find_all(exp.Column)}
        if named.intersection(known).difference(domain.names):
            return None
        within = None if where is None else parse_predicate(where, domain)
        alone = bare(trees[0])
        if isinstance(alone, exp.Column) and alone.name in domain.names:
            place = domain.names.index(alone.name)
            if axes[place].kind in ("integer", "real"):
                return Question(column=place, where=within)
        return Question(condition=parse_predicate(expression, domain), where=within)
    except QueryError:
        return None


def means_the_same(
    question: Question,
    axes: tuple[Axis, ...],
    codes: Codes,
    values: Floats,
    chosen: NDArray[np.bool_] | None,
) -> bool:
    """Whether a question says of the codes of public rows what SQL said of the rows themselves.

    It does not where rows hold values beyond the bounds that the schema moved to the nearest bin.
    """
    for node, found in ((question.condition, values > 0.0), (question.where, chosen)):
        if node is None or found is None:
            continue
        columns = sorted(columns_of(node))
        cover = cover_codes(
            node,
            Domain(axes),
            columns,
            [np.asarray(codes[c]).astype(np.int64) for c in columns],
            len(values),
        )
        # a number that is '(other)' still has its value in public rows, and none in the tables
        known = ~np.any(
            [axes[c].numeric & (codes[c] == axes[c].other_code) for c in columns]
            or [np.zeros(len(values))],
            axis=0,
        )
        if np.any(known & ((cover.inside & ~found) | (~cover.touched & found))):
            return False
    if question.column is not None:
        axis, places = axes[question.column], np.asarray(codes[question.column]).astype(np.int64)
        low, high = (ends[places] for ends in code_ranges(axis))
        return not bool(np.any((values < low) | (values > high)))
    return True


def label_condition(name: str, label: Any) -> str:
    """The rows whose value is `label`, as a condition."""
    return value_condition('"' + name.replace('"', '""') + '"', label)


def value_condition(column: str, label: Any) -> str:
    """The same of a column, or another expression, as SQL spells it."""
    if label is None:
        return f"{column} is null"
    if isinstance(label, bool):
        return f"{column} = {'true' if label else 'false'}"
    if isinstance(label, int | float):
        return f"{column} = {label!r}"
    return f"{column} = '" + str(label).replace("'", "''") + "'"
