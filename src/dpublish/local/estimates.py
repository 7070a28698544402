"""What reports say about everybody: unbiased estimates with error bars, and a consistent version of
them.

The error bars speak of the people who answered: the true numbers are fixed and the coins are
random. An interval is a score interval: it holds every number for which the sum that was seen would
not be surprising, moved out to whole numbers of people. With few reports, many levels or a large
epsilon the normal law behind it is rough, and whole numbers make up for most of that: the tests
work out that a 95% interval holds 93% of the time or more from 60 people on, at any epsilon (80%
without them).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from dpublish.arrays import Floats
from dpublish.errors import QueryError
from dpublish.estimate import Estimate, Measure, check_level
from dpublish.models.integer_limits import integer_rows


@dataclass(frozen=True)
class Frequencies:
    """How many of `people` hold each level. `counts` are unbiased and may be negative; `consistent`
    are not, and add up."""

    levels: tuple[str, ...]
    people: int
    counts: Floats
    standard_errors: Floats
    low: Floats
    high: Floats
    level: float
    epsilon: Fraction

    @property
    def shares(self) -> Floats:
        """`counts` as shares of all people."""
        return self.counts / self.people

    def consistent(self) -> Floats:
        """The nearest counts (least squares) that are not negative and add up to the number of
        people."""
        return onto_simplex(self.counts, float(self.people))

    def of(self, level: str) -> Estimate:
        try:
            place = self.levels.index(level)
        except ValueError:
            raise QueryError(f"'{level}' is not a level of this question.") from None
        return self._at(place)

    def top(self, most: int) -> list[tuple[str, Estimate]]:
        """The `most` levels with the largest estimates, largest first. They are chosen after
        looking at all."""
        order = np.argsort(-self.counts, kind="stable")[:most]
        return [(self.levels[i], self._at(int(i))) for i in order]

    def to_json(self) -> dict[str, Any]:
        return {
            "people": self.people,
            "epsilon": str(self.epsilon),
            "confidence": self.level,
            "levels": [
                {
                    "level": name,
                    "count": float(self.counts[place]),
                    "standard_error": float(self.standard_errors[place]),
                    "low": float(self.low[place]),
                    "high": float(self.high[place]),
                    "consistent": float(consistent),
                }
                for place, (name, consistent) in enumerate(
                    zip(self.levels, self.consistent(), strict=True)
                )
            ],
        }

    def _at(self, place: int) -> Estimate:
        return Estimate(
            value=float(self.counts[place]),
            standard_error=float(self.standard_errors[place]),
            low=float(self.low[place]),
            high=float(self.high[place]),
            level=self.level,
        )


@dataclass(frozen=True)
class Sums:
    """Sums of one term a person: a holder of the level adds `gain` on average, everybody else adds
    0.

    `spread` is the variance of the sum if nobody held the level; each holder changes it by
    `holder_spread`.
    """

    sums: Floats
    gain: float
    spread: Floats
    holder_spread: float


def frequencies(
    seen: Sums,
    *,
    levels: tuple[str, ...],
    people: int,
    epsilon: Fraction,
    level: float,
    together: bool,
) -> Frequencies:
    """Estimates and intervals from the sums. `together`: all intervals hold at once (Bonferroni),
    not each on its own."""
    z = normal_quantile(level, parts=len(levels) if together else 1)
    counts = seen.sums / seen.gain
    held = np.clip(counts, 0.0, people)
    variance = np.maximum(seen.spread + held * seen.holder_spread, 0.0)
    low, high = integer_rows(*_score_interval(seen, counts, z))
    return Frequencies(
        levels=levels,
        people=people,
        counts=counts,
        standard_errors=np.sqrt(variance) / seen.gain,
        low=np.clip(low, 0.0, people),
        high=np.clip(high, 0.0, people),
        level=level,
        epsilon=epsilon,
    )


def indicator_sums(hits: Floats, people: int, holder: Fraction, stranger: Fraction) -> Sums:
    """Sums of yes-or-no terms: a holder says yes with probability `holder`, everybody else with
    probability `stranger`."""
    yes, no = float(holder * (1 - holder)), float(stranger * (1 - stranger))
    return Sums(
        sums=hits - people * float(stranger),
        gain=float(holder - stranger),
        spread=np.full(hits.shape, people * no),
        holder_spread=yes - no,
    )


def _score_interval(seen: Sums, counts: Floats, z: float) -> tuple[Floats, Floats]:
    """All m with (sum - m gain)^2 <= z^2 (spread + m holder_spread): the roots of a quadratic in
    m."""
    square = seen.gain**2
    middle = counts + z * z * seen.holder_spread / (2 * square)
    inside = middle**2 - counts**2 + z * z * seen.spread / square
    half = np.sqrt(np.maximum(inside, 0.0))
    return middle - half, middle + half


def normal_quantile(level: float, *, parts: int = 1) -> float:
    """Half-width in standard errors of a two-sided interval, of which `parts` hold together."""
    check_level(level)
    return -NormalDist().inv_cdf((1.0 - level) / (2 * parts))


def estimate_of(
    value: float,
    variance: float,
    level: float,
    *,
    measure: Measure,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """A plain normal interval, cut to the range that the true number is in for certain."""
    error = math.sqrt(variance)
    reach = normal_quantile(level) * error
    low, high = (min(max(value + step, within[0]), within[1]) for step in (-reach, reach))
    return Estimate(value, error, low, high, level, measure)


def onto_simplex(values: Floats, total: float) -> Floats:
    """The nearest vector (least squares) that is not negative and sums to `total` > 0: subtract a
    constant, cut at 0."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, values.size + 1)
    last = int(np.flatnonzero(falling > excess)[-1])
    nearest: Floats = np.maximum(values - excess[last], 0.0)
    return nearest
