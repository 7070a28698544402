"""What an online mechanism is: priced once, then asked one query after another.

    plan(schema, cost)            public facts only; refuses what cannot work before anything is
                                  spent
    begin(noise, counts, plan)    once, after the debit: what the session shows from the start, and
                                  its one secret
    desk(facts, public)           the public state; everything it holds follows from answers that
                                  were shown
    desk.answer(noise, ...)       one query: easy (answered from the public state) or hard (answered
                                  from the data)
    desk.learn(query, reply)      the public state after that reply

All private numbers are whole: a query is a vector of weights 0..W, its value on the data is the sum
of weight times count.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.errors import BudgetExceeded, PlanError
from dpublish.methods.base import CellCounts
from dpublish.methods.field_types import Checked
from dpublish.methods.histogram.mechanism import total_is_public
from dpublish.methods.online.sparse_vector import SparseVector
from dpublish.noise.base import IntArray, Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan
from dpublish.workloads import theory

Label = Literal["easy", "hard"]
Floats = NDArray[np.float64]
MAX_QUERIES = 10**9
MAX_WEIGHTS = 1 << 24
"""Weights of all hard queries that are kept at once."""


@dataclass(frozen=True, eq=False)
class Query:
    """A linear query: a whole weight from 0 to the session's resolution for every cell of the
    domain. Public."""

    weights: IntArray
    text: str


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


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What `begin` leaves: public facts of the session, and the noisy threshold, which must stay
    secret."""

    public: Mapping[str, Any]
    threshold: int = field(repr=False)


LARGEST_PRODUCT = 1 << 60


class Desk(abc.ABC):
    """The public state of a session. Only `answer` sees private numbers, and it changes nothing."""

    def __init__(self, facts: Mapping[str, Any], public: Mapping[str, Any]) -> None:
        self.resolution = int(facts["resolution"])
        # a noisy total has no end; beyond this one, products of rows and weights would leave 64
        # bits
        self.rows = min(max(1, int(public["total"])), (LARGEST_PRODUCT - 1) // self.resolution)
        self.row_bound = int(facts["max_rows_per_unit"])
        self.level = float(facts["level"])
        self.max_hard = int(facts["max_hard"])
        self.max_queries = int(facts["max_queries"]) if facts["stops_after_max_queries"] else None
        self.answer_epsilon = Fraction(facts["hard_answer_epsilon"])
        self.hard = 0
        self.asked = 0
        self.total_low, self.total_high = (
            float(public[end]) for end in ("total_low", "total_high")
        )

    @property
    def halted(self) -> bool:
        return self.hard >= self.max_hard or (
            self.max_queries is not None and self.asked >= self.max_queries
        )

    def require_open(self) -> None:
        if self.hard >= self.max_hard:
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

    @abc.abstractmethod
    def answer(self, noise: Noise, counts: IntArray, threshold: int, query: Query) -> Reply:
        """Judge a query on the exact counts of all cells, and answer it."""

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
        Private."""
        return int(counts @ query.weights)

    def hard_reply(self, noise: Noise, value: int) -> Reply:
        """The Laplace answer of a hard query: one unit moves the value by at most c rows of weight
        at most W."""
        moves = Fraction(self.row_bound * self.resolution)
        noisy = noise.laplace(
            np.array([value], dtype=np.int64),
            sensitivity=moves,
            epsilon=self.answer_epsilon,
            label="hard answer",
        )
        drawn = int(noisy[0])
        scale = float(self.row_bound / self.answer_epsilon)
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


@dataclass(frozen=True, kw_only=True)
class OnlineMechanism(Checked, abc.ABC):
    """Settings that both online mechanisms share; see `MedianMechanism` and
    `OnlineMultiplicativeWeights`."""

    method: ClassVar[str]
    max_cells: ClassVar[int]

    columns: Sequence[str] | None = None
    bins: int | None = None
    accuracy: Fraction | float | int | str | None = None
    max_hard: int = 50
    max_queries: int = 10_000
    level: float = 0.95
    answer_share: Fraction | float | int | str = Fraction(1, 4)
    count_share: Fraction | float | int | str | None = None
    resolution: int = 1 << 16

    @abc.abstractmethod
    def plan(self, schema: Schema, cost: Cost) -> Plan:
        """Price a session and say what to expect. Raises `PlanError` or `SchemaError`; reads no
        row."""

    @abc.abstractmethod
    def desk(self, facts: Mapping[str, Any], public: Mapping[str, Any], cells: int) -> Desk:
        """The public state at the start of a session."""

    @abc.abstractmethod
    def begin(self, noise: Noise, counts: IntArray, plan: Plan) -> Opening:
        """The first step after the debit, once a session."""

    def statistic(self, plan: Plan) -> CellCounts:
        assert plan.domain is not None
        return CellCounts(plan.domain)

    def noisy_total(
        self, noise: Noise, counts: IntArray, facts: Mapping[str, Any]
    ) -> dict[str, Any]:
        """How many rows the hypotheses speak of: the public number, or one bought with
        `count_epsilon`."""
        epsilon = Fraction(facts["count_epsilon"])
        if epsilon == 0:
            rows = int(facts["rows"])
            return {"total": rows, "total_low": rows, "total_high": rows}
        per_unit = Fraction(int(facts["max_rows_per_unit"]))
        drawn = noise.laplace(
            np.array([counts.sum()], dtype=np.int64),
            sensitivity=per_unit,
            epsilon=epsilon,
            label="total",
        )
        reach = float(per_unit / epsilon) * math.log(1e6)  # missed once in a million sessions
        total = max(1, int(drawn[0]))
        return {"total": total, "total_low": max(0.0, total - reach), "total_high": total + reach}

    def common_facts(self, schema: Schema, cost: Cost) -> tuple[Domain, dict[str, Any]]:
        """Check what both mechanisms check, and split the budget: a noisy total if due,
        comparisons, hard answers."""
        if schema.items is not None:
            raise PlanError(
                "Online queries need [columns]; this schema declares set-valued data ([items])."
            )
        if cost.kind != "pure" or cost.epsilon <= 0:
            raise PlanError(
                "An online session costs a pure epsilon above 0: give epsilon = ... and leave "
                "delta and rho out."
            )
        for name, value, top in (
            ("max_hard", self.max_hard, 1_000_000),
            ("max_queries", self.max_queries, MAX_QUERIES),
            ("resolution", self.resolution, 1 << 20),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= top:
                raise PlanError(f"{name} must be a whole number from 1 to {top}, not {value!r}.")
        if not 0.5 <= self.level <= 0.9999:
            raise PlanError(f"level must lie between 0.5 and 0.9999, not {self.level!r}.")
        rows = schema.size_or_nominal
        if rows is None:
            known = "size" if schema.neighbours == "replace-one" else "nominal_size"
            raise PlanError(
                f"Schema '{schema.name}' declares no {known}, and what can be promised depends on "
                f"it. "
                f"Add {known} = ... to [dataset]."
            )
        rows *= schema.unit.max_rows
        if rows * self.resolution >= 1 << 60:
            raise PlanError(
                f"{rows:,} rows at resolution {self.resolution} do not fit 60 bits. Choose a "
                f"lower resolution."
            )
        domain = self._domain(schema, rows)
        public = total_is_public(schema, domain)
        count = self._share(
            "count_share", self.count_share, default=Fraction(0) if public else Fraction(1, 20)
        )
        if count == 0 and not public:
            raise PlanError(
                "count_share = 0 buys no noisy total, but the number of counted rows is private "
                "here. Leave it out."
            )
        answers = self._share("answer_share", self.answer_share, default=Fraction(1, 4))
        if answers == 0 or answers + count >= 1:
            raise PlanError("answer_share must be above 0, and together with count_share below 1.")
        answer_epsilon = cost.epsilon * answers
        return domain, {
            "accounting": "sparse-vector",
            "domain_size": domain.size,
            "rows": rows,
            "max_rows_per_unit": schema.unit.max_rows,
            "resolution": self.resolution,
            "max_hard": self.max_hard,
            "max_queries": self.max_queries,
            "stops_after_max_queries": False,
            "level": self.level,
            "sensitivity": str(schema.unit.max_rows),
            "count_epsilon": str(cost.epsilon * count),
            "check_epsilon": str(cost.epsilon * (1 - count - answers)),
            "hard_answer_epsilon": str(answer_epsilon / self.max_hard),
            "hard_answer_scale": float(schema.unit.max_rows * self.max_hard / answer_epsilon),
        }

    def _domain(self, schema: Schema, rows: int) -> Domain:
        names = tuple(self.columns) if self.columns is not None else tuple(schema.columns)
        if not names:
            raise PlanError("An online session needs at least one column.")
        if len(set(names)) != len(names):
            raise PlanError("A column is listed twice.")
        if self.bins is not None and self.bins < 1:
            raise PlanError(f"bins must be at least 1, not {self.bins}.")
        domain = schema.domain(names, rows=rows, bins=self.bins)
        if domain.size > self.max_cells:
            raise PlanError(
                f"The {len(names)} columns span {domain.size:,} cells; {self.method} keeps "
                f"hypotheses over all of them and "
                f"takes at most {self.max_cells:,}. Choose fewer columns, or fewer bins."
            )
        if domain.size * self.max_hard > MAX_WEIGHTS:
            raise PlanError(
                f"{self.max_hard:,} hard answers over {domain.size:,} cells do not fit in memory. "
                f"Lower max_hard, or choose "
                "fewer columns or bins."
            )
        return domain

    def _share(
        self, name: str, given: Fraction | float | int | str | None, *, default: Fraction
    ) -> Fraction:
        share = default if given is None else exact(given, name)
        if not 0 <= share < 1:
            raise PlanError(f"{name} must be at least 0 and below 1, not {given}.")
        return share

    def wanted_accuracy(self) -> Fraction | None:
        if self.accuracy is None:
            return None
        wanted = exact(self.accuracy, "accuracy")
        if not 0 < wanted < 1:
            raise PlanError(
                f"accuracy is a share of all rows, above 0 and below 1, not {self.accuracy}."
            )
        return wanted

    def margins(self, facts: Mapping[str, Any]) -> tuple[float, float]:
        """In rows: how far a comparison's noise reaches at `level`, and how far below the threshold
        a good hypothesis must stay so that in `max_queries` queries few are called hard by noise
        alone."""
        vector = SparseVector(
            epsilon=Fraction(facts["check_epsilon"]),
            sensitivity=int(facts["max_rows_per_unit"]),
            max_hits=self.max_hard,
        )
        first, second = (float(scale) for scale in vector.scales)
        reach = (first + second) * math.log(1 / (1 - self.level))
        quiet = first + second * max(1.0, math.log(2 * self.max_queries / self.max_hard))
        return reach, quiet + 2 * float(facts["hard_answer_scale"])

    def parameters(self, domain: Domain) -> dict[str, Any]:
        return {
            "columns": list(domain.names),
            "bins": self.bins,
            "accuracy": None if self.accuracy is None else str(exact(self.accuracy, "accuracy")),
            "max_hard": self.max_hard,
            "max_queries": self.max_queries,
            "level": self.level,
            "answer_share": str(exact(self.answer_share, "answer_share")),
            "count_share": None
            if self.count_share is None
            else str(exact(self.count_share, "count_share")),
            "resolution": self.resolution,
        }

    def common_sentences(self, schema: Schema, cost: Cost, facts: Mapping[str, Any]) -> list[str]:
        return [
            f"Online queries over {facts['domain_size']:,} cells, one at a time, chosen as you "
            f"like.",
            f"Cost {cost.describe()} for the whole session, paid when it is opened, protecting "
            f"{schema.unit.describe()} "
            f"({schema.neighbours}).",
            f"At most {facts['max_hard']} hard answers, each with Laplace noise of scale "
            f"{facts['hard_answer_scale']:,.4g} rows; then the session ends.",
        ]

    def theory_sentences(self, schema: Schema, cost: Cost, facts: Mapping[str, Any]) -> list[str]:
        """What theory says about as many queries as are expected."""
        return theory.online_sentences(
            rows=int(facts["rows"]),
            epsilon=float(cost.epsilon),
            queries=self.max_queries,
            cells=int(facts["domain_size"]),
            neighbours=schema.neighbours,
            rows_per_unit=int(facts["max_rows_per_unit"]),
        )


def dense_counts(cells: IntArray | NDArray[np.uint64], counts: IntArray, size: int) -> IntArray:
    """Exact counts of all cells, empty ones too. Private."""
    out = np.zeros(size, dtype=np.int64)
    out[np.asarray(cells, dtype=np.int64)] = counts
    return out
