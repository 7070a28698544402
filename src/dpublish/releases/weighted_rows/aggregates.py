"""Counts, sums, ratios and quantiles of private rows from weighted public rows, with limits.

Weights say shares and means. How many rows they are shares of is public, or was counted with noise,
and then both have to hold at once: each gets half of the error probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.errors import QueryError
from dpublish.estimate import Basis, Estimate, check_level, plain
from dpublish.models.noisy_counts import normal_quantile
from dpublish.releases.weighted_rows.intervals import Limits, code_ranges

if TYPE_CHECKING:
    from dpublish.releases.weighted_rows.release import WeightedRowsRelease


# What the interval of a weighted mean rests on, in words, and what to be careful about.

FEW_ROWS = 100

NOTES: dict[Basis, str] = {
    "counted": "counted: the interval covers the noise and the sampling",
    "bounds": (
        "not counted as such: the limits hold whatever private rows are like beyond what was "
        "counted, and are wide where the "
        "release cannot tell"
    ),
    "assumed": (
        "not an interval that is known to hold: it takes private rows to be like public rows with "
        "the same counted values, and "
        "the release cannot tell whether they are"
    ),
}
LOGISTIC = (
    "not an interval that is known to hold: it takes the logistic model of the weights to be "
    "right, and the release cannot "
    "tell whether it is"
)
UNSEEN = (
    "; no public row has it, so the weights say nothing, and the value is the middle of the limits"
)


def note_of(basis: Basis, variant: str, model: tuple[float, float] | None = None) -> str:
    """What an interval rests on; for bounds also what the public rows would make of it."""
    if basis == "assumed" and variant != "moments":
        return LOGISTIC
    if basis != "bounds" or model is None:
        return NOTES[basis]
    return (
        f"{NOTES[basis]}; {plain(model[0])} to {plain(model[1])} if private rows are like public "
        "rows with the same counted values"
    )


def careful(found: Estimate, by_weights: float, counted: Limits | None) -> tuple[str, ...]:
    """What should make a reader careful: theorem 3 of the paper, what the weights say tends to
    their model, and the truth only as far as that holds. `by_weights` is what they say."""
    explained, shrinkage, rows = (
        float(found.details[name]) for name in ("explained", "shrinkage", "effective_rows")
    )
    lines = []
    if found.basis == "assumed":
        lines.append(f"This is {found.note}.")
        if math.isfinite(explained):
            lines.append(
                "The columns that the weights were fitted on explain "
                f"{explained:.0%} of its variation over the public rows."
            )
    slack = 1e-12 * abs(by_weights)
    if counted is not None and (
        by_weights < counted.low - slack or by_weights > counted.high + slack
    ):
        lines.append(
            f"The weights say {plain(by_weights)} and do not reproduce what was counted here, "
            f"{plain(counted.low)} to {plain(counted.high)}, which the value is taken from: it may "
            "be rare among the public rows, or weights were cut or held back."
        )
    if abs(shrinkage) > max(found.standard_error, 1e-12):
        lines.append(
            f"Regularization pulls this estimate towards the unweighted public rows, by about "
            f"{abs(shrinkage):.2g}: more "
            "than its standard error."
        )
    if rows < FEW_ROWS:
        lines.append(f"It rests on few rows: they are worth {rows:,.0f}.")
    return tuple(lines)


MAX_STEPS = 100
"""Values of a column that was not weighted at which its quantiles may lie."""
NOMINAL = "; of {rows:,.0f} rows, a number that the schema names and nothing counted"
IN_BIN = "; a quantile lies anywhere in its bin"
NO_ROWS = "there may be no row to compare with"


@dataclass(frozen=True)
class Rows:
    """How many private rows there are, and the level at which shares of them are asked for so that
    both hold."""

    value: float
    low: float
    high: float
    level: float
    note: str = ""

    def error(self, share: float, error: float) -> float:
        """The standard error of a number of rows that is a share with a standard error of them."""
        return math.hypot(error * self.value, share * _error_of(self.low, self.high, self.level))

    def of(self, share: float, low: float, high: float) -> tuple[float, float, float]:
        """Value, low and high of a number of rows that is a share of them."""
        least, most = low * self.low, high * self.high
        return min(max(share * self.value, least), most), least, most


def rows_of(release: WeightedRowsRelease, level: float) -> Rows:
    """The number of private rows for limits at this level."""
    rows = release.private_rows
    if release.limits is None:
        note = NOMINAL.format(rows=rows) if release.public_total is None else ""
        return Rows(rows, rows, rows, level, note)
    each = 1 - (1 - level) / 2
    low, high = release.limits.rows_range(each)
    return Rows(min(max(rows, low), high), low, high, level if low == high else each)


def count_of(release: WeightedRowsRelease, condition: str | None, level: float) -> Estimate:
    """How many private rows meet a condition; without one, how many there are."""
    if condition is None:
        return _all_rows(release, level)
    rows = rows_of(release, check_level(level))
    one = release.estimate(condition, level=rows.level)
    if one.measure != "share":
        raise QueryError(f"'{condition}' is not a condition.")
    value, low, high = rows.of(one.value, one.low, one.high)
    return replace(
        one,
        value=value,
        standard_error=rows.error(one.value, one.standard_error),
        low=low,
        high=high,
        level=float(level),
        measure="count",
        note=one.note + rows.note,
    )


def _all_rows(release: WeightedRowsRelease, level: float) -> Estimate:
    rows = float(release.private_rows)
    low, high = rows, rows
    if release.limits is not None:
        low, high = release.limits.rows_range(check_level(level))
    elif release.public_total is None:
        raise QueryError(
            f"the release speaks of {rows:,.0f} rows, and does not say how far off that may be"
        )
    return Estimate(
        min(max(rows, low), high),
        _error_of(low, high, level),
        low,
        high,
        float(level),
        "count",
        "counted",
        NOTES["counted"],
    )


def sum_of(release: WeightedRowsRelease, of: str, where: str | None, level: float) -> Estimate:
    """The sum of an expression (of a condition: how many rows meet it) over the rows that meet
    another."""
    if release.measure_of(of) == "share":
        return count_of(release, of if where is None else f"({of}) and ({where})", level)
    # both have to hold: how many rows there are, and their mean
    each = 1 - (1 - check_level(level)) / 2
    mean = release.estimate(of, where=where, level=each)
    present = f"({of}) is not null"
    number = count_of(release, present if where is None else f"({where}) and {present}", each)
    ends = [a * b for a in (mean.low, mean.high) for b in (number.low, number.high)]
    value, error = mean.value * number.value, mean.standard_error * number.value
    worst = _least_sure([mean, number])
    return replace(
        mean,
        value=value,
        standard_error=math.hypot(error, mean.value * number.standard_error),
        low=min(*ends, value),
        high=max(*ends, value),
        level=float(level),
        measure="sum",
        basis=worst.basis,
        note=worst.note,
        details={},
    )


def ratio_of(release: WeightedRowsRelease, of: str, to: str, level: float) -> Estimate:
    """How many rows meet one condition for each row that meets another."""
    each = 1 - (1 - check_level(level)) / 2
    one, other = (release.share(text, level=each) for text in (of, to))
    low = one.low / other.high if other.high > 0 else 0.0
    high = one.high / other.low if other.low > 0 else math.inf
    value = one.value / other.value if other.value > 0 else low
    worst = _least_sure([one, other])
    return Estimate(
        min(max(value, low), high),
        _error_of(low, high, level),
        low,
        high,
        float(level),
        "ratio",
        worst.basis,
        worst.note if math.isfinite(high) else f"{worst.note}; {NO_ROWS}",
        tuple(dict.fromkeys((*one.warnings, *other.warnings))),
    )


def quantile_of(
    release: WeightedRowsRelease, of: str, share: float, where: str | None, level: float
) -> Estimate:
    """The value of a column of numbers that this share of the rows that meet `where` is not above.

    It lies in the bins that are not ruled out: the share of rows below its bin is less than
    `share`, and that below the end of the bin is not. Each is said at half the error probability,
    and only the bin that it lies in has to be kept.
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise QueryError(f"share must lie between 0 and 1, not {share!r}. The median is 0.5.")
    if of not in release.rows.columns or not release.rows[of].dtype.is_numeric():
        raise QueryError(f"A quantile is that of a column of numbers, and '{of}' is none.")
    name = '"' + of.replace('"', '""') + '"'
    values, stated, _ = release._values(name)
    known = f"{name} is not null" if where is None else f"({where}) and {name} is not null"
    present = stated if where is None else stated & release._condition(where)
    if not release.sample_weight[present].sum() > 0.0:
        raise QueryError("No public row with a positive weight meets the condition.")
    starts, ends = _bins(release, of, values[present])
    below = [
        _below(release, name, np.where(stated, values, math.inf), present, known, edge, level)
        for edge in starts[1:].tolist()
    ]
    low = np.array([0.0, *(one.low for one in below)])
    high = np.array([*(one.high for one in below), 1.0])
    kept = np.flatnonzero((low <= share) & (high >= share))
    value = _weighted_quantile(values[present], release.sample_weight[present], share)
    own = int(np.clip(np.searchsorted(starts, value, side="right") - 1, 0, len(starts) - 1))
    first, last = (kept[0], kept[-1]) if kept.size else (own, own)
    least, most = float(starts[first]), float(ends[last])
    basis = _least_sure(below).basis or "counted"
    return Estimate(
        min(max(value, least), most),
        _error_of(least, most, level),
        least,
        most,
        float(level),
        "quantile",
        basis,
        note_of(basis, release.variant) + IN_BIN,
    )


def _bins(release: WeightedRowsRelease, of: str, values: Floats) -> tuple[Floats, Floats]:
    """Where parts of a column begin, and the largest number of each: its bins, or of a column that
    was not weighted some of the public values."""
    axis = next((one for one in release.features.axes if one.name == of), None)
    if axis is not None and axis.kind in ("integer", "real"):
        starts, ends = (one[: axis.base] for one in code_ranges(axis))
        return starts, ends
    found = np.unique(values)
    if found.size > MAX_STEPS:
        found = np.unique(np.quantile(found, np.linspace(0, 1, MAX_STEPS), method="lower"))
    return found, np.append(found[1:], values.max())


def _below(
    release: WeightedRowsRelease,
    name: str,
    values: Floats,
    present: NDArray[np.bool_],
    known: str,
    edge: float,
    level: float,
) -> Estimate:
    """The share of rows with a number that have one below an edge."""
    text = f"{name} < {edge:.0f}" if edge.is_integer() else f"{name} < {edge!r}"
    met = (values < edge).astype(np.float64)
    question = release._question(text, known, met, np.ones(len(values), dtype=np.bool_), present)
    return release._mean(met, present, level, question, share=True)


def _weighted_quantile(values: Floats, weights: Floats, share: float) -> float:
    order = np.argsort(values, kind="stable")
    return float(values[order][np.argmax(np.cumsum(weights[order]) >= share * weights.sum())])


def _least_sure(found: Sequence[Estimate]) -> Estimate:
    """That whose interval rests on most."""
    return max(found, key=lambda one: list(NOTES).index(one.basis or "counted"))


def _error_of(low: float, high: float, level: float) -> float:
    """The standard error of a normal law that has this interval at this level."""
    return (high - low) / (2 * normal_quantile((1 - check_level(level)) / 2))
