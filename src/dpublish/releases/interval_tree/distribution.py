"""Error bars of distribution functions and quantiles of an interval tree, from those of its
ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpublish.declare.grid import Floats
from dpublish.estimate import check_level

if TYPE_CHECKING:
    from dpublish.releases.interval_tree.release import IntervalTreeRelease


def share_limits(
    release: IntervalTreeRelease, places: Floats, level: float, *, closed: bool = False
) -> tuple[Floats, Floats]:
    """Limits of the share of rows below places of the grid: each limit of a count over the opposite
    one of the total.

    `closed`: rows exactly at a place count too, where that differs (real columns).

    Count and total may each miss with half of 1 - level, so both hold with `level` at least,
    however they go together.
    """
    inner = 1 - (1 - check_level(level)) / 2
    ends = np.asarray(places, dtype=np.float64).reshape(-1, 1)
    below = release.answer(np.zeros_like(ends), ends, inner, closed=closed)
    whole = release.answer(
        np.zeros((1, 1)), np.full((1, 1), float(release.shape.grids[0].positions)), inner
    )
    low = below.low / max(float(whole.high[0]), 1.0)
    high = np.where(whole.low[0] > 0, below.high / max(float(whole.low[0]), 1.0), 1.0)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def cdf_frame(
    release: IntervalTreeRelease, values: Floats, places: Floats, shares: Floats, level: float
) -> pl.DataFrame:
    """One row a value: the share of rows at or below it, with limits."""
    low, high = share_limits(release, places, level, closed=True)
    return pl.DataFrame(
        {
            "value": values,
            "share": shares,
            "low": np.minimum(low, shares),
            "high": np.maximum(high, shares),
        }
    )


def quantile_places(
    release: IntervalTreeRelease, edges: Floats, share: float, level: float
) -> tuple[float, float]:
    """Places of the grid between which a quantile lies: an edge before the first, and after the
    last, that it may lie at.

    The quantile lies in one box. The share of rows below the box is less than `share`, and the
    share below its end is not: the limits of these two edges, if they hold, do not exclude them.
    Where rows heap, the share may jump past `share` within the box, and then no edge has limits
    around it.
    """
    low, high = share_limits(release, edges, level)
    last = edges.size - 1
    reached, missed = np.flatnonzero(high >= share), np.flatnonzero(low <= share)
    first = int(reached[0]) if reached.size else last
    return float(edges[max(0, first - 1)]), float(edges[min(last, int(missed[-1]) + 1)])
