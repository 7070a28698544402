"""Limits for whatever can be computed from a release.

People are drawn from the model that the release publishes, the published measurements are made of
them again with the noise that the release states, and what can be read from the new release is
compared with what was read from the first. The spread covers both that the rows are a sample of a
population and that noise was added. It rests on the model: what columns that were not counted
together have to do with each other is the model's guess, in every run the same, and the spread
cannot show how wrong it is. A warning says where that matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import QueryError
from dpublish.estimate import Estimate, check_level
from dpublish.models.thresholded_counts import normal_quantile

if TYPE_CHECKING:
    import polars as pl

    from dpublish.releases.resampled import ResampledRelease

Floats = NDArray[np.float64]

COVERS = (
    "from {runs} runs that draw people from the release's model and repeat its noise: covers "
    "sampling and noise, as far as the model holds"
)
MAX_RUNS = 10_000


@dataclass(frozen=True)
class Spread:
    """What a statistic is, and what it was in every run."""

    value: Floats
    runs: Floats

    @property
    def error(self) -> Floats:
        return np.asarray(self.runs.std(axis=0, ddof=1))

    @property
    def bias(self) -> Floats:
        """How far reading a release of the model misses the model, on average."""
        return np.asarray(self.runs.mean(axis=0) - self.value)

    @property
    def distance_from_none(self) -> Floats:
        """How far the value is from 0 once its bias has been allowed for as the limits allow for
        it, so that a test at 5% and a 95% interval say the same."""
        middle = self.value - self.bias
        return np.asarray(np.sign(middle) * np.maximum(0.0, np.abs(middle) - np.abs(self.bias)))

    def limits(self, level: float) -> tuple[Floats, Floats]:
        """A normal interval around the value without its bias, wider by the bias itself, which is
        known for the model and not for the truth."""
        reach = normal_quantile((1 - level) / 2) * self.error + np.abs(self.bias)
        middle = self.value - self.bias
        return middle - reach, middle + reach


def spread_of(
    release: ResampledRelease,
    statistic: Callable[[Any], Floats],
    *,
    runs: int,
    seed: int | None,
) -> Spread:
    """A statistic of releases, of this one and of `runs` that are made like it."""
    if isinstance(runs, bool) or not isinstance(runs, Integral) or not 20 <= runs <= MAX_RUNS:
        raise QueryError(f"runs must be a whole number from 20 to {MAX_RUNS}, not {runs!r}.")
    value = _numbers(statistic(release))
    found = []
    for other in release.replicates(int(runs), seed=seed):
        one = _numbers(statistic(other))
        if one.shape != value.shape:
            raise QueryError("The function must give as many numbers in every run.")
        found.append(one)
    return Spread(value, np.stack(found))


def bootstrap(
    release: ResampledRelease,
    function: Callable[[pl.DataFrame], float],
    *,
    runs: int,
    level: float,
    rows: int | None,
    seed: int | None,
) -> Estimate:
    """Limits of a number that is computed from rows."""
    check_level(level)
    number = max(1_000, int(release.rows)) if rows is None else rows

    def statistic(one: Any) -> Floats:
        return np.array([_number(function(one.sample(number, seed=0)))])

    found = spread_of(release, statistic, runs=runs, seed=seed)
    low, high = found.limits(level)
    return Estimate(
        float(found.value[0]),
        float(found.error[0]),
        min(float(low[0]), float(found.value[0])),
        max(float(high[0]), float(found.value[0])),
        float(level),
        measure="statistic",
        note=COVERS.format(runs=runs),
        details={"bias": float(found.bias[0])},
    )


def _number(value: Any) -> float:
    if isinstance(value, Mapping) or not isinstance(value, Real | np.generic):
        raise QueryError(
            f"The function must return one number of a frame of rows, not {type(value).__name__}."
        )
    return float(value)


def _numbers(values: Floats) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    if not np.isfinite(found).all():
        raise QueryError("The function gave a number that is not finite.")
    return found
