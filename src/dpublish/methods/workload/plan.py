"""Which way of answering a list errs least, and the words for it: from public facts alone."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism
from dpublish.methods.histogram.mechanism import CountSettings, Histogram
from dpublish.methods.multiplicative_weights.mechanism import MultiplicativeWeights, WeightsSettings
from dpublish.methods.net.mechanism import Net, NetSettings, multiset_at
from dpublish.methods.query_list import multiset_scores, reweigh, weighted_answers
from dpublish.methods.workload.measurement import list_sensitivity
from dpublish.methods.workload.strategy import Part, Strategy, best_strategy, mean_square
from dpublish.models.noisy_counts import Suppression
from dpublish.models.residuals import Grouping
from dpublish.privacy.budget_split import BudgetSplit, noise_variance
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan
from dpublish.workloads.query_classes import (
    Intervals,
    Marginals,
    Predicates,
    QueryClass,
    members_of,
)

OTHERS: Mapping[str, Any] = {
    "histogram": Histogram,
    "multiplicative-weights": MultiplicativeWeights,
    "net": Net,
}
MAX_LISTED = 1 << 20
"""Cells over which answers are measured by themselves."""


@dataclass(frozen=True)
class Direct:
    """The better of two ways to measure: tables, or every query by itself (`strategy` None)."""

    strategy: Strategy | None
    sensitivity: Fraction
    mean_square: float
    """By the weights of the parts."""
    squares: tuple[float, ...]
    """The mean of each class of the list."""


def best_direct(
    queries: QueryClass,
    domain: Domain,
    groups: Sequence[Sequence[Part]],
    budget: BudgetSplit,
    known: int | None,
    listed: Domain | None = None,
) -> Direct | None:
    """`groups` has the parts of each class of the list; `listed` the columns that it looks at,
    where these are not all."""
    classes = members_of(queries)
    public = known is not None
    strategy = best_strategy(
        [part for parts in groups for part in parts],
        domain,
        budget,
        rows_are_public=public,
        ranges=any(isinstance(one, Intervals | Predicates) for one in classes),
    )
    found = []
    if strategy is not None:
        squares = tuple(
            mean_square(strategy, [replace(one, weight=1.0) for one in parts], budget, public)
            for parts in groups
        )
        found.append(Direct(strategy, budget.sensitivity, strategy.mean_square, squares))
    try:
        only_tables = all(isinstance(one, Marginals) for one in classes)
        table = None if only_tables else queries.table(listed or domain)
    except (PlanError, MemoryError):
        table = None
    if table is not None and (listed or domain).size <= MAX_LISTED:
        moved = list_sensitivity(table, budget)
        square = square_of_one(moved, budget, queries)
        found.append(Direct(None, moved, square, (square,) * len(groups)))
    return min(found, key=lambda one: one.mean_square, default=None)


def square_of_one(sensitivity: Fraction, budget: BudgetSplit, queries: QueryClass) -> float:
    """The mean square error of a query that is measured by itself."""
    scale = budget.scale_for(sensitivity, Fraction(1))
    return noise_variance(scale, budget.law) / queries.unit**2


def consider(
    name: str,
    queries: QueryClass,
    schema: Schema,
    cost: Cost,
    domain: Domain,
    bins: int | None,
    groups: Sequence[Sequence[Part]],
    plans: dict[str, tuple[Mechanism, Plan]],
    squares: dict[str, tuple[float, ...]],
    reasons: dict[str, str],
) -> None:
    """Plan another method for the same list, and forecast the mean square of its error for each
    class of the list, or say why not."""
    if cost.kind != "pure":
        reasons[name] = "it needs a pure epsilon"
        return
    extra: dict[str, Any] = {"bin_share": 0} if name == "histogram" else {"queries": queries}
    method: Mechanism = OTHERS[name](columns=list(domain.names), bins=bins, **extra)
    try:
        inner = method.plan(schema, cost)
    except PlanError as error:
        reasons[name] = str(error).partition(". ")[0].rstrip(".")
        return
    if inner.domain != domain:
        reasons[name] = "it would use other bins"
        return
    plans[name] = (method, inner)
    rows = schema.rows_or_nominal
    found = None
    if rows is not None and domain.size <= MAX_CELLS:
        if name == "histogram":
            found = histogram_squares(groups, domain, rows, inner.settings)
        elif name == "net":
            found = net_squares(domain, rows, inner.settings, float(cost.epsilon))
        else:
            found = weights_squares(domain, rows, inner.settings)
    if found is None:
        reasons[name] = "trying it on made-up tables of this size takes too long"
        return
    squares[name] = found


def shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def comparison(
    errors: Mapping[str, float], reasons: Mapping[str, str], chosen: str, answer: str
) -> Iterator[str]:
    names = {"direct": "measuring directly"}
    said = [
        f"{names.get(name, name)} {error:,.4g}"
        for name, error in sorted(errors.items(), key=lambda one: one[1])
    ]
    if said:
        yield (
            f"Expected error of a query (root mean square, in rows): {'; '.join(said)}. Measuring "
            "directly has this error on any rows, and less where counts are small, since answers "
            "below 0 are raised to 0; the others were tried on two made-up tables, and the larger "
            "error counts."
        )
    if reasons:
        each = "; ".join(f"{name} ({why[:90]})" for name, why in reasons.items())
        yield f"Not compared: {each}."
    yield f"Taken{'' if answer == 'best' else ', as asked for'}: {names.get(chosen, chosen)}."


def words_of(
    ours: Direct, domain: Domain, budget: BudgetSplit, whole: str = "the budget"
) -> list[str]:
    law = "discrete Laplace" if budget.law == "laplace" else "discrete Gaussian"
    if ours.strategy is None:
        return [f"Every answer gets {law} noise by itself."]
    grouping, named = ours.strategy.grouping, []
    for one in sorted(ours.strategy.measurements, key=lambda one: -one.share)[:8]:
        columns = " x ".join(_resolved(domain, grouping, place, level) for place, level in one.at)
        named.append(
            f"{'residual of ' if one.form == 'residual' else ''}{columns or 'all rows'} "
            f"({float(one.share):.1%})"
        )
    count = len(ours.strategy.measurements)
    more = f" and {count - 8} more" if count > 8 else ""
    return [
        f"{count} table{'s are' if count > 1 else ' is'} measured with {law} noise, by shares of "
        f"{whole}: {', '.join(named)}{more}. Every answer is unbiased, and its variance known."
    ]


def _resolved(domain: Domain, grouping: Grouping, place: int, level: int) -> str:
    column = grouping.columns[place]
    name = domain.axes[place].name
    return name if level == column.finest else f"{name} in {column.groups(level)} runs"


def quoted(chosen: str, inner: Plan | None) -> list[str]:
    return [] if inner is None else [f"{chosen}: {line}" for line in inner.sentences[2:4]]


# What other methods would err by on a list of queries, before any row is read.
#
# Measuring directly has the same error whatever the rows are. A thresholded histogram,
# multiplicative weights and the net do better on some tables than on others, so they are tried on
# *stand-ins*: made up tables with the public number of rows over the public domain, one with all
# declared values alike, one in which every column falls off as Zipf's law. What was not declared
# is taken not to occur. The larger of the errors counts. Nothing here reads rows, and no number
# here is private.


MAX_CELLS = 1 << 20
MAX_WORK = 1 << 27
MAX_TRIED = 1 << 22
"""Counts times noise that are held at once."""
MAX_PASSES = 5
DRAWS = 32


def stand_ins(domain: Domain, rows: int) -> Iterator[Floats]:
    """Whole numbers of rows in every cell, as two public guesses have it."""
    for falling in (0.0, 1.0):
        shares = np.ones(())
        for axis in domain.axes:
            ranks = np.arange(1, axis.base + 1, dtype=np.float64)
            column = np.zeros(axis.cardinality)
            column[: axis.base] = ranks**-falling
            shares = np.multiply.outer(shares, column / column.sum())
        yield _whole(shares.reshape(-1), rows).reshape(domain.shape)


def _whole(shares: Floats, rows: int) -> Floats:
    """As many rows, whole ones: fractions of a row are carried on to the next cell of an order
    that mixes all columns."""
    size = shares.size
    stride = next(
        step for step in range(int(size * 0.618) | 1, 2 * size + 2) if math.gcd(step, size) == 1
    )
    order = np.arange(size, dtype=np.int64) * stride % size
    upto = np.rint(np.cumsum(shares[order]) * rows)
    counts = np.zeros(size)
    counts[order] = np.diff(upto, prepend=0.0)
    return counts


def histogram_squares(
    groups: Sequence[Sequence[Part]], domain: Domain, rows: int, settings: CountSettings
) -> tuple[float, ...] | None:
    """The mean square error of a thresholded histogram, for each class of a list the larger one of
    the stand-ins; None where its threshold is not known beforehand."""
    if settings.threshold is None:
        return None
    law = Suppression(settings.threshold, settings.scale)
    return _larger(
        [_thresholded_square(parts, domain, table, law) for parts in groups]
        for table in stand_ins(domain, rows)
    )


def _larger(each: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return tuple(max(some) for some in zip(*each, strict=True))


def _by_class(squares: Floats, queries: QueryClass, domain: Domain) -> list[float]:
    """Means over the queries of each class of a list."""
    sizes = [one.size(domain) for one in members_of(queries)]
    return [float(some.mean()) for some in np.split(squares, np.cumsum(sizes)[:-1])]


def _moments(
    counts: Floats, noise: Ints, chance: Floats, law: Suppression
) -> tuple[Floats, Floats, Floats]:
    """What noisy counts are on average where small ones are left out, their variance, and how
    often that befalls them."""
    noisy = counts[:, None] + noise
    seen = noisy > law.threshold
    score = np.where(seen, noisy, -law.shortfall)
    mean = score @ chance
    return mean, np.square(score - mean[:, None]) @ chance, (~seen) @ chance


def _thresholded_square(
    parts: Sequence[Part], domain: Domain, table: Floats, law: Suppression
) -> float:
    counts, place = np.unique(table, return_inverse=True)
    scale = float(law.scale)
    # fine enough, unless there are more counts than there is time to try them all at
    step = max(1, math.ceil(scale / 50), math.ceil(50 * scale * counts.size / MAX_WORK))
    noise = np.arange(-math.ceil(25 * scale) // step, math.ceil(25 * scale) // step + 1) * step
    chance = np.exp(-np.abs(noise) / scale)
    chance /= chance.sum()
    found = [
        _moments(some, noise, chance, law)
        for some in np.array_split(counts, -(-counts.size * noise.size // MAX_TRIED))
    ]
    mean, spread, hidden = (np.concatenate(some) for some in zip(*found, strict=True))
    cells = np.stack([table, *(one[place].reshape(table.shape) for one in (mean, spread, hidden))])
    left = max(0.0, float(cells[0].sum() - cells[1].sum()))
    every = max(1e-9, float(cells[3].sum()))
    squares = 0.0
    for part in parts:
        rest = tuple(axis + 1 for axis in range(len(domain.axes)) if axis not in part.places)
        over = cells.sum(axis=rest).reshape(4, -1)
        if part.values is not None:
            values = part.values.reshape(len(part.values), -1).astype(np.float64)
            truth, said, unseen = (values @ over[one] for one in (0, 1, 3))
            over = np.stack([truth, said, values**2 @ over[2], unseen])
        off = over[1] + left * over[3] / every - over[0]
        squares += float((off**2 + over[2]).mean()) * part.count
    return squares / sum(part.count for part in parts)


def weights_squares(
    domain: Domain, rows: int, settings: WeightsSettings
) -> tuple[float, ...] | None:
    """The same of multiplicative weights, run once on each stand-in with fewer passes; None where
    that would take long."""
    work = max(settings.queries, settings.rounds * MAX_PASSES)
    if work * settings.rounds * domain.size > MAX_WORK:
        return None
    table = settings.query_class.table(domain)
    unit = settings.query_class.unit
    scale = float(settings.sensitivity / settings.step_epsilon)
    found = []
    for place, stand_in in enumerate(stand_ins(domain, rows)):
        truth = weighted_answers(table, stand_in.reshape(-1))
        weights = np.full(domain.size, rows / domain.size)
        asked: list[tuple[int, float]] = []
        for turn in range(settings.rounds):
            said = weighted_answers(table, weights)
            draws = _uniform(f"{place}:{turn}", len(table) + 2)
            query = int(np.argmax(np.abs(truth - said) - 2 * scale * np.log(-np.log(draws[2:]))))
            noise = scale * math.log(draws[0] / draws[1])
            asked.append((query, min(max((truth[query] + noise) / unit, 0.0), rows)))
            for _ in range(MAX_PASSES):
                for one, answer in reversed(asked):
                    reweigh(weights, table[one] / unit, answer, float(rows))
        off = (weighted_answers(table, weights) - truth) / unit
        found.append(_by_class(np.square(off), settings.query_class, domain))
    return _larger(found)


def net_squares(
    domain: Domain, rows: int, settings: NetSettings, epsilon: float
) -> tuple[float, ...] | None:
    """The same of the net mechanism, from the law of its choice on each stand-in; None where
    looking at all data sets would take long."""
    if settings.multisets * settings.queries > MAX_WORK:
        return None
    table = settings.query_class.table(domain)
    scores = np.empty(settings.multisets, dtype=np.int64)
    found = []
    for stand_in in stand_ins(domain, rows):
        truth = weighted_answers(table, stand_in.reshape(-1))
        target = np.rint(settings.points * truth).astype(np.int64)
        multiset_scores(target, rows * table.astype(np.int64), settings.points, scores)
        chance = np.exp((scores - scores.max()) * (epsilon / (2 * float(settings.sensitivity))))
        upto = np.cumsum(chance / chance.sum())
        squares = np.zeros(len(table))
        for draw in range(DRAWS):
            index = min(int(np.searchsorted(upto, (draw + 0.5) / DRAWS)), settings.multisets - 1)
            cells = multiset_at(index, domain.size, settings.points)
            said = table[:, cells].sum(axis=1) * (rows / settings.points)
            squares += np.square((said - truth) / settings.query_class.unit) / DRAWS
        found.append(_by_class(squares, settings.query_class, domain))
    return _larger(found)


def _uniform(name: str, count: int) -> Floats:
    """Numbers between 0 and 1 that are the same everywhere; they stand for noise in a forecast and
    for nothing else."""
    drawn = hashlib.shake_128(name.encode()).digest(4 * count)
    return (np.frombuffer(drawn, dtype="<u4") + 0.5) / 2**32
