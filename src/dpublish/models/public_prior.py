"""A public table of other people as a prior: how many have each level, how levels go with labels,
and how pairs of columns go together there, as far as noisy counts of the private rows say that it
is so here.

*Columns.* The noisy counts of every column, by label, are in the release anyway. How far they are
from the public shares, beyond their noise, says how far to move towards these; and how much of the
public dependence on the label they show, how much of it to expect.

*Pairs.* For each of some pairs the release holds the public counts over groups of levels, by label,
and one noisy number, the check: how many private rows lie in those cells of the pair where public
rows are more than if the columns were independent given the label. With the columns' own tables it
says how much of the public dependence is there. The pair's table in the model is then the mixture
of independence and of the public table fitted to the columns' margins. It is where the model
starts: counted tables change it, and where they say nothing it stays.

What columns say, and what checks say, is read together: a table that is right about most is likely
to be right about the others. All of this is post-processing, and biased as a prior is: intervals
are made of the unbiased counts instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Ints
from dpublish.models.junction_tree.consistency import fit_margins, sum_groups
from dpublish.models.junction_tree.model import Fitted

MEANS = np.linspace(0.0, 1.0, 21)
SPREADS = np.array([0.02, 0.05, 0.1, 0.2, 0.4])
"""How much of the public dependence holds on average, and how much that varies: what is tried."""
LEAST_HELD = 0.3
"""A pair of which less is there is left out."""
PSEUDO_ROWS = 0.5
"""Public rows that every cell is thought to have more, spread as under independence."""
LEFT = 0.4
"""Of the squares of the noise of a column's rows, about what its own fit leaves: levels are made
non-negative and add up to what they must."""
_LEAST = 1e-9
_SWEEPS = 30


@dataclass(frozen=True)
class PublicPair:
    """Public counts of two columns over groups of their levels, by label; and how many private rows
    lie where these are above independence, with noise of the stated scale (Laplace) or squared
    sigma (Gaussian) and its variance. A model starts with those that are `taken`."""

    columns: tuple[int, int]
    groups: tuple[Ints, Ints]
    counts: Ints
    check: int = 0
    scale: Fraction = Fraction(1)
    variance: float = 1.0
    taken: bool = False


@dataclass(frozen=True)
class PublicPrior:
    """What was taken of a public table: its name, rows and hash, its counts of columns (levels x
    labels), and its pairs."""

    name: str
    rows: int
    digest: str
    columns: Mapping[int, Ints] = field(default_factory=dict)
    pairs: tuple[PublicPair, ...] = ()


@dataclass(frozen=True)
class Guess:
    """What a public table says of a column: rows of every level, the sum of squares by which these
    may be off, and the shares of labels of every level."""

    rows: Floats
    doubt: float
    split: Floats


def guess_columns(
    prior: PublicPrior, counts: Mapping[int, Floats], variances: Sequence[float], labels: Floats
) -> dict[int, Guess]:
    """What to expect of the columns that a public table has; `counts` are the noisy ones, levels x
    labels."""
    total = float(labels.sum())
    if not total > 0.0:
        return {}
    rows = {
        c: table.sum(axis=1) / max(1, table.sum()) * total for c, table in prior.columns.items()
    }
    doubts = _doubts(rows, counts, variances)
    common = labels / total
    splits, found, noise = {}, [], []
    for column, table in prior.columns.items():
        splits[column] = _split(table, rows[column], labels)
        wanted = rows[column][:, None] * (splits[column] - common)
        seen = counts[column] - counts[column].sum(axis=1, keepdims=True) * common
        size = max(_LEAST, float((wanted**2).sum()))
        each = variances[column] * (1.0 - 2.0 * common + len(labels) * common**2)
        found.append(float((wanted * seen).sum()) / size)
        spread = float((wanted**2 * each).sum()) / size**2
        noise.append(spread * len(labels) / max(1, len(labels) - 1))
    held = (
        pooled(np.array(found), np.array(noise)).tolist() if len(labels) > 1 else [0.0] * len(rows)
    )
    return {
        column: Guess(rows[column], doubts[column], common + share * (splits[column] - common))
        for column, share in zip(prior.columns, held, strict=True)
    }


def towards(table: Floats, noise: float, guess: Guess, labels: Floats) -> tuple[Floats, float]:
    """A column's table with rows of levels moved towards a guess, as far as the noise that is in
    them calls for, and the share of that noise which is left. `noise` is a sum of squares."""
    share = LEFT * noise / max(_LEAST, LEFT * noise + guess.doubt)
    rows = (1.0 - share) * table.sum(axis=1) + share * guess.rows
    filled = table + _LEAST * rows[:, None] * guess.split
    return _raked(filled, rows, labels), (1.0 - share) ** 2


def _doubts(
    rows: Mapping[int, Floats], counts: Mapping[int, Floats], variances: Sequence[float]
) -> dict[int, float]:
    """How far the true rows of each column's levels are from the public ones, as a sum of squares:
    from its own noisy counts, and from how far all columns are, in parts of the squares of rows."""
    own, blur, sizes = {}, {}, {}
    for column, expected in rows.items():
        table = counts[column]
        noise = variances[column] * table.shape[1]
        apart = table.sum(axis=1) - expected
        own[column] = float((apart**2).sum()) - noise * len(table)
        blur[column] = noise * math.sqrt(2.0 * len(table))
        sizes[column] = float((expected**2).sum())
    common = max(0.0, sum(own.values())) / max(_LEAST, sum(sizes.values()))
    out = {}
    for column, found in own.items():
        usual = max(_LEAST, common * sizes[column])
        weights = 1.0 / max(_LEAST, blur[column]) ** 2, 1.0 / usual**2
        out[column] = max(0.0, (found * weights[0] + usual * weights[1]) / sum(weights))
    return out


def _split(table: Ints, rows: Floats, labels: Floats) -> Floats:
    """The public shares of labels of every level, so that labels have as many rows as they have
    here."""
    common = labels / labels.sum()
    filled = table + (PSEUDO_ROWS * len(labels)) * common
    filled = filled / filled.sum(axis=1, keepdims=True)
    raked = _raked(filled * (rows + _LEAST)[:, None], rows + _LEAST, labels)
    out: Floats = raked / np.maximum(_LEAST * _LEAST, raked.sum(axis=1, keepdims=True))
    return out


def _raked(table: Floats, rows: Floats, labels: Floats) -> Floats:
    """Proportional fitting to rows of levels and of labels, the latter last."""
    out = table.copy()
    for _ in range(_SWEEPS):
        out *= (rows / np.maximum(_LEAST * _LEAST, out.sum(axis=1)))[:, None]
        out *= labels / np.maximum(_LEAST * _LEAST, out.sum(axis=0))
    return out


def above_independence(counts: Ints) -> NDArray[np.bool_]:
    """The cells of a public table (groups x groups x labels) with more rows than if both columns
    were independent given the label: whole numbers, so that every reader finds the same."""
    labels = counts.sum(axis=(0, 1)).astype(object)
    first, second = counts.sum(axis=1).astype(object), counts.sum(axis=0).astype(object)
    more: NDArray[np.bool_] = (
        counts.astype(object) * labels > first[:, None, :] * second[None, :, :]
    ).astype(np.bool_)
    return more


def prior_tables(
    pairs: Sequence[PublicPair],
    singles: Sequence[Floats],
    labels: Floats,
    variances: Sequence[float],
) -> tuple[list[Fitted], Floats]:
    """The table of every pair that is taken, over the pair's groups; and of all pairs, how much of
    the public dependence they have. `variances` are those of the columns' noise."""
    ends = [_ends(pair, singles, labels) for pair in pairs]
    held = _held(pairs, ends, variances)
    tables = [
        Fitted(pair.columns, pair.groups, apart + share * (public - apart))
        for pair, (apart, public), share in zip(pairs, ends, held.tolist(), strict=True)
        if pair.taken
    ]
    return tables, held


def taken_pairs(
    prior: PublicPrior, singles: Sequence[Floats], labels: Floats, variances: Sequence[float]
) -> PublicPrior:
    """The same with the pairs that hold well enough for a model to start with them. That is settled
    once, from the columns alone: later tables find their room beside these."""
    held = prior_tables(prior.pairs, singles, labels, variances)[1]
    return replace(
        prior,
        pairs=tuple(
            replace(pair, taken=bool(share >= LEAST_HELD))
            for pair, share in zip(prior.pairs, held.tolist(), strict=True)
        ),
    )


def _ends(pair: PublicPair, singles: Sequence[Floats], labels: Floats) -> tuple[Floats, Floats]:
    """The pair's table if its columns are independent given the label, and the public one fitted to
    the columns' margins."""
    margins = [
        sum_groups(singles[column], group_of, count)
        for column, group_of, count in zip(
            pair.columns, pair.groups, pair.counts.shape, strict=False
        )
    ]
    sums = np.where(labels > 0, labels, 1.0)
    apart: Floats = margins[0][:, None, :] * (margins[1] / sums)[None, :, :]
    counts = pair.counts.astype(np.float64)
    # association of all labels together, towards which that of each label is moved
    spread = PSEUDO_ROWS * counts[..., 0].size
    rows = apart.sum(axis=-1)
    whole = counts.sum(axis=-1)
    whole = whole + spread * rows / max(_LEAST, float(rows.sum()))
    ratio = whole / np.maximum(_LEAST, _independent(whole))
    guess = apart * ratio[..., None] + _LEAST * apart
    amount = guess.sum(axis=(0, 1))
    guess = guess / np.where(amount > 0, amount, 1.0)
    return apart, fit_margins(counts + spread * guess, margins)


def _independent(table: Floats) -> Floats:
    out: Floats = (
        table.sum(axis=1)[:, None] * table.sum(axis=0)[None, :] / max(_LEAST, float(table.sum()))
    )
    return out


def _held(
    pairs: Sequence[PublicPair],
    ends: Sequence[tuple[Floats, Floats]],
    variances: Sequence[float],
) -> Floats:
    """How much of the public dependence each pair has, 0 to 1: the mean of what its noisy number
    and those of the others leave possible."""
    if not pairs:
        return np.zeros(0)
    found, noise = np.zeros(len(pairs)), np.zeros(len(pairs))
    for place, (pair, (apart, public)) in enumerate(zip(pairs, ends, strict=True)):
        region = above_independence(pair.counts)
        gap = float((public - apart)[region].sum())
        away = pair.check - float(apart[region].sum())
        blur = pair.variance + _margin_variance(pair, apart, region, variances)
        found[place] = away / max(gap, 1.0)
        noise[place] = blur / max(gap, 1.0) ** 2
    return pooled(found, noise)


def pooled(found: Floats, noise: Floats) -> Floats:
    """How much of each dependence holds, 0 to 1, from noisy answers and their variances: the mean
    of what its own answer and those of the others leave possible."""
    weights, posterior = [], []
    for mean in MEANS:
        # as likely as not, nothing of it holds: noise that says nothing leaves little trust
        belief = 0.5 / len(MEANS) + (0.5 if mean == 0.0 else 0.0)
        for spread in SPREADS:
            total = noise + spread**2
            misfit = float((np.log(total) + (found - mean) ** 2 / total).sum())
            weights.append(math.log(belief) - 0.5 * misfit)
            posterior.append(np.clip((found * spread**2 + mean * noise) / total, 0.0, 1.0))
    likely = np.exp(np.array(weights) - max(weights))
    held: Floats = (likely / likely.sum()) @ np.array(posterior)
    return held


def _margin_variance(
    pair: PublicPair, apart: Floats, region: NDArray[np.bool_], variances: Sequence[float]
) -> float:
    """What the noise of the columns' own tables adds: the share of every group's rows that lie in
    the region, times that noise."""
    out = 0.0
    for axis, (column, group_of) in enumerate(zip(pair.columns, pair.groups, strict=True)):
        inside = (apart * region).sum(axis=1 - axis)
        rows = apart.sum(axis=1 - axis)
        rate = inside / np.maximum(rows, _LEAST)
        levels = np.bincount(group_of)
        mean = inside.sum(axis=0) / np.maximum(rows.sum(axis=0), _LEAST)
        out += variances[column] * float((levels[:, None] * (rate - mean) ** 2).sum())
    return out
