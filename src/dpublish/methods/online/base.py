"""What an online mechanism is: priced once, then asked one query after another.

    plan(schema, cost)            public facts only; refuses what cannot work before anything is
                                  spent
    begin(noise, counts, plan)    once, after the debit: what the session shows from the start, and
                                  its one secret
    state(settings, public)       the public state; everything it holds follows from answers that
                                  were shown
    state.answer(noise, ...)      one query: easy (answered from the public state) or hard (answered
                                  from the data)
    state.learn(query, reply)     the public state after that reply

All private numbers are whole: a query is a vector of weights 0..W, its value on the data is the sum
of weight times count.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.errors import BudgetExceeded, PlanError
from dpublish.methods.base import CellCounts
from dpublish.methods.field_types import Checked, Interval
from dpublish.methods.histogram.mechanism import total_is_public
from dpublish.methods.online.sparse_vector import SparseVector
from dpublish.methods.online.synopsis import MAX_CELLS, Synopsis, draw_synopsis, worst_reach
from dpublish.methods.thresholds import laplace_deviation
from dpublish.noise.base import IntArray, Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, Settings
from dpublish.workloads import theory

Label = Literal["easy", "hard"]
Floats = NDArray[np.float64]
MAX_QUERIES = 10**9
DEFAULT_HARD = 50
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
        Private."""
        return int(counts @ query.weights)

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


@dataclass(frozen=True, kw_only=True)
class OnlineMechanism(Checked, abc.ABC):
    """Settings that both online mechanisms share; see `MedianMechanism` and
    `OnlineMultiplicativeWeights`."""

    method: ClassVar[str]
    max_cells: ClassVar[int]
    settings_type: ClassVar[type[OnlineSettings]] = OnlineSettings

    columns: Sequence[str] | None = None
    bins: Annotated[int | None, Interval(1)] = None
    accuracy: Fraction | float | int | str | None = None
    max_hard: Annotated[int | None, Interval(1, 1_000_000)] = None
    max_queries: Annotated[int, Interval(1, MAX_QUERIES)] = 10_000
    level: Annotated[float, Interval(Fraction(1, 2), Fraction(9999, 10_000))] = 0.95
    answer_share: Annotated[Fraction | float | int | str, Interval(0, below=1)] = Fraction(1, 4)
    count_share: Annotated[Fraction | float | int | str | None, Interval(0, below=1)] = None
    resolution: Annotated[int, Interval(1, 1 << 20)] = 1 << 16
    synopsis_share: Annotated[Fraction | float | int | str | None, Interval(0, 1)] = None

    @abc.abstractmethod
    def plan(self, schema: Schema, cost: Cost) -> Plan[OnlineSettings]:
        """Price a session and say what to expect. Raises `PlanError` or `SchemaError`; reads no
        row."""

    @abc.abstractmethod
    def begin(self, noise: Noise, counts: IntArray, settings: Any) -> Opening:
        """The first step after the debit, once a session."""

    @abc.abstractmethod
    def state(self, settings: Any, public: Mapping[str, Any]) -> OnlineState[Any]:
        """The public state at the start of a session."""

    def statistic(self, plan: Plan[OnlineSettings]) -> CellCounts:
        return CellCounts(plan.settings.domain)

    def opening(self, noise: Noise, counts: IntArray, settings: OnlineSettings) -> dict[str, Any]:
        """What a session shows from the start: the synopsis, if it buys one, and the total."""
        if settings.synopsis_scale is None or settings.synopsis_epsilon is None:
            return self.noisy_total(noise, counts, settings)
        epsilon = settings.synopsis_epsilon
        moves = settings.synopsis_scale * epsilon
        noisy = draw_synopsis(noise, counts, sensitivity=moves, epsilon=epsilon)
        return {"synopsis": noisy, **self.noisy_total(noise, counts, settings, noisy)}

    def noisy_total(
        self,
        noise: Noise,
        counts: IntArray,
        settings: OnlineSettings,
        synopsis: Sequence[int] = (),
    ) -> dict[str, Any]:
        """How many rows the hypotheses speak of: the public number, or one bought with
        `count_epsilon`."""
        epsilon, rows = settings.count_epsilon, settings.rows
        if epsilon == 0 and settings.all_easy and not bool(settings.total_is_public):
            # the synopsis counts the rows too
            total = max(1, sum(synopsis))
            scale = float(settings.synopsis_scale or 0)
            reach = 6 * math.sqrt(2 * len(synopsis)) * scale + scale * math.log(1e6)
            ends = {"total_low": max(0.0, total - reach), "total_high": total + reach}
            return {"total": total, **ends}
        if epsilon == 0:
            return {"total": rows, "total_low": rows, "total_high": rows}
        per_unit = Fraction(settings.max_rows_per_unit)
        drawn = noise.laplace(
            np.array([counts.sum()], dtype=np.int64),
            sensitivity=per_unit,
            epsilon=epsilon,
            label="total",
        )
        reach = float(per_unit / epsilon) * math.log(1e6)  # missed once in a million sessions
        total = max(1, int(drawn[0]))
        return {"total": total, "total_low": max(0.0, total - reach), "total_high": total + reach}

    def common_settings(self, schema: Schema, cost: Cost) -> OnlineSettings:
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
        count = Fraction(0) if public else Fraction(1, 20)
        if self.count_share is not None:
            count = exact(self.count_share, "count_share")
        if count == 0 and not public:
            raise PlanError(
                "count_share = 0 buys no noisy total, but the number of counted rows is private "
                "here. Leave it out."
            )
        answers = exact(self.answer_share, "answer_share")
        if answers == 0 or answers + count >= 1:
            raise PlanError("answer_share must be above 0, and together with count_share below 1.")
        share = self._synopsis_share(schema, cost, domain, rows, public)
        spent, hard = cost.epsilon * (1 - share), self.hard_limit
        answer_epsilon = spent * answers
        moves = schema.relation.l1
        return OnlineSettings(
            domain=domain,
            domain_size=domain.size,
            rows=rows,
            max_rows_per_unit=schema.unit.max_rows,
            resolution=self.resolution,
            max_hard=hard if spent else 0,
            max_queries=self.max_queries,
            level=self.level,
            sensitivity=Fraction(schema.unit.max_rows),
            count_epsilon=spent * count,
            check_epsilon=spent * (1 - count - answers),
            hard_answer_epsilon=answer_epsilon / hard,
            hard_answer_scale=float(schema.unit.max_rows * hard / answer_epsilon) if spent else 0.0,
            synopsis_epsilon=cost.epsilon * share if share else None,
            synopsis_scale=moves / (cost.epsilon * share) if share else None,
            total_is_public=public if share else None,
        )

    @property
    def hard_limit(self) -> int:
        return DEFAULT_HARD if self.max_hard is None else self.max_hard

    def _synopsis_share(
        self, schema: Schema, cost: Cost, domain: Domain, rows: int, public: bool
    ) -> Fraction:
        """As asked for; else all of epsilon where a noisy histogram promises something, and nothing
        where it would be void or where hard answers or an accuracy were asked for."""
        if self.synopsis_share is not None:
            share = exact(self.synopsis_share, "synopsis_share")
            if share and domain.size > MAX_CELLS:
                raise PlanError(
                    f"synopsis_share is for at most {MAX_CELLS:,} cells, not {domain.size:,}."
                )
            return share
        if not self.wants_synopsis or domain.size > MAX_CELLS:
            return Fraction(0)
        scale = schema.relation.l1 / cost.epsilon
        reach = worst_reach(domain.size, scale, self.level, known_total=public)
        return Fraction(1) if 2 * reach < rows else Fraction(0)

    @property
    def wants_synopsis(self) -> bool:
        return self.max_hard is None and self.accuracy is None

    def synopsis_plan(
        self, schema: Schema, cost: Cost, settings: S, parameters: Mapping[str, Any]
    ) -> Plan[S]:
        """A session all of whose answers come from the noisy histogram it buys."""
        scale = settings.synopsis_scale or Fraction(0)
        cells, rows = settings.domain_size, settings.rows
        reach = worst_reach(cells, scale, self.level, known_total=bool(settings.total_is_public))
        if 2 * reach >= rows:
            raise PlanError(
                f"With {rows:,} rows nothing useful can be promised over {cells:,} cells: answers "
                f"would be off by up to {reach:,.0f} rows. Raise epsilon, or choose fewer columns "
                "or bins."
            )
        cell = laplace_deviation(scale)
        return Plan(
            method=self.method,
            kind="online",
            schema=schema,
            cost=cost,
            parameters=parameters,
            settings=replace(settings, accuracy=reach / rows),
            sentences=(
                f"Online queries over {cells:,} cells, one at a time, chosen as you like.",
                f"Cost {cost.describe()} for the whole session, paid when it is opened, protecting "
                f"{schema.unit.describe()} ({schema.neighbours}).",
                f"All of it buys a noisy histogram (standard deviation {cell:.3g} per cell), from "
                "which every query is answered, as many as you like; max_hard or accuracy asks for "
                "hard answers instead.",
                f"An easy answer is within {reach:,.4g} rows ({reach / rows:.3g} of all) with "
                f"probability {self.level:g}, whatever is asked; one about few cells has a shorter "
                "interval.",
                *self.theory_sentences(schema, cost, settings),
            ),
        )

    def _domain(self, schema: Schema, rows: int) -> Domain:
        names = tuple(self.columns) if self.columns is not None else tuple(schema.columns)
        if not names:
            raise PlanError("An online session needs at least one column.")
        if len(set(names)) != len(names):
            raise PlanError("A column is listed twice.")
        domain = schema.domain(names, rows=rows, bins=self.bins)
        if domain.size > self.max_cells:
            raise PlanError(
                f"The {len(names)} columns span {domain.size:,} cells; {self.method} keeps "
                f"hypotheses over all of them and "
                f"takes at most {self.max_cells:,}. Choose fewer columns, or fewer bins."
            )
        if domain.size * self.hard_limit > MAX_WEIGHTS:
            raise PlanError(
                f"{self.hard_limit:,} hard answers over {domain.size:,} cells do not fit in "
                "memory. Lower max_hard, or choose fewer columns or bins."
            )
        return domain

    def wanted_accuracy(self) -> Fraction | None:
        if self.accuracy is None:
            return None
        wanted = exact(self.accuracy, "accuracy")
        if not 0 < wanted < 1:
            raise PlanError(
                f"accuracy is a share of all rows, above 0 and below 1, not {self.accuracy}."
            )
        return wanted

    def margins(self, settings: OnlineSettings) -> tuple[float, float]:
        """In rows: how far a comparison's noise reaches at `level`, and how far below the threshold
        a good hypothesis must stay so that in `max_queries` queries few are called hard by noise
        alone."""
        vector = SparseVector(
            epsilon=settings.check_epsilon,
            sensitivity=settings.max_rows_per_unit,
            max_hits=self.hard_limit,
        )
        first, second = (float(scale) for scale in vector.scales)
        reach = (first + second) * math.log(1 / (1 - self.level))
        quiet = first + second * max(1.0, math.log(2 * self.max_queries / self.hard_limit))
        return reach, quiet + 2 * settings.hard_answer_scale

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
            **(
                {}
                if self.synopsis_share is None
                else {"synopsis_share": str(exact(self.synopsis_share, "synopsis_share"))}
            ),
        }

    def common_sentences(self, schema: Schema, cost: Cost, settings: OnlineSettings) -> list[str]:
        return [
            f"Online queries over {settings.domain_size:,} cells, one at a time, chosen as you "
            f"like.",
            f"Cost {cost.describe()} for the whole session, paid when it is opened, protecting "
            f"{schema.unit.describe()} "
            f"({schema.neighbours}).",
            f"At most {settings.max_hard} hard answers, each with Laplace noise of scale "
            f"{settings.hard_answer_scale:,.4g} rows; then the session ends.",
        ]

    def theory_sentences(self, schema: Schema, cost: Cost, settings: OnlineSettings) -> list[str]:
        """What theory says about as many queries as are expected."""
        return theory.online_sentences(
            rows=settings.rows,
            epsilon=float(cost.epsilon),
            queries=self.max_queries,
            cells=settings.domain_size,
            neighbours=schema.neighbours,
            rows_per_unit=settings.max_rows_per_unit,
        )


def dense_counts(cells: IntArray | NDArray[np.uint64], counts: IntArray, size: int) -> IntArray:
    """Exact counts of all cells, empty ones too. Private."""
    out = np.zeros(size, dtype=np.int64)
    out[np.asarray(cells, dtype=np.int64)] = counts
    return out
