"""How rich a class of queries is, and what no private answers to all of it can be: dimensions and
theorem 27 of Roth (2010).

`dp.theory` has these names too. The bound is derived in docs/theory.md, for both relations, with
delta. It is stronger than that of the thesis, whose proof compares data sets two steps apart as if
they were neighbours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from dpublish.errors import PlanError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

T = TypeVar("T")
MAX_SUBSETS = 2_000_000
PLAN_SUBSETS = 1_000
"""Sets of points that a plan tries; after that it makes do with a shattered set that it comes
across."""


def vc_dimension(predicates: ArrayLike, *, limit: int = MAX_SUBSETS) -> int:
    """The VC dimension of a finite class: `predicates` has one row per predicate and one column a
    point, of 0 and 1.

    Exact: the largest number of columns on which all patterns occur. Refuses classes that would
    need more than `limit` subsets; there `log2_bound` gives an upper bound, and `shattered_points`
    a lower one.
    """
    import numpy as np

    table = np.unique(np.asarray(predicates, dtype=np.bool_), axis=0)
    if table.ndim != 2 or table.size == 0:
        raise PlanError(
            "A class of predicates is a table with one row per predicate and one column per point."
        )
    table = np.unique(table, axis=1)  # equal points cannot be told apart, so one of them is enough
    # columns that do not vary shatter nothing
    table = table[:, (table.any(axis=0)) & (~table.all(axis=0))]

    def longer(subset: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        columns = range(subset[-1] + 1 if subset else 0, table.shape[1])
        return ((*subset, column) for column in columns)

    def shattered(chosen: tuple[int, ...]) -> bool:
        return _all_patterns(table[:, chosen])

    return _most_shattered(log2_bound(len(table)), longer, shattered, limit)


def _most_shattered(
    most: int,
    longer: Callable[[tuple[T, ...]], Iterator[tuple[T, ...]]],
    shattered: Callable[[tuple[T, ...]], bool],
    limit: int,
) -> int:
    """How many points the largest shattered set has, at most `most`: every subset of a shattered
    set is shattered, so making shattered sets `longer` by one point, in order, misses none."""
    good: list[tuple[T, ...]] = [()]
    tried = 0
    for found in range(most):
        grown = []
        for chosen in itertools.chain.from_iterable(map(longer, good)):
            tried += 1
            if tried > limit:
                raise PlanError(
                    f"More than {limit:,} sets of points. Use log2_bound, or a smaller class."
                )
            if shattered(chosen):
                grown.append(chosen)
        if not grown:
            return found
        good = grown
    return most


def shattered_points(predicates: ArrayLike) -> int:
    """The size of some shattered set, found by adding points while all patterns occur: at most the
    VC dimension, and quick."""
    import numpy as np

    table = np.asarray(predicates, dtype=np.bool_)
    most = log2_bound(len(table))
    largest = 0
    for start in range(min(8, table.shape[1])):
        codes, size = np.zeros(len(table), dtype=np.int64), 0
        for column in np.roll(np.arange(table.shape[1]), -start).tolist():
            if size == most:
                break
            longer = 2 * codes + table[:, column]
            if np.bincount(longer, minlength=2 << size).all():
                codes, size = longer, size + 1
        largest = max(largest, size)
    return largest


def fat_shattering_dimension(queries: ArrayLike, gamma: float, *, limit: int = MAX_SUBSETS) -> int:
    """The gamma-fat-shattering dimension of a finite class of linear queries with values in [0, 1],
    exactly."""
    import numpy as np

    table = np.unique(np.asarray(queries, dtype=np.float64), axis=0)
    if table.ndim != 2 or table.size == 0 or table.min() < 0 or table.max() > 1:
        raise PlanError(
            "A class of linear queries is a table of numbers from 0 to 1, one row per query and "
            "one "
            "column a point."
        )
    if not 0 < gamma <= 0.5:
        raise PlanError(f"gamma must be above 0 and at most 1/2, not {gamma}.")
    # if some level works, the one just gamma below a value that occurs works too
    levels = [[value - gamma for value in np.unique(column)] for column in table.T]

    def longer(subset: tuple[tuple[int, float], ...]) -> Iterator[tuple[tuple[int, float], ...]]:
        columns = range(subset[-1][0] + 1 if subset else 0, table.shape[1])
        return ((*subset, (at, float(level))) for at in columns for level in levels[at])

    def shattered(chosen: tuple[tuple[int, float], ...]) -> bool:
        columns, slack = [column for column, _ in chosen], 1e-12
        middle = np.array([level for _, level in chosen])
        above = table[:, columns] >= middle + gamma - slack
        below = table[:, columns] <= middle - gamma + slack
        return _all_patterns(above[(above | below).all(axis=1)])

    return _most_shattered(log2_bound(len(table)), longer, shattered, limit)


def _all_patterns(table: NDArray[np.bool_]) -> bool:
    """Whether every pattern of 0 and 1 is a row."""
    import numpy as np

    patterns = 1 << np.arange(table.shape[1])
    return bool(np.bincount(table @ patterns, minlength=1 << table.shape[1]).all())


def log2_bound(queries: int) -> int:
    """An upper bound on both dimensions of a class of so many queries (observation 26)."""
    if queries < 1:
        raise PlanError("A class has at least one query.")
    return queries.bit_length() - 1


def dimension_lower_bound(
    dimension: int,
    privacy: float,
    *,
    neighbours: str,
    gamma: float = 0.5,
    delta: float = 0.0,
    failure: float | None = None,
    rows: int | None = None,
    rows_per_unit: int = 1,
) -> float:
    """Theorem 27, in rows: what no private answers to a class of this gamma-fat-shattering
    dimension can stay below.

    Without `failure`: the largest error over the class, in expectation, on some data set. With it:
    an error that is reached on some data set with probability above `failure`. 0/1 queries have
    gamma = 1/2, and the dimension is that of Vapnik and Chervonenkis. `rows` is the most rows that
    a data set has; any number when left out.
    """
    if dimension < 0 or not 0 < gamma <= 0.5:
        raise PlanError(
            "dimension must not be negative, and gamma must be above 0 and at most 1/2."
        )
    if neighbours not in ("replace-one", "add-remove-one"):
        raise PlanError(f"neighbours is replace-one or add-remove-one, not '{neighbours}'.")
    replaced = neighbours == "replace-one"
    most = math.inf if rows is None else rows // rows_per_unit
    best = 0.0
    for units in _group_sizes(privacy, most):
        # coordinates that can be told apart: points that are there or not, or pairs of points of
        # which one is there
        size = min(dimension // 2 if replaced else dimension, most // units)
        if size < 1:
            break
        confused = _confusion(privacy, delta, units)
        step = gamma * units * rows_per_unit
        if failure is None:
            known = (2.0 if size == 1 else max(4.0, size)) if replaced else max(2.0, size / 2)
            best = max(best, step * known * confused)
        elif failure < confused:
            best = max(
                best,
                step,
                step * (size if replaced else size / 2) * (confused - failure) / (1 - failure),
            )
    return best


def _group_sizes(privacy: float, most: float) -> Iterator[int]:
    """Numbers of units that make two data sets differ: all small ones, then ever fewer. Every one
    gives a bound that holds."""
    units, last = 1, 8 / max(privacy, 1e-12)
    while units == 1 or units <= min(most, last):
        yield units
        units = max(units + 1, math.floor(units * 1.02))


def _confusion(privacy: float, delta: float, units: int) -> float:
    """The least chance to mistake one of two equally likely data sets for the other when so many
    units tell them apart."""
    power = min(units * privacy, 700.0)
    lost = (
        delta * units
        if privacy == 0
        else delta * math.expm1(power) / math.expm1(min(privacy, 700.0))
    )
    return max(0.0, 1 - lost) / (1 + math.exp(power))


def class_dimension(values: ArrayLike) -> tuple[int, float, str]:
    """What a class given by its values in [0, 1] shatters: how many points, at which gamma, and the
    same in words.

    Some queries of a class and some points will do: what they shatter, the whole class shatters.
    The number may be less than the dimension.
    """
    import numpy as np

    table = np.asarray(values)
    sharp = table[((table == 0) | (table == 1)).all(axis=1)]
    size, gamma = 0, 0.5
    if len(sharp):
        try:
            size = vc_dimension(sharp, limit=PLAN_SUBSETS)
        except PlanError:
            size = shattered_points(sharp)
    if len(sharp) < len(table):
        quarter = 0.25
        try:
            wide = fat_shattering_dimension(table[:64, :16], quarter, limit=PLAN_SUBSETS)
        except PlanError:
            wide = 0
        if quarter * wide > gamma * size:
            size, gamma = wide, quarter
    gap = " with a gap of 1/4" if gamma == 0.25 else ""
    return size, gamma, f"shatters {size} {'point' if size == 1 else 'points'}{gap}"


def limit_sentence(
    dimension: int,
    privacy: float,
    what: str,
    why: str,
    *,
    neighbours: str,
    gamma: float = 0.5,
    rows: int | None = None,
    rows_per_unit: int = 1,
) -> list[str]:
    """What a plan of a pure epsilon says that nobody can do; nothing where the theorem rules next
    to nothing out."""
    expected, likely = (
        dimension_lower_bound(
            dimension,
            privacy,
            neighbours=neighbours,
            gamma=gamma,
            failure=failure,
            rows=rows,
            rows_per_unit=rows_per_unit,
        )
        for failure in (None, 0.05)
    )
    if expected < 1e-3:
        return []
    text = f"Nobody can keep the largest error {what} below {_rows(expected)} in expectation"
    if likely > 0:
        text += f", or below {_rows(likely)} with probability 95%,"
    return [f"{text} on every data set ({why})."]


def _rows(bound: float) -> str:
    said = two_digits(bound)
    return f"{said} {'row' if said == '1' else 'rows'}"


def two_digits(bound: float, *, up: bool = False) -> str:
    """A positive bound with two digits, rounded to the side on which it still holds: down, or
    up."""
    step = 10.0 ** (math.floor(math.log10(bound)) - 1)
    return (
        f"{(math.ceil(bound / step - 1e-9) if up else math.floor(bound / step + 1e-9)) * step:.2g}"
    )
