"""A session as the public sees it: its settings, the queries, the replies, and the state that
follows from replies shown.

All private numbers are whole: a query is a vector of weights 0..W, its value on the data is the sum
of weight times count.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any, Generic, Literal, Self, TypeVar, get_type_hints

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.declare.domain import Domain
from dpublish.errors import BudgetExceeded
from dpublish.methods.draws import laplace_deviation
from dpublish.methods.online.joined import read_support
from dpublish.methods.online.sparse_vector import SparseVector
from dpublish.noise.base import Noise
from dpublish.privacy.plan import Plan, Settings, hidden

Label = Literal["easy", "hard"]


@dataclass(frozen=True, eq=False)
class Query:
    """A linear query: a whole weight from 0 to the session's resolution for every cell of the
    domain. Public.

    Where a session stands on a support, the weights are those of its rows, and `holds` says of any
    rows, given by their codes, which ones satisfy the predicate (1) and which do not (0).
    """

    weights: Ints
    text: str
    holds: Callable[[Ints], Ints] | None = None


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer in rows, with an interval that holds the truth with probability `level`.

    `noisy` is a hard answer as drawn, in units of 1 / resolution. The standard error of an easy
    answer is a quarter of the length of its interval: its error is not noise, so this is a manner
    of speaking.
    """

    label: Label
    value: float
    standard_error: float
    low: float
    high: float
    level: float
    noisy: int | None = None


LARGEST_PRODUCT = 1 << 60


@dataclass(frozen=True, kw_only=True)
class OnlineSettings(Settings):
    """What a session works with. `read` makes it again from the facts that a session's header
    quotes."""

    domain: Domain
    accounting: str = "sparse-vector"
    domain_size: int
    rows: int
    max_rows_per_unit: int
    resolution: int
    max_hard: int
    max_queries: int
    stops_after_max_queries: bool = False
    level: float
    sensitivity: Fraction
    count_epsilon: Fraction
    check_epsilon: Fraction
    hard_answer_epsilon: Fraction
    hard_answer_scale: float
    synopsis_epsilon: Fraction | None = None
    synopsis_scale: Fraction | None = None
    support: int | None = None
    joined: Plan[Any] | None = hidden(default=None)
    total_is_public: bool | None = None
    accuracy: float = 0.0
    threshold: int = 0
    check_sensitivity: int = 0

    def facts(self) -> dict[str, Any]:
        return {name: value for name, value in super().facts().items() if value is not None}

    @classmethod
    def read(cls, facts: Mapping[str, Any], domain: Domain) -> Self:
        """The settings whose JSON is `facts`."""
        hints = get_type_hints(cls)
        known = {field.name for field in fields(cls)} & facts.keys()
        values: dict[str, Any] = {
            name: Fraction(facts[name])
            if hints[name] in (Fraction, Fraction | None)
            else facts[name]
            for name in known
        }
        return cls(domain=domain, **values)

    @property
    def all_easy(self) -> bool:
        """Whether every answer comes from the synopsis: nothing was kept back for hard ones."""
        return self.check_epsilon == 0

    @property
    def vector(self) -> SparseVector:
        """The sparse vector that decides which queries are hard."""
        return SparseVector(
            epsilon=self.check_epsilon,
            sensitivity=self.check_sensitivity,
            max_hits=self.max_hard,
        )


S = TypeVar("S", bound=OnlineSettings)


class OnlineState(abc.ABC, Generic[S]):
    """The public state of a session. Only `answer` sees private numbers, and it changes nothing."""

    def __init__(self, settings: S, public: Mapping[str, Any]) -> None:
        self.settings = settings
        self.resolution = settings.resolution
        # a noisy total has no end; beyond this one, products of rows and weights would leave 64
        # bits
        self.rows = min(max(1, int(public["total"])), (LARGEST_PRODUCT - 1) // self.resolution)
        self.level = settings.level
        self.max_hard = settings.max_hard
        self.max_queries = settings.max_queries if settings.stops_after_max_queries else None
        self.hard = 0
        self.asked = 0
        self.total_low, self.total_high = (
            float(public[end]) for end in ("total_low", "total_high")
        )
        self.codes: Ints | None = None
        if settings.support is not None:
            self.codes = read_support(public, settings.domain)
        self.synopsis: Synopsis | None = None
        if settings.synopsis_scale is not None:
            known = settings.rows if settings.total_is_public else None
            counts = np.array(public["synopsis"], dtype=np.float64)
            self.synopsis = Synopsis(counts, settings.synopsis_scale, known)

    @property
    def halted(self) -> bool:
        return (self.hard >= self.max_hard and not self.settings.all_easy) or (
            self.max_queries is not None and self.asked >= self.max_queries
        )

    def require_open(self) -> None:
        if self.hard >= self.max_hard and not self.settings.all_easy:
            raise BudgetExceeded(
                f"All {self.max_hard} hard answers of this session are used up, so it answers no "
                f"further query. "
                "What it answered stays valid. Open a new session, which is paid for separately."
            )
        if self.halted:
            raise BudgetExceeded(
                f"This session was planned for {self.max_queries} queries, and they are used up. "
                f"Open a new session."
            )

    def answer(self, noise: Noise, counts: Ints, threshold: int, query: Query) -> Reply:
        """One query: from the synopsis where that keeps the promise, and else judged on the exact
        counts of all cells."""
        self.require_open()
        easy = self.from_synopsis(query)
        return easy if easy is not None else self.judge(noise, counts, threshold, query)

    @abc.abstractmethod
    def judge(self, noise: Noise, counts: Ints, threshold: int, query: Query) -> Reply:
        """Whether a query is hard, and its answer."""

    def from_synopsis(self, query: Query) -> Reply | None:
        """An answer from the noisy histogram, if it has one that is as good as promised. A function
        of public numbers."""
        if self.synopsis is None:
            return None
        shares = self.shares(query)
        value, deviation, reach = self.synopsis.estimate(shares, self.level)
        if reach > self.settings.accuracy * self.settings.rows and not self.settings.all_easy:
            return None
        promised = self.settings.accuracy * self.settings.rows
        # without small counts the value is closer on most tables, but it is moved only as far as
        # the promise, which the noise's own interval takes up a part of, leaves room
        room = min(max(promised - reach, 0.0), reach)
        shown = min(max(float(self.synopsis.likely @ shares), value - room), value + room)
        ends = self._interval(value - reach, value + reach)
        shown = min(max(shown, ends["low"]), ends["high"])  # what is possible
        return Reply(label="easy", value=shown, standard_error=deviation, **ends)

    def learn(self, query: Query, reply: Reply) -> None:
        """Take a reply that was shown into the public state."""
        self.asked += 1
        if reply.label == "hard":
            assert reply.noisy is not None
            self.hard += 1
            self._take(query, reply.noisy)

    @abc.abstractmethod
    def _take(self, query: Query, noisy: int) -> None:
        """Take in a hard answer."""

    def shares(self, query: Query) -> Floats:
        """The query's weights as numbers in [0, 1]."""
        return query.weights.astype(np.float64) / self.resolution

    def true_value(self, counts: Ints, query: Query) -> int:
        """The query on the data, exactly: rows times resolution stay below 2^61 by the plan.
        Private. `counts` are those of all cells, or with a support the codes of all rows."""
        if self.codes is None:
            return int(counts @ query.weights)
        assert query.holds is not None
        rows = counts.reshape(len(self.codes), -1)
        return int(query.holds(rows).sum()) * self.resolution

    def hard_reply(self, noise: Noise, value: int) -> Reply:
        """The Laplace answer of a hard query: one unit moves the value by at most c rows of weight
        at most W."""
        row_bound, epsilon = self.settings.max_rows_per_unit, self.settings.hard_answer_epsilon
        moves = Fraction(row_bound * self.resolution)
        noisy = noise.laplace(
            np.array([value], dtype=np.int64),
            sensitivity=moves,
            epsilon=epsilon,
            label="hard answer",
        )
        drawn = int(noisy[0])
        scale = float(row_bound / epsilon)
        reach = scale * math.log(1 / (1 - self.level)) + 1 / self.resolution
        shown = drawn / self.resolution
        return Reply(
            label="hard",
            value=min(max(shown, 0.0), self.total_high),
            standard_error=math.sqrt(2) * scale,
            **self._interval(shown - reach, shown + reach),
            noisy=drawn,
        )

    def easy_reply(self, value: float, low: float, high: float) -> Reply:
        ends = self._interval(low, high)
        return Reply(
            label="easy",
            value=min(max(value, ends["low"]), ends["high"]),
            standard_error=(ends["high"] - ends["low"]) / 4,
            **ends,
        )

    def _interval(self, low: float, high: float) -> dict[str, Any]:
        """Clipped to what is possible; an interval wholly outside shrinks to the nearest possible
        point."""
        top = self.total_high
        return {
            "low": min(max(low, 0.0), top),
            "high": min(max(high, 0.0), top),
            "level": self.level,
        }


# A noisy histogram that a session buys when it is opened, and what it says about a query without
# looking at the data again.
#
# In: exact counts of all cells (private), once. Out: noisy counts. An answer from them has noise
# of a known law, so its interval is known before the session is paid for, for every query.

MAX_CELLS = 1 << 16
"""Larger domains have no noisy histogram: it would be too long to keep in a session's header."""


def draw_synopsis(
    noise: Noise, counts: Ints, *, sensitivity: Fraction, epsilon: Fraction
) -> list[int]:
    """Every cell with noise; one unit moves all of them together by at most `sensitivity`."""
    noisy = noise.laplace(counts, sensitivity=sensitivity, epsilon=epsilon, label="synopsis")
    return [int(count) for count in noisy]


@dataclass(eq=False)
class Synopsis:
    """Noisy counts with noise of this scale; `rows` is the public number of rows, where it is."""

    counts: Floats
    scale: Fraction
    rows: int | None

    @cached_property
    def likely(self) -> Floats:
        """Counts without what is probably noise: as in a released histogram, small ones are taken
        as 0, since most cells of most tables are empty."""
        mark = float(self.scale) * math.log(max(2, len(self.counts))) / 2
        found: Floats = np.where(self.counts > mark, self.counts, 0.0)
        return found

    def estimate(self, shares: Floats, level: float) -> tuple[float, float, float]:
        """The query's unbiased value, its standard error, and how far its interval reaches.

        Where the number of rows is public, what all cells together are off by is known, and is
        taken from the query in proportion to its mean weight.
        """
        value, weights = float(self.counts @ shares), shares
        if self.rows is not None:
            mean = float(shares.mean())
            value += mean * (self.rows - float(self.counts.sum()))
            weights = shares - mean
        spread = math.sqrt(float((weights**2).sum()))
        # noise is whole, so its sums have jumps of up to the largest weight: without a jump more,
        # an interval may end just short of a value that has much probability
        jump = float(np.abs(weights).max())
        reach = tail_deviation(self.scale) * spread * width(weights, level) + jump
        return value, laplace_deviation(self.scale) * spread, reach


def tail_deviation(scale: Fraction) -> float:
    """The deviation of the continuous law whose tail discrete noise has: its variance is larger by
    at most 1/6."""
    return math.sqrt(laplace_deviation(scale) ** 2 + 1 / 6)


def width(weights: Floats, level: float) -> float:
    """Half the length of an interval, in standard deviations, for a weighted sum of Laplace noise:
    between that of one and that of many."""
    normal, more = _normal_and_more(level)
    square = float((weights**2).sum())
    many = square**2 / float((weights**4).sum()) if square > 0 else 1.0
    return normal + more / math.sqrt(max(1.0, many))


def _normal_and_more(level: float) -> tuple[float, float]:
    """Half widths in standard deviations: of a normal variable, and how much more a Laplace one
    needs."""
    normal = NormalDist().inv_cdf((1 + level) / 2)
    return normal, max(0.0, math.log(1 / (1 - level)) / math.sqrt(2) - normal)


def worst_reach(cells: int, scale: Fraction, level: float, *, known_total: bool) -> float:
    """How far an answer can be off at this level, whatever the query: no weights have a larger sum
    of squares than those of half of the cells where the number of rows is public, and of all of
    them otherwise; and none has more of the tail of a single cell than one cell has."""
    if cells < 2 and known_total:
        return 0.0
    spread = math.sqrt(cells / 4 if known_total else cells)
    normal, more = _normal_and_more(level)
    # `width` times the spread is at most normal * spread + more * sqrt(sum of fourth powers / sum
    # of squares), and that root is at most the largest weight
    largest = 1 - 1 / cells if known_total else 1.0
    return tail_deviation(scale) * (normal * spread + more * largest) + 1  # the largest jump
