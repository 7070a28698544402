"""Private multiplicative weights (Hardt and Rothblum 2010): adaptive online queries against one
synthetic histogram.

In: exact counts of all cells (private), queries one at a time. Out: for each query a label and an
answer. A query that the histogram answers well is easy and is answered from it; a hard one gets a
Laplace answer, and the histogram is reweighted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.declare.schema import Schema
from dpublish.methods.online.base import OnlineMechanism
from dpublish.methods.online.joined import first_weights
from dpublish.methods.online.kernels import reweight, tilt
from dpublish.methods.online.state import OnlineSettings, OnlineState, Query, Reply
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

PASSES = 20
"""How often all past hard answers are gone through after each new one."""


def judge(state: WeightsState, noise: Noise, counts: Ints, threshold: int, query: Query) -> Reply:
    """One query: the histogram's guess if it is near enough, a Laplace answer otherwise."""
    guess = state.guess(query)
    true = state.true_value(counts, query)
    if state.settings.vector.reaches(noise, abs(true - guess), threshold):
        return state.hard_reply(noise, true)
    return state.guess_reply(guess)


@dataclass(frozen=True, kw_only=True)
class OnlineMultiplicativeWeights(OnlineMechanism):
    """Adaptive online queries, answered from one public histogram that learns from the hard
    answers.

    Input: exact counts of all cells. Neighbours: replace-one or add-remove-one, of a unit with at
    most c rows.
    Output: for each query "easy" or "hard" and a number; at most `max_hard` hard ones, then the
    session ends.
    Privacy: epsilon-DP for the whole session, however many easy queries (theorem 1 of
    multiplicative_weights.proof.md).
    Relies on: `Noise.laplace` being exact; the noisy threshold staying secret and fixed; the
    histogram made from answers.
    Shows / hides: answers near the truth for queries like those asked before; hides whether any one
    unit is in the data.
    Accuracy: every answer comes with an interval that holds the truth with probability `level`; an
    easy one within `accuracy`.

    Parameters
    ----------
    columns, bins, accuracy, max_hard, max_queries, level, answer_share, count_share, resolution :
        see `MedianMechanism`.
    synopsis_share : share of epsilon that buys a synopsis; see `MedianMechanism`. Of joined
        histograms half when left out.
    synopsis : "histogram" (all cells), or "joined" (joined histograms of the columns, for large
        domains); by default whichever the domain asks for.

    Examples
    --------
    >>> OnlineMultiplicativeWeights(accuracy=0.05, max_hard=50).level
    0.95
    """

    method: ClassVar[str] = "online-multiplicative-weights"
    max_cells: ClassVar[int] = 1 << 18
    takes_joined: ClassVar[bool] = True

    def plan(self, schema: Schema, cost: Cost) -> Plan[OnlineSettings]:
        settings = self.common_settings(schema, cost)
        if settings.all_easy:
            return self.synopsis_plan(schema, cost, settings, self.parameters(settings.domain))
        rows = settings.rows
        reach, quiet = self.margins(settings)
        wanted = self.promised_accuracy(
            rows,
            Fraction(math.ceil((reach + quiet) / rows * 1000), 1000),
            enough=(reach + quiet) / 0.2,
            hard=settings.max_hard,
        )
        threshold = math.floor((wanted * rows - Fraction(reach)) * self.resolution)
        if threshold < 1:
            raise self.out_of_reach(wanted, (reach + 1) / rows, settings.max_hard)
        warnings = []
        if threshold / self.resolution < quiet:
            warnings.append(
                f"At this accuracy some queries will be called hard by noise alone; for "
                f"{self.max_queries:,} queries leave "
                "accuracy out or raise it."
            )
        settings = replace(
            settings,
            accuracy=float(wanted),
            threshold=threshold,
            check_sensitivity=settings.max_rows_per_unit * self.resolution,
        )
        source = "one histogram"
        if settings.support is not None:
            source = (
                f"{settings.support:,} synthetic rows of joined histograms, which "
                f"{float((settings.synopsis_epsilon or 0) / cost.epsilon):.3g} of the cost buys "
                "and hard answers reweight"
            )
            warnings.append(
                "joined-histograms, released at this cost, answer any number of questions, and "
                "were nearer on average wherever both were tried: take a session for what it "
                "promises about every single answer."
            )
        sentences = [
            *self.common_sentences(schema, cost, settings),
            f"An easy answer comes from {source}; it is within {float(wanted * rows):,.4g} "
            f"rows "
            f"({float(wanted):.3g} of all) with probability {self.level:g}.",
            *self.theory_sentences(schema, cost, settings),
        ]
        return Plan(
            method=self.method,
            kind="online",
            schema=schema,
            cost=cost,
            parameters=self.parameters(settings.domain),
            settings=settings,
            sentences=tuple(sentences),
            warnings=tuple(warnings),
        )

    def state(self, settings: OnlineSettings, public: Mapping[str, Any]) -> WeightsState:
        return WeightsState(settings, public)


class WeightsState(OnlineState[OnlineSettings]):
    """The public histogram and the hard answers it was fitted to."""

    def __init__(self, settings: OnlineSettings, public: Mapping[str, Any]) -> None:
        super().__init__(settings, public)
        cells = settings.support or settings.domain.size
        self._queries = np.empty((0, cells))
        self._answers = np.empty(0)
        self._fitted = np.full(cells, 1.0 / cells)
        if self.codes is not None:
            self._fitted = first_weights(cells)
        elif self.synopsis is not None:
            # hard answers correct what the noisy histogram says
            likely = np.maximum(self.synopsis.counts, 0.5)
            self._fitted = likely / likely.sum()
        self._learnt = 0

    @property
    def histogram(self) -> Floats:
        """The histogram after all answers so far; answers are taken in one by one, so that a
        resumed session has the same."""
        while self._learnt < len(self._answers):
            self._learnt += 1
            asked, answers = self._queries[: self._learnt], self._answers[: self._learnt]
            if self.codes is None:
                reweight(self._fitted, asked, answers, PASSES)
            else:
                # predicates are met in one step each; noise may make them contradict each other
                tilt(self._fitted, asked, answers, 1 / self.rows, PASSES)
                self._fitted /= self._fitted.sum()
        return self._fitted

    def judge(self, noise: Noise, counts: Ints, threshold: int, query: Query) -> Reply:
        return judge(self, noise, counts, threshold, query)

    def guess(self, query: Query) -> int:
        """The query on the public histogram, in units of 1 / resolution."""
        return round(float(self.histogram @ self.shares(query)) * self.rows * self.resolution)

    def guess_reply(self, guess: int) -> Reply:
        tail = math.log(1 / (1 - self.level))
        slack = sum(float(part) for part in self.settings.vector.scales) * tail
        reach = (self.settings.threshold + slack) / self.resolution
        value = guess / self.resolution
        return self.easy_reply(value, value - reach, value + reach)

    def _take(self, query: Query, noisy: int) -> None:
        least = 0.0 if self.codes is None else 0.5 / self.rows  # no row is ruled out for good
        answer = min(max(noisy / self.resolution / self.rows, least), 1.0 - least)
        self._queries = np.vstack([self._queries, self.shares(query)])
        self._answers = np.append(self._answers, answer)
