"""The median mechanism (Roth 2010, chapter 4): many adaptive counting queries for the price of a
few hard ones.

In: exact counts of all cells (private), queries one at a time. Out: for each query a label and an
answer. A query on which most hypotheses agree with the data is easy and gets their median; a hard
one gets a Laplace answer, which cuts hypotheses off.
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.declare.schema import Schema
from dpublish.errors import BudgetExceeded, PlanError
from dpublish.methods.field_types import Interval
from dpublish.methods.online.base import OnlineMechanism
from dpublish.methods.online.kernels import mean_closeness, tilt, walk_flags, walk_shares
from dpublish.methods.online.sparse_vector import exact_laplace
from dpublish.methods.online.state import OnlineSettings, OnlineState, Query, Reply
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan
from dpublish.workloads import theory

EASY = (1 + math.exp(-1)) / 2
"""A mean closeness above this puts the median within one `reach` of the truth (lemma 3 of
median.proof.md)."""
MAX_EASY = 0.95
_UP = Fraction(1000001, 1000000)
"""Covers the rounding of a float logarithm many times over."""
MAX_STEPS = 60


def judge(state: MedianState, noise: Noise, counts: Ints, threshold: int, query: Query) -> Reply:
    """Figure 4.1 of the thesis: one query, easy if most hypotheses are close to the data on it."""
    guesses = state.guesses(query)
    true = state.true_value(counts, query)
    grid, reach = state.settings.grid, state.settings.reach
    distance = grid - closeness(guesses, true, reach, grid)
    if state.is_hard(noise, distance, threshold):
        return state.hard_reply(noise, true)
    return state.median_reply(guesses)


@dataclass(frozen=True, kw_only=True)
class MedianSettings(OnlineSettings):
    """How closeness of hypotheses is measured; the rest is for accounting "thesis"."""

    hypotheses: str = "sampled"
    database_size: int = 4
    grid: int = 1 << 48
    reach: int = 1
    easy_mark: float = 0.75
    thesis_size: int | None = None
    thesis_max_hard: int | None = None
    required_rows: int | None = None
    gamma: float | None = None
    gamma_grid: int = 0
    threshold_steps: int = 0

    def facts(self) -> dict[str, Any]:
        said = super().facts()
        if self.accounting == "sparse-vector":
            del said["gamma_grid"], said["threshold_steps"]
        return said


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
    max_hard : how many hard answers are paid for; 50 where there are any.
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
    synopsis_share : share of epsilon that buys a noisy histogram, from which queries are answered
        where that keeps the promise; by default all of it, unless `max_hard` or `accuracy` asks for
        hard answers or the histogram would promise nothing.
    synopsis : "histogram", the one kind that this mechanism buys; "auto" is the same.
    grid : closeness is measured on a scale from 0 to this.

    Examples
    --------
    >>> MedianMechanism(accuracy=0.05, max_hard=50).max_queries
    10000
    """

    method: ClassVar[str] = "median-mechanism"
    max_cells: ClassVar[int] = 1 << 14
    settings_type: ClassVar[type[OnlineSettings]] = MedianSettings

    accounting: Literal["sparse-vector", "thesis"] = "sparse-vector"
    hypotheses: Literal["sampled", "listed"] = "sampled"
    database_size: int = 4
    grid: Annotated[int, Interval(1, 1 << 48)] = 1 << 48

    def plan(self, schema: Schema, cost: Cost) -> Plan[MedianSettings]:
        common = self.common_settings(schema, cost)
        domain = common.domain
        if self.accounting not in ("sparse-vector", "thesis") or self.hypotheses not in (
            "sampled",
            "listed",
        ):
            raise PlanError(
                "accounting is 'sparse-vector' or 'thesis', and hypotheses is 'sampled' or "
                "'listed'."
            )
        if self.hypotheses == "listed" and (
            self.database_size < 1 or listed_count(domain.size, self.database_size) > MAX_LISTED
        ):
            raise PlanError(
                f"There are too many databases of {self.database_size} rows over {domain.size:,} "
                f"cells to list "
                f"(at most {MAX_LISTED:,}). Use hypotheses = 'sampled', or a smaller database_size."
            )
        grid = self.grid
        if self.hypotheses == "listed":  # the sum over all hypotheses must fit 62 bits
            listed = listed_count(domain.size, self.database_size)
            grid = min(grid, 1 << (61 - listed.bit_length()))
        settings = MedianSettings(
            **vars(common), hypotheses=self.hypotheses, database_size=self.database_size, grid=grid
        )
        parameters = {
            **self.parameters(domain),
            "accounting": self.accounting,
            "hypotheses": self.hypotheses,
            "database_size": self.database_size,
            "grid": self.grid,
        }
        if self.accounting == "thesis" and settings.synopsis_epsilon:
            raise PlanError(
                "accounting = 'thesis' spends all of epsilon on its own steps, so it has none for "
                "synopsis_share. Leave that out, or use accounting = 'sparse-vector'."
            )
        if settings.all_easy:
            return self.synopsis_plan(schema, cost, settings, parameters)
        warnings: list[str] = []
        if self.accounting == "thesis":
            settings = self._thesis_settings(settings, cost)
        else:
            settings = self._sparse_settings(settings, warnings)
        accuracy = settings.accuracy
        sentences = (
            *self.common_sentences(schema, cost, settings),
            f"An easy answer is the median of "
            f"{SAMPLES if self.hypotheses == 'sampled' else 'all'} hypotheses; it is within "
            f"{accuracy * settings.rows:,.4g} rows ({accuracy:.3g} of all) with probability "
            f"{self.level:g}.",
            *(
                [
                    "How far the random walk behind the hypotheses has mixed is not checked: it "
                    "bears on how many queries are hard, not on privacy or on the intervals."
                ]
                if self.hypotheses == "sampled"
                else []
            ),
            *self._theorem_18(float(cost.epsilon), settings),
            *self.theory_sentences(schema, cost, settings),
        )
        return Plan(
            method=self.method,
            kind="online",
            schema=schema,
            cost=cost,
            parameters=parameters,
            settings=settings,
            sentences=sentences,
            warnings=tuple(warnings),
        )

    def _sparse_settings(self, settings: MedianSettings, warnings: list[str]) -> MedianSettings:
        rows = settings.rows
        reach, quiet = self.margins(settings)
        least = reach / (MAX_EASY - EASY) / rows
        wanted = self.promised_accuracy(
            rows,
            Fraction(math.ceil((reach + quiet) / (1 - EASY - 0.016) / rows * 1000) + 1, 1000),
            enough=(reach + quiet) / 0.3 / 0.2,
            hard=self.hard_limit,
        )
        if wanted < least:
            raise self.out_of_reach(wanted, least, self.hard_limit)
        units = max(1, round(wanted * rows * self.resolution))
        moves = settings.max_rows_per_unit * self.resolution
        mark = min(MAX_EASY, EASY + reach / float(wanted * rows))
        if float(wanted * rows) * (1 - mark) < quiet:
            warnings.append(
                f"At this accuracy some queries will be called hard by noise alone; for "
                f"{self.max_queries:,} queries leave "
                "accuracy out or raise it."
            )
        return replace(
            settings,
            accuracy=float(wanted),
            reach=units,
            # the exponential falls by at most 1/reach a unit; three units of the grid cover its
            # rounding (median.proof.md)
            check_sensitivity=math.ceil(Fraction(settings.grid * moves, units)) + 3,
            easy_mark=mark,
            threshold=hard_mark(settings.grid, mark),
        )

    @property
    def wants_synopsis(self) -> bool:
        plain = self.accounting == "sparse-vector" and self.hypotheses == "sampled"
        return plain and super().wants_synopsis

    def _theorem_18(self, epsilon: float, settings: MedianSettings) -> list[str]:
        """How many rows the thesis asks for, and what that means here. It is stated for two queries
        over two cells or more."""
        cells, accuracy = settings.domain_size, settings.accuracy
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

    def _thesis_settings(self, settings: MedianSettings, cost: Cost) -> MedianSettings:
        if settings.count_epsilon:
            raise PlanError(
                "accounting = 'thesis' needs a public number of rows: replace-one, a unit a row, "
                "no dropped rows."
            )
        wanted = self.wanted_accuracy()
        if wanted is None:
            raise PlanError(
                "accounting = 'thesis' needs accuracy = ..., the epsilon of the thesis."
            )
        rows, grid = settings.rows, settings.grid
        found = thesis_parameters(
            epsilon=cost.epsilon,
            accuracy=wanted,
            queries=self.max_queries,
            cells=settings.domain_size,
            rows=rows,
        )
        if rows < found.required_rows:
            raise PlanError(
                f"The thesis's parameters need n >= {found.required_rows:,} rows (4.6); there are "
                f"{rows:,}. "
                "Use accounting = 'sparse-vector'."
            )
        units = round(wanted * rows * self.resolution)
        return replace(
            settings,
            accuracy=float(wanted),
            accounting="thesis",
            max_hard=min(self.hard_limit, found.max_hard),
            stops_after_max_queries=True,
            check_epsilon=found.step_epsilon / 2,
            hard_answer_epsilon=found.step_epsilon,
            hard_answer_scale=float(1 / found.step_epsilon),
            thesis_size=found.size,
            thesis_max_hard=found.max_hard,
            required_rows=found.required_rows,
            gamma=float(found.gamma),
            gamma_grid=math.ceil(found.gamma * grid),
            threshold_steps=found.steps,
            reach=units,
            check_sensitivity=math.ceil(Fraction(grid * self.resolution, units)) + 3,
            easy_mark=0.75,
            threshold=hard_mark(grid, 0.75),
        )

    def opening(self, noise: Noise, counts: Ints, settings: OnlineSettings) -> dict[str, Any]:
        public = super().opening(noise, counts, settings)
        if self.hypotheses == "sampled":
            public["seed"] = noise.key(label="hypotheses").hex()
        return public

    def state(self, settings: MedianSettings, public: Mapping[str, Any]) -> MedianState:
        cells = settings.domain.size
        if self.hypotheses == "listed":
            return MedianState(settings, public, ListedHypotheses(cells, self.database_size))
        seed = bytes.fromhex(public["seed"])
        return MedianState(settings, public, SampledHypotheses(cells, seed))


@dataclass(frozen=True, kw_only=True)
class ThesisParameters:
    """m, alpha', gamma, the limit of hard answers 20 m ln |X| and the n that theorem 18 asks
    for."""

    size: int
    step_epsilon: Fraction
    gamma: Fraction
    max_hard: int
    required_rows: int
    steps: int


def thesis_parameters(
    *, epsilon: Fraction, accuracy: Fraction, queries: int, cells: int, rows: int
) -> ThesisParameters:
    """For privacy `epsilon` (the thesis's alpha) and accuracy (its epsilon), `queries` = k, `cells`
    = |X|, `rows` = n."""
    if queries < 2 or cells < 2 or not 0 < accuracy < 1:
        raise PlanError(
            "The thesis's parameters need at least 2 queries, at least 2 cells and an accuracy "
            "between 0 and 1."
        )
    log_k, log_x = math.log(queries), Fraction(math.log(cells)) * _UP
    size = math.ceil(Fraction(160_000 * log_k * math.log(1 / accuracy)) * _UP / accuracy**2)
    step = epsilon / (720 * size * log_x)
    log_term = Fraction(math.log(2 * queries) - math.log(epsilon)) * _UP
    if log_term <= 0:
        raise PlanError("The thesis's parameters need epsilon below twice the number of queries.")
    gamma = 4 * log_term / (step * accuracy * rows)
    required = math.ceil(30 * log_term * Fraction(math.log2(queries)) * _UP / (step * accuracy))
    if queries > 180 * size * log_x / _UP**2:
        raise PlanError(
            f"{queries:,} queries exceed 180 m ln|X|, up to which the thesis's accounting is "
            f"pure. Ask for fewer."
        )
    return ThesisParameters(
        size=size,
        step_epsilon=step,
        gamma=gamma,
        max_hard=math.floor(20 * size * log_x / _UP**2),
        required_rows=required,
        steps=min(MAX_STEPS, math.floor(Fraction(3, 20) / gamma)),
    )


def hard_mark(grid: int, mark: float) -> int:
    """A query whose distance (grid minus closeness) reaches this is hard."""
    return max(1, grid - math.floor(mark * grid))


class MedianState(OnlineState[MedianSettings]):
    """Hypotheses, and what follows from them for a query."""

    def __init__(
        self, settings: MedianSettings, public: Mapping[str, Any], hypotheses: Hypotheses
    ) -> None:
        super().__init__(settings, public)
        self._hypotheses = hypotheses
        self._accuracy = settings.reach / self.resolution / self.rows

    def judge(self, noise: Noise, counts: Ints, threshold: int, query: Query) -> Reply:
        return judge(self, noise, counts, threshold, query)

    def guesses(self, query: Query) -> Ints:
        """The query on every hypothesis, in units of 1 / resolution."""
        values = self._hypotheses.values(self.shares(query))
        if values.size == 0:
            # decided by public answers alone
            raise BudgetExceeded(
                "No hypothesis agrees with all hard answers, so this session can answer nothing "
                "further."
            )
        return np.rint(values * self.rows * self.resolution).astype(np.int64)

    def is_hard(self, noise: Noise, distance: int, threshold: int) -> bool:
        settings = self.settings
        if settings.accounting == "sparse-vector":
            return settings.vector.reaches(noise, distance, threshold)
        # step j has probability proportional to 2^-j: where the highest bit of a uniform number
        # from 1 to 2^steps - 1 stands
        steps = settings.threshold_steps + 1
        drawn = int(noise.integers((1 << steps) - 1, size=1, label="step")[0]) + 1
        step = steps - drawn.bit_length()
        noisy = exact_laplace(
            noise,
            distance,
            sensitivity=Fraction(settings.check_sensitivity),
            epsilon=settings.check_epsilon,
            label="comparison",
        )
        return noisy > settings.grid // 4 - step * settings.gamma_grid

    def median_reply(self, units: Ints) -> Reply:
        """The median; the interval holds every value whose closeness could have passed, but for
        noise of chance 1 - level."""
        settings, scale = self.settings, 1 / self.resolution
        tail = math.log(1 / (1 - self.level))
        if settings.accounting == "sparse-vector":
            slack = sum(float(part) for part in settings.vector.scales) * tail
        else:
            slack = float(settings.check_sensitivity / settings.check_epsilon) * tail
        least = (settings.grid - settings.threshold - slack) / settings.grid
        median = float(np.median(units))
        low, high = possible_values(units.astype(np.float64), least, float(settings.reach))
        return self.easy_reply(median * scale, low * scale, high * scale)

    def _take(self, query: Query, noisy: int) -> None:
        answer = noisy / self.resolution / self.rows
        self._hypotheses.learn(self.shares(query), answer, max(self._accuracy / 50, 1e-9))


def closeness(units: Ints, true: int, reach: int, grid: int) -> int:
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


# What the data may look like, given the answers shown so far: a table with one histogram (summing
# to 1) a row.
#
# Two ways to make it. `ListedHypotheses` lists every database of a small size and strikes out those
# that disagree with an answer: the mechanism of the thesis to the letter, for small domains and for
# tests. `SampledHypotheses` draws from the polytope of all histograms that agree with the answers,
# by hit-and-run. Both are functions of public numbers: their errors cost accuracy, never privacy.

MAX_LISTED = 200_000
SAMPLES = 128
BURN_IN = 32
"""Sweeps (as many steps as cells) before the first sample is kept."""
SWEEPS = 2
"""Sweeps between two samples."""
_FIT_PASSES = 200


class Hypotheses(abc.ABC):
    @abc.abstractmethod
    def values(self, query: Floats) -> Floats:
        """The query on every hypothesis, in no particular order; empty when no hypothesis is
        left."""

    @abc.abstractmethod
    def learn(self, query: Floats, answer: float, tolerance: float) -> None:
        """Keep to histograms whose value of `query` is `answer`, up to `tolerance`. All three are
        shares of the rows."""


def listed_count(cells: int, size: int) -> int:
    """How many databases of `size` rows there are over `cells` cells."""
    return math.comb(cells + size - 1, size)


class ListedHypotheses(Hypotheses):
    """All databases of `size` rows, as histograms."""

    def __init__(self, cells: int, size: int) -> None:
        if listed_count(cells, size) > MAX_LISTED:
            raise PlanError(
                f"There are more than {MAX_LISTED:,} databases of {size} rows over {cells} cells; "
                f"use sampling."
            )
        rows = list(itertools.combinations_with_replacement(range(cells), size))
        self._table = np.zeros((len(rows), cells))
        for place in range(size):
            self._table[np.arange(len(rows)), [row[place] for row in rows]] += 1 / size

    def values(self, query: Floats) -> Floats:
        return self._table @ query

    def learn(self, query: Floats, answer: float, tolerance: float) -> None:
        # a hair of slack, because shares such as 1/3 are not exact
        self._table = self._table[np.abs(self._table @ query - answer) <= tolerance + 1e-12]


class SampledHypotheses(Hypotheses):
    """`SAMPLES` histograms drawn by hit-and-run from the simplex cut by two halfspaces an answer.

    The walk starts at the histogram of largest entropy that agrees with the answers. It is made
    anew after each answer, from a seed that is public, so the sample is a function of seed and
    answers: a resumed session has the same one. When noise has made the answers contradict each
    other, all bands are widened by what the best fit misses.
    """

    def __init__(self, cells: int, seed: bytes) -> None:
        self._cells = cells
        self._seed = int.from_bytes(seed[:8], "little")
        self._queries = np.empty((0, cells))
        self._answers = np.empty(0)
        self._tolerance = 0.0
        self._table: Floats | None = None

    @property
    def table(self) -> Floats:
        if self._table is None:
            self._table = self._draw()
        return self._table

    def values(self, query: Floats) -> Floats:
        return self.table @ query

    def learn(self, query: Floats, answer: float, tolerance: float) -> None:
        self._queries = np.vstack([self._queries, query])
        # strictly inside (0, 1), so that some histogram with no empty cell agrees
        self._answers = np.append(self._answers, min(max(answer, tolerance / 2), 1 - tolerance / 2))
        self._tolerance = tolerance
        self._table = (
            None  # drawn when next asked for: a resumed session learns all answers and draws once
        )

    def _draw(self) -> Floats:
        cells = self._cells
        state = np.array(
            [(self._seed + len(self._answers) * 0xD1B54A32D192ED03) & (1 << 64) - 1],
            dtype=np.uint64,
        )
        point = np.full(cells, 1.0 / cells)
        miss = tilt(point, self._queries, self._answers, self._tolerance / 2, _FIT_PASSES)
        point /= point.sum()
        band = max(self._tolerance, miss * (1 + 1e-9) + 1e-12)
        flags = bool(np.isin(self._queries, (0.0, 1.0)).all())
        # single precision holds 0 and 1 exactly and fits twice as many queries in a vector register
        matrix = np.ascontiguousarray(self._queries.T, dtype=np.float32 if flags else np.float64)
        walk = walk_flags if flags else walk_shares
        table = np.empty((SAMPLES, cells))
        for sample in range(SAMPLES):
            off = self._queries @ point - self._answers
            walk(point, matrix, off, band, cells * (BURN_IN if sample == 0 else SWEEPS), state)
            table[sample] = point
        return table
