"""Planning a projected histogram: what can be said, refused and priced before any row is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

from dpublish.declare.domain import MAX_CELLS, Domain, lei_bins
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError, did_you_mean
from dpublish.methods.histogram.mechanism import (
    THRESHOLD_FOLLOWS,
    Amount,
    check_total_is_paid,
    checked_factor,
    count_settings,
    noise_sentence,
    require_bins,
    share_for_total,
    total_warnings,
    visible_count,
)
from dpublish.methods.projected_histogram.choose_k import (
    choose_gamma,
    k_from_public,
    k_from_simulation,
)
from dpublish.methods.projected_histogram.coded_table import MAX_ROWS
from dpublish.methods.projected_histogram.discernibility import fitting_columns, free_choice
from dpublish.methods.projected_histogram.mechanism import (
    BinRule,
    ProjectedHistogram,
    ProjectedSettings,
    RuleName,
    ScoreName,
    WayToChooseK,
)
from dpublish.methods.projected_histogram.scores import (
    PairCount,
    PairsPerRow,
    Purity,
    pair_rate_change,
)
from dpublish.methods.thresholds import (
    laplace_deviation,
    smallest_threshold,
    survival_probability,
)
from dpublish.noise.base import ChoiceRule
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan

DEFAULT_OPTIONS = (1, 2, 3, 4, 5, 6)
DEFAULT_GAMMA = Fraction(1, 2)


CHOICE_SHARE = Fraction(1, 5)
"""Of epsilon, for one choice; by benchmarks/defaults."""
MOST_SHARES = 3
MAX_BINS = 16
PLENTY = 100
"""Rows times epsilon per feature above which a classifier of all columns is as good or better."""
ALL_COLUMNS = "All candidates together span few enough cells, so that nothing has to be chosen."
FREE = "All of epsilon goes to counting."


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
            score=method.score or ("discernibility" if paper else "prediction"),
            choose_k=way,
            rule="exponential" if method.rule == "paper" else method.rule,
            bin_rule=method.bin_rule or ("noise" if way == "stop" else by_lei),
            threshold_factor=factor if method.threshold_factor is None else method.threshold_factor,
            default_factor=factor,
        )


@dataclass(frozen=True)
class ColumnCount:
    """How many columns will be chosen: `k`, or one of `options`, by stopping or splitting; and why,
    in words."""

    k: int | None
    options: tuple[int, ...]
    reason: str
    stops: bool = False

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


def plan_projected(
    method: ProjectedHistogram, schema: Schema, cost: Cost
) -> Plan[ProjectedSettings]:
    """The plan of `ProjectedHistogram`; raises `PlanError` or `SchemaError` for what cannot be
    published."""
    if schema.items is not None:
        raise PlanError(
            "A projected histogram needs [columns]; this schema declares set-valued data ([items])."
        )
    if cost.kind != "pure" or cost.epsilon <= 0:
        raise PlanError(
            "A projected histogram costs a pure epsilon above 0: give epsilon = ... and leave "
            "delta and rho out."
        )
    check_words(method)
    words = Words.of(method)
    factor = checked_factor(words.threshold_factor, method.threshold, words.default_factor)
    sigma = exact(method.sigma)
    target = target_of(method, schema)
    candidates = candidates_of(method, schema, target, words)
    rows = public_rows(method, schema)
    count = count_columns(method, schema, target, candidates, rows, words)
    gamma = gamma_given(method, count, len(candidates), words)
    cells = None if rows is None else stop_cells(method, schema, cost, rows, gamma)
    domain, bins = published_domain(method, schema, target, candidates, rows, count, words, cells)
    labels = domain.shape[-1]
    share = share_for_total(method.count_share, schema, domain)
    if gamma is None:
        gamma, why_gamma = gamma_of(
            method, schema, count, len(candidates), rows, labels, bins, factor, words.score
        )
    else:
        why_gamma = words_of_gamma(method, gamma, count, len(candidates))
    if cells is not None and count.stops and free_choice(domain.shape[:-1], cells) is not None:
        count = ColumnCount(len(candidates), (len(candidates),), ALL_COLUMNS)
        gamma, why_gamma = Fraction(1), FREE
    paid = cost.epsilon - cost.epsilon * share
    counting = count_settings(
        domain,
        schema.relation.l1,
        cell_epsilon=gamma * paid,
        count_epsilon=cost.epsilon * share,
        threshold=method.threshold,
        factor=factor,
        rows=rows,
        max_support=method.max_support,
    )
    score = score_of(words.score, schema, labels, method.cell_charge, count)
    settings = ProjectedSettings(
        **vars(counting),
        target=target,
        k=count.k,
        k_options=count.options,
        gamma=gamma,
        selection_epsilon=paid - counting.cell_epsilon,
        selection_score=words.score,
        cell_charge=method.cell_charge if words.score == "prediction" else None,
        score=score,
        sigma=sigma,
        rule=words.rule,
        stop_cells=cells if count.stops else None,
    )
    expected = expectations(settings, count)
    return Plan(
        method=method.method,
        kind=method.kind,
        schema=schema,
        cost=cost,
        parameters={
            "target": target,
            "candidates": list(candidates),
            "k": count.k,
            "k_options": None if count.k is not None else list(count.options),
            "max_k": method.max_k,
            "choose_k": words.choose_k,
            "rows_per_cell": str(exact(method.rows_per_cell)),
            "sigma": str(sigma),
            "gamma": str(gamma),
            "tuning": str(exact(method.tuning)),
            "lost_pairs": str(exact(method.lost_pairs)),
            "inclusion": str(exact(method.inclusion)),
            "score": words.score,
            "cell_charge": method.cell_charge,
            "bins": method.bins,
            "bin_rule": words.bin_rule,
            "threshold_factor": str(factor),
            "threshold": method.threshold,
            "count_share": str(share),
            "max_support": method.max_support,
            "rule": method.rule,
        },
        settings=settings,
        forecast={
            "cell_standard_deviation": laplace_deviation(settings.scale),
            **expected,
            "selection_sensitivity": score.sensitivity,
        },
        sentences=(
            f"Chooses {_columns(count)} of {len(candidates)} for the target '{target}' "
            f"({_aim(words.score)}), then counts over them and the target.",
            count.reason,
            why_gamma,
            f"Cost {cost.describe()}, protecting {schema.unit.describe()} ({schema.neighbours}): "
            f"{_parts(settings)}.",
            noise_sentence(settings),
            *expected_sentences(method, settings, expected),
        ),
        warnings=(
            *warnings_for(settings, count),
            *service_warnings(settings, count),
            *total_warnings(share, schema, domain),
            *level_warnings(words.score, count, domain),
        ),
    )


def check_words(method: ProjectedHistogram) -> None:
    """Words that the settings may be, and settings that exclude each other."""
    for name, given, known in (
        ("score", method.score, get_args(ScoreName)),
        ("choose_k", method.choose_k, get_args(WayToChooseK)),
        ("rule", method.rule, get_args(RuleName)),
        ("bin_rule", method.bin_rule, get_args(BinRule)),
    ):
        if given is not None and given not in known:
            raise PlanError(
                f"{name} = '{given}' is not known.{did_you_mean(str(given), known)} Use one of: "
                f"{', '.join(known)}."
            )
    way = Words.of(method).choose_k
    if method.public_data is not None and way != "public":
        raise PlanError(f'public_data is read for choose_k = "public" only, not for "{way}".')


def score_of(
    name: ScoreName, schema: Schema, labels: int, charge: int, count: ColumnCount
) -> PairCount | PairsPerRow | Purity:
    """The score that the columns are chosen by: over all rows, or within a part of them. The number
    of rows in a part is never public, and a cell there holds fewer rows."""
    changes = schema.relation.rows
    if name == "prediction":
        parts = len(count.options) + 1 if count.splits else 1
        return Purity(max(1, charge // parts), changes)
    if not count.splits and schema.neighbours == "replace-one":
        assert schema.size is not None, "public_rows refuses replace-one without a size"
        return PairCount(schema.size, schema.unit.max_rows)
    return PairsPerRow(labels, changes)


def target_of(method: ProjectedHistogram, schema: Schema) -> str:
    target = method.target if method.target is not None else schema.target
    if target is None:
        raise PlanError(
            f"A projected histogram needs a target column, and schema '{schema.name}' names none. "
            f"Give target = ..., or add "
            "target = ... to [dataset]."
        )
    column = schema.column(target)
    if not column.numeric and len(column.levels) < 2:
        raise PlanError(
            f"Target '{target}' has one level only, so there is nothing to tell apart. Choose "
            f"another target."
        )
    return target


def candidates_of(
    method: ProjectedHistogram, schema: Schema, target: str, words: Words
) -> tuple[str, ...]:
    if method.candidates is None:
        names = tuple(name for name in schema.columns if name not in (target, schema.unit.column))
    else:
        names = tuple(method.candidates)
    if method.candidates is None and words.choose_k == "stop" and method.k is None:
        # a column of one level tells nothing apart, whatever it says about rows outside of it
        columns = {name: schema.column(name) for name in names}
        told = [name for name, one in columns.items() if one.numeric or len(one.levels) > 1]
        names = tuple(told) or names
    if not names:
        raise PlanError(f"There is no column to choose besides the target '{target}'.")
    for i, name in enumerate(names):
        schema.column(name)
        if name == target:
            raise PlanError(f"The target '{target}' cannot be a candidate too.")
        if name == schema.unit.column:
            raise PlanError(f"Column '{name}' says whom a row belongs to and cannot be published.")
        if name in names[:i]:
            raise PlanError(f"Candidate '{name}' is listed twice.")
    if method.k is not None and method.k > len(names):
        raise PlanError(
            f"k = {method.k}, but there are only {len(names)} columns to choose from "
            f"({', '.join(names)})."
        )
    return names


def public_rows(method: ProjectedHistogram, schema: Schema) -> int | None:
    """The public number that stands for the number of rows; None where a noisy total or a given
    threshold does without."""
    size = schema.size_or_nominal
    if size is None:
        if schema.neighbours == "replace-one":
            raise PlanError(
                f"Schema '{schema.name}' declares no size, and choosing columns depends on it. "
                f"The number of units is public "
                "under replace-one: add size = ... to [dataset]."
            )
        if method.threshold is None:
            check_total_is_paid(schema, method.count_share)
        return None
    rows = size * schema.unit.max_rows
    if rows > MAX_ROWS:
        raise PlanError(
            f"A projected histogram takes at most {MAX_ROWS:,} rows; the schema allows {rows:,}."
        )
    return rows


def count_columns(
    method: ProjectedHistogram,
    schema: Schema,
    target: str,
    candidates: Sequence[str],
    rows: int | None,
    words: Words,
) -> ColumnCount:
    """k as given, or chosen from public facts, or the values that data splitting will try."""
    most = len(candidates)
    if method.k is not None:
        return ColumnCount(method.k, (method.k,), f"k = {method.k} was given.")
    if rows is None:
        raise PlanError(
            f"Schema '{schema.name}' declares no nominal_size, and choosing k depends on it. Add "
            f"nominal_size = ... (a public "
            "guess) to [dataset], or give k = ..."
        )
    if words.choose_k == "stop":
        options = tuple(range(1, min(method.max_k, most) + 1))
        times = float(exact(method.rows_per_cell))
        reason = (
            "Columns are chosen one after the other, and choosing stops where a cell of the chosen "
            f"columns would be expected to hold fewer rows than {times:g} times the scale of its "
            "noise; what is not spent goes to the counts."
        )
        return ColumnCount(None, options, reason, stops=True)
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
    """gamma as given, or a fifth of epsilon less for each choice; None where the paper's rule works
    it out."""
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
    if words.choose_k != "stop":
        return None
    return 1 - CHOICE_SHARE * min(count.most, MOST_SHARES)


def stop_cells(
    method: ProjectedHistogram,
    schema: Schema,
    cost: Cost,
    rows: int,
    gamma: Fraction | None,
) -> int:
    """How many cells the chosen columns may span (without the target), so that a cell is expected
    to hold `rows_per_cell` times the scale of its noise when every choice was paid for."""
    scale = schema.relation.l1 / (cost.epsilon * (DEFAULT_GAMMA if gamma is None else gamma))
    return max(1, int(rows / (exact(method.rows_per_cell) * scale)))


def noise_bins(cells: int) -> int:
    """So many bins that three columns of them span `cells` cells, from 2 to 16."""
    return min(MAX_BINS, max(2, int(cells ** (1 / 3) + 1e-9)))


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
        bins = noise_bins(cells)
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
    if score == "prediction":
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


def expectations(settings: ProjectedSettings, count: ColumnCount) -> dict[str, Any]:
    """Expected support, for the smallest and largest domain that may be chosen (the paper's
    equations 6 and 7)."""
    *levels, labels = settings.domain.shape
    levels.sort()
    smallest = math.prod(levels[: count.least]) * labels
    largest = math.prod(levels[len(levels) - count.most :]) * labels
    if settings.stop_cells is not None:
        span = [levels[i] for i in fitting_columns(levels, (), settings.stop_cells)]
        smallest = min(span, default=1) * labels
        largest = min(largest, max(settings.stop_cells, min(span, default=1)) * labels)
    if largest > MAX_CELLS:
        raise PlanError(
            f"{count.most} columns may span {largest:.3g} cells; at most 2^63 can be published. "
            "Choose a smaller k, leave out the candidates with most levels, or give numeric "
            "columns fewer bins."
        )
    scale, threshold, rows = settings.scale, settings.threshold, settings.rows
    sizes: dict[str, Any] = {"domain_size_low": smallest, "domain_size_high": largest}
    if rows is not None:
        sizes["rows_per_cell_low"] = rows / (largest / labels)
        sizes["rows_per_cell_high"] = rows / (smallest / labels)
    if threshold is None:
        return sizes
    survive = survival_probability(scale, threshold)
    if largest * survive > settings.max_support:
        needed = smallest_threshold(scale, largest, settings.max_support)
        raise PlanError(
            f"The {count.most} widest columns span {largest:,} cells, of which about "
            f"{largest * survive:,.0f} empty ones would pass the threshold {threshold} by noise "
            f"alone; at most {settings.max_support:,} fit (max_support). Choose a smaller k, fewer "
            f"bins, or a higher threshold (a larger threshold_factor, or threshold = {needed})."
        )
    occupied = None if rows is None else min(largest, rows)
    return {
        **sizes,
        "survival_probability": survive,
        "expected_false_cells_low": smallest * survive,
        "expected_false_cells_high": largest * survive,
        "expected_support_low": smallest * survive,
        "expected_support_high": None
        if occupied is None
        else occupied + (largest - occupied) * survive,
        "visible_count": visible_count(scale, threshold),
    }


def expected_sentences(
    method: ProjectedHistogram, settings: ProjectedSettings, expected: Mapping[str, Any]
) -> list[str]:
    if settings.threshold is None:
        return [THRESHOLD_FOLLOWS]
    factor = float(settings.threshold_factor)
    held = []
    if settings.rows is not None:
        low, high = expected["rows_per_cell_low"], expected["rows_per_cell_high"]
        held = [
            f"A cell of the chosen columns is expected to hold {low:,.0f} to {high:,.0f} of "
            f"{settings.rows:,} rows on average, all labels together."
        ]
    by_factor = "" if method.threshold is not None else f" ({factor:g} ln n / epsilon)"
    return [
        *held,
        f"The chosen columns and the target span {expected['domain_size_low']:,} to "
        f"{expected['domain_size_high']:,} cells. Those with a noisy count of "
        f"{settings.threshold} or less are left out{by_factor}.",
        f"Expect {expected['expected_false_cells_low']:,.1f} to "
        f"{expected['expected_false_cells_high']:,.1f} empty cells to appear by noise; a cell "
        f"needs a true count of about {expected['visible_count']} to appear with 95% probability.",
    ]


def service_warnings(settings: ProjectedSettings, count: ColumnCount) -> list[str]:
    """Where, by public facts, another method is likely to serve better (benchmarks/defaults)."""
    *axes, label = settings.domain.axes
    rows, free = settings.rows, settings.selection_epsilon == 0
    if rows is None or free or settings.selection_score != "prediction":
        return []
    step = float(settings.selection_epsilon) / count.most
    # a choice by rows told right is off by about this share of the rows
    blur = 2 * float(settings.score.sensitivity) * math.log(max(2, len(axes))) / (step * rows)
    if blur > 1:
        return [
            f"With {rows:,} rows, the choice among {len(axes)} columns is little better than a "
            "random one, and so is what is learnt from the release. Name the few candidates that "
            "matter, or count over columns of your choice with histogram."
        ]
    paid = float(settings.selection_epsilon + settings.cell_epsilon + settings.count_epsilon)
    features = 1 + sum(1 if axis.ordered else axis.cardinality - 1 for axis in axes)
    plenty = rows * paid / features / (1 if label.base == 2 else label.base)
    if plenty > PLENTY:
        return [
            f"There are rows enough for all {len(axes)} columns ({plenty:,.0f} n epsilon per "
            f"feature), of which at most {count.most} are published here. To predict "
            f"'{settings.target}', private-classifier is likely to be as good or better; "
            "joined-histograms publish all columns."
        ]
    return []


def warnings_for(settings: ProjectedSettings, count: ColumnCount) -> list[str]:
    if settings.selection_epsilon > 0 or count.least >= len(settings.domain.axes) - 1:
        return []
    return ["gamma = 1 leaves nothing for choosing: the columns are drawn at random."]


def level_warnings(score: ScoreName, count: ColumnCount, domain: Domain) -> list[str]:
    widest = max(domain.axes[:-1], key=lambda axis: axis.cardinality)
    if score != "discernibility" or widest.cardinality < 50 or count.least >= len(domain.axes) - 1:
        return []
    return [
        f"score = 'discernibility' favours columns with many levels, such as '{widest.name}' "
        f"({widest.cardinality}). For prediction, consider score = 'prediction', or leave such "
        "columns out of the candidates."
    ]


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


def _columns(count: ColumnCount) -> str:
    if count.k is not None:
        return f"{count.k} column{'s' if count.k > 1 else ''}"
    return f"{count.least} to {count.most} columns"


def _aim(score: str) -> str:
    return (
        "those that discern rows with different labels"
        if score == "discernibility"
        else "those that predict the label"
    )


def _parts(settings: ProjectedSettings) -> str:
    text = (
        f"epsilon {float(settings.selection_epsilon):.4g} to choose columns, "
        f"{float(settings.cell_epsilon):.4g} to count"
    )
    total = settings.count_epsilon
    return text + (f", {float(total):.4g} for a noisy total" if total else "")
