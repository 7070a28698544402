"""Sums, means and bounds that are wrong. Rows are numbers; the declared bounds are 0 and 10 unless
said otherwise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from .registry import ONE, bug, exactly, replayed, whole

UPPER = 10
VALUES = [((3, 5), (3,)), ((3, 50), (3,)), ((1, 2, 3), (1, 2))]


def clipped(rows):
    return [min(max(row, 0), UPPER) for row in rows]


def sum_clipped(noise, rows):
    return int(
        noise.laplace(whole([sum(clipped(rows))]), sensitivity=Fraction(UPPER), epsilon=ONE)[0]
    )


def clipped_but_unused(noise, rows):
    inside = clipped(rows)
    assert all(row <= UPPER for row in inside)
    return int(noise.laplace(whole([sum(rows)]), sensitivity=Fraction(UPPER), epsilon=ONE)[0])


def bounds_from_data(noise, rows):
    low, high = min(rows), max(rows)
    inside = [min(max(row, low), high) for row in rows]
    return int(
        noise.laplace(whole([sum(inside)]), sensitivity=Fraction(max(1, high)), epsilon=ONE)[0]
    )


def overflowing(noise, rows):
    total = np.sum(np.array(rows, dtype=np.int32), dtype=np.int32)
    return int(
        noise.laplace(np.array([total], dtype=np.int64), sensitivity=Fraction(2**30), epsilon=ONE)[
            0
        ]
    )


def wide_sum(noise, rows):
    return int(noise.laplace(whole([sum(rows)]), sensitivity=Fraction(2**30), epsilon=ONE)[0])


BIG = [((2**30, 2**30 - 1), (2**30, 2**30 - 1, 2**30))]
GAPS = [((15.0, 20.0), (15.0, math.nan)), ((12.0, 12.0), (12.0, 18.0))]


def nan_becomes_zero(noise, rows):
    """Declared bounds 10 and 20: sensitivity 10 when a row is replaced, unless a missing value
    counts as 0."""
    total = int(np.nansum(np.array(rows)))
    return int(noise.laplace(whole([total]), sensitivity=Fraction(10), epsilon=ONE)[0])


def nan_reaches_noise(noise, rows):
    return noise.laplace(np.array([np.sum(rows)]), sensitivity=Fraction(10), epsilon=ONE).tolist()


def nan_cast_to_integer(noise, rows):
    with np.errstate(invalid="ignore"):
        total = np.array([np.sum(rows)]).astype(np.int64)
    return noise.laplace(total, sensitivity=Fraction(10), epsilon=ONE).tolist()


def nan_becomes_lower(noise, rows):
    total = sum(10 if math.isnan(row) else int(min(max(row, 10), 20)) for row in rows)
    return noise.laplace(whole([total]), sensitivity=Fraction(10), epsilon=ONE).tolist()


def mean_over_true_n(noise, rows):
    total = int(
        noise.laplace(whole([sum(clipped(rows))]), sensitivity=Fraction(UPPER), epsilon=ONE)[0]
    )
    return Fraction(total, len(rows))


def mean_over_nominal_n(noise, rows):
    return Fraction(sum_clipped(noise, rows), 3)


def consistent_with_truth(noise, rows):
    """Post-processing that reads the truth again: a noisy sum is never let above what the rows
    could give."""
    return min(sum_clipped(noise, rows), UPPER * len(rows))


def consistent_with_bound(noise, rows):
    return max(0, sum_clipped(noise, rows))


def order_dependent(noise, rows):
    """Early stop: rows after the first large one are ignored, so one row moves the sum by all that
    follow."""
    total = 0
    for row in rows:
        if row >= 3:
            break
        total += row
    return int(noise.laplace(whole([total]), sensitivity=ONE, epsilon=ONE)[0])


def small_rows_only(noise, rows):
    return int(
        noise.laplace(whole([sum(row for row in rows if row < 2)]), sensitivity=ONE, epsilon=ONE)[0]
    )


SUMS = (
    bug(
        "clipping computed, unclipped values used",
        "replay",
        "distance",
        broken=clipped_but_unused,
        correct=sum_clipped,
        run=replayed(VALUES, epsilon=ONE),
    ),
    bug(
        "bounds from the data",
        "replay",
        "sensitivity",
        broken=bounds_from_data,
        correct=sum_clipped,
        run=replayed(VALUES),
    ),
    bug(
        "int32 overflow in a sum",
        "replay",
        "distance",
        broken=overflowing,
        correct=wide_sum,
        run=replayed(BIG),
    ),
    bug(
        "NaN becomes 0",
        "replay",
        "distance",
        broken=nan_becomes_zero,
        correct=nan_becomes_lower,
        run=replayed(GAPS),
    ),
    bug(
        "NaN reaches the noise",
        "replay",
        "tap",
        broken=nan_reaches_noise,
        correct=nan_becomes_lower,
        run=replayed(GAPS),
    ),
    bug(
        "NaN cast to an integer",
        "replay",
        "distance",
        broken=nan_cast_to_integer,
        correct=nan_becomes_lower,
        run=replayed(GAPS),
    ),
    bug(
        "mean over the true n",
        "replay",
        "output",
        broken=mean_over_true_n,
        correct=mean_over_nominal_n,
        run=replayed(VALUES),
    ),
    bug(
        "post-processing reads the truth",
        "replay",
        "output",
        broken=consistent_with_truth,
        correct=consistent_with_bound,
        run=replayed(VALUES, runs=8),
    ),
    bug(
        "sum that depends on row order",
        "exact",
        "privacy",
        broken=order_dependent,
        correct=small_rows_only,
        run=exactly([((1, 1, 1), (3, 1, 1, 1)), ((1, 1), (1, 1, 1))]),
    ),
)
