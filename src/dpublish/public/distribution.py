"""Error bars of distribution functions and quantiles of an interval tree, from those of its ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpublish.public.estimation import check_level
from dpublish.public.grid import Floats

if TYPE_CHECKING:
    from dpublish.public.releases.interval_tree import IntervalTreeRelease


def share_limits(release: IntervalTreeRelease, places: Floats, level: float, *, closed: bool = False) -> tuple[Floats, Floats]:
    """Limits of the share of rows below places of the grid: each limit of a count over the opposite one of the total.

    `closed`: rows exactly at a place count too, where that differs (real columns).

    Count and total may each miss with half of 1 - level, so both hold with `level` at least, however they go together.
    """
    inner = 1 - (1 - check_level(level)) / 2
    ends = np.asarray(places, dtype=np.float64).reshape(-1, 1)
    below = release.answer(np.zeros_like(ends), ends, inner, closed=closed)
    whole = release.answer(np.zeros((1, 1)), np.full((1, 1), float(release.shape.grids[0].positions)), inner)
    low = below.low / max(float(whole.high[0]), 1.0)
    high = np.where(whole.low[0] > 0, below.high / max(float(whole.low[0]), 1.0), 1.0)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def cdf_frame(release: IntervalTreeRelease, values: Floats, places: Floats, shares: Floats, level: float) -> pl.DataFrame:
    """One row a value: the share of rows at or below it, with limits."""
    low, high = share_limits(release, places, level, closed=True)
    return pl.DataFrame({"value": values, "share": shares, "low": np.minimum(low, shares), "high": np.maximum(high, shares)})


def quantile_places(release: IntervalTreeRelease, edges: Floats, share: float, level: float) -> tuple[float, float]:
    """Places of the grid between which a quantile lies: where the share is not excluded, and a box more each side."""
    low, high = share_limits(release, edges, level)
    possible = np.flatnonzero((low <= share) & (share <= high))
    if not possible.size:
        nearest = int(np.argmin(np.maximum(low - share, share - high)))
        possible = np.array([nearest])
    return float(edges[max(0, int(possible[0]) - 1)]), float(edges[min(edges.size - 1, int(possible[-1]) + 1)])
