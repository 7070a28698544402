"""Releases that can be made again from what they publish: people from the model, measurements with
the stated noise."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dpublish.estimate import Estimate
from dpublish.releases.aggregates import AggregatesRelease

if TYPE_CHECKING:
    import polars as pl

    from dpublish.analyse.regress import Independence, Regression


class ResampledRelease(AggregatesRelease):
    """A release that knows the law of its own measurements."""

    rows: Any

    @abc.abstractmethod
    def replicates(self, runs: int, *, seed: int | None) -> Iterator[Self]:
        """Releases of people who are drawn from this one's model, measured as this one was."""

    @abc.abstractmethod
    def sample(self, n: int | None = None, *, seed: int | None = None) -> pl.DataFrame:
        """Synthetic rows."""

    def bootstrap(
        self,
        function: Callable[[pl.DataFrame], float],
        *,
        runs: int = 200,
        level: float = 0.95,
        rows: int | None = None,
        seed: int | None = 0,
    ) -> Estimate:
        """Limits of any number that a function computes from a frame of rows: people are drawn from
        the model, the published measurements are repeated with their noise, and the function is
        asked again. Covers sampling and noise, as far as the model holds."""
        from dpublish.analyse.regress import bootstrap

        return bootstrap(self, function, runs=runs, level=level, rows=rows, seed=seed)

    def regress(
        self,
        formula: str,
        *,
        family: str = "auto",
        level: float = 0.95,
        runs: int = 200,
        seed: int | None = 0,
    ) -> Regression:
        """A linear or logistic regression such as "ill ~ age + ward", with standard errors that
        cover sampling and noise."""
        from dpublish.analyse.regress import regress

        return regress(self, formula, family=family, level=level, runs=runs, seed=seed)

    def independence(
        self, first: str, second: str, *, runs: int = 200, seed: int | None = 0
    ) -> Independence:
        """Whether two columns have to do with each other: Pearson's statistic, and how often noise
        and sampling alone would make it as large."""
        from dpublish.analyse.regress import independence

        return independence(self, first, second, runs=runs, seed=seed)


def noise_like(
    generator: np.random.Generator, law: str, variance: float, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Noise of a stated law, as whole numbers: no privacy rests on it."""
    if law == "gaussian":
        drawn = generator.normal(0.0, np.sqrt(variance), shape)
    else:
        drawn = generator.laplace(0.0, np.sqrt(variance / 2), shape)
    return np.rint(drawn)
