"""Planning a projected histogram: what can be said, refused and priced before any row is read."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import get_args

from dpublish.declare.schema import Schema
from dpublish.errors import PlanError, did_you_mean
from dpublish.methods.adaptive_bins import plan_bins
from dpublish.methods.draws import laplace_deviation
from dpublish.methods.field_types import require_columns, require_pure
from dpublish.methods.histogram.mechanism import (
    check_total_is_paid,
    checked_factor,
    count_settings,
    noise_sentence,
    share_for_total,
    total_warnings,
)
from dpublish.methods.projected_histogram.coded_table import MAX_ROWS
from dpublish.methods.projected_histogram.column_count import (
    ColumnCount,
    Words,
    count_columns,
    gamma_given,
    gamma_of,
    published_domain,
    stop_cells,
    words_of_gamma,
)
from dpublish.methods.projected_histogram.discernibility import free_choice
from dpublish.methods.projected_histogram.forecast import (
    choice_sentences,
    expectations,
    expected_sentences,
    level_warnings,
    service_sentences,
    service_warnings,
    warnings_for,
)
from dpublish.methods.projected_histogram.mechanism import (
    BinRule,
    ProjectedHistogram,
    ProjectedSettings,
    RuleName,
    ScoreName,
    WayToChooseK,
)
from dpublish.methods.projected_histogram.scores import (
    Contrast,
    PairCount,
    PairsPerRow,
    Purity,
)
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan

ALL_COLUMNS = "All candidates together span few enough cells, so that nothing has to be chosen."
FREE = "All of epsilon goes to counting."


def plan_projected(
    method: ProjectedHistogram, schema: Schema, cost: Cost
) -> Plan[ProjectedSettings]:
    """The plan of `ProjectedHistogram`; raises `PlanError` or `SchemaError` for what cannot be
    published."""
    require_columns(schema, "A projected histogram needs")
    require_pure(cost, "A projected histogram costs")
    check_words(method)
    words = Words.of(method)
    factor = checked_factor(words.threshold_factor, method.threshold, words.default_factor)
    sigma = exact(method.sigma)
    target = target_of(method, schema)
    candidates = candidates_of(method, schema, target, words)
    rows = public_rows(method, schema)
    words = scored_without_rows(method, words) if rows is None else words
    count = count_columns(method, schema, target, candidates, rows, words, cost.epsilon)
    gamma = gamma_given(method, count, len(candidates), words)
    cells = None if rows is None else stop_cells(method, schema, cost.epsilon, rows, gamma)
    domain, bins = published_domain(method, schema, target, candidates, rows, count, words, cells)
    domain, search = plan_bins(
        schema,
        domain,
        epsilon=cost.epsilon,
        share=bin_share(method, words),
        rows=rows,
        asked=method.bins is not None,
        target=target,
    )
    left = cost.epsilon - (0 if search is None else search.epsilon)
    if rows is not None:
        cells = stop_cells(method, schema, left, rows, gamma)
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
    paid = left - left * share
    counting = count_settings(
        domain,
        schema.relation.l1,
        cell_epsilon=gamma * paid,
        count_epsilon=left * share,
        threshold=method.threshold,
        factor=factor,
        rows=rows,
        max_support=method.max_support,
        search=search,
    )
    score = score_of(words.score, schema, labels, method.cell_charge or 1, count, rows)
    settings = ProjectedSettings(
        **vars(counting),
        target=target,
        k=count.k,
        k_options=count.options,
        gamma=gamma,
        selection_epsilon=paid - counting.cell_epsilon,
        selection_score=words.score,
        cell_charge=(method.cell_charge or 1) if words.score == "prediction" else None,
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
            **({} if method.bin_share is None else {"bin_share": str(method.bin_share)}),
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
            *([] if search is None else [search.describe()]),
            noise_sentence(settings),
            *expected_sentences(method, settings, expected),
            *choice_sentences(settings, count),
            *service_sentences(settings, count),
        ),
        warnings=(
            *warnings_for(settings, count),
            *service_warnings(settings, count),
            *total_warnings(share, schema, domain),
            *level_warnings(words.score, count, domain),
        ),
    )


def bin_share(method: ProjectedHistogram, words: Words) -> Fraction | None:
    """The share of epsilon for finding bins: as given; left to the rows, where the number of bins
    follows from the noise; else 0, as in the paper."""
    if method.bin_share is not None:
        return exact(method.bin_share, "bin_share")
    return None if words.bin_rule == "noise" else Fraction(0)


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
    if way == "split" and method.score == "contrast":
        raise PlanError(
            'choose_k = "split" judges sets of columns, which score = "contrast" cannot: leave '
            'score out, or give score = "prediction".'
        )
    if method.public_data is not None and way != "public":
        raise PlanError(f'public_data is read for choose_k = "public" only, not for "{way}".')


def scored_without_rows(method: ProjectedHistogram, words: Words) -> Words:
    """What a candidate is charged for its cells under "contrast" depends on a public number of
    rows."""
    if method.score == "contrast":
        raise PlanError(
            'score = "contrast" needs a public number of rows: add nominal_size = ... to '
            '[dataset], or give score = "prediction".'
        )
    return replace(words, score="prediction") if words.score == "contrast" else words


def score_of(
    name: ScoreName,
    schema: Schema,
    labels: int,
    charge: int,
    count: ColumnCount,
    rows: int | None,
) -> PairCount | PairsPerRow | Purity | Contrast:
    """The score that the columns are chosen by: over all rows, or within a part of them. The number
    of rows in a part is never public, and a cell there holds fewer rows."""
    changes = schema.relation.rows
    if name == "contrast":
        assert rows is not None, "scored_without_rows takes another score"
        return Contrast(rows, changes)
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
    others = (name for name in schema.columns if name not in (target, schema.unit.column))
    names = tuple(others if method.candidates is None else method.candidates)
    if method.candidates is None and words.choose_k == "stop" and method.k is None:
        # a column of one level tells nothing apart, whatever it says about rows outside of it
        columns = [schema.column(name) for name in names]
        names = tuple(one.name for one in columns if one.numeric or len(one.levels) > 1) or names
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
    rows = schema.rows_or_nominal
    if rows is None:
        if schema.neighbours == "replace-one":
            raise PlanError(
                f"Schema '{schema.name}' declares no size, and choosing columns depends on it. "
                f"The number of units is public "
                "under replace-one: add size = ... to [dataset]."
            )
        if method.threshold is None:
            check_total_is_paid(schema, method.count_share)
        return None
    if rows > MAX_ROWS:
        raise PlanError(
            f"A projected histogram takes at most {MAX_ROWS:,} rows; the schema allows {rows:,}."
        )
    return rows


def _columns(count: ColumnCount) -> str:
    if count.least == count.most:
        return f"{count.most} column{'s' if count.most > 1 else ''}"
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
