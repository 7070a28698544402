"""Exact geometric draws: tails of the discrete Laplace law, and which of very many trials succeed.

G counts failures before a success, P(G >= g) = exp(-rate g). The rate may be any positive number
that can be enclosed in a ball, such as -log(1 - p) for the probability p that noise passes a
threshold. Values are saturated at 2^63: what is returned has the law of min(G, 2^63), exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from dpublish.compiled import njit
from dpublish.errors import InputError
from dpublish.noise.alias import CHUNK, AliasTable
from dpublish.noise.balls import Ball, fraction_ball, uniform_is_below
from dpublish.noise.words import WordStream

SATURATED = 1 << 63
MAX_TRIALS = 1 << 63

_SYMBOLS = 510
_MAX_SHIFT = 62

# What became of a draw that is not finished; DONE is never stored.
REDRAW = 1
OVERFLOW = 2
UNDECIDED = 3

# The low bits of the first word decide acceptance; the high ones choose the table's symbol.
ACCEPT_BITS = 24
# Bound on the error of `exp_below` and of its argument; see geometric.proof.md. Powers of two keep
# the tests exact.
GUARD = 2.0**-36

_ACCEPT_MASK = np.uint64((1 << ACCEPT_BITS) - 1)
_UNIT = 2.0**-ACCEPT_BITS

_TABLE_BITS = 64 - ACCEPT_BITS
# The kernel's argument rate * low may be off by this much; geometric.proof.md adds it to the
# polynomial's own error.
_RATE_ERROR = Fraction(1, 1 << 44)


class GeometricSampler:
    """Draws min(G, 2^63) for one rate.

    G = V 2^shift + U with V geometric from a table and U uniform below 2^shift, accepted with
    probability exp(-rate U); shift is chosen so that rate 2^shift <= 1/32 and nearly every U is
    accepted. `table_bits` is lowered by tests, to make the residual branch common.
    """

    def __init__(self, rate: Ball, *, table_bits: int = _TABLE_BITS) -> None:
        if not 1 <= table_bits <= _TABLE_BITS:
            raise InputError(f"A geometric table uses 1 to {_TABLE_BITS} bits of a word.")
        self.rate = rate
        self.shift = _choose_shift(rate)
        self.table = AliasTable(self._law, bits=table_bits)
        self.step = min(_SYMBOLS << self.shift, SATURATED)
        self.rate_float = _certified_float(rate, self.shift)

    def _law(self) -> Sequence[arb]:
        """P(V = v) for v < 510, then P(V >= 510)."""
        exponent = self.rate() * arb(1 << self.shift)
        ratio, success = (-exponent).exp(), -(-exponent).expm1()
        power, law = arb(1), []
        for _ in range(_SYMBOLS):
            law.append(power * success)
            power *= ratio
        return [*law, power]

    def draw(self, stream: WordStream, size: int) -> NDArray[np.uint64]:
        """Independent draws of min(G, 2^63)."""
        out, places, outcomes = self._attempt(stream, size)
        offsets = np.zeros(places.size, dtype=np.uint64)
        saturated = np.uint64(SATURATED)
        while places.size:
            # The law is memoryless: given an overflow, what is beyond the table is a fresh draw.
            step = np.where(outcomes == OVERFLOW, np.uint64(self.step), np.uint64(0))
            offsets += np.minimum(step, saturated - offsets)
            full = offsets == saturated
            out[places[full]] = saturated
            places, offsets = places[~full], offsets[~full]
            values, again, outcomes = self._attempt(stream, places.size)
            done = np.ones(places.size, dtype=np.bool_)
            done[again] = False
            out[places[done]] = offsets[done] + np.minimum(values[done], saturated - offsets[done])
            places, offsets = places[again], offsets[again]
        return out

    def _attempt(
        self, stream: WordStream, size: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint8]]:
        """One attempt each: values, then the places that must be drawn again and whether they
        rejected or overflowed."""
        out = np.empty(size, dtype=np.uint64)
        width = min(size, CHUNK // 2)
        words = np.empty(2 * width, dtype=np.uint64)
        places, outcomes = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.uint8)
        all_places: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
        all_outcomes: list[NDArray[np.uint8]] = [np.empty(0, dtype=np.uint8)]
        table = self.table
        for start in range(0, size, max(width, 1)):
            part = out[start : start + width]
            used = words[: 2 * part.size]
            stream.fill(used)
            found = geometric_values(
                used,
                table.thresholds,
                table.aliases,
                table.columns_log2,
                _SYMBOLS,
                self.shift,
                self.rate_float,
                part,
                places,
                outcomes,
            )
            for k in np.flatnonzero(outcomes[:found] == UNDECIDED):
                place = int(places[k])
                outcomes[k], value = self._decide(
                    stream, int(used[2 * place]), int(used[2 * place + 1])
                )
                part[place] = value
            open_ = outcomes[:found] != 0
            all_places.append(places[:found][open_] + start)
            all_outcomes.append(outcomes[:found][open_])
        return out, np.concatenate(all_places), np.concatenate(all_outcomes)

    def _decide(self, stream: WordStream, first: int, second: int) -> tuple[int, int]:
        """What the kernel could not decide from these words, decided exactly: outcome (0 when done)
        and value."""
        low = second >> (64 - self.shift)
        if self.shift and not uniform_is_below(
            stream,
            first & ((1 << ACCEPT_BITS) - 1),
            ACCEPT_BITS,
            lambda: (-self.rate() * arb(low)).exp(),
        ):
            return REDRAW, 0
        symbol = self.table.symbol(stream, first)
        if symbol == _SYMBOLS:
            return OVERFLOW, 0
        return 0, min((symbol << self.shift) + low, SATURATED)


def _choose_shift(rate: Ball) -> int:
    """The largest shift up to 62 with rate 2^shift surely at most 1/32, or 0."""
    with ctx.workprec(128):
        value = rate()
        return max(
            (s for s in range(1, _MAX_SHIFT + 1) if value * arb(1 << s) <= arb(1) / 32), default=0
        )


def _certified_float(rate: Ball, shift: int) -> float:
    """A double close enough to the rate for the kernel; only used when shift > 0."""
    if shift == 0:
        return 0.0
    with ctx.workprec(128):
        value = rate()
        near = float(value)
        if not abs(value - arb(near)) * arb(1 << shift) <= fraction_ball(_RATE_ERROR):
            raise ArithmeticError("a rate cannot be represented")
        return near


@lru_cache(maxsize=64)
def geometric_sampler(rate: Fraction) -> GeometricSampler:
    """The sampler for a rational rate, kept because tables cost more than draws."""
    return GeometricSampler(lambda: fraction_ball(rate))


def pass_probability(scale: Fraction, threshold: int) -> arb:
    """P(X > threshold) for discrete Laplace X and threshold >= 0: r^(threshold+1) / (1 + r) with r
    = exp(-1/scale)."""
    inverse = fraction_ball(1 / scale)
    return (-inverse * arb(threshold + 1)).exp() / (1 + (-inverse).exp())


@lru_cache(maxsize=64)
def gap_sampler(scale: Fraction, threshold: int) -> GeometricSampler:
    """The sampler of how many cells in a row fail to pass the threshold."""
    return GeometricSampler(lambda: -(-pass_probability(scale, threshold)).log1p())


def tail(stream: WordStream, scale: Fraction, start: int, size: int) -> NDArray[np.int64]:
    """Draws of X given X >= start >= 1 for discrete Laplace X, saturated at 2^62: start plus a
    geometric draw."""
    if not 1 <= start <= 1 << 61:
        raise InputError("The start of a tail must lie between 1 and 2^61.")
    beyond = geometric_sampler(1 / scale).draw(stream, size)
    return np.minimum(beyond, np.uint64((1 << 62) - start)).astype(np.int64) + start


def survivors(
    stream: WordStream, trials: int, scale: Fraction, threshold: int
) -> NDArray[np.uint64]:
    """Sorted ranks of the successes among `trials` independent trials of probability P(X >
    threshold).

    Time and memory grow with the number of successes, not of trials.
    """
    if not 0 <= trials <= MAX_TRIALS:
        raise InputError("The number of trials must lie between 0 and 2^63.")
    if threshold < 0:
        raise InputError("The threshold must not be negative.")
    sampler = gap_sampler(scale, threshold)
    with ctx.workprec(64):
        probability = float(pass_probability(scale, threshold))
    parts = [np.empty(0, dtype=np.uint64)]
    position, end = np.uint64(0), np.uint64(trials)
    while position < end:
        # A little more than the expected number, so that one chunk usually suffices when there are
        # few.
        expected = float(end - position) * probability
        size = int(min(expected + 4 * expected**0.5 + 16, 4 * CHUNK))
        ranks = np.empty(size, dtype=np.uint64)
        found, position = walk_gaps(sampler.draw(stream, size), np.uint64(position), end, ranks)
        parts.append(ranks[:found])
    return np.concatenate(parts)


def ranks_to_cells(ranks: NDArray[np.uint64], occupied: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The cells that hold the given ranks among the cells outside `occupied`; all sorted."""
    out = np.empty(ranks.size, dtype=np.uint64)
    empty_cells(ranks, occupied, out)
    return out


# Sorted lists of cells: checks, ranks among the empty cells, and merging.


@njit(cache=True, nogil=True)
def cells_in_order(cells: NDArray[np.uint64], domain_size: np.uint64) -> bool:
    """Whether cells increase strictly and stay below `domain_size`."""
    for i in range(1, cells.size):
        if cells[i] <= cells[i - 1]:
            return False
    return cells.size == 0 or cells[cells.size - 1] < domain_size


@njit(cache=True, nogil=True)
def empty_cells(
    ranks: NDArray[np.uint64], occupied: NDArray[np.uint64], out: NDArray[np.uint64]
) -> None:
    """out[i] = the cell with ranks[i] empty cells before it; both inputs sorted."""
    passed = 0
    for i in range(ranks.size):
        cell = ranks[i] + np.uint64(passed)
        while passed < occupied.size and occupied[passed] <= cell:
            passed += 1
            cell += np.uint64(1)
        out[i] = cell


@njit(cache=True, nogil=True)
def merge_cells(
    first: NDArray[np.uint64],
    first_values: NDArray[np.int64],
    second: NDArray[np.uint64],
    second_values: NDArray[np.int64],
    cells: NDArray[np.uint64],
    values: NDArray[np.int64],
) -> None:
    """Merge two sorted lists of distinct cells with their values."""
    i = 0
    j = 0
    for k in range(cells.size):
        if j == second.size or (i < first.size and first[i] < second[j]):
            cells[k] = first[i]
            values[k] = first_values[i]
            i += 1
        else:
            cells[k] = second[j]
            values[k] = second_values[j]
            j += 1


@njit(cache=True, nogil=True)
def clamp_sums(values: NDArray[np.int64], limit: np.int64, noise: NDArray[np.int64]) -> None:
    """noise = clamp(clamp(values) + noise), in one pass: two calls of numpy's clip took longer than
    drawing the noise."""
    for i in range(noise.size):
        total = noise[i] + min(max(values[i], -limit), limit)
        noise[i] = min(max(total, -limit), limit)


# The compiled loops: draws in two levels, and the walk over gaps.
_SATURATED = np.uint64(1 << 63)


@njit(cache=True, nogil=True)
def exp_near_zero(x: float) -> float:
    """exp(-x) for 0 <= x <= 1/32 to within 2^-39, from additions and multiplications only."""
    return 1.0 - x * (1.0 - x * (1.0 / 2 - x * (1.0 / 6 - x * (1.0 / 24 - x * (1.0 / 120)))))


@njit(cache=True, nogil=True)
def _first_saturated(shift: int) -> int:
    """The least symbol whose values reach 2^63; 2^62, which is more than any symbol, where 2^63
    would not fit."""
    return 1 << min(62, 63 - shift)


@njit(cache=True, nogil=True)
def geometric_values(
    words: NDArray[np.uint64],
    thresholds: NDArray[np.uint64],
    aliases: NDArray[np.int32],
    columns_log2: int,
    overflow: int,
    shift: int,
    rate: float,
    out: NDArray[np.uint64],
    places: NDArray[np.int64],
    outcomes: NDArray[np.uint8],
) -> int:
    """One attempt per pair of words: out = symbol * 2^shift + low part, if the low part is
    accepted.

    Unfinished attempts are listed in `places` with their outcome; returns how many. The low part is
    tested first and whatever the symbol is, because a rejection must not depend on the symbol.
    """
    suspects = _plain_values(
        words, thresholds, aliases, columns_log2, overflow, shift, rate, out, places
    )
    table_shift = np.uint64(64 - columns_log2)
    mask = (np.uint64(1) << table_shift) - np.uint64(1)
    limit = _first_saturated(shift)
    found = 0
    for k in range(suspects):
        i = places[k]
        word = words[2 * i]
        low = np.uint64(0)
        places[found] = i
        if shift > 0:
            low = words[2 * i + 1] >> np.uint64(64 - shift)
            near = exp_near_zero(rate * np.float64(low))
            level = np.float64(word & _ACCEPT_MASK) * _UNIT
            if level >= near + GUARD:
                outcomes[found] = REDRAW
                found += 1
                continue
            if level + _UNIT > near - GUARD:
                outcomes[found] = UNDECIDED
                found += 1
                continue
        column = word >> table_shift
        symbol = (
            np.int64(column) if (word & mask) < thresholds[column] else np.int64(aliases[column])
        )
        if symbol >= overflow:
            outcomes[found] = OVERFLOW if symbol == overflow else UNDECIDED
            found += 1
        elif symbol >= limit:
            out[i] = _SATURATED
        else:
            out[i] = (np.uint64(symbol) << np.uint64(shift)) + low
    return found


@njit(cache=True, nogil=True)
def _plain_values(
    words: NDArray[np.uint64],
    thresholds: NDArray[np.uint64],
    aliases: NDArray[np.int32],
    columns_log2: int,
    overflow: int,
    shift: int,
    rate: float,
    out: NDArray[np.uint64],
    suspects: NDArray[np.int64],
) -> int:
    """Write every value as if its low part were accepted; list the draws for which that is not
    certain.

    exp(-x) >= 1 - x accepts nearly every draw. There is no branch here: one on random bits costs
    more than the rest.
    """
    table_shift = np.uint64(64 - columns_log2)
    mask = (np.uint64(1) << table_shift) - np.uint64(1)
    low_shift = np.uint64(64 - shift if shift > 0 else 0)
    low_mask = (np.uint64(1) << np.uint64(shift)) - np.uint64(1)
    bound = min(overflow, _first_saturated(shift))
    certain = 1.0 - _UNIT - GUARD
    found = 0
    for i in range(out.size):
        word = words[2 * i]
        column = word >> table_shift
        alias = np.int64(aliases[column])
        symbol = np.int64(column) if (word & mask) < thresholds[column] else alias
        low = (words[2 * i + 1] >> low_shift) & low_mask
        # Signed conversions are one instruction; both numbers are below 2^63.
        x = rate * np.float64(np.int64(low))
        level = np.float64(np.int64(word & _ACCEPT_MASK)) * _UNIT
        out[i] = (np.uint64(symbol) << np.uint64(shift)) + low
        suspects[found] = i
        found += int((level + x > certain) | (symbol >= bound))
    return found


@njit(cache=True, nogil=True)
def walk_gaps(
    gaps: NDArray[np.uint64], position: np.uint64, trials: np.uint64, out: NDArray[np.uint64]
) -> tuple[int, np.uint64]:
    """Ranks of successes from failure counts between them; returns how many and the next rank to
    try (`trials` at the end)."""
    found = 0
    for i in range(gaps.size):
        gap = gaps[i]
        if gap >= trials - position:
            return found, trials
        position += gap
        out[found] = position
        found += 1
        position += np.uint64(1)
    return found, position
