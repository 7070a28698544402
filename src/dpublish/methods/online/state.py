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
from typing import Any, Generic, Literal, Self, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.domain import Domain
from dpublish.errors import BudgetExceeded
from dpublish.methods.online.joined import read_support
from dpublish.methods.online.sparse_vector import SparseVector
from dpublish.methods.online.synopsis import Synopsis
from dpublish.noise.base import IntArray, Noise
from dpublish.privacy.plan import Plan, Settings, hidden

Label = Literal["easy", "hard"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Query:
    """A linear query: a whole weight from 0 to the session's resolution for every cell of the
    domain. Public.

    Where a session stands on a support, the weights are those of its rows, and `holds` says of any
    rows, given by their codes, which ones satisfy the predicate (1) and which do not (0).
    """

    weights: IntArray
    text: str
    holds: Callable[[IntArray], IntArray] | None = None


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
        self.codes: IntArray | None = None
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

    def answer(self, noise: Noise, counts: IntArray, threshold: int, query: Query) -> Reply:
        """One query: from the synopsis where that keeps the promise, and else judged on the exact
        counts of all cells."""
        self.require_open()
        easy = self.from_synopsis(query)
        return easy if easy is not None else self.judge(noise, counts, threshold, query)

    @abc.abstractmethod
    def judge(self, noise: Noise, counts: IntArray, threshold: int, query: Query) -> Reply:
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

    def true_value(self, counts: IntArray, query: Query) -> int:
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
