"""What the theory says before any row is read: dimensions of query classes, sample sizes, errors and limits.

    import dpublish as dp
    dp.theory.interval_error(n=100_000, privacy=1.0, bits=20)

Theorem numbers are those of Roth (2010). `accuracy` is the error as a share of the rows (the thesis writes epsilon), `privacy`
the differential privacy parameter (the thesis writes alpha), `failure` the probability of missing the accuracy (delta). Where
the thesis says O(...), the constant here is one that its proof, or the cited lemma, gives; docs/theory.md says which.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dpublish.errors import PlanError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MAX_SUBSETS = 2_000_000
PLAN_SUBSETS = 1_000
"""Sets of points that a plan tries; after that it makes do with a shattered set that it comes across."""


def vc_dimension(predicates: ArrayLike, *, limit: int = MAX_SUBSETS) -> int:
    """The VC dimension of a finite class: `predicates` has one row a predicate and one column a point, of 0 and 1.

    Exact: the largest number of columns on which all patterns occur. Refuses classes that would need more than `limit` subsets;
    there `log2_bound` gives an upper bound, and `shattered_points` a lower one.
    """
    import numpy as np

    table = np.unique(np.asarray(predicates, dtype=np.bool_), axis=0)
    if table.ndim != 2 or table.size == 0:
        raise PlanError("A class of predicates is a table with one row a predicate and one column a point.")
    table = np.unique(table, axis=1)  # equal points cannot be told apart, so one of them is enough
    # columns that do not vary shatter nothing
    table = table[:, (table.any(axis=0)) & (~table.all(axis=0))]
    good: list[tuple[int, ...]] = [()] if table.shape[1] else []
    found = 0
    tried = 0
    while good and 2 ** (found + 1) <= table.shape[0]:
        grown: list[tuple[int, ...]] = []
        for subset in good:
            for column in range(subset[-1] + 1 if subset else 0, table.shape[1]):
                tried += 1
                if tried > limit:
                    raise PlanError(f"More than {limit:,} sets of points. Use log2_bound, or a smaller class.")
                chosen = (*subset, column)
                codes = table[:, chosen] @ (1 << np.arange(len(chosen)))
                if np.bincount(codes, minlength=1 << len(chosen)).all():
                    grown.append(chosen)
        if not grown:
            break
        # every subset of a shattered set is shattered, so growing shattered sets in order misses none
        good, found = grown, found + 1
    return found


def shattered_points(predicates: ArrayLike) -> int:
    """The size of some shattered set, found by adding points while all patterns occur: at most the VC dimension, and quick."""
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
    """The gamma-fat-shattering dimension of a finite class of linear queries with values in [0, 1], exactly."""
    import numpy as np

    table = np.unique(np.asarray(queries, dtype=np.float64), axis=0)
    if table.ndim != 2 or table.size == 0 or table.min() < 0 or table.max() > 1:
        raise PlanError("A class of linear queries is a table of numbers from 0 to 1, one row a query and one column a point.")
    if not 0 < gamma <= 0.5:
        raise PlanError(f"gamma must be above 0 and at most 1/2, not {gamma}.")
    slack = 1e-12
    # if some level works, the one just gamma below a value that occurs works too
    levels = [[value - gamma for value in np.unique(column)] for column in table.T]
    good: list[tuple[tuple[int, float], ...]] = [()]
    found = tried = 0
    while good and 2 ** (found + 1) <= table.shape[0]:
        grown: list[tuple[tuple[int, float], ...]] = []
        for subset in good:
            for column in range(subset[-1][0] + 1 if subset else 0, table.shape[1]):
                for level in levels[column]:
                    tried += 1
                    if tried > limit:
                        raise PlanError(f"More than {limit:,} sets of points. Use log2_bound, or a smaller class.")
                    chosen = (*subset, (column, float(level)))
                    if _shatters(table, chosen, gamma, slack):
                        grown.append(chosen)
        if not grown:
            break
        good, found = grown, found + 1
    return found


def _shatters(table: Any, chosen: Sequence[tuple[int, float]], gamma: float, slack: float) -> bool:
    import numpy as np

    above = np.stack([table[:, column] >= level + gamma - slack for column, level in chosen], axis=1)
    below = np.stack([table[:, column] <= level - gamma + slack for column, level in chosen], axis=1)
    decided = (above | below).all(axis=1)
    codes = above[decided] @ (1 << np.arange(len(chosen)))
    return len(np.unique(codes)) == 1 << len(chosen)


def log2_bound(queries: int) -> int:
    """An upper bound on both dimensions of a class of so many queries (observation 26)."""
    if queries < 1:
        raise PlanError("A class has at least one query.")
    return queries.bit_length() - 1


def net_size(accuracy: float, *, queries: int | None = None, vc: int | None = None) -> int:
    """Lemma 1: how many points suffice for some data set that is within accuracy / 2 on every query of the class.

    With `queries`: Hoeffding and a union bound, 2 |C| exp(-m accuracy^2 / 2) < 1. With `vc`: the bound of Anthony and Bartlett
    (1999), 64 / a^2 (2 vc ln(12 / a) + ln 8) at a = accuracy / 2. With both, the smaller.
    """
    _share(accuracy, "accuracy")
    found = []
    if queries is not None:
        found.append(math.floor(2 * math.log(2 * queries) / accuracy**2) + 1)
    if vc is not None:
        half = accuracy / 2
        found.append(math.ceil(64 / half**2 * (2 * vc * math.log(12 / half) + math.log(8))))
    if not found:
        raise PlanError("Give queries = ... or vc = ..., the size or the VC dimension of the class.")
    return min(found)


def release_sample_size(
    accuracy: float, failure: float, privacy: float, *, universe_bits: float, queries: int | None = None, vc: int | None = None
) -> int:
    """Theorem 4: rows that suffice for the net mechanism, n >= 4 / (accuracy privacy) (m ln|X| + ln(1 / failure))."""
    _share(failure, "failure")
    points = net_size(accuracy, queries=queries, vc=vc)
    return math.ceil(4 / (accuracy * privacy) * (points * universe_bits * math.log(2) + math.log(1 / failure)))


def interval_sample_size(accuracy: float, failure: float, privacy: float, bits: int) -> int:
    """Theorem 6: rows that suffice for the binary search over intervals of a grid of 2^bits positions.

    From its union bound: (4 bits / accuracy) exp(-privacy accuracy^3 n / (32 bits)) <= failure.
    """
    _share(accuracy, "accuracy")
    _share(failure, "failure")
    return math.ceil(32 * bits / (privacy * accuracy**3) * math.log(4 * bits / (accuracy * failure)))


def interval_error(n: int, privacy: float, bits: int, failure: float = 0.05) -> float:
    """Theorem 6 turned round: the accuracy that n rows buy (1 when it promises nothing)."""
    return _smallest_accuracy(n, lambda accuracy: interval_sample_size(accuracy, failure, privacy, bits))


def tree_error(n: int, privacy: float, bits: int, failure: float = 0.05) -> float:
    """What a tree of counts promises for one interval: at most 2 bits counts, each with noise for privacy / bits.

    The sum of 2b independent Laplace variables of scale b / privacy is within 2b^1.5 / privacy * sqrt(2) ln(2 / failure).
    """
    return min(1.0, 2 * math.pow(bits, 1.5) * math.sqrt(2) * math.log(2 / failure) / (privacy * n))


def halfspace_parameters(accuracy: float, failure: float, margin: float, *, bits: int, columns: int) -> dict[str, float]:
    """Theorem 11: dimensions k, projections m and net size of the thesis's halfspace release (astronomical; a proof device)."""
    for value, what in ((accuracy, "accuracy"), (failure, "failure"), (margin, "margin")):
        _share(value, what)
    half = margin / 16
    k = math.ceil(4 * math.log(8 / (accuracy / 2)) / (half**2 - half**3))
    m = math.ceil(12 * (math.log(2 / failure) + math.log(2) * bits * columns))
    return {"k": k, "m": m, "log10_net": (k - 1) * math.log10(1 / margin)}


def halfspace_log10_sample_size(
    accuracy: float, failure: float, margin: float, privacy: float, *, bits: int, columns: int
) -> float:
    """Theorem 11: the base-10 logarithm of the rows that suffice; the number itself does not fit into a float."""
    sizes = halfspace_parameters(accuracy, failure, margin, bits=bits, columns=columns)
    log_queries = math.log10(sizes["m"]) + sizes["log10_net"]
    return log_queries + math.log10(log_queries * math.log(10) + math.log(2 / failure)) - math.log10(accuracy / 2 * privacy)


def median_sample_size(accuracy: float, privacy: float, *, queries: int, universe: int) -> int:
    """Theorem 18: rows that the median mechanism needs with the thesis's constants (4.1), (4.2) and (4.6)."""
    _share(accuracy, "accuracy")
    if queries < 2 or universe < 2:
        raise PlanError("The median mechanism is stated for at least two queries over at least two points.")
    m = 160_000 * math.log(queries) * math.log(1 / accuracy) / accuracy**2
    own = privacy / (720 * m * math.log(universe))
    return math.ceil(30 * math.log(2 * queries / privacy) * math.log2(queries) / (own * accuracy))


def linear_sample_size(accuracy: float, failure: float, privacy: float, *, universe: int, queries: int) -> int:
    """Theorem 31 for a finite class: n >= 4 / (accuracy privacy) (m ln|X| + ln(1 / failure)), m for accuracy / 2."""
    _share(failure, "failure")
    points = net_size(accuracy, queries=queries)
    return math.ceil(4 / (accuracy * privacy) * (points * math.log(universe) + math.log(1 / failure)))


def multiplicative_weights_error(n: int, privacy: float, *, universe: int, queries: int, rounds: int) -> float:
    """Hardt, Ligett and McSherry (2012), theorem 2.2: 2 sqrt(ln|X| / T) + 10 T ln|Q| / (n privacy), as a share of the rows."""
    return 2 * math.sqrt(math.log(universe) / rounds) + 10 * rounds * math.log(max(queries, 2)) / (n * privacy)


def laplace_error(n: int, privacy: float, *, queries: int, failure: float = 0.05) -> float:
    """Independent noise on every query: the largest of k errors is below k ln(k / failure) / privacy rows."""
    return queries * math.log(queries / failure) / (privacy * n)


def parity_lower_bound(n: int) -> float:
    """Theorem 17: no private data set answers all parities better than this; lemma 2 gives 1 / (2 sqrt(2 n))."""
    return 1 / (2 * math.sqrt(2 * n))


def dimension_lower_bound(dimension: int, privacy: float, *, gamma: float = 0.5) -> float:
    """Theorem 27, in rows: every useful private mechanism errs by at least gamma d / (4 (1 + e^privacy)), d >= gamma FSD.

    For 0/1 queries all levels are equal and gamma is 1/2, so the pigeon-hole step costs nothing and d is the VC dimension.
    """
    if dimension < 0 or not 0 < gamma <= 0.5:
        raise PlanError("dimension must not be negative, and gamma must be above 0 and at most 1/2.")
    size = dimension if gamma == 0.5 else gamma * dimension
    return gamma * size / (4 * (1 + math.exp(min(privacy, 700.0))))  # beyond it a float ends, and the bound is nothing


def class_lower_bound(values: ArrayLike, privacy: float, *, rows: int) -> tuple[str, float]:
    """Theorem 27 for a class given by its values in [0, 1]: what the class shatters, in words, and the least error in rows.

    Some queries of a class and some points will do: what they shatter, the whole class shatters, so the bound holds, and may
    only be lower than the best. The data sets of the theorem have half as many rows as there are points.
    """
    import numpy as np

    table = np.asarray(values)
    sharp = table[((table == 0) | (table == 1)).all(axis=1)]
    size, least, how = 0, 0.0, ""
    if len(sharp):
        try:
            size = vc_dimension(sharp, limit=PLAN_SUBSETS)
        except PlanError:
            size = shattered_points(sharp)
        size = min(size, 2 * rows)
        least, how = dimension_lower_bound(size, privacy), f"shatters {size} {'point' if size == 1 else 'points'}"
    if len(sharp) < len(table):
        quarter = 0.25
        try:
            wide = min(fat_shattering_dimension(table[:64, :16], quarter, limit=PLAN_SUBSETS), 2 * rows)
        except PlanError:
            wide = 0
        if dimension_lower_bound(wide, privacy, gamma=quarter) > least:
            least = dimension_lower_bound(wide, privacy, gamma=quarter)
            how = f"shatters {wide} {'point' if wide == 1 else 'points'} with a gap of 1/4"
    return how, least


def distributional_gap(counts: Sequence[int], *, modulus: int, privacy: float) -> float:
    """The largest log-ratio between two samples of one population for the mirrored-mod query (theorem 13).

    `counts` are numbers of ones in samples of equal size. Differential privacy bounds neighbours by `privacy`; samples may
    differ by up to (modulus - 1) * privacy, which is what distributional privacy forbids.
    """
    folded = [mirrored_mod(count, modulus) for count in counts]
    return max((abs(a - b) for a, b in itertools.combinations(folded, 2)), default=0) * privacy


def mirrored_mod(x: int, modulus: int) -> int:
    """Definition 14: a wave of slope 1 between 0 and modulus - 1."""
    if modulus < 1:
        raise PlanError("The modulus must be at least 1.")
    place = x % (2 * modulus)
    return place if place < modulus else 2 * modulus - place - 1


def interval_sentences(*, rows: int, epsilon: float, bits: int, columns: int) -> list[str]:
    """What a plan says about the limits of interval and box releases."""
    promised = interval_error(rows, epsilon, bits)
    tree = tree_error(rows, epsilon, bits)
    least = dimension_lower_bound(2 * columns, epsilon)
    search = f"{promised:.2g} n" if promised < 1 else "nothing"
    return [
        f"With n = {rows:,} and epsilon = {epsilon:g}, theorem 6 promises {search} for every interval; a tree of counts errs "
        f"by less than {tree:.2g} n on one interval (95%).",
        f"Nobody can do better than {least:.2g} rows for all of them (theorem 27, VC dimension {2 * columns}).",
    ]


def class_sentences(values: ArrayLike, *, rows: int, epsilon: float) -> list[str]:
    """What a plan says about the limits of a class of queries; nothing where no bound is found."""
    how, least = class_lower_bound(values, epsilon, rows=rows)
    return [f"The class {how}: nobody can do better than {least:.2g} rows for all of it (theorem 27)."] if least > 0 else []


def online_sentences(*, rows: int, epsilon: float, queries: int, cells: int, rows_per_unit: int) -> list[str]:
    """What a plan says about so many online queries: noise of its own on each, and what nobody can beat."""
    alone = laplace_error(rows, epsilon, queries=queries) * rows * rows_per_unit
    if queries == 1:
        return [f"One answer with noise of its own would be off by up to {alone:,.4g} rows (95%)."]
    out = [f"Noise of its own on each of {queries:,} answers would be off by up to {alone:,.4g} rows (95%)."]
    size = min(log2_bound(queries), cells, 2 * rows)
    if size:
        least = dimension_lower_bound(size, epsilon)
        out.append(
            f"{2**size:,} queries can ask for every set of {size} cells: for those nobody can do better than {least:.2g} rows "
            "(theorem 27)."
        )
    return out


def _smallest_accuracy(n: int, needed: Callable[[float], int]) -> float:
    low, high = 1e-9, 1 - 1e-9
    if needed(high) > n:
        return 1.0
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if needed(middle) <= n else (middle, high)
    return high


def _share(value: float, what: str) -> None:
    if not 0 < value < 1:
        raise PlanError(f"{what} must lie between 0 and 1, not {value}.")
