"""The median mechanism (Roth 2010, chapter 4): many adaptive counting queries for the price of a
few hard ones.

In: exact counts of all cells (private), queries one at a time. Out: for each query a label and an
answer. A query on which most hypotheses agree with the data is easy and gets their median; a hard
one gets a Laplace answer, which cuts hypotheses off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.errors import BudgetExceeded, PlanError
from dpublish.methods.online.base import Desk, Floats, OnlineMechanism, Opening, Query, Reply
from dpublish.methods.online.kernels import mean_closeness
from dpublish.methods.online.median.hypotheses import (
    MAX_LISTED,
    SAMPLES,
    Hypotheses,
    ListedHypotheses,
    SampledHypotheses,
    listed_count,
)
from dpublish.methods.online.median.thesis import thesis_parameters
from dpublish.methods.online.sparse_vector import SparseVector, exact_laplace
from dpublish.noise.base import IntArray, Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan
from dpublish.workloads import theory

EASY = (1 + math.exp(-1)) / 2
"""A mean closeness above this puts the median within one `reach` of the truth (lemma 3 of
median.proof.md)."""
MAX_EASY = 0.95


@dataclass(frozen=True, kw_only=True)
class MedianMechanism(OnlineMechanism):
    """Adaptive online queries, answered by the median of the hypotheses that agree with the hard
    answers so far.

    Input: exact counts of all cells. Neighbours: replace-one or add-remove-one, of a unit with at
    most c rows.
    Output: for each query "easy" or "hard" and a number; at most `max_hard` hard ones, then the
    session ends.
    Privacy: epsilon-DP for the whole session, however many easy queries (theorem 1 of
    median.proof.md; `thesis`: theorem 2).
    Relies on: `Noise.laplace` being exact; the noisy threshold staying secret and fixed; hypotheses
    made from public answers.
    Shows / hides: answers near the truth for queries like those asked before; hides whether any one
    unit is in the data.
    Accuracy: every answer comes with an interval that holds the truth with probability `level`; an
    easy one within `accuracy`.

    Parameters
    ----------
    columns : columns of the domain; all declared ones when left out.
    bins : bins for numeric columns that declare none; Lei's rule from the public size when left
        out.
    accuracy : error of an easy answer as a share of all rows; when left out, the smallest that can
        be promised.
    max_hard : how many hard answers are paid for.
    max_queries : about how many queries will be asked; sets the threshold. With accounting "thesis"
        it is a limit.
    level : how sure the interval of each answer is.
    answer_share : share of epsilon for the hard answers; the rest decides which queries are hard.
    count_share : share of epsilon for a noisy total where the number of counted rows is private;
        1/20 by default.
    resolution : weights of linear queries are rounded to multiples of 1 / resolution.
    accounting : "sparse-vector", or "thesis" for the thesis's own parameters, refused below the n
        they need.
    hypotheses : "sampled" (hit-and-run over fractional histograms) or "listed" (all databases of
        `database_size` rows).
    database_size : rows of a listed database.
    grid : closeness is measured on a scale from 0 to this.
    """

    method: ClassVar[str] = "median-mechanism"
    max_cells: ClassVar[int] = 1 << 14

    accounting: Literal["sparse-vector", "thesis"] = "sparse-vector"
    hypotheses: Literal["sampled", "listed"] = "sampled"
    database_size: int = 4
    grid: int = 1 << 48

    def plan(self, schema: Schema, cost: Cost) -> Plan:
        domain, facts = self.common_facts(schema, cost)
        if self.accounting not in ("sparse-vector", "thesis") or self.hypotheses not in (
            "sampled",
            "listed",
        ):
            raise PlanError(
                "accounting is 'sparse-vector' or 'thesis', and hypotheses is 'sampled' or "
                "'listed'."
            )
        if not 1 <= self.grid <= 1 << 48:
            raise PlanError(f"grid must lie between 1 and 2^48, not {self.grid}.")
        facts["grid"] = self.grid
        if self.hypotheses == "listed" and (
            self.database_size < 1 or listed_count(domain.size, self.database_size) > MAX_LISTED
        ):
            raise PlanError(
                f"There are too many databases of {self.database_size} rows over {domain.size:,} "
                f"cells to list "
                f"(at most {MAX_LISTED:,}). Use hypotheses = 'sampled', or a smaller database_size."
            )
        if self.hypotheses == "listed":  # the sum over all hypotheses must fit 62 bits
            facts["grid"] = min(
                self.grid, 1 << (61 - listed_count(domain.size, self.database_size).bit_length())
            )
        warnings: list[str] = []
        if self.accounting == "thesis":
            accuracy = self._thesis_facts(facts, cost)
        else:
            accuracy = self._sparse_facts(facts, warnings)
        rows = int(facts["rows"])
        facts.update(
            hypotheses=self.hypotheses, database_size=self.database_size, accuracy=float(accuracy)
        )
        sentences = [
            *self.common_sentences(schema, cost, facts),
            f"An easy answer is the median of "
            f"{SAMPLES if self.hypotheses == 'sampled' else 'all'} hypotheses; it is within "
            f"{float(accuracy * rows):,.4g} rows ({float(accuracy):.3g} of all) with probability "
            f"{self.level:g}.",
            *self._theorem_18(float(cost.epsilon), float(accuracy), facts),
            *self.theory_sentences(schema, cost, facts),
        ]
        return Plan(
            method=self.method,
            kind="online",
            schema=schema,
            cost=cost,
            parameters={
                **self.parameters(domain),
                "accounting": self.accounting,
                "hypotheses": self.hypotheses,
                "database_size": self.database_size,
                "grid": self.grid,
            },
            domain=domain,
            facts=facts,
            sentences=tuple(sentences),
            warnings=tuple(warnings),
        )

    def _sparse_facts(self, facts: dict[str, Any], warnings: list[str]) -> Fraction:
        rows = int(facts["rows"])
        reach, quiet = self.margins(facts)
        least = reach / (MAX_EASY - EASY) / rows
        wanted = self.wanted_accuracy()
        if wanted is None:
            wanted = Fraction(
                math.ceil((reach + quiet) / (1 - EASY - 0.016) / rows * 1000) + 1, 1000
            )
            if wanted >= 1:
                raise PlanError(
                    f"With {rows:,} rows nothing useful can be promised for max_hard = "
                    f"{self.max_hard}; about "
                    f"{math.ceil((reach + quiet) / 0.3 / 0.2):,} rows would allow an accuracy of "
                    f"0.2. "
                    "Raise epsilon or lower max_hard."
                )
        if wanted < least:
            raise PlanError(
                f"accuracy = {float(wanted):g} cannot be promised: noise alone reaches further. "
                f"With these rows, epsilon and "
                f"max_hard = {self.max_hard}, accuracy = {math.ceil(least * 1000) / 1000:g} is "
                f"the least."
            )
        units = round(wanted * rows * self.resolution)
        moves = int(facts["max_rows_per_unit"]) * self.resolution
        # the exponential falls by at most 1/reach a unit; three units of the grid cover its
        # rounding (median.proof.md)
        sensitivity = math.ceil(Fraction(int(facts["grid"]) * moves, max(1, units))) + 3
        mark = min(MAX_EASY, EASY + reach / float(wanted * rows))
        if float(wanted * rows) * (1 - mark) < quiet:
            warnings.append(
                f"At this accuracy some queries will be called hard by noise alone; for "
                f"{self.max_queries:,} queries leave "
                "accuracy out or raise it."
            )
        facts.update(
            reach=max(1, units),
            check_sensitivity=sensitivity,
            easy_mark=mark,
            threshold=hard_mark(facts, mark),
        )
        return wanted

    def _theorem_18(self, epsilon: float, accuracy: float, facts: Mapping[str, Any]) -> list[str]:
        """How many rows the thesis asks for, and what that means here. It is stated for two queries
        over two cells or more."""
        cells = int(facts["domain_size"])
        if self.max_queries < 2 or cells < 2 or 2 * self.max_queries <= epsilon:
            return []
        needed = theory.median_sample_size(
            accuracy, epsilon, queries=self.max_queries, universe=cells
        )
        start = (
            f"Theorem 18 asks for n = {needed:.2g} rows to answer {self.max_queries:,} "
            f"queries within {accuracy:.3g} of all"
        )
        if self.accounting == "thesis":
            return [f"{start}; there are enough."]
        return [
            f"{start}. What is promised here rests on its own accounting (sparse vector) instead."
        ]

    def _thesis_facts(self, facts: dict[str, Any], cost: Cost) -> Fraction:
        if facts["count_epsilon"] != "0":
            raise PlanError(
                "accounting = 'thesis' needs a public number of rows: replace-one, a unit a row, "
                "no dropped rows."
            )
        wanted = self.wanted_accuracy()
        if wanted is None:
            raise PlanError(
                "accounting = 'thesis' needs accuracy = ..., the epsilon of the thesis."
            )
        rows = int(facts["rows"])
        found = thesis_parameters(
            epsilon=cost.epsilon,
            accuracy=wanted,
            queries=self.max_queries,
            cells=int(facts["domain_size"]),
            rows=rows,
        )
        if rows < found.required_rows:
            raise PlanError(
                f"The thesis's parameters need n >= {found.required_rows:,} rows (4.6); there are "
                f"{rows:,}. "
                "Use accounting = 'sparse-vector'."
            )
        units = round(wanted * rows * self.resolution)
        facts.update(
            accounting="thesis",
            max_hard=min(self.max_hard, found.max_hard),
            stops_after_max_queries=True,
            check_epsilon=str(found.step_epsilon / 2),
            hard_answer_epsilon=str(found.step_epsilon),
            hard_answer_scale=float(1 / found.step_epsilon),
            thesis_size=found.size,
            thesis_max_hard=found.max_hard,
            required_rows=found.required_rows,
            gamma=float(found.gamma),
            gamma_grid=math.ceil(found.gamma * int(facts["grid"])),
            threshold_steps=found.steps,
            reach=units,
            check_sensitivity=math.ceil(Fraction(int(facts["grid"]) * self.resolution, units)) + 3,
            easy_mark=0.75,
            threshold=hard_mark(facts, 0.75),
        )
        return wanted

    def begin(self, noise: Noise, counts: IntArray, plan: Plan) -> Opening:
        facts = plan.facts
        public = self.noisy_total(noise, counts, facts)
        if self.hypotheses == "sampled":
            public["seed"] = noise.key(label="hypotheses").hex()
        threshold = 0
        if self.accounting == "sparse-vector":
            threshold = checker(facts).draw_threshold(noise, int(facts["threshold"]))
        return Opening(public=public, threshold=threshold)

    def desk(self, facts: Mapping[str, Any], public: Mapping[str, Any], cells: int) -> MedianDesk:
        made: Hypotheses
        if self.hypotheses == "sampled":
            made = SampledHypotheses(cells, bytes.fromhex(public["seed"]))
        else:
            made = ListedHypotheses(cells, self.database_size)
        return MedianDesk(facts, public, made)


def hard_mark(facts: Mapping[str, Any], mark: float) -> int:
    """A query whose distance (grid minus closeness) reaches this is hard."""
    grid = int(facts["grid"])
    return max(1, grid - math.floor(mark * grid))


def checker(facts: Mapping[str, Any]) -> SparseVector:
    return SparseVector(
        epsilon=Fraction(facts["check_epsilon"]),
        sensitivity=int(facts["check_sensitivity"]),
        max_hits=int(facts["max_hard"]),
    )


class MedianDesk(Desk):
    """Hypotheses, and what follows from them for a query."""

    def __init__(
        self, facts: Mapping[str, Any], public: Mapping[str, Any], hypotheses: Hypotheses
    ) -> None:
        super().__init__(facts, public)
        self._facts = facts
        self._hypotheses = hypotheses
        self._reach = int(facts["reach"])
        self._grid = int(facts["grid"])
        self._accuracy = self._reach / self.resolution / self.rows

    def answer(self, noise: Noise, counts: IntArray, threshold: int, query: Query) -> Reply:
        self.require_open()
        values = self._hypotheses.values(self.shares(query))
        if values.size == 0:
            # decided by public answers alone
            raise BudgetExceeded(
                "No hypothesis agrees with all hard answers, so this session can answer nothing "
                "further."
            )
        units = np.rint(values * self.rows * self.resolution).astype(np.int64)
        true = self.true_value(counts, query)
        distance = self._grid - closeness(units, true, self._reach, self._grid)
        if self._is_hard(noise, distance, threshold):
            return self.hard_reply(noise, true)
        return self._easy(units)

    def _is_hard(self, noise: Noise, distance: int, threshold: int) -> bool:
        facts = self._facts
        if facts["accounting"] == "sparse-vector":
            return checker(facts).reaches(noise, distance, threshold)
        # step j has probability proportional to 2^-j: where the highest bit of a uniform number
        # from 1 to 2^steps - 1 stands
        steps = int(facts["threshold_steps"]) + 1
        drawn = int(noise.integers((1 << steps) - 1, size=1, label="step")[0]) + 1
        step = steps - drawn.bit_length()
        noisy = exact_laplace(
            noise,
            distance,
            sensitivity=Fraction(int(facts["check_sensitivity"])),
            epsilon=Fraction(facts["check_epsilon"]),
            label="comparison",
        )
        return noisy > self._grid // 4 - step * int(facts["gamma_grid"])

    def _easy(self, units: IntArray) -> Reply:
        """The median; the interval holds every value whose closeness could have passed, but for
        noise of chance 1 - level."""
        facts, scale = self._facts, 1 / self.resolution
        tail = math.log(1 / (1 - self.level))
        if facts["accounting"] == "sparse-vector":
            slack = sum(float(part) for part in checker(facts).scales) * tail
        else:
            slack = float(int(facts["check_sensitivity"]) / Fraction(facts["check_epsilon"])) * tail
        least = (self._grid - int(facts["threshold"]) - slack) / self._grid
        median = float(np.median(units))
        low, high = possible_values(units.astype(np.float64), least, float(self._reach))
        return self.easy_reply(median * scale, low * scale, high * scale)

    def _take(self, query: Query, noisy: int) -> None:
        answer = noisy / self.resolution / self.rows
        self._hypotheses.learn(self.shares(query), answer, max(self._accuracy / 50, 1e-9))


def closeness(units: IntArray, true: int, reach: int, grid: int) -> int:
    """grid times the mean of exp(-|true - unit| / reach) over hypotheses, rounded down; private."""
    distance = np.abs(units - np.int64(true)).astype(np.float64)
    marks = np.rint(grid * np.exp(-distance / reach)).astype(np.int64)
    return int(marks.sum()) // units.size


def possible_values(units: Floats, least: float, reach: float) -> tuple[float, float]:
    """An interval that holds every x with mean exp(-|x - unit| / reach) >= least.

    Between two neighbouring hypotheses that mean is convex in x, so where both are below `least`,
    all in between is too: the outermost hypotheses that pass decide, and beyond them the mean is
    followed down to `least`.
    """
    if least <= 0:
        return -math.inf, math.inf
    points = np.sort(units)
    means = mean_closeness(points, reach)
    passing = np.flatnonzero(means >= least)
    if passing.size == 0:  # only noise can have let it pass; the median is the best guess there is
        middle = float(np.median(units))
        return middle - reach, middle + reach
    first, last = int(passing[0]), int(passing[-1])
    if first == 0:
        low = float(points[0]) - reach * math.log(means[0] / least)
    else:
        low = _crossing(points, float(points[first]), float(points[first - 1]), least, reach)
    if last == points.size - 1:
        high = float(points[-1]) + reach * math.log(means[-1] / least)
    else:
        high = _crossing(points, float(points[last]), float(points[last + 1]), least, reach)
    return low, high


def _crossing(points: Floats, passes: float, fails: float, least: float, reach: float) -> float:
    """A place between `passes` and `fails`, on the failing side, beyond which nothing passes."""
    for _ in range(20):
        middle = (passes + fails) / 2
        if float(np.exp(-np.abs(points - middle) / reach).mean()) >= least:
            passes = middle
        else:
            fails = middle
    return fails
