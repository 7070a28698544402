"""What the theory says before any row is read: dimensions of query classes, sample sizes, errors
and limits.

    import dpublish as dp
    dp.theory.interval_error(n=100_000, privacy=1.0, bits=20)

Theorem numbers are those of Roth (2010). `accuracy` is the error as a share of the rows (the thesis
writes epsilon), `privacy` the differential privacy parameter (the thesis writes alpha), `failure`
the probability of missing the accuracy (delta). Where the thesis says O(...), the constant here is
one that its proof, or the cited lemma, gives; docs/theory.md says which.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dpublish.errors import PlanError
from dpublish.workloads.shattering import (
    MAX_SUBSETS as MAX_SUBSETS,
    class_dimension as class_dimension,
    dimension_lower_bound as dimension_lower_bound,
    fat_shattering_dimension as fat_shattering_dimension,
    limit_sentence as limit_sentence,
    log2_bound as log2_bound,
    shattered_points as shattered_points,
    two_digits,
    vc_dimension as vc_dimension,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MAX_COMPARED = 1 << 26
"""Values that a plan compares to find how far two points of a class are apart."""


def net_size(accuracy: float, *, queries: int | None = None, vc: int | None = None) -> int:
    """Lemma 1: how many points suffice for some data set that is within accuracy / 2 on every query
    of the class.

    With `queries`: Hoeffding and a union bound, 2 |C| exp(-m accuracy^2 / 2) < 1. With `vc`:
    Sauer's lemma on two samples, 4 (2 e m / vc)^vc < exp(m (accuracy / 2 - h)^2 / 2), h = sqrt(ln 4
    / (2 m)), derived in docs/theory.md. With both, the smaller.

    >>> net_size(0.2, queries=10**6), net_size(0.2, vc=4)
    (726, 9384)
    """
    _share(accuracy=accuracy)
    found = []
    if queries is not None:
        found.append(math.floor(2 * math.log(2 * queries) / accuracy**2) + 1)
    if vc is not None:
        found.append(_two_sample_size(accuracy / 2, lambda points: _log_patterns(points, vc)))
    if not found:
        raise PlanError(
            "Give queries = ... or vc = ..., the size or the VC dimension of the class."
        )
    return min(found)


def release_sample_size(
    accuracy: float,
    failure: float,
    privacy: float,
    *,
    universe_bits: float,
    queries: int | None = None,
    vc: int | None = None,
) -> int:
    """Theorem 4: rows that suffice for the net mechanism, n >= 4 / (accuracy privacy) (m ln|X| +
    ln(1 / failure))."""
    _share(failure=failure)
    points = net_size(accuracy, queries=queries, vc=vc)
    return math.ceil(
        4 / (accuracy * privacy) * (points * universe_bits * math.log(2) + math.log(1 / failure))
    )


def interval_sample_size(accuracy: float, failure: float, privacy: float, bits: int) -> int:
    """Theorem 6: rows that the thesis asks for, for its own binary search over intervals of a grid
    of 2^bits positions.

    No plan promises it: the search that is run here has a theorem of its own
    (`search_sample_size`). From its union bound: (4 bits / accuracy) exp(-privacy accuracy^3 n /
    (32 bits)) <= failure.
    """
    _share(accuracy=accuracy, failure=failure)
    return math.ceil(
        32 * bits / (privacy * accuracy**3) * math.log(4 * bits / (accuracy * failure))
    )


def interval_error(n: int, privacy: float, bits: int, failure: float = 0.05) -> float:
    """Theorem 6 turned round: the accuracy that n rows buy (1 when it promises nothing)."""
    return _smallest_accuracy(
        n, lambda accuracy: interval_sample_size(accuracy, failure, privacy, bits)
    )


def search_sample_size(
    accuracy: float, failure: float, privacy: float, *, queries: int, rows_per_unit: int = 1
) -> int:
    """Theorem 7 of interval_tree.proof.md: rows from which the search that is run here leaves no
    crowded box uncut.

    From its union bound: 2 queries exp(-3 accuracy n privacy / (40 queries rows_per_unit)) <=
    failure; `privacy` is what the search is given, not the counts.
    """
    _share(accuracy=accuracy, failure=failure)
    return math.ceil(
        40 * queries * rows_per_unit * math.log(2 * queries / failure) / (3 * accuracy * privacy)
    )


def tree_error(
    n: int,
    privacy: float,
    bits: int | Sequence[int],
    failure: float = 0.05,
    *,
    sensitivity: float = 1,
) -> float:
    """What a plain tree of counts promises for one interval or box that was chosen beforehand, as a
    share of the rows.

    `bits` are those of each column. A level halves all columns that are not yet single positions,
    has noise for an equal part of privacy, and `sensitivity` is the L1 change of its counts. A box
    is the sum of at most `box_nodes` of them.
    """
    each = (bits,) if isinstance(bits, int) else tuple(bits)
    scale = sensitivity * max(1, *each) / privacy
    return min(1.0, laplace_sum_bound(box_nodes(each), failure) * scale / n)


def box_nodes(bits: Sequence[int]) -> int:
    """An upper bound on the counts that make up a box in a tree that halves all columns at once.

    Depth k contributes the nodes inside the box whose parents are not. In a column that depth k
    halves, K parents inside and e of its ends in a parent that is cut (e = 0, 1 or 2) make at most
    2 K + e nodes inside, and K + e parents fit: the number is at most the product of 2 K + e less
    that of 2 K over the columns, for the best e and K = 2^(k-1) - e.
    """
    total = 0
    for depth in range(1, max(bits, default=0) + 1):
        beside = math.prod(1 << bit for bit in bits if bit < depth)
        halved = sum(bit >= depth for bit in bits)
        whole, parents = 1 << depth, 1 << (depth - 1)
        best = 0
        for one, two in itertools.product(
            range(halved + 1), repeat=2
        ):  # columns with e = 1 and with e = 2
            if not 1 <= one + two <= halved or (two and parents < 2):
                continue
            rest = whole ** (halved - one - two)
            best = max(
                best,
                ((whole - 1) ** one * (whole - 2) ** two - (whole - 2) ** one * (whole - 4) ** two)
                * rest,
            )
        total += best * beside
    # the box of everything is the sum of the first nodes
    return max(total, 1 << sum(bit > 0 for bit in bits))


def laplace_sum_bound(count: int, failure: float = 0.05) -> float:
    """A number that the sum of `count` Laplace variables of scale 1 stays below in absolute value,
    except with `failure`.

    Chernoff: P(|sum| >= t) <= 2 exp(-theta t) (1 - theta^2)^-count for every theta below 1; the
    best of many is taken. Discrete Laplace noise of the same scale has a smaller moment generating
    function, since sinh(x) / x grows with x.
    """
    _share(failure=failure)
    return _chernoff(count, math.log(2 / failure))


def union_sample_size(
    accuracy: float, failure: float, privacy: float, *, bits: int, intervals: int
) -> int:
    """Theorem 7 for the plain tree of counts: rows from which all unions of so many intervals of
    2^bits positions are answered within accuracy n at once, except with `failure`.

    A union is the sum of at most intervals * `box_nodes` counts with noise of scale bits / privacy,
    and a choice of an even number of the 2^bits + 1 places between positions: Chernoff for each,
    and a union bound.

    >>> [union_sample_size(0.05, 0.05, 1.0, bits=10, intervals=t) for t in (1, 2, 4)]
    [8397, 15058, 27493]
    """
    _share(accuracy=accuracy, failure=failure)
    if bits < 1 or intervals < 1:
        raise PlanError("bits and intervals must be at least 1.")
    places = (1 << bits) + 1
    most = min(intervals, places // 2)
    unions = sum(math.comb(places, 2 * ends) for ends in range(1, most + 1))
    counts = min(most * box_nodes((bits,)), 1 << bits)
    noise = _chernoff(counts, math.log(2 / failure) + math.log(unions)) * bits / privacy
    return math.ceil(noise / accuracy)


def halfspace_parameters(
    accuracy: float, failure: float, margin: float, *, bits: int, columns: int
) -> dict[str, float]:
    """Theorem 11: dimensions k, projections m and net size of the thesis's halfspace release
    (astronomical; a proof device)."""
    _share(accuracy=accuracy, failure=failure, margin=margin)
    half = margin / 16
    k = math.ceil(4 * math.log(8 / (accuracy / 2)) / (half**2 - half**3))
    m = math.ceil(12 * (math.log(2 / failure) + math.log(2) * bits * columns))
    return {"k": k, "m": m, "log10_net": (k - 1) * math.log10(1 / margin)}


def halfspace_log10_sample_size(
    accuracy: float, failure: float, margin: float, privacy: float, *, bits: int, columns: int
) -> float:
    """Theorem 11: the base-10 logarithm of the rows that suffice; the number itself does not fit
    into a float."""
    sizes = halfspace_parameters(accuracy, failure, margin, bits=bits, columns=columns)
    log_queries = math.log10(sizes["m"]) + sizes["log10_net"]
    return (
        log_queries
        + math.log10(log_queries * math.log(10) + math.log(2 / failure))
        - math.log10(accuracy / 2 * privacy)
    )


def median_sample_size(accuracy: float, privacy: float, *, queries: int, universe: int) -> int:
    """Theorem 18: rows that the median mechanism needs with the thesis's constants (4.1), (4.2) and
    (4.6)."""
    _share(accuracy=accuracy)
    if queries < 2 or universe < 2:
        raise PlanError(
            "The median mechanism is stated for at least two queries over at least two points."
        )
    m = 160_000 * math.log(queries) * math.log(1 / accuracy) / accuracy**2
    own = privacy / (720 * m * math.log(universe))
    return math.ceil(30 * math.log(2 * queries / privacy) * math.log2(queries) / (own * accuracy))


def linear_sample_size(
    accuracy: float,
    failure: float,
    privacy: float,
    *,
    universe: int,
    queries: int | None = None,
    dimension: int | None = None,
) -> int:
    """Theorem 31: n >= 4 / (accuracy privacy) (m ln|X| + ln(1 / failure)), m points for accuracy /
    2.

    `queries` is the size of a finite class. `dimension` is the fat-shattering dimension of any
    class, at gamma = accuracy / 64 (`fat_net_size`). With both, the smaller number.

    >>> linear_sample_size(0.2, 0.05, 1.0, universe=1024, queries=10**6)
    100705
    """
    _share(failure=failure)
    found = [] if queries is None else [net_size(accuracy, queries=queries)]
    if dimension is not None:
        found.append(fat_net_size(accuracy / 2, dimension))
    if not found:
        raise PlanError("Give queries = ... or dimension = ..., of the class.")
    return math.ceil(
        4 / (accuracy * privacy) * (min(found) * math.log(universe) + math.log(1 / failure))
    )


def fat_net_size(accuracy: float, dimension: int) -> int:
    """How many points suffice for some data set that is within `accuracy` on every query of a class
    with values in [0, 1]; `dimension` is what it shatters with gamma = accuracy / 32.

    The least m with 4 N < exp(m (3 accuracy / 4 - h)^2 / 2), h = sqrt(ln 4 / (2 m)), where N =
    2 (2 m K^2)^r, K = floor(16 / accuracy) and r is the least whole number above d log2(2 e m (K -
    1) / d); docs/theory.md derives it.

    >>> [fat_net_size(0.1, dimension) for dimension in (0, 1, 4)]
    [1467, 242969, 995815]
    """
    _share(accuracy=accuracy)
    if dimension < 0:
        raise PlanError("dimension must not be negative.")
    steps = math.floor(16 / accuracy)

    def log_cover(points: int) -> float:
        if dimension == 0:
            return math.log(2)
        shattered = dimension * math.log(steps - 1) + _log_patterns(points, dimension)
        times = math.floor(shattered / math.log(2) + 1e-9) + 1
        return math.log(2) + times * math.log(points * steps**2)

    # functions of the cover are within accuracy / 8 of all others, on both samples
    return _two_sample_size(0.75 * accuracy, log_cover)


def _log_patterns(points: int, dimension: int) -> float:
    """ln of (e n / d)^d, which is at least the number of sets of at most d of n points."""
    if dimension == 0:
        return 0.0
    return dimension * (1 + math.log(max(points, dimension) / dimension))


def _two_sample_size(reach: float, log_functions: Callable[[int], float]) -> int:
    """The least m found such that some m points are within `reach` of the data on a class that has
    exp(log_functions(n)) functions on n points: 4 N(2 m) < exp(m (reach - h)^2 / 2)."""

    def exceeds(m: int) -> bool:
        left = reach - math.sqrt(math.log(4) / (2 * m))
        return left <= 0 or math.log(4) + log_functions(2 * m) >= m * left**2 / 2

    high = 1
    while exceeds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return high


def hidden_parity_chance(people: int, privacy: float, *, sets: int) -> float:
    """What no local protocol can do better than (as in theorem 38): the chance to name a set of
    attributes that was drawn from so many, if all that tells it is that everybody's last attribute
    is its parity.

    At most 1 / sets + (exp(privacy) - 1) sqrt(people / (8 sets)), for one report per person with
    this privacy, however the questions are chosen, also one after another (docs/theory.md).

    >>> round(hidden_parity_chance(400, 1.0, sets=15_504), 3)
    0.098
    """
    if people < 0 or sets < 1 or privacy < 0:
        raise PlanError("people and privacy must not be negative, and there is at least one set.")
    gain = math.expm1(min(privacy, 700.0)) * math.sqrt(people / (8 * sets))
    return min(1.0, 1 / sets + gain)


def choice_loss(
    candidates: int, sensitivity: float, privacy: float, failure: float = 0.05
) -> float:
    """How far one private choice falls behind the best of the candidates, except with `failure`: 2
    D / privacy ln((candidates - 1) / failure).

    Holds for the exponential mechanism and for permute-and-flip: either takes a candidate that is t
    behind with probability at most exp(-privacy t / (2 D)).
    """
    _share(failure=failure)
    if candidates < 1:
        raise PlanError("A choice needs at least one candidate.")
    return (
        0.0 if candidates == 1 else 2 * sensitivity / privacy * math.log((candidates - 1) / failure)
    )


def private_greedy_bound(
    best: float,
    *,
    k: int,
    columns: int,
    sensitivity: float,
    privacy: float,
    failure: float = 0.05,
) -> float:
    """Vinterbo (2012), theorem 1 with its constants: the score that k private choices of privacy /
    k each reach, except with `failure`, where the best k columns have `best`.

    The score is submodular, non-decreasing and 0 for no columns, such as pairs discerned (`best` in
    pairs, sensitivity n - 1 for n rows of which one is replaced). With s the `choice_loss` of one
    choice at failure / k, it is (1 - (1 - 1/k)^k) (best - k s) >= (1 - 1/e) best - k s.

    >>> round(private_greedy_bound(2e7, k=3, columns=20, sensitivity=9_999, privacy=1.0))
    13182584
    >>> round((1 - (2 / 3) ** 3) * 2e7)  # what the best choices reach without privacy
    14074074
    """
    if k < 1:
        raise PlanError("k must be at least 1.")
    if k >= columns:  # all of them: nothing is chosen, nothing is lost
        return best
    step = choice_loss(columns, sensitivity, privacy / k, failure / k)
    return max(0.0, (1 - (1 - 1 / k) ** k) * (best - k * step))


def multiplicative_weights_error(
    n: int, privacy: float, *, universe: int, queries: int, rounds: int
) -> float:
    """Hardt, Ligett and McSherry (2012), theorem 2.2: 2 sqrt(ln|X| / T) + 10 T ln|Q| / (n privacy),
    as a share of the rows."""
    return 2 * math.sqrt(math.log(universe) / rounds) + 10 * rounds * math.log(max(queries, 2)) / (
        n * privacy
    )


def laplace_error(
    n: int, privacy: float, *, queries: int, failure: float = 0.05, sensitivity: float | None = None
) -> float:
    """Independent noise on every query: the largest of k errors is below s ln(k / failure) /
    privacy rows.

    s is the L1 distance of all answers between neighbours (`class_sensitivity`); k, the most it can
    be, when left out.
    """
    return (
        (queries if sensitivity is None else sensitivity)
        * math.log(queries / failure)
        / (privacy * n)
    )


def class_sensitivity(values: Any, *, neighbours: str, rows_per_unit: int = 1) -> float:
    """The L1 distance of all answers of a class between neighbours: `values` has one row per query,
    one column per point.

    add-remove-one: the largest sum of a column. replace-one: the largest distance of two columns;
    for large classes an upper bound on it, the smaller of two such sums and of the sum of what each
    query can change by.
    """
    import numpy as np

    table = np.asarray(values)
    largest = float(table.sum(axis=0, dtype=np.float64).max())
    if neighbours == "add-remove-one":
        return largest * rows_per_unit
    queries, points = table.shape
    if points * points * queries <= MAX_COMPARED:
        wide = table.astype(np.float64)
        found = max(
            float(np.abs(wide - wide[:, [place]]).sum(axis=0).max()) for place in range(points)
        )
    else:
        ranges = table.max(axis=1).astype(np.float64) - table.min(axis=1)
        found = min(2 * largest, float(ranges.sum()))
    return found * rows_per_unit


def parity_lower_bound(n: int) -> float:
    """Theorem 17: no private data set answers all parities better than this; lemma 2 gives 1 / (2
    sqrt(2 n))."""
    return 1 / (2 * math.sqrt(2 * n))


def set_cover_lower_bound(sets: int, privacy: float) -> float:
    """Theorem 60 for so many sets: a factor that some set system costs every method of this privacy
    (delta = 0) in expectation that assigns elements to sets; 1 where the proof says nothing.

    Neighbours add or remove an element. Random sets of k among N elements: an assignment serves a
    random one with at most l sets with probability at most q = C(N, l) (l k / N)^k, so some system
    has none that does so for more than t of m, as soon as m^N C(m, t + 1) q^(t + 1) < 1. On one
    of its sets every method needs more than l with probability at least 1 - e^(privacy k) t / m,
    where one set is enough.

    >>> [round(set_cover_lower_bound(10**power, 0.5), 2) for power in (3, 9, 18)]
    [1.0, 6.19, 23.83]
    """
    if sets < 2 or not privacy > 0:
        raise PlanError("At least two sets, and privacy above 0.")
    log_sets, best = math.log(sets), 1.0
    for k in range(2, min(200, math.ceil(log_sets / privacy)) + 1):
        for size in range(k.bit_length(), sets.bit_length()):
            log_elements = size * math.log(2)
            for used in range(1, k):
                log_q = used * (1 + log_elements - math.log(used))  # C(N, l) <= (e N / l)^l
                log_q += k * (math.log(used * k) - log_elements)
                spare = -log_q - log_sets - 1  # C(m, t + 1) <= (e m)^(t + 1)
                if spare <= 0:
                    break
                served = math.floor(2**size * log_sets / spare) + 1
                lost = math.exp(min(0.0, privacy * k + math.log(served) - log_sets))
                best = max(best, 1 + used * (1 - lost))
    return best


def distributional_gap(counts: Sequence[int], *, modulus: int, privacy: float) -> float:
    """The largest log-ratio between two samples of one population for the mirrored-mod query
    (theorem 13).

    `counts` are numbers of ones in samples of equal size. Differential privacy bounds neighbours by
    `privacy`; samples may differ by up to (modulus - 1) * privacy, which is what distributional
    privacy forbids.
    """
    folded = [mirrored_mod(count, modulus) for count in counts] or [0]
    return (max(folded) - min(folded)) * privacy


def mirrored_mod(x: int, modulus: int) -> int:
    """Definition 14: a wave of slope 1 between 0 and modulus - 1."""
    if modulus < 1:
        raise PlanError("The modulus must be at least 1.")
    place = x % (2 * modulus)
    return place if place < modulus else 2 * modulus - place - 1


def interval_sentences(
    *, rows: int, epsilon: float, bits: Sequence[int], neighbours: str, rows_per_unit: int = 1
) -> list[str]:
    """What a plan says about the limits of interval and box releases: `bits` are those of each
    column."""
    columns = len(bits)
    sensitivity = rows_per_unit * (2 if neighbours == "replace-one" else 1)
    tree = tree_error(rows, epsilon, bits, sensitivity=sensitivity)
    what = "interval" if columns == 1 else "box"
    promised = (
        f"errs by less than {two_digits(tree, up=True)} n on one {what} (95%)"
        if tree < 1
        else f"promises nothing for one {what}"
    )
    # around a corner or the middle of the grid: two neighbours along a column of three or more
    # positions, one of two
    shattered = sum(min(2, bit) for bit in bits)
    return [
        f"With n = {rows:,} and epsilon = {epsilon:g}, a plain tree with a count of every {what} "
        f"that it halves {promised}.",
        *limit_sentence(
            shattered,
            epsilon,
            f"over all {'intervals' if columns == 1 else 'boxes'}",
            f"theorem 27, VC dimension {shattered}",
            neighbours=neighbours,
            rows=rows,
            rows_per_unit=rows_per_unit,
        ),
    ]


def class_sentences(
    values: ArrayLike, *, rows: int, epsilon: float, neighbours: str, rows_per_unit: int = 1
) -> list[str]:
    """What a plan says about the limits of a class of queries; nothing where no bound is found."""
    size, gamma, how = class_dimension(values)
    return limit_sentence(
        size,
        epsilon,
        "over the class",
        f"theorem 27; the class {how}",
        neighbours=neighbours,
        gamma=gamma,
        rows=rows,
        rows_per_unit=rows_per_unit,
    )


def online_sentences(
    *, rows: int, epsilon: float, queries: int, cells: int, neighbours: str, rows_per_unit: int
) -> list[str]:
    """What a plan says about so many online queries: noise of its own on each, and what nobody can
    beat."""
    alone = laplace_error(rows, epsilon, queries=queries) * rows * rows_per_unit
    if queries == 1:
        return [f"One answer with noise of its own would be off by up to {alone:,.4g} rows (95%)."]
    out = [
        f"Noise of its own on each of {queries:,} answers would be off by up to {alone:,.4g} rows "
        f"(95%)."
    ]
    size = min(log2_bound(queries), cells)
    return out + limit_sentence(
        size,
        epsilon,
        f"over the {2**size:,} sets of {size} cells",
        "theorem 27; so many queries can ask for all of them",
        neighbours=neighbours,
        rows=rows,
        rows_per_unit=rows_per_unit,
    )


def _chernoff(count: int, log_terms: float) -> float:
    """The least t with exp(log_terms - theta t) (1 - theta^2)^-count <= 1 for some theta tried."""
    thetas = (math.exp(-place / 16) for place in range(1, 640))
    return min((log_terms - count * math.log1p(-theta * theta)) / theta for theta in thetas)


def _smallest_accuracy(n: int, needed: Callable[[float], int]) -> float:
    low, high = 1e-9, 1 - 1e-9
    if needed(high) > n:
        return 1.0
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if needed(middle) <= n else (middle, high)
    return high


def _share(**values: float) -> None:
    for what, value in values.items():
        if not 0 < value < 1:
            raise PlanError(f"{what} must lie between 0 and 1, not {value}.")
