"""How many columns a projected histogram chooses, what choosing costs, and with how many bins: from
public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpublish.declare.domain import Domain, lei_bins
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.histogram.mechanism import Amount, require_bins
from dpublish.methods.projected_histogram.choose_k import (
    choose_gamma,
    k_from_public,
    k_from_simulation,
)
from dpublish.methods.projected_histogram.mechanism import (
    BinRule,
    ProjectedHistogram,
    ScoreName,
    WayToChooseK,
)
from dpublish.methods.projected_histogram.scores import pair_rate_change
from dpublish.noise.base import ChoiceRule
from dpublish.privacy.cost import exact

DEFAULT_OPTIONS = (1, 2, 3, 4, 5, 6)
DEFAULT_GAMMA = Fraction(1, 2)
CHOICES = ((200, 1, Fraction(1, 2)), (750, 2, Fraction(3, 10)), (2500, 3, Fraction(1, 5)))
MAX_CHOICES, CHOICE_SHARE = 4, Fraction(3, 20)
"""How many columns to choose, and the share of epsilon for each choice, by how well a choice tells
columns apart (`clarity`): below the first limits few choices for more of epsilon each, then these.
By `python -m benchmarks.defaults choices`."""
MAX_FOR_CHOICES = Fraction(3, 5)
MAX_BINS, BINNED_COLUMNS = 16, 3


@dataclass(frozen=True)
class Words:
    """The settings that have a name, as they are when left out."""

    score: ScoreName
    choose_k: WayToChooseK
    rule: ChoiceRule
    bin_rule: BinRule
    threshold_factor: Amount
    default_factor: Fraction

    @classmethod
    def of(cls, method: ProjectedHistogram) -> Words:
        paper = method.rule == "paper"
        way = method.choose_k or ("simulate" if paper else "stop")
        factor = Fraction(1, 4) if way == "stop" else Fraction(1, 2)
        by_lei: BinRule = "all-columns" if paper else "published"
        return cls(
            score=method.score or cls._score(method, way, paper=paper),
            choose_k=way,
            rule="exponential" if method.rule == "paper" else method.rule,
            bin_rule=method.bin_rule or ("noise" if way == "stop" else by_lei),
            threshold_factor=factor if method.threshold_factor is None else method.threshold_factor,
            default_factor=factor,
        )

    @staticmethod
    def _score(method: ProjectedHistogram, way: WayToChooseK, *, paper: bool) -> ScoreName:
        """ "contrast" where columns are chosen one after the other; it has no charge that a curator
        sets, and no way to judge sets of columns on a part of the rows."""
        if paper:
            return "discernibility"
        return "contrast" if way == "stop" and method.cell_charge is None else "prediction"


@dataclass(frozen=True)
class ColumnCount:
    """How many columns will be chosen: `k`, or one of `options`, by stopping or splitting; and why,
    in words."""

    k: int | None
    options: tuple[int, ...]
    reason: str
    stops: bool = False
    choice_share: Fraction = Fraction(0)
    """Of epsilon, for each choice, where it is shared out by rows."""

    @property
    def splits(self) -> bool:
        return self.k is None and not self.stops

    @property
    def most(self) -> int:
        return max(self.options)

    @property
    def least(self) -> int:
        return min(self.options)

    @property
    def typical(self) -> int:
        return sorted(self.options)[len(self.options) // 2]


def clarity(schema: Schema, rows: int, epsilon: Fraction, candidates: int) -> float:
    """The rows, in units of the noise of a choice among so many columns at all of epsilon: 2 D
    ln(columns) / epsilon rows are what the noise may take for a gain (but for the factor 2)."""
    return float(rows * epsilon / schema.relation.rows) / math.log(max(2, candidates))


def choices_by_rows(clear: float) -> tuple[int, Fraction]:
    """How many columns to choose, and for which share of epsilon each."""
    return next(
        ((most, share) for limit, most, share in CHOICES if clear < limit),
        (MAX_CHOICES, CHOICE_SHARE),
    )


def count_columns(
    method: ProjectedHistogram,
    schema: Schema,
    target: str,
    candidates: Sequence[str],
    rows: int | None,
    words: Words,
    epsilon: Fraction,
) -> ColumnCount:
    """k as given, or chosen from public facts, or the values that data splitting will try."""
    most = len(candidates)
    enough, share = CHOICES[-1][1:]
    if rows is not None:
        enough, share = choices_by_rows(clarity(schema, rows, epsilon, most))
    if method.k is not None:
        share = min(share, MAX_FOR_CHOICES / method.k)
        return ColumnCount(method.k, (method.k,), f"k = {method.k} was given.", choice_share=share)
    if rows is None:
        raise PlanError(
            f"Schema '{schema.name}' declares no nominal_size, and choosing k depends on it. Add "
            f"nominal_size = ... (a public "
            "guess) to [dataset], or give k = ..."
        )
    if words.choose_k == "stop":
        options = tuple(range(1, min(method.max_k or enough, most) + 1))
        times = float(exact(method.rows_per_cell))
        reason = (
            "Columns are chosen one after the other, and choosing stops where a cell of the chosen "
            f"columns would be expected to hold fewer rows than {times:g} times the scale of its "
            "noise; what is not spent goes to the counts."
        )
        share = min(share, MAX_FOR_CHOICES / len(options))
        return ColumnCount(None, options, reason, stops=True, choice_share=share)
    sigma = exact(method.sigma, "sigma")
    if words.choose_k == "split":
        options = options_of(method, most)
        reason = (
            f"k is one of {', '.join(map(str, options))}: the rows are dealt into "
            f"{len(options) + 1} parts, one part per value "
            "chooses columns, and the last part chooses among the sets found. A unit's rows touch "
            "no more than their own "
            "parts, so this costs what choosing columns once does; but each choice sees fewer rows."
        )
        return ColumnCount(None, options, reason)
    # Lei's rule for all columns, as in the paper: the bins of the release itself depend on k
    default = max(2, method.bins or lei_bins(rows, most + 1))
    domain = schema.domain([*candidates, target], bins=default)
    if words.choose_k == "public":
        if method.public_data is None:
            raise PlanError(
                'choose_k = "public" needs public_data = ..., a public table with the same columns.'
            )
        k = min(most, k_from_public(method.public_data, domain, sigma))
        source = "the public data"
    else:
        # a declared column may have fewer levels than the rule gives; more would say nothing about
        # the paper's model
        levels = [min(default, size) for size in domain.shape[:-1]]
        k = min(most, k_from_simulation(rows, levels, domain.shape[-1], sigma))
        source = (
            f"simulated data ({rows:,} rows, independent normal columns in up to {default} bins)"
        )
    discern = "1 column discerns" if k == 1 else f"{k} columns discern"
    reason = (
        f"k = {k}: in {source}, {discern} {float(1 - sigma):.0%} of the pairs of rows that "
        f"all columns discern."
    )
    return ColumnCount(k, (k,), reason)


def options_of(method: ProjectedHistogram, most: int) -> tuple[int, ...]:
    """The values of k that data splitting tries, in the order given. Text is read as numbers, for
    the command line."""
    if method.k_options is None:
        options = tuple(k for k in DEFAULT_OPTIONS if k <= most)
    else:
        texts = [str(option).strip() for option in method.k_options]
        for text in texts:
            if not text.isdecimal() or not 1 <= int(text) <= most:
                raise PlanError(
                    f"k_options: '{text}' is not a whole number from 1 to {most}, the number of "
                    f"candidates."
                )
        options = tuple(int(text) for text in texts)
    if len(options) < 2 or len(set(options)) < len(options):
        raise PlanError("k_options must list at least two different values; to fix k, give k = ...")
    return options


def gamma_given(
    method: ProjectedHistogram, count: ColumnCount, candidates: int, words: Words
) -> Fraction | None:
    """gamma as given, or what the choices leave of epsilon; None where the paper's rule works it
    out."""
    if count.least >= candidates and not count.stops:
        return Fraction(1)
    if method.gamma is not None:
        gamma = exact(method.gamma, "gamma")
        if gamma == 1 and count.k is None:
            how = "stopping" if count.stops else "splitting"
            raise PlanError(
                f"gamma = 1 leaves nothing for choosing k by {how}. Give a smaller gamma, or "
                "k = ..."
            )
        return gamma
    return 1 - count.choice_share * count.most if words.choose_k == "stop" else None


def gamma_of(
    method: ProjectedHistogram,
    schema: Schema,
    count: ColumnCount,
    candidates: int,
    rows: int | None,
    labels: int,
    bins: int,
    factor: Fraction,
    score: ScoreName,
) -> tuple[Fraction, str]:
    """gamma by the paper's rule, and why, in words."""
    if rows is None:
        return (
            DEFAULT_GAMMA,
            "gamma = 0.5: without a nominal size, choosing and counting share epsilon equally.",
        )
    changes = schema.relation.rows
    if score != "discernibility":
        blur = Fraction(
            changes, 4
        )  # there are n (q-1) / q rows to gain, twice the pairs a row that can be discerned
    elif schema.neighbours == "replace-one":
        blur = Fraction(changes, 2)
    else:
        blur = changes * pair_rate_change(labels)
    gamma = choose_gamma(
        rows=max(rows, 2),
        k=min(count.typical, candidates - 1),
        candidates=candidates,
        labels=labels,
        bins=bins,
        factor=factor,
        sensitivity=schema.relation.l1,
        blur=blur,
        tuning=exact(method.tuning),
        lost_pairs=exact(method.lost_pairs),
        inclusion=exact(method.inclusion),
    )
    gain = (
        "discernible pairs" if score == "discernibility" else "rows that labels could be told for"
    )
    return gamma, (
        f"gamma = {float(gamma):g} of epsilon goes to counting: in proportion to what a cell of "
        f"average size needs to appear "
        f"in {_often(method.inclusion)} of all releases, against what choosing needs to lose at "
        f"most {float(exact(method.lost_pairs)):.3g} of the {gain}."
    )


def stop_cells(
    method: ProjectedHistogram,
    schema: Schema,
    epsilon: Fraction,
    rows: int,
    gamma: Fraction | None,
) -> int:
    """How many cells the chosen columns may span (without the target), so that a cell is expected
    to hold `rows_per_cell` times the scale of its noise when every choice was paid for."""
    scale = schema.relation.l1 / (epsilon * (DEFAULT_GAMMA if gamma is None else gamma))
    return max(1, int(rows / (exact(method.rows_per_cell) * scale)))


def noise_bins(cells: int, columns: int) -> int:
    """So many bins that this many columns of them, three at most, span `cells` cells: from 2 to
    16."""
    return min(MAX_BINS, max(2, int(cells ** (1 / min(columns, BINNED_COLUMNS)) + 1e-9)))


def published_domain(
    method: ProjectedHistogram,
    schema: Schema,
    target: str,
    candidates: Sequence[str],
    rows: int | None,
    count: ColumnCount,
    words: Words,
    cells: int | None,
) -> tuple[Domain, int]:
    """The domain of all candidates and the target, and the number of bins of numeric columns that
    declare none."""
    names = [*candidates, target]
    if method.bins is not None:
        bins = method.bins
    elif cells is not None and words.bin_rule == "noise":
        bins = noise_bins(cells, count.most)
    elif rows is not None:
        every = words.bin_rule == "all-columns"
        bins = max(2, lei_bins(rows, len(names) if every else count.most + 1))
    else:
        for name in names:
            column = schema.column(name)
            if column.numeric:
                require_bins(column)
        bins = 2
    domain = schema.domain(names, bins=bins)
    if domain.axes[-1].base < 2:
        raise PlanError(
            f"Target '{target}' has one bin only, so there is nothing to tell apart. Give it more "
            f"bins."
        )
    return domain, bins


def words_of_gamma(
    method: ProjectedHistogram, gamma: Fraction, count: ColumnCount, candidates: int
) -> str:
    if count.stops:
        left = float(gamma)
        return (
            f"Each choice costs {(1 - left) / count.most:.3g} of epsilon, and at least {left:.3g} "
            "of it goes to counting."
        )
    if gamma == 1 and count.least >= candidates:
        return "gamma = 1: all candidates are kept, so nothing is spent on choosing."
    given = " was given" if method.gamma is not None else ""
    return (
        f"gamma = {float(gamma):g}{given}: that share of epsilon goes to counting, the rest to "
        "choosing."
    )


def _often(share: Amount) -> str:
    return "half" if exact(share) == Fraction(1, 2) else f"{float(exact(share)):.3g}"
