"""What releases share that consist of weighted cells of a domain: training, and pictures of counts
by column."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from dpublish.declare.domain import Domain
from dpublish.releases.aggregates import AggregatesRelease
from dpublish.releases.frames import Codes, Weights
from dpublish.releases.naming import named_target

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class CellsRelease(AggregatesRelease):
    """Cells of `domain` with counts or weights."""

    domain: Domain

    @abc.abstractmethod
    def weighted_codes(self, columns: Sequence[str]) -> tuple[list[Codes], Weights]:
        """The codes of the cells along some columns, and how many rows each stands for."""

    @abc.abstractmethod
    def marginal(self, *columns: str, level: float = 0.95) -> pl.DataFrame:
        """Counts of every combination of codes of the named columns: labels, count, standard_error,
        low, high."""

    @property
    def target(self) -> str | None:
        """The column that the release was made to predict, or else the schema's, when the release
        has it."""
        return named_target(self.manifest, self.domain)

    def fit(
        self, estimator: Any, *, target: str | None = None, features: Sequence[str] | None = None
    ) -> Any:
        """Train a scikit-learn estimator on the weighted cells. The fitted pipeline takes raw
        rows."""
        from dpublish.analyse.learn import fit_pipeline

        return fit_pipeline(self, estimator, target=target, features=features)

    def plot(self, *columns: str, level: float = 0.95, top: int = 25) -> Figure:
        """A bar chart with error bars for one column, a heat map for two."""
        from dpublish.present.figures import plot_marginal

        return plot_marginal(self, columns, level=level, top=top)
