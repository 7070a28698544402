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
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import CellCounts, CodedRows, Statistic
from dpublish.errors import PlanError
from dpublish.methods.draws import laplace_deviation
from dpublish.methods.field_types import Checked, Interval
from dpublish.methods.histogram.mechanism import total_is_public
from dpublish.methods.online import joined
from dpublish.methods.online.sparse_vector import SparseVector
from dpublish.methods.online.state import (
    MAX_CELLS,
    OnlineSettings,
    OnlineState,
    S,
    draw_synopsis,
    worst_reach,
)
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan
from dpublish.workloads import theory

MAX_QUERIES = 10**9
DEFAULT_HARD = 50
MAX_WEIGHTS = 1 << 24
"""Weights of all hard queries that are kept at once."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What `begin` leaves: public facts of the session, and the noisy threshold, which must stay
    secret."""

    public: Mapping[str, Any]
    threshold: int = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class OnlineMechanism(Checked, abc.ABC):
    """Settings that both online mechanisms share; see `MedianMechanism` and
    `OnlineMultiplicativeWeights`."""

    method: ClassVar[str]
    max_cells: ClassVar[int]
    takes_joined: ClassVar[bool] = False
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
    synopsis: Literal["auto", "histogram", "joined"] = "auto"

    @abc.abstractmethod
    def plan(self, schema: Schema, cost: Cost) -> Plan[OnlineSettings]:
        """Price a session and say what to expect. Raises `PlanError` or `SchemaError`; reads no
        row."""

    def begin(self, noise: Noise, counts: Ints, settings: Any) -> Opening:
        """The first step after the debit, once a session."""
        public, threshold = self.opening(noise, counts, settings), 0
        if settings.accounting == "sparse-vector" and not settings.all_easy:
            threshold = settings.vector.draw_threshold(noise, settings.threshold)
        return Opening(public=public, threshold=threshold)

    @abc.abstractmethod
    def state(self, settings: Any, public: Mapping[str, Any]) -> OnlineState[Any]:
        """The public state at the start of a session."""

    def statistic(self, plan: Plan[OnlineSettings]) -> Statistic:
        domain = plan.settings.domain
        return CellCounts(domain) if plan.settings.support is None else CodedRows(domain)

    def opening(self, noise: Noise, counts: Ints, settings: OnlineSettings) -> dict[str, Any]:
        """What a session shows from the start: the synopsis, if it buys one, and the total.
        `counts` are those of all cells, or the codes of all rows for a joined synopsis."""
        if settings.support is not None and settings.joined is not None:
            rows = counts.reshape(len(settings.domain.axes), -1)
            support = joined.draw_support(noise, list(rows), settings.joined, settings.support)
            ones = np.ones(rows.shape[1], dtype=np.int64)
            return {"support": support, **self.noisy_total(noise, ones, settings)}
        if settings.synopsis_scale is None or settings.synopsis_epsilon is None:
            return self.noisy_total(noise, counts, settings)
        epsilon = settings.synopsis_epsilon
        moves = settings.synopsis_scale * epsilon
        noisy = draw_synopsis(noise, counts, sensitivity=moves, epsilon=epsilon)
        return {"synopsis": noisy, **self.noisy_total(noise, counts, settings, noisy)}

    def noisy_total(
        self,
        noise: Noise,
        counts: Ints,
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
        bought, cells, hard = None, domain.size, self.hard_limit
        if self._wants_joined(domain):
            share, cells, hard = self._joined_share(), joined.SUPPORT, self.joined_hard
            bought = joined.plan_of(schema, cost.epsilon * share, domain.names, self.bins, rows)
            domain = bought.settings.fine
        self._check_room(domain, cells, hard)
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
        if bought is None:
            share = self._synopsis_share(schema, cost, domain, rows, public)
        spent = cost.epsilon * (1 - share)
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
            synopsis_scale=moves / (cost.epsilon * share) if share and bought is None else None,
            support=None if bought is None else joined.SUPPORT,
            joined=bought,
            total_is_public=public if share else None,
        )

    @property
    def hard_limit(self) -> int:
        return DEFAULT_HARD if self.max_hard is None else self.max_hard

    @property
    def joined_hard(self) -> int:
        return joined.HARD if self.max_hard is None else self.max_hard

    def _wants_joined(self, domain: Domain) -> bool:
        """As asked for; else where the domain is too large for what would be bought instead."""
        if self.synopsis == "joined" and not self.takes_joined:
            raise PlanError(
                f"{self.method} keeps hypotheses over all cells, so it buys no joined histograms. "
                "Use online-multiplicative-weights."
            )
        if not self.takes_joined or self.synopsis == "histogram":
            return False
        plain = MAX_CELLS if self.wants_synopsis and self.synopsis_share != 0 else self.max_cells
        return self.synopsis == "joined" or domain.size > plain

    def _joined_share(self) -> Fraction:
        if self.synopsis_share is None:
            return joined.SHARE
        share = exact(self.synopsis_share, "synopsis_share")
        if not 0 < share < 1:
            raise PlanError(
                "Joined histograms cannot say by themselves how wrong they are on a question: "
                "synopsis_share must leave something for comparisons and hard answers, above 0 and "
                "below 1."
            )
        return share

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
                f"would be off by up to {reach:,.0f} rows. Choose fewer columns or bins. "
                + self.instead
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
        return schema.domain(names, rows=rows, bins=self.bins)

    def _check_room(self, domain: Domain, cells: int, hard: int) -> None:
        """`cells` are those that hypotheses are kept over: a support has fewer than the domain."""
        if cells > self.max_cells:
            other = "" if self.takes_joined else ", or online-multiplicative-weights"
            raise PlanError(
                f"The {len(domain.axes)} columns span {cells:,} cells; {self.method} keeps "
                f"hypotheses over all of them and takes at most {self.max_cells:,}. Choose fewer "
                f"columns, or fewer bins{other}."
            )
        if cells * hard > MAX_WEIGHTS:
            raise PlanError(
                f"{hard:,} hard answers over {cells:,} cells do not fit in "
                "memory. Lower max_hard, or choose fewer columns or bins."
            )

    def wanted_accuracy(self) -> Fraction | None:
        if self.accuracy is None:
            return None
        wanted = exact(self.accuracy, "accuracy")
        if not 0 < wanted < Fraction(1, 2):
            raise PlanError(
                f"accuracy is a share of all rows, above 0 and below 1/2, not {self.accuracy}: "
                "half of all rows is that near to every answer, and needs no data."
            )
        return wanted

    def promised_accuracy(
        self, rows: int, usual: Fraction, *, enough: float, hard: int
    ) -> Fraction:
        """The accuracy that was asked for, or else the usual one for so many rows; 0.2 takes
        `enough` rows."""
        wanted = self.wanted_accuracy()
        if wanted is not None:
            return wanted
        if 2 * usual >= 1:
            raise PlanError(
                f"With {rows:,} rows nothing useful can be promised for max_hard = {hard}; about "
                f"{math.ceil(enough):,} rows would allow an accuracy of 0.2. {self.instead}"
            )
        return usual

    def out_of_reach(self, wanted: Fraction, least: float, hard: int) -> PlanError:
        """The refusal of an accuracy below the least that can be promised, a share of all rows."""
        share = math.ceil(1000 * least) / 1000
        known = f"accuracy = {share:g} is the least." if share < 0.5 else "none can."
        return PlanError(
            f"accuracy = {float(wanted):g} cannot be promised: noise alone reaches further. With "
            f"these rows, epsilon and max_hard = {hard}, {known} {self.instead}"
        )

    @property
    def instead(self) -> str:
        """What a plan that can promise nothing tells one to take."""
        release = "joined-histograms" if self.takes_joined else "a histogram"
        return (
            f"Raise epsilon or lower max_hard; or publish {release}, whose answers each say how "
            "near they are."
        )

    def margins(self, settings: OnlineSettings) -> tuple[float, float]:
        """In rows: how far a comparison's noise reaches at `level`, and how far below the threshold
        a good hypothesis must stay so that in `max_queries` queries few are called hard by noise
        alone."""
        vector = SparseVector(
            epsilon=settings.check_epsilon,
            sensitivity=settings.max_rows_per_unit,
            max_hits=settings.max_hard,
        )
        first, second = (float(scale) for scale in vector.scales)
        reach = (first + second) * math.log(1 / (1 - self.level))
        quiet = first + second * max(1.0, math.log(2 * self.max_queries / settings.max_hard))
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
            **({} if self.synopsis == "auto" else {"synopsis": self.synopsis}),
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


def dense_counts(cells: Ints | NDArray[np.uint64], counts: Ints, size: int) -> Ints:
    """Exact counts of all cells, empty ones too. Private."""
    out = np.zeros(size, dtype=np.int64)
    out[np.asarray(cells, dtype=np.int64)] = counts
    return out
