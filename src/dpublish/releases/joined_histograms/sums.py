"""Sums over the cells of one column, or of columns that were counted together, with a lower limit:
linear in counts that have no bias and a known noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpublish.arrays import Floats
from dpublish.models.integer_limits import half_width
from dpublish.releases.joined_histograms.intervals import Intervals


@dataclass(frozen=True)
class TableSums:
    """`counts` by group of levels and label; `gathered` brings amounts of single levels to them, as
    the least of each group; `variance` is that of a sum of amounts times noise."""

    counts: Floats
    gathered: Callable[[Floats], Floats]
    variance: Callable[[Floats], float]
    estimates: Floats
    noise: str
    independent: bool

    def value(self, amounts: Floats) -> float:
        return float((amounts * self.estimates).sum())

    def sure(self, amounts: Floats) -> float:
        return float((self.gathered(amounts) * self.counts).sum())

    def low(self, amounts: Floats, alpha: float) -> float:
        each = self.gathered(amounts)
        width = float(half_width(self.variance(each), alpha, self.noise))
        # noise is drawn in whole numbers
        return float((each * self.counts).sum()) - width - 0.5 * float(np.abs(each).max(initial=0))


def table_sums(
    intervals: Intervals, places: tuple[int, ...], estimates: Floats
) -> TableSums | None:
    """Sums over the cells of some columns, in the order of the domain; None where they were not
    counted together."""
    target, noise = intervals.target, intervals.noise
    features = [place for place in places if place != target]

    def arranged(amounts: Floats) -> Floats:
        """Labels last; one place for all of them where the question does not name them."""
        if target in places:
            return np.moveaxis(amounts, places.index(target), -1)
        return amounts[..., None]

    if not features:
        value, covariance = intervals.label_counts()
        spread = covariance if target in places else covariance.sum()[None, None]
        return TableSums(
            np.asarray(value if target in places else value.sum()),
            np.asarray,
            lambda one: max(0.0, float(one.ravel() @ spread @ one.ravel())),
            estimates,
            noise,
            independent=not np.any(covariance - np.diag(np.diag(covariance))),
        )
    if len(features) == 1:
        found = intervals.combined(features[0], by_label=target in places)
        return TableSums(
            found.value,
            arranged,
            found.variance,
            estimates,
            noise,
            not found.groups and found.corrections is None,
        )
    table = intervals.table_of(features, by_label=target in places)
    if table is None:
        return None

    def least(amounts: Floats) -> Floats:
        found = arranged(amounts)
        for axis, group_of in enumerate(table.groups):
            size = table.counts.shape[axis]
            some = np.full((*found.shape[:axis], size, *found.shape[axis + 1 :]), np.inf)
            np.minimum.at(np.moveaxis(some, axis, 0), group_of, np.moveaxis(found, axis, 0))
            found = some
        return found

    # no level was counted with another
    single = tuple(len(group_of) for group_of in table.groups) == table.counts.shape[:-1]
    return TableSums(
        table.counts,
        least,
        lambda one: table.variance * float((one**2).sum()),
        estimates,
        noise,
        independent=single,
    )
