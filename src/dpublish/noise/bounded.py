"""A choice among candidates whose scores are known to bounds, and exactly only when asked for.

The same race as `select.choose_index` on the same words: every candidate draws one word, candidates
that cannot win given the bounds on their scores are never evaluated, and the winner is the one that
the exact scores of all of them would give. So the answer, and with it the law, does not depend on
the bounds; only the time does (proof: select.proof.md).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpublish.errors import InputError, PrivateSideError
from dpublish.noise.base import BoundedScores, ChoiceRule, IntArray
from dpublish.noise.kernels.race import sieve_groups
from dpublish.noise.lazy import FloatArray, LazyUniforms, fraction_bounds
from dpublish.noise.select import RULES, in_float_range, key_bounds, settle
from dpublish.noise.words import WordStream

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

    def gaps(values: IntArray) -> FloatArray:
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
