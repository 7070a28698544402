"""Exact choices: the exponential mechanism, permute-and-flip, and the sparse vector technique.

In: a word stream, exact scores (integers or Fractions) and exact parameters. Out: an index, or a
yes/no answer.

Both choices are run as a race. Every candidate gets one uniform real, which with its score makes a
key, and the best key wins; ties have probability zero. A compiled sieve keeps the few candidates
whose leading bits allow them to win, their keys are bounded in float64, and those that the bounds
cannot separate are settled by ball arithmetic on the same uniforms (lattice.py). The law is exact,
the cost is one word per candidate, and the running time hardly depends on the scores: a single
dominant candidate among a million is as fast as a tie (proof: select.proof.md).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from flint import arb, ctx

from dpublish.arrays import Floats, Ints, Words
from dpublish.compiled import njit
from dpublish.errors import BudgetExceeded, InputError, PrivateSideError
from dpublish.noise.balls import fraction_ball
from dpublish.noise.base import BoundedScores, ChoiceRule
from dpublish.noise.lattice import (
    FIRST_BITS,
    LazyUniforms,
    exponential_bounds,
    fraction_bounds,
    log_bounds,
)
from dpublish.noise.words import WordStream

RULES = ("permute-and-flip", "exponential")
_WORD_SIZED = (
    1 << 62
)  # Fractions are brought to a common denominator only while it stays below this
_SMALL_RATE = 2.0**-900  # between these, a rate times any 64-bit gap stays a normal float
_LARGE_RATE = 2.0**900


def choose_index(
    stream: WordStream,
    scores: Sequence[Fraction] | Sequence[int] | Ints,
    *,
    exponent: Fraction,
    rule: ChoiceRule,
) -> int:
    """One index, with candidate i of weight exp(exponent * (scores[i] - max(scores))).

    "exponential" returns i with probability proportional to its weight. "permute-and-flip" visits
    the candidates in uniformly random order and returns the first whose coin of probability equal
    to its weight comes up heads (McKenna and Sheldon 2020).
    """
    if rule not in RULES:
        raise InputError(f"Unknown choice rule {rule!r}. Use one of: {', '.join(RULES)}.")
    if exponent < 0:
        raise InputError("The exponent of a choice must be at least 0.")
    if len(scores) == 0:
        raise InputError("A choice needs at least one candidate.")
    exact = scores if isinstance(scores, np.ndarray) else [_rational(q) for q in scores]
    low, high, gap = _gaps(exact, Fraction(exponent))
    return _race(LazyUniforms(stream, len(scores)), low, high, gap, rule)


def _gaps(
    scores: Ints | list[int | Fraction], exponent: Fraction
) -> tuple[Floats, Floats, Callable[[int], Fraction]]:
    """exponent * (max - score) of every candidate: float bounds (exactly 0 for the best), and the
    exact value on demand."""
    whole, unit = _as_int64(scores)
    rate = exponent * unit
    rate_low, rate_high = fraction_bounds(rate)
    if whole is not None and in_float_range(rate, rate_low, rate_high):
        # The subtraction modulo 2^64 is exact, because the true difference lies in [0, 2^64).
        bits = whole.view(np.uint64)
        gaps = bits[np.argmax(whole)] - bits
        sizes = gaps.astype(np.float64)
        return sizes * rate_low, sizes * rate_high, lambda i: rate * int(gaps[i])
    exact: list[int | Fraction] = scores.tolist() if isinstance(scores, np.ndarray) else scores
    top = max(exact)
    differences = [exponent * (top - q) for q in exact]
    bounds = np.array([fraction_bounds(g) for g in differences])
    return bounds[:, 0], bounds[:, 1], differences.__getitem__


def in_float_range(rate: Fraction, low: float, high: float) -> bool:
    """Whether a rate with these float bounds, times any 64-bit gap, stays a normal float or 0."""
    return rate == 0 or (low > _SMALL_RATE and high < _LARGE_RATE)


def _rational(score: object) -> int | Fraction:
    if isinstance(score, Fraction):
        return score
    if isinstance(score, int | np.integer):
        return int(score)
    raise InputError(
        "Scores must be integers or Fractions; quantise real scores to a public grid first."
    )


def _as_int64(scores: Ints | list[int | Fraction]) -> tuple[Ints | None, Fraction]:
    """Scores as (array, unit) with score = array * unit, or (None, 1) when they do not fit int64 on
    a common denominator."""
    if isinstance(scores, np.ndarray):
        if scores.ndim != 1 or scores.dtype.kind not in "iu":
            raise InputError(
                "Scores must be a one-dimensional array of integers; quantise real scores to a "
                "public grid first."
            )
        if scores.dtype == np.uint64 and scores.max() >= np.uint64(1 << 63):
            return None, Fraction(1)
        return np.ascontiguousarray(scores, dtype=np.int64), Fraction(1)
    common = 1
    for denominator in {q.denominator for q in scores}:
        common = math.lcm(common, denominator)
        if common > _WORD_SIZED:
            return None, Fraction(1)
    numerators = [q.numerator * (common // q.denominator) for q in scores]
    if max(numerators) >= 1 << 63 or min(numerators) < -(1 << 63):
        return None, Fraction(1)
    return np.array(numerators, dtype=np.int64), Fraction(1, common)


def _race(
    uniforms: LazyUniforms,
    low: Floats,
    high: Floats,
    gap: Callable[[int], Fraction],
    rule: ChoiceRule,
) -> int:
    """The index whose key is largest: E - gap for permute-and-flip, -(log E + gap) for exponential,
    where E = -log U."""
    return settle(uniforms, _contenders(uniforms, low, high, rule), gap, rule)


def settle(
    uniforms: LazyUniforms, alive: list[int], gap: Callable[[int], Fraction], rule: ChoiceRule
) -> int:
    """The one of these candidates whose key is largest, by balls that shrink until a single one is
    left."""
    precision = 2 * FIRST_BITS
    while len(alive) > 1:
        with ctx.workprec(precision):
            keys = [(i, _key(uniforms.ball(i), gap(i), rule)) for i in alive]
            leader = _leader(keys)
            # `<` between balls means certainly below; an indeterminate ball is below nothing and
            # stays alive.
            alive = [i for i, key in keys if i == leader[0] or not key < leader[1]]
        if len(alive) > 1:
            for i in alive:
                uniforms.refine(i)
            precision *= 2
    return alive[0]


def _contenders(uniforms: LazyUniforms, low: Floats, high: Floats, rule: ChoiceRule) -> list[int]:
    """The candidates whose key may be the largest, as far as float64 bounds can tell: nearly always
    just one."""
    kept = sieve(uniforms.words, low, high, rule == "exponential")
    key_low, key_high = key_bounds(uniforms.words[kept], low[kept], high[kept], rule)
    found: list[int] = kept[key_high >= key_low.max()].tolist()
    return found


def key_bounds(words: Words, low: Floats, high: Floats, rule: ChoiceRule) -> tuple[Floats, Floats]:
    """Float bounds on the keys of candidates with these words and these bounds on their gaps."""
    wait_low, wait_high = exponential_bounds(words)
    if rule == "permute-and-flip":
        return wait_low - high, wait_high - low
    return -(log_bounds(wait_high)[1] + high), -(log_bounds(wait_low)[0] + low)


def _key(uniform: arb, gap: Fraction, rule: ChoiceRule) -> arb:
    wait = -uniform.log()
    return (
        wait - fraction_ball(gap)
        if rule == "permute-and-flip"
        else -(wait.log() + fraction_ball(gap))
    )


def _leader(keys: list[tuple[int, arb]]) -> tuple[int, arb]:
    """The key with the greatest certain lower bound: comparing the rest with this one rules out the
    most."""
    best = keys[0]
    for entry in keys[1:]:
        if entry[1].is_finite() and not (
            best[1].is_finite() and entry[1].lower() <= best[1].lower()
        ):
            best = entry
    return best


class SparseVector:
    """Answers "is this value above the threshold?" for a stream of values, and pays only for the
    answers "yes".

    The whole life of one object, up to and including its `max_hits`-th yes, is epsilon-DP, however
    many times it said no (Lyu, Su and Li 2017, algorithm 1, with discrete Laplace noise). After
    that it refuses every further question.

    Values are integers and each moves by at most `sensitivity` between neighbouring inputs.
    `monotone` declares that one unit moves all values the same way, which halves the noise on them.
    Thresholds are public. The values may be chosen adaptively from earlier answers. An object must
    not be copied, nor used on both sides of a fork: all its answers share one threshold noise and
    one count of hits.
    """

    def __init__(
        self,
        stream: WordStream,
        *,
        epsilon: Fraction,
        sensitivity: Fraction,
        max_hits: int = 1,
        monotone: bool = False,
    ) -> None:
        if epsilon <= 0 or sensitivity <= 0:
            raise InputError("A sparse vector needs epsilon > 0 and sensitivity > 0.")
        if max_hits < 1:
            raise InputError("A sparse vector needs max_hits of at least 1.")
        self.max_hits = max_hits
        self.hits = 0
        self.threshold_scale, self.value_scale = sparse_vector_scales(
            epsilon=epsilon, sensitivity=sensitivity, max_hits=max_hits, monotone=monotone
        )
        self._stream = stream
        self._threshold_noise = _laplace(stream, self.threshold_scale)
        self._turn = threading.Lock()  # two threads must not share the last permitted yes

    def above(self, value: int, *, threshold: int) -> bool:
        """Whether value plus noise reaches threshold plus noise. Raises `BudgetExceeded` once all
        hits are used."""
        if not isinstance(value, int | np.integer) or not isinstance(threshold, int | np.integer):
            raise InputError(
                "A sparse vector compares integers; quantise real values to a public grid first."
            )
        with self._turn:
            if self.hits >= self.max_hits:
                raise BudgetExceeded(
                    f"This sparse vector has given all {self.max_hits} of its positive answers. "
                    "Open a new one, which is paid for separately."
                )
            noisy = int(value) + _laplace(self._stream, self.value_scale)
            hit = noisy >= int(threshold) + self._threshold_noise
            self.hits += hit
            return hit


def sparse_vector_scales(
    *, epsilon: Fraction, sensitivity: Fraction, max_hits: int, monotone: bool = False
) -> tuple[Fraction, Fraction]:
    """The noise scales (threshold, values) of an epsilon-DP sparse vector: sensitivity/e1 and 2
    max_hits sensitivity/e2.

    The split e1 : e2 = 1 : (2 max_hits)^(2/3), rounded up to an integer, minimises the variance of
    the comparison. Monotone values need max_hits in place of 2 max_hits in both.
    """
    moves = max_hits if monotone else 2 * max_hits
    ratio = _ceil_cube_root(moves * moves)
    for_threshold = epsilon / (1 + ratio)
    return sensitivity / for_threshold, moves * sensitivity / (epsilon - for_threshold)


def _laplace(stream: WordStream, scale: Fraction) -> int:
    """One discrete Laplace draw without a limit on its size.

    Array draws stop at +-SATURATED, and a clamped noise would not be a function of the noisy
    comparison. Beyond that point the law is memoryless: what is missing is a draw conditioned on
    being at least 0, which may itself be saturated.
    """
    from dpublish.noise.gaussian import SATURATED, discrete_laplace

    first = int(discrete_laplace(stream, scale, 1)[0])
    last, size = abs(first), abs(first)
    while last == SATURATED:
        last = int(discrete_laplace(stream, scale, 1)[0])
        while last < 0:
            last = int(discrete_laplace(stream, scale, 1)[0])
        size += last
    return size if first >= 0 else -size


def _ceil_cube_root(n: int) -> int:
    low, high = 0, 1 << -(-n.bit_length() // 3)  # low^3 < n <= high^3
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**3 < n else (low, middle)
    return high


_FIRST_BATCH = 8


def choose_bounded_index(
    stream: WordStream, scores: BoundedScores, *, exponent: Fraction, rule: ChoiceRule
) -> int:
    """The index that `choose_index` returns for the exact scores of all candidates, on the same
    stream."""
    if rule not in RULES:
        raise InputError(f"Unknown choice rule {rule!r}. Use one of: {', '.join(RULES)}.")
    starts = np.ascontiguousarray(scores.starts, dtype=np.int64)
    count = int(starts[-1])
    if count == 0:
        raise InputError("A choice needs at least one candidate.")
    low, high = np.asarray(scores.low, dtype=np.int64), np.asarray(scores.high, dtype=np.int64)
    rate_low, rate_high = fraction_bounds(exponent)
    if not in_float_range(exponent, rate_low, rate_high):
        from dpublish.noise.select import choose_index

        return choose_index(
            stream, scores.exact(np.arange(count, dtype=np.int64)), exponent=exponent, rule=rule
        )
    uniforms = LazyUniforms(stream, count)
    top = int(high[np.diff(starts) > 0].max())

    def gaps(values: Ints) -> Floats:
        # the difference modulo 2^64 is exact, as it lies in [0, 2^64)
        return (np.uint64(top % (1 << 64)) - values.view(np.uint64)).astype(np.float64)

    best_gap, worst_gap = gaps(np.minimum(high, top)) * rate_low, gaps(low) * rate_high
    candidates, groups = sieve_groups(
        uniforms.words, starts, best_gap, worst_gap, rule == "exponential"
    )
    key_low, key_high = key_bounds(
        uniforms.words[candidates], best_gap[groups], worst_gap[groups], rule
    )
    best = float(key_low.max())
    order = np.argsort(-key_high, kind="stable")
    order = order[key_high[order] >= best]
    done, batch = 0, _FIRST_BATCH
    known: dict[int, int] = {}
    reach: dict[int, float] = {}
    while done < len(order) and key_high[order[done]] >= best:
        part = order[done : done + batch]
        part = part[key_high[part] >= best]
        asked = candidates[part]
        values = np.ascontiguousarray(scores.exact(asked), dtype=np.int64)
        if (values < low[groups[part]]).any() or (values > high[groups[part]]).any():
            raise PrivateSideError()  # a bound that does not hold would bend the law
        gap = gaps(values)
        now_low, now_high = key_bounds(uniforms.words[asked], gap * rate_low, gap * rate_high, rule)
        best = max(best, float(now_low.max()))
        known.update(zip(asked.tolist(), values.tolist(), strict=True))
        reach.update(zip(asked.tolist(), now_high.tolist(), strict=True))
        done, batch = done + batch, 2 * batch
    alive = sorted(i for i, most in reach.items() if most >= best)
    return settle(uniforms, alive, lambda i: exponent * (top - known[i]), rule)


# A first look at a race between many candidates: which of them may have the best key, from the
# leading bits of their words.
#
# Only comparisons, exponents of floats and a few products are needed, so one pass over a million
# candidates takes a millisecond. The bounds are coarse (a factor of two in a uniform) but true, so
# the best candidate always stays (proof: select.proof.md).


LN2_LOW = 0.6931471805
LN2_HIGH = 0.6931471806
"""Bounds on ln 2, a relative 5e-11 away: far more than the roundings below."""

_HALF = 0.3267  # above log(2 ln 2)
_TINY = 1e-12
_PIECE = 1024


@njit(cache=True, nogil=True)
def _first_bits(words: Words, low: int, high: int, flip: bool, buffer: Floats) -> None:
    """Words as floats (complemented for `flip`): their exponents are the numbers of leading zeros,
    up to rounding."""
    if flip:
        for i in range(high - low):
            buffer[i] = np.float64(~words[low + i])
    else:
        for i in range(high - low):
            buffer[i] = np.float64(words[low + i])


@njit(cache=True, nogil=True)
def _part_low(exponent: int, flip: bool) -> float:
    """A lower bound on -log U (or, with `flip`, on -log(-log U)) from 2^(exponent - 1) <= word <
    2^exponent."""
    if not flip:
        return (64 - exponent) * LN2_LOW
    return (64 - exponent) * LN2_LOW - _HALF if exponent <= 63 else -np.inf


@njit(cache=True, nogil=True)
def _part_high(exponent: int) -> float:
    return (65 - exponent) * LN2_HIGH + _TINY


@njit(cache=True, nogil=True)
def sieve(words: Words, gap_low: Floats, gap_high: Floats, flip: bool) -> Ints:
    """The candidates whose key may be the largest: key = -log U - gap, or with `flip` -log(-log U)
    - gap."""
    count = len(words)
    buffer = np.empty(_PIECE, dtype=np.float64)
    bits = buffer.view(np.int64)
    highs = np.empty(count, dtype=np.float64)
    best = -np.inf
    for start in range(0, count, _PIECE):
        stop = min(count, start + _PIECE)
        _first_bits(words, start, stop, flip, buffer)
        for i in range(stop - start):
            at = start + i
            if buffer[i] == 0.0:
                # no bit is known: the key has no upper bound
                highs[at] = np.inf
                best = max(best, _part_low(0, flip) - gap_high[at])
                continue
            exponent = (bits[i] >> 52) - 1022
            highs[at] = _part_high(exponent) - gap_low[at]
            best = max(best, _part_low(exponent, flip) - gap_high[at])
    return np.flatnonzero(highs >= best)


@njit(cache=True, nogil=True)
def sieve_groups(
    words: Words, starts: Ints, gap_low: Floats, gap_high: Floats, flip: bool
) -> tuple[Ints, Ints]:
    """`sieve` for candidates in groups that share their bounds: (candidates, their groups).

    Group g holds candidates starts[g] to starts[g + 1]. Only the best word of a group matters for
    the best certain key.
    """
    groups = len(starts) - 1
    best = -np.inf
    top = np.empty(groups, dtype=np.uint64)
    for g in range(groups):
        least = np.uint64(0xFFFFFFFFFFFFFFFF)
        for at in range(starts[g], starts[g + 1]):
            word = ~words[at] if flip else words[at]
            least = min(least, word)
        top[g] = least
    exponents = np.empty(groups, dtype=np.int64)
    buffer = np.empty(groups, dtype=np.float64)
    bits = buffer.view(np.int64)
    for g in range(groups):
        buffer[g] = np.float64(top[g])
    for g in range(groups):
        exponents[g] = (bits[g] >> 52) - 1022 if top[g] > np.uint64(0) else 0
        if starts[g] < starts[g + 1]:
            best = max(best, _part_low(exponents[g], flip) - gap_high[g])
    found = np.empty(len(words), dtype=np.int64)
    owner = np.empty(len(words), dtype=np.int64)
    kept = 0
    one = np.empty(1, dtype=np.float64)
    one_bits = one.view(np.int64)
    for g in range(groups):
        if starts[g] == starts[g + 1]:
            continue
        if top[g] > np.uint64(0) and _part_high(exponents[g]) - gap_low[g] < best:
            continue
        for at in range(starts[g], starts[g + 1]):
            word = ~words[at] if flip else words[at]
            if word > np.uint64(0):
                one[0] = np.float64(word)
                if _part_high((one_bits[0] >> 52) - 1022) - gap_low[g] < best:
                    continue
            found[kept], owner[kept] = at, g
            kept += 1
    return found[:kept].copy(), owner[:kept].copy()
