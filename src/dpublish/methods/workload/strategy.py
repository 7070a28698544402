"""Which tables to measure for a list of queries, and with which shares of the budget: worked out
from the list alone.

The list is parts: queries over a few columns each. What a strategy errs by follows exactly from
the precision with which it knows each residual (`models/residuals.py`): the mean of the squares is
the sum over residuals of (what the queries ask of it) / precision. Shares that make it small are
found by descent from several starts; for Gaussian noise the problem is convex, and residuals
measured by themselves start at the closed solution of Xiao et al. (2023).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.declare.domain import Domain
from dpublish.errors import PlanError, QueryError
from dpublish.methods.workload.measurement import Measurement, padded
from dpublish.models.residuals import (
    Coarsening,
    Form,
    Grouping,
    Measured,
    Resolution,
    balanced,
)
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.workloads.query_classes import (
    Intervals,
    Marginals,
    MixedQueries,
    Parities,
    Predicates,
    QueryClass,
    refused,
)

MAX_TABLE = 1 << 20
"""Cells of one measured table."""
MAX_RESIDUALS = 4000
MAX_VALUES = 1 << 25
"""Values of queries that are looked at to choose a strategy; of longer lists evenly spread ones."""
MAX_FACTOR = 1 << 20
"""The largest product of radices: a residual of up to 2^40 rows stays within 64 bits."""
GRID = 1_000_000
LEAST_SHARE = 0.002


@dataclass(frozen=True)
class Part:
    """Queries over some columns: `values` has one row per query, over their cells; None stands for
    every cell alone. Where only some were looked at, `count` is the number of all. `weight` is what
    the square of the error of one of them counts."""

    places: tuple[int, ...]
    values: NDArray[np.generic] | None
    count: int
    weight: float = 1.0


@dataclass(frozen=True)
class Strategy:
    """What is measured, and the mean square error of the queries, by their weights, that
    follows."""

    grouping: Grouping
    measurements: tuple[Measurement, ...]
    mean_square: float


# -- the list


def asked_columns(queries: QueryClass, domain: Domain) -> tuple[int, ...]:
    """The columns that the queries look at."""
    if isinstance(queries, MixedQueries):
        return tuple(
            sorted({place for one in queries.members for place in asked_columns(one, domain)})
        )
    if isinstance(queries, Predicates):
        from dpublish.query.predicate import columns_of, parse_predicate

        found: set[int] = set()
        for text in queries.predicates:
            try:
                found |= columns_of(parse_predicate(text, domain))
            except QueryError as error:
                raise refused(text, error) from None
        return tuple(sorted(found)) or (0,)
    if isinstance(queries, Intervals):
        return tuple(queries.axes(domain)) or (0,)
    return tuple(range(len(domain.axes)))


def width_of(queries: QueryClass, domain: Domain) -> int:
    """How many columns the queries of one class look at together."""
    if isinstance(queries, Marginals):
        return queries.width
    return 1 if isinstance(queries, Intervals) else len(asked_columns(queries, domain))


def parts_of(queries: QueryClass, domain: Domain) -> list[Part]:
    """The queries by the columns they look at."""
    if isinstance(queries, MixedQueries):
        return [part for one in queries.members for part in parts_of(one, domain)]
    if isinstance(queries, Marginals):
        places = range(len(domain.axes))
        return [
            Part(some, None, math.prod(domain.shape[place] for place in some))
            for width in range(1, min(queries.width, len(domain.axes)) + 1)
            for some in itertools.combinations(places, width)
        ]
    if isinstance(queries, Intervals):
        return [_ranges(place, domain) for place in queries.axes(domain)]
    if isinstance(queries, Predicates):
        return list(_predicates(queries, domain))
    if isinstance(queries, Parities):
        return [
            Part(axes, (np.indices([2] * len(axes)).sum(axis=0) % 2 == 0)[None], 1)
            for axes in queries.subsets(domain)
        ]
    table = queries.table(domain)
    kept = table[:: max(1, -(-table.size // MAX_VALUES))] / queries.unit
    return [Part(tuple(range(len(domain.axes))), kept.reshape(-1, *domain.shape), table.shape[0])]


def _ranges(place: int, domain: Domain) -> Part:
    axis = domain.axes[place]
    ends = np.arange(0, axis.base, max(1, axis.base // 128))
    low, high = (side.reshape(-1, 1) for side in np.meshgrid(ends, ends))
    codes = np.arange(axis.cardinality)
    values = (codes >= low) & (codes <= high) & (low <= high)
    return Part((place,), values[(low <= high)[:, 0]], axis.base * (axis.base + 1) // 2)


def _predicates(queries: Predicates, domain: Domain) -> Iterator[Part]:
    from dpublish.query.masks import cover_table
    from dpublish.query.predicate import columns_of, parse_predicate

    found: dict[tuple[int, ...], list[Floats]] = {}
    for text in queries.predicates:
        node = parse_predicate(text, domain)
        places = tuple(sorted(columns_of(node))) or (0,)
        shape = [domain.shape[place] for place in places]
        if math.prod(shape) > MAX_TABLE:
            raise PlanError(
                f"Predicate '{text[:80]}' looks at {math.prod(shape):,} cells of "
                f"{', '.join(domain.axes[place].name for place in places)}; at most {MAX_TABLE:,} "
                "can be measured. Give these columns fewer bins."
            )
        found.setdefault(places, []).append(cover_table(node, domain, places).share)
    for places, values in found.items():
        step = max(1, -(-len(values) * values[0].size // MAX_VALUES))
        yield Part(places, np.stack(values[::step]), len(values))


# -- what the list asks of each residual


def asked_squares(parts: Sequence[Part], grouping: Grouping) -> dict[Resolution, float]:
    """The sum over all queries, by weight, of the square of what each residual is multiplied by."""
    asked: dict[Resolution, float] = {}
    for part in parts:
        at = grouping.finest(part.places)
        if part.values is None:
            squares = {
                one: grouping.share_left(one) * grouping.cells(one) ** 2 / grouping.cells(at)
                for one in grouping.coarser(at)
            }
        else:
            values = padded(part.values.astype(np.float64), grouping, at)
            times = part.count / part.values.shape[0]
            squares = {
                one: times * float(np.square(found).sum())
                for one, found in grouping.mean_residuals(values, at).items()
            }
        least = 1e-12 * max(squares.values())  # what rounding leaves of a residual is nothing
        for one, square in squares.items():
            asked[one] = asked.get(one, 0.0) + (part.weight * square if square > least else 0.0)
    return asked


def total_weight(parts: Sequence[Part]) -> float:
    return sum(part.weight * part.count for part in parts)


# -- the choice


def best_strategy(
    parts: Sequence[Part],
    domain: Domain,
    budget: BudgetSplit,
    *,
    rows_are_public: bool,
    ranges: bool,
) -> Strategy | None:
    """The tables and residuals with the least mean square error that was found; None where the
    list needs a table that is too large."""
    tried = [Grouping(tuple(Coarsening((axis.cardinality,)) for axis in domain.axes))]
    if ranges:
        tried += [
            Grouping(
                tuple(
                    balanced(axis.cardinality, levels)
                    if axis.ordered and axis.cardinality >= 2 ** (levels + 1)
                    else Coarsening((axis.cardinality,))
                    for axis in domain.axes
                )
            )
            for levels in (2, 3, 4)
        ]
    found = [
        one
        for grouping in dict.fromkeys(tried)
        if (one := _optimised(parts, grouping, budget, rows_are_public)) is not None
    ]
    return min(found, key=lambda one: one.mean_square, default=None)


def _optimised(
    parts: Sequence[Part], grouping: Grouping, budget: BudgetSplit, rows_are_public: bool
) -> Strategy | None:
    targets = list(dict.fromkeys(grouping.finest(part.places) for part in parts))
    if max(grouping.cells(at) for at in targets) > MAX_TABLE:
        return None
    if sum(math.prod(level + 1 for _, level in at) for at in targets) > 4 * MAX_RESIDUALS:
        return None
    asked = asked_squares(parts, grouping)
    needed = [one for one in asked if asked[one] > 0 and (one or not rows_are_public)]
    if len(asked) > MAX_RESIDUALS or not needed:
        return None
    each = [
        Measurement(form, at, Fraction(1))
        for form, at in _candidates(targets, list(asked), grouping, rows_are_public)
    ]
    known = {one: place for place, one in enumerate(needed)}
    says = np.zeros((len(each), len(needed)))
    for row, one in enumerate(each):
        for at, precision in _precisions(one, grouping, budget).items():
            if at in known:
                says[row, known[at]] = precision
    weights = np.array([asked[one] for one in needed]) / total_weight(parts)
    kept = _rounded(_descend(says, weights, 2 if budget.law == "laplace" else 1), says)
    measurements = tuple(
        Measurement(one.form, one.at, share) for one, share in zip(each, kept, strict=True) if share
    )
    strategy = Strategy(grouping, measurements, 0.0)
    return replace(strategy, mean_square=mean_square(strategy, parts, budget, rows_are_public))


def mean_square(
    strategy: Strategy, parts: Sequence[Part], budget: BudgetSplit, rows_are_public: bool
) -> float:
    """What queries err by, by their weights; they may be some of those that it was chosen for."""
    needed = {
        one: square
        for one, square in asked_squares(parts, strategy.grouping).items()
        if square > 0 and (one or not rows_are_public)
    }
    return squared_error(strategy.measurements, strategy.grouping, budget, needed) / total_weight(
        parts
    )


def squared_error(
    measurements: Sequence[Measurement],
    grouping: Grouping,
    budget: BudgetSplit,
    asked: Mapping[Resolution, float],
) -> float:
    """The sum of the squares of what all queries err by."""
    total: dict[Resolution, float] = {}
    for one in measurements:
        for at, precision in _precisions(one, grouping, budget).items():
            total[at] = total.get(at, 0.0) + precision
    return sum(value / total[at] for at, value in asked.items())


def _precisions(
    one: Measurement, grouping: Grouping, budget: BudgetSplit
) -> dict[Resolution, float]:
    return Measured(one.form, one.at, one.variance(grouping, budget)).precisions(grouping)


def _candidates(
    targets: Sequence[Resolution],
    closure: Sequence[Resolution],
    grouping: Grouping,
    rows_are_public: bool,
) -> list[tuple[Form, Resolution]]:
    """Tables of the list and those they add up to, tables over more columns that hold several of
    them, and residuals."""
    places = sorted({place for at in targets for place, _ in at})
    wide = {grouping.finest(places)}
    if len(places) <= 6:
        wide |= {
            grouping.finest(some)
            for width in range(2, len(places) + 1)
            for some in itertools.combinations(places, width)
        }
    elif len(targets) <= 40:
        wide |= {
            grouping.finest({place for place, _ in (*one, *other)})
            for one, other in itertools.combinations(targets, 2)
        }
    tables = [at for at in closure if at or not rows_are_public]
    tables += sorted(at for at in wide - set(closure) if grouping.cells(at) <= MAX_TABLE)
    residuals = [
        at
        for at in closure
        if at and math.prod(grouping.radices(at)) <= MAX_FACTOR and min(grouping.radices(at)) > 1
    ]
    return [*(("table", at) for at in tables), *(("residual", at) for at in residuals)]


def _descend(says: Floats, weights: Floats, power: int) -> Floats:
    """Shares with a small sum of weights / precisions, which are says @ share^power."""
    from scipy.optimize import minimize

    says = says / says.max()  # the shares do not depend on the unit, and no square overflows

    def loss(steps: Floats) -> tuple[float, Floats]:
        shares = np.exp(steps - steps.max())
        shares /= shares.sum()
        precision = shares**power @ says + 1e-100
        slope = -(says @ (weights / precision**2)) * power * shares ** (power - 1)
        value = float((weights / precision).sum())
        return math.log(value), shares * (slope - shares @ slope) / value

    def descend(start: Floats, steps: int) -> tuple[float, Floats]:
        begin = np.log(0.9 * start + 0.1 / len(says))
        found = minimize(loss, begin, jac=True, method="L-BFGS-B", options={"maxiter": steps})
        shares = np.exp(found.x - found.x.max())
        return float(found.fun), shares / shares.sum()

    large = says.size > 1 << 17
    steps = 60 if large else 200
    least, best = min(
        (descend(start, steps) for start in _starts(says, weights, few=large or power == 1)),
        key=lambda one: one[0],
    )
    # Laplace noise has many local answers: try to exchange one thing that is measured for another
    for _ in range(0 if power == 1 or large else 12):
        near = sorted(_exchanged(best), key=lambda shares: loss(np.log(shares + 1e-9))[0])
        value, shares = min((descend(start, steps) for start in near[:2]), key=lambda one: one[0])
        if value >= least - 1e-4:
            break
        least, best = value, shares
    return best


def _exchanged(shares: Floats) -> Iterator[Floats]:
    """Shares with one of the larger ones given to something else, or with a third for something
    new."""
    for one in np.eye(len(shares))[:200]:
        yield 2 / 3 * shares + one / 3
        for other in np.flatnonzero(shares > 0.02)[:12]:
            moved = shares + shares[other] * one
            moved[other] -= shares[other]
            yield moved


def _starts(says: Floats, weights: Floats, *, few: bool) -> Iterator[Floats]:
    """Everything alike; residuals by themselves, in proportion to the roots of their weights (where
    they cost alike per precision, that is the answer for Gaussian noise); then single tables that
    say something of everything, tables of one width, and the best two or three things at equal
    shares, since for Laplace noise there are many local answers."""
    count = len(says)
    yield np.full(count, 1 / count)
    reach = (says > 0).sum(axis=1)
    only = reach == 1
    if only.any() and (says[only] > 0).any(axis=0).all():
        most = np.maximum(says.max(axis=1), 1e-100)
        own = np.where(only, np.sqrt(weights[says.argmax(axis=1)] / most), 0.0)
        yield own / own.sum()
    if few:
        return
    for place in np.flatnonzero(reach == reach.max())[:3]:
        yield np.eye(count)[place]
    for size in sorted(set(reach.tolist()))[-3:]:
        some = (reach == size).astype(np.float64)
        yield some / some.sum()
    widest = np.argsort(-reach, kind="stable")[:30]
    for size in (2, 3):
        groups = np.array(list(itertools.combinations(widest, size)), dtype=np.int64)
        if not groups.size:
            continue
        precision = says[groups].sum(axis=1) / size**2
        errs = (weights / np.maximum(precision, 1e-100)).sum(axis=1)
        for place in np.argsort(errs)[:2]:
            yield np.bincount(groups[place], minlength=count) / size


def _rounded(shares: Floats, says: Floats) -> list[Fraction]:
    """Whole parts of 1 / GRID that add up to at most one, without those that do little, as long as
    something is said of everything."""
    order = np.argsort(shares)
    kept = np.ones(len(shares), dtype=np.bool_)
    for place in order:
        if shares[place] >= LEAST_SHARE:
            break
        kept[place] = False
        if not (says[kept] > 0).any(axis=0).all():
            kept[place] = True
    parts = np.where(kept, np.maximum(shares, 1 / GRID), 0.0)
    whole = np.where(kept, np.maximum(np.floor(GRID * parts / parts.sum()), 1), 0).astype(np.int64)
    whole[int(order[-1])] += GRID - int(whole.sum())
    assert whole.min() >= 0, "the largest share makes room for all that are needed"
    return [Fraction(int(part), GRID) for part in whole]
