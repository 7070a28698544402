"""Regression and tests of independence from a release, with the columns of an ordinary table.

The regression is fitted to the table of its columns that the release gives: numbers stand for the
middles of their bins, levels are compared with the first. Standard errors come from the bootstrap,
so that they cover noise and sampling; the usual ones, which take synthetic rows for real ones,
would be far too small.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.declare.domain import Axis
from dpublish.errors import QueryError, did_you_mean
from dpublish.estimate import Estimate, check_level, whole_number
from dpublish.models.noisy_counts import normal_quantile

if TYPE_CHECKING:
    from dpublish.releases.resampled import ResampledRelease


# Limits for whatever can be computed from a release.
#
# People are drawn from the model that the release publishes, the published measurements are made
# of them again with the noise that the release states, and what can be read from the new release
# is compared with what was read from the first. The spread covers both that the rows are a sample
# of a population and that noise was added. It rests on the model: what columns that were not
# counted together have to do with each other is the model's guess, in every run the same, and the
# spread cannot show how wrong it is. A warning says where that matters.

COVERS = (
    "from {runs} runs that draw people from the release's model and repeat its noise: covers "
    "sampling and noise, as far as the model holds"
)
MAX_RUNS = 10_000


@dataclass(frozen=True)
class Spread:
    """What a statistic is, and what it was in every run."""

    value: Floats
    runs: Floats

    @property
    def error(self) -> Floats:
        return np.asarray(self.runs.std(axis=0, ddof=1))

    @property
    def bias(self) -> Floats:
        """How far reading a release of the model misses the model, on average."""
        return np.asarray(self.runs.mean(axis=0) - self.value)

    @property
    def distance_from_none(self) -> Floats:
        """How far the value is from 0 once its bias has been allowed for as the limits allow for
        it, so that a test at 5% and a 95% interval say the same."""
        middle = self.value - self.bias
        return np.asarray(np.sign(middle) * np.maximum(0.0, np.abs(middle) - np.abs(self.bias)))

    def limits(self, level: float) -> tuple[Floats, Floats]:
        """A normal interval around the value without its bias, wider by the bias itself, which is
        known for the model and not for the truth."""
        reach = normal_quantile((1 - level) / 2) * self.error + np.abs(self.bias)
        middle = self.value - self.bias
        return middle - reach, middle + reach


def spread_of(
    release: ResampledRelease,
    statistic: Callable[[Any], Floats],
    *,
    runs: int,
    seed: int | None,
) -> Spread:
    """A statistic of releases, of this one and of `runs` that are made like it."""
    number = whole_number("runs", runs, 20, MAX_RUNS)
    value = _numbers(statistic(release))
    found = []
    for other in release.replicates(number, seed=seed):
        one = _numbers(statistic(other))
        if one.shape != value.shape:
            raise QueryError("The function must give as many numbers in every run.")
        found.append(one)
    return Spread(value, np.stack(found))


def bootstrap(
    release: ResampledRelease,
    function: Callable[[pl.DataFrame], float],
    *,
    runs: int,
    level: float,
    rows: int | None,
    seed: int | None,
) -> Estimate:
    """Limits of a number that is computed from rows."""
    check_level(level)
    number = max(1_000, int(release.rows)) if rows is None else rows

    def statistic(one: Any) -> Floats:
        return np.array([_number(function(one.sample(number, seed=0)))])

    found = spread_of(release, statistic, runs=runs, seed=seed)
    low, high = found.limits(level)
    return Estimate(
        float(found.value[0]),
        float(found.error[0]),
        min(float(low[0]), float(found.value[0])),
        max(float(high[0]), float(found.value[0])),
        float(level),
        measure="statistic",
        note=COVERS.format(runs=runs),
        details={"bias": float(found.bias[0])},
    )


def _number(value: Any) -> float:
    if isinstance(value, Mapping) or not isinstance(value, Real | np.generic):
        raise QueryError(
            f"The function must return one number of a frame of rows, not {type(value).__name__}."
        )
    return float(value)


def _numbers(values: Floats) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    if not np.isfinite(found).all():
        raise QueryError("The function gave a number that is not finite.")
    return found


MAX_CELLS = 1 << 20
_STEPS = 50
_RIDGE = 1e-9
APART = (
    "{pairs} were not counted together: how they go together is the model's guess, and no limit "
    "here covers how wrong it is"
)


@dataclass(frozen=True)
class Regression:
    """A fitted regression: `table` has term, estimate, standard_error, z, p_value, low, high."""

    formula: str
    family: str
    table: pl.DataFrame
    level: float
    note: str
    warnings: tuple[str, ...] = ()

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def __str__(self) -> str:
        heads = ("estimate", "std. error", "z", "p", "low", "high")
        lines = [
            f"{self.formula} ({self.family}, {100 * self.level:.4g}% intervals)",
            f"{'term':<28}" + "".join(f"{head:>12}" for head in heads),
        ]
        for term, *numbers in self.table.iter_rows():
            lines.append(f"{term[:27]:<28}" + "".join(f"{one:>12.4g}" for one in numbers))
        return "\n".join([*lines, self.note, *self.warnings])

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{html.escape(line)}</p>" for line in (self.note, *self.warnings))
        return f"{self.table._repr_html_()}{said}"


@dataclass(frozen=True)
class Independence:
    """A test of whether two columns have to do with each other."""

    statistic: float
    p_value: float
    runs: int
    note: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Design:
    """The cells of the columns of a formula: the rows of a design matrix, the target, and which
    cells have all their values."""

    places: tuple[int, ...]
    terms: tuple[str, ...]
    matrix: Floats
    target: Floats
    known: NDArray[np.bool_]


def regress(
    release: ResampledRelease,
    formula: str,
    *,
    family: str,
    level: float,
    runs: int,
    seed: int | None,
) -> Regression:
    check_level(level)
    target, terms = _read(formula, release.domain.names)
    axis = release.domain.axis(target)
    binary = axis.kind == "boolean" or (not axis.numeric and axis.base == 2)
    chosen = ("logistic" if binary else "linear") if family == "auto" else family
    if chosen not in ("linear", "logistic") or (chosen == "linear" and not axis.numeric):
        raise QueryError(
            "family must be 'linear' (for a target of numbers), 'logistic' (for one of two "
            f"levels) or 'auto', not {family!r} for '{target}'."
        )
    if chosen == "logistic" and not binary:
        raise QueryError(f"A logistic regression needs a target of two levels; '{target}' is not.")
    design = _design(release, target, terms)

    def coefficients(one: Any) -> Floats:
        counts = np.maximum(one.cell_counts(design.places), 0.0).ravel()[design.known]
        if chosen == "logistic":
            return _logistic(design.matrix, design.target, counts)
        return _solved(design.matrix, counts, counts * design.target)

    found = spread_of(release, coefficients, runs=runs, seed=seed)
    low, high = found.limits(level)
    z = found.distance_from_none / np.maximum(found.error, 1e-300)
    table = pl.DataFrame(
        {
            "term": design.terms,
            "estimate": found.value,
            "standard_error": found.error,
            "z": z,
            "p_value": [math.erfc(abs(one) / math.sqrt(2)) for one in z.tolist()],
            "low": np.minimum(low, found.value),
            "high": np.maximum(high, found.value),
        }
    )
    return Regression(
        formula,
        chosen,
        table,
        float(level),
        COVERS.format(runs=runs) + ".",
        _apart(release, target, terms),
    )


def _apart(release: ResampledRelease, column: str, others: Sequence[str]) -> tuple[str, ...]:
    """A warning of columns that were not counted together with one."""
    apart = [
        f"'{column}' and '{name}'" for name in others if not release.counted_together(column, name)
    ]
    return (APART.format(pairs="; ".join(apart)) + ".",) if apart else ()


def independence(
    release: ResampledRelease, first: str, second: str, *, runs: int, seed: int | None
) -> Independence:
    """Pearson's statistic against what it is in runs of a release without the dependence: errors of
    the table as the bootstrap finds them, around the product of the margins."""
    names = release.domain.names
    for name in (first, second):
        if name not in names:
            raise QueryError(f"There is no column '{name}'.{did_you_mean(name, names)}")
    if first == second:
        raise QueryError("Name two different columns.")
    places = tuple(sorted(names.index(name) for name in (first, second)))

    def table(one: Any) -> Floats:
        return np.asarray(one.cell_counts(places))

    found = spread_of(release, table, runs=runs, seed=seed)
    observed, expected = _pearson(found.value)
    simulated = np.array([_pearson(expected + (run - found.value))[0] for run in found.runs])
    return Independence(
        statistic=observed,
        p_value=(1 + int((simulated >= observed).sum())) / (runs + 1),
        runs=runs,
        note=COVERS.format(runs=runs) + ".",
        warnings=_apart(release, first, [second]),
    )


def _pearson(table: Floats) -> tuple[float, Floats]:
    counts = np.maximum(table, 0.0)
    total = max(float(counts.sum()), 1e-9)
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    return float(((table - expected) ** 2 / np.maximum(expected, 1.0)).sum()), expected


def _read(formula: str, names: tuple[str, ...]) -> tuple[str, list[str]]:
    if not isinstance(formula, str) or formula.count("~") != 1:
        raise QueryError("Write a formula such as 'ill ~ age + ward'.")
    left, right = (side.strip() for side in formula.split("~"))
    terms = [term.strip().strip('"') for term in right.split("+")]
    left = left.strip('"')
    for name in (left, *terms):
        if name not in names:
            raise QueryError(
                f"There is no column '{name[:60]}'.{did_you_mean(name, names)} A formula adds "
                f"columns: {names[0]} ~ {' + '.join(names[1:3])}."
            )
    if left in terms or len(set(terms)) != len(terms):
        raise QueryError("A column is named twice in the formula.")
    return left, terms


def _design(release: ResampledRelease, target: str, terms: list[str]) -> _Design:
    domain = release.domain
    places = tuple(sorted(domain.names.index(name) for name in (target, *terms)))
    shape = tuple(domain.axes[place].cardinality for place in places)
    if math.prod(shape) > MAX_CELLS:
        raise QueryError(
            f"The table of these columns has {math.prod(shape):,} cells; at most {MAX_CELLS:,} are "
            "worked with. Name fewer columns."
        )
    codes = dict(zip(places, np.unravel_index(np.arange(math.prod(shape)), shape), strict=True))
    known = np.ones(math.prod(shape), dtype=np.bool_)
    labels, columns = ["(intercept)"], [np.ones(math.prod(shape))]
    for name in terms:
        axis, code = domain.axis(name), codes[domain.names.index(name)]
        if axis.numeric:
            known &= code < axis.base
            labels.append(name)
            columns.append(_middles(axis)[code])
            continue
        known &= code != (axis.missing_code if axis.missing_code is not None else -1)
        for level in range(1, axis.base + int(axis.other)):
            labels.append(f"{name} = {axis.label(level)}")
            columns.append((code == level).astype(np.float64))
    axis, code = domain.axis(target), codes[domain.names.index(target)]
    known &= code < axis.base
    values = _middles(axis)[code] if axis.numeric else (code == 1).astype(np.float64)
    matrix = np.stack(columns, axis=1)
    return _Design(places, tuple(labels), matrix[known], values[known], known)


def _middles(axis: Axis) -> Floats:
    found = [axis.midpoint(code) for code in range(axis.base)]
    return np.array([*found, *[0.0] * (axis.cardinality - axis.base)])


def _solved(matrix: Floats, weights: Floats, values: Floats) -> Floats:
    """Weighted least squares; a term without rows gets next to nothing."""
    gram = (matrix * weights[:, None]).T @ matrix
    gram.flat[:: len(gram) + 1] += _RIDGE * max(1.0, float(np.trace(gram)) / len(gram))
    return np.asarray(np.linalg.solve(gram, matrix.T @ values))


def _logistic(matrix: Floats, target: Floats, weights: Floats) -> Floats:
    """Newton's steps, each shortened where it would leave the numbers behind."""
    beta = np.zeros(matrix.shape[1])
    for _ in range(_STEPS):
        chance = 1.0 / (1.0 + np.exp(-np.clip(matrix @ beta, -30.0, 30.0)))
        bend = weights * np.maximum(chance * (1.0 - chance), 1e-9)
        step = _solved(matrix, bend, weights * (target - chance))
        length = min(1.0, 5.0 / max(1e-300, float(np.abs(matrix @ step).max())))
        beta = beta + length * step
        if float(np.abs(step).max()) < 1e-8:
            break
    return beta
