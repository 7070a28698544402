"""Counts with error bars from a thresholded histogram. The derivation is in docs/estimates.md.

Everything works on many sets of cells at once, so that a marginal table costs one pass over the
release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from dpublish.arrays import Floats
from dpublish.estimate import check_level
from dpublish.models.integer_limits import integer_rows
from dpublish.models.noisy_counts import (
    Suppression,
    laplace_cumulants,
    noise_sum_quantile,
    normal_quantile,
    spread_quantile,
)
from dpublish.releases.frames import Answers


@dataclass(frozen=True)
class Total:
    """What is known about the number of counted rows."""

    kind: Literal["public", "noisy", "unknown"]
    value: int
    scale: Fraction | None = None
    bound: int | None = None

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Total:
        total = facts["total"]
        return cls(
            kind=total["kind"],
            value=int(total.get("value") or 0),
            scale=Fraction(total["scale"]) if total.get("scale") is not None else None,
            bound=facts.get("max_total"),
        )

    @property
    def known(self) -> bool:
        return self.kind != "unknown"

    @property
    def counted(self) -> int | None:
        """The number of rows; where it is not known, one that it does not exceed; else None."""
        return self.value if self.known else self.bound

    @property
    def cumulants(self) -> tuple[float, float]:
        return (
            laplace_cumulants(self.scale)
            if self.kind == "noisy" and self.scale is not None
            else (0.0, 0.0)
        )

    @property
    def ceiling(self) -> float:
        """A number that no count exceeds for certain."""
        bounds = (self.value if self.kind == "public" else None, self.bound)
        return float(min((one for one in bounds if one is not None), default=np.inf))


@dataclass(frozen=True)
class CellSums:
    """Sums over sets of cells, one entry per set: released counts and their cumulant estimates, and
    how many cells there are."""

    counts: Floats
    released: Floats
    suppressed: Floats
    k2: Floats
    k3: Floats
    k4: Floats

    @property
    def cells(self) -> Floats:
        return self.released + self.suppressed

    def minus(self, part: CellSums) -> CellSums:
        """The sums over what is left of this set when `part` is taken out."""
        return CellSums(
            counts=self.counts - part.counts,
            released=self.released - part.released,
            suppressed=np.maximum(self.suppressed - part.suppressed, 0.0),
            k2=np.maximum(self.k2 - part.k2, 0.0),
            k3=np.maximum(self.k3 - part.k3, 0.0),
            k4=np.maximum(self.k4 - part.k4, 0.0),
        )

    def score(self, law: Suppression) -> Floats:
        """V: biased downwards only."""
        return self.counts - law.shortfall * self.suppressed


@dataclass(frozen=True)
class Question:
    """Sets of cells to estimate. `inside` holds the cells wholly in the set, `touched` also those
    cut by it; `weighted` sums the cells in proportion to how much of each is in the set. They are
    the same when no bin is cut."""

    inside: CellSums
    touched: CellSums
    weighted: CellSums


def answer(
    law: Suppression, everything: CellSums, total: Total, question: Question, level: float
) -> Answers:
    """Estimates and intervals for every set of the question."""
    alpha = 1.0 - check_level(level)
    low = _low(law, everything, total, question.inside, alpha / 2)
    high = _high(law, everything, total, question.touched, alpha / 2)
    low, high = (np.clip(end, 0.0, total.ceiling) for end in integer_rows(low, high))
    high = np.where(question.touched.cells == 0, 0.0, high)
    low = np.where(question.inside.cells == 0, 0.0, low)
    if total.kind == "public":  # the whole domain holds exactly the public total
        low = np.where(question.inside.cells >= everything.cells, float(total.value), low)
        high = np.where(question.touched.cells >= everything.cells, float(total.value), high)
    # both ends are valid on their own; when noise makes them cross, the interval shrinks to the
    # point between them
    crossed = low > high
    middle = (low + high) / 2
    low, high = np.where(crossed, middle, low), np.where(crossed, middle, high)
    value, error = _value(law, everything, total, question)
    # where nothing was released there is no noise to see, and yet the interval has a width
    half = (high - low) / (2 * normal_quantile(alpha / 2))
    error = np.where(np.isfinite(half) & (error < half / 2), half, error)
    return Answers(
        value=np.clip(value, low, high), standard_error=error, low=low, high=high, level=level
    )


def _low(
    law: Suppression, everything: CellSums, total: Total, inside: CellSums, alpha: float
) -> Floats:
    rest = everything.minus(inside)
    score = inside.score(law)
    # the second bound is looked at only where it can win: a rule on public facts, so that the
    # choice costs no confidence
    second = (rest.cells < inside.cells) if total.known else np.zeros(score.shape, dtype=bool)
    plain = inside.counts - noise_sum_quantile(alpha, inside.released, law.scale)
    one = score - spread_quantile(alpha, inside.k2, inside.k3, inside.k4)
    half = score - spread_quantile(alpha / 2, inside.k2, inside.k3, inside.k4)
    other = total.value - _cap_of(law, total, rest, alpha / 2)
    other = np.where(rest.cells == 0, total.value - _total_spread(total, alpha / 2), other)
    low = np.where(second, np.maximum(half, other), one)
    return np.where(
        inside.suppressed == 0, np.maximum(plain, np.where(rest.cells == 0, low, -np.inf)), low
    )


def _high(
    law: Suppression, everything: CellSums, total: Total, touched: CellSums, alpha: float
) -> Floats:
    rest = everything.minus(touched)
    plain = touched.counts + noise_sum_quantile(alpha, touched.released, law.scale)
    unknown = Total(kind="unknown", value=0)
    if total.counted is None:
        return np.where(touched.suppressed == 0, plain, _cap_of(law, unknown, touched, alpha))
    second, fourth = total.cumulants
    above = spread_quantile(alpha / 2, rest.k2 + second, rest.k3, rest.k4 + fourth)
    by_total = total.counted - rest.score(law) + above
    both = np.minimum(by_total, _cap_of(law, unknown, touched, alpha / 2))
    return np.where(
        touched.suppressed == 0, np.where(rest.cells == 0, np.minimum(plain, by_total), plain), both
    )


def _cap_of(law: Suppression, total: Total, cells: CellSums, alpha: float) -> Floats:
    """At least the true count of these cells (less the noise of the total): a suppressed cell's X
    is at most tau."""
    top = cells.counts + law.threshold * cells.suppressed
    if total.kind != "noisy":
        return top + noise_sum_quantile(alpha, cells.cells, law.scale)
    second, fourth = law.noise_cumulants
    extra2, extra4 = total.cumulants
    return top + spread_quantile(
        alpha, cells.cells * second + extra2, np.zeros_like(top), cells.cells * fourth + extra4
    )


def _total_spread(total: Total, alpha: float) -> float:
    if total.kind != "noisy" or total.scale is None:
        return 0.0
    return float(noise_sum_quantile(alpha, np.ones(1), total.scale)[0])


def _value(
    law: Suppression, everything: CellSums, total: Total, question: Question
) -> tuple[Floats, Floats]:
    weighted = question.weighted
    share = np.divide(
        weighted.suppressed,
        everything.suppressed,
        out=np.zeros_like(weighted.suppressed),
        where=everything.suppressed > 0,
    )
    left = np.maximum(total.value - everything.score(law), 0.0) if total.known else np.zeros(1)
    value = weighted.score(law) + left * share
    variance = weighted.k2
    if total.known:
        # what is outside the set and the total say as much about it as what is inside
        variance = np.minimum(variance, everything.minus(question.inside).k2 + total.cumulants[0])
    placed = left * np.minimum(share, 1.0 - share)
    cut = (question.touched.counts - question.inside.counts) ** 2 / 12
    return value, np.sqrt(variance + placed**2 + cut)
