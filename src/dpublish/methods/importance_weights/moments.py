"""Noisy tables of the private rows, and which tables to buy.

Main effects first, then pairs that were named, then pairs that are chosen one at a time: a choice
is a noisy look at which pair the weights fitted so far reproduce worst, and is followed by a
measurement of that pair and a new fit. The fit reads released numbers only.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints
from dpublish.methods.draws import noisy_counts
from dpublish.models.linear_features import WeightFeatures
from dpublish.models.public_rows import PublicSet
from dpublish.models.raking.raking import Raked, TableTarget, consistent_shares, rake
from dpublish.noise.base import ChoiceRule, Noise
from dpublish.privacy.budget_split import BudgetSplit

Pair = tuple[int, int]

LARGEST_CELL = 1 << 40
"""No expected count is larger: noise and nominal sizes have no end, and the distance to them must
stay in 64 bits."""


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """What each step spends: an epsilon with Laplace noise, a rho with Gaussian noise. All exact,
    all public.

    `set_choice` and `pair_choice` are always epsilons: of an exponential mechanism, whose ratios
    lie in an interval of that length, beside Gaussian noise.
    """

    budget: BudgetSplit
    tables: tuple[Fraction, ...]
    set_choice: Fraction
    pair_choice: Fraction
    pair_table: Fraction

    @property
    def l1(self) -> Fraction:
        """How far one unit moves one table, in L1."""
        return self.budget.relation.l1

    @property
    def choice_rule(self) -> ChoiceRule:
        return "exponential" if self.budget.law == "gaussian" else "permute-and-flip"

    def variance(self, amount: Fraction) -> float:
        """The variance of the noise of one cell."""
        if self.budget.law == "gaussian":
            return float(self.budget.holding(amount).scale(Fraction(1)))
        scale = float(self.l1 / amount)
        # discrete Laplace: 2 r / (1 - r)^2 with r = exp(-1/scale)
        return float(1.0 / (2.0 * np.sinh(0.5 / scale) ** 2)) if scale > 1e-3 else 0.0


@dataclass(frozen=True)
class Measured:
    """One noisy table."""

    counts: Ints
    variance: float


def table_counts(
    features: WeightFeatures, codes: Sequence[NDArray[Any]], axes: Sequence[int]
) -> Ints:
    """Exact counts of the cells of one column, or of a pair. Private, when the codes are."""
    first = np.asarray(codes[axes[0]]).astype(np.int64)
    size = features.axes[axes[0]].cardinality
    if len(axes) == 2:
        other = features.axes[axes[1]].cardinality
        first, size = first * other + np.asarray(codes[axes[1]]).astype(np.int64), size * other
    return np.bincount(first, minlength=size).astype(np.int64)


def expected_counts(values: NDArray[Any]) -> Ints:
    """Published or public numbers of rows, in whole numbers that counts can be held against."""
    limited = np.clip(np.nan_to_num(values, nan=0.0), 0, LARGEST_CELL)
    return np.asarray(np.rint(limited), dtype=np.int64)


def choose_set(
    noise: Noise,
    features: WeightFeatures,
    codes: Sequence[NDArray[Any]],
    sets: Sequence[PublicSet],
    amounts: Amounts,
    rows: int,
) -> int:
    """Which public set has main effects nearest to the private ones, in L1; `rows` is the public
    number of private rows."""
    if len(sets) == 1:
        return 0
    private = [table_counts(features, codes, (axis,)) for axis in range(len(features.axes))]
    scores = []
    for one in sets:
        wanted = [
            expected_counts(
                rows * np.bincount(column.astype(np.int64), weights=one.base, minlength=len(counts))
            )
            for column, counts in zip(one.codes, private, strict=True)
        ]
        scores.append(
            -sum(int(np.abs(have - want).sum()) for have, want in zip(private, wanted, strict=True))
        )
    return noise.choose(
        scores,
        sensitivity=len(features.axes) * amounts.l1,
        epsilon=amounts.set_choice,
        rule=amounts.choice_rule,
        label="public set",
    )


class Fit:
    """Measured tables and the weights fitted to them. Public: it holds released numbers and public
    rows."""

    def __init__(self, public: PublicSet, *, total: int | None, precision: float | None) -> None:
        self._public, self._total, self._precision = public, total, precision
        self.tables: list[Measured] = []
        self.raked: Raked | None = None

    @property
    def rows(self) -> float:
        """The number of private rows: public, or the best guess from the totals of the noisy
        tables."""
        if self._total is not None:
            return float(self._total)
        weights = np.array(
            [1.0 / max(table.variance * len(table.counts), 1e-12) for table in self.tables]
        )
        totals = np.array([float(table.counts.sum()) for table in self.tables])
        return max(1.0, float(weights @ totals / weights.sum()))

    def refit(self, features: WeightFeatures) -> None:
        """Fit the weights to all tables, going on from the last fit."""
        targets = []
        for table, group in zip(self.tables, features.groups, strict=True):
            shares, variances = consistent_shares(
                table.counts.astype(np.float64), table.variance, self.rows
            )
            codes = features.group_codes(self._public.codes, group)
            shape = tuple(features.axes[axis].cardinality for axis in group.axes)
            targets.append(TableTarget(codes, shares, variances, group.axes, shape))
        self.raked = rake(targets, self._public.base, precision=self._precision, start=self.raked)

    def expected(self, features: WeightFeatures, pair: Pair) -> Ints:
        """What the weights say the counts of a pair are, in whole numbers."""
        assert self.raked is not None
        first, second = (self._public.codes[axis].astype(np.int64) for axis in pair)
        sizes = [features.axes[axis].cardinality for axis in pair]
        shares = np.bincount(
            first * sizes[1] + second, weights=self.raked.masses, minlength=sizes[0] * sizes[1]
        )
        return expected_counts(self.rows * shares)


def measure(
    noise: Noise,
    features: WeightFeatures,
    codes: Sequence[NDArray[Any]],
    public: PublicSet,
    amounts: Amounts,
    *,
    rounds: int,
    total: int | None,
    precision: float | None,
    largest_pair: int,
) -> tuple[WeightFeatures, Fit]:
    """The mechanism: noisy tables of all groups of `features`, then `rounds` more pairs, each
    chosen and then measured."""
    fit = Fit(public, total=total, precision=precision)
    for group, amount in zip(features.groups, amounts.tables, strict=True):
        fit.tables.append(measured_table(noise, features, codes, amounts, group.axes, amount))
    fit.refit(features)
    open_pairs = candidate_pairs(features, largest_pair)
    for _ in range(min(rounds, len(open_pairs))):
        pair = _worst_pair(noise, features, codes, fit, amounts, open_pairs)
        open_pairs.remove(pair)
        features = WeightFeatures(features.axes, (*features.pairs, pair), features.numbers)
        fit.tables.append(measured_table(noise, features, codes, amounts, pair, amounts.pair_table))
        fit.refit(features)
    return features, fit


def measured_table(
    noise: Noise,
    features: WeightFeatures,
    codes: Sequence[NDArray[Any]],
    amounts: Amounts,
    axes: Sequence[int],
    amount: Fraction,
) -> Measured:
    """The counts of one column, or of a pair, with noise for this much."""
    label = " x ".join(features.axes[axis].name for axis in axes)
    counts = table_counts(features, codes, axes)
    noisy = noisy_counts(noise, amounts.budget.holding(amount), counts, label=label)
    return Measured(noisy, amounts.variance(amount))


def candidate_pairs(features: WeightFeatures, largest: int) -> list[Pair]:
    """Pairs that are not measured yet and have at most `largest` cells."""
    sizes = [axis.cardinality for axis in features.axes]
    taken = {tuple(sorted(pair)) for pair in features.pairs}
    every = itertools.combinations(range(len(sizes)), 2)
    return [(a, b) for a, b in every if sizes[a] * sizes[b] <= largest and (a, b) not in taken]


def pair_cells(features: WeightFeatures, largest: int) -> list[int]:
    """How many cells each candidate pair has."""
    sizes = [axis.cardinality for axis in features.axes]
    return [sizes[a] * sizes[b] for a, b in candidate_pairs(features, largest)]


def _worst_pair(
    noise: Noise,
    features: WeightFeatures,
    codes: Sequence[NDArray[Any]],
    fit: Fit,
    amounts: Amounts,
    pairs: Sequence[Pair],
) -> Pair:
    deviation = amounts.variance(amounts.pair_table) ** 0.5
    scores = []
    for pair in pairs:
        wanted = fit.expected(features, pair)
        distance = int(np.abs(table_counts(features, codes, pair) - wanted).sum())
        # a pair with many cells is worth its measurement only if it is off by more than the noise
        # of measuring it
        scores.append(distance - round(0.8 * deviation * len(wanted)))
    return pairs[
        noise.choose(
            scores,
            sensitivity=amounts.l1,
            epsilon=amounts.pair_choice,
            rule=amounts.choice_rule,
            label="pair",
        )
    ]
